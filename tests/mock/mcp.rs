//! The conforming MCP mock server.

use serde_json::{Value, json};

use crate::client::{Client, Tape, silent, start, start_with};
use crate::mcp_mutants::{begin, handshake};

fn ready(args: &[&str]) -> Client {
    let mut client = start(args);
    handshake(
        &mut client,
        "2025-11-25",
        json!({ "elicitation": { "form": {} } }),
    );
    client
}

fn events(tape: &Tape, kind: &str) -> Vec<Value> {
    let calls = tape.calls("mock/event").into_iter();
    let events = calls.map(|m| m["params"].clone());
    events.filter(|e| e["type"] == kind).collect()
}

#[test]
fn revisions_are_negotiated() {
    let cases = [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ];
    for (asked, agreed) in cases {
        let mut client = start(&["mcp"]);
        handshake(&mut client, asked, json!({}));
        let tools = client.ask(1002, "tools/list", json!({}))["result"]["tools"].clone();
        let structured = tools[0].get("outputSchema").is_some();
        assert_eq!(structured, agreed >= "2025-06-18");
        let tape = client.finish();
        assert_eq!(tape.answer(1001)["result"]["protocolVersion"], agreed);
        assert!(tape.status.is_some_and(|s| s.success()));
    }
}

#[test]
fn invalid_requests_get_errors() {
    let mut client = start(&["mcp"]);
    let early = client.ask(1002, "tools/list", json!({}));
    assert_eq!(early["error"]["code"], -32600);
    assert_eq!(client.ask(1003, "ping", json!({}))["result"], json!({}));
    for (id, params) in (1010..).zip([json!({}), json!({ "protocolVersion": 1 })]) {
        assert_eq!(
            client.ask(id, "initialize", params)["error"]["code"],
            -32602
        );
    }
    handshake(&mut client, "2025-11-25", json!({}));
    let wrong = [
        ("tools/list", json!({ "cursor": "x" }), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({ "name": "odd" }), -32602),
        ("logging/setLevel", json!({ "level": "odd" }), -32602),
        ("resources/list", json!({}), -32601),
    ];
    for (id, (method, params, code)) in (1020..).zip(wrong) {
        let answer = client.ask(id, method, params);
        assert_eq!(answer["error"]["code"], code, "{method}");
    }
    let mistakes = [
        json!({ "name": "start" }),
        json!({ "name": "start", "arguments": { "prompt": 5 } }),
        json!({ "name": "reply", "arguments": { "prompt": "a" } }),
        json!({ "name": "reply", "arguments": { "prompt": "a", "session_id": "odd" } }),
    ];
    for (id, params) in (1030..).zip(mistakes) {
        let answer = client.ask(id, "tools/call", params);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    client.raw(b"{bad\n");
    assert_eq!(client.ask(1040, "ping", json!({}))["result"], json!({}));
    let tape = client.finish();
    assert!(tape.messages().iter().any(|m| m["error"]["code"] == -32700));
}

#[test]
fn a_conversation() {
    let mut client = ready(&["mcp"]);
    let answer = begin(&mut client, 1002, "use a tool");
    let result = &answer["result"];
    assert_eq!(
        result["content"][0]["text"],
        "I look it up.There is one note."
    );
    let session = result["structuredContent"]["session_id"].clone();
    let arguments = json!({ "session_id": session, "prompt": "what did I say before?" });
    let answer = client.ask(
        1003,
        "tools/call",
        json!({ "name": "reply", "arguments": arguments }),
    );
    assert_eq!(
        answer["result"]["structuredContent"]["text"],
        "Turn 2. Before: use a tool"
    );
    let tape = client.finish();
    assert_eq!(events(&tape, "text_delta").len(), 3);
    assert_eq!(
        events(&tape, "tool_begin")[0]["arguments"],
        json!({ "query": "notes" })
    );
    let end = &events(&tape, "tool_end")[0];
    assert_eq!(
        (&end["ok"], &end["content"]),
        (&json!(true), &json!("one note"))
    );
    assert!(
        tape.calls("mock/event")
            .iter()
            .all(|m| m["params"]["requestId"].is_u64())
    );
    let progress: Vec<u64> = tape
        .calls("notifications/progress")
        .iter()
        .filter_map(|m| m["params"]["progress"].as_u64())
        .collect();
    assert_eq!(
        progress,
        [1, 2, 3],
        "only the call with a token has progress"
    );
    assert!(!tape.text().contains("\"message\":\"I look"));
}

#[test]
fn conversations_survive_the_process() {
    let state = tempfile::tempdir().expect("a directory");
    let begin_with = |path: &std::path::Path| {
        let mut client = start_with(&["mcp"], |command| {
            command.env("MOCK_STATE_DIR", path);
        });
        handshake(&mut client, "2025-11-25", json!({}));
        client
    };
    let mut client = begin_with(state.path());
    let session =
        begin(&mut client, 1002, "one")["result"]["structuredContent"]["session_id"].clone();
    client.finish();
    let mut client = begin_with(state.path());
    let arguments = json!({ "session_id": session, "prompt": "what did I say before?" });
    let answer = client.ask(
        1002,
        "tools/call",
        json!({ "name": "reply", "arguments": arguments }),
    );
    assert_eq!(
        answer["result"]["content"][0]["text"],
        "Turn 2. Before: one"
    );
    client.finish();
}

#[test]
fn without_events_progress_carries_the_text() {
    let mut client = start(&["mcp", "--", "--no-events"]);
    handshake(&mut client, "2025-11-25", json!({}));
    begin(&mut client, 1002, "hello");
    let tape = client.finish();
    assert!(tape.calls("mock/event").is_empty());
    let text: String = tape
        .calls("notifications/progress")
        .iter()
        .filter_map(|m| Some(m["params"]["message"].as_str()?.to_owned()))
        .collect();
    assert_eq!(text, "You said: hello");
}

#[test]
fn questions_are_elicitations() {
    let mut client = ready(&["mcp"]);
    begin(&mut client, 1002, "ask a question");
    begin(&mut client, 1003, "ask for permission");
    client.service = |_| Some(json!({ "result": { "action": "decline" } }));
    begin(&mut client, 1004, "ask for permission");
    let tape = client.finish();
    let said = |id: u64| tape.answer(id)["result"]["content"][0]["text"].clone();
    assert_eq!(said(1002), "You like red.");
    assert_eq!(said(1003), "You allowed it.");
    assert_eq!(said(1004), "You did not allow it.");
    assert_eq!(
        tape.calls("elicitation/create")[0]["params"]["mode"],
        "form"
    );
}

#[test]
fn a_canceled_call_gets_no_response() {
    for (prompt, place) in [
        ("be slow", "mock/event"),
        ("ask a question", "elicitation/create"),
    ] {
        let mut client = ready(&["mcp"]);
        client.service = silent;
        let call = json!({ "name": "start", "arguments": { "prompt": prompt } });
        client.tell(1002, "tools/call", call);
        client.until_called(place).expect("it waits");
        client.notify("notifications/cancelled", json!({ "requestId": 1002 }));
        begin(&mut client, 1003, "hello");
        let tape = client.finish();
        assert!(tape.answers(1002).is_empty(), "{prompt}");
        assert!(tape.answer(1003)["result"].is_object());
    }
}

#[test]
fn file_operations_and_errors() {
    let mut client = ready(&["mcp"]);
    begin(&mut client, 1002, "write note.txt");
    begin(&mut client, 1003, "read note.txt");
    begin(&mut client, 1004, "read no-such-file");
    assert!(client.dir.join("note.txt").exists());
    let tape = client.finish();
    let said = |id: u64| tape.answer(id)["result"]["content"][0]["text"].clone();
    assert_eq!(said(1003), "written by the mock in turn 1\n");
    assert!(
        said(1004)
            .as_str()
            .is_some_and(|t| t.contains("No such file"))
    );
    let mut client = ready(&["mcp", "--scenario", "error"]);
    assert_eq!(begin(&mut client, 1002, "go")["error"]["code"], -32603);
    client.finish();
}
