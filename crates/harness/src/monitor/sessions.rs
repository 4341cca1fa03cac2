//! Sessions: SE-01, SE-02, SE-14, CL-03, LI-02, LI-07.

use serde_json::Value;

use super::time::is_time;
use super::view::{call, is_absolute, items, result};
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};
use crate::shape::{self, Side};

#[derive(Default)]
pub struct SessionMonitor {
    /// Calls with an unknown session id that an open `session/new` may still return.
    early: Vec<(String, u64)>,
    /// Whether a session without a usable id was opened. Then unknown ids prove nothing.
    ids_unreliable: bool,
    opened: u64,
}

/// Maximum number of early calls that are kept.
const MAX_EARLY: usize = 256;

impl Monitor for SessionMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if let Some((method, params)) = call(view) {
            self.check_call(method, params, view.line.number, state, notes);
        } else if let Some((request, result)) = result(view)
            && state.agent_offers(&request.method)
        {
            let lines = [view.line.number, request.line];
            match request.method.as_str() {
                "session/new" => self.opened(result, &lines, state, notes),
                "session/list" => listed(result, &lines, notes),
                _ => {}
            }
        }
    }

    fn on_end(&mut self, _: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        self.settle(None, state, notes);
    }
}

impl SessionMonitor {
    fn check_call(
        &mut self,
        method: &str,
        params: &Value,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let is_about_a_request =
            method == "elicitation/create" && params.get("requestId").is_some();
        let needs_none = method == "elicitation/complete" || is_about_a_request;
        if shape::side(method) != Some(Side::Client) || needs_none || !params.is_object() {
            return;
        }
        let id = match params.get("sessionId") {
            Some(Value::String(id)) => id,
            // Other requirements cover the missing session id of these two methods.
            _ if matches!(method, "session/request_permission" | "elicitation/create") => return,
            None => {
                let what = format!("`{method}`: `/params/sessionId` is missing");
                return notes.violation_at("SE-14", "/params/sessionId", what, &[number]);
            }
            Some(other) => {
                let what = format!("`{method}` has the session id {other}; expected a string");
                return notes.violation("SE-14", what, &[number]);
            }
        };
        match state.sessions.get(id) {
            Some(session) => match session.closed {
                None => notes.pass("SE-14"),
                Some(closed) if method == "session/update" => {
                    let what = format!(
                        "an update for the session \"{id}\" was sent after the session was closed"
                    );
                    notes.violation("CL-03", what, &[number, closed]);
                }
                Some(closed) => {
                    let what = format!("`{method}` names the session \"{id}\", which is closed");
                    notes.violation("SE-14", what, &[number, closed]);
                }
            },
            None if self.ids_unreliable => {}
            // The client sent a prompt for a session that does not exist, and the agent uses its
            // id. PT-07 covers whether it should accept the prompt.
            None if state.is_named_by_client(id) => {}
            None if state.open("session/new") > 0 => {
                if self.early.len() < MAX_EARLY {
                    self.early.push((id.clone(), number));
                }
            }
            None => notes.violation("SE-14", unknown_session(id), &[number]),
        }
    }

    fn opened(
        &mut self,
        result: &Value,
        lines: &[u64],
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let id = result.get("sessionId").and_then(Value::as_str);
        let Some(id) = id else {
            // The monitor of shapes reports the wrong type.
            self.ids_unreliable = true;
            return;
        };
        if id.is_empty() {
            self.ids_unreliable = true;
            let what = "session/new: `/result/sessionId` is empty";
            notes.violation_at("SE-01", "/result/sessionId", what, lines);
            return;
        }
        notes.pass("SE-01");
        match state.sessions.get(id) {
            Some(earlier) => {
                self.ids_unreliable = true;
                let what = format!("session/new returns the id \"{id}\" for a second time");
                let mut lines = lines.to_vec();
                lines.push(earlier.since);
                notes.violation("SE-02", what, &lines);
            }
            None if self.opened > 0 => notes.pass("SE-02"),
            None => {}
        }
        self.opened += 1;
        self.settle(Some(id), state, notes);
    }

    /// Checks early calls once it is known which session was opened.
    fn settle(
        &mut self,
        opened: Option<&str>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        // The ledger does not contain the current response yet, so its request counts as open.
        let may_follow = opened.is_some() && state.open("session/new") > 1;
        let mut rest = Vec::new();
        for (id, line) in std::mem::take(&mut self.early) {
            if Some(id.as_str()) == opened {
                notes.pass("SE-14");
            } else if may_follow {
                rest.push((id, line));
            } else if !self.ids_unreliable {
                notes.violation("SE-14", unknown_session(&id), &[line]);
            }
        }
        self.early = rest;
    }
}

fn unknown_session(id: &str) -> String {
    format!("unknown session \"{id}\": no session with this id was opened or loaded")
}

fn listed(result: &Value, lines: &[u64], notes: &mut MonitorNotes) {
    for (index, session) in items(result, "sessions").iter().enumerate() {
        if let Some(Value::String(cwd)) = session.get("cwd") {
            match is_absolute(cwd) {
                true => notes.pass("LI-02"),
                false => {
                    let at = format!("/result/sessions/{index}/cwd");
                    let what =
                        format!("session/list: `{at}` is \"{cwd}\"; expected an absolute path");
                    notes.violation_at("LI-02", at, what, lines);
                }
            }
        }
        if let Some(Value::String(time)) = session.get("updatedAt") {
            match is_time(time) {
                true => notes.pass("LI-07"),
                false => {
                    let at = format!("/result/sessions/{index}/updatedAt");
                    let what = format!(
                        "session/list: `{at}` is \"{time}\"; expected an ISO 8601 time such as \
                         2026-01-31T12:00:00Z"
                    );
                    notes.violation_at("LI-07", at, what, lines);
                }
            }
        }
        let others = items(session, "additionalDirectories");
        for path in others.iter().filter_map(Value::as_str) {
            if !is_absolute(path) {
                let at = format!("/result/sessions/{index}/additionalDirectories");
                let what =
                    format!("session/list: `{at}` contains \"{path}\"; expected absolute paths");
                notes.violation_at("LI-02", at, what, lines);
            }
        }
    }
}
