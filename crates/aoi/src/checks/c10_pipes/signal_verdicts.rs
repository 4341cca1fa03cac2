//! Checks the runs that received a signal.

use std::sync::Arc;

use serde_json::Value;

use super::signals::{is_late, looks_done};
use crate::capture::{Capture, ExitKind};
use crate::checks::tally::RuleTally;
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::session::Reporter;
use crate::stack_trace;
use crate::stream::{EventLine, EventStream};

/// Verdicts of the runs, by rule.
#[derive(Default)]
pub(super) struct SignalVerdicts {
    ignored: RuleTally,
    hangs: RuleTally,
    trace: RuleTally,
    zero: RuleTally,
    exit: RuleTally,
    ok: RuleTally,
    torn: RuleTally,
    last: RuleTally,
    summary: RuleTally,
    reason: RuleTally,
}

pub(super) static IGNORED: Rule = Rule {
    id: "AOI-10.signal-ignored",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7, §18.2",
    requirement: "SIGINT and SIGTERM stop the tool",
    why: "Callers cancel with these signals, and no longer want what happens afterwards.",
    hint: "Do not block or ignore the signals. Check for them between two events.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-7-02", "AOI-18.2-10"],
};

pub(super) static HANGS: Rule = Rule {
    id: "AOI-10.signal-hangs",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7",
    requirement: "The tool exits within five seconds after SIGINT or SIGTERM",
    why: "A prompt exit is more important than a summary, because the caller sends SIGKILL next.",
    hint: "Limit the time of the cleanup.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-7-04"],
};

pub(super) static TRACE: Rule = Rule {
    id: "AOI-10.signal-trace",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§7",
    requirement: "SIGINT and SIGTERM do not print a stack trace",
    why: "A canceled run is not a defect and must not look like one.",
    hint: "Catch KeyboardInterrupt and similar exceptions at the top level.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-7-02"],
};

pub(super) static ZERO: Rule = Rule {
    id: "AOI-10.signal-exit-zero",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7",
    requirement: "An interrupted run does not exit 0",
    why: "Exit code 0 means that everything was done.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-7-03"],
};

pub(super) static EXIT: Rule = Rule {
    id: "AOI-10.signal-exit",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§7",
    requirement: "An interrupted run exits 130 or 143, or is killed by the signal",
    why: "A caller uses the exit code to tell cancellation from failure.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-6-13", "AOI-7-03"],
};

pub(super) static OK_TRUE: Rule = Rule {
    id: "AOI-10.interrupted-ok-true",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7",
    requirement: "An interrupted run does not have ok: true",
    why: "Otherwise a partial result is taken for a complete one.",
    hint: "Write ok: false in the summary of an interrupted run.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-4.2-03", "AOI-7-02"],
};

pub(super) static TORN: Rule = Rule {
    id: "AOI-10.torn-line",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7",
    requirement: "An interrupted run has no truncated line, unless the signal killed the process",
    why: "A truncated line before the summary makes both unreadable.",
    hint: "Finish the current line before writing the summary, and write each event with a single \
           call.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-7-02"],
};

pub(super) static LAST: Rule = Rule {
    id: "AOI-10.interrupted-summary-last",
    check: CheckId::Number(10),
    level: Level::Must,
    section: "§7",
    requirement: "The summary of an interrupted run occurs once and is the last event",
    why: "The summary marks the end of the stream in interrupted runs as well.",
    hint: "Stop the work before writing the summary.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-7-02"],
};

pub(super) static SUMMARY: Rule = Rule {
    id: "AOI-10.no-interrupted-summary",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§7",
    requirement: "An interrupted run ends with a summary, if that is safe",
    why: "The summary tells a caller how far the work got. Without it, the run looks like a crash.",
    hint: "On SIGINT and SIGTERM, write aoi:summary with ok: false and reason: \"interrupted\".",
    topic: Topic::Signals,
    requirement_ids: &["AOI-4.2-03", "AOI-4.2-04", "AOI-7-02"],
};

pub(super) static REASON: Rule = Rule {
    id: "AOI-10.interrupted-reason",
    check: CheckId::Number(10),
    level: Level::Should,
    section: "§7",
    requirement: "The summary of an interrupted run has reason: \"interrupted\"",
    why: "A caller that canceled must be able to tell that from a failure.",
    hint: "Set reason to the string \"interrupted\".",
    topic: Topic::Signals,
    requirement_ids: &["AOI-4.2-03", "AOI-7-02"],
};

impl SignalVerdicts {
    fn all(self) -> [(RuleTally, &'static crate::rules::Rule); 10] {
        [
            (self.ignored, &IGNORED),
            (self.hangs, &HANGS),
            (self.trace, &TRACE),
            (self.zero, &ZERO),
            (self.exit, &EXIT),
            (self.ok, &OK_TRUE),
            (self.torn, &TORN),
            (self.last, &LAST),
            (self.summary, &SUMMARY),
            (self.reason, &REASON),
        ]
    }

    pub(super) fn unverify_all(&mut self, why: &str) {
        for tally in [
            &mut self.ignored,
            &mut self.hangs,
            &mut self.trace,
            &mut self.zero,
            &mut self.exit,
            &mut self.ok,
            &mut self.torn,
            &mut self.last,
            &mut self.summary,
            &mut self.reason,
        ] {
            tally.unverify(why);
        }
    }

    pub(super) fn check_run(&mut self, run: &Arc<Capture>, number: i32) {
        let at = |what: &str| format!("`{}`: {what}", run.probe);
        let found = stack_trace::find(&run.stderr);
        let violation = found.map(|trace| {
            at(&format!(
                "stack trace ({}): {:?}",
                trace.language, trace.line
            ))
        });
        self.trace.record(run, violation, "no stack trace");
        let late = is_late(run);
        let ms = run.exit_delay.unwrap_or_default().as_millis();
        let violation = late.then(|| at(&format!("still running {ms} ms after the signal")));
        self.hangs
            .record(run, violation, "the tool exits soon after the signal");
        if run.end == ExitKind::TimedOut {
            return;
        }
        let ignored = looks_done(run);
        let violation = ignored.then(|| at("the tool ignored the signal and finished its work"));
        self.ignored
            .record(run, violation, "the signal stops the tool");
        if ignored {
            return;
        }
        let stream = EventStream::parse(&run.stdout);
        self.check_end(run, number, &stream);
        self.check_lines(run, &stream);
    }

    fn check_end(&mut self, run: &Arc<Capture>, number: i32, stream: &EventStream) {
        let at = |what: &str| format!("`{}`: {what}", run.probe);
        let violation = run.end.is_success().then(|| at("exit 0"));
        self.zero.record(run, violation, &run.end.describe());
        if !run.end.is_success() {
            let usual =
                matches!(run.end, ExitKind::Code(130 | 143)) || run.end == ExitKind::Signal(number);
            let violation = (!usual).then(|| at(&run.end.describe()));
            self.exit.record(run, violation, &run.end.describe());
        }
        let mut summaries = stream.of_type("aoi:summary");
        let says_ok = summaries.any(|line| line.get("ok") == Some(&Value::Bool(true)));
        let violation = says_ok.then(|| at("the summary has ok: true"));
        self.ok
            .record(run, violation, "the summary does not have ok: true");
        let count = stream.of_type("aoi:summary").count();
        let violation = (count == 0).then(|| at(&format!("no summary, {}", run.end.describe())));
        self.summary.record(run, violation, "there is a summary");
        if count == 0 {
            return;
        }
        let violation = match (count, stream.summary()) {
            (1, Some(_)) => None,
            (1, None) => Some(at("output follows the summary")),
            (more, _) => Some(at(&format!("{more} summaries; expected one"))),
        };
        self.last
            .record(run, violation, "one summary as the last event");
        let reason = stream
            .of_type("aoi:summary")
            .last()
            .and_then(|line| line.get("reason"));
        let violation =
            (reason.and_then(Value::as_str) != Some("interrupted")).then(|| match reason {
                Some(other) => at(&format!(
                    "the reason in the summary is {other}; expected \"interrupted\""
                )),
                None => at("the summary has no reason"),
            });
        self.reason
            .record(run, violation, "the reason is \"interrupted\"");
    }

    fn check_lines(&mut self, run: &Arc<Capture>, stream: &EventStream) {
        let is_invalid = |line: &&EventLine| line.json.is_none() && !line.bytes.is_empty();
        let last = stream.lines.len();
        // A killed process cannot finish its last line.
        let killed = matches!(run.end, ExitKind::Signal(_));
        let is_suspicious = stream
            .lines
            .iter()
            .filter(|line| !(killed && line.number == last))
            .find(|line| is_invalid(line) || !line.complete);
        let violation = is_suspicious.map(|line| {
            let after = if line.number == last {
                ""
            } else {
                ", and more output follows"
            };
            format!("`{}`: line {} is truncated{after}", run.probe, line.number)
        });
        self.torn.record(run, violation, "every line is complete");
    }

    pub(super) fn report(self, reporter: Reporter) {
        for (tally, rule) in self.all() {
            tally.report(reporter, rule, |reporter, rule| {
                reporter.not_applicable(rule, "no interrupted run of the command is relevant");
            });
        }
    }
}
