//! Forwards tool calls to a running daemon. Each call is one request to its `/mcp`, so that there
//! is only one registry, however many clients there are (A46-MCP-07).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, ErrorCode, ErrorData, ProtocolVersion};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::{error_result, protocol_error};
use crate::error::ApiError;

/// Time limit of a call. Only a kill may take long, because it waits for the agent.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes.
const MAX_RESPONSE: u64 = 64 << 20;

/// A client of a running daemon.
#[derive(Clone)]
pub struct Relay {
    find_daemon: Arc<FindDaemon>,
    daemon: Arc<Mutex<Daemon>>,
    agent: ureq::Agent,
}

/// Finds the current address of this user's daemon.
pub type FindDaemon = dyn Fn() -> Option<Daemon> + Send + Sync;

/// Address of a running daemon.
#[derive(Clone, PartialEq, Eq)]
pub struct Daemon {
    /// Base URL, without a trailing slash.
    pub url: String,
    /// Bearer token for its API.
    pub token: String,
}

/// Why the response is missing, and whether the daemon may have received the request.
struct RequestError {
    why: String,
    may_have_run: bool,
}

impl Relay {
    /// Connects to the daemon, if there is one that responds.
    pub fn find(find_daemon: impl Fn() -> Option<Daemon> + Send + Sync + 'static) -> Option<Relay> {
        let daemon = find_daemon()?;
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(CALL_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            // The token is sent only to the address in the daemon's own file.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("agentproto/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let response = agent.get(format!("{}/healthz", daemon.url)).call();
        let answers = response.is_ok_and(|response| response.status().is_success());
        answers.then(|| Relay {
            find_daemon: Arc::new(find_daemon),
            daemon: Arc::new(Mutex::new(daemon)),
            agent,
        })
    }

    /// Base URL of the current daemon.
    pub fn url(&self) -> String {
        self.daemon().url
    }

    fn daemon(&self) -> Daemon {
        let daemon = self.daemon.lock();
        daemon.clone()
    }

    /// The current daemon, if it is not the one that was asked.
    fn restarted_daemon(&self, than: &Daemon) -> Option<Daemon> {
        let now = (self.find_daemon)().filter(|now| now != than)?;
        let mut daemon = self.daemon.lock();
        *daemon = now.clone();
        Some(now)
    }

    /// Calls a tool of the daemon and returns its result.
    pub async fn call(
        &self,
        tool: &'static str,
        arguments: Arguments,
    ) -> Result<CallToolResult, ErrorData> {
        let relay = self.clone();
        let call =
            tokio::task::spawn_blocking(move || relay.call_daemon(tool, &arguments.into_value()));
        let answer = call.await.map_err(|e| {
            protocol_error(ErrorCode::INTERNAL_ERROR, e.to_string(), "call it again")
        })?;
        match answer {
            Ok(answer) => tool_result(answer),
            Err(error) => Ok(error_result(&error)),
        }
    }

    /// A restarted daemon has another address and token. The call is repeated there only if the
    /// first daemon cannot have executed it.
    fn call_daemon(&self, tool: &str, arguments: &Value) -> Result<Value, ApiError> {
        let daemon = self.daemon();
        match self.post(&daemon, tool, arguments) {
            Ok((401, body)) => match self.restarted_daemon(&daemon) {
                Some(now) => self.retry(&now, tool, arguments),
                None => Err(daemon_error(401, &body)),
            },
            Ok((200, body)) => Ok(body),
            Ok((status, body)) => Err(daemon_error(status, &body)),
            Err(error) => match self
                .restarted_daemon(&daemon)
                .filter(|_| !error.may_have_run)
            {
                Some(now) => self.retry(&now, tool, arguments),
                None => Err(unavailable(&daemon.url, &error.why)),
            },
        }
    }

    fn retry(&self, daemon: &Daemon, tool: &str, arguments: &Value) -> Result<Value, ApiError> {
        match self.post(daemon, tool, arguments) {
            Ok((200, body)) => Ok(body),
            Ok((status, body)) => Err(daemon_error(status, &body)),
            Err(error) => Err(unavailable(&daemon.url, &error.why)),
        }
    }

    /// One call without an MCP session, as possible since MCP 2026-07-28.
    fn post(
        &self,
        daemon: &Daemon,
        tool: &str,
        arguments: &Value,
    ) -> Result<(u16, Value), RequestError> {
        let version = ProtocolVersion::V_2026_07_28;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": version.as_str(),
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {
                "name": "agentproto-mcp", "version": env!("CARGO_PKG_VERSION"),
            },
        });
        let call = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": { "name": tool, "arguments": arguments, "_meta": meta },
        });
        let sent = self
            .agent
            .post(format!("{}/mcp", daemon.url))
            .header("authorization", format!("Bearer {}", daemon.token))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", version.as_str())
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .send(call.to_string());
        let mut answer = sent.map_err(|error| RequestError {
            may_have_run: !was_refused(&error),
            why: error.to_string(),
        })?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(MAX_RESPONSE);
        let text = body.read_to_string().map_err(|error| RequestError {
            why: error.to_string(),
            may_have_run: true,
        })?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }
}

/// Whether the request cannot have reached a daemon.
fn was_refused(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
        ureq::Error::Timeout(ureq::Timeout::Connect) => true,
        _ => false,
    }
}

/// An error of the daemon from before a tool was called.
fn daemon_error(status: u16, body: &Value) -> ApiError {
    let error = &body["error"];
    let field = |key: &str| error[key].as_str().or(error["data"][key].as_str());
    let message = field("message").map(str::to_owned);
    let message = message.unwrap_or_else(|| format!("the daemon responded with {status}"));
    let error = ApiError::new(status, "daemon_refused", message);
    match field("hint") {
        Some(hint) => error.hint(hint),
        None => error.hint("start it again with `agentproto serve`"),
    }
}

fn unavailable(url: &str, why: &str) -> ApiError {
    ApiError::new(
        503,
        "daemon_unavailable",
        format!("the daemon at {url} does not answer: {why}"),
    )
    .hint("start it again with `agentproto serve`; its sessions have ended")
}

/// The result of the daemon's tool, unchanged.
fn tool_result(answer: Value) -> Result<CallToolResult, ErrorData> {
    if let Some(error) = answer.get("error") {
        return Err(serde_json::from_value(error.clone()).unwrap_or_else(|_| invalid_result()));
    }
    let result = answer.get("result").cloned().unwrap_or(Value::Null);
    serde_json::from_value(result).map_err(|_| invalid_result())
}

fn invalid_result() -> ErrorData {
    let what = "the daemon's response is not a tool result";
    let hint = "run `agentproto serve` with the same version as this program";
    protocol_error(ErrorCode::INTERNAL_ERROR, what, hint)
}
