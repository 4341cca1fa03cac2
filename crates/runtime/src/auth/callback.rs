//! A callback URL. It cannot be guessed, and it is valid for one request and a limited time
//! (A29-SEC-06, A29-SEC-07). By default it is on the loopback interface, for a browser on this
//! machine. [`CallbackSettings`] make it public (A29-AUTH-06).

use std::future::ready;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
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
use tokio_rustls::TlsAcceptor;

use crate::error::{Code, Error};
use crate::secrets::random;
use crate::tls;

/// Maximum size of a request. Browsers send less when they return from a login.
const MAX_REQUEST: usize = 16 << 10;
/// Maximum time for one connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 32;

/// How a callback is reached from outside.
#[derive(Clone, Debug, Default)]
pub struct CallbackSettings {
    /// Address to listen on. By default a free port on the loopback interface.
    pub bind: Option<SocketAddr>,
    /// URL under which others reach the listener, for example through a proxy that ends TLS.
    pub public_url: Option<String>,
    /// Certificate chain and private key as PEM files, to listen with TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// A public URL in parts.
struct PublicUrl {
    /// Scheme and authority.
    origin: String,
    /// Value of the Host header.
    host: String,
    /// Path without a slash at the end.
    prefix: String,
}

impl CallbackSettings {
    /// Checks the settings without opening anything.
    pub fn check(&self) -> Result<(), Error> {
        self.public()?;
        let invalid =
            |what: &str, hint: &str| Err(Error::new(Code::OptionInvalid, what).hint(hint));
        let bind = self.address();
        if !bind.ip().is_loopback() && self.tls.is_none() {
            return invalid(
                "a callback that listens on a network needs TLS: login codes are secrets",
                "add a certificate and its key, or listen on the loopback interface behind a proxy",
            );
        }
        if bind.ip().is_unspecified() && self.public_url.is_none() {
            return invalid(
                "the callback listens on all addresses, so its URL is unknown",
                "add the URL under which others reach this machine",
            );
        }
        Ok(())
    }

    fn address(&self) -> SocketAddr {
        self.bind
            .unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    fn public(&self) -> Result<Option<PublicUrl>, Error> {
        let Some(url) = &self.public_url else {
            return Ok(None);
        };
        let invalid = |why: &str| {
            let what = format!("invalid callback URL `{url}`: {why}");
            Error::new(Code::OptionInvalid, what)
                .hint("write a URL such as `https://login.example/agentproto`")
        };
        let uri = fluent_uri::Uri::parse(url.as_str()).map_err(|e| invalid(&e.to_string()))?;
        let authority = uri.authority().ok_or_else(|| invalid("it has no host"))?;
        if authority.host().is_empty() || authority.userinfo().is_some() {
            return Err(invalid("it needs a host, and no user name"));
        }
        if uri.query().is_some() || uri.fragment().is_some() {
            return Err(invalid("it must have no query and no fragment"));
        }
        let is_local = match authority.host().trim_matches(['[', ']']) {
            host if host.eq_ignore_ascii_case("localhost") => true,
            host => host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        };
        match uri.scheme().as_str().to_ascii_lowercase().as_str() {
            "https" => {}
            "http" if is_local => {}
            "http" => return Err(invalid("it must be https, because login codes are secrets")),
            _ => return Err(invalid("it must start with https://")),
        }
        let origin = origin(url).ok_or_else(|| invalid("it has no host"))?;
        let (_, host) = origin.split_once("://").unwrap_or_default();
        Ok(Some(PublicUrl {
            host: host.to_owned(),
            prefix: uri.path().as_str().trim_end_matches('/').to_owned(),
            origin,
        }))
    }
}

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
    tls: Option<TlsAcceptor>,
    gate: Arc<Gate>,
    url: String,
}

/// The conditions for an accepted request.
struct Gate {
    hosts: Vec<String>,
    /// The path, with and without the prefix of the public URL, because a proxy may remove it.
    paths: Vec<String>,
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
        settings: &CallbackSettings,
        path: Option<&str>,
        state: Option<String>,
        origins: &[String],
    ) -> Result<Callback, Error> {
        settings.check()?;
        let cannot = |e: std::io::Error| {
            let what = format!("cannot open a port for the callback: {e}");
            Error::new(Code::SpawnFailed, what)
        };
        let path = match (path, &state) {
            (Some(path), Some(_)) => path.to_owned(),
            _ => format!("/callback/{}", random::token()?),
        };
        let tls = settings.tls.as_ref().map(|(cert, key)| {
            tls::acceptor(cert, key).map_err(|why| {
                Error::new(Code::OptionInvalid, why)
                    .hint("both files must be PEM, and the key must belong to the certificate")
            })
        });
        let tls = tls.transpose()?;
        let listener = TcpListener::bind(settings.address())
            .await
            .map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut hosts = vec![address.to_string()];
        if address.ip().is_loopback() {
            hosts.push(format!("localhost:{}", address.port()));
        }
        let public = settings.public()?;
        let mut allowed: Vec<String> = origins.to_vec();
        allowed.extend(hosts.iter().map(|host| format!("{scheme}://{host}")));
        let (url, paths) = match public {
            Some(PublicUrl {
                origin,
                host,
                prefix,
            }) => {
                let full = format!("{prefix}{path}");
                let url = format!("{origin}{full}");
                hosts.push(host);
                allowed.push(origin);
                (url, vec![full, path])
            }
            None => (format!("{scheme}://{address}{path}"), vec![path]),
        };
        Ok(Callback {
            listener,
            tls,
            gate: Arc::new(Gate {
                hosts,
                paths,
                state,
                origins: allowed,
                used: AtomicBool::new(false),
            }),
            url,
        })
    }

    /// The URL that the page must call.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.listener
            .local_addr()
            .map_or(0, |address| address.port())
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
                    let tls = self.tls.clone();
                    let served = async move {
                        match tls {
                            Some(tls) => serve_one(tls.accept(stream).await.ok()?, gate).await,
                            None => serve_one(stream, gate).await,
                        }
                    };
                    connections.spawn(tokio::time::timeout(CONNECTION_TIMEOUT, served));
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
        let is_path = |path: &String| constant_time_eq(uri.path(), path);
        if uri.authority().is_some() || !self.paths.iter().any(is_path) {
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
                hosts: vec!["127.0.0.1:1".into(), "localhost:1".into()],
                paths: vec![format!("/callback/{}", "0".repeat(64))],
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
