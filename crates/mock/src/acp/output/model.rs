//! A turn that asks a model, like a real agent: it sends the conversation and the tools to the
//! model, runs the tools that the model calls, and continues until the model calls no more.

use serde_json::{Value, json};

use super::AcpOutput;
use crate::acp::model_client::{self, ModelEvent, NoReply};
use crate::turn::{TurnEnd, TurnOutput, TurnResult};

/// Maximum number of requests per turn.
const MAX_REQUESTS: usize = 8;
/// JSON-RPC code of a turn whose model fails.
const MODEL_FAILED: i64 = -32603;

impl AcpOutput {
    pub(super) fn model_turn(&mut self) -> TurnResult {
        let Some(address) = model_client::address() else {
            return self.text("No model is configured.");
        };
        let messages = self.conversation();
        let text = self.ask_until_done(&address, messages, true)?;
        match text.is_empty() {
            true => self.text("The model sent an empty answer."),
            false => Ok(()),
        }
    }

    /// Asks the model until it calls no more tools, and returns its last text. Only the main agent
    /// shows its text to the user.
    pub(super) fn ask_until_done(
        &mut self,
        address: &str,
        mut messages: Vec<Value>,
        is_main: bool,
    ) -> Result<String, TurnEnd> {
        for _ in 0..MAX_REQUESTS {
            let mut body = json!({
                "model": "mock-model",
                "stream": true,
                "messages": messages,
                "tools": self.offered_tools(is_main),
            });
            self.server.peer.edit_model_request(&mut body);
            let mut on_event = |event: ModelEvent| match event {
                ModelEvent::Text(text) if is_main => self.text(text),
                ModelEvent::Thought(text) if is_main => self.thought(text),
                _ => self.mailbox.check_cancelled(),
            };
            let reply = match model_client::ask(address, &body, &mut on_event) {
                Ok(reply) => reply,
                Err(NoReply::TurnEnd(end)) => return Err(end),
                Err(NoReply::Failure(message)) => {
                    let code = MODEL_FAILED;
                    return Err(TurnEnd::Error { code, message });
                }
            };
            match reply.finish.as_str() {
                "length" => return Err(TurnEnd::Stop("max_tokens".to_owned())),
                "content_filter" => return Err(TurnEnd::Stop("refusal".to_owned())),
                _ if reply.calls.is_empty() => return Ok(reply.text),
                _ => {}
            }
            let calls: Vec<Value> = reply.calls.iter().map(|call| call.to_json()).collect();
            messages.push(json!({
                "role": "assistant",
                "content": reply.text,
                "tool_calls": calls,
            }));
            for call in &reply.calls {
                let result = self.run_tool(address, &call.name, &call.arguments())?;
                messages.push(json!({
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": result,
                }));
            }
        }
        Err(TurnEnd::Stop("max_turn_requests".to_owned()))
    }

    /// The instructions that the model gets before the conversation.
    pub(super) fn instructions(&self) -> Value {
        let text = format!("You are a mock agent. Working directory: {}", self.cwd);
        json!({ "role": "system", "content": text })
    }

    /// The conversation of the session so far, with the prompt of this turn.
    fn conversation(&self) -> Vec<Value> {
        let state = self.server.state();
        let session = state.sessions.get(&self.session);
        let history = session.map(|session| session.saved.history.clone());
        drop(state);
        let mut messages = vec![self.instructions()];
        let mut open = Value::Null;
        for update in history.unwrap_or_default() {
            let role = match update.get("sessionUpdate").and_then(Value::as_str) {
                Some("user_message_chunk") => "user",
                Some("agent_message_chunk") => "assistant",
                _ => continue,
            };
            let id = update.get("messageId").cloned().unwrap_or_default();
            let part = model_part(update.get("content").unwrap_or(&Value::Null));
            let last = messages.last_mut().filter(|_| id == open && !id.is_null());
            let parts = last.and_then(|last| last.get_mut("content"));
            match parts.and_then(Value::as_array_mut) {
                Some(parts) => parts.push(part),
                None => messages.push(json!({ "role": role, "content": [part] })),
            }
            open = id;
        }
        messages
    }
}

/// A content block of ACP as a part of a chat message.
fn model_part(block: &Value) -> Value {
    let word = |path: &str| {
        let text = block.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    match word("/type") {
        "image" => {
            let url = format!("data:{};base64,{}", word("/mimeType"), word("/data"));
            json!({ "type": "image_url", "image_url": { "url": url } })
        }
        "audio" => {
            let audio = json!({ "data": word("/data"), "format": "wav" });
            json!({ "type": "input_audio", "input_audio": audio })
        }
        "resource_link" => {
            let text = format!("{}: {}", word("/name"), word("/uri"));
            json!({ "type": "text", "text": text })
        }
        "resource" if block.pointer("/resource/blob").is_some() => {
            let file =
                json!({ "filename": word("/resource/uri"), "file_data": word("/resource/blob") });
            json!({ "type": "file", "file": file })
        }
        "resource" => {
            let text = format!("{}:\n{}", word("/resource/uri"), word("/resource/text"));
            json!({ "type": "text", "text": text })
        }
        _ => json!({ "type": "text", "text": word("/text") }),
    }
}
