//! Scenarios with faults: each fault really happens.

use std::os::unix::process::ExitStatusExt;

use serde_json::json;

use crate::client::{Client, Tape, start};

fn turn(scenario: &str) -> Client {
    let mut client = start(&["acp", "--scenario", scenario]);
    client.initialize(json!({}));
    client.new_session(1002);
    let params = client.prompt_params("go");
    client.tell(1003, "session/prompt", params);
    client
}

/// Runs a turn to its end, or to the end of the process.
fn tape(scenario: &str) -> Tape {
    let mut client = turn(scenario);
    client.wait_for(1003);
    client.finish()
}

#[test]
fn the_process_ends_during_the_turn() {
    let crashed = tape("crash");
    assert_eq!(crashed.status.and_then(|s| s.code()), Some(3));
    assert_eq!(crashed.said(), "I am about to ");
    assert!(crashed.answers(1003).is_empty());
    for (scenario, signal) in [("killed", libc::SIGKILL), ("segfault", libc::SIGSEGV)] {
        let dead = tape(scenario);
        assert_eq!(dead.status.and_then(|s| s.signal()), Some(signal));
    }
}

#[test]
fn invalid_lines() {
    let garbage = tape("garbage");
    assert!(garbage.raw.iter().any(|line| line == b"DEBUG thinking..."));
    assert_eq!(garbage.said(), "Before. After.");
    let bytes = tape("invalid-utf8");
    assert!(
        bytes
            .raw
            .iter()
            .any(|line| std::str::from_utf8(line).is_err())
    );
    assert_eq!(bytes.said(), "Before. After.");
    let half = tape("half-line");
    let last = half.raw.last().expect("a line");
    assert!(serde_json::from_slice::<serde_json::Value>(last).is_err());
    assert!(last.starts_with(b"{\"jsonrpc\""));
    let banner = tape("banner");
    assert_eq!(banner.raw[0], b"Welcome to the mock agent 1.0!");
    assert!(banner.answer(1003)["result"].is_object());
}

#[test]
fn floods() {
    let events = tape("flood");
    assert_eq!(events.updates("agent_message_chunk").len(), 100_000);
    assert!(events.said().ends_with("99999 100000 "));
    let bytes = tape("flood-bytes");
    let sum: usize = bytes.raw.iter().map(Vec::len).sum();
    assert!(sum > 64 << 20);
    let mut client = turn("stderr-flood");
    client.wait_for(1003);
    let (tape, stderr) = client.finish_with_stderr();
    assert_eq!(tape.said(), "Before. After.");
    assert_eq!(stderr.len(), 64 << 20);
}

#[test]
fn one_huge_line() {
    // The scenario of that name writes a gigabyte. This one is the same with a size that a test can
    // hold.
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("huge.yaml");
    let text = "scenario: agentproto.scenario/v1\nname: huge\nturns:\n\
        - steps: [{ huge_line: 20000000 }, { text: After. }]\n";
    std::fs::write(&file, text).expect("a file");
    let mut client = turn(&file.to_string_lossy());
    client.wait_for(1003);
    let tape = client.finish();
    let longest = tape.raw.iter().map(Vec::len).max().unwrap_or(0);
    assert!(longest > 20_000_000 && longest < 20_001_000);
    assert_eq!(tape.said().len(), 20_000_006);
}

#[test]
fn a_hanging_turn() {
    let mut client = turn("hang");
    client
        .until_called("session/update")
        .expect("a chunk before the hang");
    let about = client.about_session();
    client.notify("session/cancel", about.clone());
    // A turn that hangs does not block the session list, a close, or the exit.
    assert!(client.ask(1004, "session/list", json!({}))["result"].is_object());
    assert!(client.ask(1005, "session/close", about)["result"].is_object());
    let tape = client.finish();
    assert!(tape.answers(1003).is_empty());
    assert!(tape.status.is_some_and(|s| s.success()));
}

#[test]
fn two_responses() {
    let mut client = turn("answer-twice");
    client.wait_for(1003);
    client.wait_for(1003);
    assert_eq!(client.finish().answers(1003).len(), 2);
}

#[test]
fn exit_at_once() {
    let (tape, stderr) = start(&["acp", "--scenario", "exit-at-once"]).finish_with_stderr();
    assert!(tape.raw.is_empty());
    assert_eq!(tape.status.and_then(|s| s.code()), Some(7));
    assert!(String::from_utf8_lossy(&stderr).contains("cannot find my configuration"));
}

#[test]
fn a_slow_start_still_works() {
    let tape = tape("slow-start");
    assert_eq!(tape.said(), "You said: go");
}

fn signal(client: &mut Client, signal: i32) {
    let id = i32::try_from(client.child().id()).expect("a pid");
    // SAFETY: the process is our child and has not been waited for.
    assert_eq!(unsafe { libc::kill(id, signal) }, 0);
}

#[test]
fn sigterm_and_the_end_of_stdin_are_ignored() {
    let mut client = turn("ignore-sigterm");
    client.wait_for(1003);
    signal(&mut client, libc::SIGTERM);
    // It still runs and responds.
    assert!(client.ask(1004, "session/list", json!({}))["result"].is_object());
    client.close_stdin();
    signal(&mut client, libc::SIGTERM);
    signal(&mut client, libc::SIGKILL);
    let status = client.child().wait().expect("a status");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
}

#[test]
fn sigterm_ends_an_agent_that_ignores_only_eof() {
    let mut client = turn("ignore-eof");
    client.wait_for(1003);
    client.close_stdin();
    signal(&mut client, libc::SIGTERM);
    let status = client.child().wait().expect("a status");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
}

/// Processes in other sessions that have our mark in their environment.
#[cfg(target_os = "linux")]
fn marked(mark: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .windows(mark.len())
            .any(|part| part == mark.as_bytes())
    })
    .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_is_left_behind() {
    let mark = format!("MOCK_TEST_MARK=daemon-{}", std::process::id());
    let (name, value) = mark.split_once('=').expect("a pair");
    let mut client = crate::client::start_with(&["acp", "--scenario", "daemon"], |command| {
        command.env(name, value);
    });
    client.initialize(json!({}));
    client.new_session(1002);
    client.prompt(1003, "go");
    let agent = i32::try_from(client.child().id()).expect("a pid");
    let tape = client.finish();
    assert_eq!(tape.said(), "A daemon is out.");
    let left: Vec<i32> = marked(&mark)
        .into_iter()
        .filter(|pid| *pid != agent)
        .collect();
    assert_eq!(left.len(), 1, "one process must survive the agent");
    for pid in left {
        // SAFETY: reads the session of a process and then kills it; the process has our mark.
        unsafe {
            assert_ne!(libc::getsid(pid), libc::getsid(0));
            libc::kill(pid, libc::SIGKILL);
        }
    }
}
