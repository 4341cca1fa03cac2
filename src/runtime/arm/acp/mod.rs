//! The ACP arm: the protocol library speaks, over a wire that passes through our hands.

mod files;
mod services;
mod tap;
mod terminals;
mod updates;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthenticateRequest, CancelNotification, ClientCapabilities, CloseSessionRequest,
    ContentBlock, FileSystemCapabilities, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, LoadSessionRequest, NewSessionRequest, PromptRequest,
    ResumeSessionRequest, SessionConfigOption, SessionModeState, SetSessionConfigOptionRequest,
    SetSessionModeRequest, StopReason as Stop, TextContent,
};
use agent_client_protocol::{Agent, Client, Error, Lines as LineTransport};
use futures::SinkExt;
use futures::channel::mpsc;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use self::services::Services;
use self::tap::{Over, Shared};
use super::desk::Desk;
use super::process::{Process, Spawned};
use super::{Arm, Doing, Events, Negotiated, Open, Spec};
use crate::runtime::context::Context;
use crate::runtime::event::StopReason;
use crate::runtime::fault::{Code, Fault};
use crate::runtime::spawn::{Bounds, Exit};

/// A cancelled turn is over by then, whatever the agent does (it has to end it itself: PT-11).
const AFTER_CANCEL: Duration = Duration::from_millis(900);
/// From the end of the agent's output to the library's last word about it.
const LAST_WORD: Duration = Duration::from_millis(250);
/// Closing a session is a courtesy; the process ends anyway.
const CLOSING: Duration = Duration::from_secs(2);

/// The protocol's code for a missing login.
const AUTH_REQUIRED: i32 = -32000;

/// What the caller chose that is set over the wire rather than by argv or environment.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    pub mode: Option<String>,
    pub options: Vec<(String, Value)>,
}

pub struct Acp {
    context: Arc<Context>,
    spec: Spec,
    desk: Desk,
    wishes: Wishes,
    live: Mutex<Option<Arc<Live>>>,
}

/// A connected agent.
struct Live {
    process: Process,
    agent: ConnectionTo<Agent>,
    shared: Arc<Shared>,
    services: Arc<Services>,
    /// The working directory as the agent sees it.
    cwd: PathBuf,
    initialized: Mutex<Option<InitializeResponse>>,
    session: Mutex<Option<String>>,
    /// Counts the cancellations that were asked for.
    cancels: watch::Sender<u64>,
    /// A cancelled turn that the agent has not ended yet.
    stale: Mutex<Option<JoinHandle<()>>>,
    hang_up: Mutex<Option<oneshot::Sender<()>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Acp {
    pub fn new(context: Arc<Context>, spec: Spec, desk: Desk, wishes: Wishes) -> Self {
        Acp {
            context,
            spec,
            desk,
            wishes,
            live: Mutex::new(None),
        }
    }

    fn live(&self) -> Result<Arc<Live>, Fault> {
        let live = locked(&self.live).clone();
        live.ok_or_else(|| Fault::new(Code::SessionClosed, "the agent is not running"))
    }

    async fn connect(&self) -> Result<Arc<Live>, Fault> {
        let Spawned {
            process,
            wire,
            cwd,
            policy,
        } = Process::start(Arc::clone(&self.context), &self.spec, Bounds::default()).await?;
        let shared = Shared::new(Arc::clone(&self.context.observer));
        let services = Arc::new(Services::new(
            Arc::clone(&self.context),
            policy,
            cwd.clone(),
        ));
        let (onward, incoming) = mpsc::unbounded();
        let (outgoing, lines) = mpsc::unbounded::<String>();
        let reading = tokio::spawn(tap::read(wire.stdout, Arc::clone(&shared), onward));
        let writing = tokio::spawn(tap::write(wire.stdin, lines));
        let transport = LineTransport::new(
            outgoing.sink_map_err(|_| std::io::Error::from(std::io::ErrorKind::BrokenPipe)),
            incoming,
        );
        let (give, agent) = oneshot::channel();
        let (hang_up, hung_up) = oneshot::channel();
        let serving = services::serve(
            Client.v1().name("agentproto"),
            Arc::clone(&services),
            self.desk.clone(),
            Arc::clone(&shared),
        );
        let connection = tokio::spawn(async move {
            let _ = serving
                .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
                    let _ = give.send(agent);
                    let _ = hung_up.await;
                    Ok(())
                })
                .await;
        });
        let agent = agent.await.map_err(|_| {
            Fault::new(
                Code::SpawnFailed,
                "the connection to the agent broke at once",
            )
        })?;
        let live = Arc::new(Live {
            process,
            agent,
            shared,
            services,
            cwd,
            initialized: Mutex::new(None),
            session: Mutex::new(None),
            cancels: watch::channel(0).0,
            stale: Mutex::new(None),
            hang_up: Mutex::new(Some(hang_up)),
            tasks: Mutex::new(vec![connection, writing, reading]),
        });
        *locked(&self.live) = Some(Arc::clone(&live));
        Ok(live)
    }

    async fn handshake(&self) -> Result<Negotiated, Fault> {
        let live = self.connect().await?;
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(
                ClientCapabilities::new()
                    .fs(FileSystemCapabilities::new()
                        .read_text_file(true)
                        .write_text_file(true))
                    .terminal(true),
            )
            .client_info(Implementation::new("agentproto", env!("CARGO_PKG_VERSION")));
        let answer = live.ask(request, "in the handshake").await?;
        if answer.protocol_version != ProtocolVersion::V1 {
            let theirs = serde_json::to_string(&answer.protocol_version).unwrap_or_default();
            return Err(Fault::new(
                Code::ProtocolViolation,
                format!("the agent speaks ACP version {theirs}, this runner version 1 (ACP, initialization)"),
            )
            .hint("update the agent, or `agentproto`"));
        }
        let capabilities = &answer.agent_capabilities;
        let negotiated = Negotiated {
            name: answer.agent_info.as_ref().map(|info| info.name.clone()),
            version: answer.agent_info.as_ref().map(|info| info.version.clone()),
            resumable: Some(
                capabilities.load_session || capabilities.session_capabilities.resume.is_some(),
            ),
            multimodal: Some(
                capabilities.prompt_capabilities.image || capabilities.prompt_capabilities.audio,
            ),
        };
        *locked(&live.initialized) = Some(answer);
        Ok(negotiated)
    }

    async fn open(&self, open: &Open) -> Result<String, Fault> {
        let live = self.live()?;
        let opened = match live.open(open).await {
            Err(Refused::Authenticate) => {
                live.authenticate(&self.context).await?;
                match live.open(open).await {
                    Err(Refused::Authenticate) => {
                        return Err(live.auth_required(&self.context, None));
                    }
                    other => other,
                }
            }
            other => other,
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(Refused::Fault(fault)) => return Err(fault),
            Err(Refused::Authenticate) => return Err(live.auth_required(&self.context, None)),
        };
        *locked(&live.session) = Some(opened.id.clone());
        self.choose(&live, &opened).await?;
        Ok(opened.id)
    }

    /// Modes and options of the manifest that patch nothing are the agent's own.
    async fn choose(&self, live: &Live, opened: &Opened) -> Result<(), Fault> {
        let warn = |what: String| {
            self.context
                .observer
                .warning("choice_without_effect", &what)
        };
        if let Some(mode) = &self.wishes.mode {
            let modes = opened.modes.iter().flat_map(|m| &m.available_modes);
            if modes.into_iter().any(|m| *m.id.0 == **mode) {
                let request = SetSessionModeRequest::new(opened.id.clone(), mode.clone());
                live.ask(request, "when its mode was set").await?;
            } else {
                warn(format!(
                    "the mode `{mode}` patches nothing, and the agent offers none of that name"
                ));
            }
        }
        for (id, value) in &self.wishes.options {
            let Some(option) = opened.options.iter().find(|o| *o.id.0 == **id) else {
                warn(format!(
                    "the option `{id}` patches nothing, and the agent offers none of that name"
                ));
                continue;
            };
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let config = option.id.clone();
            let request = match value {
                Value::Bool(value) => {
                    SetSessionConfigOptionRequest::new(opened.id.clone(), config, *value)
                }
                _ => SetSessionConfigOptionRequest::new(opened.id.clone(), config, text.as_str()),
            };
            live.ask(request, "when an option was set").await?;
        }
        Ok(())
    }

    async fn turn(&self, message: &str, events: Events) -> Result<StopReason, Fault> {
        let live = self.live()?;
        let session = locked(&live.session).clone();
        let session =
            session.ok_or_else(|| Fault::new(Code::SessionClosed, "there is no open session"))?;
        if locked(&live.stale)
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            return Err(Fault::new(
                Code::SessionBusy,
                "the agent has not ended the turn that was cancelled before (ACP, prompt turn)",
            )
            .hint("wait, or start a new session"));
        }
        live.shared.begin_turn(&session, events);
        let ended = live.turn(&session, message).await;
        live.shared.end_turn();
        self.desk.cancel_all();
        ended
    }

    async fn close(&self) -> Result<(), Fault> {
        let live = self.live()?;
        let session = locked(&live.session).take();
        let offered = locked(&live.initialized)
            .as_ref()
            .is_some_and(|i| i.agent_capabilities.session_capabilities.close.is_some());
        if let (Some(session), true) = (session, offered) {
            let closing = live.ask(CloseSessionRequest::new(session), "when it was closed");
            let _ = tokio::time::timeout(CLOSING, closing).await;
        }
        Ok(())
    }

    async fn stop(&self) -> Option<Exit> {
        let live = locked(&self.live).take()?;
        self.desk.cancel_all();
        live.services.close().await;
        if let Some(hang_up) = locked(&live.hang_up).take() {
            let _ = hang_up.send(());
        }
        // The library lets go of the agent's input, which then ends.
        let tasks = std::mem::take(&mut *locked(&live.tasks));
        let mut tasks = tasks.into_iter();
        for task in tasks.by_ref().take(2) {
            let abort = task.abort_handle();
            if tokio::time::timeout(LAST_WORD, task).await.is_err() {
                abort.abort();
            }
        }
        let exit = live.process.stop().await;
        tasks.for_each(|task| task.abort());
        Some(exit)
    }
}

/// A session that was opened, with what it offers.
struct Opened {
    id: String,
    modes: Option<SessionModeState>,
    options: Vec<SessionConfigOption>,
}

enum Refused {
    Authenticate,
    Fault(Fault),
}

impl Live {
    /// Sends a request and waits for its answer, or for the end of the agent.
    async fn ask<R>(&self, request: R, doing: &str) -> Result<R::Response, Fault>
    where
        R: agent_client_protocol::JsonRpcRequest,
        R::Response: Send,
    {
        match self.request(request).await {
            Ok(answer) => Ok(answer),
            Err(None) => Err(self.ended(doing).await),
            Err(Some(error)) => Err(failed(&error, doing)),
        }
    }

    /// `Err(None)`: the agent has ended.
    async fn request<R>(&self, request: R) -> Result<R::Response, Option<Error>>
    where
        R: agent_client_protocol::JsonRpcRequest,
        R::Response: Send,
    {
        let answer = self.agent.send_request(request).block_task();
        tokio::pin!(answer);
        let result = tokio::select! {
            result = &mut answer => Some(result),
            _ = self.shared.over() => tokio::time::timeout(LAST_WORD, answer).await.ok(),
        };
        match result {
            Some(Ok(answer)) => Ok(answer),
            // The library invents an error for what the agent will never answer.
            Some(Err(_)) | None if self.agent.is_incoming_closed() => Err(None),
            Some(Err(error)) => Err(Some(error)),
            None => Err(None),
        }
    }

    async fn ended(&self, doing: &str) -> Fault {
        match self.shared.over().await {
            Over::Broken(fault) => fault,
            Over::Ended => {
                let fault = self.process.lost(doing).await;
                match self.shared.first_odd() {
                    Some(odd) => {
                        let message = format!("{}; on standard output stood: {odd}", fault.message);
                        Fault { message, ..fault }
                    }
                    None => fault,
                }
            }
        }
    }

    async fn open(&self, open: &Open) -> Result<Opened, Refused> {
        let cwd = self.cwd.clone();
        let refused = |error: Option<Error>, doing: &'static str| async move {
            match error {
                Some(error) if i32::from(error.code) == AUTH_REQUIRED => Refused::Authenticate,
                Some(error) => Refused::Fault(failed(&error, doing)),
                None => Refused::Fault(self.ended(doing).await),
            }
        };
        let Some(id) = &open.resume else {
            return match self.request(NewSessionRequest::new(cwd)).await {
                Ok(new) => Ok(Opened {
                    id: new.session_id.to_string(),
                    modes: new.modes,
                    options: new.config_options.unwrap_or_default(),
                }),
                Err(error) => Err(refused(error, "when a session was opened").await),
            };
        };
        let doing = "when a session was taken up again";
        let capabilities = locked(&self.initialized)
            .as_ref()
            .map(|i| i.agent_capabilities.clone());
        let capabilities = capabilities.unwrap_or_default();
        // Resume does not repeat the conversation; load does, and we drop it.
        if capabilities.session_capabilities.resume.is_some() {
            match self
                .request(ResumeSessionRequest::new(id.clone(), cwd))
                .await
            {
                Ok(resumed) => Ok(Opened {
                    id: id.clone(),
                    modes: resumed.modes,
                    options: resumed.config_options.unwrap_or_default(),
                }),
                Err(error) => Err(unknown(refused(error, doing).await, id)),
            }
        } else if capabilities.load_session {
            match self.request(LoadSessionRequest::new(id.clone(), cwd)).await {
                Ok(loaded) => Ok(Opened {
                    id: id.clone(),
                    modes: loaded.modes,
                    options: loaded.config_options.unwrap_or_default(),
                }),
                Err(error) => Err(unknown(refused(error, doing).await, id)),
            }
        } else {
            Err(Refused::Fault(Fault::new(
                Code::CapabilityMismatch,
                "the agent offers neither session/resume nor session/load, so no session can be taken up again",
            )))
        }
    }

    /// The agent's own methods in the order that it lists them; never one that wants a
    /// terminal.
    async fn authenticate(&self, context: &Context) -> Result<(), Fault> {
        let methods = locked(&self.initialized)
            .as_ref()
            .map(|i| i.auth_methods.clone());
        let mut last = None;
        for method in methods.unwrap_or_default() {
            let AuthMethod::Agent(method) = method else {
                continue;
            };
            match self
                .request(AuthenticateRequest::new(method.id.clone()))
                .await
            {
                Ok(_) => {
                    context
                        .audit
                        .record("auth.acp", json!({ "method": method.id.to_string() }))?;
                    return Ok(());
                }
                Err(Some(error)) => last = Some(error),
                Err(None) => return Err(self.ended("when it was asked to authenticate").await),
            }
        }
        Err(self.auth_required(context, last))
    }

    fn auth_required(&self, context: &Context, error: Option<Error>) -> Fault {
        let said = error.map_or(String::new(), |e| format!(": {}", e.message));
        let login = context
            .bundle
            .common()
            .auth()
            .and_then(|a| a.login()?.cmd());
        let hint = match login {
            Some(cmd) => format!("log in with `{cmd}`, or `agentproto auth login`"),
            None => "give the agent its credentials (`auth.state.env` in the manifest), or log in with its own command".to_owned(),
        };
        Fault::new(
            Code::AuthRequired,
            format!(
                "the agent wants a login before it opens a session{said} (ACP, authentication)"
            ),
        )
        .hint(hint)
    }

    async fn turn(&self, session: &str, message: &str) -> Result<StopReason, Fault> {
        let prompt = vec![ContentBlock::Text(TextContent::new(message))];
        let answer = self
            .agent
            .send_request(PromptRequest::new(session.to_owned(), prompt))
            .block_task();
        let mut answer = Box::pin(answer);
        let mut cancels = self.cancels.subscribe();
        let cancelled = async {
            if cancels.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(AFTER_CANCEL).await;
        };
        let answered = tokio::select! {
            biased;
            answered = &mut answer => Some(answered),
            _ = self.shared.over() => tokio::time::timeout(LAST_WORD, answer).await.ok(),
            () = cancelled => {
                *locked(&self.stale) = Some(tokio::spawn(async move {
                    let _ = answer.await;
                }));
                return Ok(StopReason::Cancelled);
            }
        };
        match answered {
            Some(Ok(answer)) => Ok(match answer.stop_reason {
                Stop::MaxTokens => StopReason::MaxTokens,
                Stop::MaxTurnRequests => StopReason::MaxTurnRequests,
                Stop::Refusal => StopReason::Refusal,
                Stop::Cancelled => StopReason::Cancelled,
                _ => StopReason::EndTurn,
            }),
            Some(Err(_)) | None if self.agent.is_incoming_closed() => {
                Err(self.ended("in the turn").await)
            }
            Some(Err(error)) => Err(failed(&error, "in the turn")),
            None => Err(self.ended("in the turn").await),
        }
    }
}

/// An agent that refuses an id does not know it.
fn unknown(refused: Refused, id: &str) -> Refused {
    match refused {
        Refused::Fault(fault) if fault.code == Code::TurnFailed => Refused::Fault(Fault {
            code: Code::SessionUnknown,
            message: format!(
                "the session `{id}` cannot be taken up again: {}",
                fault.message
            ),
            ..fault
        }),
        other => other,
    }
}

/// An error that the agent sent.
fn failed(error: &Error, doing: &str) -> Fault {
    let number = i32::from(error.code);
    let code = match number {
        AUTH_REQUIRED => Code::AuthRequired,
        _ => Code::TurnFailed,
    };
    Fault::new(
        code,
        format!(
            "the agent answered with error {number} {doing}: {}",
            error.message
        ),
    )
    .details(json!({ "code": number, "data": error.data }))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arm for Acp {
    fn handshake(&self) -> Doing<'_, Negotiated> {
        Box::pin(self.handshake())
    }

    fn open<'a>(&'a self, open: &'a Open) -> Doing<'a, String> {
        Box::pin(self.open(open))
    }

    fn turn<'a>(&'a self, message: &'a str, events: Events) -> Doing<'a, StopReason> {
        Box::pin(self.turn(message, events))
    }

    fn cancel(&self) -> Doing<'_, ()> {
        Box::pin(async {
            let live = self.live()?;
            let session = locked(&live.session).clone();
            self.desk.cancel_all();
            if let Some(session) = session {
                let _ = live
                    .agent
                    .send_notification(CancelNotification::new(session));
            }
            live.cancels.send_modify(|count| *count += 1);
            Ok(())
        })
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(self.close())
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(self.stop())
    }

    fn last_words(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async {
            let live = self.live().ok()?;
            let odd = live.shared.first_odd();
            let errors = live.process.last_words().await;
            match (odd, errors.is_empty()) {
                (Some(odd), _) => Some(format!("on standard output stood: {odd}")),
                (None, false) => Some(format!("its last words: {errors}")),
                (None, true) => None,
            }
        })
    }

    fn list(&self) -> Doing<'_, Value> {
        Box::pin(async {
            let live = self.live()?;
            let offered = locked(&live.initialized)
                .as_ref()
                .is_some_and(|i| i.agent_capabilities.session_capabilities.list.is_some());
            if !offered {
                return Err(Fault::new(
                    Code::CapabilityMismatch,
                    "the agent does not list its sessions",
                ));
            }
            let listed = live
                .ask(ListSessionsRequest::new(), "when its sessions were listed")
                .await?;
            Ok(serde_json::to_value(listed.sessions).unwrap_or_default())
        })
    }
}
