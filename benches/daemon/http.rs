//! A minimal HTTP/1.1 client for benchmarks: one persistent connection, and one event stream.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

pub struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Client {
    pub fn new(address: &str, token: &str) -> Client {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_nodelay(true).expect("set");
        let auth = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        Client {
            stream: BufReader::new(stream),
            head: format!("Host: {address}\r\n{auth}"),
        }
    }

    pub fn get(&mut self, path: &str) -> (u16, Value) {
        self.send(&format!("GET {path} HTTP/1.1\r\n{}\r\n", self.head));
        self.answer()
    }

    pub fn delete(&mut self, path: &str) -> (u16, Value) {
        self.send(&format!("DELETE {path} HTTP/1.1\r\n{}\r\n", self.head));
        self.answer()
    }

    pub fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        ));
        self.answer()
    }

    fn send(&mut self, request: &str) {
        self.stream
            .get_mut()
            .write_all(request.as_bytes())
            .expect("sent");
    }

    fn answer(&mut self) -> (u16, Value) {
        let (status, length, chunked) = head(&mut self.stream);
        let mut body = Vec::new();
        if chunked {
            loop {
                let size = line(&mut self.stream);
                let size = usize::from_str_radix(size.trim(), 16).expect("a size");
                let mut chunk = vec![0; size + 2];
                self.stream.read_exact(&mut chunk).expect("read");
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).expect("read");
        }
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

fn line(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("read");
    line
}

/// Reads the status, the length, and whether the body is chunked.
fn head(stream: &mut impl BufRead) -> (u16, usize, bool) {
    let status = line(stream);
    let status = status
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("a status");
    let (mut length, mut chunked) = (0, false);
    loop {
        let header = line(stream).to_ascii_lowercase();
        match header.trim().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().expect("a length"),
            Some(("transfer-encoding", value)) => chunked = value.contains("chunked"),
            Some(_) => {}
            None => return (status, length, chunked),
        }
    }
}

/// An SSE stream, read as lines. The chunk sizes between them are ignored.
pub struct Events {
    stream: BufReader<TcpStream>,
    is_answered: bool,
}

impl Events {
    pub fn open(address: &str, token: &str, path: &str) -> Events {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_nodelay(true).expect("set");
        let auth = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{auth}\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Events {
            stream: BufReader::with_capacity(16 << 10, stream),
            is_answered: false,
        }
    }

    pub fn answered(&mut self) {
        if !self.is_answered {
            self.is_answered = true;
            let (status, _, _) = head(&mut self.stream);
            assert_eq!(status, 200);
        }
    }

    /// Reads until a `data:` line contains `expected`.
    pub fn until(&mut self, expected: &str) {
        self.answered();
        loop {
            let line = line(&mut self.stream);
            assert!(!line.is_empty(), "the stream ended before {expected}");
            if line.starts_with("data:") && line.contains(expected) {
                return;
            }
        }
    }

    /// Number of items and gaps up to the end of the stream.
    pub fn until_end(mut self) -> (usize, usize) {
        self.answered();
        let (mut items, mut gaps) = (0, 0);
        loop {
            let line = line(&mut self.stream);
            match line.trim_end() {
                "event: end" => return (items, gaps),
                "event: gap" => gaps += 1,
                text if text.starts_with("id: ") => items += 1,
                _ => assert!(!line.is_empty(), "the stream ended without an `end` event"),
            }
        }
    }
}
