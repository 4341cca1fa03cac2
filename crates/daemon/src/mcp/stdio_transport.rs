//! MCP over stdin and stdout: one message per line, with a limited length. A line that is not a
//! message gets a JSON-RPC 2.0 error. Nothing else is written to stdout.
//!
//! Reading and writing have their own threads, because standard streams may also be files or
//! terminals. No async task waits for a client that does not read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use agentproto_sandbox::spawn::{Bounds, LineSplitter, Piece};
use parking_lot::Mutex;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Maximum length of a message in bytes, the same as for a body over HTTP.
const MAX_MESSAGE: usize = super::MAX_BODY;
/// Number of bytes read at a time.
const CHUNK: usize = 8 << 10;
/// Maximum number of queued messages in each direction.
const MAX_QUEUED: usize = 64;
/// Maximum number of unanswered requests. A client that does not read the responses has to wait.
const MAX_REQUESTS: usize = 64;

type Message = RxJsonRpcMessage<RoleServer>;

/// The transport for rmcp. A clone continues to read where the original stopped.
#[derive(Clone)]
pub struct StdioTransport {
    messages: Arc<tokio::sync::Mutex<mpsc::Receiver<Message>>>,
    out: Out,
    open: OpenRequests,
}

/// Unanswered requests with their permits.
#[derive(Clone, Default)]
struct OpenRequests(Arc<Mutex<HashMap<RequestId, OwnedSemaphorePermit>>>);

impl OpenRequests {
    fn add(&self, id: RequestId, permit: OwnedSemaphorePermit) {
        let mut open = self.0.lock();
        open.insert(id, permit);
    }

    /// Called when a request was answered or canceled.
    fn close(&self, id: &RequestId) {
        let mut open = self.0.lock();
        open.remove(id);
    }
}

impl StdioTransport {
    /// Uses the standard streams of this process.
    pub fn stdio() -> io::Result<StdioTransport> {
        // Duplicated descriptors, so that no other lock or buffer interferes.
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        StdioTransport::over(input, output)
    }

    pub fn over(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<StdioTransport> {
        let (to, messages) = mpsc::channel(MAX_QUEUED);
        let out = Out::start(output)?;
        let open = OpenRequests::default();
        let reader = Reader {
            out: out.clone(),
            open: open.clone(),
            permits: Arc::new(Semaphore::new(MAX_REQUESTS)),
            to,
            runtime: tokio::runtime::Handle::current(),
        };
        std::thread::Builder::new()
            .name("mcp-in".to_owned())
            .spawn(move || reader.read(input))?;
        Ok(StdioTransport {
            messages: Arc::new(tokio::sync::Mutex::new(messages)),
            out,
            open,
        })
    }

    /// Returns when the client no longer reads.
    pub async fn closed(&self) {
        self.out.0.closed().await;
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let (out, open) = (self.out.clone(), self.open.clone());
        async move {
            let written = out.write(serde_json::to_vec(&item)?).await;
            if let Some(id) = answered {
                open.close(&id);
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<Message> {
        self.messages.lock().await.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        // A later clone may continue. The streams close with the process.
        Ok(())
    }
}

/// The writer. Writes whole lines, one at a time.
#[derive(Clone)]
struct Out(mpsc::Sender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>);

impl Out {
    fn start(mut output: impl Write + Send + 'static) -> io::Result<Out> {
        let (to, mut lines) =
            mpsc::channel::<(Vec<u8>, oneshot::Sender<io::Result<()>>)>(MAX_QUEUED);
        std::thread::Builder::new()
            .name("mcp-out".to_owned())
            .spawn(move || {
                while let Some((mut line, done)) = lines.blocking_recv() {
                    line.push(b'\n');
                    let written = output.write_all(&line).and_then(|()| output.flush());
                    let is_broken = written.is_err();
                    let _ = done.send(written);
                    if is_broken {
                        return;
                    }
                }
            })?;
        Ok(Out(to))
    }

    async fn write(&self, line: Vec<u8>) -> io::Result<()> {
        let broken_pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (done, written) = oneshot::channel();
        self.0.send((line, done)).await.map_err(|_| broken_pipe())?;
        written.await.map_err(|_| broken_pipe())?
    }
}

/// The part of a message that is known before it is fully parsed.
#[derive(Deserialize)]
struct Envelope<'l> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'l RawValue>,
}

/// A null id is also present.
fn present<'l, D: Deserializer<'l>>(value: D) -> Result<Option<&'l RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl<'l> Envelope<'l> {
    fn id(line: &'l [u8]) -> Option<&'l RawValue> {
        serde_json::from_slice::<Envelope>(line).ok()?.id
    }
}

struct Reader {
    out: Out,
    open: OpenRequests,
    permits: Arc<Semaphore>,
    to: mpsc::Sender<Message>,
    runtime: tokio::runtime::Handle,
}

impl Reader {
    /// Reads until the client closes its side, or the receiver is gone.
    fn read(self, mut input: impl Read) {
        let mut splitter = splitter();
        let mut buffer = vec![0; CHUNK];
        let mut pieces = Vec::new();
        loop {
            let read = match input.read(&mut buffer) {
                // A rest without a line feed is not a message.
                Ok(0) => return,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let bytes = buffer.get(..read).unwrap_or_default();
            splitter.take(bytes, |piece| pieces.push(piece));
            if !pieces.drain(..).all(|piece| self.piece(&piece)) {
                return;
            }
        }
    }

    fn piece(&self, piece: &Piece) -> bool {
        match piece {
            Piece::Line { bytes, .. } => self.line(bytes),
            Piece::TooLong { .. } | Piece::Gap { .. } => self.refuse(
                "null",
                -32600,
                &format!("a message is longer than {} MiB", MAX_MESSAGE >> 20),
                "put large content into a file in the workspace, and name the file in the prompt",
            ),
        }
    }

    fn line(&self, line: &[u8]) -> bool {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let line = line.trim_ascii();
        if line.is_empty() {
            return true;
        }
        match serde_json::from_slice::<Message>(line) {
            // With an invalid id, it is a request that cannot be answered.
            Ok(JsonRpcMessage::Notification(_)) if Envelope::id(line).is_some() => {
                self.unreadable(line)
            }
            Ok(message) => self.forward(message),
            Err(_) => self.unreadable(line),
        }
    }

    fn forward(&self, message: Message) -> bool {
        match &message {
            JsonRpcMessage::Request(request) => {
                let permit = self.runtime.block_on(self.permits.clone().acquire_owned());
                let Ok(permit) = permit else { return false };
                self.open.add(request.id.clone(), permit);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.close(id);
                }
            }
            _ => {}
        }
        self.to.blocking_send(message).is_ok()
    }

    /// Responds to a line that is not an MCP message, so that the client does not wait for a
    /// response.
    fn unreadable(&self, line: &[u8]) -> bool {
        let no_message = |id: &str, what: &str| {
            let hint = "send `jsonrpc` \"2.0\", a `method`, and an `id` if you expect a response";
            self.refuse(id, -32600, what, hint)
        };
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            let hint = "send each message as one line of JSON";
            return self.refuse("null", -32700, "the line is not valid JSON", hint);
        };
        if value.is_array() {
            let what = "batches are not supported: send one message per line";
            let hint = "send each message on its own line";
            return self.refuse("null", -32600, what, hint);
        }
        match Envelope::id(line) {
            Some(id) if value["id"].is_string() || value["id"].is_number() => {
                no_message(id.get(), "not a JSON-RPC 2.0 request")
            }
            None if value["method"].is_string() => true,
            _ => no_message("null", "not a JSON-RPC 2.0 message"),
        }
    }

    fn refuse(&self, id: &str, code: i32, message: &str, hint: &str) -> bool {
        let error = json!({ "code": code, "message": message, "data": { "hint": hint } });
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        let written = self.runtime.block_on(self.out.write(answer.into_bytes()));
        written.is_ok()
    }
}

/// Splits input into lines up to the maximum length.
fn splitter() -> LineSplitter {
    LineSplitter::new(Bounds {
        line: MAX_MESSAGE,
        ..Bounds::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<String> {
        let (mut splitter, mut seen) = (splitter(), Vec::new());
        for bytes in text.chunks(7) {
            splitter.take(bytes, |piece| {
                seen.push(match piece {
                    Piece::Line { bytes, .. } => String::from_utf8_lossy(&bytes).into_owned(),
                    _ => "too long".to_owned(),
                });
            });
        }
        seen
    }

    #[test]
    fn only_complete_lines_are_returned() {
        assert_eq!(all(b"one\n\ntwo two two\nrest"), ["one", "", "two two two"]);
        let mut long = vec![b'x'; MAX_MESSAGE + 1];
        long.extend_from_slice(b"\nnext\n");
        assert_eq!(all(&long), ["too long", "next"]);
        let mut most = vec![b'y'; MAX_MESSAGE];
        most.push(b'\n');
        assert_eq!(all(&most).first().map(String::len), Some(MAX_MESSAGE));
    }
}
