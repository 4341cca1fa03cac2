//! The token of the host: it is masked in the output of agents, and it can be replaced.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use super::served::{Answer, Served, Stream, command};
use serde_json::{Value, json};
use tempfile::TempDir;

fn rotate(host: &Served, args: &[&str]) -> Output {
    let mut rotate = command(host.dir.path());
    rotate.args(["serve", "--rotate-token"]).args(args);
    rotate.output().expect("run")
}

fn runtime(home: &Path) -> Value {
    let bytes = std::fs::read(home.join("runtime.json")).expect("there");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Files of the state directory that contain a text.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|w| w == text.as_bytes())
        {
            found.push(path.file_name().expect("a name").to_string_lossy().into());
        }
    }
    found
}

// The mock agent repeats the prompt, like an agent that found the token somewhere.
#[test]
fn the_token_is_masked_in_the_output_of_agents() {
    let mut host = Served::new();
    let id = host.running("default");
    let other = format!("{}f", &host.token[1..]);
    let rounds = [true, false];
    for is_first in rounds {
        let stream = host.stream(&id, "?from=now", "");
        host.turn(&id, &format!("mine is {}", host.token));
        host.turn(&id, &format!("another is {other}"));
        let lines = host.lines(&id).join("\n");
        assert!(lines.contains("You said: mine is [secret]"), "{lines}");
        assert!(lines.contains(&format!("another is {other}")), "{lines}");
        let path = format!("/sessions/{id}/events?limit=1000");
        assert!(!host.get(&path).text.contains(&host.token));
        let events = until_second_turn(stream);
        assert!(events.contains("[secret]") && !events.contains(&host.token));
        let files = files_with(&host.home(), &host.token);
        assert_eq!(files, ["runtime.json"], "the token is in no other file");
        if is_first {
            // A new token is masked in sessions that are already running.
            assert!(rotate(&host, &[]).status.success());
            let new = runtime(&host.home())["token"].clone();
            host.token = new.as_str().expect("text").to_owned();
        }
    }
    let (_, _, dir) = host.stop();
    let home = dir.path().join("home");
    assert!(!files_with(&home, &other).is_empty(), "the search works");
}

fn until_second_turn(mut stream: Stream) -> String {
    let mut seen = String::new();
    for _ in 0..2 {
        let turn = stream.until(|event, data| event == "event" && data["type"] == "turn-end");
        seen += &format!("{turn:?}");
    }
    seen
}

#[test]
fn a_token_can_be_replaced_while_the_host_runs() {
    let mut host = Served::new();
    let id = host.running("default");
    let before = runtime(&host.home());
    let ticket = |host: &Served| {
        let issued = host.post(&format!("/sessions/{id}/tickets"), &json!({}));
        issued.json()["ticket"]
            .as_str()
            .expect("a ticket")
            .to_owned()
    };
    let with_ticket = |host: &Served, ticket: &str| {
        let path = format!("/sessions/{id}/stream?ticket={ticket}");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", host.address);
        let mut stream = host.open();
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
        stream
    };
    let spare = ticket(&host);
    let used = ticket(&host);
    let mut open = [
        host.stream(&id, "", ""),
        Stream::new(with_ticket(&host, &used)),
    ];
    for stream in &mut open {
        stream.until(|event, data| event == "status" && data["status"] == "running");
    }
    let ran = rotate(&host, &[]);
    assert!(ran.status.success(), "{ran:?}");
    let output = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(output.contains("runtime.json"), "{output}");

    let after = runtime(&host.home());
    let new = after["token"].as_str().expect("text").to_owned();
    assert_ne!(new, host.token);
    assert!(
        !output.contains(&new) && !output.contains(&host.token),
        "{output}"
    );
    assert_eq!(
        (&after["url"], &after["pid"]),
        (&before["url"], &before["pid"])
    );
    let file = host.home().join("runtime.json");
    let mode = std::fs::metadata(&file)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    // Nothing of the old token works: requests, open streams and unused tickets.
    assert_eq!(host.get("/sessions").refusal(401), "unauthorized");
    for mut stream in open {
        while let Some(message) = stream.next() {
            assert_ne!(message.event, "end", "the session goes on");
        }
    }
    let refused = Answer::read_head(with_ticket(&host, &spare));
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    host.token = new;
    assert_eq!(
        host.get(&format!("/sessions/{id}")).json()["status"],
        "running"
    );
    host.turn(&id, "hello");
    let listed = command(host.dir.path())
        .args(["sessions", "--json"])
        .output();
    assert!(listed.expect("run").status.success());

    let ran = rotate(&host, &["--output", "jsonl"]);
    let events = String::from_utf8_lossy(&ran.stdout).into_owned();
    let last: Value = serde_json::from_str(events.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (&last["ok"], &last["rotated"]),
        (&json!(true), &json!(true)),
        "{events}"
    );
    assert_eq!(host.get("/sessions").refusal(401), "unauthorized");
}

/// A request with the old token has passed the guard, and sends the rest of its body later.
#[test]
fn a_request_that_is_not_complete_when_the_token_is_replaced_does_nothing() {
    let mut host = Served::new();
    let id = host.running("default");
    let start = |host: &Served, path: &str, body: &str| {
        let mut stream = host.open();
        let (first, rest) = body.split_at(5);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{first}",
            host.address,
            host.bearer(),
            body.len()
        );
        std::io::Write::write_all(&mut stream, head.as_bytes()).expect("sent");
        (stream, rest.to_owned())
    };
    let prompt = json!({ "prompt": "from the old token" }).to_string();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "send_prompt", "arguments": { "id": id, "prompt": "from the old token" } } });
    let requests = [
        start(&host, &format!("/sessions/{id}/prompt"), &prompt),
        start(&host, "/mcp", &call.to_string()),
    ];
    // The guard has accepted them when a later request is answered.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(host.get("/sessions").status, 200);
    assert!(rotate(&host, &[]).status.success());
    for (mut stream, rest) in requests {
        std::io::Write::write_all(&mut stream, rest.as_bytes()).expect("sent");
        let answer = Answer::read(stream);
        assert_eq!(answer.status, 401, "{answer:?}");
    }
    let new = runtime(&host.home())["token"].clone();
    host.token = new.as_str().expect("text").to_owned();
    // With the new token, a body in two parts is accepted.
    let body = json!({ "prompt": "from the new token" }).to_string();
    let (mut stream, rest) = start(&host, &format!("/sessions/{id}/prompt"), &body);
    std::io::Write::write_all(&mut stream, rest.as_bytes()).expect("sent");
    assert_eq!(Answer::read(stream).status, 200);
    super::served::eventually("the prompt is answered", || {
        host.lines(&id)
            .join("\n")
            .contains("You said: from the new token")
    });
    assert!(!host.lines(&id).join("\n").contains("from the old token"));
}

#[test]
fn a_stolen_token_does_not_get_its_successor() {
    let host = Served::new();
    let answer = host.post("/token/rotate", &json!({}));
    assert_eq!((answer.status, answer.json()), (200, json!({ "ok": true })));
    assert_eq!(
        host.post("/token/rotate", &json!({})).refusal(401),
        "unauthorized"
    );
}

#[test]
fn a_token_that_cannot_be_stored_is_not_replaced() {
    let host = Served::new();
    let file = host.home().join("runtime.json");
    std::fs::rename(&file, host.home().join("kept.json")).expect("moved");
    std::fs::create_dir_all(file.join("in the way")).expect("made");
    let answer = host.post("/token/rotate", &json!({}));
    assert_eq!(answer.refusal(507), "state_unwritable");
    assert_eq!(host.get("/sessions").status, 200, "the old token is valid");
}

#[test]
fn without_a_host_the_option_starts_one() {
    let host = Served::on(TempDir::new().expect("a directory"), &["--rotate-token"]);
    assert_eq!(host.get("/sessions").status, 200);
    let old = host.token.clone();
    let (_, _, dir) = host.stop();
    assert!(!dir.path().join("home/runtime.json").exists());
    let next = Served::on(dir, &[]);
    assert_ne!(next.token, old, "each start has a new token");
}
