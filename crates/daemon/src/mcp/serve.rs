//! One client on this process's pipes, from its first line to its last.

use std::io;

use rmcp::ServerHandler;
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};

use super::lines::Lines;

/// Why it is over.
#[derive(Debug)]
pub enum End {
    /// The client closed its side, or does not read any more.
    Closed,
    /// The server broke.
    Fault(String),
}

/// Serves until the client goes. What it sends before it begins is no reason to go.
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
            // Out of turn, or refused and told so: the next message may be right.
            Err(_) => continue,
        };
        return match running.waiting().await {
            Ok(QuitReason::JoinError(error)) | Err(error) => End::Fault(error.to_string()),
            Ok(_) => End::Closed,
        };
    }
}
