//! A client that writes and reads raw lines, so that tests see everything on the wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// Time limit that a conforming agent never reaches, even on a loaded machine.
pub const LONG: Duration = Duration::from_secs(60);

/// How the client responds to a request of the agent.
pub type Service = fn(&Value) -> Option<Value>;

pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    pub tape: Tape,
    pub service: Service,
    pub patience: Duration,
    /// The session that was created last.
    pub session: String,
    pub dir: PathBuf,
    _home: tempfile::TempDir,
}

/// Every line that the agent wrote, without the newline.
#[derive(Default)]
pub struct Tape {
    pub raw: Vec<Vec<u8>>,
    pub status: Option<ExitStatus>,
}

/// Starts `agentproto mock …` in its own directory.
pub fn start(args: &[&str]) -> Client {
    start_with(args, |_| {})
}

pub fn start_with(args: &[&str], prepare: impl FnOnce(&mut Command)) -> Client {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().canonicalize().expect("a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
    command
        .arg("mock")
        .args(args)
        .current_dir(&dir)
        .env_remove("MOCK_STATE_DIR")
        .env_remove("MOCK_SCENARIO")
        .env_remove("MOCK_MUTANT")
        .env_remove("MOCK_VARIANT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().expect("it starts");
    let stdout = child.stdout.take().expect("stdout");
    let mut stderr = child.stderr.take().expect("stderr");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            match stdout.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.ends_with(b"\n") {
                line.pop();
            }
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let stderr = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        text
    });
    Client {
        stdin: child.stdin.take(),
        child,
        lines,
        stderr: Some(stderr),
        tape: Tape::default(),
        service: obliging,
        patience: LONG,
        session: String::new(),
        dir,
        _home: home,
    }
}

/// Grants every request, and provides a file and a terminal.
pub fn obliging(request: &Value) -> Option<Value> {
    let result = match request["method"].as_str()? {
        "session/request_permission" => {
            json!({ "outcome": { "outcome": "selected", "optionId": "allow-once" } })
        }
        "fs/read_text_file" => json!({ "content": "a line\n" }),
        "terminal/create" => json!({ "terminalId": "terminal-1" }),
        "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
        "terminal/output" => json!({ "output": "hello\n", "truncated": false }),
        "elicitation/create" => {
            json!({ "action": "accept", "content": { "color": "red", "number": 3,
                "decision": "allow-once" } })
        }
        _ => json!({}),
    };
    Some(json!({ "result": result }))
}

/// Responds to every request with an error.
pub fn unable(_: &Value) -> Option<Value> {
    Some(json!({ "error": { "code": -32603, "message": "no such thing here" } }))
}

/// Never responds to requests.
pub fn silent(_: &Value) -> Option<Value> {
    None
}

impl Client {
    /// Writes bytes. Errors are ignored, because a dead agent is noticed when reading.
    pub fn raw(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    pub fn line(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request without waiting.
    pub fn tell(&mut self, id: u64, method: &str, params: Value) {
        self.line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    /// Sends a request and waits for its response, if there is one.
    pub fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.tell(id, method, params);
        self.wait_for(id)
    }

    /// Reads until the response arrives. The ids of tests have four digits and those of agents do
    /// not, so that even an invalid response is recognized by its number.
    pub fn wait_for(&mut self, id: u64) -> Value {
        let wanted = id.to_string();
        let wanted = wanted.as_bytes();
        let found = self.until(|line| {
            let message: Value = serde_json::from_slice(line).unwrap_or_default();
            let answer = message.get("method").is_none();
            answer && line.windows(wanted.len()).any(|part| part == wanted)
        });
        let answer = found.and_then(|line| serde_json::from_slice(&line).ok());
        answer.unwrap_or(Value::Null)
    }

    /// Reads until a line matches. Serves the requests of the agent on the way. Returns `None` if
    /// the output ends.
    pub fn until(&mut self, mut fits: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
        loop {
            let line = match self.lines.recv_timeout(self.patience) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.patience < LONG => return None,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no output in time; so far:\n{}", self.tape.text())
                }
            };
            self.tape.raw.push(line.clone());
            self.serve(&line);
            if fits(&line) {
                return Some(line);
            }
        }
    }

    fn serve(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let (Some(id), Some(_)) = (message.get("id"), message.get("method")) else {
            return;
        };
        if let Some(mut reply) = (self.service)(&message) {
            reply["jsonrpc"] = "2.0".into();
            reply["id"] = id.clone();
            self.line(&reply);
        }
    }

    /// Reads until the agent sends this method.
    pub fn until_called(&mut self, method: &str) -> Option<Value> {
        let line = self.until(|line| {
            let message: Value = serde_json::from_slice(line).unwrap_or_default();
            message["method"] == method
        });
        line.and_then(|line| serde_json::from_slice(&line).ok())
    }

    pub fn reply(&mut self, request: &Value, result: Value) {
        self.line(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    pub fn initialize(&mut self, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        self.ask(1001, "initialize", params)
    }

    /// Initializes with every client capability.
    pub fn initialize_fully(&mut self) -> Value {
        self.initialize(json!({
            "fs": { "readTextFile": true, "writeTextFile": true },
            "terminal": true,
            "auth": { "terminal": true },
            "session": { "configOptions": { "boolean": {} }, "notices": {}, "compaction": {} },
            "elicitation": { "form": {}, "url": {} },
        }))
    }

    pub fn new_session(&mut self, id: u64) -> Value {
        let cwd = self.dir.clone();
        self.new_session_in(id, &cwd)
    }

    pub fn new_session_in(&mut self, id: u64, cwd: &Path) -> Value {
        let answer = self.ask(id, "session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        let session = answer["result"]["sessionId"].as_str();
        self.session = session.unwrap_or_default().to_owned();
        answer
    }

    pub fn prompt_params(&self, text: &str) -> Value {
        let block = json!({ "type": "text", "text": text });
        json!({ "sessionId": self.session, "prompt": [block] })
    }

    pub fn prompt(&mut self, id: u64, text: &str) -> Value {
        let params = self.prompt_params(text);
        self.ask(id, "session/prompt", params)
    }

    pub fn about_session(&self) -> Value {
        json!({ "sessionId": self.session })
    }

    /// Closes stdin, reads the rest, and waits for the exit.
    pub fn finish(mut self) -> Tape {
        self.stdin = None;
        self.patience = LONG;
        while self.until(|_| false).is_some() {}
        self.tape.status = self.child.wait().ok();
        self.tape
    }

    /// Like `finish`, plus the output on stderr.
    pub fn finish_with_stderr(mut self) -> (Tape, Vec<u8>) {
        let stderr = self.stderr.take().expect("read once");
        let tape = self.finish();
        (tape, stderr.join().expect("stderr"))
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }
}

impl Tape {
    pub fn text(&self) -> String {
        let lines = self.raw.iter().map(|line| String::from_utf8_lossy(line));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The lines that are JSON.
    pub fn messages(&self) -> Vec<Value> {
        let lines = self.raw.iter();
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    pub fn answers(&self, id: u64) -> Vec<Value> {
        let mut messages = self.messages();
        messages.retain(|m| m["id"] == id && m.get("method").is_none());
        messages
    }

    pub fn answer(&self, id: u64) -> Value {
        self.answers(id).into_iter().next().unwrap_or_default()
    }

    pub fn code(&self, id: u64) -> i64 {
        self.answer(id)["error"]["code"].as_i64().unwrap_or(0)
    }

    /// Requests and notifications of the agent with this method.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        let mut messages = self.messages();
        messages.retain(|m| m["method"] == method);
        messages
    }

    pub fn updates(&self, kind: &str) -> Vec<Value> {
        let calls = self.calls("session/update").into_iter();
        let updates = calls.map(|m| m["params"]["update"].clone());
        updates.filter(|u| u["sessionUpdate"] == kind).collect()
    }

    /// Index of the first message that matches.
    pub fn place(&self, fits: impl Fn(&Value) -> bool) -> Option<usize> {
        let parsed = self.raw.iter();
        let mut parsed = parsed.map(|l| serde_json::from_slice(l).unwrap_or(Value::Null));
        parsed.position(|message| fits(&message))
    }

    /// The text of all message chunks, joined.
    pub fn said(&self) -> String {
        let chunks = self.updates("agent_message_chunk").into_iter();
        let texts = chunks.filter_map(|u| Some(u["content"]["text"].as_str()?.to_owned()));
        texts.collect()
    }
}
