//! Sends a prompt turn as ACP messages.

mod model;
mod questions;
mod terminals;
mod tools;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::servers::RunningServer;
use super::{AcpServer, ClientCapabilities, shapes};
use crate::faults;
use crate::mailbox::{CallResult, Mailbox};
use crate::scenario::{
    Elicitation, FsRead, PermissionRequest, PlanEntry, TerminalCommand, ToolCall, ToolUpdate, Usage,
};
use crate::store::{StoredSession, fresh_id};
use crate::turn::{PermissionDecision, TurnEnd, TurnOutput, TurnResult, UserAnswer};

pub struct AcpOutput {
    server: Arc<AcpServer>,
    client: ClientCapabilities,
    mailbox: Mailbox,
    pub session: String,
    pub request: Value,
    cwd: String,
    turn: u64,
    calls: u64,
    /// Type and id of the message that the next chunk may continue.
    message: Option<(&'static str, String)>,
    /// Updates that a later `session/load` replays.
    pub history: Vec<Value>,
    /// Elicitation ids of the web pages that the user was sent to.
    pages: Vec<String>,
    /// What a step has reported about tokens.
    pub usage: Option<Usage>,
    /// MCP servers of the session.
    servers: Vec<Arc<RunningServer>>,
}

/// Maximum number of updates per turn that a later `session/load` can replay.
const MAX_HISTORY: usize = 10_000;

impl AcpOutput {
    pub fn new(
        server: Arc<AcpServer>,
        client: ClientCapabilities,
        mailbox: Mailbox,
        saved: &StoredSession,
        servers: Vec<Arc<RunningServer>>,
        request: &Value,
    ) -> AcpOutput {
        AcpOutput {
            server,
            client,
            mailbox,
            session: saved.id.clone(),
            request: request.clone(),
            cwd: saved.cwd.clone(),
            turn: saved.turns,
            calls: 0,
            message: None,
            history: Vec::new(),
            pages: Vec::new(),
            usage: None,
            servers,
        }
    }

    fn call(&self, method: &str, params: Value) -> CallResult {
        self.mailbox.call(&self.server.peer, method, params)
    }

    fn update(&mut self, update: Value) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.server.update(&self.session, update.clone());
        if self.history.len() < MAX_HISTORY {
            self.history.push(update);
        }
        Ok(())
    }

    fn chunk(&mut self, kind: &'static str, text: &str) -> TurnResult {
        let message = match &self.message {
            Some((open, id)) if *open == kind => id.clone(),
            _ => fresh_id("msg"),
        };
        self.message = Some((kind, message.clone()));
        self.update(json!({
            "sessionUpdate": kind,
            "content": shapes::text(text),
            "messageId": message,
        }))
    }

    /// Makes the id of a tool call unique in the session. The scenario's ids are unique only within
    /// a turn.
    fn call_id(&self, id: &str) -> String {
        format!("call-{}-{id}", self.turn)
    }

    fn new_call_id(&mut self, what: &str) -> String {
        self.calls += 1;
        format!("call-{}-{what}-{}", self.turn, self.calls)
    }

    fn absolute(&self, path: &str) -> String {
        let path = Path::new(&self.cwd).join(path);
        path.to_string_lossy().into_owned()
    }

    fn finish_call(&mut self, id: &str, status: &str, text: &str) -> TurnResult {
        self.update(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": status,
            "content": [{ "type": "content", "content": shapes::text(text) }],
        }))
    }

    fn announce(&mut self, call: Value) -> TurnResult {
        self.message = None;
        self.update(call)
    }
}

/// The message of a JSON-RPC error.
fn reason(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str);
    message.unwrap_or("the client refused").to_owned()
}

impl TurnOutput for AcpOutput {
    fn text(&mut self, text: &str) -> TurnResult {
        self.chunk("agent_message_chunk", text)
    }

    fn thought(&mut self, text: &str) -> TurnResult {
        self.chunk("agent_thought_chunk", text)
    }

    fn tool_call(&mut self, call: &ToolCall) -> TurnResult {
        let mut update = json!({
            "sessionUpdate": "tool_call",
            "toolCallId": self.call_id(&call.id),
            "title": call.title,
            "kind": call.kind,
            "status": call.status,
        });
        if let Some(map) = update.as_object_mut() {
            if let Some(input) = &call.input {
                map.insert("rawInput".to_owned(), input.clone());
            }
            if let Some(path) = &call.path {
                let mut location = json!({ "path": self.absolute(path) });
                if let (Some(line), Some(location)) = (call.line, location.as_object_mut()) {
                    location.insert("line".to_owned(), line.into());
                }
                map.insert("locations".to_owned(), json!([location]));
            }
        }
        self.announce(update)
    }

    fn tool_update(&mut self, update: &ToolUpdate) -> TurnResult {
        let mut message = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": self.call_id(&update.id),
            "status": update.status,
        });
        if let Some(map) = message.as_object_mut() {
            if let Some(text) = &update.text {
                let content = json!([{ "type": "content", "content": shapes::text(text) }]);
                map.insert("content".to_owned(), content);
            }
            if let Some(output) = &update.output {
                map.insert("rawOutput".to_owned(), output.clone());
            }
        }
        self.update(message)
    }

    fn plan(&mut self, entries: &[PlanEntry]) -> TurnResult {
        let entries: Vec<Value> = entries
            .iter()
            .map(|entry| {
                json!({
                    "content": entry.content,
                    "priority": entry.priority,
                    "status": entry.status,
                })
            })
            .collect();
        self.message = None;
        self.update(json!({ "sessionUpdate": "plan", "entries": entries }))
    }

    fn permission(
        &mut self,
        permission: &PermissionRequest,
    ) -> Result<PermissionDecision, TurnEnd> {
        let options: Vec<Value> = permission
            .options
            .iter()
            .map(|o| json!({ "optionId": o.id, "name": o.name, "kind": o.kind }))
            .collect();
        let mut call = json!({
            "toolCallId": self.call_id(&permission.id),
            "title": permission.title,
            "status": "pending",
        });
        if let (Some(diff), Some(call)) = (&permission.diff, call.as_object_mut()) {
            let path = self.absolute(&diff.path);
            let change =
                json!({ "type": "diff", "path": path, "oldText": diff.old, "newText": diff.new });
            call.insert("content".to_owned(), json!([change]));
            call.insert("locations".to_owned(), json!([{ "path": path }]));
        }
        let params = json!({ "sessionId": self.session, "toolCall": call, "options": options });
        let outcome = match self.call("session/request_permission", params)? {
            Ok(result) => result,
            Err(_) => return Ok(PermissionDecision::Failed),
        };
        let word = |pointer: &str| outcome.pointer(pointer).and_then(Value::as_str);
        match (word("/outcome/outcome"), word("/outcome/optionId")) {
            (Some("cancelled"), _) => Err(TurnEnd::Cancelled),
            (Some("selected"), Some(chosen)) => {
                let option = permission.options.iter().find(|o| o.id == chosen);
                Ok(match option {
                    Some(option) if option.kind.starts_with("allow") => PermissionDecision::Allowed,
                    Some(_) => PermissionDecision::Rejected,
                    None => PermissionDecision::Failed,
                })
            }
            _ => Ok(PermissionDecision::Failed),
        }
    }

    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, TurnEnd> {
        if !self.client.read {
            return Ok(Err("The client does not allow reading files.".to_owned()));
        }
        let path = self.absolute(&read.path);
        let id = self.new_call_id("read");
        self.announce(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": format!("Read {}", read.path),
            "kind": "read",
            "status": "in_progress",
            "locations": [{ "path": path }],
            "rawInput": { "path": path },
        }))?;
        let mut params = json!({ "sessionId": self.session, "path": path });
        if let Some(map) = params.as_object_mut() {
            if let Some(line) = read.line {
                map.insert("line".to_owned(), line.into());
            }
            if let Some(limit) = read.limit {
                map.insert("limit".to_owned(), limit.into());
            }
        }
        let outcome = match self.call("fs/read_text_file", params)? {
            Ok(result) => match result.get("content").and_then(Value::as_str) {
                Some(content) => Ok(content.to_owned()),
                None => Err("the client sent no content".to_owned()),
            },
            Err(error) => Err(reason(&error)),
        };
        match &outcome {
            Ok(content) => self.finish_call(&id, "completed", content)?,
            Err(reason) => self.finish_call(&id, "failed", reason)?,
        }
        Ok(outcome)
    }

    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, TurnEnd> {
        if !self.client.write {
            return Ok(Err("The client does not allow writing files.".to_owned()));
        }
        let target = self.absolute(path);
        let id = self.new_call_id("write");
        self.announce(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": format!("Write {path}"),
            "kind": "edit",
            "status": "in_progress",
            "locations": [{ "path": target }],
            "content": [{ "type": "diff", "path": target, "newText": content }],
        }))?;
        let params = json!({ "sessionId": self.session, "path": target, "content": content });
        match self.call("fs/write_text_file", params)? {
            Ok(_) => {
                self.finish_call(&id, "completed", "written")?;
                Ok(Ok(()))
            }
            Err(error) => {
                let reason = reason(&error);
                self.finish_call(&id, "failed", &reason)?;
                Ok(Err(reason))
            }
        }
    }

    fn terminal(&mut self, terminal: &TerminalCommand) -> Result<Result<String, String>, TurnEnd> {
        if !self.client.terminal {
            return Ok(Err("The client has no terminal.".to_owned()));
        }
        let call = self.new_call_id("terminal");
        self.announce(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": call,
            "title": format!("Run {}", terminal.command),
            "kind": "execute",
            "status": "in_progress",
            "rawInput": { "command": terminal.command, "args": terminal.args },
        }))?;
        self.run_in_terminal(&call, terminal)
    }

    fn elicitation(&mut self, question: &Elicitation) -> Result<UserAnswer, TurnEnd> {
        match &question.url {
            Some(url) => self.page(&question.message, url),
            None => self.form(question),
        }
    }

    fn pause(&mut self, time: Duration) -> TurnResult {
        self.mailbox.pause(time)
    }

    fn model(&mut self) -> TurnResult {
        self.model_turn()
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
        self.mailbox.check_cancelled()?;
        self.server.update(&self.session, shapes::usage(usage));
        self.usage = Some(usage.clone());
        Ok(())
    }

    fn compaction(&mut self, summary: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        if self.client.compaction {
            for update in shapes::compaction(&fresh_id("compaction"), summary) {
                self.server.update(&self.session, update);
            }
        }
        Ok(())
    }

    fn notice(&mut self, severity: &str, title: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        if self.client.notices {
            let update = json!({ "sessionUpdate": "notice", "severity": severity, "title": title });
            self.server.update(&self.session, update);
        }
        Ok(())
    }

    fn answer_early(&mut self) {
        let answer = Ok(json!({ "stopReason": "end_turn" }));
        self.server.peer.respond(&self.request, answer);
    }

    fn hang(&mut self) -> TurnEnd {
        if let Some(session) = self.server.state().sessions.get_mut(&self.session)
            && let Some(active) = session.active.as_mut()
        {
            active.hanging = true;
        }
        // A close may already be waiting.
        self.server.turn_over.notify_all();
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

impl AcpOutput {
    /// JSON before and after the text of a chunk, so that floods need no JSON serializer.
    fn around_text(&self) -> (String, String) {
        let session = Value::from(self.session.as_str());
        let head = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":{session},\
             \"update\":{{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{{\"type\":\"text\",\"text\":\""
        );
        (head, "\"}}}}\n".to_owned())
    }
}
