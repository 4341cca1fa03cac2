//! The state of a conversation: open requests of both sides, capabilities, sessions. Monitors read
//! it. It checks nothing itself.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::LineFrame;
use agentproto_wire::{Direction, Envelope, MessageKind};

/// Maximum number of requests that are remembered. Answered ones are kept so that a second response
/// is recognized.
const MAX_REMEMBERED: usize = 20_000;

/// A request that one side sent.
#[derive(Clone, Debug, Default)]
pub struct RequestRecord {
    /// JSON-RPC id.
    pub id: Value,
    /// Method name. Empty if the message was not a valid request.
    pub method: String,
    /// Params, or null.
    pub params: Value,
    /// Transcript line of the request.
    pub line: u64,
    /// Number of responses so far.
    pub answers: u32,
    /// The line of the first response.
    pub answered: Option<u64>,
    /// Number of responses that are due. More than one if the id was reused while it was open.
    pub expected: u32,
    /// Whether its envelope was invalid on purpose. Then any response is acceptable.
    pub is_invalid: bool,
}

/// State of one ACP session.
#[derive(Clone, Debug, Default)]
pub struct SessionState {
    /// The line that made the session known: the response to `session/new`, or the client's
    /// `session/load`.
    pub since: u64,
    /// The line of the response to `session/close` or `session/delete`.
    pub closed: Option<u64>,
    /// Working directory that the client requested.
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

/// State of one connection, as seen in the lines so far.
#[derive(Default)]
pub struct ConversationState {
    /// Requests of the client, by id (see `id_key`).
    pub to_agent: HashMap<String, RequestRecord>,
    /// Requests of the agent, by id.
    pub from_agent: HashMap<String, RequestRecord>,
    /// `params` of the last `initialize`.
    pub client: Value,
    /// `result` of the response to it.
    pub agent: Value,
    /// The line of that `initialize`.
    pub started: Option<u64>,
    /// Sessions by id.
    pub sessions: HashMap<String, SessionState>,
    /// The line of the client's last notification.
    pub last_notification: u64,
    /// Number of invalid lines that the client sent: bad JSON, bad envelopes. Each may be answered
    /// with an error whose id is null.
    pub invalid_sent: u32,
    /// Number of such errors that the agent sent.
    pub invalid_answered: u32,
    /// The framing of the current line. Empty for further messages on the same line.
    pub frames: Vec<LineFrame>,
    /// Ids of the client's requests that were not answered within the time limit.
    pub timed_out: HashSet<String>,
}

/// An id as a key: `1`, `"1"` and `null` are different.
pub fn id_key(id: &Value) -> String {
    id.to_string()
}

impl ConversationState {
    /// Whether a turn runs in a session.
    pub fn has_turn(&self, session: &str) -> bool {
        let session = self.sessions.get(session);
        session.is_some_and(|session| session.turn.is_some())
    }

    /// Another open `session/prompt` of a session. Updates can still belong to it.
    fn other_turn(&self, session: &str, answered: &str) -> Option<String> {
        let mut requests = self.to_agent.iter();
        let other = requests.find(|(id, request)| {
            request.method == "session/prompt"
                && *id != answered
                && request.params["sessionId"] == session
                && request.answers < request.expected
                && !self.timed_out.contains(*id)
        });
        other.map(|(id, _)| id.clone())
    }

    /// The request that a line answers.
    pub fn answered_by(&self, direction: Direction, envelope: &Envelope) -> Option<RequestRecord> {
        let MessageKind::Response { id, .. } = &envelope.kind else {
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
    pub fn is_named_by_client(&self, session: &str) -> bool {
        let mut ours = self.to_agent.values();
        ours.any(|request| request.params.get("sessionId").and_then(Value::as_str) == Some(session))
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
            self.invalid_sent += u32::from(direction == Direction::ToAgent);
            return;
        };
        match (&envelope.kind, direction) {
            (MessageKind::Request { id, method }, _) => {
                let table = match direction {
                    Direction::ToAgent => &self.to_agent,
                    _ => &self.from_agent,
                };
                let open = table.get(&id_key(id));
                let due = open.map_or(0, |open| open.expected.saturating_sub(open.answers));
                let request = RequestRecord {
                    id: id.clone(),
                    method: method.clone(),
                    params: json.get("params").cloned().unwrap_or(Value::Null),
                    line: number,
                    answers: 0,
                    answered: None,
                    expected: due.saturating_add(1),
                    is_invalid: !envelope.flaws.is_empty(),
                };
                if direction == Direction::ToAgent {
                    self.client_request(&request, number, envelope);
                    self.to_agent.insert(id_key(id), request);
                } else {
                    self.from_agent.insert(id_key(id), request);
                }
            }
            (MessageKind::Response { id, is_error }, Direction::FromAgent) => {
                let key = id_key(id);
                if let Some(request) = self.to_agent.get_mut(&key) {
                    request.answers += 1;
                    request.answered.get_or_insert(number);
                    let request = request.clone();
                    if request.is_invalid && request.answers == 1 {
                        self.invalid_answered += 1;
                    }
                    self.agent_response(&request, *is_error, json, number);
                } else if id.is_null() && *is_error && self.invalid_answered < self.invalid_sent {
                    self.invalid_answered += 1;
                } else if let Some(request) = self.request_for_wrong_id(id).cloned()
                    // A response without an id may also answer a later notification.
                    && (!id.is_null() || self.last_notification < request.line)
                {
                    // The request stays open, because the id of the response is wrong.
                    self.agent_response(&request, *is_error, json, number);
                }
                forget_answered(&mut self.to_agent);
            }
            (MessageKind::Response { id, .. }, Direction::ToAgent) => {
                if let Some(request) = self.from_agent.get_mut(&id_key(id)) {
                    request.answers += 1;
                    request.answered.get_or_insert(number);
                } else if envelope.flaws.is_empty() {
                    // The agent may complain about a response that matches no request.
                    self.invalid_sent += 1;
                }
                forget_answered(&mut self.from_agent);
            }
            (MessageKind::Notification { method }, Direction::ToAgent) => {
                self.last_notification = number;
                if method == "session/cancel"
                    && let Some(session) = session_of(json)
                    && let Some(session) = self.sessions.get_mut(session)
                    && session.turn.is_some()
                {
                    session.cancelled = Some(number);
                }
            }
            (MessageKind::Other, Direction::ToAgent) => {
                self.invalid_sent += 1;
                // The agent may answer with the id of the invalid message.
                if let Some(id) = json.get("id") {
                    let request = RequestRecord {
                        id: id.clone(),
                        line: number,
                        is_invalid: true,
                        expected: 1,
                        ..RequestRecord::default()
                    };
                    self.to_agent.insert(id_key(id), request);
                }
            }
            _ => {}
        }
        if direction == Direction::ToAgent
            && !envelope.flaws.is_empty()
            && envelope.kind != MessageKind::Other
        {
            self.invalid_sent += 1;
        }
    }

    fn client_request(&mut self, request: &RequestRecord, number: u64, envelope: &Envelope) {
        match request.method.as_str() {
            "initialize" => {
                self.client = request.params.clone();
                self.started = Some(number);
            }
            "session/load" | "session/resume" => {
                // The replay comes before the response.
                if let Some(id) = request.params.get("sessionId").and_then(Value::as_str) {
                    let is_known = self.sessions.get(id).is_some_and(|s| s.closed.is_none());
                    let session = self.sessions.entry(id.to_owned()).or_default();
                    if !is_known {
                        session.since = number;
                        session.closed = None;
                        session.opened_by = Some(id_key(&request.id));
                    }
                    session.cwd = text(&request.params, "cwd");
                    session.is_loading = request.method == "session/load";
                }
            }
            "session/prompt" if envelope.flaws.is_empty() => {
                let id = request.params.get("sessionId").and_then(Value::as_str);
                if let Some(session) = id.and_then(|id| self.sessions.get_mut(id)) {
                    session.turn = Some(id_key(&request.id));
                    session.cancelled = None;
                }
            }
            _ => {}
        }
    }

    fn agent_response(
        &mut self,
        request: &RequestRecord,
        is_error: bool,
        json: &Value,
        number: u64,
    ) {
        let result = json.get("result").unwrap_or(&Value::Null);
        let named = request.params.get("sessionId").and_then(Value::as_str);
        if request.method == "session/load"
            && let Some(session) = named.and_then(|id| self.sessions.get_mut(id))
        {
            session.is_loading = false;
        }
        match request.method.as_str() {
            "initialize" if !is_error => self.agent = result.clone(),
            "session/new" | "session/fork" if !is_error => {
                if let Some(id) = result.get("sessionId").and_then(Value::as_str) {
                    let session = SessionState {
                        since: number,
                        cwd: text(&request.params, "cwd"),
                        ..SessionState::default()
                    };
                    self.sessions.insert(id.to_owned(), session);
                }
            }
            "session/load" | "session/resume" if is_error => {
                if let Some(session) = named.and_then(|id| self.sessions.get_mut(id))
                    && session.opened_by == Some(id_key(&request.id))
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
                let other = named.and_then(|id| self.other_turn(id, &id_key(&request.id)));
                if let Some(session) = named.and_then(|id| self.sessions.get_mut(id))
                    && session.turn.as_deref() == Some(&id_key(&request.id))
                {
                    session.turn = other;
                    session.last_answer = Some((number, cancelled == Some("cancelled")));
                }
            }
            _ => {}
        }
    }

    /// The open request that a response with a wrong id must belong to. This is a request with the
    /// same id as another JSON type. Without an id, it is the only open request.
    pub fn request_for_wrong_id(&self, id: &Value) -> Option<&RequestRecord> {
        let is_open = |request: &&RequestRecord| request.answers < request.expected;
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
        open.filter(|request| request.method == method && request.answers < request.expected)
            .count()
    }

    /// Whether the client announced a capability, by its JSON Pointer below `clientCapabilities`.
    pub fn client_can(&self, pointer: &str) -> bool {
        let capabilities = self.client.get("clientCapabilities");
        is_announced(capabilities.and_then(|c| c.pointer(pointer)))
    }

    /// Whether the agent announced a capability, by its JSON Pointer below `agentCapabilities`.
    pub fn agent_can(&self, pointer: &str) -> bool {
        let capabilities = self.agent.get("agentCapabilities");
        is_announced(capabilities.and_then(|c| c.pointer(pointer)))
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

fn forget_answered(table: &mut HashMap<String, RequestRecord>) {
    if table.len() > MAX_REMEMBERED {
        table.retain(|_, request| request.answers < request.expected);
    }
}

/// A capability is announced as `true`, or as an object, which may be empty.
fn is_announced(value: Option<&Value>) -> bool {
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
