//! One side of a newline-delimited JSON-RPC connection on stdin and stdout.
//!
//! Messages are built by hand as JSON values. Any thread can write them, one whole line at a time.
//! The `wire` module applies variants and mutants to them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::layers::MessageLayers;
use crate::mutants::Tamper;
use crate::variants::Serialization;

/// Maximum length of a line in bytes. A longer line is answered with a parse error, and the rest of
/// it is skipped.
const MAX_LINE_BYTES: u64 = 256 << 20;

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;

/// JSON-RPC error of a response.
#[derive(Clone, Debug)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
    pub fn params(message: impl Into<String>) -> Self {
        RpcError::new(INVALID_PARAMS, message)
    }
    pub fn unknown(method: &str) -> Self {
        RpcError::new(METHOD_NOT_FOUND, format!("unknown method {method}"))
            .data(json!({ "method": method }))
    }
}

pub type RpcResult = Result<Value, RpcError>;

/// Signal to a waiting turn.
#[derive(Debug)]
pub enum TurnSignal {
    /// Response of the peer to one of our requests.
    Reply(u64, Result<Value, Value>),
    /// The turn was canceled.
    Cancel,
    /// The request that started the turn was canceled.
    CancelRequest,
}

#[derive(Debug, PartialEq)]
pub enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Response {
        id: Value,
        outcome: Result<Value, Value>,
    },
    Invalid {
        id: Value,
        code: i64,
        message: &'static str,
    },
}

/// How long a response is held back, so that later ones can overtake it.
const REORDER_DELAY: Duration = Duration::from_millis(40);

pub struct RpcPeer {
    wire: Arc<Mutex<MessageLayers>>,
    pending: Mutex<PendingRequests>,
}

#[derive(Default)]
struct PendingRequests {
    last: u64,
    turns: HashMap<u64, Sender<TurnSignal>>,
}

impl RpcPeer {
    pub fn new(layers: &[&'static Tamper], serialization: Serialization) -> io::Result<RpcPeer> {
        // Use our own handle, because the command line keeps the standard one locked.
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(RpcPeer {
            wire: Arc::new(Mutex::new(MessageLayers::new(
                File::from(out),
                layers,
                serialization,
            ))),
            pending: Mutex::new(PendingRequests::default()),
        })
    }

    pub fn respond(&self, id: &Value, answer: RpcResult) {
        let message = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(rpc_error) => {
                let mut error = json!({ "code": rpc_error.code, "message": rpc_error.message });
                if let (Some(data), Some(map)) = (rpc_error.data, error.as_object_mut()) {
                    map.insert("data".to_owned(), data);
                }
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        self.send(message);
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request. Its response is sent to `turn`, or dropped if there is none.
    pub fn request(&self, method: &str, params: Value, turn: Option<&Sender<TurnSignal>>) -> u64 {
        let id = {
            let mut pending = self.pending.lock();
            pending.last += 1;
            let id = pending.last;
            if let Some(turn) = turn {
                pending.turns.insert(id, turn.clone());
            }
            id
        };
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Delivers a response. A response that no turn waits for is ignored.
    pub fn handle_response(&self, id: &Value, outcome: Result<Value, Value>) {
        let Some(id) = id.as_u64() else { return };
        let turn = self.pending.lock().turns.remove(&id);
        if let Some(turn) = turn {
            let _ = turn.send(TurnSignal::Reply(id, outcome));
        }
    }

    fn send(&self, message: Value) {
        if self.wire.lock().send(message) {
            let wire = Arc::clone(&self.wire);
            std::thread::spawn(move || {
                std::thread::sleep(REORDER_DELAY);
                wire.lock().release();
            });
        }
    }

    /// Changes a request to the model as the mutant or variant requires.
    pub fn edit_model_request(&self, body: &mut Value) {
        self.wire.lock().edit_model_request(body);
    }

    /// Writes raw bytes, for faults on the wire.
    pub fn raw(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let mut wire = self.wire.lock();
        // Ignore write errors: a client that has exited also closes our stdin.
        let _ = write(&mut wire.out);
    }

    /// Reads messages until stdin ends. Answers invalid messages itself.
    pub fn serve(&self, mut handle: impl FnMut(Incoming)) -> io::Result<()> {
        let own = io::stdin().as_fd().try_clone_to_owned()?;
        let mut input = BufReader::new(File::from(own));
        loop {
            let mut line = Vec::new();
            let length = input
                .by_ref()
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)?;
            if length == 0 {
                self.wire.lock().end_of_input();
                return Ok(());
            }
            if !line.ends_with(b"\n") && length as u64 == MAX_LINE_BYTES {
                input.skip_until(b'\n')?;
                line.clear();
                line.push(b'{');
            }
            let more = !input.buffer().is_empty();
            match self.read(line, more) {
                None => {}
                Some(Incoming::Invalid { id, code, message }) => {
                    self.respond(&id, Err(RpcError::new(code, message)));
                }
                Some(incoming) => handle(incoming),
            }
        }
    }

    fn read(&self, line: Vec<u8>, more: bool) -> Option<Incoming> {
        let mut wire = self.wire.lock();
        let line = wire.line(line, more)?;
        if line.trim_ascii().is_empty() {
            return None;
        }
        match serde_json::from_slice::<Value>(&line) {
            Ok(message) => wire.receive(message).map(classify),
            Err(_) => Some(Incoming::Invalid {
                id: Value::Null,
                code: PARSE_ERROR,
                message: "the line is not valid JSON",
            }),
        }
    }
}

/// Classifies a message according to JSON-RPC 2.0.
fn classify(message: Value) -> Incoming {
    let bad = |id: Value, message: &'static str| Incoming::Invalid {
        id,
        code: INVALID_REQUEST,
        message,
    };
    let Value::Object(mut map) = message else {
        return bad(Value::Null, "a message must be a JSON object");
    };
    let id = map.remove("id");
    let legal = match &id {
        None | Some(Value::Null | Value::String(_)) => true,
        Some(Value::Number(number)) => number.is_i64() || number.is_u64(),
        Some(_) => false,
    };
    if !legal {
        return bad(Value::Null, "`id` must be a string, an integer or null");
    }
    let echo = id.clone().unwrap_or(Value::Null);
    if map.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return bad(echo, "`jsonrpc` must be \"2.0\"");
    }
    match (map.remove("method"), id) {
        (Some(Value::String(method)), id) => {
            let params = map.remove("params").unwrap_or(Value::Null);
            match id {
                Some(id) => Incoming::Request { id, method, params },
                None => Incoming::Notification { method, params },
            }
        }
        (Some(_), _) => bad(echo, "`method` must be a string"),
        (None, Some(id)) => match (map.remove("result"), map.remove("error")) {
            (Some(result), None) => Incoming::Response {
                id,
                outcome: Ok(result),
            },
            (None, Some(error)) => Incoming::Response {
                id,
                outcome: Err(error),
            },
            _ => bad(echo, "a message must have a method, a result or an error"),
        },
        (None, None) => bad(echo, "a message must have a method, a result or an error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> &'static str {
        match classify(serde_json::from_str(text).unwrap()) {
            Incoming::Request { .. } => "request",
            Incoming::Notification { .. } => "notification",
            Incoming::Response { .. } => "response",
            Incoming::Invalid { .. } => "bad",
        }
    }

    #[test]
    fn messages_are_classified_by_their_members() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":0,"method":"x"}"#, "request"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "request"),
            (r#"{"jsonrpc":"2.0","method":"x"}"#, "notification"),
            (r#"{"jsonrpc":"2.0","id":"a","result":null}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, "response"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{},"result":1}"#, "bad"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "bad"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, "bad"),
            (r#"{"jsonrpc":"2.0","id":[],"method":"x"}"#, "bad"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, "bad"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "bad"),
            (r#"[]"#, "bad"),
            (r#"7"#, "bad"),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
