//! Requests and responses: TR-08, TR-09, TR-10, TR-17, CR-01, CR-02, EX-03.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes, RequestRecord, id_key};
use agentproto_wire::{Direction, EnvelopeFlaw, MessageKind};

#[derive(Default)]
pub struct IdMonitor {
    /// Notifications of the client (method and line) that no response was attributed to yet.
    notifications: Vec<(String, u64)>,
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

/// Maximum number of client notifications that are remembered.
const MAX_NOTIFICATIONS: usize = 64;

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
                if method == "$/cancel_request"
                    && let Some(id) = json.pointer("/params/requestId")
                {
                    self.cancelled.insert(id_key(id), number);
                }
                self.notifications.push((method.clone(), number));
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
                // The missing id is already reported.
                if envelope.flaws.contains(&EnvelopeFlaw::NoId) {
                    return;
                }
                match view.answers {
                    Some(request) => self.answer(request, number, notes),
                    None => self.unmatched(id, *is_error, number, state, notes),
                }
            }
            _ => {}
        }
    }

    fn on_end(&mut self, ending: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        for (method, _) in self.notifications.drain(..) {
            notes.pass(notification_requirement(&method));
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
        is_error: bool,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if id.is_null() && is_error {
            if state.invalid_answered < state.invalid_sent {
                return;
            }
            if let Some((method, line)) = self.notifications.pop() {
                let what = format!(
                    "the notification `{method}` is answered with an error; notifications must not \
                     be answered"
                );
                notes.violation(notification_requirement(&method), what, &[number, line]);
                return;
            }
        }
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
}

/// The requirement that forbids answering this notification.
fn notification_requirement(method: &str) -> &'static str {
    match method {
        "$/cancel_request" => "CR-02",
        _ => "TR-10",
    }
}
