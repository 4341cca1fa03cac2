//! HTTP client of our own commands for the daemon.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::cli::Failure;
use crate::exit;
use agentproto_runtime::home::Home;
use agentproto_runtime::{Code, Error};

/// Time limit for one response. A kill first lets the agent exit gracefully.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a read from a stream. The host sends something at least every 25 s.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of one line of a stream, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Where the stream of a session starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamStart {
    Start,
    Now,
}

/// Options that select the host.
#[derive(Args, Debug, Default)]
pub struct HostOptions {
    /// Connect to the daemon at URL [default: the daemon that uses $AGENTPROTO_HOME]
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub url: Option<String>,
    /// Read the token of that daemon from FILE
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,
}

/// A running host, as `serve` writes it to disk.
#[derive(Clone, Debug, Deserialize)]
pub struct Runtime {
    pub url: String,
    pub pid: u32,
    pub token: String,
    /// Certificate file of the host, if it has its own certificate.
    #[serde(default)]
    cert: Option<PathBuf>,
}

impl Runtime {
    /// `None` if no host has written the file, or if the file is something else.
    pub fn read(home: &Home) -> Result<Option<Runtime>, Error> {
        let bytes = home.read(crate::cli::agents::serve::RUNTIME_FILE)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// Client of one host.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    token: String,
}

impl Client {
    pub fn new(options: &HostOptions) -> Result<Client, Failure> {
        let (url, token, cert) = match (&options.url, &options.token_file) {
            (Some(url), Some(file)) => (url.clone(), read_token(file)?, None),
            _ => {
                let home = Home::from_env()?;
                let found = Runtime::read(&home)?;
                let found = found.ok_or_else(|| no_host(&home))?;
                (found.url, found.token, found.cert)
            }
        };
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // The proxy in the environment is for outgoing traffic, not for this machine.
            .proxy(None)
            .max_redirects(0)
            .user_agent(concat!("agentproto/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .timeout_per_read(Some(READ_TIMEOUT));
        let roots = match cert {
            Some(cert) => RootCerts::Specific(Arc::new(certificates(&cert)?)),
            None => RootCerts::PlatformVerifier,
        };
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        Ok(Client {
            agent: config.build().into(),
            base: url.trim_end_matches('/').to_owned(),
            token,
        })
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        let response = self
            .agent
            .get(format!("{}{path}", self.base))
            .header("Authorization", self.bearer())
            .call();
        self.read_response(response)
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let response = self
            .agent
            .post(format!("{}{path}", self.base))
            .header("Authorization", self.bearer())
            .header("Content-Type", "application/json")
            .send(body.to_string());
        self.read_response(response)
    }

    pub fn delete(&self, path: &str) -> Result<Value, Failure> {
        let response = self
            .agent
            .delete(format!("{}{path}", self.base))
            .header("Authorization", self.bearer())
            .call();
        self.read_response(response)
    }

    /// Address of the host, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    fn read_response(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Value, Failure> {
        let mut response = response.map_err(|error| self.unreachable_error(&error.to_string()))?;
        let status = response.status().as_u16();
        let text = response
            .body_mut()
            .with_config()
            .limit(u64::MAX)
            .read_to_string();
        let text = text.map_err(|error| self.unreachable_error(&error.to_string()))?;
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        match status {
            200..=299 => Ok(value),
            status => Err(error_response(status, &value)),
        }
    }

    fn unreachable_error(&self, why: &str) -> Failure {
        Failure::new(
            exit::UNAVAILABLE,
            format!("the host at {} does not respond: {why}", self.base),
        )
        .typed("host_unavailable")
        .hint("start one with `agentproto serve`")
    }

    /// Follows a session: after a known item, or from `start` or `now` on.
    pub fn stream(
        &self,
        id: &str,
        after: Option<&str>,
        from: StreamStart,
    ) -> Result<Frames, Failure> {
        let from = match from {
            StreamStart::Start => "start",
            StreamStart::Now => "now",
        };
        let mut request = self
            .agent
            .get(format!(
                "{}/sessions/{}/stream?from={from}",
                self.base,
                percent_encode(id)
            ))
            .header("Authorization", self.bearer())
            .header("Accept", "text/event-stream");
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after);
        }
        let mut response = request
            .call()
            .map_err(|error| self.unreachable_error(&error.to_string()))?;
        let status = response.status().as_u16();
        if status != 200 {
            let text = response.body_mut().read_to_string().unwrap_or_default();
            return Err(error_response(
                status,
                &serde_json::from_str(&text).unwrap_or_default(),
            ));
        }
        let reader = response.into_body().into_reader();
        Ok(Frames {
            lines: Box::new(BufReader::new(reader)),
        })
    }
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(exit::NO_INPUT, format!("`{}`: {error}", file.display()))
            .hint("the file must contain the token, or be the host's `runtime.json`")
    })?;
    let token = serde_json::from_str::<Runtime>(&text).map(|runtime| runtime.token);
    Ok(token.unwrap_or_else(|_| text.trim().to_owned()))
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, Failure> {
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("`{}`: {error}", file.display())))?;
    let items = parse_pem(&bytes).filter_map(Result::ok);
    Ok(items
        .filter_map(|item| match item {
            PemItem::Certificate(cert) => Some(cert),
            _ => None,
        })
        .collect())
}

fn no_host(home: &Home) -> Failure {
    let what = format!(
        "no daemon is running (state directory `{}`)",
        home.root().display()
    );
    Failure::new(exit::UNAVAILABLE, what)
        .typed("no_host")
        .hint("start it with `agentproto serve`")
}

/// Converts an error response of the host, and keeps its message and hint.
fn error_response(status: u16, body: &Value) -> Failure {
    let error = &body["error"];
    let message = match error["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("the host responded with status {status}"),
    };
    let code = match status {
        400 => exit::USAGE,
        401 | 403 => exit::NO_PERMISSION,
        404 => exit::NO_INPUT,
        409 | 429 | 503 => exit::TEMPORARY,
        413 | 422 => exit::DATA,
        _ => exit::UNAVAILABLE,
    };
    let mut failure = Failure::new(code, message);
    if let Some(known) = error["code"].as_str().and_then(known_code) {
        failure = failure.typed(known);
    }
    match error["hint"].as_str() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The error codes of the runtime, and those of the host that users meet.
fn known_code(code: &str) -> Option<&'static str> {
    const OF_HOST: [&str; 6] = [
        "adapter_not_found",
        "cwd_link",
        "permission_not_found",
        "session_alive",
        "session_ended",
        "session_not_found",
    ];
    let of_host = OF_HOST.iter().find(|known| **known == code).copied();
    of_host.or_else(|| Some(code.parse::<Code>().ok()?.as_str()))
}

/// Percent-encodes `text` as one segment of a path.
pub fn percent_encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|b| match plain(b) {
            true => char::from(b).to_string(),
            false => format!("%{b:02X}"),
        })
        .collect()
}

/// One server-sent event. The reader skips unknown types (A46-SSE-05).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

pub struct Frames {
    lines: Box<dyn BufRead + Send>,
}

impl Frames {
    /// The next event with data, or `None` if the stream breaks off.
    pub fn next(&mut self) -> Option<Frame> {
        let mut frame = Frame::default();
        let mut data = String::new();
        loop {
            let line = self.line()?;
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "" if line.is_empty() => {
                    if !data.is_empty() {
                        frame.data = serde_json::from_str(&data).unwrap_or_default();
                        return Some(frame);
                    }
                    frame = Frame::default();
                }
                "id" => frame.id = Some(value.to_owned()),
                "event" => frame.event = value.to_owned(),
                "data" => {
                    if !data.is_empty() {
                        data.push('\n');
                    }
                    data.push_str(value);
                }
                _ => {}
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        use std::io::Read;
        let mut line = Vec::new();
        let read = self
            .lines
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line);
        if read.ok()? == 0 || line.pop() != Some(b'\n') {
            return None;
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn frames(text: &'static str) -> Vec<Frame> {
        let mut frames = Frames {
            lines: Box::new(text.as_bytes()),
        };
        std::iter::from_fn(|| frames.next()).collect()
    }

    // A46-SSE-05, A46-MODEL-12.
    #[test]
    fn server_sent_events_are_parsed() {
        let got = frames(
            "retry: 5\n\n: comment\n\nid: 1-2\nevent: line\ndata: {\"line\":\"a\",\"new\":1}\n\n\
             event:odd\r\ndata:{\ndata: \"x\": 2}\r\n\r\nodd: x\ndata: 3\n\ndata: cut",
        );
        assert_eq!(got.len(), 3, "{got:?}");
        assert_eq!(got[0].id.as_deref(), Some("1-2"));
        assert_eq!(got[0].data["line"], "a");
        assert_eq!(
            (got[1].event.as_str(), &got[1].data),
            ("odd", &json!({ "x": 2 }))
        );
        assert_eq!((got[2].event.as_str(), &got[2].data), ("", &json!(3)));
    }

    #[test]
    fn error_responses_keep_message_and_hint() {
        let failure = error_response(
            409,
            &json!({ "error": { "code": "session_busy", "message": "busy", "hint": "wait" } }),
        );
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (exit::TEMPORARY, "busy")
        );
        assert_eq!(failure.hint.as_deref(), Some("wait"));
        let odd = error_response(502, &Value::Null);
        assert!(odd.message.contains("502") && odd.code == exit::UNAVAILABLE);
    }

    #[test]
    fn ids_are_encoded_as_one_path_segment() {
        assert_eq!(percent_encode("a/b?c d"), "a%2Fb%3Fc%20d");
        assert_eq!(percent_encode("toolu_1-x"), "toolu_1-x");
    }
}
