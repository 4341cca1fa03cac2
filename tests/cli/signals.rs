//! Closed pipes and signals.
#![cfg(unix)]

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::Dir;

fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("agentproto")
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let dir = Dir::flawed();
    for (args, code) in [
        (&["rules"] as &[&str], 0),
        (&["rules", "-o", "json"], 0),
        (&["coverage"], 0),
        (&["man"], 0),
        (&["completions", "bash"], 0),
        (&["lint"], 1),
        (&["lint", "-o", "jsonl"], 1),
    ] {
        let mut child = Command::new(binary())
            .current_dir(dir.path())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = child.stdout.take().expect("a pipe");
        let mut first = [0; 1];
        out.read_exact(&mut first)
            .expect("the first byte of output");
        drop(out);
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(err.is_empty(), "{args:?}: {err}");
    }
}

/// Sends a signal while the linter reads many files. Returns the exit code and the lines of stdout.
fn interrupted(dir: &Dir, signal: i32) -> (i32, Vec<Value>) {
    let child = Command::new(binary())
        .current_dir(dir.path())
        .args(["lint", "-o", "jsonl", "--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    // The process catches signals only from the moment it starts to lint. A signal sent earlier
    // would kill it.
    let deadline = Instant::now() + Duration::from_secs(20);
    while caught(child.id()) & (1 << (signal - 1)) == 0 {
        assert!(
            Instant::now() < deadline,
            "the process did not start to lint in time"
        );
    }
    // SAFETY: the process is ours and not yet waited for.
    unsafe { libc::kill(pid, signal) };
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|l| serde_json::from_str(l).expect("JSON"));
    let code = output
        .status
        .code()
        .unwrap_or_else(|| panic!("killed by a signal: {text}"));
    (code, lines.collect())
}

/// The set of signals that a process catches, as reported in `/proc`.
fn caught(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_reports_it() {
    let dir = Dir::new();
    // Enough work that the run is not finished before the signal arrives, even on a fast machine.
    let manifest: String = (0..60).map(|i| format!("odd_{i}: {i}\n")).collect();
    for i in 0..1500 {
        dir.write(
            &format!("many/m{i}/CLI.md"),
            &format!("---\n{manifest}---\n"),
        );
    }
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let (exit, lines) = interrupted(&dir, signal);
        assert_eq!(exit, code);
        assert_eq!(lines.first().expect("a line")["type"], "aoi:meta");
        let summary = lines.last().expect("a line");
        assert_eq!(summary["type"], "aoi:summary");
        assert_eq!(summary["reason"], "interrupted", "{summary}");
        assert_eq!(
            (&summary["ok"], &summary["partial"]),
            (&false.into(), &true.into())
        );
        assert!(summary["files"].as_u64() < Some(1500), "{summary}");
    }
}
