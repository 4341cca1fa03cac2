//! Cancellation at every point where a turn can wait (PT-10 … PT-17, CR-01, CR-02, CL-01).

use serde_json::{Value, json};

use crate::client::{Client, Tape, silent, start};

fn ready(scenario: &str) -> Client {
    let mut client = start(&["acp", "--scenario", scenario]);
    client.initialize_fully();
    client.new_session(1002);
    client.service = silent;
    client
}

/// Starts a turn and cancels it when it waits for `place`.
fn cancelled_at(scenario: &str, prompt: &str, place: &str) -> Tape {
    let mut client = ready(scenario);
    let params = client.prompt_params(prompt);
    client.tell(1003, "session/prompt", params);
    client.until_called(place).expect("the turn waits");
    let about = client.about_session();
    client.notify("session/cancel", about);
    let answer = client.wait_for(1003);
    assert_eq!(
        answer["result"],
        json!({ "stopReason": "cancelled" }),
        "{place}"
    );
    // The next turn is not affected.
    client.service = crate::client::obliging;
    let answer = client.prompt(1004, "show cwd");
    assert!(answer["result"].is_object());
    client.finish()
}

#[test]
fn cancel_during_a_pause() {
    let tape = cancelled_at("default", "be slow", "session/update");
    let end = tape.place(|m| m["id"] == 1003);
    let next = tape.place(|m| m["id"] == 1004);
    assert!(end < next);
}

#[test]
fn cancel_during_a_client_request() {
    cancelled_at("permission", "go", "session/request_permission");
    cancelled_at("fs", "go", "fs/write_text_file");
    cancelled_at("default", "read notes.txt", "fs/read_text_file");
    cancelled_at("default", "use the terminal", "terminal/create");
    cancelled_at("elicitation", "go", "elicitation/create");
}

#[test]
fn a_terminal_is_released_on_cancel() {
    // TE-02
    let mut client = ready("default");
    client.service = |request| match request["method"].as_str() {
        Some("terminal/create") => Some(json!({ "result": { "terminalId": "t" } })),
        _ => None,
    };
    let params = client.prompt_params("use the terminal");
    client.tell(1003, "session/prompt", params);
    client
        .until_called("terminal/wait_for_exit")
        .expect("it waits");
    let about = client.about_session();
    client.notify("session/cancel", about);
    assert_eq!(client.wait_for(1003)["result"]["stopReason"], "cancelled");
    let tape = client.finish();
    assert_eq!(
        tape.calls("terminal/release")[0]["params"]["terminalId"],
        "t"
    );
}

#[test]
fn cancel_during_a_flood() {
    let mut client = ready("flood");
    let params = client.prompt_params("go");
    client.tell(1003, "session/prompt", params);
    client.until_called("session/update").expect("it floods");
    let about = client.about_session();
    client.notify("session/cancel", about);
    assert_eq!(client.wait_for(1003)["result"]["stopReason"], "cancelled");
    client.finish();
}

#[test]
fn a_late_response_of_the_client_is_ignored() {
    let mut client = ready("permission");
    let params = client.prompt_params("go");
    client.tell(1003, "session/prompt", params);
    let request = client
        .until_called("session/request_permission")
        .expect("it asks");
    let about = client.about_session();
    client.notify("session/cancel", about);
    client.wait_for(1003);
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "allow-once" } });
    client.reply(&request, chosen);
    client.ask(1004, "session/list", json!({}));
    let tape = client.finish();
    assert_eq!(tape.said(), "");
    assert_eq!(tape.answers(1003).len(), 1);
}

#[test]
fn cancel_without_a_turn_has_no_effect() {
    // PT-15
    let mut client = ready("default");
    let about = client.about_session();
    client.notify("session/cancel", about);
    client.notify("session/cancel", json!({ "sessionId": "nobody" }));
    client.notify("session/cancel", Value::Null);
    client.notify("$/cancel_request", json!({ "requestId": 5 }));
    client.notify("$/cancel_request", json!([]));
    assert_eq!(
        client.prompt(1003, "hello")["result"]["stopReason"],
        "end_turn"
    );
    let tape = client.finish();
    assert_eq!(tape.said(), "You said: hello");
}

#[test]
fn a_canceled_request_gets_one_response() {
    let mut client = ready("slow");
    let params = client.prompt_params("go");
    client.tell(1003, "session/prompt", params);
    client.until_called("session/update").expect("it talks");
    client.notify("$/cancel_request", json!({ "requestId": 1003 }));
    assert_eq!(client.wait_for(1003)["error"]["code"], -32800);
    client.ask(1004, "session/list", json!({}));
    assert_eq!(client.finish().answers(1003).len(), 1);
}

#[test]
fn closing_and_deleting_end_the_turn_first() {
    for method in ["session/close", "session/delete"] {
        let mut client = ready("slow");
        let params = client.prompt_params("go");
        client.tell(1003, "session/prompt", params);
        client.until_called("session/update").expect("it talks");
        let about = client.about_session();
        client.tell(1004, method, about.clone());
        client.wait_for(1004);
        let gone = client.ask(
            1005,
            "session/prompt",
            json!({ "sessionId": about["sessionId"], "prompt": [] }),
        );
        assert_eq!(gone["error"]["code"], -32002);
        let tape = client.finish();
        assert_eq!(
            tape.answer(1003)["result"]["stopReason"],
            "cancelled",
            "{method}"
        );
        let last = tape
            .messages()
            .iter()
            .rposition(|m| m["method"] == "session/update");
        assert!(last < tape.place(|m| m["id"] == 1004), "{method}");
    }
}
