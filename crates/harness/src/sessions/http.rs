//! A minimal HTTP/1.1 client, so that responses are checked as received, before a library repairs
//! them.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::target::HostAddress;

/// Maximum number of bytes in a response head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of bytes in a response body.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Number of bytes that are read at once.
const READ_SIZE: usize = 16 << 10;

/// Why a response is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// No connection is possible.
    Unreachable(String),
    /// The time limit was reached.
    TimedOut(Duration),
    /// The response is not valid HTTP.
    Invalid(String),
}

impl HttpError {
    pub fn describe(&self) -> String {
        match self {
            HttpError::Unreachable(why) => format!("cannot reach the host: {why}"),
            HttpError::TimedOut(time) => {
                format!("no response within {:.1} s", time.as_secs_f64())
            }
            HttpError::Invalid(why) => format!("the response is not valid HTTP: {why}"),
        }
    }
}

pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<Vec<u8>>,
}

impl Request {
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        } else if self.method == "POST" {
            head.push_str("content-length: 0\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// Status line and headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// The status line as received.
    pub line: String,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The media type without parameters, in lower case.
    pub fn media_type(&self) -> String {
        let whole = self.header("content-type").unwrap_or_default();
        let bare = whole.split(';').next().unwrap_or_default();
        bare.trim().to_ascii_lowercase()
    }

    fn parse(bytes: &[u8]) -> Result<Head, HttpError> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let garbled = || {
            let shown: String = line.chars().take(80).collect();
            HttpError::Invalid(format!("`{shown}` is not a status line"))
        };
        let mut words = line.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        let code = words.next().unwrap_or_default();
        let is_code = code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit());
        if !["HTTP/1.1", "HTTP/1.0"].contains(&version) || !is_code {
            return Err(garbled());
        }
        let mut headers = Vec::new();
        for header in lines.filter(|line| !line.is_empty()) {
            let Some((name, value)) = header.split_once(':') else {
                let shown: String = header.chars().take(80).collect();
                return Err(HttpError::Invalid(format!("`{shown}` is not a header")));
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Head {
            status: code.parse().map_err(|_| garbled())?,
            line,
            headers,
        })
    }
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// How the end of a body is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    /// Bytes left in the current chunk. `None` before the next chunk.
    Chunked(Option<u64>),
    UntilEnd,
    Over,
}

/// A response whose body has not been read yet.
pub struct OpenResponse {
    pub head: Head,
    wire: Box<dyn Wire>,
    /// Bytes that were read but not used yet.
    buffer: Vec<u8>,
    framing: Framing,
}

/// Sends a request and reads the response head.
pub async fn open(
    address: &HostAddress,
    request: &[u8],
    within: Duration,
) -> Result<OpenResponse, HttpError> {
    let until = Instant::now() + within;
    let timed_out = |_| HttpError::TimedOut(within);
    let connecting = TcpStream::connect((address.name(), address.port));
    let stream = timeout_at(until, connecting)
        .await
        .map_err(timed_out)?
        .map_err(|error| HttpError::Unreachable(error.to_string()))?;
    // Send small requests immediately.
    let _ = stream.set_nodelay(true);
    let mut wire: Box<dyn Wire> = match address.is_tls {
        true => Box::new(
            timeout_at(until, super::tls::connect(address.name(), stream))
                .await
                .map_err(timed_out)?
                .map_err(|error| HttpError::Unreachable(error.to_string()))?,
        ),
        false => Box::new(stream),
    };
    let talking = async {
        // A host may answer and close the connection before it has read everything. Its response
        // counts.
        let sent = wire.write_all(request).await;
        let sent = sent.and(wire.flush().await);
        let mut buffer = Vec::new();
        loop {
            let (head, rest) = read_head(&mut wire, std::mem::take(&mut buffer), &sent).await?;
            buffer = rest;
            // Skip interim responses (1xx).
            if !(100..200).contains(&head.status) {
                return Ok((head, buffer));
            }
        }
    };
    let (head, buffer) = timeout_at(until, talking).await.map_err(timed_out)??;
    let framing = framing(&head)?;
    Ok(OpenResponse {
        head,
        wire,
        buffer,
        framing,
    })
}

async fn read_head(
    wire: &mut Box<dyn Wire>,
    mut buffer: Vec<u8>,
    sent: &std::io::Result<()>,
) -> Result<(Head, Vec<u8>), HttpError> {
    loop {
        if let Some(end) = end_of_head(&buffer) {
            let rest = buffer.split_off(end);
            return Ok((Head::parse(&buffer)?, rest));
        }
        if buffer.len() > MAX_HEAD_BYTES {
            return Err(HttpError::Invalid(format!(
                "its head is longer than {MAX_HEAD_BYTES} bytes"
            )));
        }
        buffer.reserve(READ_SIZE);
        let read = wire.read_buf(&mut buffer).await;
        match (&read, sent) {
            (Ok(0), Err(error)) | (Err(error), _) if buffer.is_empty() => {
                return Err(HttpError::Invalid(format!(
                    "the connection failed: {error}"
                )));
            }
            (Ok(0), _) if buffer.is_empty() => {
                let why = "the host closed the connection without a response";
                return Err(HttpError::Invalid(why.to_owned()));
            }
            (Ok(0), _) | (Err(_), _) => {
                // If it is not HTTP at all, the first line shows it.
                Head::parse(&buffer)?;
                return Err(HttpError::Invalid("it ends within the head".to_owned()));
            }
            (Ok(_), _) => {}
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let crlf = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
    let lf = memchr::memmem::find(bytes, b"\n\n").map(|at| at + 2);
    crlf.into_iter().chain(lf).min()
}

fn framing(head: &Head) -> Result<Framing, HttpError> {
    if [204, 304].contains(&head.status) {
        return Ok(Framing::Over);
    }
    if let Some(coding) = head.header("transfer-encoding") {
        return match coding.trim().eq_ignore_ascii_case("chunked") {
            true => Ok(Framing::Chunked(None)),
            false => Err(HttpError::Invalid(format!(
                "its transfer-encoding is `{coding}`"
            ))),
        };
    }
    match head
        .header("content-length")
        .map(|text| (text, text.parse()))
    {
        None => Ok(Framing::UntilEnd),
        Some((_, Ok(length))) => Ok(Framing::Length(length)),
        Some((text, Err(_))) => Err(HttpError::Invalid(format!(
            "its content-length is `{text}`"
        ))),
    }
}

impl OpenResponse {
    /// Reads the whole body.
    pub async fn body(mut self, within: Duration) -> Result<(Head, Vec<u8>), HttpError> {
        let until = Instant::now() + within;
        let mut body = Vec::new();
        loop {
            let piece = timeout_at(until, self.next()).await;
            match piece.map_err(|_| HttpError::TimedOut(within))?? {
                Some(piece) => body.extend_from_slice(&piece),
                None => return Ok((self.head, body)),
            }
            if body.len() > MAX_BODY_BYTES {
                return Err(HttpError::Invalid(format!(
                    "its body is longer than {MAX_BODY_BYTES} bytes"
                )));
            }
        }
    }

    /// The next piece of the body, or `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        loop {
            if let Some(piece) = self.take()? {
                return Ok(Some(piece));
            }
            if self.framing == Framing::Over {
                return Ok(None);
            }
            self.buffer.reserve(READ_SIZE);
            match self.wire.read_buf(&mut self.buffer).await {
                Ok(count) if count > 0 => {}
                _ if self.framing == Framing::UntilEnd => {
                    self.framing = Framing::Over;
                    return Ok(None);
                }
                _ => return Err(HttpError::Invalid("its body is incomplete".to_owned())),
            }
        }
    }

    /// The part of the body that is in the bytes read so far.
    fn take(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        loop {
            match self.framing {
                Framing::Over => return Ok(None),
                Framing::UntilEnd => {
                    let all = std::mem::take(&mut self.buffer);
                    return Ok((!all.is_empty()).then_some(all));
                }
                Framing::Length(0) => self.framing = Framing::Over,
                Framing::Length(left) => {
                    let piece = self.up_to(left);
                    self.framing = Framing::Length(left - piece.len() as u64);
                    return Ok((!piece.is_empty()).then_some(piece));
                }
                Framing::Chunked(None) => match self.chunk_size()? {
                    None => return Ok(None),
                    Some(0) => self.framing = Framing::Over,
                    Some(size) => self.framing = Framing::Chunked(Some(size)),
                },
                Framing::Chunked(Some(0)) => {
                    // Skip the line break after the chunk.
                    match self.buffer.as_slice() {
                        [b'\r', b'\n', ..] => drop(self.buffer.drain(..2)),
                        [b'\n', ..] => drop(self.buffer.drain(..1)),
                        [] | [b'\r'] => return Ok(None),
                        _ => {
                            return Err(HttpError::Invalid(
                                "a chunk is longer than its size".to_owned(),
                            ));
                        }
                    }
                    self.framing = Framing::Chunked(None);
                }
                Framing::Chunked(Some(left)) => {
                    let piece = self.up_to(left);
                    self.framing = Framing::Chunked(Some(left - piece.len() as u64));
                    return Ok((!piece.is_empty()).then_some(piece));
                }
            }
        }
    }

    fn up_to(&mut self, max: u64) -> Vec<u8> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let rest = self.buffer.split_off(max.min(self.buffer.len()));
        std::mem::replace(&mut self.buffer, rest)
    }

    /// The size from the line before a chunk, once it is complete.
    fn chunk_size(&mut self) -> Result<Option<u64>, HttpError> {
        let Some(end) = memchr::memchr(b'\n', &self.buffer) else {
            return match self.buffer.len() > 64 {
                true => Err(HttpError::Invalid("a chunk has no valid size".to_owned())),
                false => Ok(None),
            };
        };
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        let text = String::from_utf8_lossy(&line);
        let size = text.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16);
        size.map(Some)
            .map_err(|_| HttpError::Invalid("a chunk has no valid size".to_owned()))
    }
}

/// Percent-encodes a path segment, because an id may contain any character.
pub fn percent_encode(part: &str) -> String {
    let mut out = String::new();
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// The response that the client reads if the server sends these bytes in pieces.
    async fn answered(bytes: &'static [u8], size: usize) -> Result<(Head, Vec<u8>), HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            for piece in bytes.chunks(size) {
                stream.write_all(piece).await.expect("written");
                stream.flush().await.expect("flushed");
                tokio::task::yield_now().await;
            }
        });
        let address = HostAddress::parse(&format!("http://127.0.0.1:{port}")).expect("a URL");
        let hang = Duration::from_secs(60);
        let opened = open(&address, b"GET / HTTP/1.1\r\n\r\n", hang).await?;
        opened.body(hang).await
    }

    #[tokio::test]
    async fn bodies_of_all_framings_are_read() {
        for size in [1, 3, 1000] {
            let by_length = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhix";
            let (head, body) = answered(by_length, size).await.expect("an answer");
            assert_eq!((head.status, body.as_slice()), (200, b"hi".as_slice()));
            let chunked =
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n1\r\n!\r\n0\r\n\r\n";
            let (_, body) = answered(chunked, size).await.expect("an answer");
            assert_eq!(body, b"hi!");
            let to_the_end = b"HTTP/1.0 404 Not Found\nX-A: b\n\nall";
            let (head, body) = answered(to_the_end, size).await.expect("an answer");
            assert_eq!((head.status, body.as_slice()), (404, b"all".as_slice()));
            assert_eq!(head.header("x-a"), Some("b"));
            let early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n";
            let (head, body) = answered(early, size).await.expect("an answer");
            assert_eq!((head.status, body.len()), (204, 0));
        }
    }

    #[tokio::test]
    async fn invalid_http_is_reported() {
        for (bytes, wanted) in [
            (b"SSH-2.0-x\r\n".as_slice(), "not a status line"),
            (b"".as_slice(), "without a response"),
            (b"HTTP/1.1 200 OK\r\nx: y\r\n".as_slice(), "within the head"),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".as_slice(),
                "incomplete",
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nx".as_slice(),
                "content-length",
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".as_slice(),
                "no valid size",
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nhello".as_slice(),
                "longer than its size",
            ),
        ] {
            match answered(bytes, 1000).await {
                Err(HttpError::Invalid(why)) => assert!(why.contains(wanted), "{why}"),
                other => panic!("{wanted}: {other:?}"),
            }
        }
    }

    #[test]
    fn ids_are_percent_encoded_in_paths() {
        assert_eq!(percent_encode("ses_1-a.b~"), "ses_1-a.b~");
        assert_eq!(percent_encode("a/b c?#ä"), "a%2Fb%20c%3F%23%C3%A4");
    }
}
