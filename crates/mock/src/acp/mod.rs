//! The ACP mock: a conforming agent of protocol version 1 on stdio.
//!
//! The reading thread answers everything that takes no time. Each prompt turn has its own thread,
//! so that a cancellation can interrupt any wait.

pub(super) mod content;
mod methods;
mod model_client;
mod output;
mod servers;
mod shapes;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::AgentConfig;
use crate::mailbox::Mailbox;
use crate::rpc::{INVALID_REQUEST, Incoming, RpcError, RpcPeer, RpcResult, TurnSignal};
use crate::scenario::Scenario;
use crate::store::{SessionStore, StoredSession, now};
use crate::turn::{TurnEnd, TurnRunner};
use output::AcpOutput;

pub const PROTOCOL: u64 = 1;
const AUTH_REQUIRED: i64 = -32000;
const NOT_FOUND: i64 = -32002;
const REQUEST_CANCELLED: i64 = -32800;

pub struct AcpServer {
    scenario: Scenario,
    args: Vec<String>,
    peer: RpcPeer,
    store: SessionStore,
    state: Mutex<State>,
    turn_over: Condvar,
}

#[derive(Default)]
struct State {
    /// Capabilities of the client, `None` before `initialize`.
    client: Option<ClientCapabilities>,
    authenticated: bool,
    sessions: HashMap<String, Session>,
    /// Sessions that are no longer running but can be loaded.
    closed: HashMap<String, StoredSession>,
}

/// Client capabilities. A missing capability is false.
#[derive(Clone, Copy, Default)]
struct ClientCapabilities {
    read: bool,
    write: bool,
    terminal: bool,
    auth_terminal: bool,
    boolean_options: bool,
    notices: bool,
    forms: bool,
    urls: bool,
    compaction: bool,
}

struct Session {
    saved: StoredSession,
    mode: Option<String>,
    config: HashMap<String, Value>,
    active: Option<RunningTurn>,
    /// MCP servers of the session. They stay open as long as the session.
    servers: Vec<Arc<servers::RunningServer>>,
}

/// The running turn of a session.
struct RunningTurn {
    request: Value,
    sender: Sender<TurnSignal>,
    /// Whether the turn never answers, so that waiting for it is pointless.
    hanging: bool,
}

pub fn run(config: AgentConfig, peer: RpcPeer) -> io::Result<()> {
    let server = Arc::new(AcpServer {
        scenario: config.scenario,
        args: config.args,
        peer,
        store: SessionStore::new(config.state),
        state: Mutex::new(State::default()),
        turn_over: Condvar::new(),
    });
    server.peer.serve(|incoming| server.handle(incoming))
}

impl AcpServer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn handle(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request { id, method, params } => self.request(&id, &method, &params),
            Incoming::Notification { method, params } => match method.as_str() {
                "session/cancel" => self.cancel(&params, TurnSignal::Cancel),
                "$/cancel_request" => self.cancel_request(&params),
                _ => {}
            },
            Incoming::Response { id, outcome } => self.peer.handle_response(&id, outcome),
            Incoming::Invalid { .. } => {}
        }
    }

    fn request(self: &Arc<Self>, id: &Value, method: &str, params: &Value) {
        if let Err(error) = self.check_supported(method) {
            return self.peer.respond(id, Err(error));
        }
        match method {
            "session/prompt" => {
                if let Err(error) = self.prompt(id, params) {
                    self.peer.respond(id, Err(error));
                }
            }
            // Run this in its own thread: it waits for the turn, and the turn may wait for a
            // response that must still be read.
            "session/close" => {
                let (server, id, params) = (Arc::clone(self), id.clone(), params.clone());
                std::thread::spawn(move || {
                    let answer = server.close(&params);
                    server.peer.respond(&id, answer);
                });
            }
            "session/new" => self.respond_opened(id, self.new_session(params)),
            "session/load" => self.respond_opened(id, self.load(params)),
            "session/resume" => self.respond_opened(id, self.resume(params)),
            _ => {
                let answer = self.simple(method, params);
                self.peer.respond(id, answer);
            }
        }
    }

    /// Answers, and then sends the commands of the new session.
    fn respond_opened(&self, id: &Value, answer: Result<(String, Value), RpcError>) {
        match answer {
            Ok((session, result)) => {
                self.peer.respond(id, Ok(result));
                if !self.scenario.commands.is_empty() {
                    self.update(&session, shapes::commands(&self.scenario.commands));
                }
            }
            Err(error) => self.peer.respond(id, Err(error)),
        }
    }

    fn update(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.peer.notify("session/update", params);
    }

    /// Starts a turn, or returns why it cannot start.
    fn prompt(self: &Arc<Self>, request: &Value, params: &Value) -> Result<(), RpcError> {
        let prompt = content::prompt(params, &self.scenario.capabilities)?;
        let mailbox = Mailbox::new();
        let mut state = self.state();
        let client = state.client.unwrap_or_default();
        let session = methods::session(&mut state, params)?;
        if session.active.is_some() {
            return Err(RpcError::new(
                INVALID_REQUEST,
                "a turn is already running in this session",
            ));
        }
        session.active = Some(RunningTurn {
            request: request.clone(),
            sender: mailbox.sender(),
            hanging: false,
        });
        let servers = session.servers.clone();
        let saved = &mut session.saved;
        saved.turns += 1;
        saved.updated_at = now();
        if saved.title.is_none() {
            saved.title = Some(prompt.text.chars().take(60).collect());
        }
        let mut words = vec![
            ("prompt".to_owned(), prompt.text.clone()),
            ("session".to_owned(), saved.id.clone()),
            ("cwd".to_owned(), saved.cwd.clone()),
            ("turn".to_owned(), saved.turns.to_string()),
            ("previous".to_owned(), saved.prompts.join(" | ")),
            ("mode".to_owned(), session.mode.clone().unwrap_or_default()),
        ];
        for (option, value) in &session.config {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            words.push((format!("config.{option}"), value));
        }
        saved.prompts.push(prompt.text.clone());
        saved.history.extend(prompt.history);
        let output = AcpOutput::new(Arc::clone(self), client, mailbox, saved, servers, request);
        drop(state);
        let server = Arc::clone(self);
        std::thread::spawn(move || server.turn(output, &prompt.text, words));
        Ok(())
    }

    fn turn(&self, mut output: AcpOutput, prompt: &str, mut words: Vec<(String, String)>) {
        let end = match self.scenario.turn(prompt) {
            None => Ok(()),
            Some((turn, groups)) => {
                words.extend(groups);
                let mut runner = TurnRunner {
                    output: &mut output,
                    words,
                    args: &self.args,
                };
                runner.run(&turn.steps)
            }
        };
        if !matches!(end, Err(TurnEnd::NoResponse)) {
            output.complete_pages();
        }
        let mut answer = match end {
            Ok(()) => Ok(json!({ "stopReason": "end_turn" })),
            Err(TurnEnd::Stop(reason)) => Ok(json!({ "stopReason": reason })),
            Err(TurnEnd::Cancelled) => Ok(json!({ "stopReason": "cancelled" })),
            Err(TurnEnd::RequestCancelled) => {
                Err(RpcError::new(REQUEST_CANCELLED, "the request was canceled"))
            }
            Err(TurnEnd::Error { code, message }) => Err(RpcError::new(code, message)),
            Err(TurnEnd::NoResponse) => return,
        };
        if let (Ok(Value::Object(answer)), Some(usage)) = (&mut answer, &output.usage) {
            let (name, usage) = shapes::turn_usage(usage);
            answer.insert(name.to_owned(), usage);
        }
        // Free the session before the response is visible, and hold the lock so that it is not seen
        // free without a response.
        let mut state = self.state();
        if let Some(session) = state.sessions.get_mut(&output.session) {
            session.active = None;
            session.saved.updated_at = now();
            session.saved.history.append(&mut output.history);
            self.store.save(&session.saved);
        }
        self.peer.respond(&output.request, answer);
        drop(state);
        self.turn_over.notify_all();
    }

    fn cancel(&self, params: &Value, signal: TurnSignal) {
        let id = params.get("sessionId").and_then(Value::as_str);
        let state = self.state();
        let session = id.and_then(|id| state.sessions.get(id));
        if let Some(active) = session.and_then(|session| session.active.as_ref()) {
            let _ = active.sender.send(signal);
        }
    }

    fn cancel_request(&self, params: &Value) {
        let Some(request) = params.get("requestId") else {
            return;
        };
        let state = self.state();
        let turns = state.sessions.values().filter_map(|s| s.active.as_ref());
        for active in turns.filter(|active| active.request == *request) {
            let _ = active.sender.send(TurnSignal::CancelRequest);
        }
    }

    fn close(&self, params: &Value) -> RpcResult {
        let mut state = self.state();
        let id = methods::session(&mut state, params)?.saved.id.clone();
        let mut state = self.cancel_turn_and_wait(state, &id);
        if let Some(session) = state.sessions.get_mut(&id) {
            session.active = None;
            self.store.save(&session.saved);
        }
        // Keep it for `session/load`, `session/resume` and `session/list`. Other agents keep
        // sessions on disk.
        if let Some(session) = state.sessions.remove(&id) {
            state.closed.insert(id, session.saved);
        }
        Ok(json!({}))
    }

    /// Cancels the turn of a session and waits until it is answered. Does not wait for a turn that
    /// hangs.
    fn cancel_turn_and_wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        id: &str,
    ) -> MutexGuard<'s, State> {
        let active = |state: &State| {
            let session = state.sessions.get(id);
            let turn = session.and_then(|session| session.active.as_ref());
            turn.is_some_and(|turn| !turn.hanging)
        };
        if let Some(turn) = state.sessions.get(id).and_then(|s| s.active.as_ref()) {
            let _ = turn.sender.send(TurnSignal::Cancel);
        }
        while active(&state) {
            self.turn_over.wait(&mut state);
        }
        state
    }
}
