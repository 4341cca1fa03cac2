//! The MCP mock: a conforming server of the 2025-11-25 revision on stdio. It also supports older
//! revisions.
//!
//! It is an agent behind MCP: the tool `start` starts a conversation, and `reply` continues it.
//! Progress is reported in `mock/event` notifications, each with the id of its request. With the
//! argument `--no-events`, the text is sent in progress notifications instead.

mod stage;
mod tools;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::Play;
use crate::mailbox::Mailbox;
use crate::rpc::{Answer, INVALID_REQUEST, Incoming, Peer, Refusal, Signal};
use crate::scenario::Scenario;
use crate::store::{Saved, Store, fresh_id, now};
use crate::turn::{End, Player};
use stage::McpStage;

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

pub struct Server {
    scenario: Scenario,
    args: Vec<String>,
    peer: Peer,
    store: Store,
    events: bool,
    state: Mutex<State>,
}

struct State {
    /// Negotiated values, `None` before `initialize`.
    agreed: Option<Agreed>,
    /// Index of the least severe level that is sent.
    loudest: usize,
    conversations: HashMap<String, Saved>,
    /// Running calls with their request ids.
    calls: Vec<(Value, Sender<Signal>)>,
}

#[derive(Clone, Copy)]
struct Agreed {
    revision: &'static str,
    forms: bool,
}

pub fn run(play: Play, peer: Peer) -> io::Result<()> {
    let server = Arc::new(Server {
        events: !play.args.iter().any(|arg| arg == "--no-events"),
        scenario: play.scenario,
        args: play.args,
        peer,
        store: Store::new(play.state),
        state: Mutex::new(State {
            agreed: None,
            loudest: LEVELS.len() - 2,
            conversations: HashMap::new(),
            calls: Vec::new(),
        }),
    });
    server.peer.serve(|incoming| server.handle(incoming))
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn handle(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request { id, method, params } => {
                let answer = match method.as_str() {
                    "tools/call" => match self.call(&id, &params) {
                        Ok(()) => return,
                        Err(refusal) => Err(refusal),
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
                    for (_, ear) in state.calls.iter().filter(|(id, _)| id == request) {
                        let _ = ear.send(Signal::Cancel);
                    }
                }
            }
            Incoming::Response { id, outcome } => self.peer.reply(&id, outcome),
            Incoming::Bad { .. } => {}
        }
    }

    /// With `--record FILE`, records how this server was started, for the test that gave the server
    /// to an agent. Of the environment, it records only the variables named after `--record-env`.
    fn record(&self, params: &Value) {
        let after = |flag: &str| {
            let at = self.args.iter().position(|arg| arg == flag)?;
            self.args.get(at + 1)
        };
        let Some(file) = after("--record") else {
            return;
        };
        let names = after("--record-env")
            .map(String::as_str)
            .unwrap_or_default();
        let env: serde_json::Map<String, Value> = names
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| (name.to_owned(), json!(std::env::var(name).ok())))
            .collect();
        let cwd = std::env::current_dir().ok();
        let record = json!({"args": self.args, "env": env, "cwd": cwd, "initialize": params});
        let beside = format!("{file}.new");
        let written = std::fs::write(&beside, record.to_string());
        if let Err(error) = written.and_then(|()| std::fs::rename(&beside, file)) {
            eprintln!("mock: cannot record to {file}: {error}");
        }
    }

    fn ready(&self) -> Result<Agreed, Refusal> {
        let agreed = self.state().agreed;
        agreed.ok_or_else(|| Refusal::new(INVALID_REQUEST, "`initialize` must be sent first"))
    }

    fn simple(&self, method: &str, params: &Value) -> Answer {
        match method {
            "initialize" => {
                self.record(params);
                self.initialize(params)
            }
            "ping" => Ok(json!({})),
            "tools/list" => {
                let agreed = self.ready()?;
                match params.get("cursor") {
                    None | Some(Value::Null) => Ok(tools::list(agreed.revision)),
                    Some(_) => Err(Refusal::params("unknown cursor")),
                }
            }
            "logging/setLevel" => {
                self.ready()?;
                let level = params.get("level").and_then(Value::as_str);
                let index = LEVELS.iter().position(|known| Some(*known) == level);
                let index =
                    index.ok_or_else(|| Refusal::params("`level` must be a syslog level"))?;
                self.state().loudest = index;
                Ok(json!({}))
            }
            _ => Err(Refusal::unknown(method)),
        }
    }

    fn initialize(&self, params: &Value) -> Answer {
        let Some(wanted) = params.get("protocolVersion").and_then(Value::as_str) else {
            return Err(Refusal::params("`protocolVersion` must be a string"));
        };
        let Some(offers) = params.get("capabilities").filter(|c| c.is_object()) else {
            return Err(Refusal::params("`capabilities` must be an object"));
        };
        let [newest, ..] = REVISIONS;
        let known = REVISIONS.into_iter().find(|known| *known == wanted);
        let revision = known.unwrap_or(newest);
        // An empty object means forms, as in revisions before there were other modes.
        let forms = offers.get("elicitation").is_some_and(|offer| {
            offer.get("form").is_some() || offer.as_object().is_some_and(|map| map.is_empty())
        });
        self.state().agreed = Some(Agreed { revision, forms });
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
    fn call(self: &Arc<Self>, request: &Value, params: &Value) -> Result<(), Refusal> {
        let agreed = self.ready()?;
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(Refusal::params("`name` must be a string"));
        };
        let no_arguments = json!({});
        let arguments = params.get("arguments").unwrap_or(&no_arguments);
        let word = |key: &str| arguments.get(key).and_then(Value::as_str);
        let (prompt, mut saved) = match (name, word("prompt"), word("session_id")) {
            ("start", Some(prompt), _) => (prompt, self.fresh()),
            ("reply", Some(prompt), Some(session)) => match self.known(session) {
                Some(saved) => (prompt, saved),
                None => return self.complain(request, "unknown session_id"),
            },
            ("start" | "reply", None, _) => return self.complain(request, "`prompt` is missing"),
            ("reply", ..) => return self.complain(request, "`session_id` is missing"),
            _ => {
                return Err(Refusal::params(format!("unknown tool `{name}`")));
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
        self.state().calls.push((request.clone(), mailbox.ear()));
        let token = params.pointer("/_meta/progressToken").cloned();
        let mut stage = McpStage::new(Arc::clone(self), agreed, mailbox, request, token, &saved);
        let (server, prompt) = (Arc::clone(self), prompt.to_owned());
        std::thread::spawn(move || {
            let end = match server.scenario.turn(&prompt) {
                None => Ok(()),
                Some((turn, groups)) => {
                    words.extend(groups);
                    let mut player = Player {
                        stage: &mut stage,
                        words,
                        args: &server.args,
                    };
                    player.play(&turn.steps)
                }
            };
            server.finish(&stage, end, saved);
        });
        Ok(())
    }

    fn finish(&self, stage: &McpStage, end: Result<(), End>, mut saved: Saved) {
        let reason = match &end {
            Ok(()) => "end_turn",
            Err(End::Stop(reason)) => reason,
            _ => "cancelled",
        };
        // A cancelled request gets no response.
        let answer = match &end {
            Ok(()) | Err(End::Stop(_)) => Some(Ok(tools::result(&stage.said, &saved.id, reason))),
            Err(End::Error { code, message }) => Some(Err(Refusal::new(*code, message.clone()))),
            Err(End::Cancelled | End::RequestCancelled | End::Silence) => None,
        };
        saved.updated_at = now();
        self.store.save(&saved);
        let mut state = self.state();
        state.conversations.insert(saved.id.clone(), saved);
        state.calls.retain(|(id, _)| *id != stage.request);
        if let Some(answer) = answer {
            self.peer.respond(&stage.request, answer);
        }
    }

    fn fresh(&self) -> Saved {
        let cwd = std::env::current_dir().unwrap_or_default();
        Saved {
            id: fresh_id("mock"),
            cwd: cwd.to_string_lossy().into_owned(),
            ..Saved::default()
        }
    }

    fn known(&self, session: &str) -> Option<Saved> {
        let saved = self.state().conversations.get(session).cloned();
        saved.or_else(|| self.store.load(session))
    }

    fn complain(&self, request: &Value, text: &str) -> Result<(), Refusal> {
        self.peer.respond(request, Ok(tools::mistake(text)));
        Ok(())
    }

    /// Sends a log message, unless the client set a more severe level.
    fn log(&self, level: &str, text: &str) {
        let index = LEVELS.iter().position(|known| *known == level);
        if index.is_some_and(|index| index <= self.state().loudest) {
            let params = json!({ "level": level, "logger": "mock", "data": text });
            self.peer.notify("notifications/message", params);
        }
    }
}
