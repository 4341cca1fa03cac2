//! A connected agent: its requests, their responses, and its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthenticateRequest, CancelNotification, ContentBlock, InitializeResponse,
    LoadSessionRequest, NewSessionRequest, PromptRequest, ResumeSessionRequest,
    SessionConfigOption, SessionModeState, StopReason as Stop, TextContent,
};
use agent_client_protocol::{Agent, Error};
use futures::channel::mpsc::UnboundedSender;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::super::LAST_WORD;
use super::services::Services;
use super::tap::{Over, Shared};
use crate::arm::Open;
use crate::arm::process::Process;
use crate::arm::slot::Cancel;
use crate::context::Context;
use crate::event::StopReason;
use crate::fault::{Code, Fault};

/// After this time a canceled turn counts as ended, even if the agent has not ended it (PT-11).
const AFTER_CANCEL: Duration = Duration::from_millis(900);
/// The protocol's error code for a missing login.
const AUTH_REQUIRED: i32 = -32000;

/// A connected agent.
pub struct Live {
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
    pub hang_up: Mutex<Option<oneshot::Sender<()>>>,
    pub tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// An opened session, with the modes and options that it offers.
pub struct Opened {
    pub id: String,
    pub modes: Option<SessionModeState>,
    pub options: Vec<SessionConfigOption>,
}

pub enum Refused {
    Authenticate,
    Fault(Fault),
}

impl Live {
    /// Sends a request and waits for its response, or for the end of the agent.
    pub async fn ask<R>(&self, request: R, doing: &str) -> Result<R::Response, Fault>
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

    /// Returns `Err(None)` if the agent has exited.
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
            // The library returns its own error for a request that will never be answered.
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
                        let message =
                            format!("{}; it wrote non-protocol output: {odd}", fault.message);
                        Fault { message, ..fault }
                    }
                    None => fault,
                }
            }
        }
    }

    /// The error for an agent that no longer reads: it has exited, has closed its stdin, or was
    /// stopped.
    async fn deaf(&self) -> Fault {
        let over = tokio::time::timeout(2 * LAST_WORD, self.shared.over());
        match over.await {
            Ok(_) => self.ended("during the turn").await,
            Err(_) => Fault::new(Code::SessionClosed, "the agent is not running"),
        }
    }

    pub async fn open(&self, open: &Open) -> Result<Opened, Refused> {
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
                Err(error) => Err(refused(error, "while opening a session").await),
            };
        };
        let doing = "while resuming a session";
        let capabilities = self
            .initialized
            .lock()
            .as_ref()
            .map(|i| i.agent_capabilities.clone());
        let capabilities = capabilities.unwrap_or_default();
        // `session/resume` does not replay the conversation. `session/load` does, and the replay is
        // ignored.
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
                "cannot resume a session: the agent supports neither session/resume nor session/load",
            )))
        }
    }

    /// Tries the agent's own auth methods in the order in which it lists them. Methods that need a
    /// terminal are skipped.
    pub async fn authenticate(&self, context: &Context) -> Result<(), Fault> {
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
                Err(None) => return Err(self.ended("while authenticating").await),
            }
        }
        Err(self.auth_required(context, last))
    }

    pub fn auth_required(&self, context: &Context, error: Option<Error>) -> Fault {
        let said = error.map_or(String::new(), |e| format!(": {}", e.message));
        let login = context
            .bundle
            .common()
            .auth()
            .and_then(|a| a.login()?.cmd());
        let hint = match login {
            Some(cmd) => format!("log in with `{cmd}` or `agentproto auth login`"),
            None => "set the agent's credentials (`auth.state.env` in the manifest), or log in with its own command".to_owned(),
        };
        Fault::new(
            Code::AuthRequired,
            format!(
                "the agent requires a login before it opens a session{said} (ACP, authentication)"
            ),
        )
        .hint(hint)
    }

    pub async fn turn(&self, session: &str, message: &str) -> Result<StopReason, Fault> {
        let prompt = vec![ContentBlock::Text(TextContent::new(message))];
        let prompt = PromptRequest::new(session.to_owned(), prompt);
        let (line, answer) = self.shared.asked.ask(&prompt).map_err(|error| {
            Fault::new(Code::TurnFailed, format!("cannot send the prompt: {error}"))
        })?;
        let mut answer = Box::pin(answer);
        let wire = self.wire.lock().clone();
        if wire.is_none_or(|wire| wire.unbounded_send(line).is_err()) {
            return Err(self.deaf().await);
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
            () = cancelled => {
                *self.stale.lock() = Some(tokio::spawn(async move {
                    let _ = answer.await;
                }));
                return Ok(StopReason::Cancelled);
            }
        };
        match answered {
            Ok(answer) => Ok(match answer.stop_reason {
                Stop::MaxTokens => StopReason::MaxTokens,
                Stop::MaxTurnRequests => StopReason::MaxTurnRequests,
                Stop::Refusal => StopReason::Refusal,
                Stop::Cancelled => StopReason::Cancelled,
                _ => StopReason::EndTurn,
            }),
            Err(Some(error)) => Err(failed(&error, "during the turn")),
            Err(None) => Err(self.ended("during the turn").await),
        }
    }
}

/// An agent that rejects a session id does not know it.
fn unknown(refused: Refused, id: &str) -> Refused {
    match refused {
        Refused::Fault(fault) if fault.code == Code::TurnFailed => Refused::Fault(Fault {
            code: Code::SessionUnknown,
            message: format!("cannot resume the session `{id}`: {}", fault.message),
            ..fault
        }),
        other => other,
    }
}

/// Converts an error response of the agent.
fn failed(error: &Error, doing: &str) -> Fault {
    let number = i32::from(error.code);
    let code = match number {
        AUTH_REQUIRED => Code::AuthRequired,
        _ => Code::TurnFailed,
    };
    Fault::new(
        code,
        format!(
            "the agent responded with error {number} {doing}: {}",
            error.message
        ),
    )
    .details(json!({ "code": number, "data": error.data }))
}
