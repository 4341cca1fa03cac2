//! The MCP mock: a conforming server of the 2025-11-25 revision on stdio. It also supports older
//! revisions.
//!
//! It is an agent behind MCP: the tool `start` starts a conversation, and `reply` continues it.
//! Progress is reported in `mock/event` notifications, each with the id of its request. With the
//! argument `--no-events`, the text is sent in progress notifications instead.

mod output;
mod tools;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::AgentConfig;
use crate::mailbox::Mailbox;
use crate::rpc::{INVALID_REQUEST, Incoming, RpcError, RpcPeer, RpcResult, TurnSignal};
use crate::scenario::Scenario;
use crate::store::{SessionStore, StoredSession, fresh_id, now};
use crate::turn::{TurnEnd, TurnRunner};
use output::McpOutput;

/// Supported revisions, newest first.
pub const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Syslog levels, most severe first.
const LEVELS: [&str; 8] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
];

pub struct McpServer {
    scenario: Scenario,
    args: Vec<String>,
    peer: RpcPeer,
    store: SessionStore,
    events: bool,
    state: Mutex<State>,
}

struct State {
    /// Negotiated values, `None` before `initialize`.
    negotiated: Option<Negotiated>,
    /// Index of the least severe level that is sent.
    max_level: usize,
    conversations: HashMap<String, StoredSession>,
    /// Running calls with their request ids.
    calls: Vec<(Value, Sender<TurnSignal>)>,
}

#[derive(Clone, Copy)]
struct Negotiated {
    revision: &'static str,
    forms: bool,
}

pub fn run(config: AgentConfig, peer: RpcPeer) -> io::Result<()> {
    let server = Arc::new(McpServer {
        events: !config.args.iter().any(|arg| arg == "--no-events"),
        scenario: config.scenario,
        args: config.args,
        peer,
        store: SessionStore::new(config.state),
        state: Mutex::new(State {
            negotiated: None,
            max_level: LEVELS.len() - 2,
            conversations: HashMap::new(),
            calls: Vec::new(),
        }),
    });
    server.peer.serve(|incoming| server.handle(incoming))
}

impl McpServer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn handle(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request { id, method, params } => {
                let answer = match method.as_str() {
                    "tools/call" => match self.call(&id, &params) {
                        Ok(()) => return,
                        Err(error) => Err(error),
                    },
                    _ => self.simple(&method, &params),
                };
                self.peer.respond(&id, answer);
            }
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(request) = params.get("requestId")
                {
                    let state = self.state();
                    for (_, sender) in state.calls.iter().filter(|(id, _)| id == request) {
                        let _ = sender.send(TurnSignal::Cancel);
                    }
                }
            }
            Incoming::Response { id, outcome } => self.peer.handle_response(&id, outcome),
            Incoming::Invalid { .. } => {}
        }
    }

    /// The argument after a flag.
    fn argument(&self, flag: &str) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == flag)?;
        self.args.get(at + 1).map(String::as_str)
    }

    /// With `--record FILE`, records how this server was started, for the test that gave the server
    /// to an agent. Of the environment, it records only the variables named after `--record-env`.
    fn record(&self, params: &Value) {
        let Some(file) = self.argument("--record") else {
            return;
        };
        let names = self.argument("--record-env").unwrap_or_default();
        let env: serde_json::Map<String, Value> = names
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| (name.to_owned(), json!(std::env::var(name).ok())))
            .collect();
        let cwd = std::env::current_dir().ok();
        let record = json!({"args": self.args, "env": env, "cwd": cwd, "initialize": params});
        let temporary = format!("{file}.new");
        let written = std::fs::write(&temporary, record.to_string());
        if let Err(error) = written.and_then(|()| std::fs::rename(&temporary, file)) {
            eprintln!("mock: cannot record to {file}: {error}");
        }
    }

    fn check_initialized(&self) -> Result<Negotiated, RpcError> {
        let negotiated = self.state().negotiated;
        negotiated.ok_or_else(|| RpcError::new(INVALID_REQUEST, "`initialize` must be sent first"))
    }

    fn simple(&self, method: &str, params: &Value) -> RpcResult {
        match method {
            "initialize" => {
                self.record(params);
                self.initialize(params)
            }
            "ping" => Ok(json!({})),
            "tools/list" => {
                let negotiated = self.check_initialized()?;
                match params.get("cursor") {
                    None | Some(Value::Null) => {
                        let mut listed = tools::list(negotiated.revision);
                        if let Some(Value::Array(tools)) = listed.get_mut("tools")
                            && self.argument("--record").is_some()
                        {
                            tools.push(tools::canary());
                        }
                        Ok(listed)
                    }
                    Some(_) => Err(RpcError::params("unknown cursor")),
                }
            }
            "logging/setLevel" => {
                self.check_initialized()?;
                let level = params.get("level").and_then(Value::as_str);
                let index = LEVELS.iter().position(|known| Some(*known) == level);
                let index =
                    index.ok_or_else(|| RpcError::params("`level` must be a syslog level"))?;
                self.state().max_level = index;
                Ok(json!({}))
            }
            _ => Err(RpcError::unknown(method)),
        }
    }

    fn initialize(&self, params: &Value) -> RpcResult {
        let Some(requested) = params.get("protocolVersion").and_then(Value::as_str) else {
            return Err(RpcError::params("`protocolVersion` must be a string"));
        };
        let Some(offers) = params.get("capabilities").filter(|c| c.is_object()) else {
            return Err(RpcError::params("`capabilities` must be an object"));
        };
        let [newest, ..] = REVISIONS;
        let known = REVISIONS.into_iter().find(|known| *known == requested);
        let revision = known.unwrap_or(newest);
        // An empty object means forms, as in revisions before there were other modes.
        let forms = offers.get("elicitation").is_some_and(|offer| {
            offer.get("form").is_some() || offer.as_object().is_some_and(|map| map.is_empty())
        });
        self.state().negotiated = Some(Negotiated { revision, forms });
        Ok(json!({
            "protocolVersion": revision,
            "capabilities": { "tools": {}, "logging": {} },
            "serverInfo": {
                "name": self.scenario.agent.name,
                "title": self.scenario.agent.title,
                "version": self.scenario.agent.version,
            },
            "instructions": "Call `start` with a prompt, then `reply` with the session_id.",
        }))
    }

    /// Starts a turn. Invalid arguments are reported in the tool result, so that a model can
    /// correct them. An unknown tool is a protocol error.
    fn call(self: &Arc<Self>, request: &Value, params: &Value) -> Result<(), RpcError> {
        let negotiated = self.check_initialized()?;
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(RpcError::params("`name` must be a string"));
        };
        let no_arguments = json!({});
        let arguments = params.get("arguments").unwrap_or(&no_arguments);
        let word = |key: &str| arguments.get(key).and_then(Value::as_str);
        if name == tools::CANARY
            && let Some(server) = self.argument("--canary")
        {
            let text = format!("canary of {server}");
            let content = json!([{ "type": "text", "text": text }]);
            self.peer
                .respond(request, Ok(json!({ "content": content })));
            return Ok(());
        }
        let (prompt, mut saved) = match (name, word("prompt"), word("session_id")) {
            ("start", Some(prompt), _) => (prompt, self.new_conversation()),
            ("reply", Some(prompt), Some(session)) => match self.find_conversation(session) {
                Some(saved) => (prompt, saved),
                None => return self.respond_with_tool_error(request, "unknown session_id"),
            },
            ("start" | "reply", None, _) => {
                return self.respond_with_tool_error(request, "`prompt` is missing");
            }
            ("reply", ..) => {
                return self.respond_with_tool_error(request, "`session_id` is missing");
            }
            _ => {
                return Err(RpcError::params(format!("unknown tool `{name}`")));
            }
        };
        saved.turns += 1;
        let mut words = vec![
            ("prompt".to_owned(), prompt.to_owned()),
            ("session".to_owned(), saved.id.clone()),
            ("cwd".to_owned(), saved.cwd.clone()),
            ("turn".to_owned(), saved.turns.to_string()),
            ("previous".to_owned(), saved.prompts.join(" | ")),
        ];
        saved.prompts.push(prompt.to_owned());
        let mailbox = Mailbox::new();
        self.state().calls.push((request.clone(), mailbox.sender()));
        let token = params.pointer("/_meta/progressToken").cloned();
        let mut output = McpOutput::new(
            Arc::clone(self),
            negotiated,
            mailbox,
            request,
            token,
            &saved,
        );
        let (server, prompt) = (Arc::clone(self), prompt.to_owned());
        std::thread::spawn(move || {
            let end = match server.scenario.turn(&prompt) {
                None => Ok(()),
                Some((turn, groups)) => {
                    words.extend(groups);
                    let mut runner = TurnRunner {
                        output: &mut output,
                        words,
                        args: &server.args,
                    };
                    runner.run(&turn.steps)
                }
            };
            server.finish(&output, end, saved);
        });
        Ok(())
    }

    fn finish(&self, output: &McpOutput, end: Result<(), TurnEnd>, mut saved: StoredSession) {
        let reason = match &end {
            Ok(()) => "end_turn",
            Err(TurnEnd::Stop(reason)) => reason,
            _ => "cancelled",
        };
        // A canceled request gets no response.
        let answer = match &end {
            Ok(()) | Err(TurnEnd::Stop(_)) => {
                let mut result = tools::result(&output.full_text, &saved.id, reason);
                if let (Some(usage), Some(result)) = (&output.usage, result.as_object_mut()) {
                    result.insert("_meta".to_owned(), tools::usage(usage));
                }
                Some(Ok(result))
            }
            Err(TurnEnd::Error { code, message }) => {
                Some(Err(RpcError::new(*code, message.clone())))
            }
            Err(TurnEnd::Cancelled | TurnEnd::RequestCancelled | TurnEnd::NoResponse) => None,
        };
        saved.updated_at = now();
        self.store.save(&saved);
        let mut state = self.state();
        state.conversations.insert(saved.id.clone(), saved);
        state.calls.retain(|(id, _)| *id != output.request);
        if let Some(answer) = answer {
            self.peer.respond(&output.request, answer);
        }
    }

    fn new_conversation(&self) -> StoredSession {
        let cwd = std::env::current_dir().unwrap_or_default();
        StoredSession {
            id: fresh_id("mock"),
            cwd: cwd.to_string_lossy().into_owned(),
            ..StoredSession::default()
        }
    }

    fn find_conversation(&self, session: &str) -> Option<StoredSession> {
        let saved = self.state().conversations.get(session).cloned();
        saved.or_else(|| self.store.load(session))
    }

    fn respond_with_tool_error(&self, request: &Value, text: &str) -> Result<(), RpcError> {
        self.peer.respond(request, Ok(tools::error_result(text)));
        Ok(())
    }

    /// Sends a log message, unless the client set a more severe level.
    fn log(&self, level: &str, text: &str) {
        let index = LEVELS.iter().position(|known| *known == level);
        if index.is_some_and(|index| index <= self.state().max_level) {
            let params = json!({ "level": level, "logger": "mock", "data": text });
            self.peer.notify("notifications/message", params);
        }
    }
}
