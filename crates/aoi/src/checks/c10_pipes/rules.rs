//! What check 10 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(id: &'static str, level: Level, section: &'static str, topic: Topic) -> Rule {
    Rule {
        id,
        check: Check::Number(10),
        level,
        section,
        demands: "",
        why: "",
        hint: "",
        topic,
        register: &[],
    }
}

pub static PIPE_TRACE: Rule = Rule {
    demands: "A reader that goes away brings no stack trace",
    why: "`tool | head -1` is everyday use; a trace looks like a crash.",
    hint: "Take a write that fails with EPIPE for the end of the run, and exit quietly.",
    register: &["AOI-7-01", "AOI-18.2-10"],
    ..rule("AOI-10.pipe-trace", Level::Must, "§7, §18.2", Topic::Pipe)
};
pub static PIPE_HANGS: Rule = Rule {
    demands: "The tool ends within two seconds after its reader has gone",
    why: "Nobody hears it any more; what goes on costs the machine and nobody stops it.",
    hint: "Stop at the first write that fails.",
    register: &["AOI-7-01"],
    ..rule("AOI-10.pipe-hangs", Level::Must, "§7", Topic::Pipe)
};
pub static PIPE_EXIT: Rule = Rule {
    demands: "After its reader has gone the tool exits 0 or 141, or dies of SIGPIPE",
    why: "A shell with `pipefail` tells a reader that had enough from a failure by it.",
    hint: "Restore the default action of SIGPIPE, or exit 141.",
    register: &["AOI-6-14", "AOI-7-01"],
    ..rule("AOI-10.pipe-exit", Level::Should, "§6", Topic::Pipe)
};
pub static PIPE_MESSAGE: Rule = Rule {
    demands: "A reader that goes away is not told on stderr",
    why: "It is the normal end of a pipeline, and nothing that a human could mend.",
    hint: "Do not print the error of a write that fails with EPIPE.",
    register: &["AOI-7-01"],
    ..rule("AOI-10.pipe-message", Level::Should, "§7", Topic::Pipe)
};
pub static STDERR: Rule = Rule {
    demands: "A closed stderr does not change how the tool ends",
    why: "Callers throw stderr away; a remark that nobody reads must not stop the work.",
    hint: "Ignore writes to stderr that fail.",
    register: &["AOI-7-01"],
    ..rule("AOI-10.stderr-closed", Level::Should, "§7", Topic::Pipe)
};
pub static IGNORED: Rule = Rule {
    demands: "SIGINT and SIGTERM stop the tool",
    why: "It is how a caller cancels: what goes on afterwards was not wanted any more.",
    hint: "Do not block or ignore the signals; look for them between two events.",
    register: &["AOI-7-02", "AOI-18.2-10"],
    ..rule(
        "AOI-10.signal-ignored",
        Level::Must,
        "§7, §18.2",
        Topic::Signals,
    )
};
pub static HANGS: Rule = Rule {
    demands: "The tool ends within five seconds after SIGINT or SIGTERM",
    why: "A prompt end matters more than a summary: the next thing that comes is SIGKILL.",
    hint: "Bound what is done on the way out.",
    register: &["AOI-7-04"],
    ..rule("AOI-10.signal-hangs", Level::Must, "§7", Topic::Signals)
};
pub static TRACE: Rule = Rule {
    demands: "SIGINT and SIGTERM bring no stack trace",
    why: "A cancelled run is no defect, and must not look like one.",
    hint: "Catch KeyboardInterrupt and its like at the top.",
    register: &["AOI-7-02"],
    ..rule("AOI-10.signal-trace", Level::Must, "§7", Topic::Signals)
};
pub static ZERO: Rule = Rule {
    demands: "A run that was interrupted does not exit 0",
    why: "0 says that all was done.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    register: &["AOI-7-03"],
    ..rule("AOI-10.signal-exit-zero", Level::Must, "§7", Topic::Signals)
};
pub static EXIT: Rule = Rule {
    demands: "A run that was interrupted exits 130 or 143, or dies of the signal",
    why: "A caller tells cancellation from failure by it.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    register: &["AOI-6-13", "AOI-7-03"],
    ..rule("AOI-10.signal-exit", Level::Should, "§7", Topic::Signals)
};
pub static OK_TRUE: Rule = Rule {
    demands: "A run that was interrupted does not say ok: true",
    why: "A part would be taken for the whole.",
    hint: "Write ok: false in the summary of an interrupted run.",
    register: &["AOI-4.2-03", "AOI-7-02"],
    ..rule(
        "AOI-10.interrupted-ok-true",
        Level::Must,
        "§7",
        Topic::Signals,
    )
};
pub static TORN: Rule = Rule {
    demands: "No line of an interrupted run is cut, unless the signal killed the process",
    why: "Half a line before the summary makes both unreadable.",
    hint: "Finish the line that is being written before the summary; write events with one call each.",
    register: &["AOI-7-02"],
    ..rule("AOI-10.torn-line", Level::Must, "§7", Topic::Signals)
};
pub static LAST: Rule = Rule {
    demands: "The summary of an interrupted run comes once, and nothing after it",
    why: "The summary is the end of the stream, here as well.",
    hint: "Stop the work before the summary is written.",
    register: &["AOI-7-02"],
    ..rule(
        "AOI-10.interrupted-summary-last",
        Level::Must,
        "§7",
        Topic::Signals,
    )
};
pub static SUMMARY: Rule = Rule {
    demands: "A run that was interrupted ends with a summary, where that is safe",
    why: "With it a caller knows how far the work came; without it the run looks like a crash.",
    hint: "On SIGINT and SIGTERM write aoi:summary with ok: false and reason: \"interrupted\".",
    register: &["AOI-4.2-03", "AOI-4.2-04", "AOI-7-02"],
    ..rule(
        "AOI-10.no-interrupted-summary",
        Level::Should,
        "§7",
        Topic::Signals,
    )
};
pub static REASON: Rule = Rule {
    demands: "The summary of an interrupted run has reason: \"interrupted\"",
    why: "A caller that cancelled must tell its own doing from a failure.",
    hint: "Set reason to the text \"interrupted\".",
    register: &["AOI-4.2-03", "AOI-7-02"],
    ..rule(
        "AOI-10.interrupted-reason",
        Level::Should,
        "§7",
        Topic::Signals,
    )
};
pub static SILENT: Rule = Rule {
    demands: "An unbounded stream says something within two seconds",
    why: "A caller cannot tell a stream that waits from one that hangs.",
    hint: "Write aoi:meta at once, and aoi:heartbeat where nothing happens.",
    register: &["AOI-16.3-11"],
    ..rule(
        "AOI-10.unbounded-silent",
        Level::Should,
        "§4.2",
        Topic::Signals,
    )
};
pub static ENDS: Rule = Rule {
    demands: "A command that is called unbounded goes on until it is stopped",
    why: "A caller does not wait for a summary of a stream without end, and would miss it.",
    hint: "Call the command bounded, or let it go on.",
    register: &["AOI-4.2-04", "AOI-16.3-11"],
    ..rule("AOI-10.unbounded-ends", Level::Open, "§4.2", Topic::Signals)
};

pub const SIGNAL: &[&Rule] = &[
    &IGNORED, &HANGS, &TRACE, &ZERO, &EXIT, &OK_TRUE, &TORN, &LAST, &SUMMARY, &REASON,
];
pub const UNBOUNDED: &[&Rule] = &[&SILENT, &ENDS];
pub const ALL: &[&Rule] = &[
    &PIPE_TRACE,
    &PIPE_HANGS,
    &PIPE_EXIT,
    &PIPE_MESSAGE,
    &STDERR,
    &IGNORED,
    &HANGS,
    &TRACE,
    &ZERO,
    &EXIT,
    &OK_TRUE,
    &TORN,
    &LAST,
    &SUMMARY,
    &REASON,
    &SILENT,
    &ENDS,
];
