//! The official Rust types can read everything that the conforming ACP mock agent sends, without
//! losing anything.

use agent_client_protocol::v1::schema as official;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{Tape, start};

/// Reads a value as an official type and writes it again. The types ignore unknown fields and
/// correct invalid values, so a difference is a mistake of ours.
fn survives<T: DeserializeOwned + Serialize>(value: &Value) -> Result<(), String> {
    let typed: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let again = serde_json::to_value(typed).map_err(|error| error.to_string())?;
    contained(value, &again, "")
}

/// Whether `theirs` contains everything in `ours`, apart from default values.
fn contained(ours: &Value, theirs: &Value, at: &str) -> Result<(), String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                let at = format!("{at}/{key}");
                match theirs.get(key) {
                    Some(other) => contained(value, other, &at)?,
                    None if is_default(value) => {}
                    None => return Err(format!("{at} is lost: {value}")),
                }
            }
            Ok(())
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            pairs.try_for_each(|(i, (a, b))| contained(a, b, &format!("{at}/{i}")))
        }
        _ if ours == theirs => Ok(()),
        _ => Err(format!("{at}: {ours} became {theirs}")),
    }
}

fn is_default(value: &Value) -> bool {
    let empty = value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(|map| map.is_empty());
    let word = matches!(value.as_str(), Some("pending" | "other"));
    value.is_null() || *value == json!(false) || empty || word
}

fn check(tape: &Tape, answers: &[(u64, &str)]) -> usize {
    let mut wrong = Vec::new();
    let mut read = 0;
    for message in tape.messages() {
        let params = &message["params"];
        let result = &message["result"];
        let outcome = match message["method"].as_str() {
            Some("session/update") => survives::<official::SessionNotification>(params),
            Some("session/request_permission") => {
                survives::<official::RequestPermissionRequest>(params)
            }
            Some("fs/read_text_file") => survives::<official::ReadTextFileRequest>(params),
            Some("fs/write_text_file") => survives::<official::WriteTextFileRequest>(params),
            Some("terminal/create") => survives::<official::CreateTerminalRequest>(params),
            Some("terminal/output") => survives::<official::TerminalOutputRequest>(params),
            Some("terminal/kill") => survives::<official::KillTerminalRequest>(params),
            Some("terminal/release") => survives::<official::ReleaseTerminalRequest>(params),
            Some("terminal/wait_for_exit") => {
                survives::<official::WaitForTerminalExitRequest>(params)
            }
            Some("elicitation/create") => survives::<official::CreateElicitationRequest>(params),
            Some("elicitation/complete") => {
                survives::<official::CompleteElicitationNotification>(params)
            }
            Some(other) => Err(format!("unknown method {other}")),
            None => match answers.iter().find(|(id, _)| message["id"] == *id) {
                Some((_, "initialize")) => survives::<official::InitializeResponse>(result),
                Some((_, "new")) => survives::<official::NewSessionResponse>(result),
                Some((_, "load")) => survives::<official::LoadSessionResponse>(result),
                Some((_, "resume")) => survives::<official::ResumeSessionResponse>(result),
                Some((_, "list")) => survives::<official::ListSessionsResponse>(result),
                Some((_, "option")) => survives::<official::SetSessionConfigOptionResponse>(result),
                Some(_) => Ok(()),
                None => survives::<official::PromptResponse>(result),
            },
        };
        read += 1;
        if let Err(reason) = outcome {
            wrong.push(format!("{reason}\n  {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    read
}

#[test]
fn official_types_read_every_turn() {
    let scenarios = [
        "default",
        "tools",
        "permission",
        "fs",
        "terminal",
        "plan",
        "thought",
        "elicitation",
        "elicitation-url",
        "permission-twice",
        "updates",
        "modes",
        "rich",
        "bare",
    ];
    for scenario in scenarios {
        let mut client = start(&["acp", "--scenario", scenario]);
        client.initialize_fully();
        client.new_session(1002);
        for (id, prompt) in (1010..).zip(["go", "use a tool", "switch", "ask a question"]) {
            client.prompt(id, prompt);
        }
        let tape = client.finish();
        assert!(check(&tape, &[(1001, "initialize"), (1002, "new")]) > 5);
    }
}

#[test]
fn official_types_read_every_session_response() {
    let mut client = start(&["acp", "--scenario", "modes"]);
    client.initialize_fully();
    client.new_session(1002);
    client.prompt(1010, "hello");
    let session = client.session.clone();
    let again = json!({ "sessionId": session, "cwd": client.dir, "mcpServers": [] });
    client.ask(1003, "session/load", again.clone());
    client.ask(1004, "session/resume", again);
    client.ask(1005, "session/list", json!({}));
    let option = json!({ "sessionId": session, "configId": "model", "value": "large" });
    client.ask(1006, "session/set_config_option", option);
    let tape = client.finish();
    let answers = [
        (1001, "initialize"),
        (1002, "new"),
        (1003, "load"),
        (1004, "resume"),
        (1005, "list"),
        (1006, "option"),
    ];
    check(&tape, &answers);
    // The check itself works: an invalid message is found.
    let odd = json!({ "sessionId": "s", "update": { "sessionUpdate": "agent_message_chunk",
        "content": { "type": "text", "text": "a" }, "mood": "good" } });
    assert!(survives::<official::SessionNotification>(&odd).is_err());
}
