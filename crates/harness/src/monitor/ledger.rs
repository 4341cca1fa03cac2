//! The state of a conversation: open requests of both sides, capabilities, sessions. Monitors read
//! it. It checks nothing itself.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Frame;
use agentproto_wire::{Direction, Envelope, Kind};

/// Maximum number of requests that are remembered. Answered ones are kept so that a second response
/// is recognized.
const REMEMBERED: usize = 20_000;

/// A request that one side sent.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub id: Value,
    pub method: String,
    pub params: Value,
    pub line: u64,
    /// Number of responses so far.
    pub answers: u32,
    /// The line of the first response.
    pub answered: Option<u64>,
    /// Number of responses that are due. More than one if the id was reused while it was open.
    pub expected: u32,
    /// Whether its envelope was invalid on purpose. Then any response is acceptable.
    pub is_flawed: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The line that made the session known: the response to `session/new`, or the client's
    /// `session/load`.
    pub since: u64,
    /// The line of the response to `session/close` or `session/delete`.
    pub closed: Option<u64>,
    pub cwd: String,
    /// The id of the client's open `session/prompt`.
    pub turn: Option<String>,
    /// The line at which the current turn was canceled.
    pub cancelled: Option<u64>,
    /// The line of the last response to `session/prompt`, and whether its stop reason was
    /// `cancelled`.
    pub last_answer: Option<(u64, bool)>,
    /// Whether a `session/load` is open. Then updates are a replay.
    pub is_loading: bool,
    /// The load or resume that opened the session. If it fails, the session does not exist.
    opened_by: Option<String>,
}

#[derive(Default)]
pub struct Ledger {
    /// Requests of the client, by id (see `id_key`).
    pub to_agent: HashMap<String, Asked>,
    /// Requests of the agent, by id.
    pub from_agent: HashMap<String, Asked>,
    /// `params` of the last `initialize`.
    pub client: Value,
    /// `result` of the response to it.
    pub agent: Value,
    /// The line of that `initialize`.
    pub started: Option<u64>,
    pub sessions: HashMap<String, Session>,
    /// Number of invalid lines that the client sent: bad JSON, bad envelopes. Each may be answered
    /// with an error whose id is null.
    pub nonsense_sent: u32,
    /// Number of such errors that the agent sent.
    pub nonsense_answered: u32,
    /// The framing of the current line. Empty for further messages on the same line.
    pub frames: Vec<Frame>,
    /// Ids of the client's requests that were not answered within the time limit.
    pub given_up: HashSet<String>,
}

/// An id as a key: `1`, `"1"` and `null` are different.
pub fn id_key(id: &Value) -> String {
    id.to_string()
}

impl Ledger {
    /// The request that a line answers.
    pub fn answered_by(&self, direction: Direction, envelope: &Envelope) -> Option<Asked> {
        let Kind::Response { id, .. } = &envelope.kind else {
            return None;
        };
        let table = match direction {
            Direction::FromAgent => &self.to_agent,
            Direction::ToAgent => &self.from_agent,
            _ => return None,
        };
        table.get(&id_key(id)).cloned()
    }

    /// Whether a request of the client names this session.
    pub fn we_named(&self, session: &str) -> bool {
        let mut ours = self.to_agent.values();
        ours.any(|asked| asked.params.get("sessionId").and_then(Value::as_str) == Some(session))
    }

    /// Adds a line, after the monitors have seen it.
    pub fn take(
        &mut self,
        direction: Direction,
        number: u64,
        json: Option<&Value>,
        envelope: Option<&Envelope>,
    ) {
        let (Some(json), Some(envelope)) = (json, envelope) else {
            self.nonsense_sent += u32::from(direction == Direction::ToAgent);
            return;
        };
        match (&envelope.kind, direction) {
            (Kind::Request { id, method }, _) => {
                let table = match direction {
                    Direction::ToAgent => &self.to_agent,
                    _ => &self.from_agent,
                };
                let open = table.get(&id_key(id));
                let due = open.map_or(0, |open| open.expected.saturating_sub(open.answers));
                let asked = Asked {
                    id: id.clone(),
                    method: method.clone(),
                    params: json.get("params").cloned().unwrap_or(Value::Null),
                    line: number,
                    answers: 0,
                    answered: None,
                    expected: due.saturating_add(1),
                    is_flawed: !envelope.flaws.is_empty(),
                };
                if direction == Direction::ToAgent {
                    self.we_ask(&asked, number, envelope);
                    self.to_agent.insert(id_key(id), asked);
                } else {
                    self.from_agent.insert(id_key(id), asked);
                }
            }
            (Kind::Response { id, is_error }, Direction::FromAgent) => {
                let key = id_key(id);
                if let Some(asked) = self.to_agent.get_mut(&key) {
                    asked.answers += 1;
                    asked.answered.get_or_insert(number);
                    let asked = asked.clone();
                    if asked.is_flawed && asked.answers == 1 {
                        self.nonsense_answered += 1;
                    }
                    self.they_answer(&asked, *is_error, json, number);
                } else if id.is_null() && *is_error && self.nonsense_answered < self.nonsense_sent {
                    self.nonsense_answered += 1;
                } else if let Some(asked) = self.meant(id).cloned() {
                    // The request stays open, because the id of the response is wrong.
                    self.they_answer(&asked, *is_error, json, number);
                }
                forget_some(&mut self.to_agent);
            }
            (Kind::Response { id, .. }, Direction::ToAgent) => {
                if let Some(asked) = self.from_agent.get_mut(&id_key(id)) {
                    asked.answers += 1;
                    asked.answered.get_or_insert(number);
                } else if envelope.flaws.is_empty() {
                    // The agent may complain about a response that matches no request.
                    self.nonsense_sent += 1;
                }
                forget_some(&mut self.from_agent);
            }
            (Kind::Notification { method }, Direction::ToAgent) => {
                if method == "session/cancel"
                    && let Some(session) = session_of(json)
                    && let Some(session) = self.sessions.get_mut(session)
                    && session.turn.is_some()
                {
                    session.cancelled = Some(number);
                }
            }
            (Kind::Other, Direction::ToAgent) => {
                self.nonsense_sent += 1;
                // The agent may answer with the id of the invalid message.
                if let Some(id) = json.get("id") {
                    let asked = Asked {
                        id: id.clone(),
                        line: number,
                        is_flawed: true,
                        expected: 1,
                        ..Asked::default()
                    };
                    self.to_agent.insert(id_key(id), asked);
                }
            }
            _ => {}
        }
        if direction == Direction::ToAgent
            && !envelope.flaws.is_empty()
            && envelope.kind != Kind::Other
        {
            self.nonsense_sent += 1;
        }
    }

    fn we_ask(&mut self, asked: &Asked, number: u64, envelope: &Envelope) {
        match asked.method.as_str() {
            "initialize" => {
                self.client = asked.params.clone();
                self.started = Some(number);
            }
            "session/load" | "session/resume" => {
                // The replay comes before the response.
                if let Some(id) = asked.params.get("sessionId").and_then(Value::as_str) {
                    let is_known = self.sessions.get(id).is_some_and(|s| s.closed.is_none());
                    let session = self.sessions.entry(id.to_owned()).or_default();
                    if !is_known {
                        session.since = number;
                        session.closed = None;
                        session.opened_by = Some(id_key(&asked.id));
                    }
                    session.cwd = text(&asked.params, "cwd");
                    session.is_loading = asked.method == "session/load";
                }
            }
            "session/prompt" if envelope.flaws.is_empty() => {
                let id = asked.params.get("sessionId").and_then(Value::as_str);
                if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
                    session.turn = Some(id_key(&asked.id));
                    session.cancelled = None;
                }
            }
            _ => {}
        }
    }

    fn they_answer(&mut self, asked: &Asked, is_error: bool, json: &Value, number: u64) {
        let result = json.get("result").unwrap_or(&Value::Null);
        let named = asked.params.get("sessionId").and_then(Value::as_str);
        if asked.method == "session/load"
            && let Some(session) = named.and_then(|id| self.sessions.get_mut(id))
        {
            session.is_loading = false;
        }
        match asked.method.as_str() {
            "initialize" if !is_error => self.agent = result.clone(),
            "session/new" | "session/fork" if !is_error => {
                if let Some(id) = result.get("sessionId").and_then(Value::as_str) {
                    let session = Session {
                        since: number,
                        cwd: text(&asked.params, "cwd"),
                        ..Session::default()
                    };
                    self.sessions.insert(id.to_owned(), session);
                }
            }
            "session/load" | "session/resume" if is_error => {
                if let Some(session) = named.and_then(|id| self.sessions.get_mut(id))
                    && session.opened_by == Some(id_key(&asked.id))
                {
                    session.closed = Some(number);
                }
            }
            "session/close" | "session/delete" if !is_error => {
                if let Some(session) = named.and_then(|id| self.sessions.get_mut(id)) {
                    session.closed = Some(number);
                }
            }
            "session/prompt" => {
                let cancelled = result.get("stopReason").and_then(Value::as_str);
                if let Some(session) = named.and_then(|id| self.sessions.get_mut(id))
                    && session.turn.as_deref() == Some(&id_key(&asked.id))
                {
                    session.turn = None;
                    session.last_answer = Some((number, cancelled == Some("cancelled")));
                }
            }
            _ => {}
        }
    }

    /// The open request that a response with a wrong id must belong to. This is a request with the
    /// same id as another JSON type. Without an id, it is the only open request.
    pub fn meant(&self, id: &Value) -> Option<&Asked> {
        let is_open = |asked: &&Asked| asked.answers < asked.expected;
        match id {
            Value::String(text) => {
                let twin = text.parse::<serde_json::Number>().ok()?;
                self.to_agent.get(&twin.to_string()).filter(is_open)
            }
            Value::Number(number) => {
                let twin = id_key(&Value::String(number.to_string()));
                self.to_agent.get(&twin).filter(is_open)
            }
            Value::Null => {
                let mut open = self.to_agent.values().filter(is_open);
                let only = open.next();
                only.filter(|_| open.next().is_none())
            }
            _ => None,
        }
    }

    /// Number of open requests of the client with this method.
    pub fn open(&self, method: &str) -> usize {
        let open = self.to_agent.values();
        open.filter(|asked| asked.method == method && asked.answers < asked.expected)
            .count()
    }

    /// Whether the client announced a capability, by its JSON Pointer below `clientCapabilities`.
    pub fn client_can(&self, pointer: &str) -> bool {
        let capabilities = self.client.get("clientCapabilities");
        is_on(capabilities.and_then(|c| c.pointer(pointer)))
    }

    /// Whether the agent announced a capability, by its JSON Pointer below `agentCapabilities`.
    pub fn agent_can(&self, pointer: &str) -> bool {
        let capabilities = self.agent.get("agentCapabilities");
        is_on(capabilities.and_then(|c| c.pointer(pointer)))
    }

    /// Whether the response to this method must have the specified shape. IN-17 reports methods
    /// that the agent answers without having announced them, and their responses are not checked.
    pub fn agent_offers(&self, method: &str) -> bool {
        let capability = match method {
            "session/load" => "/loadSession",
            "session/list" => "/sessionCapabilities/list",
            "session/resume" => "/sessionCapabilities/resume",
            "session/close" => "/sessionCapabilities/close",
            "session/delete" => "/sessionCapabilities/delete",
            "session/fork" => "/sessionCapabilities/fork",
            "logout" => "/auth/logout",
            _ => return true,
        };
        // Without a response to `initialize`, the capabilities are unknown.
        self.agent.is_null() || self.agent_can(capability)
    }
}

fn forget_some(table: &mut HashMap<String, Asked>) {
    if table.len() > REMEMBERED {
        table.retain(|_, asked| asked.answers < asked.expected);
    }
}

/// A capability is announced as `true`, or as an object, which may be empty.
fn is_on(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Bool(true) | Value::Object(_)))
}

/// The session id in a message.
pub fn session_of(json: &Value) -> Option<&str> {
    json.pointer("/params/sessionId").and_then(Value::as_str)
}

fn text(value: &Value, key: &str) -> String {
    let text = value.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}
