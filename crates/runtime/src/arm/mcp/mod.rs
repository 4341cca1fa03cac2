//! The MCP arm: the agent is an MCP server on stdin and stdout, and a turn is a `tools/call`
//! (A45-CONF-04).

mod elicit;
mod link;
mod translate;
mod turn;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ErrorCode, PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RoleClient, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use serde_json::{Value, json};

use super::desk::Desk;
use super::input::Input;
use super::process::{Process, Spawned};
use super::slot::{Cancel, End, Going};
use super::{Arm, Doing, Events, Negotiated, Open, Spec, in_its_words};
use crate::context::Context;
use crate::event::{StopReason, StreamEvent};
use crate::fault::{Code, Fault};
use agentproto_sandbox::spawn::{Bounds, Exit};
use elicit::Handler;
use link::{Link, Shared};
pub use turn::{Calls, Turn};

/// Maximum number of pages of `tools/list`, in case a server never ends its list.
const MOST_PAGES: usize = 64;

pub struct Mcp {
    context: Arc<Context>,
    spec: Spec,
    desk: Desk,
    turn: Turn,
    shared: Arc<Shared>,
    started: OnceLock<Started>,
    client: OnceLock<Client>,
    calls: OnceLock<Calls>,
    session: Mutex<Option<String>>,
    cancel: Cancel,
    /// Whether the warning was already given that turns do not share a session.
    forgot: AtomicBool,
}

type Client = RunningService<RoleClient, Handler>;

struct Started {
    process: Process,
    input: Input,
}

impl Mcp {
    pub fn new(context: Arc<Context>, spec: Spec, desk: Desk, turn: Turn) -> Mcp {
        let shared = Shared::new(Arc::clone(&context), turn.event_method.clone());
        Mcp {
            context,
            spec,
            desk,
            turn,
            shared: Arc::new(shared),
            started: OnceLock::new(),
            client: OnceLock::new(),
            calls: OnceLock::new(),
            session: Mutex::new(None),
            cancel: Cancel::default(),
            forgot: AtomicBool::new(false),
        }
    }

    async fn shake_hands(&self) -> Result<Negotiated, Fault> {
        let Spawned { process, wire, .. } =
            Process::start(Arc::clone(&self.context), &self.spec, Bounds::default()).await?;
        let input = Input::new(wire.stdin);
        let link = Link::new(Arc::clone(&self.shared), input.clone(), wire.stdout);
        let started = self.started.get_or_init(|| Started { process, input });
        let waiting = self.shared.slot.begin(None);
        let agreed = tokio::select! {
            agreed = self.agree(link) => agreed,
            end = waiting.going.ended() => Err(Failure::End(end)),
        };
        match agreed {
            Ok(negotiated) => Ok(negotiated),
            Err(Failure::Fault(fault) | Failure::End(End::Fault(fault))) => Err(fault),
            Err(Failure::End(_)) => Err(match waiting.going.end() {
                Some(End::Fault(fault)) => fault,
                _ => started.process.lost("during the handshake").await,
            }),
        }
    }

    /// Sends `initialize`, or `server/discover` if the server no longer supports it.
    async fn agree(&self, link: Link) -> Result<Negotiated, Failure> {
        let handler = || Handler::new(Arc::clone(&self.shared), self.desk.clone());
        let initialize = ClientLifecycleMode::Initialize;
        let mut served = serve_client_with_lifecycle(handler(), link.clone(), initialize).await;
        if let Err(ClientInitializeError::JsonRpcError(error)) = &served
            && (error.code == ErrorCode::METHOD_NOT_FOUND
                || error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
        {
            let discover = ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::LATEST],
            };
            served = serve_client_with_lifecycle(handler(), link, discover).await;
        }
        let client = served.map_err(|error| match error {
            ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::TransportError { .. } => Failure::End(End::Lost),
            error => Failure::Fault(self.refused(&error)),
        })?;
        let client = self.client.get_or_init(|| client);
        let tools = self.tools(client).await?;
        let calls = self.turn.resolve(&tools).map_err(Failure::Fault)?;
        let calls = self.calls.get_or_init(|| calls);
        let info = client.peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        Ok(Negotiated {
            name: server.map(|server| server.name.clone()),
            version: server.map(|server| server.version.clone()),
            resumable: Some(calls.can_resume()),
            multimodal: None,
        })
    }

    async fn tools(&self, client: &Client) -> Result<Vec<Tool>, Failure> {
        let mut tools = Vec::new();
        let mut page = None;
        for _ in 0..MOST_PAGES {
            let request = PaginatedRequestParams::default().with_cursor(page);
            let listed = client.list_tools(Some(request)).await;
            let listed = listed.map_err(|error| self.failed(error, "tools/list"))?;
            tools.extend(listed.tools);
            page = listed.next_cursor;
            if page.is_none() {
                return Ok(tools);
            }
        }
        let what = format!("`tools/list` has more than {MOST_PAGES} pages");
        Err(Failure::Fault(self.violation(&what)))
    }

    /// An id that only events reported may belong to a session that was never created. If the agent
    /// rejects it, a new session is started.
    async fn play(&self, message: &str, events: Events) -> Result<StopReason, Fault> {
        let sure = self.confirmed();
        let unsure = self.shared.session().filter(|_| sure.is_none());
        let ended = self
            .attempt(message, events.clone(), sure.or(unsure.clone()))
            .await;
        match &ended {
            Err(fault) if fault.code == Code::TurnFailed && unsure.is_some() => {
                self.shared.forget_session();
                let what = format!(
                    "the session of the canceled turn is gone; starting a new one: {fault}"
                );
                self.context.observer.warning("session_unknown", &what);
                self.attempt(message, events, None).await
            }
            _ => ended,
        }
    }

    async fn attempt(
        &self,
        message: &str,
        events: Events,
        session: Option<String>,
    ) -> Result<StopReason, Fault> {
        let (Some(started), Some(client), Some(calls)) =
            (self.started.get(), self.client.get(), self.calls.get())
        else {
            return Err(Fault::new(Code::SessionClosed, "the agent is not running"));
        };
        self.shared.streamed.store(false, Ordering::Relaxed);
        let (tool, arguments) = calls.next(message, session.as_deref());
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let turn = self.shared.slot.begin(Some(events));
        // In the other cases the call is dropped, which notifies the server that it is canceled.
        let answered = tokio::select! {
            biased;
            () = self.cancel.wait() => Ok(None),
            end = turn.going.ended() => Err(Failure::End(end)),
            result = client.call_tool(params) => match result {
                Ok(result) => Ok(Some(result)),
                Err(error) => Err(self.failed(error, "tools/call")),
            },
        };
        let ended = match answered {
            Ok(Some(result)) => self.result(calls, result, &turn.going).await,
            Ok(None) => Ok(StopReason::Cancelled),
            Err(Failure::Fault(fault) | Failure::End(End::Fault(fault))) => Err(fault),
            Err(Failure::End(_)) => Err(started.process.lost("during the turn").await),
        };
        self.shared.turn_over();
        // A server may respond while its own question is still open.
        self.desk.cancel_all();
        ended
    }

    async fn result(
        &self,
        calls: &Calls,
        result: CallToolResult,
        going: &Going,
    ) -> Result<StopReason, Fault> {
        let raw = serde_json::to_value(&result).unwrap_or(Value::Null);
        if let Some(id) = calls.session_of(&raw) {
            *self.session.lock() = Some(id);
        }
        let texts = result.content.iter().filter_map(|block| block.as_text());
        if result.is_error == Some(true) {
            let said: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
            let said = match said.is_empty() {
                true => "no reason given".to_owned(),
                false => said.join("\n"),
            };
            let what = format!("the agent could not complete the turn: {said}");
            return Err(self.turn_failed(&what, json!({ "result": raw })));
        }
        if calls.can_resume()
            && self.confirmed().is_none()
            && !self.forgot.swap(true, Ordering::Relaxed)
        {
            let what = format!(
                "the result of `{}` contains no session id (searched {}): the next turn starts a new session",
                calls.start,
                calls.session_place()
            );
            self.context.observer.warning("session_unknown", &what);
        }
        if !self.shared.streamed.load(Ordering::Relaxed) {
            for text in texts.filter(|text| !text.text.is_empty()) {
                let text = text.text.clone();
                going.emit(StreamEvent::TextDelta { text }).await;
            }
        }
        match going.end() {
            Some(End::Fault(fault)) => Err(fault),
            _ => Ok(stop_reason(&raw)),
        }
    }

    /// The session id that a result or the caller gave.
    fn confirmed(&self) -> Option<String> {
        let session = self.session.lock();
        session.clone()
    }

    fn failed(&self, error: ServiceError, call: &str) -> Failure {
        match error {
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                Failure::End(End::Lost)
            }
            ServiceError::McpError(error) => {
                let what = format!(
                    "the agent responded to `{call}` with error {}: {}",
                    error.code.0, error.message
                );
                let details = json!({ "code": error.code.0, "data": error.data });
                Failure::Fault(self.turn_failed(&what, details))
            }
            ServiceError::UnexpectedResponse => Failure::Fault(self.violation(&format!(
                "the agent's response to `{call}` is not a valid result: `{}`",
                self.shared.last_answer()
            ))),
            other => Failure::Fault(self.violation(&format!("`{call}` failed: {other}"))),
        }
    }

    fn turn_failed(&self, what: &str, details: Value) -> Fault {
        let fault = Fault::new(Code::TurnFailed, what).details(details);
        in_its_words(&self.context, fault)
    }

    fn violation(&self, what: &str) -> Fault {
        let fault = Fault::new(Code::ProtocolViolation, what)
            .hint("the binary must speak MCP on stdin and stdout (AIP-45, protocol mcp)");
        in_its_words(&self.context, fault)
    }

    /// The error for a failed handshake.
    fn refused(&self, error: &ClientInitializeError) -> Fault {
        let answer = self.shared.last_answer();
        self.violation(&match error {
            ClientInitializeError::JsonRpcError(error) => format!(
                "the agent rejected the handshake with error {}: {}",
                error.code.0, error.message
            ),
            ClientInitializeError::ExpectedInitResult(_) => format!(
                "the response to `initialize` has no `protocolVersion`, `capabilities` or `serverInfo`: `{answer}`"
            ),
            ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
                format!("the agent responded to a request that was not sent: `{answer}`")
            }
            ClientInitializeError::NoCompatibleProtocolVersion {
                server_supported, ..
            } => {
                let versions = server_supported.iter().map(ProtocolVersion::as_str);
                let versions: Vec<&str> = versions.take(10).collect();
                format!(
                    "the agent supports no MCP revision that this runner knows; it supports {}",
                    versions.join(", ")
                )
            }
            other => format!("the handshake failed: {other}"),
        })
    }
}

/// The stop reason in the result, if the server gives one.
fn stop_reason(result: &Value) -> StopReason {
    let said = ["structuredContent", "_meta"].iter().find_map(|place| {
        let place = result.get(place)?;
        place.get("stopReason").or_else(|| place.get("stop_reason"))
    });
    let said = said.and_then(|said| serde_json::from_value(said.clone()).ok());
    said.unwrap_or(StopReason::EndTurn)
}

enum Failure {
    Fault(Fault),
    End(End),
}

impl Arm for Mcp {
    fn handshake(&self) -> Doing<'_, Negotiated> {
        Box::pin(self.shake_hands())
    }

    fn open<'a>(&'a self, open: &'a Open) -> Doing<'a, String> {
        Box::pin(async move {
            let Some(calls) = self.calls.get() else {
                return Err(Fault::new(Code::SessionClosed, "the agent is not running"));
            };
            let Some(id) = &open.resume else {
                return Ok(super::provisional_id());
            };
            if !calls.can_resume() {
                let what = format!(
                    "cannot resume a session: the tool `{}` has no argument for a session id",
                    calls.reply
                );
                return Err(Fault::new(Code::ContinuationUnsupported, what).hint(
                    "set `session_id_arg` (and `reply_tool`) in `metadata.agentproto.mcp_turn`",
                ));
            }
            *self.session.lock() = Some(id.clone());
            Ok(id.clone())
        })
    }

    fn turn<'a>(&'a self, message: &'a str, events: Events) -> Doing<'a, StopReason> {
        Box::pin(async move {
            let ended = self.play(message, events).await;
            self.cancel.reset();
            ended
        })
    }

    fn gone(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let slot = Arc::clone(&self.shared.slot);
        Box::pin(async move { slot.lost().await })
    }

    fn cancel(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.cancel.set();
            self.desk.cancel_all();
            Ok(())
        })
    }

    fn close(&self) -> Doing<'_, ()> {
        Box::pin(async move {
            self.desk.cancel_all();
            if let Some(started) = self.started.get() {
                started.input.close().await;
            }
            Ok(())
        })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(async move {
            self.desk.cancel_all();
            if let Some(client) = self.client.get() {
                client.cancellation_token().cancel();
            }
            let started = self.started.get()?;
            started.input.close().await;
            Some(started.process.stop().await)
        })
    }

    fn last_words(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async move {
            if let Some(odd) = self.shared.first_odd() {
                return Some(format!("the agent wrote non-protocol output: `{odd}`"));
            }
            super::words(&self.started.get()?.process).await
        })
    }

    fn session_id(&self) -> Option<String> {
        self.confirmed().or_else(|| self.shared.session())
    }
}
