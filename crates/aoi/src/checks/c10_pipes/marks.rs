//! What a run looks like that was sent a signal.

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

/// What the runs show, rule by rule.
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
    why: "It is how a caller cancels: what goes on afterwards was not wanted any more.",
    hint: "Do not block or ignore the signals; look for them between two events.",
    topic: Topic::Signals,
    register: &["AOI-7-02", "AOI-18.2-10"],
};

pub(super) static HANGS: Rule = Rule {
    id: "AOI-10.signal-hangs",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "The tool ends within five seconds after SIGINT or SIGTERM",
    why: "A prompt end matters more than a summary: the next thing that comes is SIGKILL.",
    hint: "Bound what is done on the way out.",
    topic: Topic::Signals,
    register: &["AOI-7-04"],
};

pub(super) static TRACE: Rule = Rule {
    id: "AOI-10.signal-trace",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "SIGINT and SIGTERM bring no stack trace",
    why: "A cancelled run is no defect, and must not look like one.",
    hint: "Catch KeyboardInterrupt and its like at the top.",
    topic: Topic::Signals,
    register: &["AOI-7-02"],
};

pub(super) static ZERO: Rule = Rule {
    id: "AOI-10.signal-exit-zero",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "A run that was interrupted does not exit 0",
    why: "0 says that all was done.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    topic: Topic::Signals,
    register: &["AOI-7-03"],
};

pub(super) static EXIT: Rule = Rule {
    id: "AOI-10.signal-exit",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "A run that was interrupted exits 130 or 143, or dies of the signal",
    why: "A caller tells cancellation from failure by it.",
    hint: "Exit 130 after SIGINT and 143 after SIGTERM, or let the signal kill the process.",
    topic: Topic::Signals,
    register: &["AOI-6-13", "AOI-7-03"],
};

pub(super) static OK_TRUE: Rule = Rule {
    id: "AOI-10.interrupted-ok-true",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "A run that was interrupted does not say ok: true",
    why: "A part would be taken for the whole.",
    hint: "Write ok: false in the summary of an interrupted run.",
    topic: Topic::Signals,
    register: &["AOI-4.2-03", "AOI-7-02"],
};

pub(super) static TORN: Rule = Rule {
    id: "AOI-10.torn-line",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "No line of an interrupted run is cut, unless the signal killed the process",
    why: "Half a line before the summary makes both unreadable.",
    hint: "Finish the line that is being written before the summary; write events with one call each.",
    topic: Topic::Signals,
    register: &["AOI-7-02"],
};

pub(super) static LAST: Rule = Rule {
    id: "AOI-10.interrupted-summary-last",
    check: Check::Number(10),
    level: Level::Must,
    section: "§7",
    demands: "The summary of an interrupted run comes once, and nothing after it",
    why: "The summary is the end of the stream, here as well.",
    hint: "Stop the work before the summary is written.",
    topic: Topic::Signals,
    register: &["AOI-7-02"],
};

pub(super) static SUMMARY: Rule = Rule {
    id: "AOI-10.no-interrupted-summary",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "A run that was interrupted ends with a summary, where that is safe",
    why: "With it a caller knows how far the work came; without it the run looks like a crash.",
    hint: "On SIGINT and SIGTERM write aoi:summary with ok: false and reason: \"interrupted\".",
    topic: Topic::Signals,
    register: &["AOI-4.2-03", "AOI-4.2-04", "AOI-7-02"],
};

pub(super) static REASON: Rule = Rule {
    id: "AOI-10.interrupted-reason",
    check: Check::Number(10),
    level: Level::Should,
    section: "§7",
    demands: "The summary of an interrupted run has reason: \"interrupted\"",
    why: "A caller that cancelled must tell its own doing from a failure.",
    hint: "Set reason to the text \"interrupted\".",
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
                "a stack trace ({}): {:?}",
                trace.language, trace.line
            ))
        });
        self.trace.see(run, wrong, "no stack trace");
        let late = is_late(run);
        let ms = run.after_act.unwrap_or_default().as_millis();
        let wrong = late.then(|| at(&format!("it was still there {ms} ms after the signal")));
        self.hangs.see(run, wrong, "it ends soon after the signal");
        if run.end == End::TimedOut {
            return;
        }
        let ignored = looks_done(run);
        let wrong = ignored.then(|| at("it went on to its end as if nothing had come"));
        self.ignored.see(run, wrong, "the signal stops it");
        if ignored {
            return;
        }
        let stream = Stream::read(&run.stdout);
        self.look_at_end(run, number, &stream);
        self.look_at_lines(run, &stream);
    }

    fn look_at_end(&mut self, run: &Arc<Capture>, number: i32, stream: &Stream) {
        let at = |what: &str| format!("`{}`: {what}", run.probe);
        let wrong = run.end.is_success().then(|| at("it exits 0"));
        self.zero.see(run, wrong, &run.end.told());
        if !run.end.is_success() {
            let usual = matches!(run.end, End::Code(130 | 143)) || run.end == End::Signal(number);
            let wrong = (!usual).then(|| at(&run.end.told()));
            self.exit.see(run, wrong, &run.end.told());
        }
        let mut summaries = stream.of("aoi:summary");
        let says_ok = summaries.any(|line| line.get("ok") == Some(&Value::Bool(true)));
        let wrong = says_ok.then(|| at("its summary says ok: true"));
        self.ok.see(run, wrong, "it does not say ok: true");
        let count = stream.of("aoi:summary").count();
        let wrong = (count == 0).then(|| at(&format!("no summary, {}", run.end.told())));
        self.summary.see(run, wrong, "a summary comes");
        if count == 0 {
            return;
        }
        let wrong = match (count, stream.summary()) {
            (1, Some(_)) => None,
            (1, None) => Some(at("something follows the summary")),
            (more, _) => Some(at(&format!("there are {more} summaries"))),
        };
        self.last.see(run, wrong, "one summary, and it is last");
        let reason = stream
            .of("aoi:summary")
            .last()
            .and_then(|line| line.get("reason"));
        let wrong = (reason.and_then(Value::as_str) != Some("interrupted")).then(|| match reason {
            Some(other) => at(&format!("the summary's reason is {other}")),
            None => at("the summary has no reason"),
        });
        self.reason.see(run, wrong, "the reason is \"interrupted\"");
    }

    fn look_at_lines(&mut self, run: &Arc<Capture>, stream: &Stream) {
        let is_odd = |line: &&Line| line.json.is_none() && !line.bytes.is_empty();
        let last = stream.lines.len();
        // A process that was killed cannot finish its last line.
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
                ", and more follows"
            };
            format!("`{}`: line {} is cut{after}", run.probe, line.number)
        });
        self.torn.see(run, wrong, "every line is whole");
    }

    pub(super) fn settle(self, plain: &Plain) {
        let judge = plain.session.judge(&plain.command.name);
        for (tally, rule) in self.all() {
            tally.settle(judge, rule, |judge, rule| {
                judge.not_applicable(rule, "no interrupted run of it bears on this");
            });
        }
    }
}
