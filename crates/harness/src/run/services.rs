//! Services of the harness as a client: permissions, files, terminals, forms. It answers like a
//! real client, unless the case says otherwise.

mod files;
mod forms;
mod terminals;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::suite::{Behavior, ClientBehavior};
use terminals::Terminals;

pub type Reply = Result<Value, (i64, String)>;

pub struct ClientServices {
    pub answers: ClientBehavior,
    /// Files are read and written only below this directory.
    root: PathBuf,
    terminals: Terminals,
    /// Requests that the case will answer, with their methods.
    held: Vec<(Value, String)>,
    /// Requests received so far: method by id.
    seen: HashMap<String, String>,
}

impl ClientServices {
    pub fn new(
        answers: ClientBehavior,
        root: &Path,
        sender: UnboundedSender<Value>,
        env: Vec<(OsString, OsString)>,
    ) -> ClientServices {
        ClientServices {
            answers,
            root: root.to_owned(),
            terminals: Terminals::new(sender, env),
            held: Vec::new(),
            seen: HashMap::new(),
        }
    }

    /// Handles a request of the agent. Returns the response, unless it is sent later.
    pub fn handle_request(&mut self, id: &Value, method: &str, message: &Value) -> Option<Value> {
        self.seen.insert(id.to_string(), method.to_owned());
        let params = message.get("params").unwrap_or(&Value::Null);
        let answer = match method {
            "session/request_permission" => self.answers.permission,
            "fs/read_text_file" | "fs/write_text_file" => self.answers.fs,
            "elicitation/create" => self.answers.elicitation,
            "terminal/wait_for_exit" if self.answers.terminal_exit != Behavior::Serve => {
                self.answers.terminal_exit
            }
            method if method.starts_with("terminal/") => self.answers.terminal,
            _ => Behavior::Serve,
        };
        let reply = match (answer, method) {
            (Behavior::Hold, _) => {
                self.held.push((id.clone(), method.to_owned()));
                return None;
            }
            (Behavior::Error(code), _) => Err((code, "the client cannot do this now".to_owned())),
            (answer, "session/request_permission") => permission(answer, params),
            (answer, "elicitation/create") => forms::answer(answer, params),
            (Behavior::Refuse | Behavior::Cancel, _) => {
                Err((-32603, "the client refuses this request".to_owned()))
            }
            (_, "fs/read_text_file") => files::read(params, &self.root),
            (_, "fs/write_text_file") => files::write(params, &self.root),
            (_, "ping") => Ok(json!({})),
            (_, "roots/list") => Ok(json!({"roots": []})),
            (_, "sampling/createMessage") => Ok(json!({
                "role": "assistant",
                "content": {"type": "text", "text": "certified"},
                "model": "agentproto",
                "stopReason": "endTurn",
            })),
            (_, method) if method.starts_with("terminal/") => {
                let reply = self
                    .terminals
                    .handle_request(id, method, params, &self.root);
                return reply.map(|reply| envelope(id, reply));
            }
            _ => Err((
                -32601,
                format!("this client does not support the method `{method}`"),
            )),
        };
        Some(envelope(id, reply))
    }

    /// Answers everything that is held back with `cancelled`, as a client must after
    /// `session/cancel`.
    pub fn cancel_held(&mut self) -> Vec<Value> {
        let held = std::mem::take(&mut self.held);
        let answers = held.into_iter().map(|(id, method)| {
            let reply = match method.as_str() {
                "session/request_permission" => Ok(json!({"outcome": {"outcome": "cancelled"}})),
                "elicitation/create" => Ok(json!({"action": "cancel"})),
                _ => Err((-32603, "the user cancelled".to_owned())),
            };
            envelope(&id, reply)
        });
        answers.collect()
    }

    /// Whether the case still has to answer a request of the agent.
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn no_longer_held(&mut self, id: &Value) {
        self.held.retain(|(held, _)| held != id);
    }
}

pub fn envelope(id: &Value, reply: Reply) -> Value {
    match reply {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    }
}

/// Chooses an option according to `answer`.
fn permission(answer: Behavior, params: &Value) -> Reply {
    let cancelled = json!({"outcome": {"outcome": "cancelled"}});
    let wanted = match answer {
        Behavior::Serve => ["allow_once", "allow_always"],
        Behavior::Refuse => ["reject_once", "reject_always"],
        _ => return Ok(cancelled),
    };
    let options = params.get("options").and_then(Value::as_array);
    let options = options.map(Vec::as_slice).unwrap_or_default();
    let of = |kind: &str| {
        let fits = |o: &&Value| o.get("kind").and_then(Value::as_str) == Some(kind);
        options.iter().find(fits)
    };
    let chosen = wanted.iter().find_map(|kind| of(kind));
    // A monitor reports unknown kinds. The turn must continue anyway.
    let chosen = match answer {
        Behavior::Serve => chosen.or_else(|| options.first()),
        _ => chosen,
    };
    Ok(match chosen.and_then(|o| o.get("optionId")) {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => cancelled,
    })
}
