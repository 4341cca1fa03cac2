//! A small MCP client over streamable HTTP, or over the standard streams of a server. Responses over
//! HTTP may be JSON or an event stream.

use std::time::Duration;

use serde_json::{Value, json};

use super::context::{ProbeContext, RequestAuth, read_json};
use super::door::StdioConnection;
use super::http::HttpError;
use super::sse::SseEvent;
use crate::run::case::NoVerdict;

/// The protocol version that the client requests. The host may choose a different one.
pub const VERSION: &str = "2025-06-18";
/// Maximum number of pages of tools that are read.
const PAGES: usize = 50;

pub struct Mcp {
    /// The connection, if it is not HTTP.
    stdio: Option<StdioConnection>,
    session: Option<String>,
    version: Option<String>,
    next: u64,
    /// All tools, in the order of the pages.
    pub tools: Vec<Value>,
    pub lines: Vec<u64>,
}

/// The response to one request.
pub struct McpResponse {
    pub message: Value,
    pub lines: Vec<u64>,
}

/// The result of a tool call.
pub struct ToolResult {
    /// The message of a JSON-RPC error, or of a result with `isError`.
    pub error: Option<String>,
    /// The structured content, or the text parsed as JSON.
    pub value: Value,
    pub text: String,
    pub lines: Vec<u64>,
}

/// Why a request failed.
enum McpError {
    /// The host has no MCP server at this path.
    Absent(String),
    Failed(String),
}

impl Mcp {
    /// Opens a connection and reads the tools. Not applicable without an MCP server.
    pub async fn open(probe: &mut ProbeContext<'_>) -> Result<Mcp, NoVerdict> {
        let stdio = StdioConnection::open(probe).await.transpose();
        let mut mcp = Mcp {
            stdio: stdio.map_err(NoVerdict::NotVerified)?,
            session: None,
            version: None,
            next: 0,
            tools: Vec::new(),
            lines: Vec::new(),
        };
        let me = json!({"name": "agentproto", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": me});
        let opened = mcp.request(probe, "initialize", params).await;
        let response = opened.map_err(|error| match error {
            McpError::Absent(why) => NoVerdict::NotApplicable(format!(
                "the host has no MCP server at {} ({why})",
                probe.subject.host.mcp
            )),
            McpError::Failed(why) => {
                NoVerdict::NotVerified(format!("cannot connect to the MCP server: {why}"))
            }
        })?;
        let Some(result) = response.message.get("result").filter(|r| r.is_object()) else {
            let why = format!(
                "cannot connect to the MCP server: {}",
                response.message["error"]
            );
            return Err(NoVerdict::NotVerified(why));
        };
        mcp.version = result["protocolVersion"].as_str().map(str::to_owned);
        probe.outcome.initialize = result.clone();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        match &mut mcp.stdio {
            Some(stdio) => {
                let _ = stdio.send(probe, ready.to_string().as_bytes()).await;
            }
            None => {
                let request = mcp.http(probe, &ready);
                let _ = probe.exchange(&request).await;
            }
        }
        mcp.list(probe).await?;
        Ok(mcp)
    }

    async fn list(&mut self, probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
        let mut params = json!({});
        for _ in 0..PAGES {
            let page = self.call(probe, "tools/list", params).await?;
            self.lines = page.lines;
            let tools = page
                .message
                .pointer("/result/tools")
                .and_then(Value::as_array);
            let Some(tools) = tools else {
                let why = format!("`tools/list` was answered with {}", page.message);
                return Err(NoVerdict::NotVerified(why));
            };
            self.tools.extend(tools.iter().cloned());
            match page
                .message
                .pointer("/result/nextCursor")
                .and_then(Value::as_str)
            {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        Ok(())
    }

    pub fn tool(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| tool["name"] == *name)
    }

    async fn call(
        &mut self,
        probe: &mut ProbeContext<'_>,
        method: &str,
        params: Value,
    ) -> Result<McpResponse, NoVerdict> {
        let response = self.request(probe, method, params).await;
        response.map_err(|error| match error {
            McpError::Absent(why) | McpError::Failed(why) => {
                NoVerdict::NotVerified(format!("`{method}` over MCP: {why}"))
            }
        })
    }

    /// Calls a tool.
    pub async fn call_tool(
        &mut self,
        probe: &mut ProbeContext<'_>,
        name: &str,
        arguments: Value,
    ) -> Result<ToolResult, NoVerdict> {
        let params = json!({"name": name, "arguments": arguments});
        let response = self.call(probe, "tools/call", params).await?;
        let error = response
            .message
            .get("error")
            .map(|error| match error["message"].as_str() {
                Some(message) => message.to_owned(),
                None => error.to_string(),
            });
        let result = &response.message["result"];
        let content = result["content"].as_array().into_iter().flatten();
        let texts: Vec<&str> = content.filter_map(|part| part["text"].as_str()).collect();
        let text = texts.join("\n");
        let structured = result
            .get("structuredContent")
            .filter(|value| !value.is_null());
        let value = match structured {
            Some(value) => value.clone(),
            None => read_json(text.as_bytes()).unwrap_or(Value::Null),
        };
        Ok(ToolResult {
            error: error.or_else(|| (result["isError"] == true).then(|| text.clone())),
            value,
            text,
            lines: response.lines,
        })
    }

    fn http(&self, probe: &ProbeContext<'_>, message: &Value) -> super::http::Request {
        let accept = "application/json, text/event-stream";
        let mut more = vec![("accept", accept.to_owned())];
        if let Some(session) = &self.session {
            more.push(("mcp-session-id", session.clone()));
        }
        if let Some(version) = &self.version {
            more.push(("mcp-protocol-version", version.clone()));
        }
        let body = message.to_string().into_bytes();
        let path = probe.subject.host.mcp.clone();
        probe.request("POST", &path, Some(&body), RequestAuth::Own, &more)
    }

    async fn request(
        &mut self,
        probe: &mut ProbeContext<'_>,
        method: &str,
        params: Value,
    ) -> Result<McpResponse, McpError> {
        self.next += 1;
        let id = self.next;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if let Some(stdio) = &mut self.stdio {
            let sent = stdio.send(probe, message.to_string().as_bytes()).await;
            let sent = sent.map_err(McpError::Failed)?;
            let response = stdio.response(probe, id, probe.response_limit()).await;
            let (message, line) = response
                .ok_or_else(|| McpError::Failed("the request was not answered".to_owned()))?;
            return Ok(McpResponse {
                message,
                lines: vec![sent, line],
            });
        }
        let request = self.http(probe, &message);
        let failed = |(error, _): (HttpError, [u64; 2])| McpError::Failed(error.describe());
        let mut stream = probe.open_stream_for(&request).await.map_err(failed)?;
        let head = stream.head.clone();
        let mut lines = stream.lines.to_vec();
        if [404, 405, 501].contains(&head.status) && self.session.is_none() {
            return Err(McpError::Absent(head.line.clone()));
        }
        if !(200..300).contains(&head.status) {
            return Err(McpError::Failed(format!("answered with {}", head.line)));
        }
        if let Some(session) = head.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let response_limit = probe.response_limit();
        let message = match head.media_type().as_str() {
            "text/event-stream" => {
                let answer = |events: &[SseEvent]| {
                    events.iter().find_map(|event| {
                        let message = read_json(event.data.as_bytes()).ok()?;
                        (message["id"] == id && message.get("method").is_none())
                            .then(|| (message, event.lines.clone()))
                    })
                };
                stream
                    .until(response_limit, |events| answer(events).is_some())
                    .await;
                let (message, at) = answer(&stream.events()).ok_or_else(|| {
                    McpError::Failed("the stream contains no response".to_owned())
                })?;
                lines.extend(at);
                message
            }
            _ => {
                let (body, line) = stream
                    .read_body(response_limit.max(Duration::from_millis(10)))
                    .await
                    .map_err(|error| McpError::Failed(error.describe()))?;
                lines.extend(line);
                read_json(&body)
                    .map_err(|why| McpError::Failed(format!("the response is not JSON: {why}")))?
            }
        };
        if message["id"] != id {
            return Err(McpError::Failed(format!(
                "the response has a different id: {message}"
            )));
        }
        Ok(McpResponse { message, lines })
    }
}

/// The lines of an output, in any shape that a host may return.
pub fn lines_of(tool_result: &ToolResult) -> Option<Vec<String>> {
    let one = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => ["line", "text"]
            .into_iter()
            .find_map(|key| members.get(key)?.as_str().map(str::to_owned)),
        _ => None,
    };
    let all = |items: &Vec<Value>| items.iter().map(one).collect::<Option<Vec<String>>>();
    match &tool_result.value {
        Value::Array(items) => all(items),
        Value::Object(members) => {
            let named = ["lines", "output"]
                .into_iter()
                .find_map(|key| members.get(key));
            let any = || members.values().find(|value| value.is_array());
            match named.or_else(any)? {
                Value::Array(items) => all(items),
                Value::String(text) => Some(text.lines().map(str::to_owned).collect()),
                _ => None,
            }
        }
        _ => Some(tool_result.text.lines().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_result(value: Value, text: &str) -> ToolResult {
        ToolResult {
            error: None,
            value,
            text: text.to_owned(),
            lines: Vec::new(),
        }
    }

    #[test]
    fn lines_are_found_in_any_shape() {
        let wanted = Some(vec!["a".to_owned(), "b".to_owned()]);
        for (value, text) in [
            (json!({"sessionId": "s", "lines": ["a", "b"]}), ""),
            (
                json!({"lines": [{"line": "a", "stream": "stdout"}, {"line": "b"}]}),
                "",
            ),
            (json!({"output": "a\nb"}), ""),
            (json!(["a", "b"]), ""),
            (json!({"tail": ["a", "b"], "count": 2}), ""),
            (Value::Null, "a\nb\n"),
        ] {
            assert_eq!(
                lines_of(&tool_result(value.clone(), text)),
                wanted,
                "{value}"
            );
        }
        assert_eq!(lines_of(&tool_result(json!({"lines": [1]}), "")), None);
        assert_eq!(lines_of(&tool_result(json!({"n": 1}), "")), None);
    }
}
