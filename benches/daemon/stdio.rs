//! Measures the same turn over the agent's own pipes.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

pub struct Direct {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    next: u64,
}

impl Direct {
    pub fn start(dir: &Path) -> Direct {
        let mut child = Command::new(super::BINARY)
            .args(super::AGENT)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut direct = Direct {
            child,
            input: input.expect("a pipe"),
            output: BufReader::new(output.expect("a pipe")),
            session: String::new(),
            next: 0,
        };
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        direct.ask("initialize", hello);
        let opened = direct.ask("session/new", json!({ "cwd": dir, "mcpServers": [] }));
        direct.session = opened["result"]["sessionId"]
            .as_str()
            .expect("an id")
            .to_owned();
        direct
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        writeln!(self.input, "{request}").expect("sent");
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("read");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == self.next {
                return message;
            }
        }
    }

    pub fn turn(&mut self) -> f64 {
        let began = Instant::now();
        let prompt =
            json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": "hello" }] });
        let answer = self.ask("session/prompt", prompt);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        began.elapsed().as_secs_f64() * 1000.0
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
