//! Permissions: PE-02, TC-06.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::view::{call, items, repeated, reply, text, turn_end, update};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct PermissionMonitor {
    /// Tool calls by session and id.
    calls: HashMap<(String, String), Call>,
    /// Sessions with an update for an unknown tool call in the current turn. It may be the missing
    /// update.
    unknown_call_sessions: HashSet<String>,
}

/// Maximum number of tool calls that are remembered.
const MAX_REMEMBERED: usize = 20_000;

#[derive(Default)]
struct Call {
    is_in_progress: bool,
    granted: Option<u64>,
}

impl Monitor for PermissionMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        let number = view.line.number;
        if let Some(("session/request_permission", params)) = call(view) {
            options(params, number, notes);
            if let Some(Value::String(id)) = params.pointer("/toolCall/toolCallId") {
                let key = (text(params, "sessionId").to_owned(), id.clone());
                self.calls.entry(key).or_default();
            }
        } else if let Some((request, result)) = reply(view) {
            if request.method == "session/request_permission" {
                self.answered(&request.params, result, number);
            }
        } else if let Some((session, kind, update)) = update(view) {
            if matches!(kind, "tool_call" | "tool_call_update") {
                self.progress(session, kind, update, number, notes);
            }
        } else if let Some((session, result)) = turn_end(view) {
            let is_whole = !self.unknown_call_sessions.remove(session);
            let is_end = is_whole && text(result, "stopReason") == "end_turn";
            let calls = self.calls.iter().filter(|((s, _), _)| s == session);
            for ((_, id), call) in calls {
                if let Some(granted) = call.granted.filter(|_| is_end && !call.is_in_progress) {
                    notes.violation("TC-06", never(id), &[number, granted]);
                }
            }
            self.calls.retain(|(s, _), _| s != session);
        }
    }
}

impl PermissionMonitor {
    fn answered(&mut self, params: &Value, result: &Value, number: u64) {
        let chosen = result.pointer("/outcome/optionId");
        let mut options = items(params, "options").iter();
        let option = options.find(|option| chosen.is_some() && option.get("optionId") == chosen);
        let is_grant = option.is_some_and(|option| text(option, "kind").starts_with("allow"));
        let id = params
            .pointer("/toolCall/toolCallId")
            .and_then(Value::as_str);
        if let Some(id) = id.filter(|_| is_grant) {
            let key = (text(params, "sessionId").to_owned(), id.to_owned());
            self.calls.entry(key).or_default().granted = Some(number);
        }
    }

    fn progress(
        &mut self,
        session: &str,
        kind: &str,
        update: &Value,
        number: u64,
        notes: &mut MonitorNotes,
    ) {
        let id = text(update, "toolCallId");
        let key = (session.to_owned(), id.to_owned());
        if kind == "tool_call_update" && !self.calls.contains_key(&key) {
            if self.unknown_call_sessions.len() < MAX_REMEMBERED {
                self.unknown_call_sessions.insert(session.to_owned());
            }
            return;
        }
        if self.calls.len() > MAX_REMEMBERED {
            self.calls.clear();
        }
        let call = self.calls.entry(key).or_default();
        match text(update, "status") {
            "in_progress" => {
                call.is_in_progress = true;
                if call.granted.take().is_some() {
                    notes.pass("TC-06");
                }
            }
            "completed" => {
                if let Some(granted) = call.granted.take() {
                    match call.is_in_progress {
                        true => notes.pass("TC-06"),
                        false => notes.violation("TC-06", never(id), &[number, granted]),
                    }
                }
            }
            // The tool call may have failed before it started.
            "failed" => call.granted = None,
            _ => {}
        }
    }
}

fn never(id: &str) -> String {
    format!("the tool call \"{id}\" was allowed, but never reported as `in_progress`")
}

fn options(params: &Value, number: u64, notes: &mut MonitorNotes) {
    let Some(Value::Array(options)) = params.get("options") else {
        return;
    };
    if options.is_empty() {
        let what = "`/params/options` is empty; expected at least one option";
        return notes.violation_at("PE-02", "/params/options", what, &[number]);
    }
    let ids = options.iter().map(|option| text(option, "optionId"));
    if let Some(id) = repeated(ids.filter(|id| !id.is_empty())) {
        let what = format!("two options have the `optionId` \"{id}\"; ids must be unique");
        notes.violation("PE-02", what, &[number]);
    }
}
