//! The turns of the conforming ACP mock agent.

use serde_json::{Value, json};

use crate::acp::ready;
use crate::client::{Tape, start, unable};

#[test]
fn a_turn_streams_and_ends() {
    // PT-01, PT-03, PT-04, PT-09, PT-16
    let mut client = ready(&["acp"]);
    client.prompt(1003, "hello");
    let block = json!([
        { "type": "text", "text": "look at", "_meta": { "a": 1 } },
        { "type": "resource_link", "uri": "file:///a.txt", "name": "a.txt" },
        { "type": "resource", "resource": { "uri": "file:///b", "text": "b" } },
    ]);
    let params = json!({ "sessionId": client.session, "prompt": block, "_meta": {} });
    client.ask(1004, "session/prompt", params);
    client.prompt(1005, "what did I say before?");
    let empty = json!({ "sessionId": client.session, "prompt": [] });
    let answer = client.ask(1006, "session/prompt", empty);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let tape = client.finish();
    let said = tape.said();
    assert!(
        said.starts_with("You said: helloYou said: look at\n[a.txt: file:///a.txt]"),
        "{said}"
    );
    assert!(said.contains("Turn 3. Before: hello | look at"), "{said}");
    let chunks = tape.updates("agent_message_chunk");
    assert_eq!(chunks[0]["messageId"], chunks[2]["messageId"]);
    assert_ne!(chunks[2]["messageId"], chunks[3]["messageId"]);
}

#[test]
fn long_lines_work_in_both_directions() {
    // TR-21
    let mut client = ready(&["acp"]);
    let long = "long ".repeat(300_000);
    client.prompt(1003, &long);
    let tape = client.finish();
    assert_eq!(tape.said(), format!("You said: {long}"));
}

#[test]
fn all_stop_reasons() {
    // PT-02
    let mut client = ready(&["acp", "--scenario", "stop-reasons"]);
    let reasons = [
        "max_tokens",
        "max_turn_requests",
        "refusal",
        "cancelled",
        "end_turn",
    ];
    for (id, reason) in (1003..).zip(reasons) {
        assert_eq!(client.prompt(id, reason)["result"]["stopReason"], reason);
    }
    client.finish();
    let mut client = ready(&["acp", "--scenario", "error"]);
    let answer = client.prompt(1003, "go");
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(answer["error"]["message"], "the mock was asked to fail");
    client.finish();
}

#[test]
fn tools_plans_and_thoughts() {
    // TC-01 … TC-09, PL-01, PL-02
    let mut client = ready(&["acp", "--scenario", "tools"]);
    client.prompt(1003, "go");
    client.prompt(1004, "go");
    let tape = client.finish();
    let calls = tape.updates("tool_call");
    assert_eq!(calls.len(), 6);
    let mut ids: Vec<&Value> = calls.iter().map(|call| &call["toolCallId"]).collect();
    ids.dedup();
    assert_eq!(ids.len(), 6, "every call has a unique id");
    assert!(
        calls[0]["locations"][0]["path"]
            .as_str()
            .is_some_and(|p| p.starts_with('/'))
    );
    assert_eq!(calls[0]["locations"][0]["line"], 1);
    let ends = tape.updates("tool_call_update");
    assert_eq!(ends[2]["status"], "failed");

    let mut client = ready(&["acp", "--scenario", "plan"]);
    client.prompt(1003, "go");
    let tape = client.finish();
    assert!(
        tape.updates("plan")
            .iter()
            .all(|p| p["entries"].as_array().is_some_and(|e| e.len() == 3))
    );

    let mut client = ready(&["acp", "--scenario", "thought"]);
    client.prompt(1003, "fish");
    let tape = client.finish();
    assert_eq!(tape.updates("agent_thought_chunk").len(), 3);
    assert_eq!(tape.said(), "I thought about: fish");
}

fn outcome(scenario: &str, service: crate::client::Service) -> Tape {
    let mut client = ready(&["acp", "--scenario", scenario]);
    client.service = service;
    let answer = client.prompt(1003, "go");
    assert!(answer["result"]["stopReason"].is_string(), "{answer}");
    client.finish()
}

#[test]
fn permission_decisions_are_followed() {
    // PE-01 … PE-04, TC-06
    let tape = outcome("permission", crate::client::obliging);
    assert_eq!(tape.said(), "You allowed it.");
    let request = &tape.calls("session/request_permission")[0]["params"];
    assert_eq!(request["options"].as_array().map(Vec::len), Some(4));
    assert_eq!(tape.updates("tool_call_update")[0]["status"], "in_progress");
    let tape = outcome("permission", |_| {
        let chosen = json!({ "outcome": "selected", "optionId": "reject-always" });
        Some(json!({ "result": { "outcome": chosen } }))
    });
    assert_eq!(tape.said(), "You did not allow it.");
    for service in [
        unable as crate::client::Service,
        |_| Some(json!({ "result": null })),
        |_| Some(json!({ "result": { "outcome": { "outcome": "selected", "optionId": "odd" } } })),
    ] {
        assert_eq!(
            outcome("permission", service).said(),
            "Nobody could be asked."
        );
    }
    let tape = outcome("permission", |_| {
        Some(json!({ "result": { "outcome": { "outcome": "cancelled" } } }))
    });
    assert_eq!(tape.answer(1003)["result"]["stopReason"], "cancelled");
}

#[test]
fn files_and_terminals_of_the_client() {
    // FS-01 … FS-05, TE-01 … TE-05, TC-10
    let tape = outcome("fs", crate::client::obliging);
    assert_eq!(tape.said(), "wrote mock-note.txt a line\n");
    let read = &tape.calls("fs/read_text_file")[0]["params"];
    assert!(
        read["path"]
            .as_str()
            .is_some_and(|p| p.starts_with('/') && p.ends_with("mock-note.txt"))
    );
    assert_eq!((&read["line"], &read["limit"]), (&json!(1), &json!(10)));
    let tape = outcome("fs", unable);
    assert!(
        tape.updates("tool_call_update")
            .iter()
            .all(|u| u["status"] == "failed")
    );
    assert_eq!(tape.said(), "no such thing here no such thing here");

    let tape = outcome("terminal", crate::client::obliging);
    let methods: Vec<Value> = tape
        .messages()
        .iter()
        .map(|m| m["method"].clone())
        .filter(|m| m.as_str().is_some_and(|m| m.starts_with("terminal/")))
        .collect();
    let expected = [
        "terminal/create",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/release",
        "terminal/create",
        "terminal/kill",
        "terminal/wait_for_exit",
        "terminal/output",
        "terminal/release",
    ];
    assert_eq!(methods, expected);
    let create = &tape.calls("terminal/create")[0]["params"];
    assert_eq!(create["env"], json!([{ "name": "MOCK", "value": "1" }]));
    assert_eq!(
        outcome("terminal", unable).said(),
        "no such thing hereno such thing here"
    );
}

#[test]
fn services_are_used_only_if_offered() {
    // IN-10, IN-11, FS-02, EL-01, NO-01, CO-03
    let cases = [
        (json!({}), 0, 0, 0),
        (json!({ "fs": { "readTextFile": true } }), 1, 0, 0),
        (json!({ "fs": { "writeTextFile": true } }), 0, 1, 0),
        (json!({ "terminal": true, "elicitation": {} }), 0, 0, 1),
        (
            json!({ "terminal": "yes", "fs": { "readTextFile": 1 } }),
            0,
            0,
            0,
        ),
    ];
    for (offers, reads, writes, terminals) in cases {
        let mut client = start(&["acp"]);
        client.initialize(offers.clone());
        client.new_session(1002);
        let prompts = ["read a", "write b", "use the terminal", "ask a question"];
        for (id, prompt) in (1003..).zip(prompts) {
            let answer = client.prompt(id, prompt);
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{offers}");
        }
        let tape = client.finish();
        let count = |method: &str| tape.calls(method).len();
        let counts = (
            count("fs/read_text_file"),
            count("fs/write_text_file"),
            count("terminal/create"),
        );
        assert_eq!(counts, (reads, writes, terminals), "{offers}");
        assert_eq!(count("elicitation/create"), 0, "{offers}");
        assert!(!tape.text().contains("\"boolean\""));
    }
}

#[test]
fn questions_to_the_user() {
    // EL-02, EL-03, EL-05
    let tape = outcome("elicitation", crate::client::obliging);
    assert_eq!(tape.said(), "3 in red.");
    let params = &tape.calls("elicitation/create")[0]["params"];
    assert_eq!(params["mode"], "form");
    assert!(params["sessionId"].is_string());
    let tape = outcome("elicitation", |_| {
        Some(json!({ "result": { "action": "decline" } }))
    });
    assert_eq!(tape.said(), "You did not say.");
    let tape = outcome("elicitation", |_| {
        Some(json!({ "result": { "action": "cancel" } }))
    });
    assert_eq!(tape.said(), "You did not answer.");
    assert_eq!(outcome("elicitation", unable).said(), "You did not answer.");
}

#[test]
fn notices_and_usage_updates() {
    // NO-01, PT-19
    let tape = outcome("updates", crate::client::obliging);
    assert_eq!(tape.updates("notice")[0]["severity"], "warning");
    assert_eq!(tape.updates("usage_update")[0]["used"], 500);
    assert_eq!(tape.updates("session_info_update")[0]["title"], "About go");
}
