//! Targets that misbehave: each gets a clear verdict in bounded time, and nothing is left running
//! or on disk.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::aoi_lint::{Dir, binary, events, verdict};

/// Whether a process has this word among its arguments.
fn is_running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    processes.flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == mark.as_bytes())
    })
}

/// A number of seconds that no other process passes to `sleep`.
fn long_sleep(number: u32) -> String {
    format!("9{:05}{number}", std::process::id() % 100_000)
}

#[test]
fn a_missing_target_is_reported() {
    let dir = Dir::new();
    let ran = dir.lint(&["--", "./absent", "search"]).exits(69);
    assert!(
        ran.err.contains("program not found: `./absent`"),
        "{}",
        ran.err
    );
    let ran = dir.lint(&["--", "no-such-program-anywhere"]).exits(69);
    assert!(ran.err.contains("on PATH"), "{}", ran.err);
    dir.write("plain", "#!/bin/sh\n");
    let ran = dir.lint(&["--", "./plain", "search"]).exits(69);
    assert!(
        ran.err.contains("`./plain` is not executable"),
        "{}",
        ran.err
    );
    dir.write("probe.yaml", "aoi_probe: 1\ntool: [./absent]\n");
    let ran = dir
        .lint(&["--probe", "probe.yaml", "-o", "jsonl"])
        .exits(69);
    let events = ran.events();
    assert_eq!(events[1]["type"], "aoi:error");
    assert_eq!(events[2]["ok"], false);
}

#[test]
fn a_target_that_cannot_be_executed_is_reported() {
    let dir = Dir::new();
    dir.script("odd", "");
    dir.write("odd", "neither a script nor a binary\n");
    let ran = dir.lint(&["--", "./odd", "search"]).exits(69);
    assert!(ran.err.contains("cannot start the tool"), "{}", ran.err);
    dir.script("gone", "");
    dir.write("gone", "#!/no/such/interpreter\n");
    dir.lint(&["--", "./gone", "search"]).exits(69);
}

#[test]
fn a_hint_is_never_executed() {
    agentproto_suites::proves!("AOI-1.3-07");
    let dir = Dir::new();
    let trap = dir.path().join("executed");
    let error = format!(
        r#"{{"type":"aoi:error","category":"authn","code":"INTERACTIVE_REQUIRED","message":"Log in.","retryable":false,"hint":"touch {}"}}"#,
        trap.display()
    );
    dir.script("hinting", &format!("echo '{error}'\nexit 77"));
    let report = dir.lint(&["-o", "json", "--", "./hinting", "search"]);
    assert!(report.exits(1).out.contains("AOI-03.summary-last"));
    assert!(!trap.exists());
}

#[test]
fn a_target_that_ignores_signals_is_killed() {
    let dir = Dir::new();
    let sleep = long_sleep(1);
    dir.script(
        "deaf",
        &format!("trap '' HUP INT QUIT TERM PIPE ALRM USR1 USR2\nwhile :; do sleep {sleep}; done"),
    );
    let begun = Instant::now();
    let args = ["--timeout", "0.5", "-o", "json", "--", "./deaf", "search"];
    let report = dir.lint(&args).exits(1).json();
    assert!(
        begun.elapsed() < Duration::from_secs(100),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(verdict(&report, "AOI-03.exit-not-zero", "search"), "fail");
    let text = report.to_string();
    assert!(
        text.contains("still running after its time limit"),
        "{text}"
    );
    assert!(!is_running(&sleep));
}

#[test]
fn children_of_a_target_are_killed() {
    let dir = Dir::new();
    let sleep = long_sleep(2);
    // The child keeps stdout open in its own session after the target has exited.
    dir.script("forks", &format!("setsid sleep {sleep} &\nexit 0"));
    let begun = Instant::now();
    let args = ["--timeout", "20", "-o", "json", "--", "./forks", "search"];
    let report = dir.lint(&args).exits(1).json();
    assert!(
        begun.elapsed() < Duration::from_secs(100),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(verdict(&report, "AOI-03.exit-not-zero", "search"), "pass");
    assert_eq!(verdict(&report, "AOI-03.summary-last", "search"), "fail");
    assert!(!is_running(&sleep));
}

#[test]
fn endless_output_is_cut_off() {
    let dir = Dir::new();
    dir.script("flood", "exec yes");
    let args = ["-o", "json", "--", "./flood", "search"];
    let ran = dir.lint(&args).exits(1);
    assert!(ran.out.len() < 1 << 20, "{} bytes", ran.out.len());
    let report = ran.json();
    assert_eq!(verdict(&report, "AOI-02.prose", "search"), "fail");
    dir.script("loud", "exec yes >&2");
    dir.lint(&["--", "./loud", "search"]).exits(1);
}

#[test]
fn a_target_may_kill_its_group_and_write_to_a_terminal() {
    let dir = Dir::new();
    dir.script("angry", "kill -KILL 0\nsleep 1");
    let args = ["-o", "json", "--", "./angry", "search"];
    let report = dir.lint(&args).exits(1).json();
    assert_eq!(verdict(&report, "AOI-03.exit-not-zero", "search"), "fail");
    assert!(
        report.to_string().contains("killed by signal 9"),
        "{report:#}"
    );
    dir.script("loud", "echo boo >/dev/tty\necho '{\"type\":\"x\"}'");
    let ran = dir.lint(&["--", "./loud", "search"]).exits(1);
    assert!(
        !ran.out.contains("boo") || ran.out.contains("/dev/tty"),
        "{}",
        ran.out
    );
}

/// Starts the linter on a target that creates a file when it runs, then sends a signal.
fn interrupted(signal: i32, output: &str) -> (i32, String) {
    let dir = Dir::new();
    let sleep = long_sleep(10 + u32::try_from(signal).expect("a signal"));
    let began = dir.at("began");
    let body = format!(
        "case $1 in search) : > {}; exec sleep {sleep};; esac\nexit 64",
        began.display()
    );
    dir.script("slow", &body);
    let mut child = Command::new(binary())
        .current_dir(dir.path())
        .env("TMPDIR", dir.at("tmp"))
        .args([
            "aoi-lint",
            "--timeout",
            "60",
            "-o",
            output,
            "--",
            "./slow",
            "search",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !began.exists() {
        assert!(Instant::now() < deadline, "the target did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    // SAFETY: plain integers; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    let mut out = String::new();
    let mut pipe = child.stdout.take().expect("a pipe");
    pipe.read_to_string(&mut out).expect("text");
    let status = child.wait().expect("it ends");
    dir.is_tidy();
    assert!(!is_running(&sleep));
    (status.code().expect("an exit code"), out)
}

#[test]
fn an_interrupted_run_writes_a_partial_report() {
    let (code, out) = interrupted(libc::SIGINT, "jsonl");
    assert_eq!(code, 130, "{out}");
    let events = events(&out);
    let summary = events.last().expect("a summary");
    assert_eq!(summary["type"], "aoi:summary");
    assert_eq!(summary["ok"], false);
    assert_eq!(summary["reason"], "interrupted");
    assert_eq!(summary["pairs_proven"], 0);
    let (code, out) = interrupted(libc::SIGTERM, "json");
    assert_eq!(code, 143, "{out}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["partial"], true);
}
