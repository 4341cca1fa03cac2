//! Check 10: closed pipes and signals.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::tools::*;

const INT: RunCondition = RunCondition::Signal(libc::SIGINT);
const TERM: RunCondition = RunCondition::Signal(libc::SIGTERM);
const WATCH: &[&str] = &["watch", "--interval-ms", "20"];

const PYTHON: &str = "Traceback (most recent call last):\n  File \"cli.py\", line 3, in emit\nBrokenPipeError: [Errno 32] Broken pipe\n";
const RUST: &str = "thread 'main' panicked at library/std/src/io/stdio.rs:1165:9:\nfailed printing to stdout: Broken pipe (os error 32)\n";
const NODE: &str = "node:events:497\n      throw er; // Unhandled 'error' event\nError: write EPIPE\n    at WriteWrap.onWriteComplete (node:internal/stream_base_commons:95:16)\n";
const GO: &str = "panic: write |1: broken pipe\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:14 +0x1d\n";
const INTERRUPT: &str =
    "Traceback (most recent call last):\n  File \"cli.py\", line 9, in main\nKeyboardInterrupt\n";

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-10-pipe-python-trace", "AOI-10.pipe-trace")
            .describe("A closed pipe causes a Python traceback.")
            .violates(&["AOI-7-01"])
            .pipe(|_| {
                stderr(PYTHON);
                1
            })
            .at(RunCondition::ClosedPipe),
        mutant("aoi-10-pipe-rust-panic", "AOI-10.pipe-trace")
            .describe("A closed pipe causes a Rust panic.")
            .violates(&["AOI-7-01"])
            .pipe(|_| {
                stderr(RUST);
                101
            })
            .at(RunCondition::ClosedPipe),
        mutant("aoi-10-pipe-node-trace", "AOI-10.pipe-trace")
            .describe("A closed pipe causes an unhandled Node error.")
            .violates(&["AOI-7-01"])
            .pipe(|_| {
                stderr(NODE);
                1
            })
            .at(RunCondition::ClosedPipe),
        mutant("aoi-10-pipe-go-trace", "AOI-10.pipe-trace")
            .describe("A closed pipe causes a Go stack trace.")
            .violates(&["AOI-7-01"])
            .pipe(|_| {
                stderr(GO);
                2
            })
            .at(RunCondition::ClosedPipe),
        mutant("aoi-10-pipe-hangs", "AOI-10.pipe-hangs")
            .describe("The process does not exit after the pipe was closed.")
            .pipe(|_| hang())
            .at(RunCondition::ClosedPipe)
            .hangs(),
        mutant("aoi-10-watch-outlives-reader", "AOI-10.pipe-hangs")
            .describe("`watch` continues after its reader has exited.")
            .run(WATCH)
            .quirk(Quirk::WritesIntoClosedPipe)
            .at(RunCondition::ClosedPipe)
            .hangs(),
        mutant("aoi-10-pipe-message", "AOI-10.pipe-message")
            .describe("A closed pipe causes a message on stderr and exit code 1.")
            .pipe(|_| {
                stderr("mock-aoi: write error: Broken pipe\n");
                1
            })
            .at(RunCondition::ClosedPipe)
            .expect_warning(),
        mutant("aoi-10-closed-stderr-panics", "AOI-10.stderr-closed")
            .describe("The process exits with an error if stderr is closed.")
            .start(|_| {
                let written = std::io::stderr().write_all(b"mock-aoi: searching\n");
                written.is_err().then_some(101)
            })
            .at(RunCondition::ClosedStderr),
        mutant("aoi-10-ignores-interrupt", "AOI-10.signal-ignored")
            .describe("SIGINT is ignored.")
            .violates(&["AOI-7-02"])
            .run(SLOW)
            .quirk(Quirk::IgnoresInterrupt)
            .at(INT),
        mutant("aoi-10-ignores-terminate", "AOI-10.signal-ignored")
            .describe("SIGTERM is ignored.")
            .violates(&["AOI-7-02"])
            .run(SLOW)
            .quirk(Quirk::IgnoresTerminate)
            .at(TERM),
        mutant("aoi-10-interrupt-exits-zero", "AOI-10.signal-exit-zero")
            .describe("The exit code after SIGINT is 0.")
            .run(SLOW)
            .exit(|info, code| match info.signal {
                Some(libc::SIGINT) => 0,
                _ => code,
            })
            .at(INT),
        mutant("aoi-10-terminate-exits-zero", "AOI-10.signal-exit-zero")
            .describe("The exit code after SIGTERM is 0.")
            .run(SLOW)
            .exit(|info, code| match info.signal {
                Some(libc::SIGTERM) => 0,
                _ => code,
            })
            .at(TERM),
        mutant("aoi-10-interrupt-exits-one", "AOI-10.signal-exit")
            .describe("The exit code after SIGINT is 1.")
            .violates(&["AOI-6-13", "AOI-7-03"])
            .run(SLOW)
            .exit(|info, code| if info.signal.is_some() { 1 } else { code })
            .at(INT),
        mutant("aoi-10-interrupted-is-ok", "AOI-10.interrupted-ok-true")
            .describe("The summary of an interrupted run reports a success.")
            .violates(&["AOI-7-02"])
            .run(SLOW)
            .event_if(was_signaled, "aoi:summary", sets("ok", true))
            .at(INT),
        mutant(
            "aoi-10-interrupted-without-reason",
            "AOI-10.interrupted-reason",
        )
        .describe("The summary of an interrupted run has no reason.")
        .violates(&["AOI-7-02", "AOI-4.2-03"])
        .run(SLOW)
        .event("aoi:summary", removes("reason"))
        .at(INT),
        mutant(
            "aoi-10-interrupted-other-reason",
            "AOI-10.interrupted-reason",
        )
        .describe("The summary of an interrupted run has the wrong reason.")
        .violates(&["AOI-7-02"])
        .run(SLOW)
        .event_if(was_signaled, "aoi:summary", sets("reason", "stopped"))
        .at(TERM),
        mutant("aoi-10-torn-line", "AOI-10.torn-line")
            .describe("The summary of an interrupted run comes after half a line.")
            .run(SLOW)
            .instead_if(was_signaled, |event| {
                vec![raw("{\"type\":\"hit\",\"ra"), EventFrame::Json(event)]
            })
            .at(INT),
        mutant("aoi-10-torn-end", "AOI-10.torn-line")
            .describe("An interrupted run ends with half a summary.")
            .run(SLOW)
            .instead_if(was_signaled, |_| {
                vec![raw("{\"type\":\"aoi:summary\",\"ok\":fal")]
            })
            .at(TERM),
        mutant(
            "aoi-10-interrupted-without-summary",
            "AOI-10.no-interrupted-summary",
        )
        .describe("An interrupted run ends without a summary.")
        .violates(&["AOI-7-02"])
        .run(SLOW)
        .instead_if(was_signaled, |_| Vec::new())
        .at(INT)
        .expect_warning(),
        mutant("aoi-10-dies-by-signal", "AOI-10.no-interrupted-summary")
            .describe("A signal kills the process without any output.")
            .violates(&["AOI-7-02"])
            .run(SLOW)
            .quirk(Quirk::DiesBySignal)
            .at(TERM)
            .expect_warning(),
        mutant(
            "aoi-10-interrupted-twice",
            "AOI-10.interrupted-summary-last",
        )
        .describe("An interrupted run has two summaries.")
        .run(SLOW)
        .instead_if(was_signaled, |event| {
            vec![EventFrame::Json(event.clone()), EventFrame::Json(event)]
        })
        .at(INT),
        mutant(
            "aoi-10-goes-on-after-summary",
            "AOI-10.interrupted-summary-last",
        )
        .describe("A result comes after the summary of an interrupted run.")
        .run(SLOW)
        .instead_if(was_signaled, |event| {
            let late = json!({
                "type": "hit", "rank": 99, "id": "doc-099",
                "title": "Late", "snippet": "Late", "score": 1,
            });
            vec![EventFrame::Json(event), EventFrame::Json(late)]
        })
        .at(INT),
        mutant("aoi-10-interrupted-trace", "AOI-10.signal-trace")
            .describe("SIGINT causes a Python traceback.")
            .run(SLOW)
            .instead_if(was_signaled, |event| {
                stderr(INTERRUPT);
                send(event)
            })
            .at(INT),
        mutant("aoi-10-hangs-after-signal", "AOI-10.signal-hangs")
            .describe("SIGTERM stops the work, but the process does not exit.")
            .run(SLOW)
            .instead_if(was_signaled, |_| hang())
            .at(TERM)
            .hangs(),
        mutant("aoi-10-slow-to-stop", "AOI-10.signal-hangs")
            .describe("After a signal, the process cleans up for eight seconds.")
            .run(SLOW)
            .events(|info, _, event| {
                if info.signal.is_some() {
                    std::thread::sleep(Duration::from_secs(8));
                }
                send(event)
            })
            .at(TERM)
            .hangs(),
        mutant("aoi-10-watch-interrupted-ok", "AOI-10.interrupted-ok-true")
            .describe("The summary of an interrupted `watch` reports a success.")
            .violates(&["AOI-4.2-03", "AOI-7-02"])
            .run(WATCH)
            .event_if(
                |info| info.signal.is_some() && info.command == "watch",
                "aoi:summary",
                sets("ok", true),
            )
            .at(TERM),
        mutant("aoi-10-watch-says-nothing", "AOI-10.unbounded-silent")
            .describe("`watch` sends nothing.")
            .run(&["watch", "--count", "2", "--interval-ms", "1"])
            .events(
                |info, _, event| match info.command == "watch" && !is(&event, "aoi:summary") {
                    true => Vec::new(),
                    false => send(event),
                },
            ),
    ]
}
