//! Serves one client on this process's pipes.

use std::io;

use rmcp::ServerHandler;
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};

use super::lines::Lines;

/// Why serving ended.
#[derive(Debug)]
pub enum End {
    /// The client closed its side, or no longer reads.
    Closed,
    /// The server failed.
    Fault(String),
}

/// Serves until the client is gone. Invalid messages before `initialize` do not end it.
pub async fn stdio(handler: impl ServerHandler + Clone) -> io::Result<End> {
    let lines = Lines::stdio()?;
    let unread = lines.clone();
    tokio::select! {
        end = serve(handler, lines) => Ok(end),
        () = unread.unread() => Ok(End::Closed),
    }
}

async fn serve(handler: impl ServerHandler + Clone, lines: Lines) -> End {
    loop {
        let running = match serve_server(handler.clone(), lines.clone()).await {
            Ok(running) => running,
            Err(ServerInitializeError::ConnectionClosed(_)) => return End::Closed,
            Err(ServerInitializeError::TransportError { .. }) => return End::Closed,
            // An unexpected or rejected first message was answered with an error. The next one may
            // be valid.
            Err(_) => continue,
        };
        return match running.waiting().await {
            Ok(QuitReason::JoinError(error)) | Err(error) => End::Fault(error.to_string()),
            Ok(_) => End::Closed,
        };
    }
}
