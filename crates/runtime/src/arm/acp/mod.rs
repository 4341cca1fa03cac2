//! The ACP arm. It uses the protocol library over a wire that this module taps.

mod connection;
mod files;
mod model;
mod prompt;
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
    ClientCapabilities, CloseSessionRequest, ElicitationCapabilities, ElicitationFormCapabilities,
    ElicitationUrlCapabilities, FileSystemCapabilities, Implementation, InitializeRequest,
    ListSessionsRequest, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::{Agent, Client, Lines as LineTransport};
use futures::SinkExt;
use futures::channel::mpsc;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use self::connection::{Connection, OpenError, Opened};
use self::services::Services;
use self::tap::Shared;
use super::permissions::PermissionBroker;
use super::process::{Process, Spawned};
use super::slot::Cancel;
use super::{Arm, ArmFuture, EXIT_GRACE, EventSink, LaunchSpec, Negotiated, OpenRequest};
use crate::command::Launch;
use crate::context::Context;
use crate::error::{Code, Error, stderr_block};
use crate::event::StopReason;
use crate::mcp_servers::McpServer;
use crate::models::ModelChoice;
use agentproto_sandbox::spawn::Exit;

/// Time limit for closing a session, which is optional: the process is ended anyway.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Choices that are set over the protocol instead of argv or environment.
#[derive(Clone, Debug, Default)]
pub struct WireChoices {
    pub mode: Option<String>,
    pub options: Vec<(String, Value)>,
    pub model: Option<ModelChoice>,
    /// MCP servers that are offered to the agent.
    pub mcp_servers: Vec<McpServer>,
}

pub struct Acp {
    context: Arc<Context>,
    spec: LaunchSpec,
    /// The process to start, if it was already prepared.
    launch: Mutex<Option<Launch>>,
    broker: PermissionBroker,
    choices: WireChoices,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl Acp {
    pub fn new(
        context: Arc<Context>,
        spec: LaunchSpec,
        broker: PermissionBroker,
        choices: WireChoices,
    ) -> Self {
        Acp {
            context,
            spec,
            launch: Mutex::new(None),
            broker,
            choices,
            connection: Mutex::new(None),
        }
    }

    /// Starts this process first, which was prepared from the same spec.
    pub fn with_launch(mut self, launch: Option<Launch>) -> Self {
        self.launch = Mutex::new(launch);
        self
    }

    fn connection(&self) -> Result<Arc<Connection>, Error> {
        let connection = self.connection.lock().clone();
        connection.ok_or_else(|| Error::new(Code::SessionClosed, "the agent is not running"))
    }

    async fn connect(&self) -> Result<Arc<Connection>, Error> {
        let prepared = self.launch.lock().take();
        let Spawned {
            process,
            wire,
            cwd,
            policy,
        } = Process::start(Arc::clone(&self.context), &self.spec, prepared).await?;
        let shared = Shared::new(
            Arc::clone(&self.context.observer),
            self.context.masks.clone(),
        );
        let services = Arc::new(Services::new(
            Arc::clone(&self.context),
            policy,
            cwd.clone(),
        ));
        let (to_library, incoming) = mpsc::unbounded();
        let (outgoing, lines) = mpsc::unbounded::<String>();
        let reading = tokio::spawn(tap::read(wire.stdout, Arc::clone(&shared), to_library));
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
        let (agent_sender, agent) = oneshot::channel();
        let (disconnect, disconnected) = oneshot::channel();
        let serving = services::serve(
            Client.v1().name("agentproto"),
            Arc::clone(&services),
            self.broker.clone(),
            Arc::clone(&shared),
        );
        let serving_task = tokio::spawn(async move {
            let _ = serving
                .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
                    let _ = agent_sender.send(agent);
                    let _ = disconnected.await;
                    Ok(())
                })
                .await;
        });
        let agent = agent.await.map_err(|_| {
            Error::new(
                Code::SpawnFailed,
                "the connection to the agent closed immediately",
            )
        })?;
        let connection = Arc::new(Connection {
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
            disconnect: Mutex::new(Some(disconnect)),
            tasks: Mutex::new(vec![serving_task, writing, reading]),
        });
        *self.connection.lock() = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn handshake(&self) -> Result<Negotiated, Error> {
        let connection = self.connect().await?;
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(
                ClientCapabilities::new()
                    .fs(FileSystemCapabilities::new()
                        .read_text_file(true)
                        .write_text_file(true))
                    .terminal(true)
                    .elicitation(
                        ElicitationCapabilities::new()
                            .form(ElicitationFormCapabilities::new())
                            .url(ElicitationUrlCapabilities::new()),
                    ),
            )
            .client_info(Implementation::new("agentproto", env!("CARGO_PKG_VERSION")));
        let answer = connection.ask(request, "during the handshake").await?;
        if answer.protocol_version != ProtocolVersion::V1 {
            let theirs = serde_json::to_string(&answer.protocol_version).unwrap_or_default();
            return Err(Error::new(
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
        *connection.initialized.lock() = Some(answer);
        Ok(negotiated)
    }

    async fn open(&self, open: &OpenRequest) -> Result<String, Error> {
        let connection = self.connection()?;
        let servers = &self.choices.mcp_servers;
        let opened = match connection.open(open, servers).await {
            Err(OpenError::Authenticate) => {
                connection.authenticate(&self.context).await?;
                match connection.open(open, servers).await {
                    Err(OpenError::Authenticate) => {
                        return Err(connection.auth_required(&self.context, None));
                    }
                    other => other,
                }
            }
            other => other,
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(OpenError::Error(error)) => return Err(error),
            Err(OpenError::Authenticate) => {
                return Err(connection.auth_required(&self.context, None));
            }
        };
        *connection.session.lock() = Some(opened.id.clone());
        self.apply_choices(&connection, &opened).await?;
        Ok(opened.id)
    }

    /// Sets modes and options that have no arguments or variables in the manifest. They are the
    /// agent's own.
    async fn apply_choices(&self, connection: &Connection, opened: &Opened) -> Result<(), Error> {
        let warn = |what: String| {
            self.context
                .observer
                .warning("choice_without_effect", &what)
        };
        if let Some(mode) = &self.choices.mode {
            let modes = opened.modes.iter().flat_map(|m| &m.available_modes);
            if modes.into_iter().any(|m| *m.id.0 == **mode) {
                let request = SetSessionModeRequest::new(opened.id.clone(), mode.clone());
                connection.ask(request, "while setting its mode").await?;
            } else {
                warn(format!(
                    "the mode `{mode}` has no effect: it sets no arguments or variables, and the agent has no such mode"
                ));
            }
        }
        for (id, value) in &self.choices.options {
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
            connection.ask(request, "while setting an option").await?;
        }
        match &self.choices.model {
            Some(model) => model::set(connection, opened, model, &*self.context.observer).await,
            None => Ok(()),
        }
    }

    async fn turn(&self, message: &str, events: EventSink) -> Result<StopReason, Error> {
        let connection = self.connection()?;
        let session = connection.session.lock().clone();
        let session =
            session.ok_or_else(|| Error::new(Code::SessionClosed, "no session is open"))?;
        if connection
            .stale
            .lock()
            .as_ref()
            .is_some_and(|task| !task.is_finished())
        {
            return Err(Error::new(
                Code::SessionBusy,
                "the agent has not ended the previous, canceled turn (ACP, prompt turn)",
            )
            .hint("wait, or start a new session"));
        }
        connection.shared.begin_turn(&session, events.clone());
        let ended = connection.turn(&session, message, &events).await;
        connection.shared.end_turn();
        connection.cancel.reset();
        self.broker.cancel_all();
        ended
    }

    async fn close(&self) -> Result<(), Error> {
        let connection = self.connection()?;
        let session = connection.session.lock().take();
        let offered = connection
            .initialized
            .lock()
            .as_ref()
            .is_some_and(|i| i.agent_capabilities.session_capabilities.close.is_some());
        if let (Some(session), true) = (session, offered) {
            let closing = connection.ask(
                CloseSessionRequest::new(session),
                "while closing the session",
            );
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
        }
        Ok(())
    }

    async fn stop(&self) -> Option<Exit> {
        let connection = self.connection.lock().take()?;
        self.broker.cancel_all();
        connection.services.close().await;
        if let Some(disconnect) = connection.disconnect.lock().take() {
            let _ = disconnect.send(());
        }
        // The agent's stdin is closed when this side and the library have both released it.
        *connection.wire.lock() = None;
        let tasks = std::mem::take(&mut *connection.tasks.lock());
        let mut tasks = tasks.into_iter();
        for task in tasks.by_ref().take(2) {
            let abort = task.abort_handle();
            if tokio::time::timeout(EXIT_GRACE, task).await.is_err() {
                abort.abort();
            }
        }
        let exit = connection.process.stop().await;
        tasks.for_each(|task| task.abort());
        Some(exit)
    }
}

impl Arm for Acp {
    fn handshake(&self) -> ArmFuture<'_, Negotiated> {
        Box::pin(self.handshake())
    }

    fn open<'a>(&'a self, open: &'a OpenRequest) -> ArmFuture<'a, String> {
        Box::pin(self.open(open))
    }

    fn turn<'a>(&'a self, message: &'a str, events: EventSink) -> ArmFuture<'a, StopReason> {
        Box::pin(self.turn(message, events))
    }

    fn cancel(&self) -> ArmFuture<'_, ()> {
        Box::pin(async {
            let connection = self.connection()?;
            self.broker.cancel_all();
            connection.cancel.set();
            Ok(())
        })
    }

    fn close(&self) -> ArmFuture<'_, ()> {
        Box::pin(self.close())
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(self.stop())
    }

    fn output_excerpt(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async {
            let connection = self.connection().ok()?;
            let garbage = connection.shared.first_garbage();
            let errors = connection.process.stderr_tail().await;
            match (garbage, errors.is_empty()) {
                (Some(garbage), _) => {
                    Some(format!("; the agent wrote non-protocol output: {garbage}"))
                }
                (None, false) => Some(stderr_block(&errors)),
                (None, true) => None,
            }
        })
    }

    fn exited(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let shared = self
            .connection()
            .map(|connection| Arc::clone(&connection.shared));
        Box::pin(async move {
            match shared {
                Ok(shared) => drop(shared.over().await),
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn list(&self) -> ArmFuture<'_, Value> {
        Box::pin(async {
            let connection = self.connection()?;
            let offered = connection
                .initialized
                .lock()
                .as_ref()
                .is_some_and(|i| i.agent_capabilities.session_capabilities.list.is_some());
            if !offered {
                return Err(Error::new(
                    Code::CapabilityMismatch,
                    "the agent does not support listing its sessions",
                ));
            }
            let listed = connection
                .ask(ListSessionsRequest::new(), "while listing its sessions")
                .await?;
            Ok(serde_json::to_value(listed.sessions).unwrap_or_default())
        })
    }
}
