//! Defects in the MCP server over stdio. It runs in this process, and a layer between it and the
//! client changes what it writes.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::{HostChanges, HostSpec, Mutant, host_spec, of_tool_result};
use agentproto_daemon::Registry;
use agentproto_daemon::mcp::{self, McpServer, ToolOptions};
use agentproto_harness::sessions::{McpDoor, StdioPipes};

/// What the server writes for one message, line by line. Also gets the tool that was called, or an
/// empty name, and the number of earlier responses.
pub type LineChange = fn(tool: &str, number: u64, message: Value) -> Vec<Vec<u8>>;

/// The server with a change.
pub fn door(registry: Registry, change: LineChange) -> McpDoor {
    McpDoor::new(move |_| {
        let registry = registry.clone();
        Box::pin(async move { open(registry, change).map_err(|error| error.to_string()) })
    })
}

fn open(registry: Registry, change: LineChange) -> std::io::Result<StdioPipes> {
    let (near, far) = UnixStream::pair()?;
    let (input, output) = (far.try_clone()?, far);
    let server = McpServer::own(registry, ToolOptions::default());
    tokio::spawn(async move { mcp::streams(server, input, output).await });
    near.set_nonblocking(true)?;
    let (from_server, mut to_server) = tokio::net::UnixStream::from_std(near)?.into_split();
    let tools: Arc<Mutex<HashMap<u64, String>>> = Arc::default();
    let (client, requests) = tokio::io::duplex(64 << 10);
    let called = Arc::clone(&tools);
    tokio::spawn(async move {
        let mut lines = BufReader::new(requests).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            let tool = message["params"]["name"].as_str();
            if let (Some(id), Some(tool)) = (message["id"].as_u64(), tool) {
                called.lock().insert(id, tool.to_owned());
            }
            if to_server
                .write_all(format!("{line}\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    });
    let (to, lines) = mpsc::channel(256);
    let reader = tokio::spawn(async move {
        let mut written = BufReader::new(from_server).lines();
        let mut number = 0;
        while let Ok(Some(line)) = written.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap_or_default();
            let id = message["id"].as_u64();
            let tool = id.and_then(|id| tools.lock().get(&id).cloned());
            for line in change(&tool.unwrap_or_default(), number, message) {
                if to.send(line).await.is_err() {
                    return;
                }
            }
            number += 1;
        }
    });
    Ok(StdioPipes {
        input: Box::new(client),
        lines,
        reader: reader.abort_handle(),
    })
}

/// The message unchanged.
pub fn unchanged(_: &str, _: u64, message: Value) -> Vec<Vec<u8>> {
    vec![message.to_string().into_bytes()]
}

/// Changes the result of one tool.
fn result(tool: &str, of: &str, mut message: Value, change: fn(&mut Value)) -> Vec<Vec<u8>> {
    if tool == of {
        of_tool_result(&mut message["result"], change);
    }
    unchanged(tool, 0, message)
}

fn mutant(
    id: &'static str,
    requirement: &'static str,
    defect: &'static str,
    change: LineChange,
) -> Mutant {
    let spec = HostSpec {
        door: Some(change),
        ..host_spec(HostChanges::default)
    };
    Mutant::new(id, requirement, spec).describe(defect)
}

pub fn mutants() -> Vec<Mutant> {
    let mut all: Vec<Mutant> = streams().into_iter().map(Mutant::expect_warning).collect();
    all.extend(results());
    all
}

/// Defects of the transport, about which AIP-46 says nothing.
fn streams() -> Vec<Mutant> {
    vec![
        mutant(
            "se-stdio-headers",
            "SES-06",
            "Over stdio, each message has a header with its length.",
            |_, _, message| {
                let text = message.to_string();
                let header = format!("Content-Length: {}", text.len());
                vec![header.into_bytes(), Vec::new(), text.into_bytes()]
            },
        ),
        mutant(
            "se-stdio-split",
            "SES-06",
            "Over stdio, messages have line breaks.",
            |_, _, message| {
                let text = serde_json::to_string_pretty(&message).unwrap_or_default();
                text.lines().map(|line| line.as_bytes().to_vec()).collect()
            },
        ),
        mutant(
            "se-stdio-log",
            "SES-06",
            "Over stdio, the server writes its log to stdout.",
            |tool, number, message| {
                let mut lines = unchanged(tool, number, message);
                lines.insert(0, format!("INFO request {number}").into_bytes());
                lines
            },
        ),
        mutant(
            "se-stdio-lost",
            "SES-07",
            "Over stdio, the fourth response is lost.",
            |tool, number, message| match number {
                3 => Vec::new(),
                _ => unchanged(tool, number, message),
            },
        ),
        mutant(
            "se-stdio-twice",
            "SES-07",
            "Over stdio, tool calls are answered twice.",
            |tool, number, message| {
                let line = unchanged(tool, number, message);
                match tool {
                    "" => line,
                    _ => [line.clone(), line].concat(),
                }
            },
        ),
        mutant(
            "se-stdio-id",
            "SES-07",
            "Over stdio, the ids of responses are texts.",
            |tool, number, mut message| {
                message["id"] = json!(message["id"].to_string());
                unchanged(tool, number, message)
            },
        ),
    ]
}

/// Wrong results of tools.
fn results() -> Vec<Mutant> {
    vec![
        mutant(
            "se-stdio-start",
            "A46-MCP-02",
            "Over stdio, `start_agent_session` returns only the id.",
            |tool, _, message| {
                result(tool, "start_agent_session", message, |value| {
                    *value = json!({ "id": value["id"] });
                })
            },
        ),
        mutant(
            "se-stdio-list",
            "A46-MCP-04",
            "Over stdio, `list_agent_sessions` returns no sessions.",
            |tool, _, message| {
                result(tool, "list_agent_sessions", message, |value| {
                    value["sessions"] = json!([]);
                })
            },
        ),
        mutant(
            "se-stdio-output",
            "A46-MCP-05",
            "Over stdio, the lines of the output are in reverse order.",
            |tool, _, message| {
                result(tool, "get_agent_session_output", message, |value| {
                    if let Some(lines) = value["lines"].as_array_mut() {
                        lines.reverse();
                    }
                })
            },
        ),
        mutant(
            "se-stdio-kill",
            "A46-MCP-06",
            "Over stdio, `kill_agent_session` returns another id.",
            |tool, _, message| {
                result(tool, "kill_agent_session", message, |value| {
                    value["sessionId"] = json!("ses_0");
                })
            },
        ),
    ]
}
