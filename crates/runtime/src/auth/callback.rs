//! A callback URL on the loopback interface. It cannot be guessed, and it is valid for one request
//! and a limited time (A29-SEC-06, A29-SEC-07).

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::error::{Code, Error};
use crate::secrets::random;

/// Maximum size of a request. Browsers send less when they return from a login.
const MAX_REQUEST: usize = 16 << 10;
/// Maximum time for one connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 32;

/// The decoded pairs of the callback's query.
pub type Query = Vec<(String, String)>;

/// Why no callback arrived.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// No callback arrived within this time.
    #[error("no callback arrived within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The listener failed.
    #[error("cannot listen for the callback: {0}")]
    Io(String),
}

/// A listener for one callback.
pub struct Callback {
    listener: TcpListener,
    gate: Arc<Gate>,
    port: u16,
}

/// The conditions for an accepted request.
struct Gate {
    hosts: [String; 2],
    path: String,
    /// The OAuth `state` that the query must contain.
    state: Option<String>,
    /// Allowed values of the Origin header. A plain page visit has none.
    origins: Vec<String>,
    /// Whether the callback was already used.
    used: AtomicBool,
}

impl Callback {
    /// Starts listening. A fixed `path` is used only together with `state`, which then is the
    /// unguessable part.
    pub async fn open(
        path: Option<&str>,
        state: Option<String>,
        origins: &[String],
    ) -> Result<Callback, Error> {
        let cannot = |e: std::io::Error| {
            let what = format!("cannot open a port for the callback: {e}");
            Error::new(Code::SpawnFailed, what)
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
            gate: Arc::new(Gate {
                hosts,
                path,
                state,
                origins,
                used: AtomicBool::new(false),
            }),
            port,
        })
    }

    /// The URL that the page must call.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.gate.path)
    }

    /// Waits for the one matching request. Other requests are rejected and ignored.
    pub async fn wait(self, limit: Duration) -> Result<Query, CallbackError> {
        match tokio::time::timeout(limit, self.first()).await {
            Ok(result) => result,
            Err(_) => Err(CallbackError::Timeout(limit)),
        }
    }

    async fn first(self) -> Result<Query, CallbackError> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(served) = connections.join_next() => if let Ok(Ok(Some(query))) = served {
                    return Ok(query);
                },
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    let (stream, _) = accepted.map_err(|e| CallbackError::Io(e.to_string()))?;
                    let gate = Arc::clone(&self.gate);
                    connections.spawn(tokio::time::timeout(CONNECTION_TIMEOUT, serve_one(stream, gate)));
                }
            }
        }
    }
}

/// Responds to one request. Returns its query if it is accepted.
async fn serve_one(stream: impl AsyncRead + AsyncWrite + Unpin, gate: Arc<Gate>) -> Option<Query> {
    let received = OnceLock::new();
    let service = service_fn(|request| {
        let (code, text) = match gate.check(&request) {
            Ok(query) => {
                let _ = received.set(query);
                (200, "Done. You can close this page.")
            }
            Err(rejection) => rejection,
        };
        let response = Response::builder()
            .status(code)
            .header("content-type", "text/plain; charset=utf-8")
            .header("cache-control", "no-store")
            .header("referrer-policy", "no-referrer")
            .header("x-content-type-options", "nosniff")
            .header("content-security-policy", "default-src 'none'");
        ready(response.body(text.to_owned()))
    });
    let serving = http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .max_buf_size(4 * MAX_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    let _ = serving.await;
    received.into_inner()
}

impl Gate {
    fn check<B>(&self, request: &Request<B>) -> Result<Query, (u16, &'static str)> {
        let (headers, uri) = (request.headers(), request.uri());
        let query = uri.query().unwrap_or_default();
        let lengths = headers.iter().map(|(n, v)| n.as_str().len() + v.len());
        if uri.path().len() + query.len() + lengths.sum::<usize>() > MAX_REQUEST {
            return Err((400, "the request is too long"));
        }
        let all = |name: HeaderName| -> Vec<&str> {
            let values = headers.get_all(name).iter();
            values.map(|v| v.to_str().unwrap_or_default()).collect()
        };
        // Prevents DNS rebinding: a page under another name for this address must not reach it.
        match all(HOST).as_slice() {
            [host] if self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host)) => {}
            _ => return Err((403, "wrong Host header")),
        }
        let known = |origin: &str| self.origins.iter().any(|o| o.eq_ignore_ascii_case(origin));
        if !all(ORIGIN).iter().all(|origin| known(origin)) {
            return Err((403, "origin not allowed"));
        }
        // A target in absolute form is meant for a proxy.
        if uri.authority().is_some() || !constant_time_eq(uri.path(), &self.path) {
            return Err((404, "not found"));
        }
        if request.method() != Method::GET {
            return Err((405, "only GET is allowed"));
        }
        let query = decode(query);
        if let Some(state) = &self.state {
            let states: Vec<_> = query.iter().filter(|(name, _)| name == "state").collect();
            match states.as_slice() {
                [(_, received)] if constant_time_eq(received, state) => {}
                _ => return Err((403, "missing or wrong `state`")),
            }
        }
        if self.used.swap(true, Ordering::SeqCst) {
            return Err((410, "this address was already used"));
        }
        Ok(query)
    }
}

/// Compares in constant time.
fn constant_time_eq(received: &str, expected: &str) -> bool {
    let differing = received
        .bytes()
        .zip(expected.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    received.len() == expected.len() && differing == 0
}

/// Decodes the pairs of a query.
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
    use tokio::io::AsyncWriteExt;

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
        /// Hostile bytes are rejected without a panic.
        #[test]
        fn any_request(head in r"(GET|POST)?( |\r\n|:|/|\?|%|HTTP/1.1|Host|Origin|127.0.0.1:1|[a-z%é]){0,20}(\r\n\r\n)?") {
            let gate = Arc::new(Gate {
                hosts: ["127.0.0.1:1".into(), "localhost:1".into()],
                path: format!("/callback/{}", "0".repeat(64)),
                state: None,
                origins: Vec::new(),
                used: AtomicBool::new(false),
            });
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let query = runtime.expect("a runtime").block_on(async {
                let (mut ours, theirs) = tokio::io::duplex(MAX_REQUEST);
                ours.write_all(head.as_bytes()).await.expect("sent");
                drop(ours);
                serve_one(theirs, gate).await
            });
            assert_eq!(query, None);
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
