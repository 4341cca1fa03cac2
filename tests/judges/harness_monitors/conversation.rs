//! A client that talks to the mock agent while monitors read every line.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use agentproto_harness::monitor::{Ending, MonitorNotes, MonitorRunner, acp};
use agentproto_wire::{Direction, Transcript};
use serde_json::{Value, json};

/// Time limit that a conforming agent never reaches, even on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// How the client responds to a request of the agent.
type Service = fn(&Value) -> Option<Value>;

pub struct Conversation {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    transcript: Transcript,
    monitors: MonitorRunner,
    pub service: Service,
    fences: u64,
    pub session: String,
    pub dir: PathBuf,
    _home: tempfile::TempDir,
}

/// The findings of the monitors, and the conversation.
pub struct MonitorFindings {
    pub notes: MonitorNotes,
    pub text: String,
}

impl Conversation {
    /// Starts `agentproto mock acp` with these arguments.
    pub fn start(args: &[&str]) -> Conversation {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().canonicalize().expect("a path");
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
        command.args(["mock", "acp"]).args(args).current_dir(&dir);
        for name in ["MOCK_STATE_DIR", "MOCK_SCENARIO", "MOCK_MUTANT"] {
            command.env_remove(name);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stdout = child.stdout.take().expect("stdout");
        let mut stderr = child.stderr.take().expect("stderr");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            text
        });
        Conversation {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr: Some(stderr),
            transcript: Transcript::new(),
            monitors: MonitorRunner::new(acp()),
            service: grant_all,
            fences: 0,
            session: String::new(),
            dir,
            _home: home,
        }
    }

    fn note(&mut self, direction: Direction, line: &[u8]) -> Vec<Value> {
        let ended = line.ends_with(b"\n");
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let number = self
            .transcript
            .push(direction, Duration::ZERO, text, ended, None);
        let line = self.transcript.line(number).expect("just written");
        let read = self.monitors.on_line(&line);
        let rest = read.rest.into_iter().map(|(json, _)| json);
        read.json.into_iter().chain(rest).collect()
    }

    pub fn raw(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.note(Direction::ToAgent, line.as_bytes());
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin
                .write_all(line.as_bytes())
                .and_then(|()| stdin.flush());
        }
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.raw(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    pub fn send(&mut self, id: u64, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.raw(&message.to_string());
    }

    pub fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params);
        self.answer(id)
    }

    /// Waits for a response, even if its id has another type.
    pub fn answer(&mut self, id: u64) -> Value {
        let found = self.until(|message| answers(message, id));
        found.unwrap_or(Value::Null)
    }

    /// Like `ask`, for requests that a mutant may never respond to. The response to a second
    /// request shows that no more messages come.
    pub fn try_to_ask(&mut self, id: u64, method: &str, params: Value) {
        self.send(id, method, params);
        self.fences += 1;
        let fence = 9000 + self.fences;
        self.send(fence, "session/is_there_more", json!({}));
        self.until(|message| answers(message, id) || answers(message, fence));
    }

    pub fn until_called(&mut self, method: &str) -> Value {
        let found = self.until(|message| message["method"] == method);
        found.unwrap_or(Value::Null)
    }

    /// Reads until a message matches. Serves the requests of the agent on the way.
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            let line = match self.lines.recv_timeout(LONG) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("no message in time:\n{}", self.text()),
            };
            let messages = self.note(Direction::FromAgent, &line);
            for message in &messages {
                self.serve(message);
            }
            if let Some(found) = messages.into_iter().find(&fits) {
                return Some(found);
            }
        }
    }

    fn serve(&mut self, message: &Value) {
        let (Some(id), Some(_)) = (message.get("id"), message.get("method")) else {
            return;
        };
        if let Some(mut reply) = (self.service)(message) {
            reply["jsonrpc"] = "2.0".into();
            reply["id"] = id.clone();
            self.raw(&reply.to_string());
        }
    }

    fn text(&self) -> String {
        let lines = self.transcript.lines();
        let lines = lines.map(|l| format!("{:3} {} {}", l.number, l.direction.as_str(), l.text()));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Closes stdin, reads the rest, and returns all findings.
    pub fn finish(mut self) -> MonitorFindings {
        self.stdin = None;
        while self.until(|_| false).is_some() {}
        let status = self.child.wait();
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok());
        for line in stderr.unwrap_or_default().split(|byte| *byte == b'\n') {
            self.note(Direction::Stderr, line);
        }
        let ending = Ending {
            is_orderly: status.is_ok_and(|status| status.success()),
            last_line: self.transcript.last(),
        };
        MonitorFindings {
            notes: self.monitors.finish(&ending),
            text: self.text(),
        }
    }
}

impl MonitorFindings {
    /// The requirements that were broken, without duplicates.
    pub fn violated(&self) -> Vec<&'static str> {
        let found = self.notes.found.iter();
        found
            .filter(|(_, f)| f.violated > 0)
            .map(|(id, _)| *id)
            .collect()
    }

    pub fn passed(&self) -> Vec<&'static str> {
        let found = self.notes.found.iter();
        found
            .filter(|(_, f)| f.passed > 0)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Findings and conversation, for failure messages.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (id, found) in &self.notes.found {
            for violation in &found.violations {
                text += &format!("  {id} {:?}: {}\n", violation.lines, violation.message);
            }
        }
        text + &self.text
    }
}

fn answers(message: &Value, id: u64) -> bool {
    let found = message.get("id").map(Value::to_string).unwrap_or_default();
    message.get("method").is_none() && found.trim_matches('"') == id.to_string()
}

/// Grants every request, and provides a file and terminals.
pub fn grant_all(request: &Value) -> Option<Value> {
    let result = match request["method"].as_str()? {
        "session/request_permission" => {
            json!({ "outcome": { "outcome": "selected", "optionId": "allow-once" } })
        }
        "fs/read_text_file" => json!({ "content": "a line\n" }),
        // A new terminal for each request.
        "terminal/create" => json!({ "terminalId": format!("terminal-{}", request["id"]) }),
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

/// Never responds to requests.
pub fn ignore_all(_: &Value) -> Option<Value> {
    None
}
