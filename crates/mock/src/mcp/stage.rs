//! Sends the turn of a tool call as MCP messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Agreed, Server};
use crate::faults;
use crate::mailbox::{Called, Mailbox};
use crate::scenario::{
    Elicitation, FsRead, Permission, PlanEntry, Terminal, ToolCall, ToolUpdate, Usage,
};
use crate::store::Saved;
use crate::turn::{Decision, End, Played, Reply, Stage, reply, small_file};

pub struct McpStage {
    server: Arc<Server>,
    agreed: Agreed,
    mailbox: Mailbox,
    pub request: Value,
    token: Option<Value>,
    progress: u64,
    session: String,
    cwd: String,
    turn: u64,
    /// All text so far, which becomes the content of the result.
    pub said: String,
}

impl McpStage {
    pub fn new(
        server: Arc<Server>,
        agreed: Agreed,
        mailbox: Mailbox,
        request: &Value,
        token: Option<Value>,
        saved: &Saved,
    ) -> McpStage {
        McpStage {
            server,
            agreed,
            mailbox,
            request: request.clone(),
            token,
            progress: 0,
            session: saved.id.clone(),
            cwd: saved.cwd.clone(),
            turn: saved.turns,
            said: String::new(),
        }
    }

    fn event(&mut self, kind: &str, fields: Value) -> Played {
        self.mailbox.listen()?;
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

    fn begin(&mut self, id: &str, name: &str, kind: &str, arguments: Value) -> Played {
        let id = self.call_id(id);
        self.event(
            "tool_begin",
            json!({ "call_id": id, "name": name, "kind": kind, "arguments": arguments }),
        )?;
        self.progress(None);
        Ok(())
    }

    fn end(&mut self, id: &str, ok: bool, content: &str) -> Played {
        let id = self.call_id(id);
        self.event(
            "tool_end",
            json!({ "call_id": id, "ok": ok, "content": content }),
        )
    }

    fn path(&self, path: &str) -> PathBuf {
        Path::new(&self.cwd).join(path)
    }

    fn ask(&mut self, message: &str, properties: Value, required: Vec<String>) -> Called {
        let mut params = json!({
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
            },
        });
        // Elicitation modes were added in 2025-11-25.
        if self.agreed.revision >= "2025-11-25"
            && let Some(map) = params.as_object_mut()
        {
            map.insert("mode".to_owned(), "form".into());
        }
        self.mailbox.listen()?;
        let peer = &self.server.peer;
        let ear = self.mailbox.ear();
        let id = peer.request("elicitation/create", params, Some(&ear));
        let outcome = self.mailbox.wait(id);
        if outcome.is_err() {
            let params = json!({ "requestId": id, "reason": "the call was cancelled" });
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

impl Stage for McpStage {
    fn text(&mut self, text: &str) -> Played {
        self.event("text_delta", json!({ "text": text }))?;
        let carried = (!self.server.events).then_some(text);
        self.progress(carried);
        self.said.push_str(text);
        Ok(())
    }

    fn thought(&mut self, text: &str) -> Played {
        self.event("reasoning_delta", json!({ "text": text }))
    }

    fn tool_call(&mut self, call: &ToolCall) -> Played {
        let input = call.input.clone().unwrap_or_else(|| json!({}));
        self.begin(&call.id, &call.title, &call.kind, input)
    }

    fn tool_update(&mut self, update: &ToolUpdate) -> Played {
        match update.status.as_str() {
            "completed" | "failed" => {
                let text = update.text.clone().unwrap_or_default();
                self.end(&update.id, update.status == "completed", &text)
            }
            _ => Ok(()),
        }
    }

    fn plan(&mut self, entries: &[PlanEntry]) -> Played {
        let entries = entries.iter();
        let entries: Vec<Value> = entries
            .map(|entry| json!({ "content": entry.content, "status": entry.status }))
            .collect();
        self.event("plan", json!({ "entries": entries }))
    }

    fn permission(&mut self, permission: &Permission) -> Result<Decision, End> {
        if !self.agreed.forms {
            return Ok(Decision::Failed);
        }
        let ids: Vec<&str> = permission.options.iter().map(|o| o.id.as_str()).collect();
        let properties = json!({ "decision": { "type": "string", "enum": ids } });
        let message = format!("May I: {}?", permission.title);
        let outcome = match self.ask(&message, properties, vec!["decision".to_owned()])? {
            Ok(result) => reply(&result),
            Err(_) => return Ok(Decision::Failed),
        };
        let Reply::Accepted(words) = outcome else {
            return Ok(Decision::Rejected);
        };
        let chosen = words.iter().find(|(name, _)| name == "decision");
        let chosen = chosen.and_then(|(_, id)| permission.options.iter().find(|o| o.id == *id));
        Ok(match chosen {
            Some(option) if option.kind.starts_with("allow") => Decision::Allowed,
            Some(_) => Decision::Rejected,
            None => Decision::Failed,
        })
    }

    /// An agent behind MCP reads and writes files itself, not through the client.
    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, End> {
        let path = self.path(&read.path);
        let shown = path.to_string_lossy().into_owned();
        self.begin(
            "read",
            &format!("Read {}", read.path),
            "read",
            json!({ "path": shown }),
        )?;
        let outcome = small_file(&path).map_err(|error| error.to_string());
        let told = outcome.as_ref().unwrap_or_else(|reason| reason).clone();
        self.end("read", outcome.is_ok(), &told)?;
        Ok(outcome)
    }

    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, End> {
        let target = self.path(path);
        let shown = target.to_string_lossy().into_owned();
        self.begin(
            "write",
            &format!("Write {path}"),
            "edit",
            json!({ "path": shown }),
        )?;
        let outcome = std::fs::write(&target, content).map_err(|error| error.to_string());
        let told = outcome.as_ref().err().map_or("written", String::as_str);
        self.end("write", outcome.is_ok(), told)?;
        Ok(outcome)
    }

    fn terminal(&mut self, _: &Terminal) -> Result<Result<String, String>, End> {
        Ok(Err("This mock runs no commands of its own.".to_owned()))
    }

    fn elicitation(&mut self, question: &Elicitation) -> Result<Reply, End> {
        // The mock supports URLs only in ACP; over MCP it uses only forms.
        if !self.agreed.forms || question.url.is_some() {
            return Ok(Reply::Unasked);
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
                Err(_) => Reply::Dismissed,
            },
        )
    }

    fn pause(&mut self, time: Duration) -> Played {
        self.mailbox.pause(time)
    }

    /// MCP has no modes, titles or token counts, so these steps do nothing.
    fn mode(&mut self, _: &str) -> Played {
        Ok(())
    }
    fn title(&mut self, _: &str) -> Played {
        Ok(())
    }
    fn usage(&mut self, _: &Usage) -> Played {
        Ok(())
    }
    fn compaction(&mut self, _: &str) -> Played {
        Ok(())
    }

    fn notice(&mut self, severity: &str, title: &str) -> Played {
        self.mailbox.listen()?;
        self.server.log(severity, title);
        Ok(())
    }

    fn answer_early(&mut self) {
        let answer = super::tools::result(&self.said, &self.session, "end_turn");
        self.server.peer.respond(&self.request, Ok(answer));
    }

    fn hang(&mut self) -> End {
        End::Silence
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.server.peer.raw(|out| out.write_all(bytes));
    }

    fn huge_line(&mut self, bytes: u64) -> Played {
        self.mailbox.listen()?;
        faults::huge_line(&self.server.peer, &self.around_text(), bytes);
        Ok(())
    }

    fn flood(&mut self, events: u64) -> Played {
        let around = self.around_text();
        faults::flood(&self.server.peer, &self.mailbox, &around, events)
    }

    fn cwd(&self) -> String {
        self.cwd.clone()
    }
}
