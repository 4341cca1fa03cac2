//! The built-in clients of the daemon: `sessions` and `workspace` (A46-REF-04, 05, A46-MODEL-12,
//! A46-SSE-05, A46-PROJ-09, A46-SEC-05, A46-COMPAT-01).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use super::served::{Served, command, eventually, work};
use super::terminal::Terminal;
use serde_json::{Value, json};
use tempfile::TempDir;

pub fn run(dir: &Path, args: &[&str]) -> Output {
    command(dir)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("run")
}

#[track_caller]
pub fn said(ran: &Output, code: i32) -> String {
    assert_eq!(ran.status.code(), Some(code), "{ran:?}");
    String::from_utf8(ran.stdout.clone()).expect("UTF-8")
}

pub fn events(text: &str) -> Vec<Value> {
    let schema = agentproto_schema();
    let all: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    for event in &all {
        let wrong: Vec<String> = schema.iter_errors(event).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?}: {event}");
    }
    assert_eq!(all.first().expect("some")["type"], "aoi:meta");
    assert_eq!(all.last().expect("some")["type"], "aoi:summary");
    all
}

fn agentproto_schema() -> jsonschema::Validator {
    let text = include_str!("../../schemas/events.schema.json");
    let schema = serde_json::from_str(text).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

#[test]
fn without_a_daemon_there_is_a_hint() {
    let dir = TempDir::new().expect("a directory");
    for args in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["sessions", "--attach", "x"],
    ] {
        let ran = run(dir.path(), args);
        assert_eq!(said(&ran, 69), "");
        let err = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(err.contains("agentproto serve"), "{err}");
    }
    let all = events(&said(&run(dir.path(), &["sessions", "-o", "jsonl"]), 69));
    assert_eq!(all[1]["code"], "NO_HOST");
    // A daemon that was killed leaves its runtime file behind.
    let host = Served::new();
    host.signal(libc::SIGKILL);
    let (_, _, dir) = host.ended();
    let ran = run(dir.path(), &["sessions"]);
    assert_eq!(said(&ran, 69), "");
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("does not respond"),
        "{ran:?}"
    );
}

// A46-REF-05.
#[test]
fn sessions_are_listed_in_every_format() {
    agentproto_suites::proves!("A46-REF-05");
    let host = Served::new();
    let dir = host.dir.path();
    assert_eq!(said(&run(dir, &["sessions"]), 0), "no sessions\n");
    let id = host.running("default");
    let ended = host.running("default");
    host.post(&format!("/sessions/{ended}/kill"), &json!({}));
    let table = said(&run(dir, &["sessions"]), 0);
    assert!(
        table.lines().nth(1).is_some_and(|l| l.starts_with(&id)),
        "{table}"
    );
    assert!(
        table.contains("killed") && !table.contains('\u{1b}'),
        "{table}"
    );
    let json: Value =
        serde_json::from_str(&said(&run(dir, &["sessions", "--json"]), 0)).expect("JSON");
    // The same records as over HTTP, the newest first.
    let mut listed = host.get("/sessions").json();
    listed["sessions"].as_array_mut().expect("a list").reverse();
    assert_eq!(json, listed);
    let newest = events(&said(
        &run(dir, &["sessions", "--limit", "1", "-o", "jsonl"]),
        0,
    ));
    assert_eq!(newest[1]["id"], json!(ended));
    let table = said(&run(dir, &["sessions", "--limit", "1"]), 0);
    assert!(table.contains(&ended) && !table.contains(&id), "{table}");
    let alive = said(&run(dir, &["sessions", "--alive", "-o", "jsonl"]), 0);
    let all = events(&alive);
    assert_eq!(
        (all.len(), &all[1]["type"], &all[1]["id"]),
        (3, &json!("host-session"), &json!(id))
    );
    let runtime = host.home().join("runtime.json");
    let url = format!("http://{}", host.address);
    let args = [
        "sessions",
        "--url",
        &url,
        "--token-file",
        runtime.to_str().expect("text"),
    ];
    assert!(said(&run(host.dir.path(), &args), 0).contains(&id));
    let odd = TempDir::new().expect("a directory");
    std::fs::write(odd.path().join("token"), "odd").expect("written");
    let token = odd.path().join("token");
    let args = [
        "sessions",
        "--url",
        &url,
        "--token-file",
        token.to_str().expect("text"),
    ];
    assert_eq!(said(&run(odd.path(), &args), 77), "");
    said(&run(dir, &["sessions", "--attach", "ses_"]), 64);
    said(&run(dir, &["sessions", "--attach", "odd"]), 66);
}

#[test]
fn watch_reports_every_change_until_it_is_stopped() {
    agentproto_suites::proves!("A46-REF-05");
    let host = Served::new();
    let mut watch = command(host.dir.path())
        .args(["sessions", "--watch", "-o", "jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut all = vec![lines.next().expect("meta").expect("text")];
    let id = host.running("default");
    let mut until = |status: &str| loop {
        let line = lines.next().expect("more").expect("text");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        all.push(line);
        if event["id"] == id.as_str() && event["status"] == status {
            return;
        }
    };
    until("running");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    until("killed");
    // SAFETY: the process is our child.
    unsafe { libc::kill(watch.id().cast_signed(), libc::SIGTERM) };
    all.extend(lines.map(|l| l.expect("text")));
    assert_eq!(watch.wait().expect("ended").code(), Some(143));
    let all = events(&all.join("\n"));
    assert_eq!(all.last().expect("a summary")["reason"], "interrupted");
}

#[test]
fn prompts_from_a_pipe_run_one_after_the_other() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "before");
    let mut attached = command(host.dir.path())
        .args(["sessions", "--attach", &id[..12]])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = attached.stdin.take().expect("piped");
    input
        .write_all(b"one\n\ntwo\nwhat did I say before?\n")
        .expect("written");
    drop(input);
    let mut text = String::new();
    let mut out = attached.stdout.take().expect("piped");
    out.read_to_string(&mut text).expect("UTF-8");
    assert_eq!(attached.wait().expect("ended").code(), Some(0), "{text}");
    let ends = text.matches("── turn-end (end_turn) ──").count();
    assert_eq!(ends, 3, "{text}");
    assert!(
        text.contains("You said: one\n") && text.contains("Turn 4. Before: "),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}') && !text.contains("You said: before"),
        "{text}"
    );
    assert_eq!(
        host.get(&format!("/sessions/{id}")).json()["status"],
        "running"
    );
}

#[test]
fn attach_in_machine_mode_prints_every_event() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "hello");
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    let all = events(&said(
        &run(
            host.dir.path(),
            &["sessions", "--attach", &id, "-o", "jsonl"],
        ),
        0,
    ));
    let got: Vec<&Value> = all
        .iter()
        .filter(|e| e["type"] == "session-event")
        .collect();
    let whole = host.get(&format!("/sessions/{id}/events")).json();
    assert_eq!(got.len(), whole["events"].as_array().expect("a list").len());
    assert!(got.iter().any(|e| e["data"]["line"] == "You said: hello"));
}

// A46-PROJ-03 to 09: a user at a terminal. Ctrl-C ends the turn, not the session. Ctrl-D detaches.
#[test]
fn a_user_attaches_prompts_interrupts_and_detaches() {
    let host = Served::new();
    let id = host.running("default");
    host.turn(&id, "a thought");
    let mut person = Terminal::new(host.dir.path(), &["sessions", "--attach", &id]);
    person.until("Ctrl-D detaches");
    let replayed = person.until("── turn-end (end_turn) ──\u{1b}[0m");
    assert!(
        replayed.contains("\u{1b}[2m[thought] Let me think."),
        "{replayed:?}"
    );
    person.types("hello\n");
    person.until("You said: hello");
    person.until("── turn-end (end_turn) ──\u{1b}[0m");
    person.types("use a tool\n");
    person.until("\u{1b}[36m[tool] Search the notes\u{1b}[0m");
    person.until("── turn-end (end_turn) ──\u{1b}[0m");
    person.types("ask for permission\n");
    person.until("\u{1b}[33m[awaiting input] ");
    person.until("1) ");
    person.until("enter a number");
    person.types("what?\n");
    person.until("waits for an answer first");
    person.types("1\n");
    person.until("You allowed it.");
    person.until("── turn-end (end_turn) ──\u{1b}[0m");
    person.types("be slow\n");
    let busy = || host.get(&format!("/sessions/{id}")).json()["busy"] == true;
    eventually("the turn has started", busy);
    person.types("\u{3}");
    person.until("── turn-end (cancelled) ──");
    eventually("the turn has ended", || !busy());
    person.types("\u{3}");
    person.until("no turn is running");
    assert_eq!(
        host.get(&format!("/sessions/{id}")).json()["status"],
        "running"
    );
    person.types("\u{4}");
    person.until("detached; the session continues");
    assert_eq!(person.child.wait().expect("ended").code(), Some(0));
    assert_eq!(
        host.get(&format!("/sessions/{id}")).json()["status"],
        "running"
    );
    // A46-SEC-05: the client stores nothing.
    assert!(!host.dir.path().join("user").exists());
}

#[test]
fn attach_exits_when_the_session_ends() {
    let host = Served::new();
    let id = host.running("crash");
    let mut person = Terminal::new(host.dir.path(), &["sessions", "--attach", &id]);
    person.until("Ctrl-D detaches");
    person.types("crash\n");
    person.until("\u{1b}[31m[error] ");
    person.until("── session error ──");
    assert_eq!(person.child.wait().expect("ended").code(), Some(1));
}

#[test]
fn the_live_table_is_updated() {
    let host = Served::new();
    let mut person = Terminal::new(host.dir.path(), &["sessions", "--watch"]);
    person.until("no sessions");
    let id = host.running("default");
    person.until(&id);
    host.post(&format!("/sessions/{id}/kill"), &json!({}));
    person.until("killed");
    person.types("\u{3}");
    assert_eq!(person.child.wait().expect("ended").code(), Some(130));
}

// A46-MODEL-12, A46-SSE-05: a host that sends unknown fields and events.
#[test]
fn unknown_fields_and_events_are_ignored() {
    agentproto_suites::proves!("A46-MODEL-12", "A46-SSE-05");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let session = json!({
        "id": "s/1", "adapterSlug": "x", "workspaceSlug": "default", "cwd": "/", "status": "exited",
        "startedAt": "2026-01-01T00:00:00Z", "exitCode": -1, "color": { "deep": [1] },
    });
    let list = json!({ "sessions": [session], "more": 1 }).to_string();
    let stream = "event: weather\ndata: \"rain\"\n\nevent: line\ndata: {\"line\":\"hi\",\"stream\":\"stdout\",\"x\":1}\n\n\
                  event: end\ndata: {\"status\":\"exited\"}\n\n";
    let server = std::thread::spawn(move || {
        for (kind, body) in [
            ("application/json", list.as_str()),
            ("application/json", &list),
            ("text/event-stream", stream),
        ] {
            let (mut client, _) = listener.accept().expect("a client");
            let mut head = BufReader::new(client.try_clone().expect("a copy"));
            let mut line = String::new();
            while head.read_line(&mut line).expect("a head") > 2 {
                line.clear();
            }
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
            client
                .write_all((head + body).as_bytes())
                .expect("answered");
        }
    });
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("token"), "t\n").expect("written");
    let token = dir.path().join("token").to_string_lossy().into_owned();
    let host = ["--url", &url, "--token-file", &token];
    let table = said(&run(dir.path(), &[&["sessions"], &host[..]].concat()), 0);
    assert!(table.contains("s/1") && table.contains("exited"), "{table}");
    let args = ["sessions", "--attach", "s/1", "--from", "start"];
    let text = said(&run(dir.path(), &[&args, &host[..]].concat()), 0);
    assert_eq!(text, "hi\n── session exited ──\n");
    server.join().expect("no panic");
}

// A46-REF-04, A46-WS-01 to 07.
#[test]
fn workspaces_are_managed_with_and_without_a_host() {
    agentproto_suites::proves!(
        "A46-WS-01",
        "A46-WS-02",
        "A46-WS-03",
        "A46-WS-05",
        "A46-WS-06",
        "A46-WS-07",
        "A46-SPAWN-02",
        "A46-SPAWN-03",
        "A46-REF-03",
        "A46-REF-04"
    );
    let dir = TempDir::new().expect("a directory");
    let place = dir.path().to_owned();
    let (a, b) = (place.join("My Project"), place.join("other"));
    std::fs::create_dir_all(&a).expect("made");
    std::fs::create_dir_all(&b).expect("made");
    let (a_text, b_text) = (a.to_str().expect("text"), b.to_str().expect("text"));
    let file = place.join("home/workspaces.json");
    assert!(said(&run(&place, &["workspace", "list"]), 0).contains("workspace add"));
    let would = said(&run(&place, &["workspace", "add", a_text, "--dry-run"]), 0);
    assert!(
        would.starts_with("would add workspace `my-project`"),
        "{would}"
    );
    assert!(!file.exists(), "a dry run changes nothing");
    let plan = events(&said(
        &run(
            &place,
            &["workspace", "add", a_text, "--dry-run", "-o", "jsonl"],
        ),
        0,
    ));
    assert_eq!(
        (&plan[1]["type"], &plan[1]["target"]),
        (&json!("aoi:plan"), &json!("my-project"))
    );
    said(
        &run(&place, &["workspace", "add", a_text, "--label", "Main"]),
        0,
    );
    let host = Served::on(dir, &[]);
    let added = events(&said(
        &run(
            &place,
            &["workspace", "add", b_text, "--slug", "b", "-o", "jsonl"],
        ),
        0,
    ));
    assert_eq!(
        (&added[1]["slug"], &added[1]["active"]),
        (&json!("b"), &json!(false))
    );
    let stored: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(
        (&stored["version"], &stored["active"]),
        (&json!(1), &json!("my-project"))
    );
    let first = &stored["workspaces"][0];
    assert_eq!(
        (&first["path"], &first["label"]),
        (&json!(a.canonicalize().expect("there")), &json!("Main"))
    );
    assert!(first["addedAt"].is_string() && first["updatedAt"].is_string());

    let spawn = |body: Value| {
        let spawned = host.post("/sessions/agent", &body);
        assert_eq!(spawned.status, 201, "{spawned:?}");
        spawned.json()
    };
    let session = spawn(json!({ "adapter": "mock-acp" }));
    assert_eq!(
        (&session["workspaceSlug"], &session["cwd"]),
        (&json!("my-project"), &first["path"])
    );
    let session = spawn(json!({ "adapter": "mock-acp", "workspaceSlug": "b" }));
    assert_eq!(
        (&session["workspaceSlug"], &session["cwd"]),
        (&json!("b"), &stored["workspaces"][1]["path"])
    );
    let session = spawn(json!({ "adapter": "mock-acp", "workspaceSlug": "b", "cwd": a }));
    assert_eq!(
        session["cwd"], first["path"],
        "an explicit directory takes precedence"
    );
    let session = spawn(json!({ "adapter": "mock-acp", "workspaceSlug": "odd" }));
    assert_eq!(
        (&session["workspaceSlug"], &session["warnings"][0]["code"]),
        (&json!("my-project"), &json!("workspace_unknown"))
    );
    said(&run(&place, &["workspace", "use", "b"]), 0);
    assert_eq!(
        spawn(json!({ "adapter": "mock-acp" }))["workspaceSlug"],
        "b"
    );
    let listed = said(&run(&place, &["workspace", "list"]), 0);
    assert!(
        listed.contains("* b") && listed.contains("  my-project"),
        "{listed}"
    );
    said(&run(&place, &["workspace", "remove", "b"]), 0);
    let session = spawn(json!({ "adapter": "mock-acp" }));
    assert_eq!(session["warnings"][0]["code"], "cwd_of_host", "{session}");
    assert_eq!(
        (&session["workspaceSlug"], &session["cwd"]),
        (&json!("default"), &json!(work(&place)))
    );
    assert!(b.is_dir(), "the directory is not deleted");

    let ran = run(&place, &["workspace", "remove", "b"]);
    assert_eq!(said(&ran, 66), "");
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("known workspaces: my-project"),
        "{ran:?}"
    );
    said(&run(&place, &["workspace", "add", "/nowhere/at/all"]), 66);
    said(
        &run(&place, &["workspace", "add", a_text, "--slug", "No Slug"]),
        64,
    );
}

#[test]
fn concurrent_workspace_changes_are_all_kept() {
    let dir = TempDir::new().expect("a directory");
    let writers: Vec<Child> = (0..12)
        .map(|n| {
            let path = dir.path().join(format!("w{n}"));
            std::fs::create_dir_all(&path).expect("made");
            let mut add = command(dir.path());
            add.args(["workspace", "add", "-q"])
                .arg(path)
                .stdout(Stdio::null());
            add.spawn().expect("started")
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().expect("ended").success());
    }
    let listed = said(&run(dir.path(), &["workspace", "list", "-o", "json"]), 0);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["workspaces"].as_array().map(Vec::len), Some(12));
}

// A46-COMPAT-01: `run` works without the daemon.
#[test]
fn run_does_not_register_a_session() {
    agentproto_suites::proves!("A46-COMPAT-01");
    let host = Served::new();
    let ran = run(host.dir.path(), &["run", "mock-acp", "--prompt", "hello"]);
    assert!(said(&ran, 0).contains("You said: hello"), "{ran:?}");
    assert_eq!(host.get("/sessions").json(), json!({ "sessions": [] }));
}
