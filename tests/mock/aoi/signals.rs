//! Signals, closed pipes, slow readers, full devices.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::Stdio;

use crate::aoi::runner::{Ground, LONG, ends_within, interrupted, send};

#[test]
fn a_signal_ends_the_run_with_a_summary() {
    let ground = Ground::new();
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        for args in [
            vec!["search", "x", "--delay-ms", "100"],
            vec!["watch"],
            vec!["watch", "--interval-ms", "600000"],
        ] {
            let ran = interrupted(&ground, &args, signal);
            let summary = ran.summary();
            assert_eq!(ran.code(), Some(code), "{args:?}");
            assert_eq!(summary["ok"], false);
            assert_eq!(summary["reason"], "interrupted");
            assert_eq!(summary["partial"], true);
            assert_eq!(ran.stderr, "");
        }
    }
}

#[test]
fn a_signal_ends_the_wait_for_input() {
    let ground = Ground::new();
    let mut child = ground
        .command(&["rank"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdin = child.stdin.take();
    // The command prints nothing to wait for. Until its handler is installed, the signal itself
    // ends it.
    send(&child, libc::SIGTERM);
    assert!(ends_within(&mut child, LONG));
    drop(stdin);
    assert!(!child.wait().expect("ended").success());
}

#[test]
fn a_closed_pipe_ends_the_run_silently() {
    let ground = Ground::new();
    for args in [
        vec!["search", "x"],
        vec!["watch"],
        vec!["schema"],
        vec!["get", "absent"],
        vec!["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = ground
            .command(&args)
            .stdout(writer)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(141), "{args:?}");
        assert_eq!(output.stderr, b"");
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = ground
        .command(&["search", "x", "--debug"])
        .stderr(writer)
        .output();
    assert!(output.expect("it runs").status.success());
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let ground = Ground::new();
    for args in [vec!["search", "x"], vec!["schema"], vec!["create", "a"]] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("opened");
        let output = ground
            .command(&args)
            .stdout(full)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(74), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_slow_reader_loses_nothing() {
    let ground = Ground::new();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: a plain call on a descriptor that we own.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    let mut child = ground
        .command(&["search", "x"])
        .stdout(writer)
        .spawn()
        .expect("it starts");
    // The pipe is too small for all the output, so the tool waits for its reader.
    assert!(!ends_within(
        &mut child,
        std::time::Duration::from_millis(500)
    ));
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(text.lines().count(), 22);
    assert!(text.lines().last().expect("a line").contains("aoi:summary"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_a_run_blocked_on_its_reader() {
    let ground = Ground::new();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        // SAFETY: a plain call on a descriptor that we own.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        let mut child = ground
            .command(&["search", "x"])
            .stdout(writer)
            .spawn()
            .expect("it starts");
        let mut first = [0; 1];
        reader.read_exact(&mut first).expect("a byte");
        send(&child, signal);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(128 + signal));
        let last = rest.lines().last().expect("a line");
        let summary: serde_json::Value = serde_json::from_str(last).expect("whole");
        assert_eq!(summary["reason"], "interrupted");
        // Without any reader, the signal still ends it.
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        // SAFETY: a plain call on a descriptor that we own.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
        let mut child = ground
            .command(&["search", "x"])
            .stdout(writer)
            .spawn()
            .expect("it starts");
        assert!(!ends_within(
            &mut child,
            std::time::Duration::from_millis(300)
        ));
        send(&child, signal);
        assert!(ends_within(&mut child, LONG));
    }
}
