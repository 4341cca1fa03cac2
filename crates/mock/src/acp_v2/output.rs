//! Sends the work on a prompt as updates of the ACP version 2 draft.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};

use super::{DraftServer, shapes};
use crate::faults;
use crate::mailbox::Mailbox;
use crate::scenario::{
    Elicitation, FsRead, PermissionRequest, PlanEntry, TerminalCommand, ToolCall, ToolUpdate, Usage,
};
use crate::store::{StoredSession, fresh_id};
use crate::turn::{PermissionDecision, TurnEnd, TurnOutput, TurnResult, UserAnswer, small_file};

pub struct DraftOutput {
    server: Arc<DraftServer>,
    mailbox: Mailbox,
    pub session: String,
    cwd: String,
    turn: u64,
    calls: u64,
    /// Type and id of the message that the next chunk may continue.
    message: Option<(&'static str, String)>,
    /// Tool calls that have not ended.
    open: Vec<String>,
    /// Updates that a later resume replays.
    pub history: Vec<Value>,
}

/// Maximum number of updates per prompt that can be replayed.
const MAX_HISTORY: usize = 10_000;

impl DraftOutput {
    pub fn new(server: Arc<DraftServer>, mailbox: Mailbox, saved: &StoredSession) -> DraftOutput {
        DraftOutput {
            server,
            mailbox,
            session: saved.id.clone(),
            cwd: saved.cwd.clone(),
            turn: saved.turns,
            calls: 0,
            message: None,
            open: Vec::new(),
            history: Vec::new(),
        }
    }

    fn update(&mut self, update: Value) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.send(update);
        Ok(())
    }

    fn send(&mut self, update: Value) {
        self.server.update(&self.session, update.clone());
        if self.history.len() < MAX_HISTORY {
            self.history.push(update);
        }
    }

    /// Reports interrupted tool calls as cancelled.
    pub fn report_cancelled_calls(&mut self) {
        for id in std::mem::take(&mut self.open) {
            self.send(json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": id,
                "status": "cancelled",
            }));
        }
    }

    fn chunk(&mut self, kind: &'static str, text: &str) -> TurnResult {
        let message = match &self.message {
            Some((open, id)) if *open == kind => id.clone(),
            _ => fresh_id("msg"),
        };
        self.message = Some((kind, message.clone()));
        self.update(json!({
            "sessionUpdate": kind,
            "messageId": message,
            "content": shapes::text(text),
        }))
    }

    fn call_id(&self, id: &str) -> String {
        format!("call-{}-{id}", self.turn)
    }

    /// Creates an id that is unique among the calls and terminals of the session.
    fn own_id(&mut self, what: &str) -> String {
        self.calls += 1;
        format!("{what}-{}-{}", self.turn, self.calls)
    }

    fn path(&self, path: &str) -> PathBuf {
        Path::new(&self.cwd).join(path)
    }

    /// Reports a new tool call, or an update of one.
    fn call(&mut self, id: &str, mut fields: Value) -> TurnResult {
        self.message = None;
        shapes::put(&mut fields, "sessionUpdate", json!("tool_call_update"));
        shapes::put(&mut fields, "toolCallId", json!(id));
        let status = fields.get("status").and_then(Value::as_str);
        let is_over = matches!(status, Some("completed" | "failed" | "cancelled"));
        self.open.retain(|open| open != id);
        if !is_over {
            self.open.push(id.to_owned());
        }
        self.update(fields)
    }

    fn end_call(&mut self, id: &str, outcome: &Result<String, String>) -> TurnResult {
        let (status, text) = match outcome {
            Ok(text) => ("completed", text),
            Err(reason) => ("failed", reason),
        };
        let content = json!([{ "type": "content", "content": shapes::text(text) }]);
        self.call(id, json!({ "status": status, "content": content }))
    }
}

impl TurnOutput for DraftOutput {
    fn text(&mut self, text: &str) -> TurnResult {
        self.chunk("agent_message_chunk", text)
    }

    fn thought(&mut self, text: &str) -> TurnResult {
        self.chunk("agent_thought_chunk", text)
    }

    fn tool_call(&mut self, call: &ToolCall) -> TurnResult {
        let mut fields = json!({
            "title": call.title,
            "kind": call.kind,
            "status": call.status,
        });
        if let Some(input) = &call.input {
            shapes::put(&mut fields, "rawInput", input.clone());
        }
        if let Some(path) = &call.path {
            let place = json!([{ "path": self.path(path) }]);
            shapes::put(&mut fields, "locations", place);
        }
        self.call(&self.call_id(&call.id), fields)
    }

    fn tool_update(&mut self, update: &ToolUpdate) -> TurnResult {
        let mut fields = json!({ "status": update.status });
        if let Some(text) = &update.text {
            let content = json!([{ "type": "content", "content": shapes::text(text) }]);
            shapes::put(&mut fields, "content", content);
        }
        if let Some(output) = &update.output {
            shapes::put(&mut fields, "rawOutput", output.clone());
        }
        self.call(&self.call_id(&update.id), fields)
    }

    fn plan(&mut self, entries: &[PlanEntry]) -> TurnResult {
        let entries = entries.iter();
        let entries: Vec<Value> = entries
            .map(|e| json!({ "content": e.content, "priority": e.priority, "status": e.status }))
            .collect();
        self.message = None;
        let plan = format!("plan-{}", self.turn);
        self.update(json!({
            "sessionUpdate": "plan_update",
            "plan": { "type": "items", "planId": plan, "entries": entries },
        }))
    }

    fn permission(
        &mut self,
        permission: &PermissionRequest,
    ) -> Result<PermissionDecision, TurnEnd> {
        let options = permission.options.iter();
        let options: Vec<Value> = options
            .map(|o| json!({ "optionId": o.id, "name": o.name, "kind": o.kind }))
            .collect();
        let subject = json!({
            "type": "tool_call",
            "toolCall": { "toolCallId": self.call_id(&permission.id), "status": "pending" },
        });
        let params = json!({
            "sessionId": self.session,
            "title": permission.title,
            "subject": subject,
            "options": options,
        });
        self.mailbox.check_cancelled()?;
        let server = Arc::clone(&self.server);
        server.update(&self.session, shapes::state("requires_action"));
        let sender = self.mailbox.sender();
        let request = server
            .peer
            .request("session/request_permission", params, Some(&sender));
        let outcome = match self.mailbox.wait(request) {
            Ok(outcome) => outcome,
            Err(end) => {
                // Nothing waits for the answer any longer.
                server
                    .peer
                    .notify("$/cancel_request", json!({ "requestId": request }));
                return Err(end);
            }
        };
        let Ok(outcome) = outcome else {
            server.update(&self.session, shapes::state("running"));
            return Ok(PermissionDecision::Failed);
        };
        let word = |pointer: &str| outcome.pointer(pointer).and_then(Value::as_str);
        if word("/outcome/outcome") == Some("cancelled") {
            return Err(TurnEnd::Cancelled);
        }
        server.update(&self.session, shapes::state("running"));
        let chosen = word("/outcome/optionId").filter(|_| word("/outcome/outcome").is_some());
        let option = chosen.and_then(|id| permission.options.iter().find(|o| o.id == id));
        Ok(match option {
            Some(option) if option.kind.starts_with("allow") => PermissionDecision::Allowed,
            Some(_) => PermissionDecision::Rejected,
            None => PermissionDecision::Failed,
        })
    }

    /// The draft has no client file access, so the agent reads and writes files itself.
    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, TurnEnd> {
        let path = self.path(&read.path);
        let id = self.own_id("read");
        let title = format!("Read {}", read.path);
        self.call(
            &id,
            json!({
                "title": title,
                "kind": "read",
                "status": "in_progress",
                "locations": [{ "path": path }],
            }),
        )?;
        let outcome = small_file(&path).map_err(|error| error.to_string());
        self.end_call(&id, &outcome)?;
        Ok(outcome)
    }

    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, TurnEnd> {
        let target = self.path(path);
        let id = self.own_id("write");
        self.call(
            &id,
            json!({
                "title": format!("Write {path}"),
                "kind": "edit",
                "status": "in_progress",
                "locations": [{ "path": target }],
            }),
        )?;
        let written = std::fs::write(&target, content).map_err(|error| error.to_string());
        self.end_call(&id, &written.clone().map(|()| "written".to_owned()))?;
        Ok(written)
    }

    /// Terminals belong to the agent and are only displayed. The mock does not run the command; it
    /// knows the output of `echo`.
    fn terminal(&mut self, terminal: &TerminalCommand) -> Result<Result<String, String>, TurnEnd> {
        if terminal.command != "echo" {
            return Ok(Err("This mock knows no command but echo.".to_owned()));
        }
        let (call, id) = (self.own_id("run"), self.own_id("terminal"));
        let words = terminal.args.join(" ");
        let output = format!("{words}\n");
        self.update(json!({
            "sessionUpdate": "terminal_update",
            "terminalId": id,
            "command": format!("echo {words}"),
            "cwd": self.cwd,
        }))?;
        self.call(
            &call,
            json!({
                "title": "Run echo",
                "kind": "execute",
                "status": "in_progress",
                "content": [{ "type": "terminal", "terminalId": id }],
            }),
        )?;
        let data = base64::engine::general_purpose::STANDARD.encode(&output);
        self.update(json!({
            "sessionUpdate": "terminal_output_chunk",
            "terminalId": id,
            "data": data,
        }))?;
        self.update(json!({
            "sessionUpdate": "terminal_update",
            "terminalId": id,
            "exitStatus": { "exitCode": 0 },
        }))?;
        self.call(&call, json!({ "status": "completed" }))?;
        Ok(Ok(output))
    }

    fn elicitation(&mut self, _: &Elicitation) -> Result<UserAnswer, TurnEnd> {
        Ok(UserAnswer::Unsupported)
    }

    fn pause(&mut self, time: Duration) -> TurnResult {
        self.mailbox.pause(time)
    }

    fn mode(&mut self, mode: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.server.switch_mode(&self.session, mode);
        Ok(())
    }

    fn title(&mut self, title: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.server.rename(&self.session, title);
        Ok(())
    }

    fn usage(&mut self, usage: &Usage) -> TurnResult {
        let mut fields = json!({
            "sessionUpdate": "usage_update",
            "used": usage.used,
            "size": usage.size,
        });
        if let Some(amount) = usage.cost {
            let cost = json!({ "amount": amount, "currency": usage.currency });
            shapes::put(&mut fields, "cost", cost);
        }
        self.mailbox.check_cancelled()?;
        self.server.update(&self.session, fields);
        Ok(())
    }

    fn compaction(&mut self, _: &str) -> TurnResult {
        Ok(())
    }

    fn notice(&mut self, severity: &str, title: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        let fields = json!({ "sessionUpdate": "notice", "severity": severity, "title": title });
        self.server.update(&self.session, fields);
        Ok(())
    }

    /// Does nothing: a prompt is answered long before its work ends.
    fn answer_early(&mut self) {}

    fn hang(&mut self) -> TurnEnd {
        if let Some(session) = self.server.state().sessions.get_mut(&self.session) {
            session.hanging = true;
        }
        // A close may already be waiting.
        self.server.work_over.notify_all();
        TurnEnd::NoResponse
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.server.peer.raw(|out| out.write_all(bytes));
    }

    fn huge_line(&mut self, bytes: u64) -> TurnResult {
        self.mailbox.check_cancelled()?;
        faults::huge_line(&self.server.peer, &self.around_text(), bytes);
        Ok(())
    }

    fn flood(&mut self, events: u64) -> TurnResult {
        let around = self.around_text();
        faults::flood(&self.server.peer, &self.mailbox, &around, events)
    }

    fn cwd(&self) -> String {
        self.cwd.clone()
    }
}

impl DraftOutput {
    /// JSON before and after the text of a chunk, so that floods need no JSON serializer.
    fn around_text(&self) -> (String, String) {
        let session = Value::from(self.session.as_str());
        let head = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":{session},\
             \"update\":{{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"msg-flood-{}\",\
             \"content\":{{\"type\":\"text\",\"text\":\"",
            self.turn
        );
        (head, "\"}}}}\n".to_owned())
    }
}
