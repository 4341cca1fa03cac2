//! Check 10: closed pipes and signals.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::tools::*;

const INT: Place = Place::Signal(libc::SIGINT);
const TERM: Place = Place::Signal(libc::SIGTERM);
const WATCH: &[&str] = &["watch", "--interval-ms", "20"];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-10-pipe-python-trace",
        "AOI-10.pipe-trace",
        "A closed pipe brings a Python trace.",
        SEARCH,
        Twist::Pipe(|_| {
            stderr("Traceback (most recent call last):\n  File \"cli.py\", line 3, in emit\nBrokenPipeError: [Errno 32] Broken pipe\n");
            1
        }),
    )
    .at(Place::ClosedPipe),
    mutant(
        "aoi-10-pipe-rust-panic",
        "AOI-10.pipe-trace",
        "A closed pipe brings a panic.",
        SEARCH,
        Twist::Pipe(|_| {
            stderr("thread 'main' panicked at library/std/src/io/stdio.rs:1165:9:\nfailed printing to stdout: Broken pipe (os error 32)\n");
            101
        }),
    )
    .at(Place::ClosedPipe),
    mutant(
        "aoi-10-pipe-node-trace",
        "AOI-10.pipe-trace",
        "A closed pipe brings an unhandled error of Node.",
        SEARCH,
        Twist::Pipe(|_| {
            stderr("node:events:497\n      throw er; // Unhandled 'error' event\nError: write EPIPE\n    at WriteWrap.onWriteComplete (node:internal/stream_base_commons:95:16)\n");
            1
        }),
    )
    .at(Place::ClosedPipe),
    mutant(
        "aoi-10-pipe-go-trace",
        "AOI-10.pipe-trace",
        "A closed pipe brings a Go trace.",
        SEARCH,
        Twist::Pipe(|_| {
            stderr("panic: write |1: broken pipe\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:14 +0x1d\n");
            2
        }),
    )
    .at(Place::ClosedPipe),
    mutant(
        "aoi-10-pipe-hangs",
        "AOI-10.pipe-hangs",
        "After a closed pipe the process never ends.",
        SEARCH,
        Twist::Pipe(|_| hang()),
    )
    .at(Place::ClosedPipe)
    .hangs(),
    mutant(
        "aoi-10-watch-outlives-reader",
        "AOI-10.pipe-hangs",
        "`watch` goes on when its reader has gone.",
        WATCH,
        Twist::Quirk(Quirk::WritesIntoClosedPipe),
    )
    .at(Place::ClosedPipe)
    .hangs(),
    mutant(
        "aoi-10-pipe-message",
        "AOI-10.pipe-message",
        "A closed pipe is told on stderr, with exit code 1.",
        SEARCH,
        Twist::Pipe(|_| {
            stderr("mock-aoi: write error: Broken pipe\n");
            1
        }),
    )
    .at(Place::ClosedPipe)
    .warns(),
    mutant(
        "aoi-10-closed-stderr-panics",
        "AOI-10.stderr-closed",
        "The process dies when nobody reads its remarks.",
        SEARCH,
        Twist::Start(|_| {
            let told = std::io::stderr().write_all(b"mock-aoi: searching\n");
            told.is_err().then_some(101)
        }),
    )
    .at(Place::ClosedStderr),
    mutant(
        "aoi-10-ignores-interrupt",
        "AOI-10.signal-ignored",
        "SIGINT is ignored.",
        SLOW,
        Twist::Quirk(Quirk::IgnoresInterrupt),
    )
    .at(INT),
    mutant(
        "aoi-10-ignores-terminate",
        "AOI-10.signal-ignored",
        "SIGTERM is ignored.",
        SLOW,
        Twist::Quirk(Quirk::IgnoresTerminate),
    )
    .at(TERM),
    mutant(
        "aoi-10-interrupt-exits-zero",
        "AOI-10.signal-exit-zero",
        "SIGINT gives exit code 0.",
        SLOW,
        Twist::Exit(|facts, code| match facts.signal {
            Some(libc::SIGINT) => 0,
            _ => code,
        }),
    )
    .at(INT),
    mutant(
        "aoi-10-terminate-exits-zero",
        "AOI-10.signal-exit-zero",
        "SIGTERM gives exit code 0.",
        SLOW,
        Twist::Exit(|facts, code| match facts.signal {
            Some(libc::SIGTERM) => 0,
            _ => code,
        }),
    )
    .at(TERM),
    mutant(
        "aoi-10-interrupt-exits-one",
        "AOI-10.signal-exit",
        "SIGINT gives exit code 1.",
        SLOW,
        Twist::Exit(|facts, code| if facts.signal.is_some() { 1 } else { code }),
    )
    .at(INT),
    mutant(
        "aoi-10-interrupted-is-ok",
        "AOI-10.interrupted-ok-true",
        "An interrupted run is summed up as a success.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => on("aoi:summary", event, |e| set(e, "ok", true)),
            None => send(event),
        }),
    )
    .at(INT),
    mutant(
        "aoi-10-interrupted-without-reason",
        "AOI-10.interrupted-reason",
        "The summary of an interrupted run gives no reason.",
        SLOW,
        Twist::Event(|_, _, event| on("aoi:summary", event, |e| remove(e, "reason"))),
    )
    .at(INT),
    mutant(
        "aoi-10-interrupted-other-reason",
        "AOI-10.interrupted-reason",
        "The reason of an interrupted run is another word.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => on("aoi:summary", event, |e| set(e, "reason", "stopped")),
            None => send(event),
        }),
    )
    .at(TERM),
    mutant(
        "aoi-10-torn-line",
        "AOI-10.torn-line",
        "The summary of an interrupted run follows half a line.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => vec![raw("{\"type\":\"hit\",\"ra"), Frame::Json(event)],
            None => send(event),
        }),
    )
    .at(INT),
    mutant(
        "aoi-10-torn-end",
        "AOI-10.torn-line",
        "An interrupted run ends in half a summary.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => vec![raw("{\"type\":\"aoi:summary\",\"ok\":fal")],
            None => send(event),
        }),
    )
    .at(TERM),
    mutant(
        "aoi-10-interrupted-without-summary",
        "AOI-10.no-interrupted-summary",
        "An interrupted run ends without a summary.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => Vec::new(),
            None => send(event),
        }),
    )
    .at(INT)
    .warns(),
    mutant(
        "aoi-10-dies-by-signal",
        "AOI-10.no-interrupted-summary",
        "Signals kill the process, and nothing is said.",
        SLOW,
        Twist::Quirk(Quirk::DiesBySignal),
    )
    .at(TERM)
    .warns(),
    mutant(
        "aoi-10-interrupted-twice",
        "AOI-10.interrupted-summary-last",
        "An interrupted run has two summaries.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => vec![Frame::Json(event.clone()), Frame::Json(event)],
            None => send(event),
        }),
    )
    .at(INT),
    mutant(
        "aoi-10-goes-on-after-summary",
        "AOI-10.interrupted-summary-last",
        "After the summary of an interrupted run comes a result.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => {
                let late = json!({ "type": "hit", "rank": 99, "id": "doc-099", "title": "Late", "snippet": "Late", "score": 1 });
                vec![Frame::Json(event), Frame::Json(late)]
            }
            None => send(event),
        }),
    )
    .at(INT),
    mutant(
        "aoi-10-interrupted-trace",
        "AOI-10.signal-trace",
        "SIGINT brings a Python trace.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => {
                stderr("Traceback (most recent call last):\n  File \"cli.py\", line 9, in main\nKeyboardInterrupt\n");
                send(event)
            }
            None => send(event),
        }),
    )
    .at(INT),
    mutant(
        "aoi-10-hangs-after-signal",
        "AOI-10.signal-hangs",
        "SIGTERM stops the work, and the process never ends.",
        SLOW,
        Twist::Event(|facts, _, event| match facts.signal {
            Some(_) => hang(),
            None => send(event),
        }),
    )
    .at(TERM)
    .hangs(),
    mutant(
        "aoi-10-slow-to-stop",
        "AOI-10.signal-hangs",
        "After a signal, the process cleans up for eight seconds.",
        SLOW,
        Twist::Event(|facts, _, event| {
            if facts.signal.is_some() {
                std::thread::sleep(Duration::from_secs(8));
            }
            send(event)
        }),
    )
    .at(TERM)
    .hangs(),
    mutant(
        "aoi-10-watch-interrupted-ok",
        "AOI-10.interrupted-ok-true",
        "An interrupted `watch` is summed up as a success.",
        WATCH,
        Twist::Event(|facts, _, event| match facts.signal.is_some() && facts.command == "watch" {
            true => on("aoi:summary", event, |e| set(e, "ok", true)),
            false => send(event),
        }),
    )
    .at(TERM),
    mutant(
        "aoi-10-watch-says-nothing",
        "AOI-10.unbounded-silent",
        "`watch` has nothing to say.",
        &["watch", "--count", "2", "--interval-ms", "1"],
        Twist::Event(|facts, _, event| match facts.command == "watch" && !is(&event, "aoi:summary") {
            true => Vec::new(),
            false => send(event),
        }),
    ),
];
