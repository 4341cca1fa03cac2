//! The agent's standard input, shared by whoever writes to it.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, watch};

/// Whole lines, one after the other. Clones write to the same pipe.
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

    /// Writes bytes and a line feed. An agent that does not read holds it up until `close`.
    pub async fn line(&self, mut bytes: Vec<u8>) -> io::Result<()> {
        bytes.push(b'\n');
        self.bytes(bytes).await
    }

    /// Writes bytes as they are.
    pub async fn bytes(&self, bytes: Vec<u8>) -> io::Result<()> {
        let mut closed = self.closed.subscribe();
        // In a task of its own: a caller that is dropped must not leave half a line behind.
        let pipe = Arc::clone(&self.pipe);
        let writing = tokio::spawn(async move {
            let mut pipe = pipe.lock().await;
            let written = match pipe.as_mut() {
                None => return Err(gone()),
                Some(open) => tokio::select! {
                    biased;
                    written = open.write_all(&bytes) => written,
                    _ = closed.wait_for(|closed| *closed) => Err(gone()),
                },
            };
            if written.is_err() {
                *pipe = None;
            }
            written
        });
        writing.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Whether it was closed from here.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// End of input, even where somebody is still writing.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        *self.pipe.lock().await = None;
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
