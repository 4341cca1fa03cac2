//! A small MCP client over streamable HTTP. Responses may be JSON or an event stream.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::Trouble;
use super::sse::Event;
use super::stand::{Stand, Who, read_json};
use crate::run::case::Blocked;

/// The protocol version that the client requests. The host may choose a different one.
const VERSION: &str = "2025-06-18";
/// Maximum number of pages of tools that are read.
const PAGES: usize = 50;

pub struct Mcp {
    session: Option<String>,
    version: Option<String>,
    next: u64,
    /// All tools, in the order of the pages.
    pub tools: Vec<Value>,
    pub lines: Vec<u64>,
}

/// The response to one request.
pub struct Said {
    pub message: Value,
    pub lines: Vec<u64>,
}

/// The result of a tool call.
pub struct Given {
    /// The message of a JSON-RPC error, or of a result with `isError`.
    pub error: Option<String>,
    /// The structured content, or the text parsed as JSON.
    pub value: Value,
    pub text: String,
    pub lines: Vec<u64>,
}

/// Why a request failed.
enum Closed {
    /// The host has no MCP server at this path.
    Absent(String),
    Failed(String),
}

impl Mcp {
    /// Opens a connection and reads the tools. Not applicable without an MCP server.
    pub async fn open(stand: &mut Stand<'_>) -> Result<Mcp, Blocked> {
        let mut mcp = Mcp {
            session: None,
            version: None,
            next: 0,
            tools: Vec::new(),
            lines: Vec::new(),
        };
        let me = json!({"name": "agentproto", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": me});
        let opened = mcp.request(stand, "initialize", params).await;
        let said = opened.map_err(|closed| match closed {
            Closed::Absent(why) => Blocked::NotApplicable(format!(
                "the host has no MCP server at {} ({why})",
                stand.subject.host.mcp
            )),
            Closed::Failed(why) => {
                Blocked::NotVerified(format!("cannot connect to the MCP server: {why}"))
            }
        })?;
        let Some(result) = said.message.get("result").filter(|r| r.is_object()) else {
            let why = format!(
                "cannot connect to the MCP server: {}",
                said.message["error"]
            );
            return Err(Blocked::NotVerified(why));
        };
        mcp.version = result["protocolVersion"].as_str().map(str::to_owned);
        stand.played.initialize = result.clone();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let request = mcp.http(stand, &ready);
        let _ = stand.exchange(&request).await;
        mcp.list(stand).await?;
        Ok(mcp)
    }

    async fn list(&mut self, stand: &mut Stand<'_>) -> Result<(), Blocked> {
        let mut params = json!({});
        for _ in 0..PAGES {
            let page = self.call(stand, "tools/list", params).await?;
            self.lines = page.lines;
            let tools = page
                .message
                .pointer("/result/tools")
                .and_then(Value::as_array);
            let Some(tools) = tools else {
                let why = format!("`tools/list` was answered with {}", page.message);
                return Err(Blocked::NotVerified(why));
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
        stand: &mut Stand<'_>,
        method: &str,
        params: Value,
    ) -> Result<Said, Blocked> {
        let said = self.request(stand, method, params).await;
        said.map_err(|closed| match closed {
            Closed::Absent(why) | Closed::Failed(why) => {
                Blocked::NotVerified(format!("`{method}` over MCP: {why}"))
            }
        })
    }

    /// Calls a tool.
    pub async fn give(
        &mut self,
        stand: &mut Stand<'_>,
        name: &str,
        arguments: Value,
    ) -> Result<Given, Blocked> {
        let params = json!({"name": name, "arguments": arguments});
        let said = self.call(stand, "tools/call", params).await?;
        let error = said
            .message
            .get("error")
            .map(|error| match error["message"].as_str() {
                Some(message) => message.to_owned(),
                None => error.to_string(),
            });
        let result = &said.message["result"];
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
        Ok(Given {
            error: error.or_else(|| (result["isError"] == true).then(|| text.clone())),
            value,
            text,
            lines: said.lines,
        })
    }

    fn http(&self, stand: &Stand<'_>, message: &Value) -> super::http::Request {
        let accept = "application/json, text/event-stream";
        let mut more = vec![("accept", accept.to_owned())];
        if let Some(session) = &self.session {
            more.push(("mcp-session-id", session.clone()));
        }
        if let Some(version) = &self.version {
            more.push(("mcp-protocol-version", version.clone()));
        }
        let body = message.to_string().into_bytes();
        let path = stand.subject.host.mcp.clone();
        stand.request("POST", &path, Some(&body), Who::Ourselves, &more)
    }

    async fn request(
        &mut self,
        stand: &mut Stand<'_>,
        method: &str,
        params: Value,
    ) -> Result<Said, Closed> {
        self.next += 1;
        let id = self.next;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = self.http(stand, &message);
        let failed = |(trouble, _): (Trouble, [u64; 2])| Closed::Failed(trouble.told());
        let mut follow = stand.follow_request(&request).await.map_err(failed)?;
        let head = follow.head.clone();
        let mut lines = follow.lines.to_vec();
        if [404, 405, 501].contains(&head.status) && self.session.is_none() {
            return Err(Closed::Absent(head.line.clone()));
        }
        if !(200..300).contains(&head.status) {
            return Err(Closed::Failed(format!("answered with {}", head.line)));
        }
        if let Some(session) = head.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let patience = stand.patience();
        let message = match head.media_type().as_str() {
            "text/event-stream" => {
                let answer = |events: &[Event]| {
                    events.iter().find_map(|event| {
                        let message = read_json(event.data.as_bytes()).ok()?;
                        (message["id"] == id && message.get("method").is_none())
                            .then(|| (message, event.lines.clone()))
                    })
                };
                follow
                    .until(patience, |events| answer(events).is_some())
                    .await;
                let (message, at) = answer(&follow.events())
                    .ok_or_else(|| Closed::Failed("the stream contains no response".to_owned()))?;
                lines.extend(at);
                message
            }
            _ => {
                let (body, line) = follow
                    .whole(patience.max(Duration::from_millis(10)))
                    .await
                    .map_err(|trouble| Closed::Failed(trouble.told()))?;
                lines.extend(line);
                read_json(&body)
                    .map_err(|why| Closed::Failed(format!("the response is not JSON: {why}")))?
            }
        };
        if message["id"] != id {
            return Err(Closed::Failed(format!(
                "the response has a different id: {message}"
            )));
        }
        Ok(Said { message, lines })
    }
}

/// The lines of an output, in any shape that a host may return.
pub fn lines_of(given: &Given) -> Option<Vec<String>> {
    let one = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => ["line", "text"]
            .into_iter()
            .find_map(|key| members.get(key)?.as_str().map(str::to_owned)),
        _ => None,
    };
    let all = |items: &Vec<Value>| items.iter().map(one).collect::<Option<Vec<String>>>();
    match &given.value {
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
        _ => Some(given.text.lines().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(value: Value, text: &str) -> Given {
        Given {
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
            assert_eq!(lines_of(&given(value.clone(), text)), wanted, "{value}");
        }
        assert_eq!(lines_of(&given(json!({"lines": [1]}), "")), None);
        assert_eq!(lines_of(&given(json!({"n": 1}), "")), None);
    }
}
