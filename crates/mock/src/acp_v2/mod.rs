//! The mock of the draft of ACP version 2: a conforming agent on stdio.
//!
//! As in version 1, the reading thread answers, and work runs in its own thread. A prompt is
//! answered when its message is part of the conversation. State updates report the progress of the
//! work.

mod methods;
mod output;
mod shapes;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Value, json};

use crate::AgentConfig;
use crate::acp::content;
use crate::mailbox::Mailbox;
use crate::rpc::{INVALID_REQUEST, Incoming, RpcError, RpcPeer, TurnSignal};
use crate::scenario::Scenario;
use crate::store::{SessionStore, StoredSession, fresh_id, now};
use crate::turn::{TurnEnd, TurnRunner};
use output::DraftOutput;

pub const PROTOCOL: u64 = 2;
const AUTH_REQUIRED: i64 = -32000;
const NOT_FOUND: i64 = -32002;
const UNSUPPORTED_VERSION: i64 = -32022;

pub struct DraftServer {
    scenario: Scenario,
    args: Vec<String>,
    peer: RpcPeer,
    store: SessionStore,
    state: Mutex<State>,
    work_over: Condvar,
}

#[derive(Default)]
struct State {
    initialized: bool,
    authenticated: bool,
    sessions: HashMap<String, Session>,
    /// Sessions that are no longer running but can be resumed.
    closed: HashMap<String, StoredSession>,
}

struct Session {
    saved: StoredSession,
    config: HashMap<String, Value>,
    /// Channel to the running work.
    active: Option<Sender<TurnSignal>>,
    /// Whether the work never ends, so that waiting for it is pointless.
    hanging: bool,
}

pub fn run(config: AgentConfig, peer: RpcPeer) -> io::Result<()> {
    let server = Arc::new(DraftServer {
        scenario: config.scenario,
        args: config.args,
        peer,
        store: SessionStore::new(config.state),
        state: Mutex::new(State::default()),
        work_over: Condvar::new(),
    });
    server.peer.serve(|incoming| server.handle(incoming))
}

impl DraftServer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn handle(self: &Arc<Self>, incoming: Incoming) {
        match incoming {
            Incoming::Request { id, method, params } => {
                let answer = self
                    .check_supported(&method)
                    .and_then(|()| match method.as_str() {
                        "session/prompt" => self.prompt(&id, &params).map(|()| None),
                        _ => self.answer(&method, &params).map(Some),
                    });
                match answer {
                    Ok(Some(result)) => self.peer.respond(&id, Ok(result)),
                    Ok(None) => {}
                    Err(error) => self.peer.respond(&id, Err(error)),
                }
            }
            Incoming::Notification { method, params } if method == "session/cancel" => {
                let state = self.state();
                let id = params.get("sessionId").and_then(Value::as_str);
                let session = id.and_then(|id| state.sessions.get(id));
                if let Some(sender) = session.and_then(|session| session.active.as_ref()) {
                    let _ = sender.send(TurnSignal::Cancel);
                }
            }
            Incoming::Response { id, outcome } => self.peer.handle_response(&id, outcome),
            Incoming::Notification { .. } | Incoming::Invalid { .. } => {}
        }
    }

    fn update(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.peer.notify("session/update", params);
    }

    /// Adds the message to the conversation, answers, and starts to work.
    fn prompt(self: &Arc<Self>, request: &Value, params: &Value) -> Result<(), RpcError> {
        let prompt = content::prompt(params, &self.scenario.capabilities)?;
        let mailbox = Mailbox::new();
        let mut state = self.state();
        let session = methods::session(&mut state, params)?;
        if session.active.is_some() {
            let why = "the session is working on another prompt";
            return Err(RpcError::new(INVALID_REQUEST, why));
        }
        session.active = Some(mailbox.sender());
        let message = fresh_id("msg");
        let inserted = json!({
            "sessionUpdate": "user_message",
            "messageId": message,
            "content": params.get("prompt"),
        });
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
        ];
        for (option, value) in &session.config {
            let value = value.as_str().map_or(value.to_string(), str::to_owned);
            if option == shapes::MODE_OPTION {
                words.push(("mode".to_owned(), value.clone()));
            }
            words.push((format!("config.{option}"), value));
        }
        saved.prompts.push(prompt.text.clone());
        saved.history.push(inserted.clone());
        let output = DraftOutput::new(Arc::clone(self), mailbox, saved);
        drop(state);
        self.update(&output.session, inserted);
        self.peer
            .respond(request, Ok(json!({ "messageId": message })));
        let server = Arc::clone(self);
        std::thread::spawn(move || server.work(output, &prompt.text, words));
        Ok(())
    }

    fn work(&self, mut output: DraftOutput, prompt: &str, mut words: Vec<(String, String)>) {
        self.update(&output.session, shapes::state("running"));
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
        let mut idle = shapes::state("idle");
        let reason = match end {
            Ok(()) => "end_turn".to_owned(),
            Err(TurnEnd::Stop(reason)) => reason,
            Err(TurnEnd::Cancelled | TurnEnd::RequestCancelled) => {
                output.report_cancelled_calls();
                "cancelled".to_owned()
            }
            Err(TurnEnd::Error { code, message }) => {
                shapes::put(
                    &mut idle,
                    "error",
                    json!({ "code": code, "message": message }),
                );
                "error".to_owned()
            }
            Err(TurnEnd::NoResponse) => return,
        };
        shapes::put(&mut idle, "stopReason", json!(reason));
        // Free the session before that becomes visible.
        let mut state = self.state();
        if let Some(session) = state.sessions.get_mut(&output.session) {
            session.active = None;
            session.saved.updated_at = now();
            session.saved.history.append(&mut output.history);
            self.store.save(&session.saved);
        }
        self.update(&output.session, idle);
        drop(state);
        self.work_over.notify_all();
    }

    /// Cancels the work of a session and waits until that was reported. Does not wait for work that
    /// hangs.
    fn cancel_work_and_wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        id: &str,
    ) -> MutexGuard<'s, State> {
        let is_at_work = |state: &State| {
            let session = state.sessions.get(id);
            session.is_some_and(|session| session.active.is_some() && !session.hanging)
        };
        if let Some(sender) = state.sessions.get(id).and_then(|s| s.active.as_ref()) {
            let _ = sender.send(TurnSignal::Cancel);
        }
        while is_at_work(&state) {
            self.work_over.wait(&mut state);
        }
        state
    }
}
