//! MCP servers that write down how an agent reached them: on stdio our own mock, over HTTP a
//! listener on loopback.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request of a test is small.
const MOST: usize = 1 << 20;

pub struct Recorder {
    descriptor: Value,
    kept: Kept,
}

enum Kept {
    File(PathBuf),
    Heard(Arc<Mutex<Value>>, tokio::task::AbortHandle),
}

impl Recorder {
    pub async fn new(
        name: &str,
        transport: &str,
        env: &Value,
        args: &Value,
        root: &Path,
    ) -> Result<Recorder, String> {
        match transport {
            "http" => Recorder::http(name, env).await,
            _ => Recorder::stdio(name, env, args, root),
        }
    }

    fn stdio(name: &str, env: &Value, args: &Value, root: &Path) -> Result<Recorder, String> {
        let program = agentproto_sandbox::helper::own_path().map_err(|e| e.to_string())?;
        let file = root.join(format!("recorded-{name}.json"));
        let env = env.as_object().cloned().unwrap_or_default();
        let names: Vec<&str> = env.keys().map(String::as_str).collect();
        let mut argv = vec![
            json!("mock"),
            json!("mcp"),
            // What the agent under test was told is not meant for this one.
            json!("--scenario=default"),
            json!("--mutant="),
            json!("--variant="),
            json!("--"),
            json!("--record"),
            json!(file),
            json!("--record-env"),
            json!(names.join(",")),
        ];
        argv.extend(args.as_array().cloned().unwrap_or_default());
        let variables: Vec<Value> = env
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let descriptor = json!({"name": name, "command": program, "args": argv, "env": variables});
        Ok(Recorder {
            descriptor,
            kept: Kept::File(file),
        })
    }

    /// `env` are the headers.
    async fn http(name: &str, headers: &Value) -> Result<Recorder, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let heard = Arc::new(Mutex::new(Value::Null));
        let to = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let to = Arc::clone(&to);
                tokio::spawn(async move {
                    let most = Duration::from_secs(10);
                    let _ = tokio::time::timeout(most, answer(stream, to)).await;
                });
            }
        });
        let headers = headers.as_object().cloned().unwrap_or_default();
        let headers: Vec<Value> = headers
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let url = format!("http://{address}/mcp");
        let descriptor = json!({"type": "http", "name": name, "url": url, "headers": headers});
        Ok(Recorder {
            descriptor,
            kept: Kept::Heard(heard, task.abort_handle()),
        })
    }

    pub fn descriptor(&self) -> Value {
        self.descriptor.clone()
    }

    /// What was recorded; null so far.
    pub fn record(&self) -> Value {
        match &self.kept {
            Kept::File(path) => {
                let text = std::fs::read(path).ok();
                let value = text.and_then(|text| serde_json::from_slice(&text).ok());
                value.unwrap_or(Value::Null)
            }
            Kept::Heard(heard, _) => heard.lock().clone(),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Kept::Heard(_, task) = &self.kept {
            task.abort();
        }
    }
}

/// Reads one request after the other, remembers the headers, answers as an MCP server would.
async fn answer(mut stream: TcpStream, heard: Arc<Mutex<Value>>) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some((head, body)) = request(&mut stream, &mut buffer).await? else {
            return Ok(());
        };
        let mut headers = Map::new();
        for line in head.lines().skip(1) {
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.trim().to_ascii_lowercase(), json!(value.trim()));
            }
        }
        let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let method = message.get("method").and_then(Value::as_str).unwrap_or("");
        {
            let mut heard = heard.lock();
            if heard.is_null() || method == "initialize" {
                let first = head.lines().next().unwrap_or_default();
                *heard = json!({"request": first, "headers": headers, "method": method});
            }
        }
        let result = match method {
            "initialize" => {
                let version = message.pointer("/params/protocolVersion").cloned();
                Some(json!({
                    "protocolVersion": version.unwrap_or(json!("2025-06-18")),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "agentproto-recorder", "version": env!("CARGO_PKG_VERSION")},
                }))
            }
            "tools/list" => Some(json!({"tools": []})),
            "ping" => Some(json!({})),
            _ => None,
        };
        let text = match (message.get("id"), result) {
            (Some(id), Some(result)) => {
                json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
            }
            (Some(id), None) => {
                let error = json!({"code": -32601, "message": "no such method"});
                json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
            }
            (None, _) => String::new(),
        };
        let status = match text.is_empty() {
            true if head.starts_with("GET") => "405 Method Not Allowed",
            true => "202 Accepted",
            false => "200 OK",
        };
        let reply = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        stream.write_all(reply.as_bytes()).await?;
    }
}

/// Head and body of the next request; `None` at the end.
async fn request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<Option<(String, Vec<u8>)>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().ok())?
            });
            let whole = end + 4 + length.unwrap_or(0).min(MOST);
            if buffer.len() >= whole {
                let rest = buffer.split_off(whole);
                let taken = std::mem::replace(buffer, rest);
                let body = taken.get(end + 4..).unwrap_or_default().to_vec();
                return Ok(Some((head, body)));
            }
        }
        if buffer.len() > 2 * MOST {
            return Ok(None);
        }
        let mut piece = [0; 8192];
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(None);
        }
        buffer.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
}
