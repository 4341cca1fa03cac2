//! The agent's stdin, shared by several writers.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, watch};

/// Writes whole lines, one at a time. Clones write to the same pipe.
#[derive(Clone)]
pub struct Input {
    pipe: Arc<Mutex<Option<pipe::Sender>>>,
    closed: Arc<watch::Sender<bool>>,
}

impl Input {
    pub fn new(pipe: pipe::Sender) -> Self {
        Input {
            pipe: Arc::new(Mutex::new(Some(pipe))),
            closed: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Writes bytes and a line feed. Waits while the agent does not read, until `close`.
    pub async fn line(&self, mut bytes: Vec<u8>) -> io::Result<()> {
        bytes.push(b'\n');
        self.bytes(bytes).await
    }

    /// Writes bytes without a line feed.
    pub async fn bytes(&self, bytes: Vec<u8>) -> io::Result<()> {
        let mut closed = self.closed.subscribe();
        // Runs in its own task, so that a dropped caller does not leave half a line behind.
        let pipe = Arc::clone(&self.pipe);
        let writing = tokio::spawn(async move {
            let mut pipe = pipe.lock().await;
            let written = match pipe.as_mut() {
                None => return Err(broken_pipe()),
                Some(open) => tokio::select! {
                    biased;
                    written = open.write_all(&bytes) => written,
                    _ = closed.wait_for(|closed| *closed) => Err(broken_pipe()),
                },
            };
            if written.is_err() {
                *pipe = None;
            }
            written
        });
        writing.await.unwrap_or_else(|_| Err(broken_pipe()))
    }

    /// Whether it was closed by this side.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Closes the pipe, even during a write.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        *self.pipe.lock().await = None;
    }
}

fn broken_pipe() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
