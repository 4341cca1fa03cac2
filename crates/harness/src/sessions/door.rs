//! The MCP server of a host over stdin and stdout, as a client starts it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::context::{ProbeContext, read_json};
use crate::run::process::Program;
use agentproto_sandbox::spawn::Piece;
use agentproto_wire::Direction;

/// Maximum number of lines that wait to be read.
const MAX_QUEUED: usize = 256;

type Opening = Pin<Box<dyn Future<Output = Result<StdioPipes, String>> + Send>>;

/// How to start the MCP server of a host.
#[derive(Clone)]
pub struct McpDoor(Arc<dyn Fn(PathBuf) -> Opening + Send + Sync>);

impl fmt::Debug for McpDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("McpDoor")
    }
}

/// The standard streams of a started server.
pub struct StdioPipes {
    /// Its stdin.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// The lines of its stdout.
    pub lines: mpsc::Receiver<Vec<u8>>,
    /// The task that reads it. The server ends with it.
    pub reader: AbortHandle,
}

impl Drop for StdioPipes {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl McpDoor {
    /// A server that this function starts in a directory.
    pub fn new(open: impl Fn(PathBuf) -> Opening + Send + Sync + 'static) -> McpDoor {
        McpDoor(Arc::new(open))
    }

    /// A server that a command line starts.
    pub fn command(line: &str) -> Result<McpDoor, String> {
        let words = shell_words::split(line).map_err(|error| error.to_string())?;
        let argv = words.into_iter().map(Into::into).collect();
        let program = Program::new(argv, &[]).map_err(|error| error.to_string())?;
        Ok(McpDoor::new(move |cwd| {
            Box::pin(start(program.clone(), cwd))
        }))
    }
}

async fn start(program: Program, cwd: PathBuf) -> Result<StdioPipes, String> {
    let mut process = program
        .start(&cwd, &[])
        .await
        .map_err(|error| error.to_string())?;
    let input = process.stdin.take();
    let input = input.ok_or_else(|| "the MCP server has no stdin".to_owned())?;
    let (to, lines) = mpsc::channel(MAX_QUEUED);
    let reader = tokio::spawn(async move {
        // The whole process, which ends with the task.
        let mut process = process;
        while let Some(piece) = process.stdout.next().await {
            let line = match piece {
                Piece::Line { bytes, .. } => bytes,
                Piece::TooLong { start, .. } => start,
                Piece::Gap { .. } => return,
            };
            if to.send(line).await.is_err() {
                return;
            }
        }
    });
    Ok(StdioPipes {
        input: Box::new(input),
        lines,
        reader: reader.abort_handle(),
    })
}

/// A connection to a started server.
pub struct StdioConnection(StdioPipes);

impl StdioConnection {
    /// Starts the server of a host. `None` if the caller has not named one.
    pub async fn open(probe: &ProbeContext<'_>) -> Option<Result<StdioConnection, String>> {
        let door = probe.subject.host.door.clone()?;
        let directory: &Path = &probe.root;
        let opening = tokio::time::timeout(probe.response_limit(), (door.0)(directory.to_owned()));
        Some(match opening.await {
            Ok(opened) => opened.map(StdioConnection),
            Err(_) => Err("the MCP server was not started in time".to_owned()),
        })
    }

    /// Sends a line. Returns its place in the transcript.
    pub async fn send(&mut self, probe: &ProbeContext<'_>, line: &[u8]) -> Result<u64, String> {
        let place = probe.log.push_short(Direction::ToAgent, line);
        let written = async {
            self.0.input.write_all(line).await?;
            self.0.input.write_all(b"\n").await?;
            self.0.input.flush().await
        };
        match tokio::time::timeout(probe.response_limit(), written).await {
            Ok(Ok(())) => Ok(place),
            Ok(Err(error)) => Err(format!("the MCP server does not read its stdin: {error}")),
            Err(_) => Err("the MCP server does not read its stdin".to_owned()),
        }
    }

    /// The next line and its place in the transcript, or `None` at the end of the output or of the
    /// time.
    pub async fn line(
        &mut self,
        probe: &ProbeContext<'_>,
        until: Instant,
    ) -> Option<(Vec<u8>, u64)> {
        let line = tokio::time::timeout_at(until, self.0.lines.recv()).await;
        let line = line.ok().flatten()?;
        let place = probe.log.push_short(Direction::FromAgent, &line);
        Some((line, place))
    }

    /// The response to a request. Lines that are not messages are skipped.
    pub async fn response(
        &mut self,
        probe: &ProbeContext<'_>,
        id: u64,
        limit: Duration,
    ) -> Option<(Value, u64)> {
        let until = Instant::now() + limit;
        loop {
            let (line, place) = self.line(probe, until).await?;
            match read_json(&line) {
                Ok(message) if message["id"] == id && message.get("method").is_none() => {
                    return Some((message, place));
                }
                _ => {}
            }
        }
    }
}
