//! The registry as an MCP server (AIP-46, MCP tools): five tools and three for questions and turns, over
//! streamable HTTP at `/mcp`, and over stdin and stdout. Tools and HTTP routes do the same on the same registry.

mod arguments;
mod bundles;
mod private_state;
mod relay;
mod serve;
mod stdio_transport;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};

use self::arguments::{Arguments, kind};
use self::tools::{ToolInfo, Verb};
use crate::error::ApiError;
use crate::model::Principal;
use crate::registry::Registry;

pub use self::bundles::BundleTools;
pub use self::private_state::PrivateState;
pub use self::relay::{Daemon, Relay};
pub use self::serve::{ServeEnd, stdio, streams};
pub use self::tools::TOOL_NAMES;

/// Idle time after which an MCP session is removed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum body size in bytes, the same as for the other routes.
const MAX_BODY: usize = 4 << 20;

/// What a host offers over MCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolOptions {
    /// Whether the later names of the tools are also offered.
    pub aliases: bool,
}

/// Where requests arrive, and whose sessions they use.
#[derive(Clone)]
enum Backend {
    /// The pipes of the process that started this one. The sessions are its own.
    Own(Registry),
    /// The same pipes, with the sessions of a running daemon.
    Relay(Relay),
    /// A route of the daemon. The principal was determined before.
    Http(Registry),
    /// The pipes of the process that started this one. They have no sessions.
    Bundles,
}

/// The handler of one connection.
#[derive(Clone)]
pub struct McpServer {
    backend: Backend,
    options: ToolOptions,
    /// The tools of CLI bundles.
    bundles: Option<Arc<BundleTools>>,
}

impl McpServer {
    /// For the one client on this process's pipes.
    pub fn own(registry: Registry, options: ToolOptions) -> Self {
        McpServer::new(Backend::Own(registry), options)
    }

    /// Like `own`, but with the sessions of a daemon.
    pub fn relay(relay: Relay, options: ToolOptions) -> Self {
        McpServer::new(Backend::Relay(relay), options)
    }

    /// Only the tools of CLI bundles, for the one client on this process's pipes.
    pub fn bundles(bundles: Arc<BundleTools>) -> Self {
        McpServer {
            bundles: Some(bundles),
            ..McpServer::new(Backend::Bundles, ToolOptions::default())
        }
    }

    fn new(backend: Backend, options: ToolOptions) -> Self {
        McpServer {
            backend,
            options,
            bundles: None,
        }
    }

    /// Everything that is offered: the sessions, then the bundles.
    fn tools(&self) -> Vec<Tool> {
        let sessions = match &self.backend {
            Backend::Bundles => &[],
            _ => tools::all(self.options.aliases),
        };
        let bundles = self.bundles.as_ref().map_or(&[][..], |b| b.tools());
        sessions.iter().chain(bundles).cloned().collect()
    }

    async fn call(
        &self,
        info: &ToolInfo,
        arguments: Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let (registry, principal) = match &self.backend {
            Backend::Relay(relay) => return relay.call(info.name, arguments).await,
            Backend::Bundles => return Err(unknown_tool(info.name)),
            Backend::Own(registry) => (registry, Principal::Local),
            Backend::Http(registry) => {
                let parts = context.extensions.get::<Parts>();
                let known = parts.and_then(|parts| parts.extensions.get::<Principal>());
                (registry, known.copied().unwrap_or(Principal::Remote))
            }
        };
        Ok(
            match info.verb.call(&arguments, registry, principal).await {
                Ok(value) => CallToolResult::structured(value),
                Err(error) => error_result(&error),
            },
        )
    }
}

/// The service behind `/mcp`. The router that nests it must check token, Host and Origin.
pub fn service(
    registry: Registry,
    options: ToolOptions,
) -> StreamableHttpService<McpServer, LocalSessionManager> {
    service_with(registry, options, None)
}

/// Like `service`, and also with the tools of CLI bundles.
pub fn service_with(
    registry: Registry,
    options: ToolOptions,
    bundles: Option<Arc<BundleTools>>,
) -> StreamableHttpService<McpServer, LocalSessionManager> {
    let server = McpServer {
        bundles,
        ..McpServer::new(Backend::Http(registry), options)
    };
    over_http(move || server.clone())
}

/// Any handler, configured for the router like the tools.
pub fn over_http<S: ServerHandler>(
    make: impl Fn() -> S + Send + Sync + 'static,
) -> StreamableHttpService<S, LocalSessionManager> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE_TIMEOUT);
    // The router checks Host and Origin for all routes, according to the host's address.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY);
    StreamableHttpService::new(move || Ok(make()), Arc::new(sessions), config)
}

/// The server info and instructions for clients.
fn server_info() -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools().build();
    let this = Implementation::new("agentproto", env!("CARGO_PKG_VERSION"))
        .with_title("agentproto agent sessions");
    ServerConfig::new(capabilities)
        .with_server_info(this)
        .with_instructions(
            "Runs coding agents on this machine as long-lived sessions (AIP-46). Start one with \
             start_agent_session, send prompts with prompt_agent_session, and read the reply with \
             get_agent_session_output until its turn-end line. Only one turn runs at a time. If \
             the output has an `[awaiting input]` line, answer it with list_agent_questions and \
             answer_agent_question, or end the turn with interrupt_agent_session: it does not go \
             on by itself. Without a user who can answer, start the session with `permissions`. Kill \
             sessions that are no longer needed.",
        )
}

/// Like `server_info`, for a server without sessions.
fn bundle_server_info() -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools().build();
    let this = Implementation::new("agentproto", env!("CARGO_PKG_VERSION"))
        .with_title("agentproto command-line tools");
    ServerConfig::new(capabilities)
        .with_server_info(this)
        .with_instructions(
            "Calls command-line tools on this machine. Each runs in the sandbox that its manifest \
             declares (AIP-29). A failed call is a result with `isError` and JSON text: \
             `error.code`, `error.message`, often `error.hint`, and the tool's exit code and \
             stderr. `auth_required` means that the user must log in first.",
        )
}

/// A protocol error with a hint in its data.
fn protocol_error(code: ErrorCode, what: impl Into<String>, hint: &str) -> ErrorData {
    ErrorData::new(code, what.into(), Some(json!({ "hint": hint })))
}

const SCHEMAS: &str = "see `tools/list` for the tools and the schema of their arguments";

fn unknown_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(64).collect();
    let what = format!("unknown tool `{name}`");
    protocol_error(ErrorCode::INVALID_PARAMS, what, SCHEMAS)
}

/// An error for the client's model, in the same JSON as over HTTP. It is not structured content,
/// which would have to match the tool's output schema.
fn error_result(error: &ApiError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_json().to_string())])
}

/// A known method with invalid parameters is not reported as an unknown method.
fn parameter_error(request: &CustomRequest) -> ErrorData {
    let named = request
        .params
        .as_ref()
        .and_then(|params| params.get("name"));
    let arguments = request
        .params
        .as_ref()
        .and_then(|params| params.get("arguments"));
    let invalid = |what: String| protocol_error(ErrorCode::INVALID_PARAMS, what, SCHEMAS);
    match (request.method.as_str(), named, arguments) {
        ("tools/call", Some(Value::String(_)), Some(arguments)) if !arguments.is_object() => {
            invalid(format!(
                "`arguments` must be an object, but is {}",
                kind(arguments)
            ))
        }
        ("tools/call", Some(Value::String(_)), _) => {
            invalid("invalid parameters for `tools/call`".to_owned())
        }
        ("tools/call", named, _) => {
            let is = named.map_or("missing", kind);
            invalid(format!("`name` must be a string, but is {is}"))
        }
        (method @ ("initialize" | "ping" | "tools/list"), _, _) => protocol_error(
            ErrorCode::INVALID_PARAMS,
            format!("invalid parameters for `{method}`"),
            "send the parameters that the session's MCP revision defines",
        ),
        (method, _, _) => {
            let method: String = method.chars().take(64).collect();
            protocol_error(
                ErrorCode::METHOD_NOT_FOUND,
                format!("unknown method `{method}`"),
                "this server supports `tools/list`, `tools/call` and `ping`",
            )
        }
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        match &self.backend {
            Backend::Bundles => bundle_server_info(),
            _ => server_info(),
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        first_page(page.as_ref())?;
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(bundles) = &self.bundles {
            let can_ask = !matches!(self.backend, Backend::Http(_)) || has_session(&context);
            let arguments = request.arguments.clone();
            let called = bundles.call(&request.name, arguments, &context, can_ask);
            if let Some(called) = called.await {
                return Ok(called?.into());
            }
        }
        let info = ToolInfo::find(&request.name, self.options.aliases);
        let info = info.ok_or_else(|| unknown_tool(&request.name))?;
        let arguments = Arguments::new(request.arguments);
        if info.alias == Some(&*request.name)
            && let Err(error) = reject_unsupported_arguments(&arguments)
        {
            return Ok(error_result(&error).into());
        }
        let call = self.call(info, arguments, &context);
        let done = match info.verb {
            // The client canceled the call, so a session that has not started yet is not started.
            // The other tools finish quickly or, like a kill, should run to their end.
            Verb::Start => tokio::select! {
                done = call => done,
                () = context.ct.cancelled() => {
                    let hint = "call it again if you still need it";
                    Err(protocol_error(ErrorCode::INTERNAL_ERROR, "the call was canceled", hint))
                }
            },
            _ => call.await,
        };
        Ok(done?.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(parameter_error(&request))
    }
}

/// Whether a call over HTTP belongs to a session. Without one, an answer of the client cannot be
/// assigned to the call.
fn has_session(context: &RequestContext<RoleServer>) -> bool {
    let parts = context.extensions.get::<Parts>();
    let named = parts.is_some_and(|parts| parts.headers.contains_key("mcp-session-id"));
    // Later versions have no sessions, and ignore the header.
    named
        && context
            .protocol_version()
            .is_some_and(|v| v.has_initialize())
}

/// There is only one page, so every cursor is unknown.
fn first_page(page: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor.as_ref()) {
        None => Ok(()),
        Some(_) => Err(protocol_error(
            ErrorCode::INVALID_PARAMS,
            "unknown cursor: all tools are on one page",
            "omit `cursor`",
        )),
    }
}

/// Rejects arguments of later AIP texts that this host does not support. If they were ignored, the
/// agent would run in another place or as another agent than requested.
fn reject_unsupported_arguments(arguments: &Arguments) -> Result<(), ApiError> {
    let known = [
        ("ground", "use `workspaceSlug` or `cwd`"),
        ("agent", "use `adapter`"),
    ];
    match known.iter().find(|(name, _)| arguments.has(name)) {
        None => Ok(()),
        Some((name, hint)) => Err(ApiError::new(
            400,
            "unsupported_argument",
            format!("`{name}` is not supported by this host"),
        )
        .hint(*hint)),
    }
}
