//! The MCP arm: the agent is an MCP server on stdin and stdout, and a turn is a `tools/call`
//! (A45-CONF-04).

mod elicit;
mod translate;
mod transport;
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

use super::input::Input;
use super::permissions::PermissionBroker;
use super::process::{Process, Spawned};
use super::slot::{Cancel, CurrentTurn, End};
use super::{Arm, ArmFuture, EventSink, LaunchSpec, Negotiated, OpenRequest, redact_error};
use crate::command::Launch;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::usage::UsageReport;
use agentproto_sandbox::spawn::Exit;
use elicit::Handler;
use transport::{PipeTransport, Shared};
pub use turn::{Calls, McpTurnConfig};

/// Maximum number of pages of `tools/list`, in case a server never ends its list.
const MAX_PAGES: usize = 64;

/// An agent that is an MCP server.
pub struct Mcp {
    context: Arc<Context>,
    spec: LaunchSpec,
    /// The process to start, if it was already prepared.
    launch: Mutex<Option<Launch>>,
    broker: PermissionBroker,
    turn: McpTurnConfig,
    shared: Arc<Shared>,
    started: OnceLock<Started>,
    client: OnceLock<Client>,
    calls: OnceLock<Calls>,
    session: Mutex<Option<String>>,
    cancel: Cancel,
    /// Whether the warning was already given that turns do not share a session.
    warned_no_session: AtomicBool,
}

type Client = RunningService<RoleClient, Handler>;

struct Started {
    process: Process,
    input: Input,
}

impl Mcp {
    /// Creates the arm. The agent is started by the handshake.
    pub fn new(
        context: Arc<Context>,
        spec: LaunchSpec,
        broker: PermissionBroker,
        turn: McpTurnConfig,
    ) -> Mcp {
        let shared = Shared::new(Arc::clone(&context), turn.event_method.clone());
        Mcp {
            context,
            spec,
            launch: Mutex::new(None),
            broker,
            turn,
            shared: Arc::new(shared),
            started: OnceLock::new(),
            client: OnceLock::new(),
            calls: OnceLock::new(),
            session: Mutex::new(None),
            cancel: Cancel::default(),
            warned_no_session: AtomicBool::new(false),
        }
    }

    /// Starts this process first, which was prepared from the same spec.
    pub fn with_launch(mut self, launch: Option<Launch>) -> Self {
        self.launch = Mutex::new(launch);
        self
    }

    async fn connect(&self) -> Result<Negotiated, Error> {
        let prepared = self.launch.lock().take();
        let Spawned { process, wire, .. } =
            Process::start(Arc::clone(&self.context), &self.spec, prepared).await?;
        let input = Input::new(wire.stdin);
        let transport = PipeTransport::new(Arc::clone(&self.shared), input.clone(), wire.stdout);
        let started = self.started.get_or_init(|| Started { process, input });
        let waiting = self.shared.slot.begin(None);
        let negotiated = tokio::select! {
            negotiated = self.negotiate(transport) => negotiated,
            end = waiting.current.ended() => Err(Failure::End(end)),
        };
        match negotiated {
            Ok(negotiated) => Ok(negotiated),
            Err(Failure::Error(error) | Failure::End(End::Error(error))) => Err(error),
            Err(Failure::End(_)) => Err(match waiting.current.end() {
                Some(End::Error(error)) => error,
                _ => started.process.exit_error("during the handshake").await,
            }),
        }
    }

    /// Sends `initialize`, or `server/discover` if the server no longer supports it.
    async fn negotiate(&self, transport: PipeTransport) -> Result<Negotiated, Failure> {
        let handler = || Handler::new(Arc::clone(&self.shared), self.broker.clone());
        let initialize = ClientLifecycleMode::Initialize;
        let mut served =
            serve_client_with_lifecycle(handler(), transport.clone(), initialize).await;
        if let Err(ClientInitializeError::JsonRpcError(error)) = &served
            && (error.code == ErrorCode::METHOD_NOT_FOUND
                || error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
        {
            let discover = ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::LATEST],
            };
            served = serve_client_with_lifecycle(handler(), transport, discover).await;
        }
        let client = served.map_err(|error| match error {
            ClientInitializeError::ConnectionClosed(_)
            | ClientInitializeError::TransportError { .. } => Failure::End(End::OutputEnded),
            error => Failure::Error(self.handshake_error(&error)),
        })?;
        let client = self.client.get_or_init(|| client);
        let tools = self.tools(client).await?;
        let calls = self.turn.resolve(&tools).map_err(Failure::Error)?;
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
        for _ in 0..MAX_PAGES {
            let request = PaginatedRequestParams::default().with_cursor(page);
            let listed = client.list_tools(Some(request)).await;
            let listed = listed.map_err(|error| self.call_error(error, "tools/list"))?;
            tools.extend(listed.tools);
            page = listed.next_cursor;
            if page.is_none() {
                return Ok(tools);
            }
        }
        let what = format!("`tools/list` has more than {MAX_PAGES} pages");
        Err(Failure::Error(self.violation(&what)))
    }

    /// An id that only events reported may belong to a session that was never created. If the agent
    /// rejects it, a new session is started.
    async fn run_turn(&self, message: &str, events: EventSink) -> Result<StopReason, Error> {
        let confirmed_id = self.confirmed();
        let unconfirmed_id = self.shared.session().filter(|_| confirmed_id.is_none());
        let ended = self
            .attempt(
                message,
                events.clone(),
                confirmed_id.or(unconfirmed_id.clone()),
            )
            .await;
        match &ended {
            Err(error) if error.code == Code::TurnFailed && unconfirmed_id.is_some() => {
                self.shared.forget_session();
                let what = format!(
                    "the session of the canceled turn is gone; starting a new one: {error}"
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
        events: EventSink,
        session: Option<String>,
    ) -> Result<StopReason, Error> {
        let (Some(started), Some(client), Some(calls)) =
            (self.started.get(), self.client.get(), self.calls.get())
        else {
            return Err(Error::new(Code::SessionClosed, "the agent is not running"));
        };
        self.shared.streamed.store(false, Ordering::Relaxed);
        let (tool, arguments) = calls.next(message, session.as_deref());
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let turn = self.shared.slot.begin(Some(events));
        // In the other cases the call is dropped, which notifies the server that it is canceled.
        let answered = tokio::select! {
            biased;
            () = self.cancel.wait() => Ok(None),
            end = turn.current.ended() => Err(Failure::End(end)),
            result = client.call_tool(params) => match result {
                Ok(result) => Ok(Some(result)),
                Err(error) => Err(self.call_error(error, "tools/call")),
            },
        };
        let ended = match answered {
            Ok(Some(result)) => self.result(calls, result, &turn.current).await,
            Ok(None) => Ok(StopReason::Cancelled),
            Err(Failure::Error(error) | Failure::End(End::Error(error))) => Err(error),
            Err(Failure::End(_)) => Err(started.process.exit_error("during the turn").await),
        };
        self.shared.end_turn();
        // A server may respond while its own question is still open.
        self.broker.cancel_all();
        ended
    }

    async fn result(
        &self,
        calls: &Calls,
        result: CallToolResult,
        current: &CurrentTurn,
    ) -> Result<StopReason, Error> {
        let raw = serde_json::to_value(&result).unwrap_or(Value::Null);
        if let Some(id) = calls.session_of(&raw) {
            *self.session.lock() = Some(id);
        }
        let texts = result.content.iter().filter_map(|block| block.as_text());
        if result.is_error == Some(true) {
            let reasons: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
            let reason = match reasons.is_empty() {
                true => "no reason given".to_owned(),
                false => reasons.join("\n"),
            };
            let what = format!("the agent could not complete the turn: {reason}");
            return Err(self.turn_failed(&what, json!({ "result": raw })));
        }
        if let Some(events) = current.events() {
            for place in ["_meta", "structuredContent"] {
                let place = raw.get(place).unwrap_or(&Value::Null);
                events.report_usage(UsageReport::from_members(place));
            }
        }
        if calls.can_resume()
            && self.confirmed().is_none()
            && !self.warned_no_session.swap(true, Ordering::Relaxed)
        {
            let what = format!(
                "the result of `{}` contains no session id (searched {}): the next turn starts a new session",
                calls.start,
                calls.session_location()
            );
            self.context.observer.warning("session_unknown", &what);
        }
        if !self.shared.streamed.load(Ordering::Relaxed) {
            for text in texts.filter(|text| !text.text.is_empty()) {
                let text = text.text.clone();
                current.emit(StreamEvent::TextDelta { text }).await;
            }
        }
        match current.end() {
            Some(End::Error(error)) => Err(error),
            _ => Ok(stop_reason(&raw)),
        }
    }

    /// The session id that a result or the caller gave.
    fn confirmed(&self) -> Option<String> {
        let session = self.session.lock();
        session.clone()
    }

    fn call_error(&self, error: ServiceError, call: &str) -> Failure {
        match error {
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                Failure::End(End::OutputEnded)
            }
            ServiceError::McpError(error) => {
                let what = format!(
                    "the agent responded to `{call}` with error {}: {}",
                    error.code.0, error.message
                );
                let details = json!({ "code": error.code.0, "data": error.data });
                Failure::Error(self.turn_failed(&what, details))
            }
            ServiceError::UnexpectedResponse => Failure::Error(self.violation(&format!(
                "the agent's response to `{call}` is not a valid result: `{}`",
                self.shared.last_answer()
            ))),
            other => Failure::Error(self.violation(&format!("`{call}` failed: {other}"))),
        }
    }

    fn turn_failed(&self, what: &str, details: Value) -> Error {
        let error = Error::new(Code::TurnFailed, what).details(details);
        redact_error(&self.context, error)
    }

    fn violation(&self, what: &str) -> Error {
        let error = Error::new(Code::ProtocolViolation, what)
            .hint("the binary must speak MCP on stdin and stdout (AIP-45, protocol mcp)");
        redact_error(&self.context, error)
    }

    /// The error for a failed handshake.
    fn handshake_error(&self, error: &ClientInitializeError) -> Error {
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
    let reason = ["structuredContent", "_meta"].iter().find_map(|place| {
        let place = result.get(place)?;
        place.get("stopReason").or_else(|| place.get("stop_reason"))
    });
    let reason = reason.and_then(|reason| serde_json::from_value(reason.clone()).ok());
    reason.unwrap_or(StopReason::EndTurn)
}

enum Failure {
    Error(Error),
    End(End),
}

impl Arm for Mcp {
    fn handshake(&self) -> ArmFuture<'_, Negotiated> {
        Box::pin(self.connect())
    }

    fn open<'a>(&'a self, open: &'a OpenRequest) -> ArmFuture<'a, String> {
        Box::pin(async move {
            let Some(calls) = self.calls.get() else {
                return Err(Error::new(Code::SessionClosed, "the agent is not running"));
            };
            let Some(id) = &open.resume else {
                return Ok(super::provisional_id());
            };
            if !calls.can_resume() {
                let what = format!(
                    "cannot resume a session: the tool `{}` has no argument for a session id",
                    calls.reply
                );
                return Err(Error::new(Code::ContinuationUnsupported, what).hint(
                    "set `session_id_arg` (and `reply_tool`) in `metadata.agentproto.mcp_turn`",
                ));
            }
            *self.session.lock() = Some(id.clone());
            Ok(id.clone())
        })
    }

    fn turn<'a>(&'a self, message: &'a str, events: EventSink) -> ArmFuture<'a, StopReason> {
        Box::pin(async move {
            let ended = self.run_turn(message, events).await;
            self.cancel.reset();
            ended
        })
    }

    fn exited(&self) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let slot = Arc::clone(&self.shared.slot);
        Box::pin(async move { slot.wait_output_end().await })
    }

    fn cancel(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move {
            self.cancel.set();
            self.broker.cancel_all();
            Ok(())
        })
    }

    fn close(&self) -> ArmFuture<'_, ()> {
        Box::pin(async move {
            self.broker.cancel_all();
            if let Some(started) = self.started.get() {
                started.input.close().await;
            }
            Ok(())
        })
    }

    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(async move {
            self.broker.cancel_all();
            if let Some(client) = self.client.get() {
                client.cancellation_token().cancel();
            }
            let started = self.started.get()?;
            started.input.close().await;
            Some(started.process.stop().await)
        })
    }

    fn output_excerpt(&self) -> Pin<Box<dyn Future<Output = Option<String>> + Send + '_>> {
        Box::pin(async move {
            if let Some(garbage) = self.shared.first_garbage() {
                return Some(format!(
                    "; the agent wrote non-protocol output: `{garbage}`"
                ));
            }
            super::stderr_excerpt(&self.started.get()?.process).await
        })
    }

    fn session_id(&self) -> Option<String> {
        self.confirmed().or_else(|| self.shared.session())
    }
}
