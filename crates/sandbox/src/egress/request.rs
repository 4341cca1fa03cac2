//! The head of a request to an HTTP proxy: what it requests, and what is passed on.

use httparse::Header;

use super::body::Framing;

/// A client's request to an HTTP proxy.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// The host as written; `hosts` checks whether it is valid.
    pub host: Vec<u8>,
    pub port: u16,
    pub action: RequestAction,
}

#[derive(Debug, PartialEq, Eq)]
pub enum RequestAction {
    Tunnel,
    /// One request, with the head that the host gets.
    Forward {
        head: Vec<u8>,
        framing: Framing,
    },
}

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("the request line is not HTTP/1")]
    RequestLine,
    #[error("this is a proxy: send `CONNECT host:port` or a full `http://` URL")]
    NotProxied,
    #[error("only `http://` URLs are forwarded; use CONNECT for others")]
    Scheme,
    #[error("the URL contains a user name, which belongs in a header")]
    UserInfo,
    #[error("the port is not a number from 1 to 65535")]
    Port,
    #[error("a header line is invalid")]
    Header,
    #[error("the headers do not define where the body ends")]
    Length,
}

/// Position after the head, including its empty line.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// Parses a complete head, from the request line to the empty line. Folded lines and a space before
/// the colon are refused, because parsers differ about them.
pub fn parse(head: &[u8]) -> Result<Request, HeadError> {
    let mut headers = strict_lines(head)?;
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(httparse::Status::Complete(_)) => return Err(HeadError::Header),
        Ok(httparse::Status::Partial) => return Err(HeadError::RequestLine),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            return Err(HeadError::Header);
        }
        Err(_) => return Err(HeadError::RequestLine),
    }
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(HeadError::RequestLine);
    };
    let (method, target) = (method.as_bytes(), target.as_bytes());
    let version = if minor == 0 { b"HTTP/1.0" } else { b"HTTP/1.1" };
    let headers = &*parsed.headers;
    if method == b"CONNECT" {
        let (host, port) = authority(target)?;
        return Ok(Request {
            host: host.to_vec(),
            port: port.ok_or(HeadError::Port)?,
            action: RequestAction::Tunnel,
        });
    }
    let url = Url::parse(target)?;
    let (host, port) = authority(url.authority)?;
    let framing = framing(headers)?;
    let mut sent = Vec::with_capacity(head.len() + 64);
    for part in [
        method,
        b" ",
        url.rest(method).as_slice(),
        b" ",
        version,
        b"\r\nHost: ",
    ] {
        sent.extend_from_slice(part);
    }
    sent.extend_from_slice(url.authority);
    sent.extend_from_slice(b"\r\n");
    let hop_headers = HopHeaders::new(headers);
    for header in headers.iter().filter(|h| !hop_headers.contains(h.name)) {
        for part in [header.name.as_bytes(), b": ", header.value, b"\r\n"] {
            sent.extend_from_slice(part);
        }
    }
    sent.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok(Request {
        host: host.to_vec(),
        port: port.unwrap_or(80),
        action: RequestAction::Forward {
            head: sent,
            framing,
        },
    })
}

/// Space for the headers of a head. Refuses what `httparse` accepts: empty lines before the
/// request, and a lone CR or LF, because other parsers may read them as an end.
fn strict_lines(head: &[u8]) -> Result<Vec<Header<'_>>, HeadError> {
    if head.starts_with(b"\r\n") || !head.ends_with(b"\r\n\r\n") {
        return Err(HeadError::RequestLine);
    }
    let mut marks = memchr::memchr3_iter(b'\r', b'\n', 0, head);
    let mut count = 0;
    while let Some(at) = marks.next() {
        if !head.get(at..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
            return Err(HeadError::Header);
        }
        marks.next();
        count += 1;
    }
    Ok(vec![httparse::EMPTY_HEADER; count])
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

struct Url<'a> {
    authority: &'a [u8],
    path: &'a [u8],
}

impl<'a> Url<'a> {
    fn parse(target: &'a [u8]) -> Result<Self, HeadError> {
        let scheme_end = memchr::memmem::find(target, b"://").ok_or(HeadError::NotProxied)?;
        let (scheme, rest) = target.split_at(scheme_end);
        if target.starts_with(b"/") || !is_token(scheme) {
            return Err(HeadError::NotProxied);
        }
        if !scheme.eq_ignore_ascii_case(b"http") {
            return Err(HeadError::Scheme);
        }
        let rest = rest.strip_prefix(b"://").unwrap_or(rest);
        let end = memchr::memchr3(b'/', b'?', b'#', rest).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains(&b'@') {
            return Err(HeadError::UserInfo);
        }
        Ok(Self { authority, path })
    }

    /// The target in the request that is sent to the host itself.
    fn rest(&self, method: &[u8]) -> Vec<u8> {
        let end = memchr::memchr(b'#', self.path).unwrap_or(self.path.len());
        let path = self.path.get(..end).unwrap_or_default();
        match path.first() {
            None if method == b"OPTIONS" => b"*".to_vec(),
            Some(b'/') => path.to_vec(),
            _ => [b"/", path].concat(),
        }
    }
}

/// Splits `host`, `host:port` or `[v6]:port`.
fn authority(text: &[u8]) -> Result<(&[u8], Option<u16>), HeadError> {
    let colon = match memchr::memrchr(b']', text) {
        Some(bracket) => match text.get(bracket + 1) {
            None => None,
            Some(b':') => Some(bracket + 1),
            Some(_) => return Err(HeadError::Port),
        },
        None => memchr::memrchr(b':', text),
    };
    let Some((host, port)) = colon.and_then(|at| text.split_at_checked(at)) else {
        return Ok((text, None));
    };
    let port = port.strip_prefix(b":").unwrap_or(port);
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(port).ok().and_then(|p| p.parse().ok());
    match number.filter(|port| digits && *port > 0) {
        Some(port) => Ok((host, Some(port))),
        None => Err(HeadError::Port),
    }
}

/// The framing of the body. Two parsers of a head must never disagree about where the body ends.
fn framing(headers: &[Header]) -> Result<Framing, HeadError> {
    let values = |name: &str| -> Vec<&[u8]> {
        let named = headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
        named.map(|h| h.value).collect()
    };
    let lengths = values("content-length");
    let codings = values("transfer-encoding");
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Framing::Length(0)),
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        ([length], []) if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(length)
                .ok()
                .and_then(|text| text.parse().ok())
                .map(Framing::Length)
                .ok_or(HeadError::Length)
        }
        _ => Err(HeadError::Length),
    }
}

/// Headers that are not passed on.
struct HopHeaders<'a> {
    named: Vec<&'a [u8]>,
}

impl<'a> HopHeaders<'a> {
    fn new(headers: &[Header<'a>]) -> Self {
        let connection = headers
            .iter()
            .filter(|h| h.name.eq_ignore_ascii_case("connection"));
        let named = connection
            .flat_map(|h| h.value.split(|b| *b == b','))
            .map(<[u8]>::trim_ascii)
            .collect();
        Self { named }
    }

    fn contains(&self, name: &str) -> bool {
        let name = name.as_bytes();
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        if is(b"content-length") || is(b"transfer-encoding") {
            return false;
        }
        let proxy = name
            .get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"proxy-"));
        let own = [
            &b"host"[..],
            b"connection",
            b"keep-alive",
            b"te",
            b"upgrade",
        ];
        proxy || own.into_iter().any(is) || self.named.iter().any(|other| is(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(text: &str) -> (String, u16, String) {
        let request = parse(text.as_bytes()).expect(text);
        let RequestAction::Forward { head, .. } = request.action else {
            panic!("a tunnel: {text}");
        };
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(request.host), request.port, text(head))
    }

    #[test]
    fn connect_requests_are_parsed() {
        for (target, host, port) in [
            ("a.example:443", "a.example", 443),
            ("A.example.:8443", "A.example.", 8443),
            ("[::1]:443", "[::1]", 443),
            ("0x7f.1:80", "0x7f.1", 80),
        ] {
            let request = parse(format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            assert_eq!(
                request,
                Ok(Request {
                    host: host.as_bytes().to_vec(),
                    port,
                    action: RequestAction::Tunnel
                }),
                "{target}"
            );
        }
    }

    #[test]
    fn forwarded_heads_are_rewritten() {
        let (host, port, head) = forwarded(
            "POST http://A.example:81/p?q=1#frag HTTP/1.1\r\nHost: evil.example\r\n\
             Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nX-Own: 1\r\n\
             Connection: x-own, content-length, Keep-Alive\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
             Content-Length: 2\r\nAccept:  a \r\nhost: other\r\n\r\n",
        );
        assert_eq!((host.as_str(), port), ("A.example", 81));
        assert_eq!(
            head,
            "POST /p?q=1 HTTP/1.1\r\nHost: A.example:81\r\nContent-Length: 2\r\nAccept: a\r\n\
             Connection: close\r\n\r\n"
        );
        let first = |text: &str| {
            let (_, _, head) = forwarded(text);
            head.split("\r\n").next().unwrap_or_default().to_owned()
        };
        assert_eq!(
            first("GET HTTP://a.example HTTP/1.0\r\n\r\n"),
            "GET / HTTP/1.0"
        );
        assert_eq!(
            first("GET http://a.example?q HTTP/1.1\r\n\r\n"),
            "GET /?q HTTP/1.1"
        );
        assert_eq!(
            first("OPTIONS http://a.example HTTP/1.1\r\n\r\n"),
            "OPTIONS * HTTP/1.1"
        );
    }

    #[test]
    fn invalid_heads_are_refused() {
        let get = |headers: &str| format!("GET http://a.example/ HTTP/1.1\r\n{headers}\r\n\r\n");
        for (text, error) in [
            ("\r\n\r\n".to_owned(), HeadError::RequestLine),
            (
                "\r\nGET http://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            (
                "\nGET http://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Header,
            ),
            (
                "GET http://a/ HTTP/1.1\r\n\r\nA: b\r\n\r\n".to_owned(),
                HeadError::Header,
            ),
            (
                "GET http://a/ HTTP/1.1\r\nA: b\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            (
                "GET http://a/ HTTP/1.1 \r\n\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            (
                "GET http://a/\u{7f} HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            ("GET /\r\n\r\n".to_owned(), HeadError::RequestLine),
            (
                "GET  http://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            (
                "GET http://a/ HTTP/2.0\r\n\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            (
                "G(T http://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::RequestLine,
            ),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), HeadError::NotProxied),
            (
                "GET /http://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::NotProxied,
            ),
            (
                "GET a.example:80 HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::NotProxied,
            ),
            (
                "GET https://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Scheme,
            ),
            (
                "GET ftp://a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Scheme,
            ),
            (
                "GET http://u:p@a/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::UserInfo,
            ),
            (
                "GET http://a.example@evil/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::UserInfo,
            ),
            (
                "GET http://a:0/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (
                "GET http://a:+80/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (
                "GET http://a:65536/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (
                "GET http://[::1]x/ HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (
                "CONNECT a.example HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (
                "CONNECT a.example: HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (
                "CONNECT a.example:http HTTP/1.1\r\n\r\n".to_owned(),
                HeadError::Port,
            ),
            (get("No colon"), HeadError::Header),
            (get("Space : x"), HeadError::Header),
            (get("A: b\r\n folded"), HeadError::Header),
            (get("A: b\nHost: evil"), HeadError::Header),
            (get("A: b\rC: d"), HeadError::Header),
            (get("A: \0"), HeadError::Header),
            (
                get("Content-Length: 1\r\nContent-Length: 1"),
                HeadError::Length,
            ),
            (
                get("Content-Length: 1\r\nTransfer-Encoding: chunked"),
                HeadError::Length,
            ),
            (get("Content-Length: +1"), HeadError::Length),
            (get("Content-Length: 1, 1"), HeadError::Length),
            (get("Content-Length:"), HeadError::Length),
            (
                get("Content-Length: 99999999999999999999"),
                HeadError::Length,
            ),
            (get("Transfer-Encoding: gzip, chunked"), HeadError::Length),
            (
                get("Transfer-Encoding: chunked\r\nTransfer-Encoding: x"),
                HeadError::Length,
            ),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(error), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(
            bytes: Vec<u8>,
            text in "(GET|CONNECT|) ?(http://)?[a:@\\[\\]/?#%0-9]{0,12} HTTP/1.1(\r\n[A-Za-z:, -]{0,20}){0,3}",
        ) {
            let _ = head_end(&bytes);
            let _ = parse(&bytes);
            let _ = parse(format!("{text}\r\n\r\n").as_bytes());
        }
    }
}
