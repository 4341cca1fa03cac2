//! The first and the last event of a stream, whatever happens to the run.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::machine_mode::Place;

/// AOI-11-02, AOI-18.2-09: errors do not repeat a secret, neither on stdout nor on stderr.
#[test]
fn a_secret_argument_is_not_repeated_in_errors() {
    let secret = "s3cr3t-4711-value";
    let place = Place::new();
    let flag = format!("--token={secret}");
    let header = format!("Authorization: Bearer {secret}");
    let url = format!("https://user:{secret}@host.example/?sig={secret}");
    let pair = format!("password={secret}");
    for words in [
        &["rules", &flag][..],
        &["rules", "--api-key", secret],
        &["rules", "--header", &header],
        &["explain", &url],
        &["lint", &url],
        &["lint", &pair],
        &["run", &url, "--prompt", "x"],
        &["install", &pair],
        &["coverage", "--spec", &pair],
        &["schema", "--name", &url],
        &["aoi-lint", "--probe", &url],
        &["certify", &pair],
        &[&flag],
        &[&url],
    ] {
        for format in ["jsonl", "human"] {
            let ran = place.run(&[words, &["--output", format]].concat(), "");
            assert_ne!(ran.code, Some(0), "{words:?}");
            let all = format!("{}{}", ran.out, ran.err);
            assert!(!all.contains(secret), "{words:?}: {all}");
            assert!(!ran.err.is_empty());
            if format == "jsonl" {
                assert_eq!(ran.summary()["ok"], false);
            }
        }
    }
}

/// AOI-5.1-02, AOI-5.1-03: an unsupported version is refused before any data.
#[test]
fn schema_versions_are_used_or_refused() {
    let place = Place::new();
    let ask = |words: &[&str]| place.run(&[&["rules", "--output", "jsonl"], words].concat(), "");
    for words in [
        &["--schema-version", "1"][..],
        &["--schema-version=1.0.0"],
        &["--accept-schema", "dev.agentproto.events@1"],
        &[
            "--accept-schema",
            "org.example.other@3,dev.agentproto.events@1.0",
        ],
    ] {
        let ran = ask(words);
        assert_eq!(ran.code, Some(0), "{words:?}");
        assert_eq!(ran.events()[0]["schema_version"], "1.0.0");
    }
    for words in [
        &["--schema-version", "2"][..],
        &["--schema-version", ""],
        &["--accept-schema", "dev.agentproto.events@2"],
        &["--accept-schema", "org.example.other@1"],
        &["--accept-schema", "nonsense"],
    ] {
        let ran = ask(words);
        assert_eq!(ran.code, Some(64), "{words:?}");
        assert_eq!(ran.error()["code"], "SCHEMA_VERSION_UNSUPPORTED");
        assert_eq!(ran.events().len(), 3, "{}", ran.out);
    }
}

/// AOI-7-02: a reader that reads one line and stops, and then a signal.
#[test]
fn a_signal_ends_the_stream_with_a_summary() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let place = Place::new();
        let mut child = place
            .command(&["coverage", "--output", "jsonl"])
            .spawn()
            .expect("started");
        let mut out = BufReader::with_capacity(64, child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        out.read_line(&mut first).expect("a line");
        let pid = i32::try_from(child.id()).expect("a pid");
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::kill(pid, signal) };
        let mut rest = String::new();
        out.read_to_string(&mut rest).expect("text");
        let status = child.wait().expect("ended");
        let last: serde_json::Value = rest
            .lines()
            .next_back()
            .map(|line| serde_json::from_str(line).expect("a whole line"))
            .expect("lines");
        assert_eq!(last["type"], "aoi:summary");
        assert_eq!(last["ok"], false);
        assert_eq!(last["reason"], "interrupted");
        assert_eq!(
            last["count"].as_u64(),
            Some(rest.lines().count() as u64 - 1)
        );
        assert_eq!(status.code(), Some(code));
    }
}

/// A waiting command reports a signal at once, even before its first line.
#[test]
fn a_signal_interrupts_waiting_commands() {
    let place = Place::new();
    let token = place.0.path().join("token");
    std::fs::write(&token, "t").expect("written");
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", mute.local_addr().expect("an address"));
    let token = token.to_str().expect("UTF-8");
    let host = ["--url", &url, "--token-file", token];
    let for_host: &[&[&str]] = &[&["sessions"], &["sessions", "--attach", "x"]];
    for words in for_host {
        let words = [words, &host[..]].concat();
        let child = start(&place, &words);
        // The command has sent its request and gets no response.
        let asked = mute.accept().expect("a connection");
        interrupted(child, &words);
        drop(asked);
    }
    // Input that never arrives.
    let words = ["auth", "set", "--idempotency-key", "k", "mock-acp", "KEY"];
    let child = start(&place, &words);
    until_watched(child.id());
    interrupted(child, &words);
}

fn start(place: &Place, words: &[&str]) -> Child {
    let mut command = place.command(words);
    command
        .args(["--output", "jsonl"])
        .spawn()
        .expect("started")
}

/// Waits until the process has a handler for SIGINT.
fn until_watched(pid: u32) {
    let has_handler = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        caught.is_some_and(|bits| bits & (1 << (libc::SIGINT - 1)) != 0)
    };
    let begun = Instant::now();
    while !has_handler() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the process did not install a handler"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn interrupted(mut child: Child, words: &[&str]) {
    // Keep the input open.
    let stdin = child.stdin.take();
    let pid = i32::try_from(child.id()).expect("a pid");
    let sent = Instant::now();
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(pid, libc::SIGINT) };
    let output = child.wait_with_output().expect("ended");
    drop(stdin);
    assert!(sent.elapsed() < Duration::from_secs(10), "{words:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(130), "{words:?}: {text}");
    let last = text.lines().next_back().expect("a line");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(last["type"], "aoi:summary", "{words:?}");
    assert_eq!(last["reason"], "interrupted", "{words:?}");
}

/// AOI-7-01, and a device that is full.
#[test]
fn closed_pipes_and_full_devices() {
    let place = Place::new();
    let mut child = place
        .command(&["coverage", "--output", "jsonl"])
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
    let full = std::fs::File::create("/dev/full").expect("a device");
    let output = place
        .command(&["rules", "--output", "jsonl"])
        .stdout(Stdio::from(full))
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(74));
}
