//! Requests and responses: TR-06 (missing ids), TR-08, TR-09, TR-10, TR-17, CR-01, CR-02, EX-03.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes, RequestRecord, id_key};
use agentproto_wire::{Direction, EnvelopeFlaw, MessageKind};

#[derive(Default)]
pub struct IdMonitor {
    /// Notifications of the client that no response was attributed to yet.
    notifications: Vec<SentNotification>,
    /// Responses to notifications.
    answered: Vec<NotificationAnswer>,
    /// Responses without an id that answer either a notification or an open request.
    unclear: Vec<UnclearResponse>,
    /// Requests of the client that were answered with a wrong id.
    wrong_ids: HashSet<String>,
    /// Number of responses without an id that could belong to more than one request.
    missing_ids: usize,
    /// Requests that the client canceled with `$/cancel_request`, with the line.
    cancelled: HashMap<String, u64>,
    /// Whether two open requests of the agent had the same id. Then a response may have reached the
    /// wrong one.
    has_mixed_turns: bool,
    /// Number of open requests of the agent.
    open: u64,
}

/// A notification of the client.
struct SentNotification {
    method: String,
    line: u64,
    /// The requirement that forbids answering it.
    requirement: &'static str,
}

/// A response to a notification.
struct NotificationAnswer {
    notification: SentNotification,
    line: u64,
    is_error: bool,
}

/// A response without an id, or with the id null, to a notification or to an open request. It is
/// decided at the end: a request that was then answered under its id was not the one.
struct UnclearResponse {
    answer: NotificationAnswer,
    has_id: bool,
    /// Requests that were open, by key, and that the response could belong to.
    open: Vec<String>,
}

/// Maximum number of client notifications that are remembered.
const MAX_NOTIFICATIONS: usize = 64;
/// Maximum number of responses to notifications that are remembered.
const MAX_ANSWERED: usize = 64;

impl Monitor for IdMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (Some(json), Some(envelope)) = (view.json, view.envelope) else {
            return;
        };
        let number = view.line.number;
        match (view.line.direction, &envelope.kind) {
            (Direction::ToAgent, MessageKind::Notification { method })
                if envelope.flaws.is_empty() =>
            {
                let mut requirement = "TR-10";
                if method == "$/cancel_request"
                    && let Some(id) = json.pointer("/params/requestId")
                {
                    self.cancelled.insert(id_key(id), number);
                    if !state.to_agent.contains_key(&id_key(id)) {
                        requirement = "CR-02";
                    }
                }
                self.notifications.push(SentNotification {
                    method: method.clone(),
                    line: number,
                    requirement,
                });
                if self.notifications.len() > MAX_NOTIFICATIONS {
                    self.notifications.remove(0);
                }
            }
            (Direction::ToAgent, MessageKind::Response { .. })
                if view.answers.is_some_and(|request| request.answers == 0) =>
            {
                self.open = self.open.saturating_sub(1);
            }
            (Direction::FromAgent, MessageKind::Request { id, .. }) => {
                self.agent_request(id, number, state, notes);
            }
            (Direction::FromAgent, MessageKind::Response { id, is_error }) => {
                let has_id = !envelope.flaws.contains(&EnvelopeFlaw::NoId);
                match view.answers.filter(|_| has_id) {
                    Some(request) => self.answer(request, number, notes),
                    None if id.is_null() => {
                        self.without_id(json, *is_error, has_id, number, state, notes);
                    }
                    None => self.unmatched(id, number, state, notes),
                }
            }
            _ => {}
        }
    }

    fn on_end(&mut self, ending: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        for response in std::mem::take(&mut self.unclear) {
            self.decide(response, state, notes);
        }
        self.report_answered(notes);
        for notification in self.notifications.drain(..) {
            notes.pass(notification.requirement);
        }
        // A missing response is the agent's fault in two cases: the connection ended in an orderly
        // way, or the client waited for this response until the time limit.
        let mut open: Vec<&RequestRecord> = state.to_agent.values().collect();
        open.retain(|request| ending.is_orderly || state.timed_out.contains(&id_key(&request.id)));
        open.retain(|request| request.answers < request.expected && !request.is_invalid);
        open.retain(|request| !self.wrong_ids.contains(&id_key(&request.id)));
        // A turn may wait forever for a response that another request with the same id got.
        open.retain(|request| !(self.has_mixed_turns && request.method == "session/prompt"));
        open.sort_by_key(|request| request.line);
        for request in open.into_iter().skip(self.missing_ids) {
            let key = id_key(&request.id);
            let what = format!(
                "`{}` with the id {} was never answered",
                request.method, request.id
            );
            match self.cancelled.get(&key) {
                Some(by) => notes.violation("CR-01", what, &[request.line, *by]),
                None if request.method.starts_with('_') => {
                    notes.violation("EX-03", what, &[request.line]);
                }
                None => notes.violation("TR-09", what, &[request.line]),
            }
        }
    }
}

impl IdMonitor {
    fn agent_request(
        &mut self,
        id: &Value,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        match state.from_agent.get(&id_key(id)) {
            Some(earlier) if earlier.answers == 0 => {
                self.has_mixed_turns = true;
                let what = format!(
                    "the id {id} is used for a second request while the first (`{}`) is still open",
                    earlier.method
                );
                notes.violation("TR-17", what, &[number, earlier.line]);
            }
            // Ids can only collide if another request is open.
            _ if self.open > 0 => notes.pass("TR-17"),
            _ => {}
        }
        self.open += 1;
    }

    fn answer(&mut self, request: &RequestRecord, number: u64, notes: &mut MonitorNotes) {
        let cancelled = self.cancelled.get(&id_key(&request.id));
        if request.method.starts_with('_') {
            notes.pass("EX-03");
        }
        let requirement = match cancelled {
            Some(_) => "CR-01",
            None => "TR-09",
        };
        if request.answers < request.expected {
            notes.pass("TR-08");
            notes.pass(requirement);
            return;
        }
        let what = format!(
            "`{}` with the id {} is answered again; a request must get exactly one response",
            request.method, request.id
        );
        let mut lines = vec![number, request.line];
        lines.extend(request.answered);
        notes.violation(requirement, what, &lines);
    }

    /// A response whose id matches no request of the client.
    fn unmatched(
        &mut self,
        id: &Value,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let Some(request) = state.request_for_wrong_id(id) else {
            self.missing_ids += usize::from(id.is_null());
            let what =
                format!("a response has the id {id}, which matches no request of the client");
            notes.violation("TR-08", what, &[number]);
            return;
        };
        self.wrong_ids.insert(id_key(&request.id));
        let what = format!(
            "`{}` was sent with the id {} but answered with the id {id}; it must be the same value \
             of the same JSON type",
            request.method, request.id
        );
        notes.violation("TR-08", what, &[number, request.line]);
    }

    /// A response without an id, or with the id null.
    fn without_id(
        &mut self,
        json: &Value,
        is_error: bool,
        has_id: bool,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        // It answers an invalid message, whose id the agent could not read.
        if is_error && state.invalid_answered < state.invalid_sent {
            if !has_id {
                let what = "an error response has no `id`; it must have the id null if the id of \
                            the request is unknown";
                notes.violation("TR-06", what, &[number]);
            }
            return;
        }
        let Some(notification) = self.notifications.pop() else {
            return self.lost_id(has_id, number, state, notes);
        };
        let answer = NotificationAnswer {
            notification,
            line: number,
            is_error,
        };
        let open = state.to_agent.values();
        let open = open.filter(|r| r.answers < r.expected && could_answer(&r.method, json));
        let open: Vec<String> = open.map(|request| id_key(&request.id)).collect();
        match open.is_empty() {
            true => self.add_answered(answer),
            false if self.unclear.len() < MAX_ANSWERED => self.unclear.push(UnclearResponse {
                answer,
                has_id,
                open,
            }),
            false => {}
        }
    }

    /// A response to a request of the client that lost the id.
    fn lost_id(
        &mut self,
        has_id: bool,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if has_id {
            return self.unmatched(&Value::Null, number, state, notes);
        }
        let mut lines = vec![number];
        match state.request_for_wrong_id(&Value::Null) {
            Some(request) => {
                self.wrong_ids.insert(id_key(&request.id));
                lines.push(request.line);
            }
            None => self.missing_ids += 1,
        }
        let what = "a response has no `id`; it must repeat the id of the request";
        notes.violation("TR-06", what, &lines);
    }

    /// Decides at the end what a response without an id answered.
    fn decide(
        &mut self,
        response: UnclearResponse,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let is_unanswered = |key: &&String| {
            let request = state.to_agent.get(*key);
            request.is_some_and(|r| r.answers < r.expected) && !self.wrong_ids.contains(*key)
        };
        match response.open.iter().any(|key| is_unanswered(&key)) {
            true => {
                self.notifications.push(response.answer.notification);
                self.lost_id(response.has_id, response.answer.line, state, notes);
            }
            false => self.add_answered(response.answer),
        }
    }

    fn add_answered(&mut self, answer: NotificationAnswer) {
        if self.answered.len() < MAX_ANSWERED {
            self.answered.push(answer);
        }
    }

    /// Reports the notifications that were answered. If the agent answers notifications in general,
    /// this is one error, also where `$/cancel_request` is one of them.
    fn report_answered(&mut self, notes: &mut MonitorNotes) {
        let answered = std::mem::take(&mut self.answered);
        let is_general = answered
            .iter()
            .any(|a| a.notification.requirement == "TR-10");
        for answer in answered {
            let requirement = match is_general {
                true => "TR-10",
                false => answer.notification.requirement,
            };
            let what = format!(
                "the notification `{}` is answered with {}; notifications must not be answered",
                answer.notification.method,
                match answer.is_error {
                    true => "an error",
                    false => "a result",
                }
            );
            notes.violation(requirement, what, &[answer.line, answer.notification.line]);
        }
    }
}

/// Whether a response has what a response to this method must have. An error fits every method.
fn could_answer(method: &str, json: &Value) -> bool {
    let members: &[&str] = match method {
        "initialize" => &["/result/protocolVersion"],
        "session/new" => &["/result/sessionId"],
        // The draft of version 2 answers with a message id.
        "session/prompt" => &["/result/stopReason", "/result/messageId"],
        "session/list" => &["/result/sessions"],
        _ => return true,
    };
    json.get("error").is_some_and(|error| !error.is_null())
        || members.iter().any(|member| json.pointer(member).is_some())
}
