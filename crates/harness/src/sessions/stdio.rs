//! Probe for the MCP server over stdin and stdout: what it writes, and whether it answers.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::context::{ProbeContext, read_json};
use super::door::StdioConnection;
use super::mcp::VERSION;
use crate::run::case::NoVerdict;

const FRAMING: &str = "SES-06";
const ANSWERS: &str = "SES-07";

/// The reason for no verdict if the server over stdio is not known.
const UNKNOWN: &str = "needs the command of the host's MCP server over stdio: --mcp-command";

/// What the server has written.
#[derive(Default)]
struct Output {
    /// Number of responses to each request.
    responses: HashMap<u64, u64>,
    /// The first line that is not a message, and its place.
    garbage: Option<(String, u64)>,
    last: Option<u64>,
}

impl Output {
    fn take(&mut self, line: &[u8], place: u64) {
        self.last = Some(place);
        let message = read_json(line).unwrap_or_default();
        if message["jsonrpc"] != "2.0" {
            let quoted: String = String::from_utf8_lossy(line).chars().take(80).collect();
            self.garbage.get_or_insert((quoted, place));
            return;
        }
        if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
            *self.responses.entry(id).or_default() += 1;
        }
    }
}

pub async fn stdio(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let Some(opened) = StdioConnection::open(probe).await else {
        return Err(NoVerdict::NotApplicable(UNKNOWN.to_owned()));
    };
    let mut server = opened.map_err(NoVerdict::NotVerified)?;
    let me = json!({"name": "agentproto", "version": env!("CARGO_PKG_VERSION")});
    let hello = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": me});
    let mut output = Output::default();
    let sent = exchange(
        probe,
        &mut server,
        &mut output,
        &[request(1, "initialize", hello)],
        &[1],
    )
    .await?;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let list = |id: u64| {
        let params = json!({"name": "list_agent_sessions", "arguments": {}});
        request(id, "tools/call", params)
    };
    // Several requests at once, and a line that is not a message.
    let lines = [
        ready,
        request(2, "tools/list", json!({})),
        list(3),
        list(4),
        list(5),
        "this is not a message".to_owned(),
        request(6, "ping", json!({})),
    ];
    let ids = [2, 3, 4, 5, 6];
    let mut places = sent;
    if output.responses.contains_key(&1) {
        places.extend(exchange(probe, &mut server, &mut output, &lines, &ids).await?);
    }
    // A second response to a request arrives after the first one.
    read(probe, &mut server, &mut output, probe.config.quiet, |_| {
        false
    })
    .await;
    judge(probe, &output, &places);
    Ok(())
}

fn judge(probe: &mut ProbeContext<'_>, output: &Output, places: &[u64]) {
    let last = output.last.or(places.last().copied()).unwrap_or_default();
    match &output.garbage {
        Some((line, place)) => {
            let why = format!("stdout has a line that is not a JSON-RPC message: `{line}`");
            probe.violation(FRAMING, why, &[*place]);
        }
        None if output.last.is_some() => probe.pass(FRAMING, &[last]),
        None => probe.not_verified(FRAMING, "the MCP server wrote nothing"),
    }
    let is_answered = |id: &u64| output.responses.get(id) == Some(&1);
    let expected: Vec<u64> = (1..=6).collect();
    let against = expected.iter().find(|id| !is_answered(id)).map(|id| {
        let count = output.responses.get(id).copied().unwrap_or(0);
        format!("request {id} was answered {count} times")
    });
    probe.verdict(ANSWERS, against, &[last]);
}

fn request(id: u64, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Sends lines, and reads until all requests are answered. Returns the places of what was sent.
async fn exchange(
    probe: &ProbeContext<'_>,
    server: &mut StdioConnection,
    output: &mut Output,
    lines: &[String],
    ids: &[u64],
) -> Result<Vec<u64>, NoVerdict> {
    let mut places = Vec::new();
    for line in lines {
        let sent = server.send(probe, line.as_bytes()).await;
        places.push(sent.map_err(NoVerdict::NotVerified)?);
    }
    let limit = probe.response_limit();
    let is_complete = |output: &Output| ids.iter().all(|id| output.responses.contains_key(id));
    read(probe, server, output, limit, is_complete).await;
    Ok(places)
}

async fn read(
    probe: &ProbeContext<'_>,
    server: &mut StdioConnection,
    output: &mut Output,
    limit: std::time::Duration,
    is_complete: impl Fn(&Output) -> bool,
) {
    let until = Instant::now() + limit;
    while !is_complete(output) {
        let Some((line, place)) = server.line(probe, until).await else {
            return;
        };
        output.take(&line, place);
    }
}
