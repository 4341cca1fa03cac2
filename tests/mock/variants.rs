//! Variants differ from the plain mock agent as described, and their turns still work.

use std::collections::BTreeSet;

use agentproto_mock::variants;
use serde_json::{Value, json};

use crate::client::{Client, Tape, start};
use crate::scripts::{everything, one_turn};

fn play(variant: &str, script: fn(&mut Client)) -> Tape {
    let mut client = start(&["acp", "--variant", variant]);
    script(&mut client);
    client.finish()
}

fn turn_ends(tape: &Tape) -> bool {
    tape.answer(1003)["result"]["stopReason"] == "end_turn"
}

#[test]
fn each_variant_has_a_unique_name_and_a_description() {
    let mut names = BTreeSet::new();
    for variant in variants::all() {
        let name = (variant.kind.as_str(), variant.name);
        assert!(names.insert(name), "duplicate variant {name:?}");
        assert!(variant.description.ends_with('.'), "{name:?}");
    }
    let of = |kind: &str| names.iter().filter(|(of, _)| *of == kind).count();
    assert!(of("acp") >= 20 && of("mcp") >= 4);
}

#[test]
fn variants_change_the_bytes_on_the_wire() {
    type Looks = fn(&str) -> bool;
    let differs: [(&str, Looks); 5] = [
        ("reversed-keys", |text| {
            text.contains("\"jsonrpc\":\"2.0\"}\n")
        }),
        ("sorted-keys", |text| text.starts_with("{\"id\":1001,")),
        ("spaces", |text| text.starts_with(" \t {")),
        ("escapes", |text| text.contains("\"\\u006a\\u0073")),
        ("crlf", |text| {
            text.split('\n')
                .all(|line| line.is_empty() || line.ends_with('\r'))
        }),
    ];
    let whole = |tape: &Tape| {
        let lines = tape.raw.iter().map(|line| String::from_utf8_lossy(line));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    // Without a variant, the flag is empty.
    let plain = play("", one_turn);
    for (name, seen) in differs {
        let tape = play(name, one_turn);
        assert!(turn_ends(&tape), "{name}");
        assert!(seen(&whole(&tape)), "{name}: {}", tape.text());
        assert!(!seen(&whole(&plain)), "{name}");
    }
}

#[test]
fn variants_change_ids_and_accept_them() {
    for name in ["unicode-ids", "long-ids", "number-ids", "odd-ids"] {
        let tape = play(name, everything);
        let session = tape.answer(1002)["result"]["sessionId"].clone();
        let session = session.as_str().expect("an id").to_owned();
        assert!(!session.starts_with("mock-"), "{name}");
        let updates = tape.calls("session/update");
        assert!(updates.iter().all(|m| m["params"]["sessionId"] == session));
        for turn in 1003..1011 {
            let end = &tape.answer(turn)["result"]["stopReason"];
            assert_eq!(*end, "end_turn", "{name}: {turn}");
        }
    }
    let requests = |name: &str| -> Vec<Value> {
        let tape = play(name, everything);
        let asked = tape.messages().into_iter();
        let asked = asked.filter(|m| m.get("method").is_some() && m.get("id").is_some());
        assert_eq!(tape.answer(1010)["result"]["stopReason"], "end_turn");
        asked.map(|m| m["id"].clone()).collect()
    };
    assert!(requests("text-request-ids").iter().all(Value::is_string));
    let high = |id: &Value| id.as_u64() > Some(1 << 52);
    assert!(requests("high-request-ids").iter().all(high));
}

#[test]
fn responses_may_arrive_out_of_order() {
    let mut client = start(&["acp", "--variant", "out-of-order"]);
    client.initialize(json!({}));
    let params = json!({ "cwd": client.dir, "mcpServers": [] });
    client.tell(1002, "session/new", params.clone());
    client.tell(1003, "session/new", params);
    client.wait_for(1002);
    client.new_session(1004);
    client.prompt(1005, "hello");
    let tape = client.finish();
    let place = |id: u64| tape.place(|m| m["id"] == id);
    assert!(place(1003) < place(1002), "{}", tape.text());
    assert_eq!(tape.answer(1005)["result"]["stopReason"], "end_turn");
    // The commands of a session never come before the response that creates it.
    for message in tape.calls("session/update") {
        let session = &message["params"]["sessionId"];
        let opened = tape.place(|m| m["result"]["sessionId"] == *session);
        assert!(opened.is_some() && opened < tape.place(|m| *m == message));
    }
}

#[test]
fn long_turns_arrive_complete() {
    let huge = play("huge-chunk", one_turn);
    assert!(huge.raw.iter().any(|line| line.len() > 1 << 20) && turn_ends(&huge));
    let many = play("many-chunks", one_turn);
    assert!(many.updates("agent_message_chunk").len() > 500 && turn_ends(&many));
}

#[test]
fn url_elicitations_are_completed() {
    let tape = play("asks-by-link", one_turn);
    let id = |m: &Value| m["params"]["elicitationId"].clone();
    let asked: Vec<Value> = tape.calls("elicitation/create").iter().map(id).collect();
    let done: Vec<Value> = tape.calls("elicitation/complete").iter().map(id).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked, done);
    assert_ne!(asked[0], asked[1]);
    assert!(turn_ends(&tape));
}

#[test]
fn the_chatty_variant_logs_only_to_stderr() {
    let mut client = start(&["acp", "--variant", "chatty"]);
    one_turn(&mut client);
    let (tape, stderr) = client.finish_with_stderr();
    assert_eq!(tape.messages().len(), tape.raw.len());
    assert!(String::from_utf8(stderr).expect("UTF-8").contains("INFO"));
}
