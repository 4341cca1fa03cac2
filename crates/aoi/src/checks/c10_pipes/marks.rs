//! Checks the runs that received a signal.

use std::sync::Arc;

use serde_json::Value;

use super::Plain;
use super::signals::{is_late, looks_done};
use crate::capture::{Capture, End};
use crate::checks::tally::Tally;
use crate::model::Check;
use crate::rules::{Level, Rule, Topic};
use crate::stream::{Line, Stream};
use crate::trace;

/// Verdicts of the runs, by rule.
#[derive(Default)]
pub(super) struct Marks {
    ignored: Tally,
    hangs: Tally,
    trace: Tally,
    zero: Tally,
    exit: Tally,
    ok: Tally,
    torn: Tally,
    last: Tally,
    summary: Tally,
    reason: Tally,
}

pub(super) static IGNORED: Rule = Rule {
    id: "AOI-10.signal-ignored",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7, §18.2",
    demands: "SIGINT and SIGTERM stop the tool",
    why: "Callers cancel with these signals, and no longer want what happens afterwards.",
    hint: "Do not block or ignore the signals. Check for them between two events.",
    topic: Topic::Signals,
    register: &["AOI-7-02", "AOI-18.2-10"],
};

pub(super) static HANGS: Rule = Rule {
    id: "AOI-10.signal-hangs",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "The tool exits within five seconds after SIGINT or SIGTERM",
    why: "A prompt exit is more important than a summary, because the caller sends SIGKILL next.",
    hint: "Limit the time of the cleanup.",
    topic: Topic::Signals,
    register: &["AOI-7-04"],
};

pub(super) static TRACE: Rule = Rule {
    id: "AOI-10.signal-trace",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "SIGINT and SIGTERM do not print a stack trace",
    why: "A canceled run is not a defect and must not look like one.",
    hint: "Catch KeyboardInterrupt and similar exceptions at the top level.",
    topic: Topic::Signals,
    register: &["AOI-7-02"],
};

pub(super) static ZERO: Rule = Rule {
    id: "AOI-10.signal-exit-zero",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "An interrupted run does not exit 0",
    why: "Exit code 0 means that everything was done.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    topic: Topic::Signals,
    register: &["AOI-7-03"],
};

pub(super) static EXIT: Rule = Rule {
    id: "AOI-10.signal-exit",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "An interrupted run exits 130 or 143, or is killed by the signal",
    why: "A caller uses the exit code to tell cancellation from failure.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    topic: Topic::Signals,
    register: &["AOI-6-13", "AOI-7-03"],
};

pub(super) static OK_TRUE: Rule = Rule {
    id: "AOI-10.interrupted-ok-true",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "An interrupted run does not have ok: true",
    why: "Otherwise a partial result is taken for a complete one.",
    hint: "Write ok: false in the summary of an interrupted run.",
    topic: Topic::Signals,
    register: &["AOI-4.2-03", "AOI-7-02"],
};

pub(super) static TORN: Rule = Rule {
    id: "AOI-10.torn-line",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "An interrupted run has no truncated line, unless the signal killed the process",
    why: "A truncated line before the summary makes both unreadable.",
    hint: "Finish the current line before writing the summary, and write each event with a single \
           call.",
    topic: Topic::Signals,
    register: &["AOI-7-02"],
};

pub(super) static LAST: Rule = Rule {
    id: "AOI-10.interrupted-summary-last",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "The summary of an interrupted run occurs once and is the last event",
    why: "The summary marks the end of the stream in interrupted runs as well.",
    hint: "Stop the work before writing the summary.",
    topic: Topic::Signals,
    register: &["AOI-7-02"],
};

pub(super) static SUMMARY: Rule = Rule {
    id: "AOI-10.no-interrupted-summary",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "An interrupted run ends with a summary, if that is safe",
    why: "The summary tells a caller how far the work got. Without it, the run looks like a crash.",
    hint: "On SIGINT and SIGTERM, write aoi:summary with ok: false and reason: \"interrupted\".",
    topic: Topic::Signals,
    register: &["AOI-4.2-03", "AOI-4.2-04", "AOI-7-02"],
};

pub(super) static REASON: Rule = Rule {
    id: "AOI-10.interrupted-reason",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "The summary of an interrupted run has reason: \"interrupted\"",
    why: "A caller that canceled must be able to tell that from a failure.",
    hint: "Set reason to the string \"interrupted\".",
    topic: Topic::Signals,
    register: &["AOI-4.2-03", "AOI-7-02"],
};

impl Marks {
    fn all(self) -> [(Tally, &'static crate::rules::Rule); 10] {
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

    pub(super) fn missed(&mut self, why: &str) {
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
            tally.doubt(why);
        }
    }

    pub(super) fn look(&mut self, run: &Arc<Capture>, number: i32) {
        let at = |what: &str| format!("`{}`: {what}", run.probe);
        let found = trace::find(&run.stderr);
        let wrong = found.map(|trace| {
            at(&format!(
                "stack trace ({}): {:?}",
                trace.language, trace.line
            ))
        });
        self.trace.see(run, wrong, "no stack trace");
        let late = is_late(run);
        let ms = run.after_act.unwrap_or_default().as_millis();
        let wrong = late.then(|| at(&format!("still running {ms} ms after the signal")));
        self.hangs
            .see(run, wrong, "the tool exits soon after the signal");
        if run.end == End::TimedOut {
            return;
        }
        let ignored = looks_done(run);
        let wrong = ignored.then(|| at("the tool ignored the signal and finished its work"));
        self.ignored.see(run, wrong, "the signal stops the tool");
        if ignored {
            return;
        }
        let stream = Stream::read(&run.stdout);
        self.look_at_end(run, number, &stream);
        self.look_at_lines(run, &stream);
    }

    fn look_at_end(&mut self, run: &Arc<Capture>, number: i32, stream: &Stream) {
        let at = |what: &str| format!("`{}`: {what}", run.probe);
        let wrong = run.end.is_success().then(|| at("exit 0"));
        self.zero.see(run, wrong, &run.end.told());
        if !run.end.is_success() {
            let usual = matches!(run.end, End::Code(130 | 143)) || run.end == End::Signal(number);
            let wrong = (!usual).then(|| at(&run.end.told()));
            self.exit.see(run, wrong, &run.end.told());
        }
        let mut summaries = stream.of("aoi:summary");
        let says_ok = summaries.any(|line| line.get("ok") == Some(&Value::Bool(true)));
        let wrong = says_ok.then(|| at("the summary has ok: true"));
        self.ok
            .see(run, wrong, "the summary does not have ok: true");
        let count = stream.of("aoi:summary").count();
        let wrong = (count == 0).then(|| at(&format!("no summary, {}", run.end.told())));
        self.summary.see(run, wrong, "there is a summary");
        if count == 0 {
            return;
        }
        let wrong = match (count, stream.summary()) {
            (1, Some(_)) => None,
            (1, None) => Some(at("output follows the summary")),
            (more, _) => Some(at(&format!("{more} summaries; expected one"))),
        };
        self.last.see(run, wrong, "one summary as the last event");
        let reason = stream
            .of("aoi:summary")
            .last()
            .and_then(|line| line.get("reason"));
        let wrong = (reason.and_then(Value::as_str) != Some("interrupted")).then(|| match reason {
            Some(other) => at(&format!(
                "the reason in the summary is {other}; expected \"interrupted\""
            )),
            None => at("the summary has no reason"),
        });
        self.reason.see(run, wrong, "the reason is \"interrupted\"");
    }

    fn look_at_lines(&mut self, run: &Arc<Capture>, stream: &Stream) {
        let is_odd = |line: &&Line| line.json.is_none() && !line.bytes.is_empty();
        let last = stream.lines.len();
        // A killed process cannot finish its last line.
        let killed = matches!(run.end, End::Signal(_));
        let odd = stream
            .lines
            .iter()
            .filter(|line| !(killed && line.number == last))
            .find(|line| is_odd(line) || !line.complete);
        let wrong = odd.map(|line| {
            let after = if line.number == last {
                ""
            } else {
                ", and more output follows"
            };
            format!("`{}`: line {} is truncated{after}", run.probe, line.number)
        });
        self.torn.see(run, wrong, "every line is complete");
    }

    pub(super) fn settle(self, plain: &Plain) {
        let judge = plain.session.judge(&plain.command.name);
        for (tally, rule) in self.all() {
            tally.settle(judge, rule, |judge, rule| {
                judge.not_applicable(rule, "no interrupted run of the command is relevant");
            });
        }
    }
}
