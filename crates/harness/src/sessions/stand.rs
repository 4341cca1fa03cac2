//! The environment of a probe: a host, and a log of all requests and responses.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::follow::Follow;
use super::http::{self, Head, Request, Trouble, encoded};
use super::target::HostTarget;
use super::visit::Seen;
use crate::probe;
use crate::run::Setting;
use crate::run::case::Blocked;
use agentproto_text::strict_json;
use agentproto_wire::Direction;

/// Minimum time limit for the body of a response.
const LAST_WORDS: Duration = Duration::from_millis(40);

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who<'a> {
    /// With the caller's token, if there is one.
    Ourselves,
    /// Without a token.
    Nobody,
    /// With this token.
    Stranger(&'a str),
}

/// A response, with the transcript lines of the request and the response.
#[derive(Debug)]
pub struct Answer {
    pub head: Head,
    pub body: Vec<u8>,
    /// The JSON value of the body, or why there is none.
    pub json: Result<Value, String>,
    pub lines: [u64; 2],
}

impl Answer {
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
    pub fn told(&self) -> String {
        let line = self.head.line.split_once(' ').map_or("", |(_, rest)| rest);
        let said = match &self.json {
            Ok(value) => ["/error/message", "/error", "/message", "/detail"]
                .into_iter()
                .find_map(|pointer| value.pointer(pointer)?.as_str().map(str::to_owned)),
            Err(_) => Some(String::from_utf8_lossy(&self.body).trim().to_owned()),
        };
        match said.filter(|said| !said.is_empty()) {
            Some(said) => {
                let said: String = said.chars().take(200).collect();
                format!("{line}: {said}")
            }
            None => line.to_owned(),
        }
    }
}

/// A host, and the sessions of a case.
pub struct Subject<'a> {
    pub host: &'a Arc<HostTarget>,
    /// Ids of the sessions that must be ended.
    pub alive: Vec<String>,
    pub seen: Vec<Seen>,
}

pub type Stand<'a> = probe::Stand<'a, Subject<'a>>;

impl<'a> Stand<'a> {
    pub fn new(host: &'a Arc<HostTarget>, setting: &'a Setting, root: &Path) -> Stand<'a> {
        probe::Stand::with(setting, root, |_| Subject {
            host,
            alive: Vec::new(),
            seen: Vec::new(),
        })
    }

    /// Marks one requirement as not applicable to this host.
    pub fn not_applicable(&mut self, id: &str, why: impl Into<String>) {
        self.open(id, Blocked::NotApplicable(why.into()));
    }

    pub fn not_verified(&mut self, id: &str, why: impl Into<String>) {
        self.open(id, Blocked::NotVerified(why.into()));
    }

    // --- requests --------------------------------------------------------------------------

    /// The time limit for a response.
    pub fn patience(&self) -> Duration {
        self.setting.starts.time(self.setting.timeout)
    }

    /// The path of a route of a session.
    pub fn route(&self, id: &str, rest: &str) -> String {
        format!("{}/{}{rest}", self.subject.host.prefix, encoded(id))
    }

    pub fn spawn_route(&self) -> String {
        format!("{}/agent", self.subject.host.prefix)
    }

    pub fn request(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&[u8]>,
        who: Who<'_>,
        more: &[(&'static str, String)],
    ) -> Request {
        let mut headers = vec![("host", self.subject.host.address.authority())];
        let own = self.subject.host.token.as_deref().map(String::as_str);
        let token = match who {
            Who::Ourselves => own,
            Who::Nobody => None,
            Who::Stranger(token) => Some(token),
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

    fn note_trouble(&self, trouble: &Trouble) -> u64 {
        let what = json!({"no_answer": trouble.told()}).to_string();
        match trouble {
            Trouble::Unreachable(_) | Trouble::Silent(_) => {
                self.setting.starts.silent_as(&trouble.told());
            }
            Trouble::Garbled(_) => self.setting.starts.answered(),
        }
        self.log.push_short(Direction::Process, what.as_bytes())
    }

    /// Sends a request and reads the whole response.
    pub async fn exchange(&mut self, request: &Request) -> Result<Answer, (Trouble, [u64; 2])> {
        let asked = self.note_request(request);
        let begun = Instant::now();
        let patience = self.patience();
        let bytes = request.bytes();
        let talking = async {
            let opened = http::open(&self.subject.host.address, &bytes, patience).await?;
            let left = patience.saturating_sub(begun.elapsed());
            opened.body(left.max(LAST_WORDS)).await
        };
        let answered = talking.await;
        self.played.agent += begun.elapsed();
        match answered {
            Ok((head, body)) => {
                self.setting.starts.answered();
                let line = self.note_head(&head, &body);
                Ok(Answer {
                    json: read_json(&body),
                    head,
                    body,
                    lines: [asked, line],
                })
            }
            Err(trouble) => {
                let line = self.note_trouble(&trouble);
                Err((trouble, [asked, line]))
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
    ) -> Result<Answer, Blocked> {
        let body = body.map(|body| body.to_string().into_bytes());
        let request = self.request(method, path, body.as_deref(), Who::Ourselves, &[]);
        let answered = self.exchange(&request).await;
        answered.map_err(|(trouble, lines)| self.failed(id, &trouble, lines))
    }

    pub fn failed(&mut self, id: &str, trouble: &Trouble, lines: [u64; 2]) -> Blocked {
        if !matches!(trouble, Trouble::Unreachable(_)) && !id.is_empty() {
            self.broken(id, trouble.told(), &lines);
        }
        Blocked::NotVerified(trouble.told())
    }

    /// Opens the event stream of a session.
    pub async fn follow(&mut self, id: &str) -> Result<Follow, (Trouble, [u64; 2])> {
        let path = self.route(id, "/stream");
        let accept = [("accept", "text/event-stream".to_owned())];
        let request = self.request("GET", &path, None, Who::Ourselves, &accept);
        self.follow_request(&request).await
    }

    pub async fn follow_request(
        &mut self,
        request: &Request,
    ) -> Result<Follow, (Trouble, [u64; 2])> {
        let asked = self.note_request(request);
        let patience = self.patience();
        match http::open(&self.subject.host.address, &request.bytes(), patience).await {
            Ok(opened) => {
                self.setting.starts.answered();
                let line = self.note_head(&opened.head, b"");
                Ok(Follow::new(opened, Arc::clone(&self.log), [asked, line]))
            }
            Err(trouble) => {
                let line = self.note_trouble(&trouble);
                Err((trouble, [asked, line]))
            }
        }
    }
}

/// Parses exactly one JSON value, strictly.
pub fn read_json(bytes: &[u8]) -> Result<Value, String> {
    let strict = strict_json::read(bytes).map_err(|error| error.to_string())?;
    let twice = strict
        .oddities
        .iter()
        .find(|odd| odd.kind == strict_json::Odd::DuplicateKey);
    match twice {
        Some(odd) => Err(format!("duplicate key `{}`", odd.pointer)),
        None => Ok(strict.value),
    }
}
