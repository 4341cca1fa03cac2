//! Tool calls: TC-02, TC-03, TC-05, TC-07, TC-08, TC-09.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::view::{call, is_absolute, items, ours, text, turn_end, update};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct ToolMonitor {
    /// Tool calls by session and id.
    calls: HashMap<String, HashMap<String, Call>>,
    /// Sessions with an update for an unknown tool call in the current turn. It may be the end of
    /// any tool call.
    unknown_call_sessions: HashSet<String>,
    /// Sessions that were loaded during a turn, so that the replay and the turn are mixed.
    mixed: HashSet<String>,
}

/// Maximum number of tool calls that are remembered per session.
const MAX_REMEMBERED: usize = 20_000;
/// Maximum number of sessions that are remembered.
const SESSIONS: usize = 1_000;

struct Call {
    /// The line of its `tool_call`, if there was one.
    announced: Option<u64>,
    /// The line that first named it.
    since: u64,
    status: Status,
    /// The line that set the status.
    at: u64,
    /// Whether it belongs to a turn that is over.
    is_old: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Status {
    Open,
    Over,
    /// A status that the protocol does not define. It is reported elsewhere, and not used for other
    /// checks.
    Odd,
}

impl Status {
    fn of(update: &Value) -> Option<Status> {
        match update.get("status")? {
            Value::String(word) => Some(match word.as_str() {
                "pending" | "in_progress" => Status::Open,
                "completed" | "failed" => Status::Over,
                _ => Status::Odd,
            }),
            Value::Null => None,
            _ => Some(Status::Odd),
        }
    }
}

impl Monitor for ToolMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let number = view.line.number;
        if let Some((session, kind, update)) = update(view) {
            if self.calls.len() > SESSIONS && !self.calls.contains_key(session) {
                return;
            }
            match kind {
                "tool_call" => self.announce(session, update, number, notes),
                "tool_call_update" => self.change(session, update, number, notes),
                _ => return,
            }
            places(update, "/params/update", number, notes);
        } else if let Some(("session/request_permission", params)) = call(view) {
            let call = params.get("toolCall").unwrap_or(&Value::Null);
            if self.calls.len() <= SESSIONS {
                self.mention(text(params, "sessionId"), call, number);
            }
            places(call, "/params/toolCall", number, notes);
        } else if let Some((session, result)) = turn_end(view) {
            self.turn_over(session, text(result, "stopReason"), number, notes);
        } else if let Some(("session/load", params)) = ours(view) {
            // A load announces its tool calls again. Those of a running turn go on.
            let session = text(params, "sessionId");
            if state.has_turn(session) {
                self.mixed.insert(session.to_owned());
            } else {
                self.calls.remove(session);
            }
        }
    }
}

impl ToolMonitor {
    fn announce(&mut self, session: &str, update: &Value, number: u64, notes: &mut MonitorNotes) {
        let Some(Value::String(id)) = update.get("toolCallId") else {
            return;
        };
        let calls = self.calls.entry(session.to_owned()).or_default();
        if calls.len() >= MAX_REMEMBERED {
            return;
        }
        match calls.get(id).and_then(|call| call.announced) {
            Some(_) if self.mixed.contains(session) => {}
            Some(earlier) => {
                let what = format!(
                    "the tool call \"{id}\" is announced a second time; ids must be unique within \
                     a session, and changes must be sent as `tool_call_update`"
                );
                notes.violation("TC-02", what, &[number, earlier]);
            }
            None if !calls.is_empty() => notes.pass("TC-02"),
            None => {}
        }
        let call = Call {
            announced: Some(number),
            since: number,
            // The default is pending.
            status: Status::of(update).unwrap_or(Status::Open),
            at: number,
            is_old: false,
        };
        calls.insert(id.clone(), call);
    }

    fn mention(&mut self, session: &str, call: &Value, number: u64) {
        let Some(Value::String(id)) = call.get("toolCallId") else {
            return;
        };
        let calls = self.calls.entry(session.to_owned()).or_default();
        if calls.len() >= MAX_REMEMBERED {
            return;
        }
        calls.entry(id.clone()).or_insert(Call {
            announced: None,
            since: number,
            // A permission request alone does not show that it is running.
            status: Status::of(call).unwrap_or(Status::Odd),
            at: number,
            is_old: false,
        });
    }

    fn change(&mut self, session: &str, update: &Value, number: u64, notes: &mut MonitorNotes) {
        let Some(Value::String(id)) = update.get("toolCallId") else {
            return;
        };
        let calls = self.calls.entry(session.to_owned()).or_default();
        let is_full = calls.len() >= MAX_REMEMBERED;
        let Some(call) = calls.get_mut(id) else {
            if is_full {
                return;
            }
            self.unknown_call_sessions.insert(session.to_owned());
            let what = format!(
                "an update refers to the tool call \"{id}\", which was not announced by a \
                 `tool_call` or a permission request"
            );
            return notes.violation("TC-03", what, &[number]);
        };
        notes.pass("TC-03");
        let Some(status) = Status::of(update) else {
            return;
        };
        if call.status == Status::Over && status == Status::Open {
            let what = format!(
                "the tool call \"{id}\" was over, but its status changes back to \"{}\"",
                text(update, "status")
            );
            notes.violation("TC-05", what, &[number, call.at]);
        } else {
            notes.pass("TC-05");
        }
        call.status = status;
        call.at = number;
    }

    fn turn_over(&mut self, session: &str, reason: &str, number: u64, notes: &mut MonitorNotes) {
        let has_unknown_calls = self.unknown_call_sessions.remove(session);
        let Some(calls) = self.calls.get_mut(session) else {
            return;
        };
        let mut open: Vec<(u64, &String)> = Vec::new();
        for (id, call) in calls.iter_mut().filter(|(_, call)| !call.is_old) {
            call.is_old = true;
            match call.status {
                Status::Open => open.push((call.since, id)),
                Status::Over if reason == "end_turn" => notes.pass("TC-07"),
                _ => {}
            }
        }
        if reason != "end_turn" || has_unknown_calls {
            return;
        }
        open.sort_unstable();
        for (since, id) in open {
            let what = format!("the turn ended, but the tool call \"{id}\" is still open");
            notes.violation("TC-07", what, &[number, since]);
        }
    }
}

/// Checks the paths and line numbers of a tool call.
fn places(call: &Value, root: &str, number: u64, notes: &mut MonitorNotes) {
    for (index, place) in items(call, "locations").iter().enumerate() {
        let at = format!("{root}/locations/{index}");
        path(place, &at, number, notes);
        match place.get("line") {
            None | Some(Value::Null) => {}
            Some(line) if line.as_u64() == Some(0) => {
                let at = format!("{at}/line");
                let what = format!("`{at}` is 0; line numbers start at 1");
                notes.violation_at("TC-09", at, what, &[number]);
            }
            // The monitor of shapes reports a value that is not an integer.
            Some(_) => notes.pass("TC-09"),
        }
    }
    for (index, content) in items(call, "content").iter().enumerate() {
        if text(content, "type") == "diff" {
            path(content, &format!("{root}/content/{index}"), number, notes);
        }
    }
}

fn path(place: &Value, at: &str, number: u64, notes: &mut MonitorNotes) {
    let Some(Value::String(path)) = place.get("path") else {
        return;
    };
    match is_absolute(path) {
        true => notes.pass("TC-08"),
        false => {
            let at = format!("{at}/path");
            let what = format!("`{at}` is \"{path}\"; expected an absolute path");
            notes.violation_at("TC-08", at, what, &[number]);
        }
    }
}
