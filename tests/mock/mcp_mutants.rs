//! How each MCP mutant is detected.

use agentproto_mock::AgentKind;
use serde_json::{Value, json};

use crate::client::{Client, Tape};
use crate::mcp_mutants_more::{JUDGED, sights};
use crate::mutants::{check, sight};

pub fn handshake(c: &mut Client, revision: &str, capabilities: Value) {
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({
        "protocolVersion": revision,
        "capabilities": capabilities,
        "clientInfo": info,
    });
    c.ask(1001, "initialize", params);
    c.notify("notifications/initialized", json!({}));
}

pub fn begin(c: &mut Client, id: u64, prompt: &str) -> Value {
    let params = json!({
        "name": "start",
        "arguments": { "prompt": prompt },
        "_meta": { "progressToken": "token-1" },
    });
    c.ask(id, "tools/call", params)
}

fn hello(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    c.ask(1002, "tools/list", json!({}));
    begin(c, 1003, "hello");
    c.ask(1004, "ping", json!({}));
    c.ask(1005, "nothing/at/all", json!({}));
    c.ask(
        1006,
        "tools/call",
        json!({ "name": "nobody", "arguments": {} }),
    );
    c.ask(
        1007,
        "tools/call",
        json!({ "name": "start", "arguments": {} }),
    );
    c.ask(1008, "logging/setLevel", json!({ "level": "bogus" }));
}

fn question(c: &mut Client) {
    handshake(c, "2025-11-25", json!({ "elicitation": {} }));
    begin(c, 1003, "ask a question");
}

fn question_unasked(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    begin(c, 1003, "ask a question");
}

fn notice(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    begin(c, 1003, "go");
}

fn quiet_notice(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    c.ask(1002, "logging/setLevel", json!({ "level": "emergency" }));
    begin(c, 1003, "go");
}

fn event(line: &[u8]) -> bool {
    line.windows(10).any(|part| part == b"text_delta")
}

/// Cancels a long call. A short call then shows that the server still works.
fn cancel(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    let params = json!({ "name": "start", "arguments": { "prompt": "be slow" } });
    c.tell(1003, "tools/call", params);
    c.until(event);
    c.notify("notifications/cancelled", json!({ "requestId": 1003 }));
    begin(c, 1004, "hello");
}

/// Like `cancel`; five more events show that the call was not canceled.
fn cancel_or_more(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    let params = json!({ "name": "start", "arguments": { "prompt": "be slow" } });
    c.tell(1003, "tools/call", params);
    c.until(event);
    c.notify("notifications/cancelled", json!({ "requestId": 1003 }));
    c.patience = std::time::Duration::from_secs(1);
    let mut events = 0;
    c.until(|line| {
        events += usize::from(event(line));
        events == 5
    });
}

fn tools(tape: &Tape) -> Vec<Value> {
    let tools = tape.answer(1002)["result"]["tools"].clone();
    tools.as_array().cloned().unwrap_or_default()
}

fn raw_has(tape: &Tape, part: &str) -> bool {
    let lines = tape.raw.iter();
    lines
        .into_iter()
        .any(|line| String::from_utf8_lossy(line).contains(part))
}

fn progress(tape: &Tape) -> Vec<Value> {
    let calls = tape.calls("notifications/progress").into_iter();
    calls.map(|m| m["params"].clone()).collect()
}

#[test]
fn every_mcp_mutant_shows_its_defect() {
    let mut all = sights();
    all.extend([
        sight("mcp-stdio-log-line", hello, |t| raw_has(t, "[info]")),
        sight("mcp-stdio-pretty-printed", hello, |t| {
            t.raw.iter().any(|l| l == b"{")
        }),
        sight("mcp-stdio-latin1", hello, |t| {
            t.raw.iter().any(|l| std::str::from_utf8(l).is_err())
        }),
        sight("mcp-base-no-jsonrpc", hello, |t| {
            t.answer(1002).get("jsonrpc").is_none()
        }),
        sight("mcp-base-id-as-text", hello, |t| {
            t.messages().iter().any(|m| m["id"] == "1003")
        }),
        sight("mcp-base-result-and-error", hello, |t| {
            t.messages()
                .iter()
                .any(|m| m.get("result").is_some() && m.get("error").is_some())
        }),
        sight("mcp-base-code-text", hello, |t| {
            t.answer(1005)["error"]["code"].is_string()
        }),
        sight("mcp-base-null-request-id", question, |t| {
            t.calls("elicitation/create")
                .iter()
                .any(|m| m["id"].is_null())
        }),
        sight("mcp-base-answers-notification", hello, |t| {
            t.messages()
                .iter()
                .any(|m| m["id"].is_null() && m.get("error").is_some())
        }),
        sight("mcp-base-unknown-method", hello, |t| t.code(1005) == -32603),
        sight(
            "mcp-lifecycle-echoes-version",
            |c| handshake(c, "1999-01-01", json!({})),
            |t| t.answer(1001)["result"]["protocolVersion"] == "1999-01-01",
        ),
        sight("mcp-lifecycle-other-version", hello, |t| {
            t.answer(1001)["result"]["protocolVersion"] == "2024-11-05"
        }),
        sight("mcp-lifecycle-no-server-info", hello, |t| {
            t.answer(1001)["result"].get("serverInfo").is_none()
        }),
        sight("mcp-lifecycle-no-capabilities", hello, |t| {
            t.answer(1001)["result"].get("capabilities").is_none()
        }),
        sight("mcp-lifecycle-early-request", hello, |t| {
            !t.calls("roots/list").is_empty()
        }),
        sight("mcp-tools-undeclared", hello, |t| {
            t.answer(1001)["result"]["capabilities"]
                .get("tools")
                .is_none()
        }),
        sight("mcp-tools-no-schema", hello, |t| {
            tools(t)
                .iter()
                .any(|tool| tool.get("inputSchema").is_none())
        }),
        sight("mcp-tools-list-schema", hello, |t| {
            tools(t)
                .iter()
                .any(|tool| tool["inputSchema"]["type"] == "array")
        }),
        sight("mcp-tools-same-names", hello, |t| {
            tools(t)
                .iter()
                .filter(|tool| tool["name"] == "start")
                .count()
                == 2
        }),
        sight("mcp-tools-odd-names", hello, |t| {
            tools(t).iter().any(|tool| tool["name"] == "start a turn")
        }),
        sight("mcp-tools-unknown-taken", hello, |t| {
            t.answer(1006)["result"].is_object()
        }),
        sight("mcp-tools-no-content", hello, |t| {
            t.answer(1003)["result"].get("content").is_none()
        }),
        sight("mcp-tools-odd-content", hello, |t| {
            t.answer(1003)["result"]["content"][0]["type"] == "markdown"
        }),
        sight("mcp-tools-unlike-schema", hello, |t| {
            let structure = &t.answer(1003)["result"]["structuredContent"];
            structure.is_object() && structure.get("text").is_none()
        }),
        sight("mcp-tools-no-structure", hello, |t| {
            t.answer(1003)["result"].get("structuredContent").is_none()
        }),
        sight("mcp-tools-mistake-hidden", hello, |t| {
            t.answer(1007)["result"]["isError"] == false
        }),
        sight("mcp-ping-unanswered", hello, |t| t.answers(1004).is_empty()).silent(),
        sight("mcp-ping-pong", hello, |t| {
            t.answer(1004)["result"] == "pong"
        }),
        sight("mcp-progress-stands-still", hello, |t| {
            let progress = progress(t);
            progress
                .windows(2)
                .any(|pair| matches!(pair, [a, b] if a["progress"] == b["progress"]))
        }),
        sight("mcp-progress-other-token", hello, |t| {
            progress(t).iter().any(|p| p["progressToken"] != "token-1")
        }),
        sight("mcp-progress-after-end", hello, |t| {
            let late = t.place(|m| m["params"]["progress"] == 1000);
            late > t.place(|m| m["id"] == 1003 && m.get("result").is_some())
        }),
        sight("mcp-cancel-answered", cancel, |t| {
            !t.answers(1003).is_empty()
        }),
        sight("mcp-cancel-ignored", cancel_or_more, |t| {
            t.calls("mock/event")
                .iter()
                .filter(|m| m["params"]["requestId"] == 1003)
                .count()
                > 4
        }),
        sight("mcp-logging-undeclared", notice, |t| {
            let declared = t.answer(1001)["result"]["capabilities"]
                .get("logging")
                .is_some();
            !declared && !t.calls("notifications/message").is_empty()
        })
        .scenario("updates"),
        sight("mcp-logging-odd-level", notice, |t| {
            t.calls("notifications/message")
                .iter()
                .any(|m| m["params"]["level"] == "verbose")
        })
        .scenario("updates"),
        sight("mcp-logging-any-level", hello, |t| {
            t.answer(1008)["result"].is_object()
        }),
        sight("mcp-logging-too-much", quiet_notice, |t| {
            !t.calls("notifications/message").is_empty()
        })
        .scenario("updates"),
        sight("mcp-elicitation-unasked", question_unasked, |t| {
            !t.calls("elicitation/create").is_empty()
        }),
        sight("mcp-elicitation-nested", question, |t| {
            let properties = "/params/requestedSchema/properties/more/type";
            t.calls("elicitation/create")
                .iter()
                .any(|m| m.pointer(properties).is_some())
        }),
        sight("mcp-elicitation-no-message", question, |t| {
            t.calls("elicitation/create")
                .iter()
                .any(|m| m["params"].get("message").is_none())
        }),
    ]);
    check(AgentKind::Mcp, |id| !JUDGED.contains(&id), &all);
}
