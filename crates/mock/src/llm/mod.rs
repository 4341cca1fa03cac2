//! A model that says what a script says, on a loopback address: what agents need to be tried
//! without a key, without a network and with the same words each time.
//!
//! It speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini
//! generateContent, streamed and in one piece, and keeps a log of what it was asked.

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

/// More connections than this wait for one to end.
const MOST_CONNECTIONS: usize = 256;

/// A running model. Dropping it ends every connection.
pub struct Server {
    address: SocketAddr,
    log: Log,
    accepting: JoinHandle<()>,
}

impl Server {
    /// On any free port.
    pub async fn start(script: Script) -> io::Result<Server> {
        Server::start_at(script, 0).await
    }

    /// On this port of 127.0.0.1; 0 is any.
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

    /// `http://127.0.0.1:PORT`, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn log(&self) -> &Log {
        &self.log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Takes connections until it is aborted; the set that it owns then aborts them too.
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
            // Out of descriptors, most likely: some come back.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
