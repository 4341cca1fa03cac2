//! MCP servers that record how an agent connects to them: the mock server for stdio, and a listener
//! on loopback for HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

/// The first request, or the last `initialize` if there was one.
type RecordedRequest = Arc<Mutex<Value>>;

pub struct McpRecorder {
    descriptor: Value,
    storage: Storage,
}

enum Storage {
    File(PathBuf),
    RecordedRequest(RecordedRequest, tokio::task::AbortHandle),
}

impl McpRecorder {
    pub async fn new(
        name: &str,
        transport: &str,
        env: &Value,
        args: &Value,
        root: &Path,
    ) -> Result<McpRecorder, String> {
        match transport {
            "http" => McpRecorder::http(name, env).await,
            _ => McpRecorder::stdio(name, env, args, root),
        }
    }

    fn stdio(name: &str, env: &Value, args: &Value, root: &Path) -> Result<McpRecorder, String> {
        let program = agentproto_sandbox::helper::own_path().map_err(|e| e.to_string())?;
        let file = root.join(format!("recorded-{name}.json"));
        let env = env.as_object().cloned().unwrap_or_default();
        let names: Vec<&str> = env.keys().map(String::as_str).collect();
        let mut argv = vec![
            json!("mock"),
            json!("mcp"),
            // The mock options of the agent under test must not apply to this server.
            json!("--scenario=default"),
            json!("--mutant="),
            json!("--variant="),
            json!("--"),
            json!("--record"),
            json!(file),
            json!("--record-env"),
            json!(names.join(",")),
            json!("--canary"),
            json!(name),
        ];
        argv.extend(args.as_array().cloned().unwrap_or_default());
        let variables: Vec<Value> = env
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let descriptor = json!({"name": name, "command": program, "args": argv, "env": variables});
        Ok(McpRecorder {
            descriptor,
            storage: Storage::File(file),
        })
    }

    /// The HTTP server. The `env` of the step becomes the headers.
    async fn http(name: &str, headers: &Value) -> Result<McpRecorder, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let recorded = RecordedRequest::default();
        let state = (Arc::clone(&recorded), Arc::from(name));
        let server = Router::new().fallback(answer).with_state(state);
        let task = tokio::spawn(async move { axum::serve(listener, server).await });
        let headers = headers.as_object().cloned().unwrap_or_default();
        let headers: Vec<Value> = headers
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let url = format!("http://{address}/mcp");
        let descriptor = json!({"type": "http", "name": name, "url": url, "headers": headers});
        Ok(McpRecorder {
            descriptor,
            storage: Storage::RecordedRequest(recorded, task.abort_handle()),
        })
    }

    pub fn descriptor(&self) -> Value {
        self.descriptor.clone()
    }

    /// What was recorded, or null if the agent has not connected.
    pub fn record(&self) -> Value {
        match &self.storage {
            Storage::File(path) => {
                let text = std::fs::read(path).ok();
                let value = text.and_then(|text| serde_json::from_slice(&text).ok());
                value.unwrap_or(Value::Null)
            }
            Storage::RecordedRequest(recorded, _) => recorded.lock().clone(),
        }
    }
}

impl Drop for McpRecorder {
    fn drop(&mut self) {
        if let Storage::RecordedRequest(_, task) = &self.storage {
            task.abort();
        }
    }
}

/// Records the headers, and answers like an MCP server.
async fn answer(
    State((recorded, name)): State<(RecordedRequest, Arc<str>)>,
    (verb, uri, version): (Method, Uri, Version),
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let method = message.get("method").and_then(Value::as_str).unwrap_or("");
    {
        let mut recorded = recorded.lock();
        if recorded.is_null() || method == "initialize" {
            let headers: Map<String, Value> = headers
                .iter()
                .map(|(name, value)| (name.to_string(), lossy_text(value.as_bytes())))
                .collect();
            let request = format!("{verb} {uri} {version:?}");
            *recorded = json!({"request": request, "headers": headers, "method": method});
        }
    }
    let result = match method {
        "initialize" => {
            let version = message.pointer("/params/protocolVersion").cloned();
            Ok(json!({
                "protocolVersion": version.unwrap_or(json!("2025-06-18")),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "agentproto-recorder", "version": env!("CARGO_PKG_VERSION")},
            }))
        }
        "tools/list" => Ok(json!({"tools": [{
            "name": "certify_canary",
            "description": "Returns the canary of this server.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": true},
        }]})),
        "tools/call" => Ok(json!({
            "content": [{"type": "text", "text": format!("canary of {name}")}],
        })),
        "ping" => Ok(json!({})),
        _ => Err(json!({"code": -32601, "message": "no such method"})),
    };
    let json = [(header::CONTENT_TYPE, "application/json")];
    match (message.get("id"), result) {
        (Some(id), Ok(result)) => {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            (json, answer.to_string()).into_response()
        }
        (Some(id), Err(error)) => {
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
            (json, answer.to_string()).into_response()
        }
        (None, _) if verb == Method::GET => (StatusCode::METHOD_NOT_ALLOWED, json).into_response(),
        (None, _) => (StatusCode::ACCEPTED, json).into_response(),
    }
}

fn lossy_text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}
