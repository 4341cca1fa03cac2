//! The mock agent for command-line agents that print their output.

use serde_json::{Value, json};

use crate::client::{Client, Tape, start, start_with};

fn one_shot(args: &[&str]) -> Tape {
    let mut all = vec!["repl", "--"];
    all.extend(args);
    start(&all).finish()
}

fn types(tape: &Tape) -> Vec<String> {
    let messages = tape.messages().into_iter();
    messages
        .map(|m| m["type"].as_str().unwrap_or("?").to_owned())
        .collect()
}

fn blocks(tape: &Tape, kind: &str) -> Vec<Value> {
    let messages = tape.messages().into_iter();
    let blocks = messages.flat_map(|m| {
        m["message"]["content"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    });
    blocks.filter(|block| block["type"] == kind).collect()
}

#[test]
fn a_turn_in_the_claude_dialect() {
    let tape = one_shot(&["-p", "use a tool", "--output-format", "stream-json"]);
    assert_eq!(
        types(&tape),
        [
            "system",
            "assistant",
            "assistant",
            "user",
            "assistant",
            "result"
        ]
    );
    let messages = tape.messages();
    assert_eq!(messages[0]["subtype"], "init");
    let session = &messages[0]["session_id"];
    assert!(messages.iter().all(|m| m["session_id"] == *session));
    let call = &blocks(&tape, "tool_use")[0];
    let result = &blocks(&tape, "tool_result")[0];
    assert_eq!(call["id"], result["tool_use_id"]);
    let last = &messages[5];
    assert_eq!(
        (&last["subtype"], &last["is_error"]),
        (&json!("success"), &json!(false))
    );
    assert_eq!(last["result"], "I look it up.There is one note.");
    assert!(tape.status.is_some_and(|s| s.success()));
}

#[test]
fn a_turn_in_the_gemini_dialect() {
    let tape = one_shot(&["--style", "gemini", "-p", "use a tool", "-o", "stream-json"]);
    let expected = [
        "init",
        "message",
        "message",
        "tool_use",
        "tool_result",
        "message",
        "result",
    ];
    assert_eq!(types(&tape), expected);
    let messages = tape.messages();
    assert!(messages.iter().all(|m| m["timestamp"].is_string()));
    assert_eq!(messages[2]["delta"], true);
    assert_eq!(messages[3]["tool_id"], messages[4]["tool_id"]);
    assert_eq!(
        (&messages[4]["status"], &messages[6]["status"]),
        (&json!("success"), &json!("success"))
    );
}

#[test]
fn thoughts_denials_and_plain_text() {
    let tape = one_shot(&["-p", "have a thought"]);
    assert_eq!(blocks(&tape, "thinking").len(), 2);
    let tape = one_shot(&["-p", "ask for permission"]);
    let last = tape.messages().pop().expect("a result");
    assert_eq!(last["permission_denials"].as_array().map(Vec::len), Some(1));
    assert_eq!(blocks(&tape, "tool_result")[0]["is_error"], true);
    let tape = one_shot(&["-p", "hello", "--output-format", "text"]);
    assert_eq!(tape.text(), "You said: hello");
}

#[test]
fn errors_end_with_a_code() {
    for (style, key, value) in [
        ("claude", "is_error", json!(true)),
        ("gemini", "status", json!("error")),
    ] {
        let args = [
            "repl",
            "--scenario",
            "error",
            "--",
            "--style",
            style,
            "-p",
            "go",
        ];
        let tape = start(&args).finish();
        let last = tape.messages().pop().expect("a result");
        assert_eq!(last[key], value);
        assert_eq!(tape.status.and_then(|s| s.code()), Some(1));
    }
}

#[test]
fn the_prompt_can_be_read_from_stdin() {
    let mut client = start(&["repl", "--", "--print", "--output-format", "stream-json"]);
    client.raw(b"hello from stdin\n");
    let tape = client.finish();
    let last = tape.messages().pop().expect("a result");
    assert_eq!(last["result"], "You said: hello from stdin");
}

#[test]
fn a_conversation_continues_in_another_process() {
    let state = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let mut all = vec!["repl", "--"];
        all.extend(args);
        let client = start_with(&all, |command| {
            command.env("MOCK_STATE_DIR", state.path());
        });
        client.finish_with_stderr()
    };
    let (tape, _) = run(&["-p", "one"]);
    let session = tape.messages()[0]["session_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let (tape, _) = run(&["-p", "what did I say before?", "--resume", &session]);
    let last = tape.messages().pop().expect("a result");
    assert_eq!(last["result"], "Turn 2. Before: one");
    assert_eq!(last["session_id"], session.as_str());
    let (tape, stderr) = run(&["-p", "x", "--resume", "no-such-session"]);
    assert!(tape.raw.is_empty());
    assert!(String::from_utf8_lossy(&stderr).contains("No conversation found"));
    assert_eq!(tape.status.and_then(|s| s.code()), Some(1));
}

fn say(client: &mut Client, text: &str) {
    let message = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
    client.line(&json!({ "type": "user", "message": message }));
}

fn until_result(client: &mut Client) -> Value {
    let line = client.until(|line| line.starts_with(b"{\"type\":\"result\""));
    serde_json::from_slice(&line.expect("a result")).expect("JSON")
}

#[test]
fn stream_json_input_and_partial_messages() {
    let args = [
        "repl",
        "--",
        "--input-format",
        "stream-json",
        "--include-partial-messages",
    ];
    let mut client = start(&args);
    say(&mut client, "hello");
    client.line(&json!({ "type": "nonsense" }));
    client.raw(b"no JSON\n");
    say(&mut client, "what did I say before?");
    assert_eq!(until_result(&mut client)["result"], "You said: hello");
    assert_eq!(until_result(&mut client)["result"], "Turn 2. Before: hello");
    let tape = client.finish();
    let parts: String = tape
        .messages()
        .iter()
        .filter_map(|m| Some(m.pointer("/event/delta/text")?.as_str()?.to_owned()))
        .collect();
    assert_eq!(parts, "You said: helloTurn 2. Before: hello");
    assert_eq!(blocks(&tape, "text").len(), 2);
    assert!(tape.status.is_some_and(|s| s.success()));
}

#[test]
fn an_interrupt_ends_the_turn() {
    let mut client = start(&["repl", "--", "--input-format", "stream-json"]);
    say(&mut client, "be slow");
    client
        .until(|line| line.windows(4).any(|part| part == b"tick"))
        .expect("it talks");
    let request = json!({ "subtype": "interrupt" });
    client.line(&json!({ "type": "control_request", "request_id": "r1", "request": request }));
    let result = until_result(&mut client);
    assert_eq!(result["subtype"], "error_during_execution");
    say(&mut client, "hello");
    assert_eq!(until_result(&mut client)["is_error"], false);
    let tape = client.finish();
    assert!(
        tape.messages()
            .iter()
            .any(|m| m["response"]["request_id"] == "r1")
    );
}
