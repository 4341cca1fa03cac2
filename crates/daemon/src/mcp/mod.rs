//! The registry as an MCP server (AIP-46, MCP tools): five tools, behind `/mcp` over streamable
//! HTTP and on standard input and output. A tool and a route do the same to the same registry.

mod arguments;
mod lines;
mod own;
mod relay;
mod serve;
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
use self::tools::{Face, Verb};
use crate::error::ApiError;
use crate::model::Principal;
use crate::registry::Registry;

pub use self::own::Own;
pub use self::relay::{Daemon, Relay};
pub use self::serve::{End, stdio};
pub use self::tools::TOOL_NAMES;

/// A client may be quiet for as long as a working day; what it left is forgotten then.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// As the other routes have it.
const LARGEST_BODY: usize = 4 << 20;

/// What a host offers over MCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// The tools' later names, too.
    pub aliases: bool,
}

/// Where a request comes in, and whose sessions it is about.
#[derive(Clone)]
enum Door {
    /// The pipes of whoever started this process: the sessions are its own.
    Own(Registry),
    /// The same pipes, to the sessions of a daemon that runs already.
    Relay(Relay),
    /// A route of the daemon; who asks was found out before it came here.
    Http(Registry),
}

/// The handler of one connection.
#[derive(Clone)]
pub struct Server {
    door: Door,
    offer: Offer,
}

impl Server {
    /// For the one client on this process's pipes.
    pub fn own(registry: Registry, offer: Offer) -> Self {
        let door = Door::Own(registry);
        Server { door, offer }
    }

    /// The same, on the sessions of a daemon.
    pub fn relay(relay: Relay, offer: Offer) -> Self {
        let door = Door::Relay(relay);
        Server { door, offer }
    }

    async fn call(
        &self,
        face: &Face,
        arguments: Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let (registry, principal) = match &self.door {
            Door::Relay(relay) => return relay.call(face.name, arguments).await,
            Door::Own(registry) => (registry, Principal::Local),
            Door::Http(registry) => {
                let parts = context.extensions.get::<Parts>();
                let known = parts.and_then(|parts| parts.extensions.get::<Principal>());
                (registry, known.copied().unwrap_or(Principal::Remote))
            }
        };
        Ok(
            match face.verb.call(&arguments, registry, principal).await {
                Ok(value) => CallToolResult::structured(value),
                Err(error) => refused(&error),
            },
        )
    }
}

/// The service behind `/mcp`. Whoever nests it has checked token, Host and Origin before.
pub fn service(
    registry: Registry,
    offer: Offer,
) -> StreamableHttpService<Server, LocalSessionManager> {
    let door = Door::Http(registry);
    let server = Server { door, offer };
    over_http(move || server.clone())
}

/// Any handler, set up for our router as the tools are.
pub fn over_http<S: ServerHandler>(
    make: impl Fn() -> S + Send + Sync + 'static,
) -> StreamableHttpService<S, LocalSessionManager> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(IDLE);
    // The router checks Host and Origin for all routes, with what the host is bound to.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_json_response(true)
        .with_max_request_body_bytes(LARGEST_BODY);
    StreamableHttpService::new(move || Ok(make()), Arc::new(sessions), config)
}

/// How a host introduces itself.
fn introduction() -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools().build();
    let this = Implementation::new("agentproto", env!("CARGO_PKG_VERSION"))
        .with_title("agentproto agent sessions");
    ServerConfig::new(capabilities)
        .with_server_info(this)
        .with_instructions(
            "Runs coding agents on this machine as long-lived sessions (AIP-46). Start one with \
             start_agent_session, then prompt_agent_session and read the reply with \
             get_agent_session_output until its turn-end line; one turn at a time. Kill sessions \
             that are no longer needed.",
        )
}

/// An error of the protocol says what to do, too: as `hint` of its data.
fn misused(code: ErrorCode, what: impl Into<String>, hint: &str) -> ErrorData {
    ErrorData::new(code, what.into(), Some(json!({ "hint": hint })))
}

const SCHEMAS: &str = "`tools/list` has the names of the tools and the schema of their arguments";

fn unknown_tool(name: &str) -> ErrorData {
    let name: String = name.chars().take(64).collect();
    let what = format!("there is no tool `{name}`");
    misused(ErrorCode::INVALID_PARAMS, what, SCHEMAS)
}

/// A refusal as the client's model can read it: the same JSON that HTTP answers with. Not as
/// structured content, which has to be as the tool's output schema says.
fn refused(error: &ApiError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_json().to_string())])
}

/// A known method whose parameters could not be read is no unknown method.
fn unreadable(request: &CustomRequest) -> ErrorData {
    let named = request
        .params
        .as_ref()
        .and_then(|params| params.get("name"));
    let arguments = request
        .params
        .as_ref()
        .and_then(|params| params.get("arguments"));
    let invalid = |what: String| misused(ErrorCode::INVALID_PARAMS, what, SCHEMAS);
    match (request.method.as_str(), named, arguments) {
        ("tools/call", Some(Value::String(_)), Some(arguments)) if !arguments.is_object() => {
            invalid(format!(
                "`arguments` has to be an object, but is {}",
                kind(arguments)
            ))
        }
        ("tools/call", Some(Value::String(_)), _) => {
            invalid("the parameters of `tools/call` cannot be read".to_owned())
        }
        ("tools/call", named, _) => {
            let is = named.map_or("missing", kind);
            invalid(format!("`name` has to be a string, but is {is}"))
        }
        (method @ ("initialize" | "ping" | "tools/list"), _, _) => misused(
            ErrorCode::INVALID_PARAMS,
            format!("the parameters of `{method}` cannot be read"),
            "send them as the revision of MCP has it that the session speaks",
        ),
        (method, _, _) => {
            let method: String = method.chars().take(64).collect();
            misused(
                ErrorCode::METHOD_NOT_FOUND,
                format!("there is no method `{method}`"),
                "this server has `tools/list`, `tools/call` and `ping`",
            )
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        introduction()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let mut offered = tools::all(self.offer.aliases).iter();
        offered.find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        first_page(page.as_ref())?;
        let offered = tools::all(self.offer.aliases);
        Ok(ListToolsResult::with_all_items(offered.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let face = Face::find(&request.name, self.offer.aliases);
        let face = face.ok_or_else(|| unknown_tool(&request.name))?;
        let arguments = Arguments::new(request.arguments);
        if request.name == face.alias
            && let Err(error) = not_of_later_texts(&arguments)
        {
            return Ok(refused(&error).into());
        }
        let call = self.call(face, arguments, &context);
        let done = match face.verb {
            // Nobody waits any more: what has not begun does not begin. The other verbs are
            // done in a moment, or, as a kill, should come to their end.
            Verb::Start => tokio::select! {
                done = call => done,
                () = context.ct.cancelled() => {
                    let hint = "call it again if it is still wanted";
                    Err(misused(ErrorCode::INTERNAL_ERROR, "the call was cancelled", hint))
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
        Err(unreadable(&request))
    }
}

/// There is one page only: a cursor is none of ours.
fn first_page(page: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor.as_ref()) {
        None => Ok(()),
        Some(_) => Err(misused(
            ErrorCode::INVALID_PARAMS,
            "`cursor` is none that this server gave: all tools are on one page",
            "leave `cursor` out",
        )),
    }
}

/// What a later text lets a caller ask for and this host does not do: left out silently, the
/// agent would run in another place, or as another one, than was asked.
fn not_of_later_texts(arguments: &Arguments) -> Result<(), ApiError> {
    let known = [
        ("ground", "name a `workspaceSlug` or a `cwd`"),
        ("agent", "name an `adapter`"),
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
