//! The mock model: an HTTP server on a loopback address that replies according to a script.
//!
//! Agents can be tested with it without a key, without a network, and with the same replies each
//! time. It implements Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini
//! generateContent, with and without streaming. It logs every request.

mod ask;
mod dialects;
mod log;
mod plan;
mod read;
mod script;
mod serve;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

pub use ask::{Dialect, Role, Said};
pub use log::{Asked, Log};
pub use plan::NO_TOOL;
pub use read::{FORMAT, parse};
pub use script::Script;

use serve::Desk;

/// Maximum number of open connections. Further connections wait.
const MOST_CONNECTIONS: usize = 256;

/// Running mock model. Dropping it closes every connection.
pub struct Server {
    address: SocketAddr,
    log: Log,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts on any free port.
    pub async fn start(script: Script) -> io::Result<Server> {
        Server::start_at(script, 0).await
    }

    /// Starts on the given port of 127.0.0.1. Port 0 means any free port.
    pub async fn start_at(script: Script, port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let log = Log::new();
        let desk = Arc::new(Desk::new(script, log.clone()));
        let accepting = tokio::spawn(accept(listener, desk));
        Ok(Server {
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
    pub fn log(&self) -> &Log {
        &self.log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts connections until it is aborted, which also aborts the connections in its `JoinSet`.
async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                connections.spawn(async move {
                    desk.serve(stream).await;
                    drop(place);
                });
            }
            // Most likely the process has run out of file descriptors. Wait until some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
