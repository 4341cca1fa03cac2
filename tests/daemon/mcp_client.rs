//! A client of `agentproto mcp` that sends exactly the messages a test asks for.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Time limit that only a hang reaches.
pub const HANG: Duration = Duration::from_secs(60);

/// The directories of one test: state, home directory, and the agents' working directory.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["home", "user", "work"] {
            std::fs::create_dir(dir.path().join(name)).expect("made");
        }
        Place { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn work(&self) -> String {
        self.path("work").to_string_lossy().into_owned()
    }

    /// The binary with a clean environment, as an MCP client starts it.
    pub fn command(&self, args: &[&str]) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_agentproto"));
        let bin = binary.parent().expect("a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(binary);
        command
            .args(args)
            .env_clear()
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", self.path("user"))
            .env("AGENTPROTO_HOME", self.path("home"))
            .current_dir(self.dir.path());
        command
    }

    /// A client of `agentproto mcp` after the handshake.
    pub fn client(&self, args: &[&str]) -> Client {
        let mut client = self.stranger(args);
        client.introduce();
        client
    }

    /// A client before the handshake.
    pub fn stranger(&self, args: &[&str]) -> Client {
        let mut whole = vec!["mcp"];
        whole.extend(args);
        Client::start(self.command(&whole))
    }

    /// Command lines of all live agents of this test, no matter which process started them.
    pub fn agents(&self) -> Vec<String> {
        let mark = self
            .path("user")
            .to_string_lossy()
            .into_owned()
            .into_bytes();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_ours = environ
                .split(|b| *b == 0)
                .any(|v| v.strip_prefix(b"HOME=") == Some(&mark));
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if is_ours && line.contains(" mock ") {
                found.push(line);
            }
        }
        found
    }
}

pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    last: u64,
    /// Messages that arrived while the client waited for another one.
    pub others: Vec<Value>,
}

/// How the server of a client ended.
pub struct Ended {
    pub status: ExitStatus,
    pub stderr: String,
    /// Messages received after the end of input.
    pub rest: Vec<Value>,
}

impl Client {
    fn start(mut command: Command) -> Client {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let (to, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        let mut errors = child.stderr.take().expect("piped");
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Client {
            input: child.stdin.take(),
            child,
            lines,
            errors: Some(errors),
            last: 0,
            others: Vec::new(),
        }
    }

    pub fn introduce(&mut self) -> Value {
        let answer = self.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).expect("written");
        input.flush().expect("written");
    }

    pub fn say(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a request without waiting. Returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request and returns the response.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.wait_for(&json!(id))
    }

    pub fn wait_for(&mut self, id: &Value) -> Value {
        if let Some(at) = self.others.iter().position(|m| m["id"] == *id) {
            return self.others.remove(at);
        }
        loop {
            let message = self.next();
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
            self.others.push(message);
        }
    }

    /// The next line, which must be a JSON-RPC message.
    pub fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(HANG).expect("a line in time");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Closes stdin and waits for the server to exit.
    pub fn close(mut self) -> Ended {
        self.input = None;
        self.ended()
    }

    pub fn signal(self, signal: libc::c_int) -> Ended {
        // SAFETY: the process is our child and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
        self.ended()
    }

    fn ended(mut self) -> Ended {
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(HANG) {
                Ok(line) => rest.push(serde_json::from_str(&line).expect("JSON")),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(other) => panic!("{other}: the server does not exit"),
            }
        }
        let status = self.child.wait().expect("waited for");
        let errors = self.errors.take().expect("once");
        Ended {
            status,
            stderr: errors.join().expect("read"),
            rest,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A transport to the tools. Every scene must pass over every transport.
pub trait Door {
    /// The whole response to a request.
    fn request(&mut self, method: &str, params: Value) -> Value;

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// The structured result, after checking that the text content is the same JSON.
    fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        assert_ne!(result["isError"], true, "{answer}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let told: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(told, result["structuredContent"], "{answer}");
        told
    }

    /// The error of a tool call that must fail.
    fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        // Structured content would have to match the output schema.
        assert!(result.get("structuredContent").is_none(), "{answer}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let told: Value = serde_json::from_str(text).expect("JSON");
        told["error"].clone()
    }

    /// Reads the output until `count` turns have ended.
    fn turns(&mut self, id: &str, count: usize) -> Vec<String> {
        let begun = std::time::Instant::now();
        loop {
            let output = self.done("get_agent_session_output", json!({ "sessionId": id }));
            let lines: Vec<String> =
                serde_json::from_value(output["lines"].clone()).expect("lines");
            let ends = lines.iter().filter(|l| l.starts_with("── turn-end ("));
            if ends.count() >= count {
                return lines;
            }
            assert!(begun.elapsed() < HANG, "{output}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Door for Client {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params)
    }
}
