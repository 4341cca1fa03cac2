//! The tools of a daemon that runs already, from another process: each call is one request to
//! its `/mcp`, so that there is one registry, however many clients there are (A46-MCP-07).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{CallToolResult, ErrorCode, ErrorData, ProtocolVersion};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::{misused, refused};
use crate::error::ApiError;

/// A kill waits for an agent that takes its time; nothing else takes any.
const TIME_TO_ANSWER: Duration = Duration::from_secs(60);
const TIME_TO_CONNECT: Duration = Duration::from_secs(5);
/// Output that a client asked for, at the most.
const LONGEST_ANSWER: u64 = 64 << 20;

#[derive(Clone)]
pub struct Relay {
    look: Arc<Look>,
    daemon: Arc<Mutex<Daemon>>,
    agent: ureq::Agent,
}

/// Finds the daemon of this user as it is reached now.
pub type Look = dyn Fn() -> Option<Daemon> + Send + Sync;

#[derive(Clone, PartialEq, Eq)]
pub struct Daemon {
    /// Without a slash at its end.
    pub url: String,
    pub token: String,
}

/// Why there is no answer, and whether the daemon may have heard the question.
struct Lost {
    why: String,
    was_heard: bool,
}

impl Relay {
    /// To the daemon that is found, where it answers.
    pub fn find(look: impl Fn() -> Option<Daemon> + Send + Sync + 'static) -> Option<Relay> {
        let daemon = look()?;
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIME_TO_ANSWER))
            .timeout_connect(Some(TIME_TO_CONNECT))
            .http_status_as_error(false)
            // The token goes nowhere but where the daemon's own file says.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("agentproto/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let asked = agent.get(format!("{}/healthz", daemon.url)).call();
        let answers = asked.is_ok_and(|answer| answer.status().is_success());
        answers.then(|| Relay {
            look: Arc::new(look),
            daemon: Arc::new(Mutex::new(daemon)),
            agent,
        })
    }

    pub fn url(&self) -> String {
        self.daemon().url
    }

    fn daemon(&self) -> Daemon {
        let daemon = self.daemon.lock();
        daemon.clone()
    }

    /// Another daemon than the one that was asked, in the meantime.
    fn another(&self, than: &Daemon) -> Option<Daemon> {
        let now = (self.look)().filter(|now| now != than)?;
        let mut daemon = self.daemon.lock();
        *daemon = now.clone();
        Some(now)
    }

    pub async fn call(
        &self,
        tool: &'static str,
        arguments: Arguments,
    ) -> Result<CallToolResult, ErrorData> {
        let relay = self.clone();
        let asked = tokio::task::spawn_blocking(move || relay.ask(tool, &arguments.into_value()));
        let answer = asked
            .await
            .map_err(|e| misused(ErrorCode::INTERNAL_ERROR, e.to_string(), "call it again"))?;
        match answer {
            Ok(answer) => understood(answer),
            Err(error) => Ok(refused(&error)),
        }
    }

    /// A daemon that was started again has another address and token: it is asked instead, but
    /// only where the first one cannot have done anything.
    fn ask(&self, tool: &str, arguments: &Value) -> Result<Value, ApiError> {
        let daemon = self.daemon();
        match self.post(&daemon, tool, arguments) {
            Ok((401, body)) => match self.another(&daemon) {
                Some(now) => self.again(&now, tool, arguments),
                None => Err(refusal(401, &body)),
            },
            Ok((200, body)) => Ok(body),
            Ok((status, body)) => Err(refusal(status, &body)),
            Err(lost) => match self.another(&daemon).filter(|_| !lost.was_heard) {
                Some(now) => self.again(&now, tool, arguments),
                None => Err(unavailable(&daemon.url, &lost.why)),
            },
        }
    }

    fn again(&self, daemon: &Daemon, tool: &str, arguments: &Value) -> Result<Value, ApiError> {
        match self.post(daemon, tool, arguments) {
            Ok((200, body)) => Ok(body),
            Ok((status, body)) => Err(refusal(status, &body)),
            Err(lost) => Err(unavailable(&daemon.url, &lost.why)),
        }
    }

    /// One call without a session, as MCP has it since 2026-07-28.
    fn post(&self, daemon: &Daemon, tool: &str, arguments: &Value) -> Result<(u16, Value), Lost> {
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
        let mut answer = sent.map_err(|error| Lost {
            was_heard: !was_refused(&error),
            why: error.to_string(),
        })?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(LONGEST_ANSWER);
        let text = body.read_to_string().map_err(|error| Lost {
            why: error.to_string(),
            was_heard: true,
        })?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }
}

/// Nobody was there to hear it.
fn was_refused(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
        ureq::Error::Timeout(ureq::Timeout::Connect) => true,
        _ => false,
    }
}

/// A refusal of the daemon's door, before any tool was called.
fn refusal(status: u16, body: &Value) -> ApiError {
    let error = &body["error"];
    let said = |key: &str| error[key].as_str().or(error["data"][key].as_str());
    let message = said("message").map(str::to_owned);
    let message = message.unwrap_or_else(|| format!("the daemon answered {status}"));
    let error = ApiError::new(status, "daemon_refused", message);
    match said("hint") {
        Some(hint) => error.hint(hint),
        None => error.hint("`agentproto serve` starts it again"),
    }
}

fn unavailable(url: &str, why: &str) -> ApiError {
    ApiError::new(
        503,
        "daemon_unavailable",
        format!("the daemon at {url} does not answer: {why}"),
    )
    .hint("start it again with `agentproto serve`; sessions that lived have ended with it")
}

/// The answer of the daemon's tool, as it is.
fn understood(answer: Value) -> Result<CallToolResult, ErrorData> {
    if let Some(error) = answer.get("error") {
        return Err(serde_json::from_value(error.clone()).unwrap_or_else(|_| odd()));
    }
    let result = answer.get("result").cloned().unwrap_or(Value::Null);
    serde_json::from_value(result).map_err(|_| odd())
}

fn odd() -> ErrorData {
    let what = "the daemon's answer is no result of a tool";
    let hint = "`agentproto serve` of the same version as this one answers as it should";
    misused(ErrorCode::INTERNAL_ERROR, what, hint)
}
