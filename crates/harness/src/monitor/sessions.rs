//! Sessions: SE-01, SE-02, SE-14, CL-03, LI-02, LI-07.

use serde_json::Value;

use super::time::is_time;
use super::view::{call, is_absolute, items, result};
use super::{Ending, Ledger, Monitor, Notes, Seen};
use crate::shape::{self, Side};

#[derive(Default)]
pub struct Sessions {
    /// Calls with an unknown session id that an open `session/new` may still return.
    early: Vec<(String, u64)>,
    /// Whether a session without a usable id was opened. Then unknown ids prove nothing.
    is_blind: bool,
    opened: u64,
}

/// Maximum number of early calls that are kept.
const EARLY: usize = 256;

impl Monitor for Sessions {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        if let Some((method, params)) = call(seen) {
            self.judge_call(method, params, seen.line.number, ledger, notes);
        } else if let Some((asked, result)) = result(seen)
            && ledger.agent_offers(&asked.method)
        {
            let lines = [seen.line.number, asked.line];
            match asked.method.as_str() {
                "session/new" => self.opened(result, &lines, ledger, notes),
                "session/list" => listed(result, &lines, notes),
                _ => {}
            }
        }
    }

    fn end(&mut self, _: &Ending, ledger: &Ledger, notes: &mut Notes) {
        self.settle(None, ledger, notes);
    }
}

impl Sessions {
    fn judge_call(
        &mut self,
        method: &str,
        params: &Value,
        number: u64,
        ledger: &Ledger,
        notes: &mut Notes,
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
                return notes.broken_at("SE-14", "/params/sessionId", what, &[number]);
            }
            Some(other) => {
                let what = format!("`{method}` has the session id {other}; expected a string");
                return notes.broken("SE-14", what, &[number]);
            }
        };
        match ledger.sessions.get(id) {
            Some(session) => match session.closed {
                None => notes.held("SE-14"),
                Some(closed) if method == "session/update" => {
                    let what = format!(
                        "an update for the session \"{id}\" was sent after the session was closed"
                    );
                    notes.broken("CL-03", what, &[number, closed]);
                }
                Some(closed) => {
                    let what = format!("`{method}` names the session \"{id}\", which is closed");
                    notes.broken("SE-14", what, &[number, closed]);
                }
            },
            None if self.is_blind => {}
            // The client sent a prompt for a session that does not exist, and the agent uses its
            // id. PT-07 covers whether it should accept the prompt.
            None if ledger.we_named(id) => {}
            None if ledger.open("session/new") > 0 => {
                if self.early.len() < EARLY {
                    self.early.push((id.clone(), number));
                }
            }
            None => notes.broken("SE-14", nobody_opened(id), &[number]),
        }
    }

    fn opened(&mut self, result: &Value, lines: &[u64], ledger: &Ledger, notes: &mut Notes) {
        let id = result.get("sessionId").and_then(Value::as_str);
        let Some(id) = id else {
            // The monitor of shapes reports the wrong type.
            self.is_blind = true;
            return;
        };
        if id.is_empty() {
            self.is_blind = true;
            let what = "session/new: `/result/sessionId` is empty";
            notes.broken_at("SE-01", "/result/sessionId", what, lines);
            return;
        }
        notes.held("SE-01");
        match ledger.sessions.get(id) {
            Some(earlier) => {
                self.is_blind = true;
                let what = format!("session/new returns the id \"{id}\" for a second time");
                let mut lines = lines.to_vec();
                lines.push(earlier.since);
                notes.broken("SE-02", what, &lines);
            }
            None if self.opened > 0 => notes.held("SE-02"),
            None => {}
        }
        self.opened += 1;
        self.settle(Some(id), ledger, notes);
    }

    /// Checks early calls once it is known which session was opened.
    fn settle(&mut self, opened: Option<&str>, ledger: &Ledger, notes: &mut Notes) {
        // The ledger does not contain the current response yet, so its request counts as open.
        let may_follow = opened.is_some() && ledger.open("session/new") > 1;
        let mut rest = Vec::new();
        for (id, line) in std::mem::take(&mut self.early) {
            if Some(id.as_str()) == opened {
                notes.held("SE-14");
            } else if may_follow {
                rest.push((id, line));
            } else if !self.is_blind {
                notes.broken("SE-14", nobody_opened(&id), &[line]);
            }
        }
        self.early = rest;
    }
}

fn nobody_opened(id: &str) -> String {
    format!("unknown session \"{id}\": no session with this id was opened or loaded")
}

fn listed(result: &Value, lines: &[u64], notes: &mut Notes) {
    for (index, session) in items(result, "sessions").iter().enumerate() {
        if let Some(Value::String(cwd)) = session.get("cwd") {
            match is_absolute(cwd) {
                true => notes.held("LI-02"),
                false => {
                    let at = format!("/result/sessions/{index}/cwd");
                    let what =
                        format!("session/list: `{at}` is \"{cwd}\"; expected an absolute path");
                    notes.broken_at("LI-02", at, what, lines);
                }
            }
        }
        if let Some(Value::String(time)) = session.get("updatedAt") {
            match is_time(time) {
                true => notes.held("LI-07"),
                false => {
                    let at = format!("/result/sessions/{index}/updatedAt");
                    let what = format!(
                        "session/list: `{at}` is \"{time}\"; expected an ISO 8601 time such as \
                         2026-01-31T12:00:00Z"
                    );
                    notes.broken_at("LI-07", at, what, lines);
                }
            }
        }
        let others = items(session, "additionalDirectories");
        for path in others.iter().filter_map(Value::as_str) {
            if !is_absolute(path) {
                let at = format!("/result/sessions/{index}/additionalDirectories");
                let what =
                    format!("session/list: `{at}` contains \"{path}\"; expected absolute paths");
                notes.broken_at("LI-02", at, what, lines);
            }
        }
    }
}
