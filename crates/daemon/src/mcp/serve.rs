//! Serves one client on this process's pipes, or on other streams.

use std::io::{self, Read, Write};

use rmcp::ServerHandler;
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};

use super::stdio_transport::StdioTransport;

/// Why serving ended.
#[derive(Debug)]
pub enum ServeEnd {
    /// The client closed its side, or no longer reads.
    Closed,
    /// The server failed.
    Failed(String),
}

/// Serves until the client is gone. Invalid messages before `initialize` do not end it.
pub async fn stdio(handler: impl ServerHandler + Clone) -> io::Result<ServeEnd> {
    until_closed(handler, StdioTransport::stdio()?).await
}

/// The same on other streams.
pub async fn streams(
    handler: impl ServerHandler + Clone,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> io::Result<ServeEnd> {
    until_closed(handler, StdioTransport::over(input, output)?).await
}

async fn until_closed(
    handler: impl ServerHandler + Clone,
    transport: StdioTransport,
) -> io::Result<ServeEnd> {
    let output = transport.clone();
    tokio::select! {
        end = serve(handler, transport) => Ok(end),
        () = output.closed() => Ok(ServeEnd::Closed),
    }
}

async fn serve(handler: impl ServerHandler + Clone, transport: StdioTransport) -> ServeEnd {
    loop {
        let running = match serve_server(handler.clone(), transport.clone()).await {
            Ok(running) => running,
            Err(ServerInitializeError::ConnectionClosed(_)) => return ServeEnd::Closed,
            Err(ServerInitializeError::TransportError { .. }) => return ServeEnd::Closed,
            // An unexpected or rejected first message was answered with an error. The next one may
            // be valid.
            Err(_) => continue,
        };
        return match running.waiting().await {
            Ok(QuitReason::JoinError(error)) | Err(error) => ServeEnd::Failed(error.to_string()),
            Ok(_) => ServeEnd::Closed,
        };
    }
}
