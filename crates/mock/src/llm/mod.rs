//! The mock model: an HTTP server on a loopback address that replies according to a script.
//!
//! Agents can be tested with it without a key, without a network, and with the same replies each
//! time. It implements Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini
//! generateContent, with and without streaming. It logs every request.

mod dialects;
mod log;
mod plan;
mod read;
mod request;
mod script;
mod serve;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

pub use log::{LoggedRequest, RequestLog};
pub use plan::NO_TOOL;
pub use read::{FORMAT, parse};
pub use request::{ChatMessage, ChatRole, Dialect, Media};
pub use script::Script;

use serve::ModelHandler;

/// Maximum number of open connections. Further connections wait.
const MAX_CONNECTIONS: usize = 256;

/// Running mock model. Dropping it closes every connection.
pub struct ModelServer {
    address: SocketAddr,
    log: RequestLog,
    accepting: JoinHandle<()>,
}

impl ModelServer {
    /// Starts on any free port.
    pub async fn start(script: Script) -> io::Result<ModelServer> {
        ModelServer::start_at(script, 0).await
    }

    /// Starts on the given port of 127.0.0.1. Port 0 means any free port.
    pub async fn start_at(script: Script, port: u16) -> io::Result<ModelServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let log = RequestLog::new();
        let handler = Arc::new(ModelHandler::new(script, log.clone()));
        let accepting = tokio::spawn(accept(listener, handler));
        Ok(ModelServer {
            address,
            log,
            accepting,
        })
    }

    /// `http://127.0.0.1:PORT`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Log of all requests.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until it is aborted, which also aborts the connections in its `JoinSet`.
async fn accept(listener: TcpListener, handler: Arc<ModelHandler>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = Arc::clone(&handler);
                connections.spawn(async move {
                    handler.serve(stream).await;
                    drop(permit);
                });
            }
            // Most likely the process has run out of file descriptors. Wait until some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
