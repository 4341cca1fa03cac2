//! As much of HTTP/1.1 as a model's clients use. By hand: hyper cannot refuse a chunk by its
//! announced size, two lengths in one head, or an unknown coding or version with 501 and 505.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LONGEST_HEAD: usize = 64 << 10;
/// Clients send whole conversations, with pictures.
pub const LONGEST_BODY: usize = 32 << 20;
/// A connection that is kept for later may rest so long.
const IDLE: Duration = Duration::from_secs(300);
/// A request that has begun must be over by then.
const READING: Duration = Duration::from_secs(30);
/// A reader that takes nothing for so long is gone.
const WRITING: Duration = Duration::from_secs(30);

/// A client that went away, or that is no client.
#[derive(Debug)]
pub enum Refusal {
    Gone,
    /// Answered with this status, and closed.
    Bad(u16, &'static str),
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Refusal::Gone
    }
}

#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// The target without its query.
    pub path: String,
    pub query: String,
    pub body: Vec<u8>,
    pub keep: bool,
    /// HTTP/1.0 knows no chunks.
    pub old: bool,
}

struct Head {
    request: Request,
    length: Option<usize>,
    chunked: bool,
    expects: bool,
}

pub struct Connection {
    stream: TcpStream,
    /// What was read and not used yet.
    held: Vec<u8>,
}

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        // Events are small, and each is waited for.
        let _ = stream.set_nodelay(true);
        Connection {
            stream,
            held: Vec::new(),
        }
    }

    /// The next request of this connection.
    pub async fn request(&mut self) -> Result<Request, Refusal> {
        if self.held.is_empty() {
            let read = timeout(IDLE, self.fill()).await;
            read.map_err(|_| Refusal::Gone)??;
        }
        let read = timeout(READING, self.whole_request()).await;
        read.unwrap_or(Err(Refusal::Bad(408, "the request did not end")))
    }

    async fn fill(&mut self) -> Result<(), Refusal> {
        match self.stream.read_buf(&mut self.held).await? {
            0 => Err(Refusal::Gone),
            _ => Ok(()),
        }
    }

    async fn whole_request(&mut self) -> Result<Request, Refusal> {
        let end = loop {
            if let Some(at) = memchr::memmem::find(&self.held, b"\r\n\r\n") {
                break at;
            }
            if self.held.len() > LONGEST_HEAD {
                return Err(Refusal::Bad(431, "the head is too long"));
            }
            self.fill().await?;
        };
        if end > LONGEST_HEAD {
            return Err(Refusal::Bad(431, "the head is too long"));
        }
        let rest = self.held.split_off((end + 4).min(self.held.len()));
        let head = std::mem::replace(&mut self.held, rest);
        let mut head = head_of(head.get(..end).unwrap_or_default())?;
        if head.length.is_some_and(|length| length > LONGEST_BODY) {
            return Err(Refusal::Bad(413, "the body is too long"));
        }
        if head.expects {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        head.request.body = if head.chunked {
            self.chunks().await?
        } else {
            self.take(head.length.unwrap_or(0)).await?
        };
        Ok(head.request)
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>, Refusal> {
        while self.held.len() < length {
            self.fill().await?;
        }
        let rest = self.held.split_off(length);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    async fn line(&mut self) -> Result<Vec<u8>, Refusal> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.held, b"\r\n") {
                let mut line = self.take(at + 2).await?;
                line.truncate(at);
                return Ok(line);
            }
            if self.held.len() > LONGEST_HEAD {
                return Err(Refusal::Bad(400, "a chunk without a size"));
            }
            self.fill().await?;
        }
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, Refusal> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = std::str::from_utf8(&line).ok();
            let size = size.and_then(|line| line.split(';').next());
            let size = size.map(str::trim).filter(|size| is_hex(size));
            let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
            let Some(size) = size else {
                return Err(Refusal::Bad(400, "a chunk without a size"));
            };
            if size == 0 {
                // Trailers, of which we need none.
                let mut trailers = 0;
                loop {
                    let line = self.line().await?;
                    trailers += line.len();
                    if line.is_empty() {
                        return Ok(body);
                    }
                    if trailers > LONGEST_HEAD {
                        return Err(Refusal::Bad(431, "the trailers are too long"));
                    }
                }
            }
            if body.len().saturating_add(size) > LONGEST_BODY {
                return Err(Refusal::Bad(413, "the body is too long"));
            }
            body.extend(self.take(size).await?);
            if !self.take(2).await?.eq(b"\r\n") {
                return Err(Refusal::Bad(400, "a chunk that does not end"));
            }
        }
    }

    /// Comes back when the client has gone. What it sends meanwhile is kept, up to a limit.
    pub async fn gone(&mut self) {
        loop {
            if self.held.len() > LONGEST_HEAD {
                return std::future::pending().await;
            }
            if self.fill().await.is_err() {
                return;
            }
        }
    }

    /// Waits; false if the client went away first.
    pub async fn rest(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.gone() => false,
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = timeout(WRITING, self.stream.write_all(bytes)).await;
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// An answer in one piece.
    pub async fn answer(&mut self, request: &Request, status: u16, body: &[u8]) -> io::Result<()> {
        let mut head = head(status, "application/json", request.keep);
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = head.into_bytes();
        if request.method != "HEAD" {
            bytes.extend_from_slice(body);
        }
        self.write(&bytes).await
    }

    /// The head of an answer that comes event by event.
    pub async fn begin_events(&mut self, request: &Request) -> io::Result<()> {
        let mut head = head(200, "text/event-stream", request.keep && !request.old);
        head.push_str("cache-control: no-cache\r\n");
        if !request.old {
            head.push_str("transfer-encoding: chunked\r\n");
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await
    }

    pub async fn event(&mut self, request: &Request, text: &str) -> io::Result<()> {
        if request.old {
            return self.write(text.as_bytes()).await;
        }
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.write(chunk.as_bytes()).await
    }

    pub async fn end_events(&mut self, request: &Request) -> io::Result<()> {
        if request.old {
            return Ok(());
        }
        self.write(b"0\r\n\r\n").await
    }

    pub async fn close(mut self) {
        let _ = timeout(WRITING, self.stream.shutdown()).await;
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn head(status: u16, kind: &str, keep: bool) -> String {
    let phrase = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    };
    let connection = if keep { "keep-alive" } else { "close" };
    format!("HTTP/1.1 {status} {phrase}\r\ncontent-type: {kind}\r\nconnection: {connection}\r\n")
}

fn head_of(bytes: &[u8]) -> Result<Head, Refusal> {
    let bad = |why| Refusal::Bad(400, why);
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the head is not text"))?;
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, version] = words.as_slice() else {
        return Err(bad("not a request line"));
    };
    let old = match *version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return Err(Refusal::Bad(505, "not HTTP/1.1")),
    };
    // An absolute target, as a proxy gets it, has the same path.
    let target = target.strip_prefix("http://").map_or(*target, |rest| {
        rest.find('/')
            .map_or("/", |at| rest.get(at..).unwrap_or("/"))
    });
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = Head {
        request: Request {
            method: (*method).to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            body: Vec::new(),
            keep: !old,
            old,
        },
        length: None,
        chunked: false,
        expects: false,
    };
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or(bad("a header without a colon"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse().ok().filter(|_| digits);
                let length = length.ok_or(bad("a content-length that is no number"))?;
                if head.length.is_some_and(|other| other != length) {
                    return Err(bad("two lengths"));
                }
                head.length = Some(length);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => head.chunked = true,
            "transfer-encoding" => return Err(Refusal::Bad(501, "an unknown transfer coding")),
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(Refusal::Bad(415, "bodies are read without compression"));
            }
            "connection" if value.eq_ignore_ascii_case("close") => head.request.keep = false,
            "expect" => head.expects = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
    if head.chunked && head.length.is_some() {
        return Err(bad("two lengths"));
    }
    Ok(head)
}
