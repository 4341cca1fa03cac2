//! The subcommands of `sessions` that forget, export and sign in, without a terminal.

use std::path::Path;

use super::clients::{events, run, said};
use super::served::{Served, eventually, work};
use super::verbs::{HOSTILE, asking, json_of, refused, start};
use serde_json::{Value, json};

#[test]
fn sessions_are_forgotten_after_a_confirmation() {
    let host = Served::new();
    let dir = host.dir.path();
    let (a, b) = (start(dir, &["--label", "a"]), start(dir, &[]));
    let forget = |args: &[&str]| run(dir, &[&["sessions", "forget"], args].concat());
    let count = || {
        host.get("/sessions").json()["sessions"]
            .as_array()
            .map(Vec::len)
    };
    refused(&forget(&[&a, &b]), 64);
    let err = events(&said(&forget(&[&a, "-o", "jsonl"]), 64));
    assert_eq!(err[1]["code"], "CONFIRMATION_REQUIRED");
    let plan = events(&said(&forget(&[&a, &b, "--dry-run", "-o", "jsonl"]), 0));
    let targets: Vec<&Value> = plan
        .iter()
        .filter(|e| e["type"] == "aoi:plan")
        .map(|e| &e["target"])
        .collect();
    assert_eq!(targets, [&json!(a), &json!(b)]);
    let plan = said(&run(dir, &["sessions", "kill", &a, "--dry-run"]), 0);
    assert_eq!(plan, format!("would kill {a} (a)\n"));
    assert_eq!(count(), Some(2), "a dry run changes nothing");
    assert_eq!(
        host.get(&format!("/sessions/{a}")).json()["status"],
        "running"
    );
    let gone = json_of(&forget(&[
        &a,
        &b,
        "--confirm",
        "--confirm-count",
        "2",
        "-o",
        "json",
    ]));
    let gone = gone["sessions"].as_array().expect("a list");
    assert_eq!(gone.len(), 2);
    assert!(
        gone.iter()
            .all(|s| s["action"] == "forgotten" && s["changed"] == true),
        "{gone:?}"
    );
    assert_eq!(count(), Some(0));
    refused(&forget(&[&a, "--yes"]), 66);
}

/// A repeated call with the same key starts one session.
#[test]
fn the_same_key_starts_one_session() {
    let host = Served::new();
    let dir = host.dir.path();
    let args = [
        "sessions",
        "start",
        "mock-acp",
        "--cwd",
        ".",
        "--idempotency-key",
        "k",
        "-o",
        "jsonl",
    ];
    let first = events(&said(&run(dir, &args), 0));
    let again = events(&said(&run(dir, &args), 0));
    assert_eq!(first[1], again[1]);
    assert_eq!(again.last().expect("a summary")["replayed"], true);
    assert_eq!(
        host.get("/sessions").json()["sessions"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn the_whole_history_is_exported() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = asking(&host);
    said(
        &run(dir, &["sessions", "answer", &id, "--option", "allow-once"]),
        0,
    );
    let idle = || host.get(&format!("/sessions/{id}")).json()["busy"] == false;
    eventually("the turn has ended", idle);
    // More than one page.
    for n in 0..60 {
        host.turn(&id, &format!("number {n}"));
    }
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let export = |args: &[&str]| run(dir, &[&["sessions", "export", &id], args].concat());
    let text = said(&export(&[]), 0);
    for part in [
        "### Prompt\n\n```text\nask for permission\n```\n",
        "### Tool call: Edit the notes\n\n```json\n",
        "### Question: The agent asks for permission: Edit the notes\n",
        "- Allow\n",
        "**Answer:** Allow\n",
        "### Answer\n\nYou allowed it.\n",
        "*Turn ended: end\\_turn.*\n",
        "You said: number 59\n",
        "The session ended: killed.\n",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(text.matches("\n## Turn ").count(), 61);
    let whole = host
        .get(&format!("/sessions/{id}/events?limit=1000"))
        .json();
    let document = json_of(&export(&["--format", "json"]));
    assert_eq!(document["events"], whole["events"]);
    assert_eq!(document["session"]["id"], id);
    assert_eq!(json_of(&export(&["-o", "json"])), document);
    let lines = said(&export(&["--format", "jsonl"]), 0);
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    assert_eq!(json!(lines), whole["events"]);
    let all = events(&said(&export(&["-o", "jsonl"]), 0));
    let streamed = all.iter().filter(|event| event["type"] == "session-event");
    assert_eq!(streamed.count(), lines.len());
    let file = work(dir).join("history.md");
    let args = ["--output-file", file.to_str().expect("text")];
    let wrote = said(&export(&args), 0);
    assert!(
        wrote.starts_with(&format!("wrote {} events to ", lines.len())),
        "{wrote}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("written"), text);
    let wrote = json_of(&export(
        &[&args[..], &["--format", "jsonl", "-o", "json"]].concat(),
    ));
    assert_eq!(
        (&wrote["events"], &wrote["gaps"]),
        (&json!(lines.len()), &json!(0))
    );
}

/// A scenario whose every text is hostile.
fn hostile_scenario(dir: &Path) -> String {
    let file = work(dir).join("hostile.yaml");
    let text = json!({
        "scenario": "agentproto.scenario/v1", "name": "hostile", "description": "hostile",
        "turns": [{ "when": "any", "steps": [
            { "text": HOSTILE },
            { "tool_call": { "id": "t", "title": HOSTILE, "kind": "edit", "input": { "command": HOSTILE } } },
            { "permission": { "id": "t", "title": HOSTILE, "on_allow": [{ "text": HOSTILE }] } },
        ]}],
    });
    std::fs::write(&file, text.to_string()).expect("written");
    file.to_str().expect("text").to_owned()
}

#[test]
fn escape_sequences_of_agents_are_not_printed() {
    let host = Served::new();
    let dir = host.dir.path();
    let scenario = format!("scenario={}", hostile_scenario(dir));
    let id = start(
        dir,
        &["--label", HOSTILE, "--option", &scenario, "-p", HOSTILE],
    );
    let mut seen = Vec::new();
    let mut print = |args: &[&str]| {
        let ran = run(dir, &[&["sessions"], args].concat());
        assert_eq!(ran.status.code(), Some(0), "{args:?}: {ran:?}");
        let both = [ran.stdout, ran.stderr].concat();
        seen.push((args.join(" "), String::from_utf8(both).expect("UTF-8")));
    };
    print(&["answer", &id, "--wait"]);
    print(&["answer", &id, "-o", "json"]);
    print(&[]);
    print(&["--json"]);
    print(&["answer", &id, "--option", "allow-once"]);
    let idle = || host.get(&format!("/sessions/{id}")).json()["busy"] == false;
    eventually("the turn has ended", idle);
    for format in ["markdown", "json", "jsonl"] {
        print(&["export", &id, "--format", format]);
    }
    print(&["kill", &id, "--dry-run"]);
    print(&["kill", &id, "-o", "json"]);
    print(&["forget", &id, "--yes"]);
    let echo = start(dir, &[]);
    print(&["prompt", &echo, HOSTILE]);
    print(&["prompt", &echo, HOSTILE, "-o", "json"]);
    for (args, text) in &seen {
        let hidden = text.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}'));
        assert!(!hidden, "{args}: {text:?}");
    }
    for args in ["answer", "export", "kill", "prompt"] {
        let shown = seen
            .iter()
            .find(|(name, _)| name.starts_with(args))
            .expect("one");
        assert!(
            shown.1.contains("[2J"),
            "the text itself is shown: {shown:?}"
        );
    }
}

/// A file of another machine's token, and the link that `--open` prints.
#[test]
fn a_link_signs_in_once() {
    let host = Served::new();
    let dir = host.dir.path();
    let ran = run(dir, &["sessions", "--open"]);
    let link = said(&ran, 0);
    let code = link
        .trim_end()
        .strip_prefix(&format!("http://{}/#code=", host.address));
    let code = code.unwrap_or_else(|| panic!("{link}")).to_owned();
    let login = |code: &str| {
        let body = json!({ "code": code }).to_string();
        host.ask(
            "POST",
            "/login",
            "Content-Type: application/json\r\n",
            &body,
        )
    };
    let signed_in = login(&code);
    assert_eq!(
        (signed_in.status, &signed_in.json()["token"]),
        (200, &json!(host.token))
    );
    let again = login(&code);
    assert_eq!(again.status, 401);
    assert!(again.text.contains("sessions --open"), "{}", again.text);
    let all = events(&said(&run(dir, &["sessions", "--open", "-o", "jsonl"]), 0));
    assert_eq!(
        (&all[1]["type"], &all[1]["expiresInMs"]),
        (&json!("sign-in-link"), &json!(300_000))
    );
    let document = json_of(&run(dir, &["sessions", "--open", "-o", "json"]));
    assert_ne!(document["link"], all[1]["link"]);
    // Only with the token.
    let refused = host.ask("POST", "/login/codes", "", "");
    assert_eq!(refused.status, 401, "{}", refused.text);
    // A second daemon says where the link is.
    let second = run(dir, &["serve", "--port", "0", "--open"]);
    assert_eq!(second.status.code(), Some(69));
    let err = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(err.contains("agentproto sessions --open"), "{err}");
}
