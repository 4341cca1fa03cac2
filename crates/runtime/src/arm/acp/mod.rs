//! The ACP arm. It uses the protocol library over a wire that this module taps.

mod asked;
mod files;
mod live;
mod services;
mod tap;
mod terminals;
mod updates;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, CloseSessionRequest, FileSystemCapabilities, Implementation,
    InitializeRequest, ListSessionsRequest, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::{Agent, Client, Lines as LineTransport};
use futures::SinkExt;
use futures::channel::mpsc;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use self::live::{Live, Opened, Refused};
use self::services::Services;
use self::tap::Shared;
use super::desk::Desk;
use super::process::{Process, Spawned};
use super::slot::Cancel;
use super::{Arm, Doing, Events, LAST_WORD, Negotiated, Open, Spec};
use crate::context::Context;
use crate::event::StopReason;
use crate::fault::{Code, Fault};
use agentproto_sandbox::spawn::{Bounds, Exit};

/// Time limit for closing a session, which is optional: the process is ended anyway.
const CLOSING: Duration = Duration::from_secs(2);

/// Choices that are set over the protocol instead of argv or environment.
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
        let live = self.live.lock().clone();
        live.ok_or_else(|| Fault::new(Code::SessionClosed, "the agent is not running"))
    }

    async fn connect(&self) -> Result<Arc<Live>, Fault> {
        let Spawned {
            process,
            wire,
            cwd,
            policy,
        } = Process::start(Arc::clone(&self.context), &self.spec, Bounds::default()).await?;
        let shared = Shared::new(
            Arc::clone(&self.context.observer),
            self.context.masks.clone(),
        );
        let services = Arc::new(Services::new(
            Arc::clone(&self.context),
            policy,
            cwd.clone(),
        ));
        let (onward, incoming) = mpsc::unbounded();
        let (outgoing, lines) = mpsc::unbounded::<String>();
        let reading = tokio::spawn(tap::read(wire.stdout, Arc::clone(&shared), onward));
        let writing = tap::write(
            wire.stdin,
            lines,
            Arc::clone(&shared),
            Arc::clone(&services),
        );
        let writing = tokio::spawn(writing);
        let transport = LineTransport::new(
            outgoing
                .clone()
                .sink_map_err(|_| std::io::Error::from(std::io::ErrorKind::BrokenPipe)),
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
                "the connection to the agent closed immediately",
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
            wire: Mutex::new(Some(outgoing)),
            cancel: Cancel::default(),
            stale: Mutex::new(None),
            hang_up: Mutex::new(Some(hang_up)),
            tasks: Mutex::new(vec![connection, writing, reading]),
        });
        *self.live.lock() = Some(Arc::clone(&live));
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
        let answer = live.ask(request, "during the handshake").await?;
        if answer.protocol_version != ProtocolVersion::V1 {
            let theirs = serde_json::to_string(&answer.protocol_version).unwrap_or_default();
            return Err(Fault::new(
                Code::ProtocolViolation,
                format!("the agent uses ACP version {theirs}, but this runner supports version 1 (ACP, initialization)"),
            )
            .hint("update the agent or `agentproto`"));
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
        *live.initialized.lock() = Some(answer);
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
        *live.session.lock() = Some(opened.id.clone());
        self.choose(&live, &opened).await?;
        Ok(opened.id)
    }

    /// Sets modes and options that have no arguments or variables in the manifest. They are the
    /// agent's own.
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
                live.ask(request, "while setting its mode").await?;
            } else {
                warn(format!(
                    "the mode `{mode}` has no effect: it sets no arguments or variables, and the agent has no such mode"
                ));
            }
        }
        for (id, value) in &self.wishes.options {
            let Some(option) = opened.options.iter().find(|o| *o.id.0 == **id) else {
                warn(format!(
                    "the option `{id}` has no effect: it sets no arguments or variables, and the agent has no such option"
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
            live.ask(request, "while setting an option").await?;
        }
        Ok(())
    }

    async fn turn(&self, message: &str, events: Events) -> Result<StopReason, Fault> {
        let live = self.live()?;
        let session = live.session.lock().clone();
        let session =
            session.ok_or_else(|| Fault::new(Code::SessionClosed, "no session is open"))?;
        if live
            .stale
            .lock()
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            return Err(Fault::new(
                Code::SessionBusy,
                "the agent has not ended the previous, canceled turn (ACP, prompt turn)",
            )
            .hint("wait, or start a new session"));
        }
        live.shared.begin_turn(&session, events);
        let ended = live.turn(&session, message).await;
        live.shared.end_turn();
        live.cancel.reset();
        self.desk.cancel_all();
        ended
    }

    async fn close(&self) -> Result<(), Fault> {
        let live = self.live()?;
        let session = live.session.lock().take();
        let offered = live
            .initialized
            .lock()
            .as_ref()
            .is_some_and(|i| i.agent_capabilities.session_capabilities.close.is_some());
        if let (Some(session), true) = (session, offered) {
            let closing = live.ask(
                CloseSessionRequest::new(session),
                "while closing the session",
            );
            let _ = tokio::time::timeout(CLOSING, closing).await;
        }
        Ok(())
    }

    async fn stop(&self) -> Option<Exit> {
        let live = self.live.lock().take()?;
        self.desk.cancel_all();
        live.services.close().await;
        if let Some(hang_up) = live.hang_up.lock().take() {
            let _ = hang_up.send(());
        }
        // The agent's stdin is closed when this side and the library have both released it.
        *live.wire.lock() = None;
        let tasks = std::mem::take(&mut *live.tasks.lock());
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
            self.desk.cancel_all();
            live.cancel.set();
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
                (Some(odd), _) => Some(format!("the agent wrote non-protocol output: {odd}")),
                (None, false) => Some(format!("last stderr output: {errors}")),
                (None, true) => None,
            }
        })
    }

    fn gone(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let shared = self.live().map(|live| Arc::clone(&live.shared));
        Box::pin(async move {
            match shared {
                Ok(shared) => drop(shared.over().await),
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn list(&self) -> Doing<'_, Value> {
        Box::pin(async {
            let live = self.live()?;
            let offered = live
                .initialized
                .lock()
                .as_ref()
                .is_some_and(|i| i.agent_capabilities.session_capabilities.list.is_some());
            if !offered {
                return Err(Fault::new(
                    Code::CapabilityMismatch,
                    "the agent does not support listing its sessions",
                ));
            }
            let listed = live
                .ask(ListSessionsRequest::new(), "while listing its sessions")
                .await?;
            Ok(serde_json::to_value(listed.sessions).unwrap_or_default())
        })
    }
}
