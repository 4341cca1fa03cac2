//! `sessions` at a terminal: marks, queued prompts, confirmations, the live table.

use super::clients::{run, said};
use super::served::{Served, eventually, work};
use super::terminal::Terminal;
use serde_json::json;

#[test]
fn what_is_typed_during_a_turn_is_sent_after_it() {
    let host = Served::new();
    let id = host.running("default");
    let mut person = Terminal::new(host.dir.path(), &["sessions", "--attach", &id]);
    person.until("Ctrl-D detaches");
    person.until("\n> ");
    person.types("be slow\n");
    let busy = || host.get(&format!("/sessions/{id}")).json()["busy"] == true;
    eventually("the turn has started", busy);
    person.types("first draft\n");
    person.until("queued until the turn ends");
    person.types("second draft\n");
    person.until("2 prompts wait");
    person.types("\u{3}");
    person.until("interrupted the turn; 2 queued prompts follow");
    person.until("── turn-end (cancelled) ──");
    person.until("> first draft");
    person.until("You said: first draft");
    person.until("> second draft");
    person.until("You said: second draft");
    person.until("── turn-end (end_turn) ──");
    // It is the user's turn again.
    person.until("\n> ");
    assert_eq!(host.get(&format!("/sessions/{id}")).json()["turns"], 3);
    person.types("be slow\n");
    eventually("the turn has started", busy);
    person.types("not yet\n");
    person.until("queued");
    person.types("\u{4}");
    person.until("not sent: not yet");
    assert_eq!(person.child.wait().expect("ended").code(), Some(1));
}

#[test]
fn an_unknown_word_is_not_an_answer() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = host.running("default");
    let mut person = Terminal::new(dir, &["sessions", "--attach", &id]);
    person.until("\n> ");
    person.types("ask for permission\n");
    person.until("1) ");
    person.until("\n? ");
    person.types("sure, go on\n");
    person.until("waits for an answer first");
    person.until("\n? ");
    assert_eq!(host.get(&format!("/sessions/{id}")).json()["busy"], true);
    person.types("yes\n");
    person.until("You allowed it.");
    drop(person);
    // The same with `prompt` and `run`.
    for args in [
        &["sessions", "prompt", &id, "ask for permission"][..],
        &["run", "mock-acp", "--prompt", "ask for permission"],
    ] {
        let mut person = Terminal::new(dir, args);
        person.until("Your choice");
        person.types("sure, go on\n");
        person.until("enter one of the numbers above");
        person.until("Your choice");
        person.types("1\n");
        person.until("You allowed it.");
        assert_eq!(
            person.child.wait().expect("ended").code(),
            Some(0),
            "{args:?}"
        );
    }
}

#[test]
fn a_live_session_is_forgotten_after_a_yes() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = host.running("default");
    let forget = || Terminal::new(dir, &["sessions", "forget", &id]);
    for answer in ["n\n", "\n", "\u{4}"] {
        let mut person = forget();
        person.until("is alive");
        person.until("Kill and forget? [y/N]: ");
        person.types(answer);
        person.until("nothing was changed");
        assert_eq!(
            person.child.wait().expect("ended").code(),
            Some(1),
            "{answer:?}"
        );
    }
    let mut person = forget();
    person.until("[y/N]: ");
    person.types("what?\n");
    person.until("Answer y or n.");
    person.types("y\n");
    person.until("forgot ");
    assert_eq!(host.get("/sessions").json(), json!({ "sessions": [] }));
    // An ended session has no agent that works.
    let id = host.running("default");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let mut person = Terminal::new(dir, &["sessions", "forget", &id]);
    person.until("forgot ");
    assert_eq!(person.child.wait().expect("ended").code(), Some(0));
}

#[test]
fn a_new_session_is_attached_to() {
    let host = Served::new();
    let args = [
        "sessions", "start", "mock-acp", "--cwd", ".", "--attach", "-p", "hello",
    ];
    let mut person = Terminal::new(host.dir.path(), &args);
    person.until("Ctrl-D detaches");
    person.until("You said: hello");
    person.until("\n> ");
    person.types("\u{4}");
    person.until("detached");
    assert_eq!(person.child.wait().expect("ended").code(), Some(0));
}

/// The whole line of a session, at a width that it does not fit into.
#[test]
fn labels_are_visible_and_q_leaves() {
    let host = Served::new();
    let dir = host.dir.path();
    let label = "review the 日本語 parser";
    let cwd = work(dir);
    let body = json!({ "adapter": "mock-acp", "cwd": cwd, "label": label });
    let id = host.post("/sessions/agent", &body).json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let mut person = Terminal::sized(dir, &["sessions", "--watch"], 80);
    let table = person.until(label);
    assert!(table.contains(&id[..10]) && !table.contains(&id), "{table}");
    person.types("xq");
    assert_eq!(person.child.wait().expect("ended").code(), Some(0));
    // In a pipe, nothing is cut.
    let piped = said(&run(dir, &["sessions"]), 0);
    assert!(piped.contains(&id) && piped.contains(label), "{piped}");
    let found = said(&run(dir, &["sessions", "kill", &id[..10]]), 0);
    assert!(found.contains(&id), "{found}");
}
