//! No process survives: not after close, not after cancel, not after the runner was killed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::place::{Place, allowing, collect, with_option};
use agentproto_runtime::{StopReason, StreamEvent};
use serde_json::{Value, json};

const NOBODY: Vec<String> = Vec::new();

#[test]
fn close_ends_daemons_as_well() {
    agentproto_suites::proves!("A44-LIFEC-03", "A45-API-04");
    for scenario in ["daemon", "daemon-holding"] {
        let place = Place::new();
        let option = format!("scenario={scenario}");
        let ran = place.run("mock-acp", &["--option", &option, "--prompt", "x"]);
        assert_eq!(ran.text(), "A daemon is out.", "{}", ran.stderr);
        assert_eq!(place.survivors(), NOBODY, "{scenario}");
    }
}

#[test]
fn close_ends_daemons_without_a_sandbox() {
    let place = Place::new();
    let ran = place.run(
        "mock-acp",
        &[
            "--sandbox",
            "off",
            "--option",
            "scenario=daemon",
            "--prompt",
            "x",
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.of("aoi:warning")
            .iter()
            .any(|w| w["code"] == "SANDBOX_OFF")
    );
    assert!(place.audit().contains("\"sandbox.off\""));
    assert_eq!(place.survivors(), NOBODY);
}

#[tokio::test]
async fn cancel_ends_the_turn_and_close_ends_the_agent() {
    agentproto_suites::proves!("A45-API-03", "A45-API-04");
    let place = Place::new();
    for options in [allowing(), with_option("scenario", "hang")] {
        let (agent, _) = place.agent("mock-acp", options).expect("loaded");
        let session = agent.start().await.expect("started");
        let mut turn = session.send("be slow").expect("sent");
        let first = turn.next().await.expect("an event");
        assert!(matches!(first, StreamEvent::TextDelta { .. }), "{first:?}");
        assert!(session.cancel().await.expect("cancelled"));
        let (_, events) = collect(&mut turn).await;
        let ends: Vec<_> = events.iter().filter(|e| e.is_last()).collect();
        assert_eq!(ends, [&StreamEvent::turn_end(StopReason::Cancelled)]);
        session.close().await.expect("closed");
        assert_eq!(place.survivors(), NOBODY);
    }
}

#[tokio::test]
async fn dropping_a_session_ends_the_agent() {
    let place = Place::new();
    let (agent, _) = place.agent("mock-acp", allowing()).expect("loaded");
    let session = agent.start().await.expect("started");
    let mut turn = session.send("be slow").expect("sent");
    turn.next().await.expect("an event");
    assert!(!place.alive().is_empty());
    drop((session, turn));
    tokio::task::yield_now().await;
    let gone = tokio::task::spawn_blocking(move || place.survivors()).await;
    assert_eq!(gone.expect("looked"), NOBODY);
}

#[test]
fn killing_the_runner_ends_the_agent() {
    for sandbox in ["auto", "off"] {
        let place = Place::new();
        let mut runner = place
            .command(&[
                "run",
                "mock-acp",
                "--sandbox",
                sandbox,
                "--prompt",
                "be slow",
                "--output",
                "jsonl",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines();
        let spoke = lines
            .map_while(Result::ok)
            .any(|l| l.contains("text-delta"));
        assert!(spoke, "the agent did not start its turn");
        assert!(place.alive().len() > 1);
        runner.kill().expect("killed");
        runner.wait().expect("ended");
        assert_eq!(place.survivors(), NOBODY, "{sandbox}");
    }
}

#[test]
fn an_interrupt_cancels_the_turn_and_is_reported() {
    let place = Place::new();
    let mut runner = place
        .command(&[
            "run", "mock-acp", "--prompt", "be slow", "--output", "jsonl",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines();
    let spoke = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|l| l.contains("text-delta"));
    assert!(spoke);
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(runner.id() as i32, libc::SIGINT) };
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(runner.wait().expect("ended").code(), Some(130));
    let last: Value = serde_json::from_str(rest.last().expect("a summary")).expect("JSON");
    for (key, value) in [
        ("type", json!("aoi:summary")),
        ("ok", json!(false)),
        ("reason", json!("interrupted")),
        ("interrupted", json!(true)),
        ("turn_reason", json!("cancelled")),
    ] {
        assert_eq!(last[key], value, "{last}");
    }
    assert!(
        rest.iter()
            .any(|l| l.contains("turn-end") && l.contains("cancelled")),
        "{rest:?}"
    );
    assert_eq!(place.survivors(), NOBODY);
}

/// The user may interrupt before the prompt is complete.
#[test]
fn an_interrupt_while_reading_the_prompt() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let place = Place::new();
        let mut runner = place
            .command(&["run", "mock-acp", "--prompt", "-", "--output", "jsonl"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let message = runner.stdin.take().expect("a pipe");
        caught(runner.id(), signal);
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::kill(runner.id() as i32, signal) };
        let lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines();
        let lines: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(runner.wait().expect("ended").code(), Some(code));
        let last = lines.last().expect("a summary");
        assert!(last.contains("\"reason\":\"interrupted\""), "{last}");
        drop(message);
        assert_eq!(place.audit(), "", "an agent was started");
    }
}

/// Waits until a process has a handler for a signal.
fn caught(pid: u32, signal: i32) {
    let has = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        if status.contains("State:\tZ") {
            return None;
        }
        let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"))?;
        let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
        Some(mask & (1 << (signal - 1)) != 0)
    };
    while has() == Some(false) {
        std::thread::yield_now();
    }
}
