//! The real daemon in its own process, and a minimal client on a raw socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit that only a hang reaches.
pub const HANG: Duration = Duration::from_secs(90);

pub struct Served {
    pub dir: TempDir,
    pub child: Child,
    pub address: String,
    pub token: String,
    /// Events printed before it listened.
    pub said: Vec<Value>,
    stdout: BufReader<ChildStdout>,
}

pub fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_agentproto"))
}

/// The binary, in the directory of a test.
pub fn command(dir: &Path) -> Command {
    let mut command = binary();
    let bin = Path::new(env!("CARGO_BIN_EXE_agentproto")).parent();
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env_clear()
        .env(
            "PATH",
            format!("{}:{path}", bin.expect("a directory").display()),
        )
        .env("HOME", dir.join("user"))
        .env("AGENTPROTO_HOME", dir.join("home"))
        .current_dir(work(dir));
    command
}

pub fn work(dir: &Path) -> PathBuf {
    let work = dir.join("work");
    std::fs::create_dir_all(&work).expect("made");
    work.canonicalize().expect("there")
}

impl Served {
    pub fn new() -> Served {
        Served::on(TempDir::new().expect("a directory"), &[])
    }

    /// Opens the state that an earlier daemon left in this directory.
    pub fn on(dir: TempDir, args: &[&str]) -> Served {
        let command = command(dir.path());
        Served::started(dir, command, args)
    }

    pub fn started(dir: TempDir, mut command: Command, args: &[&str]) -> Served {
        let mut child = command
            .args(["serve", "--port", "0", "--output", "jsonl"])
            .args(args)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("started");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut said = Vec::new();
        let url = loop {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).expect("readable");
            assert!(read > 0, "the daemon exited: {said:?}");
            let event: Value = serde_json::from_str(&line).expect("JSON");
            if event["type"] == "listening" {
                break event["url"].as_str().expect("a url").to_owned();
            }
            said.push(event);
        };
        let file = std::fs::read(dir.path().join("home/runtime.json")).expect("written");
        let file: Value = serde_json::from_slice(&file).expect("JSON");
        assert_eq!(file["url"], url.as_str());
        assert_eq!(file["pid"], child.id());
        let (_, address) = url.split_once("://").expect("a url");
        Served {
            dir,
            address: address.to_owned(),
            token: file["token"].as_str().expect("a token").to_owned(),
            child,
            said,
            stdout,
        }
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the process is our child.
        let sent = unsafe { libc::kill(i32::try_from(self.child.id()).expect("a pid"), signal) };
        assert_eq!(sent, 0);
    }

    /// Waits for the exit. Returns the exit status, the remaining events, and the directory for a
    /// restart.
    pub fn ended(mut self) -> (ExitStatus, Vec<Value>, TempDir) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("readable");
        let status = self.child.wait().expect("waited");
        let events = rest.lines().map(|l| serde_json::from_str(l).expect("JSON"));
        let dir = std::mem::replace(&mut self.dir, TempDir::new().expect("a directory"));
        (status, events.collect(), dir)
    }

    pub fn stop(self) -> (ExitStatus, Vec<Value>, TempDir) {
        self.signal(libc::SIGTERM);
        self.ended()
    }

    pub fn open(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(HANG)).expect("set");
        stream
    }

    /// Sends the bytes unchanged. Returns everything received until the other side closes.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.open();
        let _ = stream.write_all(bytes);
        Answer::read(stream)
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}",
            self.address
        );
        if !body.is_empty() || method == "POST" {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        self.raw(format!("{request}\r\n{body}").as_bytes())
    }

    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &self.bearer(), "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = format!("{}Content-Type: application/json\r\n", self.bearer());
        self.ask("POST", path, &headers, &body.to_string())
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, &self.bearer(), "")
    }

    /// Starts a session of the mock agent with one of its scenarios, and waits until it runs.
    pub fn running(&self, scenario: &str) -> String {
        let cwd = work(self.dir.path());
        let body =
            json!({ "adapter": "mock-acp", "cwd": cwd, "options": { "scenario": scenario } });
        let spawned = self.post("/sessions/agent", &body);
        assert_eq!(spawned.status, 201, "{}", spawned.text);
        let id = spawned.json()["id"].as_str().expect("an id").to_owned();
        let mut stream = self.stream(&id, "", "");
        stream.until(|event, data| event == "status" && data["status"] == "running");
        id
    }

    pub fn turn(&self, id: &str, prompt: &str) {
        let mut stream = self.stream(id, "?from=now", "");
        let taken = self.post(
            &format!("/sessions/{id}/prompt"),
            &json!({ "prompt": prompt }),
        );
        assert_eq!(taken.status, 200, "{}", taken.text);
        stream.until(|event, data| event == "status" && data["busy"] == false);
    }

    pub fn stream(&self, id: &str, query: &str, headers: &str) -> Stream {
        let path = format!("/sessions/{id}/stream{query}");
        let mut stream = self.open();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{}{headers}\r\n",
            self.address,
            self.bearer()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Stream::new(stream)
    }

    pub fn lines(&self, id: &str) -> Vec<String> {
        let answer = self
            .get(&format!("/sessions/{id}/output?lastN=1000"))
            .json();
        let lines = answer["lines"].as_array().expect("lines").iter();
        lines
            .map(|l| l.as_str().expect("text").to_owned())
            .collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Answer {
    /// Reads a response. The status is 0 if nothing was received.
    pub fn read(mut stream: impl Read) -> Answer {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let split = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        let split = split.map_or(bytes.len(), |at| at + 4);
        // Header names in lower case, values unchanged.
        let head: String = String::from_utf8_lossy(&bytes[..split])
            .split_inclusive('\n')
            .map(|line| match line.split_once(": ") {
                Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
                None => line.to_owned(),
            })
            .collect();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        let mut body = &bytes[split..];
        let mut whole = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            while let Some(at) = body.windows(2).position(|w| w == b"\r\n") {
                let size = String::from_utf8_lossy(&body[..at]).into_owned();
                let size = usize::from_str_radix(size.trim(), 16).expect("a size");
                whole.extend_from_slice(&body[at + 2..at + 2 + size]);
                body = &body[at + 4 + size..];
            }
        } else {
            whole = body.to_vec();
        }
        Answer {
            status: status.unwrap_or(0),
            head,
            text: String::from_utf8(whole).expect("UTF-8"),
        }
    }

    /// The head of a response on a connection that stays open.
    pub fn read_head(mut stream: impl Read) -> String {
        let mut head = Vec::new();
        let mut one = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut one).is_ok() {
            head.push(one[0]);
        }
        String::from_utf8(head).expect("UTF-8")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The code of an error response, after checking that it has a type, a message and a hint.
    #[track_caller]
    pub fn refusal(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert!(
            self.head.contains("content-type: application/json"),
            "{self:?}"
        );
        let error = &self.json()["error"];
        for part in ["code", "message", "hint"] {
            assert!(
                error[part].as_str().is_some_and(|t| !t.is_empty()),
                "{part}: {self:?}"
            );
        }
        error["code"].as_str().expect("text").to_owned()
    }
}

/// One stream of server-sent events.
pub struct Stream {
    pub lines: BufReader<TcpStream>,
    pub head: String,
    /// Remaining bytes of the current HTTP chunk.
    left: usize,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

impl Stream {
    pub fn new(stream: TcpStream) -> Stream {
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        loop {
            let mut line = String::new();
            let read = lines.read_line(&mut line).expect("a head");
            assert!(read > 0, "it closed: {head}");
            if line == "\r\n" {
                break;
            }
            head += &line.to_ascii_lowercase();
        }
        assert!(head.starts_with("http/1.1 200"), "{head}");
        Stream {
            lines,
            head,
            left: 0,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let mut one = [0];
        if self.left == 0 {
            let mut size = String::new();
            self.lines.read_line(&mut size).ok()?;
            if size.trim().is_empty() {
                size.clear();
                self.lines.read_line(&mut size).ok()?;
            }
            self.left = usize::from_str_radix(size.trim(), 16)
                .ok()
                .filter(|n| *n > 0)?;
        }
        self.lines.read_exact(&mut one).ok()?;
        self.left -= 1;
        Some(one[0])
    }

    /// One line, including comments.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return Some(String::from_utf8(line).expect("UTF-8")),
                byte => line.push(byte),
            }
        }
    }

    /// The next message with data. Each message has exactly one JSON value (A46-SSE-01).
    pub fn next(&mut self) -> Option<Message> {
        let (mut id, mut event, mut data) = (None, String::new(), None);
        let began = Instant::now();
        loop {
            // Keep-alives arrive forever, so the time limit of a read never expires.
            assert!(began.elapsed() < HANG, "no message on the stream");
            let line = self.line()?;
            if line.is_empty() && data.is_some() {
                let data: Option<String> = data;
                let data = data.expect("some");
                return Some(Message {
                    id,
                    event,
                    data: serde_json::from_str(&data).expect("one JSON value"),
                });
            }
            if let Some(value) = line.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(value) = line.strip_prefix("event: ") {
                event = value.to_owned();
            } else if let Some(value) = line.strip_prefix("data: ") {
                assert!(
                    data.replace(value.to_owned()).is_none(),
                    "more than one value"
                );
            }
        }
    }

    #[track_caller]
    pub fn until(&mut self, wanted: impl Fn(&str, &Value) -> bool) -> Vec<Message> {
        let mut seen = Vec::new();
        loop {
            let Some(message) = self.next() else {
                panic!("the stream ended after {seen:?}");
            };
            let is_it = wanted(&message.event, &message.data);
            seen.push(message);
            if is_it {
                return seen;
            }
        }
    }

    /// Everything up to `end`, after which the host closes the stream.
    #[track_caller]
    pub fn read_out(mut self) -> Vec<Message> {
        let seen = self.until(|event, _| event == "end");
        assert!(self.next().is_none(), "a message after the end");
        seen
    }
}

/// Polls until the condition is true, for conditions without an event to wait for.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < HANG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes whose environment or command line names this directory.
pub fn processes_of(dir: &Path) -> Vec<u32> {
    let name = dir.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/proc")
        .expect("there")
        .filter_map(Result::ok);
    all.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let environ = std::fs::read(entry.path().join("environ")).ok()?;
        let argv = std::fs::read(entry.path().join("cmdline")).ok()?;
        let cwd = std::fs::read_link(entry.path().join("cwd")).ok();
        let named = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&name);
        let within = cwd.is_some_and(|cwd| cwd.starts_with(dir));
        (pid != std::process::id() && (named(&environ) || named(&argv) || within)).then_some(pid)
    })
    .collect()
}
