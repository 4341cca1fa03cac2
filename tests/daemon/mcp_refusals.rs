//! Everything that `/mcp` refuses, it refuses in JSON, with an error code and a hint. If the
//! request was a message, the refusal is a JSON-RPC error. The HTTP statuses are those of the
//! protocol.

use std::io::Write;

use super::host::Host;
use super::near::Near;
use super::served::Answer;
use serde_json::{Value, json};

const BOTH: &str = "Accept: application/json, text/event-stream\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const TOKEN: &str = "Authorization: Bearer secret\r\n";

fn ask(near: &Near, method: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = near.open();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{body}",
        near.address,
        headers.concat(),
        body.len()
    );
    let _ = stream.write_all(request.as_bytes());
    Answer::read(stream)
}

fn ping() -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }).to_string()
}

/// The JSON-RPC error code of a refused message, and our own error code.
#[track_caller]
fn rpc(answer: &Answer, status: u16) -> (i64, String) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(
        answer.head.contains("content-type: application/json"),
        "{answer:?}"
    );
    let message = answer.json();
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    assert_eq!(
        message.get("id"),
        Some(&Value::Null),
        "the id must be null: {message}"
    );
    let error = &message["error"];
    for text in [&error["message"], &error["data"]["hint"]] {
        assert!(text.as_str().is_some_and(|t| !t.is_empty()), "{message}");
    }
    let kind = error["data"]["code"].as_str().expect("a type").to_owned();
    (error["code"].as_i64().expect("a number"), kind)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_is_a_json_rpc_error_with_a_hint() {
    let near = Near::of(Host::new()).await;
    let lost = "Mcp-Session-Id: 00000000-0000-0000-0000-000000000000\r\n";
    let old = "Mcp-Protocol-Version: 1999-01-01\r\n";
    let ping = ping();
    let one = "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}";
    let batch = format!("[{ping}]");
    for (headers, body, status, code, kind) in [
        (&[TOKEN, JSON][..], &*ping, 406, -32600, "not_acceptable"),
        (&[TOKEN, BOTH], &ping, 415, -32600, "unsupported_media_type"),
        (&[TOKEN, BOTH, JSON], "garbage", 415, -32700, "bad_json"),
        (&[TOKEN, BOTH, JSON], "", 415, -32700, "bad_json"),
        (&[TOKEN, BOTH, JSON], &batch, 415, -32600, "batch"),
        (&[TOKEN, BOTH, JSON], one, 415, -32600, "no_message"),
        (
            &[TOKEN, BOTH, JSON],
            &ping,
            400,
            -32600,
            "mcp_session_missing",
        ),
        (
            &[TOKEN, BOTH, JSON, old],
            &ping,
            400,
            -32600,
            "mcp_version_unsupported",
        ),
        (
            &[TOKEN, BOTH, JSON, lost],
            &ping,
            404,
            -32600,
            "mcp_session_unknown",
        ),
    ] {
        let answer = ask(&near, "POST", headers, body);
        assert_eq!(rpc(&answer, status), (code, kind.to_owned()), "{answer:?}");
    }
}

// JSON-RPC errors from the MCP library keep their id and code, and get a hint.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_a_request_keep_their_id_and_have_a_hint() {
    let near = Near::of(Host::new()).await;
    let new = "Mcp-Protocol-Version: 2026-07-28\r\n";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
    };
    let other = "Mcp-Method: tools/list\r\n";
    let odd = "Mcp-Method: sessions/odd\r\n";
    for (headers, body, status) in [
        // The header names a different method than the body.
        (
            &[TOKEN, BOTH, JSON, new, other][..],
            call("ping", json!({ "_meta": meta })),
            400,
        ),
        (
            &[TOKEN, BOTH, JSON, new, odd],
            call("sessions/odd", json!({ "_meta": meta })),
            404,
        ),
    ] {
        let answer = ask(&near, "POST", headers, &body);
        assert_eq!(answer.status, status, "{answer:?}");
        let message = answer.json();
        assert_eq!(message["id"], 7, "{message}");
        assert!(
            message["error"]["code"]
                .as_i64()
                .is_some_and(|c| c < -32000),
            "{message}"
        );
        assert!(message["error"]["data"]["hint"].is_string(), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_without_a_message_is_an_http_error() {
    let near = Near::of(Host::new()).await;
    let events = "Accept: text/event-stream\r\n";
    let lost = "Mcp-Session-Id: 00000000-0000-0000-0000-000000000000\r\n";
    for (method, headers, status, kind) in [
        ("GET", &[TOKEN][..], 406, "not_acceptable"),
        ("GET", &[TOKEN, events], 400, "mcp_session_missing"),
        ("GET", &[TOKEN, events, lost], 404, "mcp_session_unknown"),
        ("DELETE", &[TOKEN], 400, "mcp_session_missing"),
        ("PUT", &[TOKEN], 405, "method_not_allowed"),
        ("GET", &[events], 401, "unauthorized"),
    ] {
        let answer = ask(&near, method, headers, "");
        assert_eq!(answer.refusal(status), kind, "{method} {headers:?}");
    }
    let put = ask(&near, "PUT", &[TOKEN], "");
    assert!(put.head.contains("allow: GET, POST, DELETE"), "{put:?}");
    let large = "x".repeat(5 << 20);
    let large = ask(&near, "POST", &[TOKEN, BOTH, JSON], &large);
    assert_eq!(large.refusal(413), "body_too_large");
}

// A46-TURN-04, 05: a later spec version allows a prompt to interrupt the turn. The version
// implemented here refuses it. The prompt is not accepted, and the turn is not interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupting_prompt_is_refused_during_a_turn() {
    let near = Near::of(Host::new()).await;
    let session = near.host.running("default").await;
    near.host
        .registry
        .prompt(&session.id, "be slow".into())
        .await
        .expect("taken");
    let path = format!("/sessions/{}/prompt", session.id);
    let refused = near.post(&path, &json!({ "prompt": "now", "interrupt": true }));
    assert_eq!(refused.refusal(409), "session_busy");
    assert!(
        refused.text.contains("interrupt"),
        "the hint is missing: {refused:?}"
    );
    let by_tool = near.tool(
        "prompt_agent_session",
        &json!({ "sessionId": session.id, "prompt": "now", "interrupt": true }),
    );
    assert_eq!(by_tool["isError"], json!(true), "{by_tool}");
    let told: Value =
        serde_json::from_str(by_tool["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(told["error"], refused.json()["error"]);
    let now = near.get(&format!("/sessions/{}", session.id)).json();
    assert_eq!((&now["busy"], &now["turns"]), (&json!(true), &json!(1)));
}
