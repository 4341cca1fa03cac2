//! A callback that the host allocates: one address on the loopback, unguessable, good for one
//! request and a limited time (A29-SEC-06, A29-SEC-07).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fault::{Code, Fault};
use crate::secrets::random;

/// No browser sends more to come back from a login.
const LONGEST_REQUEST: usize = 16 << 10;
/// Who says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are listened to at once.
const MOST_AT_ONCE: usize = 32;

/// What came back: the pairs of the query, decoded.
pub type Query = Vec<(String, String)>;

/// Why nothing came back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missed {
    #[error("nobody came back within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the callback cannot be listened to: {0}")]
    Io(String),
}

pub struct Callback {
    listener: TcpListener,
    gate: Gate,
    port: u16,
}

/// What a request has to have.
#[derive(Clone)]
struct Gate {
    hosts: [String; 2],
    path: String,
    /// OAuth's own, in the query.
    state: Option<String>,
    /// Pages that may send somebody here; a plain visit names none.
    origins: Vec<String>,
}

impl Callback {
    /// Listens from now on. `path` only where somebody else has fixed it; then `state` is
    /// what cannot be guessed.
    pub async fn open(
        path: Option<&str>,
        state: Option<String>,
        origins: &[String],
    ) -> Result<Callback, Fault> {
        let cannot = |e: std::io::Error| {
            let what = format!("there is no address for the callback: {e}");
            Fault::new(Code::SpawnFailed, what)
        };
        let path = match (path, &state) {
            (Some(path), Some(_)) => path.to_owned(),
            _ => format!("/callback/{}", random::token()?),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let own = hosts.iter().map(|host| format!("http://{host}"));
        let origins = origins.iter().cloned().chain(own).collect();
        Ok(Callback {
            listener,
            gate: Gate {
                hosts,
                path,
                state,
                origins,
            },
            port,
        })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.gate.path)
    }

    /// Waits for the one request that fits. Everything else is turned away and does not count.
    pub async fn wait(self, limit: Duration) -> Result<Query, Missed> {
        match tokio::time::timeout(limit, self.first()).await {
            Ok(result) => result,
            Err(_) => Err(Missed::Timeout(limit)),
        }
    }

    async fn first(self) -> Result<Query, Missed> {
        let gate = Arc::new(self.gate);
        let taken = Arc::new(AtomicBool::new(false));
        let (found, mut first) = mpsc::channel(1);
        let mut talks = JoinSet::new();
        loop {
            tokio::select! {
                Some(query) = first.recv() => return Ok(query),
                Some(_) = talks.join_next(), if !talks.is_empty() => {}
                accepted = self.listener.accept(), if talks.len() < MOST_AT_ONCE => {
                    let (stream, _) = accepted.map_err(|e| Missed::Io(e.to_string()))?;
                    let (gate, taken, found) = (gate.clone(), taken.clone(), found.clone());
                    talks.spawn(tokio::time::timeout(PATIENCE, async move {
                        if let Some(query) = talk(stream, &gate, &taken).await {
                            let _ = found.send(query).await;
                        }
                    }));
                }
            }
        }
    }
}

async fn talk(mut stream: TcpStream, gate: &Gate, taken: &AtomicBool) -> Option<Query> {
    let head = head(&mut stream).await;
    let answer = match head.as_deref() {
        Some(head) => gate.judge(head),
        None => Err((400, "this is no request")),
    };
    let answer = match answer {
        Ok(query) if !taken.swap(true, Ordering::SeqCst) => Ok(query),
        Ok(_) => Err((410, "this address was used already")),
        Err(refusal) => Err(refusal),
    };
    let (code, text) = match &answer {
        Ok(_) => (200, "Done. You can close this page."),
        Err((code, text)) => (*code, *text),
    };
    let response = format!(
        "HTTP/1.1 {code} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'\r\n\r\n{text}",
        if code == 200 { "OK" } else { "Refused" },
        text.len(),
    );
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    answer.ok()
}

/// The lines before the empty one.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 2048];
    while bytes.len() <= LONGEST_REQUEST {
        let read = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(buffer.get(..read)?);
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            bytes.truncate(end);
            return String::from_utf8(bytes).ok();
        }
    }
    None
}

type Refused = (u16, &'static str);

impl Gate {
    fn judge(&self, head: &str) -> Result<Query, Refused> {
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words.as_slice() else {
            return Err((400, "this is no request"));
        };
        let headers: Vec<(&str, &str)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
            .collect();
        let all = |name: &str| {
            let named = headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
            named.map(|(_, value)| *value).collect::<Vec<_>>()
        };
        // Another name for this address would let a page of that name speak to us.
        match all("host").as_slice() {
            [host] if self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host)) => {}
            _ => return Err((403, "not from this host")),
        }
        let known = |origin: &str| self.origins.iter().any(|o| o.eq_ignore_ascii_case(origin));
        if !all("origin").iter().all(|origin| known(origin)) {
            return Err((403, "not from this page"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !same(path, &self.path) {
            return Err((404, "there is nothing here"));
        }
        if *method != "GET" {
            return Err((405, "only a visit counts"));
        }
        let query = decode(query);
        if let Some(state) = &self.state {
            let states: Vec<_> = query.iter().filter(|(name, _)| name == "state").collect();
            match states.as_slice() {
                [(_, said)] if same(said, state) => {}
                _ => return Err((403, "not the login that was begun")),
            }
        }
        Ok(query)
    }
}

/// Takes as long for a near miss as for a wild one.
fn same(said: &str, expected: &str) -> bool {
    let differing = said
        .bytes()
        .zip(expected.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    said.len() == expected.len() && differing == 0
}

/// The pairs of a query.
pub fn decode(query: &str) -> Query {
    let pairs = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name), unescape(value))
        });
    pairs.collect()
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = bytes.clone().take(2);
                let number = digits.map(|b| char::from(b).to_digit(16));
                match number.collect::<Vec<_>>().as_slice() {
                    [Some(high), Some(low)] => {
                        out.push((high * 16 + low) as u8);
                        bytes.nth(1);
                    }
                    _ => out.push(b'%'),
                }
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Scheme, host and port of a URL, as browsers send them.
pub fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let default = if scheme.eq_ignore_ascii_case("https") {
        ":443"
    } else {
        ":80"
    };
    let host = host.strip_suffix(default).unwrap_or(host);
    (!host.is_empty()).then(|| format!("{scheme}://{host}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        assert_eq!(
            decode("code=a%2Fb+c&x&&%zz=%4"),
            [
                ("code".into(), "a/b c".into()),
                ("x".into(), String::new()),
                ("%zz".into(), "%4".into())
            ] as [(String, String); 3]
        );
    }

    proptest::proptest! {
        /// Hostile bytes are refused, and nothing else happens.
        #[test]
        fn any_request(head in r"(GET|POST)?( |\r\n|:|/|\?|%|HTTP/1.1|Host|Origin|127.0.0.1:1|[a-z%é]){0,20}") {
            let gate = Gate {
                hosts: ["127.0.0.1:1".into(), "localhost:1".into()],
                path: format!("/callback/{}", "0".repeat(64)),
                state: None,
                origins: Vec::new(),
            };
            assert!(gate.judge(&head).is_err());
            let _ = (decode(&head), origin(&head));
        }
    }

    #[test]
    fn origins() {
        let of = |url: &str| origin(url).unwrap_or_default();
        assert_eq!(
            of("https://u@Login.example:443/a?b"),
            "https://login.example"
        );
        assert_eq!(of("http://x:8080"), "http://x:8080");
        assert_eq!(origin("mailto:x"), None);
    }
}
