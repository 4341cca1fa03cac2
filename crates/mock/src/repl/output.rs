//! Prints a turn as JSON lines.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Repl;
use crate::faults;
use crate::mailbox::Mailbox;
use crate::scenario::{
    Elicitation, FsRead, PermissionRequest, PlanEntry, TerminalCommand, TokenCounts, ToolCall,
    ToolUpdate, Usage,
};
use crate::store::{StoredSession, fresh_id, now};
use crate::turn::{PermissionDecision, TurnEnd, TurnOutput, TurnResult, UserAnswer};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    Claude { partial: bool },
    Gemini,
    Text,
}

pub struct ReplOutput<'a> {
    repl: &'a Repl,
    mailbox: Mailbox,
    session: String,
    cwd: String,
    turn: u64,
    started: Instant,
    message: String,
    /// Text that was streamed but not yet sent as a whole.
    streamed: String,
    /// All text of the turn.
    full_text: String,
    tools: u64,
    denied: Vec<Value>,
    usage: Option<Usage>,
}

const MODEL: &str = "mock-model";

impl<'a> ReplOutput<'a> {
    pub fn new(repl: &'a Repl, mailbox: Mailbox, saved: &StoredSession) -> ReplOutput<'a> {
        ReplOutput {
            repl,
            mailbox,
            session: saved.id.clone(),
            cwd: saved.cwd.clone(),
            turn: saved.turns,
            started: Instant::now(),
            message: fresh_id("msg"),
            streamed: String::new(),
            full_text: String::new(),
            tools: 0,
            denied: Vec::new(),
            usage: None,
        }
    }

    fn gemini(&self) -> bool {
        self.repl.format == OutputFormat::Gemini
    }

    /// Prints a line with the members that every line of the dialect has.
    fn line(&self, mut line: Value) {
        if let Some(map) = line.as_object_mut() {
            match self.repl.format {
                OutputFormat::Text => return,
                OutputFormat::Gemini => _ = map.insert("timestamp".to_owned(), now().into()),
                OutputFormat::Claude { .. } => {
                    map.insert("session_id".to_owned(), self.session.as_str().into());
                    map.insert("uuid".to_owned(), super::uuid().into());
                }
            }
        }
        self.repl.print_line(&line);
    }

    pub fn open(&mut self, prompt: &str) {
        if self.gemini() {
            self.line(json!({ "type": "init", "session_id": self.session, "model": MODEL }));
            self.line(json!({ "type": "message", "role": "user", "content": prompt }));
        } else {
            self.line(json!({
                "type": "system",
                "subtype": "init",
                "cwd": self.cwd,
                "tools": ["Read", "Write", "Bash"],
                "mcp_servers": [],
                "model": MODEL,
                "permissionMode": "default",
                "slash_commands": [],
                "apiKeySource": "none",
                "output_style": "default",
            }));
        }
    }

    /// Tokens of the turn, with the names of Claude Code.
    fn tokens(&self) -> Value {
        let names = [
            "input_tokens",
            "output_tokens",
            "thought_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ];
        match &self.usage {
            Some(usage) => Value::Object(usage.tokens.named(names)),
            None => json!({ "input_tokens": 1, "output_tokens": 1 }),
        }
    }

    /// The context windows of the models of Claude Code.
    fn models(&self) -> Value {
        match &self.usage {
            Some(usage) => json!({ MODEL: { "contextWindow": usage.size } }),
            None => json!({}),
        }
    }

    /// Tokens of the turn, with the names of Gemini CLI.
    fn stats(&self, millis: u64) -> Value {
        let names = [
            "input_tokens",
            "output_tokens",
            "thoughts",
            "cached",
            "written",
        ];
        let (mut stats, total) = match &self.usage {
            Some(usage) => (usage.tokens.named(names), usage.tokens.total()),
            None => {
                let one = TokenCounts {
                    input: Some(1),
                    output: Some(1),
                    ..TokenCounts::default()
                };
                (one.named(names), 2)
            }
        };
        stats.insert("total_tokens".to_owned(), total.into());
        stats.insert("duration_ms".to_owned(), millis.into());
        stats.insert("tool_calls".to_owned(), self.tools.into());
        Value::Object(stats)
    }

    /// Prints an assistant line with one content block.
    fn block(&self, block: Value) {
        self.line(json!({
            "type": "assistant",
            "message": {
                "id": self.message,
                "type": "message",
                "role": "assistant",
                "model": MODEL,
                "content": [block],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": self.tokens(),
            },
            "parent_tool_use_id": null,
        }));
    }

    /// Sends the text that was streamed in parts as one block.
    fn flush_streamed_text(&mut self) {
        if !self.streamed.is_empty() {
            let text = std::mem::take(&mut self.streamed);
            self.block(json!({ "type": "text", "text": text }));
        }
    }

    fn tool(&mut self, id: &str, name: &str, input: &Value) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.flush_streamed_text();
        self.tools += 1;
        let id = self.tool_id(id);
        if self.gemini() {
            self.line(json!({
                "type": "tool_use",
                "tool_name": name,
                "tool_id": id,
                "parameters": input,
            }));
        } else {
            self.block(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
            self.message = fresh_id("msg");
        }
        Ok(())
    }

    fn tool_id(&self, id: &str) -> String {
        format!("toolu_{}_{id}", self.turn)
    }

    fn tool_result(&mut self, id: &str, ok: bool, text: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        let id = self.tool_id(id);
        if self.gemini() {
            let status = if ok { "success" } else { "error" };
            let mut line =
                json!({ "type": "tool_result", "tool_id": id, "status": status, "output": text });
            if let (false, Some(map)) = (ok, line.as_object_mut()) {
                let error = json!({ "type": "TOOL_FAILED", "message": text });
                map.insert("error".to_owned(), error);
            }
            self.line(line);
        } else {
            let mut block = json!({ "type": "tool_result", "tool_use_id": id, "content": text });
            if let (false, Some(map)) = (ok, block.as_object_mut()) {
                map.insert("is_error".to_owned(), true.into());
            }
            self.line(json!({
                "type": "user",
                "message": { "role": "user", "content": [block] },
                "parent_tool_use_id": null,
            }));
        }
        Ok(())
    }

    /// Prints the last line, and returns the exit code.
    pub fn close(&mut self, end: Result<(), TurnEnd>) -> u8 {
        self.flush_streamed_text();
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0);
        let (subtype, reason, error) = match end {
            Ok(()) => ("success", "end_turn".to_owned(), None),
            Err(TurnEnd::Stop(reason)) if reason == "max_turn_requests" => {
                ("error_max_turns", reason, Some("the turn limit is reached"))
            }
            Err(TurnEnd::Stop(reason)) => ("success", reason, None),
            Err(TurnEnd::Error { ref message, .. }) => (
                "error_during_execution",
                "error".to_owned(),
                Some(message.as_str()),
            ),
            Err(TurnEnd::Cancelled | TurnEnd::RequestCancelled) => (
                "error_during_execution",
                "cancelled".to_owned(),
                Some("interrupted"),
            ),
            Err(TurnEnd::NoResponse) => {
                std::thread::sleep(crate::IGNORE_EOF_TIME);
                return 1;
            }
        };
        let code = u8::from(error.is_some());
        match self.repl.format {
            OutputFormat::Text => {
                let full_text = error.unwrap_or(&self.full_text).to_owned();
                self.repl.peer.raw(|out| writeln!(out, "{full_text}"));
            }
            OutputFormat::Gemini => {
                if let Some(message) = error {
                    self.line(json!({ "type": "error", "severity": "error", "message": message }));
                }
                let mut line = json!({
                    "type": "result",
                    "status": if error.is_some() { "error" } else { "success" },
                    "stats": self.stats(millis),
                });
                if let (Some(message), Some(map)) = (error, line.as_object_mut()) {
                    let error = json!({ "type": "Error", "message": message });
                    map.insert("error".to_owned(), error);
                }
                self.line(line);
            }
            OutputFormat::Claude { .. } => self.line(json!({
                "type": "result",
                "subtype": subtype,
                "is_error": error.is_some(),
                "duration_ms": millis,
                "duration_api_ms": 0,
                "num_turns": 1,
                "result": error.unwrap_or(&self.full_text),
                "stop_reason": reason,
                "total_cost_usd": self.usage.as_ref().and_then(|usage| usage.cost).unwrap_or(0.0),
                "usage": self.tokens(),
                "modelUsage": self.models(),
                "permission_denials": self.denied,
            })),
        }
        code
    }

    fn around_text(&self) -> (String, String) {
        let session = Value::from(self.session.as_str());
        if self.gemini() {
            let head = "{\"type\":\"message\",\"role\":\"assistant\",\"delta\":true,\"content\":\"";
            return (head.to_owned(), "\"}\n".to_owned());
        }
        (
            "{\"type\":\"assistant\",\"message\":{\"type\":\"message\",\"role\":\"assistant\",\
             \"content\":[{\"type\":\"text\",\"text\":\""
                .to_owned(),
            format!("\"}}]}},\"session_id\":{session}}}\n"),
        )
    }
}

impl TurnOutput for ReplOutput<'_> {
    fn text(&mut self, text: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        self.full_text.push_str(text);
        match self.repl.format {
            OutputFormat::Text => {}
            OutputFormat::Gemini => self.line(json!({
                "type": "message",
                "role": "assistant",
                "content": text,
                "delta": true,
            })),
            OutputFormat::Claude { partial: true } => {
                self.streamed.push_str(text);
                self.line(json!({
                    "type": "stream_event",
                    "event": {
                        "type": "content_block_delta",
                        "index": 0,
                        "delta": { "type": "text_delta", "text": text },
                    },
                    "parent_tool_use_id": null,
                }));
            }
            OutputFormat::Claude { partial: false } => {
                self.block(json!({ "type": "text", "text": text }));
            }
        }
        Ok(())
    }

    fn thought(&mut self, text: &str) -> TurnResult {
        self.mailbox.check_cancelled()?;
        if let OutputFormat::Claude { .. } = self.repl.format {
            self.flush_streamed_text();
            self.block(json!({ "type": "thinking", "thinking": text, "signature": "" }));
        }
        Ok(())
    }

    fn tool_call(&mut self, call: &ToolCall) -> TurnResult {
        let input = call.input.clone().unwrap_or_else(|| json!({}));
        self.tool(&call.id, &call.title, &input)
    }

    fn tool_update(&mut self, update: &ToolUpdate) -> TurnResult {
        match update.status.as_str() {
            "completed" | "failed" => {
                let text = update.text.clone().unwrap_or_default();
                self.tool_result(&update.id, update.status == "completed", &text)
            }
            _ => Ok(()),
        }
    }

    /// Plans are ordinary tool calls in this protocol.
    fn plan(&mut self, entries: &[PlanEntry]) -> TurnResult {
        let todos: Vec<Value> = entries
            .iter()
            .map(|entry| json!({ "content": entry.content, "status": entry.status }))
            .collect();
        let id = format!("plan{}", self.tools);
        self.tool(&id, "TodoWrite", &json!({ "todos": todos }))?;
        self.tool_result(&id, true, "noted")
    }

    /// Rejects, because there is no way to ask the user. The result lists the denial.
    fn permission(
        &mut self,
        permission: &PermissionRequest,
    ) -> Result<PermissionDecision, TurnEnd> {
        self.mailbox.check_cancelled()?;
        let id = self.tool_id(&permission.id);
        self.denied
            .push(json!({ "tool_name": permission.title, "tool_use_id": id }));
        Ok(PermissionDecision::Rejected)
    }

    fn fs_read(&mut self, read: &FsRead) -> Result<Result<String, String>, TurnEnd> {
        let path = Path::new(&self.cwd).join(&read.path);
        self.tool("read", "Read", &json!({ "file_path": path }))?;
        let outcome = crate::turn::small_file(&path).map_err(|error| error.to_string());
        let result_text = outcome.as_ref().unwrap_or_else(|reason| reason).clone();
        self.tool_result("read", outcome.is_ok(), &result_text)?;
        Ok(outcome)
    }

    fn fs_write(&mut self, path: &str, content: &str) -> Result<Result<(), String>, TurnEnd> {
        let target = Path::new(&self.cwd).join(path);
        self.tool("write", "Write", &json!({ "file_path": target }))?;
        let outcome = std::fs::write(&target, content).map_err(|error| error.to_string());
        let result_text = outcome.as_ref().err().map_or("written", String::as_str);
        self.tool_result("write", outcome.is_ok(), result_text)?;
        Ok(outcome)
    }

    fn terminal(&mut self, _: &TerminalCommand) -> Result<Result<String, String>, TurnEnd> {
        Ok(Err("This mock runs no commands of its own.".to_owned()))
    }

    fn elicitation(&mut self, _: &Elicitation) -> Result<UserAnswer, TurnEnd> {
        Ok(UserAnswer::Unsupported)
    }

    fn pause(&mut self, time: Duration) -> TurnResult {
        self.mailbox.pause(time)
    }

    /// The protocol has no lines for these steps.
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
        match self.repl.format {
            OutputFormat::Gemini => {
                self.line(json!({ "type": "error", "severity": severity, "message": title }))
            }
            OutputFormat::Claude { .. } => {
                self.line(json!({ "type": "system", "subtype": "notice", "content": title }))
            }
            OutputFormat::Text => {}
        }
        Ok(())
    }

    fn answer_early(&mut self) {
        self.close(Ok(()));
    }

    fn hang(&mut self) -> TurnEnd {
        TurnEnd::NoResponse
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.repl.peer.raw(|out| out.write_all(bytes));
    }

    fn huge_line(&mut self, bytes: u64) -> TurnResult {
        self.mailbox.check_cancelled()?;
        faults::huge_line(&self.repl.peer, &self.around_text(), bytes);
        Ok(())
    }

    fn flood(&mut self, events: u64) -> TurnResult {
        let around = self.around_text();
        faults::flood(&self.repl.peer, &self.mailbox, &around, events)
    }

    fn cwd(&self) -> String {
        self.cwd.clone()
    }
}
