//! A connected agent: its requests, their responses, and its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthenticateRequest, CancelNotification, ContentBlock, InitializeResponse,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse, PromptRequest,
    ResumeSessionRequest, ResumeSessionResponse, SessionConfigOption, SessionModeState,
    StopReason as Stop, TextContent,
};
use agent_client_protocol::{Agent, Error as AcpError, UntypedMessage};
use futures::channel::mpsc::UnboundedSender;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::super::EXIT_GRACE;
use super::prompt::{PromptEnd, PromptOutcome};
use super::services::Services;
use super::tap::{Shared, WireEnd};
use crate::arm::process::Process;
use crate::arm::slot::Cancel;
use crate::arm::{EventSink, OpenRequest};
use crate::context::Context;
use crate::error::{Code, Error, STDERR_LABEL};
use crate::event::StopReason;
use crate::mcp_servers::McpServer;
use crate::usage::UsageReport;

/// After this time a canceled turn counts as ended, even if the agent has not ended it (PT-11).
const AFTER_CANCEL: Duration = Duration::from_millis(900);
/// The protocol's error code for a missing login.
const AUTH_REQUIRED: i32 = -32000;

/// A connected agent.
pub struct Connection {
    pub process: Process,
    pub agent: ConnectionTo<Agent>,
    pub shared: Arc<Shared>,
    pub services: Arc<Services>,
    /// The working directory, as the agent sees it.
    pub cwd: PathBuf,
    pub initialized: Mutex<Option<InitializeResponse>>,
    pub session: Mutex<Option<String>>,
    /// Sender for lines that bypass the library.
    pub wire: Mutex<Option<UnboundedSender<String>>>,
    /// Whether the turn is to be canceled. May be set before the turn runs.
    pub cancel: Cancel,
    /// A canceled turn that the agent has not ended yet.
    pub stale: Mutex<Option<JoinHandle<()>>>,
    pub disconnect: Mutex<Option<oneshot::Sender<()>>>,
    pub tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// An opened session, with the modes and options that it offers.
pub struct Opened {
    pub id: String,
    pub modes: Option<SessionModeState>,
    pub options: Vec<SessionConfigOption>,
    /// The agent's models, if it reports them outside of its options.
    pub models: Option<Value>,
}

pub enum OpenError {
    Authenticate,
    Error(Error),
}

impl Connection {
    /// Sends a request and waits for its response, or for the end of the agent.
    pub async fn ask<R>(&self, request: R, during: &str) -> Result<R::Response, Error>
    where
        R: agent_client_protocol::JsonRpcRequest,
        R::Response: Send,
    {
        match self.request(request).await {
            Ok(answer) => Ok(answer),
            Err(None) => Err(self.end_error(during).await),
            Err(Some(error)) => Err(response_error(&error, during)),
        }
    }

    /// Returns `Err(None)` if the agent has exited.
    async fn request<R>(&self, request: R) -> Result<R::Response, Option<AcpError>>
    where
        R: agent_client_protocol::JsonRpcRequest,
        R::Response: Send,
    {
        let answer = self.agent.send_request(request).block_task();
        tokio::pin!(answer);
        let result = tokio::select! {
            result = &mut answer => Some(result),
            _ = self.shared.over() => tokio::time::timeout(EXIT_GRACE, answer).await.ok(),
        };
        match result {
            Some(Ok(answer)) => Ok(answer),
            // The library returns its own error for a request that will never be answered.
            Some(Err(_)) | None if self.agent.is_incoming_closed() => Err(None),
            Some(Err(error)) => Err(Some(error)),
            None => Err(None),
        }
    }

    /// Opens a session. Also returns the `models` of the response, which the current schema of the
    /// protocol no longer has, but which agents with `session/set_model` report.
    async fn open_request<T: DeserializeOwned>(
        &self,
        method: &str,
        request: &impl Serialize,
    ) -> Result<(T, Option<Value>), Option<AcpError>> {
        let request = UntypedMessage::new(method, request)?;
        let answer = self.request(request).await?;
        let models = answer
            .get("models")
            .filter(|models| models.is_object())
            .cloned();
        let opened = serde_json::from_value(answer).map_err(|error| {
            let mut invalid = AcpError::internal_error();
            invalid.message = format!("its response to {method} is invalid: {error}");
            invalid
        })?;
        Ok((opened, models))
    }

    async fn end_error(&self, during: &str) -> Error {
        match self.shared.over().await {
            WireEnd::Broken(error) => error,
            WireEnd::Closed => {
                let error = self.process.exit_error(during).await;
                match self.shared.first_garbage() {
                    Some(garbage) => {
                        // The stderr block stays at the end.
                        let at = error.message.find(STDERR_LABEL);
                        let (what, stderr) =
                            error.message.split_at(at.unwrap_or(error.message.len()));
                        let message =
                            format!("{what}; it wrote non-protocol output: {garbage}{stderr}");
                        Error { message, ..error }
                    }
                    None => error,
                }
            }
        }
    }

    /// The error for an agent that no longer reads: it has exited, has closed its stdin, or was
    /// stopped.
    async fn closed_stdin(&self) -> Error {
        let over = tokio::time::timeout(2 * EXIT_GRACE, self.shared.over());
        match over.await {
            Ok(_) => self.end_error("during the turn").await,
            Err(_) => Error::new(Code::SessionClosed, "the agent is not running"),
        }
    }

    pub async fn open(
        &self,
        open: &OpenRequest,
        servers: &[McpServer],
    ) -> Result<Opened, OpenError> {
        let cwd = self.cwd.clone();
        let open_error = |error: Option<AcpError>, during: &'static str| async move {
            match error {
                Some(error) if i32::from(error.code) == AUTH_REQUIRED => OpenError::Authenticate,
                Some(error) => OpenError::Error(response_error(&error, during)),
                None => OpenError::Error(self.end_error(during).await),
            }
        };
        let capabilities = self
            .initialized
            .lock()
            .as_ref()
            .map(|i| i.agent_capabilities.clone());
        let capabilities = capabilities.unwrap_or_default();
        let offered = servers
            .iter()
            .map(|server| server.offered_to(&capabilities.mcp_capabilities));
        let servers: Vec<_> = offered
            .collect::<Result<_, _>>()
            .map_err(OpenError::Error)?;
        let Some(id) = &open.resume else {
            let during = "while opening a session";
            let request = NewSessionRequest::new(cwd).mcp_servers(servers);
            let (new, models) = match self.open_request("session/new", &request).await {
                Ok(opened) => opened,
                Err(error) => return Err(open_error(error, during).await),
            };
            let new: NewSessionResponse = new;
            return Ok(Opened {
                id: new.session_id.to_string(),
                modes: new.modes,
                options: new.config_options.unwrap_or_default(),
                models,
            });
        };
        let during = "while resuming a session";
        // `session/resume` does not replay the conversation. `session/load` does, and the replay is
        // ignored.
        if capabilities.session_capabilities.resume.is_some() {
            let request = ResumeSessionRequest::new(id.clone(), cwd).mcp_servers(servers);
            let resumed: Result<(ResumeSessionResponse, _), _> =
                self.open_request("session/resume", &request).await;
            match resumed {
                Ok((resumed, models)) => Ok(Opened {
                    id: id.clone(),
                    modes: resumed.modes,
                    options: resumed.config_options.unwrap_or_default(),
                    models,
                }),
                Err(error) => Err(unknown_session(open_error(error, during).await, id)),
            }
        } else if capabilities.load_session {
            let request = LoadSessionRequest::new(id.clone(), cwd).mcp_servers(servers);
            let loaded: Result<(LoadSessionResponse, _), _> =
                self.open_request("session/load", &request).await;
            match loaded {
                Ok((loaded, models)) => Ok(Opened {
                    id: id.clone(),
                    modes: loaded.modes,
                    options: loaded.config_options.unwrap_or_default(),
                    models,
                }),
                Err(error) => Err(unknown_session(open_error(error, during).await, id)),
            }
        } else {
            Err(OpenError::Error(Error::new(
                Code::CapabilityMismatch,
                "cannot resume a session: the agent supports neither session/resume nor session/load",
            )))
        }
    }

    /// Tries the agent's own auth methods in the order in which it lists them. Methods that need a
    /// terminal are skipped.
    pub async fn authenticate(&self, context: &Context) -> Result<(), Error> {
        let methods = self
            .initialized
            .lock()
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
                Err(None) => return Err(self.end_error("while authenticating").await),
            }
        }
        Err(self.auth_required(context, last))
    }

    pub fn auth_required(&self, context: &Context, error: Option<AcpError>) -> Error {
        let reason = error.map_or(String::new(), |e| format!(": {}", e.message));
        let login = context
            .bundle
            .common()
            .auth()
            .and_then(|a| a.login()?.cmd());
        let hint = match login {
            Some(cmd) => format!("log in with `{cmd}` or `agentproto auth login`"),
            None => "set the agent's credentials (`auth.state.env` in the manifest), or log in with its own command".to_owned(),
        };
        Error::new(
            Code::AuthRequired,
            format!(
                "the agent requires a login before it opens a session{reason} (ACP, authentication)"
            ),
        )
        .hint(hint)
    }

    pub async fn turn(
        &self,
        session: &str,
        message: &str,
        events: &EventSink,
    ) -> Result<StopReason, Error> {
        let prompt = vec![ContentBlock::Text(TextContent::new(message))];
        let prompt = PromptRequest::new(session.to_owned(), prompt);
        let (line, answer) = self.shared.prompt.request(&prompt).map_err(|error| {
            Error::new(Code::TurnFailed, format!("cannot send the prompt: {error}"))
        })?;
        let mut answer = Box::pin(answer);
        let wire = self.wire.lock().clone();
        if wire.is_none_or(|wire| wire.unbounded_send(line).is_err()) {
            return Err(self.closed_stdin().await);
        }
        let cancelled = async {
            self.cancel.wait().await;
            // The turn may have been canceled before the prompt was sent.
            let notice = CancelNotification::new(session.to_owned());
            let _ = self.agent.send_notification(notice);
            tokio::time::sleep(AFTER_CANCEL).await;
        };
        let answered = tokio::select! {
            biased;
            answered = &mut answer => answered,
            error = self.shared.failure() => {
                let notice = CancelNotification::new(session.to_owned());
                let _ = self.agent.send_notification(notice);
                if tokio::time::timeout(AFTER_CANCEL, &mut answer).await.is_err() {
                    self.leave_turn(answer);
                }
                return Err(error);
            }
            () = cancelled => {
                self.leave_turn(answer);
                return Ok(StopReason::Cancelled);
            }
        };
        match answered {
            Ok(PromptEnd { response, usage }) => {
                events.report_usage(UsageReport {
                    usage,
                    ..UsageReport::default()
                });
                Ok(match response.stop_reason {
                    Stop::MaxTokens => StopReason::MaxTokens,
                    Stop::MaxTurnRequests => StopReason::MaxTurnRequests,
                    Stop::Refusal => StopReason::Refusal,
                    Stop::Cancelled => StopReason::Cancelled,
                    _ => StopReason::EndTurn,
                })
            }
            Err(Some(error)) => Err(response_error(&error, "during the turn")),
            Err(None) => Err(self.end_error("during the turn").await),
        }
    }

    /// Keeps a turn that ended only on this side, until the agent also ends it.
    fn leave_turn(&self, answer: impl Future<Output = PromptOutcome> + Send + 'static) {
        *self.stale.lock() = Some(tokio::spawn(async move {
            let _ = answer.await;
        }));
    }
}

/// An agent that rejects a session id does not know it.
fn unknown_session(error: OpenError, id: &str) -> OpenError {
    match error {
        OpenError::Error(error) if error.code == Code::TurnFailed => OpenError::Error(Error {
            code: Code::SessionUnknown,
            message: format!("cannot resume the session `{id}`: {}", error.message),
            hint: error.hint.or_else(|| {
                Some(
                    "`agentproto run TARGET --list-sessions` lists the agent's sessions".to_owned(),
                )
            }),
            details: error.details,
        }),
        other => other,
    }
}

/// Converts an error response of the agent.
fn response_error(error: &AcpError, during: &str) -> Error {
    let number = i32::from(error.code);
    let code = match number {
        AUTH_REQUIRED => Code::AuthRequired,
        _ => Code::TurnFailed,
    };
    Error::new(
        code,
        format!(
            "the agent responded with error {number} {during}: {}",
            error.message
        ),
    )
    .details(json!({ "code": number, "data": error.data }))
}
