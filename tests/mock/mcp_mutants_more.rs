//! How the other MCP mutants are detected: those that need their own script.

use serde_json::json;

use crate::client::{Client, Tape};
use crate::mcp_mutants::{begin, handshake};
use crate::mutants::{Sight, sight};

/// Mutants that only `certify` detects, because they need stderr or a long time.
pub const JUDGED: [&str; 2] = ["mcp-stdio-latin1-log", "mcp-lifecycle-stays"];

fn tour(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    c.ask(1002, "tools/list", json!({}));
    begin(c, 1003, "hello");
    let nameless = json!({ "arguments": {} });
    c.ask(1004, "tools/call", nameless);
    c.ask(1005, "tools/list", json!({ "cursor": "nobody-gave" }));
    c.ask(1006, "logging/setLevel", json!({ "level": "debug" }));
}

fn bad_line(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    c.raw(b"{\"jsonrpc\":\"2.0\",\"id\":7,\n");
    c.ask(1002, "ping", json!({}));
}

fn no_request(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    c.line(&json!({ "jsonrpc": "1.0", "id": 1002, "method": "ping" }));
    c.wait_for(1002);
}

fn cancel_of_nothing(c: &mut Client) {
    handshake(c, "2025-11-25", json!({}));
    let unknown = json!({ "requestId": "nobody-asked" });
    c.notify("notifications/cancelled", unknown);
    c.ask(1002, "ping", json!({}));
}

fn with_a_model(c: &mut Client) {
    handshake(c, "2025-11-25", json!({ "sampling": {} }));
    begin(c, 1003, "hello");
}

fn question(c: &mut Client) {
    let both = json!({ "elicitation": { "form": {}, "url": {} } });
    handshake(c, "2025-11-25", both);
    begin(c, 1003, "ask a question");
}

fn declined(c: &mut Client) {
    c.service = |_| Some(json!({ "result": { "action": "decline" } }));
    question(c);
}

fn has_code(tape: &Tape, code: i64) -> bool {
    let messages = tape.messages();
    messages.iter().any(|m| m["error"]["code"] == code)
}

pub fn sights() -> Vec<Sight> {
    vec![
        sight("mcp-base-id-again", tour, |t| {
            let pings = t.calls("ping");
            matches!(&pings[..], [first, second, ..] if first["id"] == second["id"])
        }),
        sight("mcp-base-two-answers", tour, |t| t.answers(1002).len() == 2),
        sight("mcp-base-null-result", tour, |t| {
            t.answer(1006).get("result").is_some_and(|r| r.is_null())
        }),
        sight("mcp-base-bad-line-untold", bad_line, |t| {
            !has_code(t, -32700) && t.answers(1002).len() == 1
        }),
        sight("mcp-base-no-request-taken", no_request, |t| {
            t.code(1002) == -32603
        }),
        sight("mcp-base-dies-on-bad-line", bad_line, |t| {
            has_code(t, -32700) && t.answers(1002).is_empty()
        }),
        sight("mcp-lifecycle-no-version", tour, |t| {
            t.answer(1001)["result"].get("protocolVersion").is_none()
        }),
        sight(
            "mcp-lifecycle-offers-older",
            |c| handshake(c, "1999-01-01", json!({})),
            |t| t.answer(1001)["result"]["protocolVersion"] == "2025-06-18",
        ),
        sight("mcp-lifecycle-change-undeclared", tour, |t| {
            !t.calls("notifications/tools/list_changed").is_empty()
        }),
        sight("mcp-tools-no-name", tour, |t| {
            t.answer(1002)["result"]["tools"][1].get("name").is_none()
        }),
        sight("mcp-tools-list-output", tour, |t| {
            t.answer(1002)["result"]["tools"][0]["outputSchema"]["type"] == "array"
        }),
        sight("mcp-tools-nameless-taken", tour, |t| {
            t.answer(1004)["result"]["isError"] == true
        }),
        sight("mcp-cancel-of-nothing-ends", cancel_of_nothing, |t| {
            t.answers(1002).is_empty()
        }),
        sight("mcp-cancel-of-the-client", tour, |t| {
            let cancels = t.calls("notifications/cancelled");
            cancels.iter().any(|m| m["params"]["requestId"] == 1002)
        }),
        sight("mcp-pages-null-cursor", tour, |t| {
            let next = &t.answer(1002)["result"];
            next.get("nextCursor").is_some_and(|n| n.is_null())
        }),
        sight("mcp-pages-any-cursor", tour, |t| {
            t.answer(1005)["result"].is_object()
        }),
        sight("mcp-roots-unasked", tour, |t| {
            !t.calls("roots/list").is_empty()
        }),
        sight("mcp-sampling-unasked", tour, |t| {
            let asked = t.calls("sampling/createMessage");
            asked.iter().any(|m| m["params"]["maxTokens"].is_number())
        }),
        sight("mcp-sampling-no-limit", with_a_model, |t| {
            let asked = t.calls("sampling/createMessage");
            asked.iter().any(|m| m["params"].get("maxTokens").is_none())
        }),
        sight("mcp-elicitation-declined-hangs", declined, |t| {
            t.answers(1003).is_empty()
        })
        .silent(),
        sight("mcp-elicitation-page-without-id", question, |t| {
            let asked = t.calls("elicitation/create");
            let is_page = |m: &serde_json::Value| m["params"]["mode"] == "url";
            asked
                .iter()
                .any(|m| is_page(m) && m["params"].get("elicitationId").is_none())
        }),
        sight("mcp-elicitation-end-of-nothing", tour, |t| {
            !t.calls("notifications/elicitation/complete").is_empty()
        }),
    ]
}
