//! The environment of a probe: a host, and a log of all requests and responses.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::event_stream::EventStream;
use super::http::{self, Head, HttpError, Request, percent_encode};
use super::session::ObservedStatus;
use super::target::HostTarget;
use crate::probe;
use crate::run::RunConfig;
use crate::run::case::NoVerdict;
use agentproto_text::strict_json;
use agentproto_wire::Direction;

/// Minimum time limit for the body of a response.
const MIN_BODY_TIME: Duration = Duration::from_millis(40);

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAuth<'a> {
    /// With the caller's token, if there is one.
    Own,
    /// Without a token.
    Without,
    /// With this token.
    Other(&'a str),
}

/// A response, with the transcript lines of the request and the response.
#[derive(Debug)]
pub struct HttpResponse {
    pub head: Head,
    pub body: Vec<u8>,
    /// The JSON value of the body, or why there is none.
    pub json: Result<Value, String>,
    pub lines: [u64; 2],
}

impl HttpResponse {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.head.status)
    }

    pub fn value(&self) -> &Value {
        self.json.as_ref().unwrap_or(&Value::Null)
    }

    /// The status, such as `404 Not Found`, and the message of the host.
    pub fn describe(&self) -> String {
        let line = self.head.line.split_once(' ').map_or("", |(_, rest)| rest);
        let message = match &self.json {
            Ok(value) => ["/error/message", "/error", "/message", "/detail"]
                .into_iter()
                .find_map(|pointer| value.pointer(pointer)?.as_str().map(str::to_owned)),
            Err(_) => Some(String::from_utf8_lossy(&self.body).trim().to_owned()),
        };
        match message.filter(|message| !message.is_empty()) {
            Some(message) => {
                let message: String = message.chars().take(200).collect();
                format!("{line}: {message}")
            }
            None => line.to_owned(),
        }
    }
}

/// A host, and the sessions of a case.
pub struct HostSubject<'a> {
    pub host: &'a Arc<HostTarget>,
    /// Ids of the sessions that must be ended.
    pub alive: Vec<String>,
    pub statuses: Vec<ObservedStatus>,
}

pub type ProbeContext<'a> = probe::ProbeContext<'a, HostSubject<'a>>;

impl<'a> ProbeContext<'a> {
    pub fn new(host: &'a Arc<HostTarget>, config: &'a RunConfig, root: &Path) -> ProbeContext<'a> {
        probe::ProbeContext::with(config, root, |_| HostSubject {
            host,
            alive: Vec::new(),
            statuses: Vec::new(),
        })
    }

    /// Marks one requirement as not applicable to this host.
    pub fn not_applicable(&mut self, id: &str, why: impl Into<String>) {
        self.undecided(id, NoVerdict::NotApplicable(why.into()));
    }

    pub fn not_verified(&mut self, id: &str, why: impl Into<String>) {
        self.undecided(id, NoVerdict::NotVerified(why.into()));
    }

    // --- requests --------------------------------------------------------------------------

    /// The time limit for a response.
    pub fn response_limit(&self) -> Duration {
        self.config.starts.time_limit(self.config.timeout)
    }

    /// The path of a route of a session.
    pub fn route(&self, id: &str, rest: &str) -> String {
        format!("{}/{}{rest}", self.subject.host.prefix, percent_encode(id))
    }

    pub fn spawn_route(&self) -> String {
        format!("{}/agent", self.subject.host.prefix)
    }

    pub fn request(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&[u8]>,
        auth: RequestAuth<'_>,
        more: &[(&'static str, String)],
    ) -> Request {
        let mut headers = vec![("host", self.subject.host.address.authority())];
        let own = self.subject.host.token.as_deref().map(String::as_str);
        let token = match auth {
            RequestAuth::Own => own,
            RequestAuth::Without => None,
            RequestAuth::Other(token) => Some(token),
        };
        if let Some(token) = token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        headers.push(("accept", "application/json".to_owned()));
        if body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        headers.push(("connection", "close".to_owned()));
        for (name, value) in more {
            headers.retain(|(known, _)| known != name);
            headers.push((name, value.clone()));
        }
        Request {
            method,
            path: format!("{}{path}", self.subject.host.address.base),
            headers,
            body: body.map(<[u8]>::to_vec),
        }
    }

    /// Logs a request in one line, without the token.
    fn note_request(&self, request: &Request) -> u64 {
        let mut text = format!("{} {}", request.method, request.path);
        for (name, value) in &request.headers {
            match *name {
                "authorization" => text.push_str(" authorization: Bearer [secret]"),
                "accept" | "content-type" | "connection" => {}
                "host" if *value == self.subject.host.address.authority() => {}
                name => text.push_str(&format!(" {name}: {value}")),
            }
        }
        let mut bytes = text.into_bytes();
        if let Some(body) = &request.body {
            bytes.push(b' ');
            bytes.extend_from_slice(body);
        }
        self.log.push_short(Direction::ToAgent, &bytes)
    }

    fn note_head(&self, head: &Head, body: &[u8]) -> u64 {
        let mut bytes = head.line.clone().into_bytes();
        for name in ["content-type", "mcp-session-id", "www-authenticate"] {
            if let Some(value) = head.header(name) {
                bytes.extend_from_slice(format!(" {name}: {value}").as_bytes());
            }
        }
        if !body.is_empty() {
            bytes.push(b' ');
            bytes.extend_from_slice(body);
        }
        self.log.push_short(Direction::FromAgent, &bytes)
    }

    fn note_error(&self, error: &HttpError) -> u64 {
        let what = json!({"no_answer": error.describe()}).to_string();
        match error {
            HttpError::Unreachable(_) | HttpError::TimedOut(_) => {
                self.config.starts.unanswered_because(&error.describe());
            }
            HttpError::Invalid(_) => self.config.starts.answered(),
        }
        self.log.push_short(Direction::Process, what.as_bytes())
    }

    /// Sends a request and reads the whole response.
    pub async fn exchange(
        &mut self,
        request: &Request,
    ) -> Result<HttpResponse, (HttpError, [u64; 2])> {
        let request_line = self.note_request(request);
        let start_time = Instant::now();
        let response_limit = self.response_limit();
        let bytes = request.bytes();
        let talking = async {
            let opened = http::open(&self.subject.host.address, &bytes, response_limit).await?;
            let left = response_limit.saturating_sub(start_time.elapsed());
            opened.body(left.max(MIN_BODY_TIME)).await
        };
        let answered = talking.await;
        self.outcome.agent += start_time.elapsed();
        match answered {
            Ok((head, body)) => {
                self.config.starts.answered();
                let line = self.note_head(&head, &body);
                Ok(HttpResponse {
                    json: read_json(&body),
                    head,
                    body,
                    lines: [request_line, line],
                })
            }
            Err(error) => {
                let line = self.note_error(&error);
                Err((error, [request_line, line]))
            }
        }
    }

    /// Sends a request to a route for which a requirement exists. Without a response, that
    /// requirement is violated, unless the host is unreachable.
    pub async fn ask(
        &mut self,
        id: &str,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpResponse, NoVerdict> {
        let body = body.map(|body| body.to_string().into_bytes());
        let request = self.request(method, path, body.as_deref(), RequestAuth::Own, &[]);
        let answered = self.exchange(&request).await;
        answered.map_err(|(error, lines)| self.failed(id, &error, lines))
    }

    pub fn failed(&mut self, id: &str, error: &HttpError, lines: [u64; 2]) -> NoVerdict {
        if !matches!(error, HttpError::Unreachable(_)) && !id.is_empty() {
            self.violation(id, error.describe(), &lines);
        }
        NoVerdict::NotVerified(error.describe())
    }

    /// Opens the event stream of a session.
    pub async fn open_stream(&mut self, id: &str) -> Result<EventStream, (HttpError, [u64; 2])> {
        let path = self.route(id, "/stream");
        let accept = [("accept", "text/event-stream".to_owned())];
        let request = self.request("GET", &path, None, RequestAuth::Own, &accept);
        self.open_stream_for(&request).await
    }

    pub async fn open_stream_for(
        &mut self,
        request: &Request,
    ) -> Result<EventStream, (HttpError, [u64; 2])> {
        let request_line = self.note_request(request);
        let response_limit = self.response_limit();
        match http::open(&self.subject.host.address, &request.bytes(), response_limit).await {
            Ok(opened) => {
                self.config.starts.answered();
                let line = self.note_head(&opened.head, b"");
                Ok(EventStream::new(
                    opened,
                    Arc::clone(&self.log),
                    [request_line, line],
                ))
            }
            Err(error) => {
                let line = self.note_error(&error);
                Err((error, [request_line, line]))
            }
        }
    }
}

/// Parses exactly one JSON value, strictly.
pub fn read_json(bytes: &[u8]) -> Result<Value, String> {
    let strict = strict_json::read(bytes).map_err(|error| error.to_string())?;
    let twice = strict
        .quirks
        .iter()
        .find(|odd| odd.kind == strict_json::JsonQuirkKind::DuplicateKey);
    match twice {
        Some(odd) => Err(format!("duplicate key `{}`", odd.pointer)),
        None => Ok(strict.value),
    }
}
