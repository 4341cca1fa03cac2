//! Sends the turn of a tool call as MCP messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{McpServer, Negotiated};
use crate::faults;
use crate::mailbox::{CallResult, Mailbox};
use crate::scenario::{
    Elicitation, FsRead, PermissionRequest, PlanEntry, TerminalCommand, ToolCall, ToolUpdate, Usage,
};
use crate::store::StoredSession;
use crate::turn::{
    PermissionDecision, TurnEnd, TurnOutput, TurnResult, UserAnswer, reply, small_file,
};

pub struct McpOutput {
    server: Arc<McpServer>,
    negotiated: Negotiated,
    mailbox: Mailbox,
    pub request: Value,
    token: Option<Value>,
    progress: u64,
    session: String,
    cwd: String,
    turn: u64,
    /// All text so far, which becomes the content of the result.
    pub full_text: String,
    /// What a step has reported about tokens.
    pub usage: Option<Usage>,
}

impl McpOutput {
    pub fn new(
        server: Arc<McpServer>,
        negotiated: Negotiated,
        mailbox: Mailbox,
        request: &Value,
        token: Option<Value>,
        saved: &StoredSession,
    ) -> McpOutput {
        McpOutput {
            server,
            negotiated,
            mailbox,
            request: request.clone(),
            token,
            progress: 0,
            session: saved.id.clone(),
            cwd: saved.cwd.clone(),
            turn: saved.turns,
            full_text: String::new(),
            usage: None,
        }
    }

    fn event(&mut self, kind: &str, fields: Value) -> TurnResult {
        self.mailbox.check_cancelled()?;
        if self.server.events {
            let mut params = Map::new();
            params.insert("type".to_owned(), kind.into());
            if let Value::Object(fields) = fields {
                params.extend(fields);
            }
            params.insert("session_id".to_owned(), self.session.as_str().into());
            params.insert("requestId".to_owned(), self.request.clone());
            self.server.peer.notify("mock/event", Value::Object(params));
        }
        Ok(())
    }

    /// Reports progress, which grows with each step. Without events, it carries the text.
    fn progress(&mut self, message: Option<&str>) {
        let Some(token) = &self.token else { return };
        self.progress += 1;
        let mut params = json!({ "progressToken": token, "progress": self.progress });
        if let (Some(message), Some(map)) = (message, params.as_object_mut()) {
            map.insert("message".to_owned(), message.into());
        }
        self.server.peer.notify("notifications/progress", params);
    }

    fn call_id(&self, id: &str) -> String {
        format!("call-{}-{id}", self.turn)
    }

    fn begin(&mut self, id: &str, name: &str, kind: &str, arguments: Value) -> TurnResult {
        let id = self.call_id(id);
        self.event(
            "tool_begin",
            json!({ "call_id": id, "name": name, "kind": kind, "arguments": arguments }),
        )?;
        self.progress(None);
        Ok(())
    }

    fn end(&mut self, id: &str, ok: bool, content: &str) -> TurnResult {
        let id = self.call_id(id);
        self.event(
            "tool_end",
            json!({ "call_id": id, "ok": ok, "content": content }),
        )
    }

    fn path(&self, path: &str) -> PathBuf {
        Path::new(&self.cwd).join(path)
    }

    fn ask(&mut self, message: &str, properties: Value, required: Vec<String>) -> CallResult {
        let mut params = json!({
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
            },
        });
        // Elicitation modes were added in 2025-11-25.
        if self.negotiated.revision >= "2025-11-25"
            && let Some(map) = params.as_object_mut()
        {
            map.insert("mode".to_owned(), "form".into());
        }
        self.mailbox.check_cancelled()?;
        let peer = &self.server.peer;
        let sender = self.mailbox.sender();
        let id = peer.request("elicitation/create", params, Some(&sender));
        let outcome = self.mailbox.wait(id);
        if outcome.is_err() {
            let params = json!({ "requestId": id, "reason": "the call was canceled" });
            peer.notify("notifications/cancelled", params);
        }
        outcome
    }

    /// JSON before and after the text of an event, so that floods need no JSON serializer.
    fn around_text(&self) -> (String, String) {
        let head = "{\"jsonrpc\":\"2.0\",\"method\":\"mock/event\",\
            \"params\":{\"type\":\"text_delta\",\"text\":\""
            .to_owned();
        let session = Value::from(self.session.as_str());
        let tail = format!(
            "\",\"session_id\":{session},\"requestId\":{}}}}}\n",
            self.request
        );
        (head, tail)
    }
}

impl TurnOutput for McpOutput {
    fn text(&mut self, text: &str) -> TurnResult {
        self.event("text_delta", json!({ "text": text }))?;
        let carried = (!self.server.events).then_some(text);
        self.progress(carried);
        self.full_text.push_str(text);
        Ok(())
    }

    fn thought(&mut self, text: &str) -> TurnResult {
        self.event("reasoning_delta", json!({ "text": text }))
    }

    fn tool_call(&mut self, call: &ToolCall) -> TurnResult {
        let input = call.input.clone().unwrap_or_else(|| json!({}));
        self.begin(&call.id, &call.title, &call.kind, input)
    }

    fn tool_update(&mut self, update: &ToolUpdate) -> TurnResult {
        match update.status.as_str() {
            "completed" | "failed" => {
                let text = update.text.clone().unwrap_or_default();
                self.end(&update.id, update.status == "completed", &text)
            }
            _ => Ok(()),
        }
    }

    fn plan(&mut self, entries: &[PlanEntry]) -> TurnResult {
        let entries = entries.iter();
        let entries: Vec<Value> = entries
            .map(|entry| json!({ "content": entry.content, "status": entry.status }))
            .collect();
        self.event("plan", json!({ "entries": entries }))
    }

    fn permission(
        &mut self,
        permission: &PermissionRequest,
    ) -> Result<PermissionDecision, TurnEnd> {
        if !self.negotiated.forms {
            return Ok(PermissionDecision::Failed);
        }
        let ids: Vec<&str> = permission.options.iter().map(|o| o.id.as_str()).collect();
        let properties = json!({ "decision": { "type": "string", "enum": ids } });
        let message = format!("May I: {}?", permission.title);
        let outcome = match self.ask(&message, properties, vec!["decision".to_owned()])? {
            Ok(result) => reply(&result),
            Err(_) => return Ok(PermissionDecision::Failed),
        };
        let UserAnswer::Accepted(words) = outcome else {
            return Ok(PermissionDecision::Rejected);
        };
        let chosen = words.iter().find(|(name, _)| name == "decision");
        let chosen = chosen.and_then(|(_, id)| permission.options.iter().find(|o| o.id == *id));
        Ok(match chosen {
            Some(option) if option.kind.starts_with("allow") => PermissionDecision::Allowed,
            Some(_) => PermissionDecision::Rejected,
            None => PermissionDecision::Failed,
        })
    }

    /// An agent behind MCP reads and writes files itself, not through the client.
    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, TurnEnd> {
        let path = self.path(&read.path);
        let path_text = path.to_string_lossy().into_owned();
        self.begin(
            "read",
            &format!("Read {}", read.path),
            "read",
            json!({ "path": path_text }),
        )?;
        let outcome = small_file(&path).map_err(|error| error.to_string());
        let result_text = outcome.as_ref().unwrap_or_else(|reason| reason).clone();
        self.end("read", outcome.is_ok(), &result_text)?;
        Ok(outcome)
    }

    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, TurnEnd> {
        let target = self.path(path);
        let path_text = target.to_string_lossy().into_owned();
        self.begin(
            "write",
            &format!("Write {path}"),
            "edit",
            json!({ "path": path_text }),
        )?;
        let outcome = std::fs::write(&target, content).map_err(|error| error.to_string());
        let result_text = outcome.as_ref().err().map_or("written", String::as_str);
        self.end("write", outcome.is_ok(), result_text)?;
        Ok(outcome)
    }

    fn terminal(&mut self, _: &TerminalCommand) -> Result<Result<String, String>, TurnEnd> {
        Ok(Err("This mock runs no commands of its own.".to_owned()))
    }

    fn elicitation(&mut self, question: &Elicitation) -> Result<UserAnswer, TurnEnd> {
        // The mock supports URLs only in ACP; over MCP it uses only forms.
        if !self.negotiated.forms || question.url.is_some() {
            return Ok(UserAnswer::Unsupported);
        }
        let fields = question.fields.iter();
        let properties: Map<String, Value> = fields
            .map(|(name, kind)| (name.clone(), json!({ "type": kind })))
            .collect();
        let required = question.fields.iter().map(|(name, _)| name.clone());
        let required = required.collect();
        Ok(
            match self.ask(&question.message, Value::Object(properties), required)? {
                Ok(result) => reply(&result),
                Err(_) => UserAnswer::Dismissed,
            },
        )
    }

    fn pause(&mut self, time: Duration) -> TurnResult {
        self.mailbox.pause(time)
    }

    /// MCP has no modes and titles, so these steps do nothing.
    fn mode(&mut self, _: &str) -> TurnResult {
        Ok(())
    }
    fn title(&mut self, _: &str) -> TurnResult {
        Ok(())
    }
    fn usage(&mut self, usage: &Usage) -> TurnResult {
        self.usage = Some(usage.clone());
        Ok(())
    }
    fn compaction(&mut self, _: &str) -> TurnResult {
        Ok(())
    }

    fn notice(&mut self, severity: &str, title: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.server.log(severity, title);
        Ok(())
    }

    fn answer_early(&mut self) {
        let answer = super::tools::result(&self.full_text, &self.session, "end_turn");
        self.server.peer.respond(&self.request, Ok(answer));
    }

    fn hang(&mut self) -> TurnEnd {
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
