//! The subcommands of `sessions`, without a terminal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use super::clients::{events, run, said};
use super::served::{Served, command, eventually, work};
use serde_json::{Value, json};

/// Prompts and labels that try to control a terminal.
pub const HOSTILE: &str = "a\u{1b}[2J\u{202e}b\u{7}";

#[track_caller]
pub fn json_of(ran: &Output) -> Value {
    serde_json::from_str(&said(ran, 0)).expect("JSON")
}

#[track_caller]
pub fn refused(ran: &Output, code: i32) -> String {
    assert_eq!(said(ran, code), "");
    String::from_utf8(ran.stderr.clone()).expect("UTF-8")
}

/// Starts a session without workspace warnings, and returns its id.
pub fn start(dir: &Path, args: &[&str]) -> String {
    let cwd = work(dir);
    let cwd = ["--cwd", cwd.to_str().expect("text")];
    let ran = run(
        dir,
        &[&["sessions", "start", "mock-acp"], &cwd[..], args].concat(),
    );
    let out = said(&ran, 0);
    let id = out.strip_suffix('\n').expect("one line").to_owned();
    assert!(id.starts_with("ses_") && !id.contains('\n'), "{out}");
    id
}

fn prompt(dir: &Path, id: &str, args: &[&str]) -> Output {
    run(dir, &[&["sessions", "prompt", id], args].concat())
}

/// A session with an open question, and the id of the session.
pub fn asking(host: &Served) -> String {
    let dir = host.dir.path();
    let id = start(dir, &["--prompt", "ask for permission"]);
    let listed = run(dir, &["sessions", "answer", &id, "--wait", "-o", "json"]);
    assert_eq!(
        json_of(&listed)["questions"].as_array().map(Vec::len),
        Some(1)
    );
    id
}

#[test]
fn a_session_is_started_prompted_and_ended() {
    let host = Served::new();
    let dir = host.dir.path();
    std::fs::create_dir(work(dir).join("below")).expect("made");
    let args = [
        "--label",
        "first",
        "--mode",
        "careful",
        "--option",
        "loud=true",
    ];
    let id = start(dir, &[&args[..], &["--option", "patience=7"]].concat());
    let session = host.get(&format!("/sessions/{id}")).json();
    assert_eq!(session["label"], "first");
    assert_eq!(session["cwd"], json!(work(dir)));
    assert_eq!(said(&prompt(dir, &id, &["hello"]), 0), "You said: hello\n");
    let argv = said(&prompt(dir, &id[..12], &["show argv", "--wait"]), 0);
    for given in ["--careful", "--loud", "--patience", "7"] {
        assert!(argv.contains(given), "{given}: {argv}");
    }
    // The prompt from a pipe, and a relative directory.
    let mut piped = command(dir)
        .args([
            "sessions", "start", "mock-acp", "--cwd", "below", "--wait", "-p", "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = piped.stdin.take().expect("piped");
    input
        .write_all("from a\npipe ✓".as_bytes())
        .expect("written");
    drop(input);
    let ran = piped.wait_with_output().expect("ended");
    assert_eq!(said(&ran, 0), "You said: from a\npipe ✓\n");
    let other = String::from_utf8(ran.stderr)
        .expect("UTF-8")
        .trim()
        .to_owned();
    let session = host.get(&format!("/sessions/{other}")).json();
    assert_eq!(session["cwd"], json!(work(dir).join("below")));

    let killed = said(&run(dir, &["sessions", "kill", &id, &other, &id]), 0);
    assert_eq!(killed, format!("killed {id} (first)\nkilled {other}\n"));
    let again = said(&run(dir, &["sessions", "kill", &id]), 0);
    assert!(again.contains("already ended (killed)"), "{again}");
    let err = refused(&prompt(dir, &id, &["x"]), 69);
    assert!(
        err.contains("session_ended") && err.contains("sessions start"),
        "{err}"
    );
}

#[test]
fn without_a_workspace_a_session_starts_in_the_current_directory() {
    agentproto_suites::proves!("A46-WS-09");
    let host = Served::new();
    let dir = host.dir.path();
    let here = work(dir).join("here");
    std::fs::create_dir(&here).expect("made");
    let started = || {
        let mut start = command(dir);
        start.args(["sessions", "start", "mock-acp", "-o", "json"]);
        let ran = start.current_dir(&here).output().expect("run");
        json_of(&ran)
    };
    let session = started();
    assert_eq!(session["cwd"], json!(here));
    assert_eq!(session["warnings"], json!(null));
    // An active workspace is used instead.
    let there = dir.join("there");
    std::fs::create_dir(&there).expect("made");
    let there = there.canonicalize().expect("there");
    let path = there.to_str().expect("text");
    said(&run(dir, &["workspace", "add", path, "--slug", "there"]), 0);
    said(&run(dir, &["workspace", "use", "there"]), 0);
    let session = started();
    assert_eq!(session["workspaceSlug"], "there");
    assert_eq!(session["cwd"], json!(there));
}

#[test]
fn mistakes_are_reported_before_anything_is_started() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = start(dir, &[]);
    let verbs = |args: &[&str]| run(dir, &[&["sessions"], args].concat());
    for (args, code, expected) in [
        (&["start", "mock-acpp"][..], 66, "did you mean `mock-acp`?"),
        (&["start", "nope"], 66, "unknown adapter `nope`"),
        (&["start", "mock-acp", "--mode", "odd"], 64, "mode_unknown"),
        (
            &["start", "mock-acp", "--option", "odd=1"],
            64,
            "option_unknown",
        ),
        (&["start", "mock-acp", "--option", "odd"], 64, "ID=VALUE"),
        (
            &["start", "mock-acp", "--cwd", "nowhere"],
            66,
            "working directory",
        ),
        (&["start", "mock-acp", "--wait"], 64, "--prompt"),
        (
            &["start", "mock-acp", "--permissions", "maybe"],
            64,
            "ask, allow, deny",
        ),
        (&["start", "mock-acp", "-p", " "], 64, "empty"),
        (
            &["start", "mock-acp", "--attach", "-o", "jsonl"],
            64,
            "--attach",
        ),
        (&["prompt", "odd", "x"], 66, "unknown session `odd`"),
        (&["prompt", &id], 64, "<TEXT>"),
        (&["prompt", &id, ""], 64, "empty"),
        (
            &["prompt", &id, "x", "--wait", "--no-wait"],
            64,
            "cannot be used with",
        ),
        (&["answer", &id, "--cancel"], 66, "no open question"),
        (&["answer", &id, "--content", "{"], 64, "invalid JSON"),
        (
            &["answer", &id, "--option", "a", "--cancel"],
            64,
            "cannot be used with",
        ),
        (&["interrupt", "odd"], 66, "unknown session"),
        (&["kill", &id, "odd"], 66, "unknown session"),
        (&["kill"], 64, "<ID>"),
        (&["forget", &id], 64, "confirmation_required"),
        (
            &["forget", &id, "--yes", "--confirm-count", "2"],
            65,
            "1 item",
        ),
        (&["export", "odd"], 66, "unknown session"),
        (
            &["export", &id, "--output-file", "/nowhere/at/all"],
            73,
            "/nowhere/at/all",
        ),
        (
            &["export", &id, "--format", "json", "-o", "jsonl"],
            64,
            "--output-file",
        ),
        (&["--json", "kill", &id], 64, "--json"),
        (&["--open", "--watch"], 64, "cannot be used with"),
    ] {
        let ran = verbs(args);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {ran:?}");
        let err = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(err.contains(expected), "{args:?}: {err}");
        if code != 64 || !args.contains(&"-o") {
            assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
        }
    }
    // A prefix that several sessions share.
    start(dir, &[]);
    let err = refused(&verbs(&["kill", "ses_"]), 64);
    assert!(err.contains("several sessions start with `ses_`"), "{err}");
    let sessions = host.get("/sessions").json();
    let all = sessions["sessions"].as_array().expect("a list");
    assert_eq!(all.len(), 2, "nothing was started: {sessions}");
    assert!(
        all.iter().all(|s| s["turns"] == 0 && s["busy"] == false),
        "{sessions}"
    );
    // Another machine has other directories.
    let runtime = host.home().join("runtime.json");
    let url = format!("http://{}", host.address);
    let remote = [
        "--url",
        &url,
        "--token-file",
        runtime.to_str().expect("text"),
    ];
    let args = [&["start", "mock-acp", "--cwd", "below"], &remote[..]].concat();
    assert!(refused(&verbs(&args), 64).contains("is relative"));
    let (_, _, dir) = host.stop();
    for args in [
        &["start", "x"][..],
        &["prompt", "x", "y"],
        &["kill", "x"],
        &["--open"],
    ] {
        let ran = run(dir.path(), &[&["sessions"], args].concat());
        assert!(refused(&ran, 69).contains("no_host"), "{args:?}");
    }
}

#[test]
fn a_busy_session_refuses_a_prompt_or_queues_it() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = start(dir, &[]);
    let sent = said(&prompt(dir, &id, &["be slow", "--no-wait"]), 0);
    assert_eq!(sent, format!("{id}: the prompt was sent\n"));
    for wait in ["--wait", "--no-wait"] {
        let err = refused(&prompt(dir, &id, &["x", wait]), 75);
        let hint = format!("agentproto sessions interrupt {id}");
        assert!(err.contains("session_busy") && err.contains(&hint), "{err}");
        assert!(err.contains("--queue") && !err.contains("POST"), "{err}");
    }
    let mut queued = command(dir)
        .args(["sessions", "prompt", &id, "after that", "--queue"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(queued.try_wait().expect("asked").is_none(), "it waits");
    let interrupted = run(dir, &["sessions", "interrupt", &id, "-o", "json"]);
    let interrupted = json_of(&interrupted);
    assert_eq!(interrupted["action"], "interrupted");
    assert_eq!(
        (&interrupted["changed"], &interrupted["id"]),
        (&json!(true), &json!(id))
    );
    let mut text = String::new();
    queued
        .stdout
        .take()
        .expect("piped")
        .read_to_string(&mut text)
        .expect("UTF-8");
    assert_eq!(queued.wait().expect("ended").code(), Some(0));
    assert_eq!(text, "You said: after that\n");
    let idle = said(&run(dir, &["sessions", "interrupt", &id]), 0);
    assert_eq!(idle, format!("{id}: no turn was running\n"));
}

/// A signal ends the turn, and then the command.
#[test]
fn a_signal_interrupts_the_turn_that_is_waited_for() {
    let host = Served::new();
    let dir = host.dir.path();
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let id = start(dir, &[]);
        let waiting = command(dir)
            .args(["sessions", "prompt", &id, "be slow", "-o", "jsonl"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let turns = || host.get(&format!("/sessions/{id}")).json()["turns"] == 1;
        eventually("the turn has started", turns);
        // SAFETY: the process is our child.
        unsafe { libc::kill(waiting.id().cast_signed(), signal) };
        let ran = waiting.wait_with_output().expect("ended");
        let all = events(&said(&ran, code));
        let end = all
            .iter()
            .find(|event| event["type"] == "turn-end")
            .expect("an end");
        assert_eq!(
            (&end["reason"], &end["id"]),
            (&json!("cancelled"), &json!(id))
        );
        assert_eq!(all.last().expect("a summary")["reason"], "interrupted");
        assert_eq!(
            host.get(&format!("/sessions/{id}")).json()["status"],
            "running"
        );
    }
}

/// The turn of a prompt that the agent never got ends as well.
#[test]
fn a_signal_ends_a_start_that_takes_long() {
    let host = Served::new();
    let dir = host.dir.path();
    let waiting = command(dir)
        .args([
            "sessions",
            "start",
            "mock-acp",
            "--option",
            "scenario=never-starts",
        ])
        .args(["-p", "hello", "--wait", "-o", "jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let sessions = || host.get("/sessions").json()["sessions"].clone();
    eventually("the prompt was taken", || sessions()[0]["busy"] == true);
    // SAFETY: the process is our child.
    unsafe { libc::kill(waiting.id().cast_signed(), libc::SIGINT) };
    let all = events(&said(&waiting.wait_with_output().expect("ended"), 130));
    assert_eq!(
        (&all[1]["type"], &all[1]["action"]),
        (&json!("host-session"), &json!("started"))
    );
    assert_eq!(
        (&all[2]["type"], &all[2]["reason"]),
        (&json!("turn-end"), &json!("cancelled"))
    );
    assert_eq!(sessions()[0]["status"], "starting");
}

#[test]
fn an_answer_that_fails_has_the_exit_code_of_run() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = start(dir, &["--option", "scenario=error"]);
    let ran = prompt(dir, &id, &["x"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let ran = prompt(dir, &id, &["x", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let document: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(
        (&document["id"], &document["code"]),
        (&json!(id), &json!("turn_failed"))
    );
    let crashed = start(dir, &["--option", "scenario=crash"]);
    let ran = prompt(dir, &crashed, &["x", "-o", "jsonl"]);
    let all = events(&said(&ran, 69));
    assert!(
        all.iter().any(|event| event["code"] == "AGENT_EXITED"),
        "{all:?}"
    );
    assert_eq!(all.last().expect("a summary")["ok"], false);
    // It cannot even start.
    let ran = run(
        dir,
        &[
            "sessions",
            "start",
            "mock-acp",
            "--option",
            "scenario=exit-at-once",
            "-p",
            "x",
            "--wait",
        ],
    );
    assert_eq!(ran.status.code(), Some(69), "{ran:?}");
    let err = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(err.contains("exited"), "{err}");
}

/// A call is known to people by the name of its tool, not by its id.
#[test]
fn a_failed_tool_is_named() {
    let host = Served::new();
    let args = ["run", "mock-acp", "--prompt", "ask for permission"];
    let ran = run(host.dir.path(), &args);
    let err = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(err.contains("tool failed: Edit the notes"), "{err}");
}

#[test]
fn questions_are_listed_and_answered() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = asking(&host);
    let answer = |args: &[&str]| run(dir, &[&["sessions", "answer", &id], args].concat());
    let text = said(&answer(&[]), 0);
    for part in [
        "permission-1: ",
        "  tool: Edit the notes\n",
        "  --option allow-once  Allow\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let listed = events(&said(&answer(&["-o", "jsonl"]), 0));
    assert_eq!(
        (&listed[1]["type"], &listed[1]["id"]),
        (&json!("agent-prompt"), &json!("permission-1"))
    );
    let err = refused(&answer(&["--option", "1"]), 64);
    assert!(
        err.contains("`allow-once`"),
        "only ids, because an agent chooses them: {err}"
    );
    let err = refused(&answer(&["odd", "--cancel"]), 66);
    assert!(err.contains(&format!("sessions answer {id}")), "{err}");
    let done = events(&said(
        &answer(&["permission", "--option", "allow-once", "-o", "jsonl"]),
        0,
    ));
    assert_eq!(done[1]["action"], "answered");
    assert_eq!(
        (&done[1]["id"], &done[1]["question"]),
        (&json!(id), &json!("permission-1"))
    );
    let idle = || host.get(&format!("/sessions/{id}")).json()["busy"] == false;
    eventually("the turn has ended", idle);
    assert!(host.lines(&id).iter().any(|line| line == "You allowed it."));
    assert_eq!(said(&answer(&[]), 0), "no open questions\n");
    // Without a question, the end of the turn ends the waiting.
    assert_eq!(said(&answer(&["--wait"]), 0), "no open questions\n");
    said(&prompt(dir, &id, &["ask for permission", "--no-wait"]), 0);
    said(&answer(&["--wait", "--cancel"]), 0);
    eventually("the turn has ended", idle);

    let id = start(dir, &["--option", "scenario=elicitation", "-p", "ask"]);
    let answer = |args: &[&str]| run(dir, &[&["sessions", "answer", &id], args].concat());
    let text = said(&answer(&["--wait"]), 0);
    assert!(
        text.contains("  --content JSON with the schema {"),
        "{text}"
    );
    let err = refused(&answer(&["--content", r#"{"number":"x"}"#]), 64);
    assert!(err.contains("answer_invalid"), "{err}");
    said(&answer(&["--content", r#"{"color":"red","number":3}"#]), 0);
    let idle = || host.get(&format!("/sessions/{id}")).json()["busy"] == false;
    eventually("the turn has ended", idle);
    assert!(
        host.lines(&id).iter().any(|line| line == "3 in red."),
        "{:?}",
        host.lines(&id)
    );
}

/// Another client has to answer. A warning names the command for it.
#[test]
fn a_question_while_waiting_names_the_command_for_the_answer() {
    let host = Served::new();
    let dir = host.dir.path();
    let id = start(dir, &[]);
    let waiting = command(dir)
        .args([
            "sessions",
            "prompt",
            &id,
            "ask for permission",
            "-o",
            "jsonl",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    said(&run(dir, &["sessions", "answer", &id, "--wait"]), 0);
    let asked = || host.get(&format!("/sessions/{id}")).json()["pendingPermissions"].is_array();
    eventually("the agent asks", asked);
    said(
        &run(dir, &["sessions", "answer", &id, "--option", "reject-once"]),
        0,
    );
    let all = events(&said(&waiting.wait_with_output().expect("ended"), 0));
    let questions: Vec<&Value> = all.iter().filter(|e| e["type"] == "agent-prompt").collect();
    assert_eq!(questions.len(), 1, "{all:?}");
    let warning = all
        .iter()
        .find(|e| e["type"] == "aoi:warning")
        .expect("a warning");
    assert!(
        warning["message"]
            .as_str()
            .expect("text")
            .contains(&format!("sessions answer {id}"))
    );
}
