//! Runs with a slow reader, a full device or truncated input.

use std::sync::Arc;

use super::{CUT, DEVICE, LATE, LOGIN, PAUSE, PLAIN, SLOW, WHOLE, needs_login};
use crate::capture::{Capture, ExitKind};
use crate::checks::tally::RuleTally;
use crate::model::CheckId;
use crate::observe::is_mutating;
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::Reporter;
use crate::stream::EventStream;

pub(super) static SLOW_READER: Rule = Rule {
    id: "AOI-03.summary-lost",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§4",
    requirement: "A slow reader receives all output",
    why: "Callers may pause. A tool that exits before its output is read loses the summary.",
    hint: "Flush stdout and wait until everything is written before the process exits.",
    topic: Topic::Flush,
    requirement_ids: &["AOI-4-02"],
};

pub(super) fn slow_reader(
    reporter: Reporter,
    command: &ProbeCommand,
    plain: Option<&Arc<Capture>>,
    runs: &[&Arc<Capture>],
) {
    let rule = &SLOW_READER;
    let mut tally = RuleTally::default();
    for run in runs
        .iter()
        .filter(|run| [SLOW, LATE].contains(&run.probe.as_str()))
    {
        let stream = EventStream::parse(&run.stdout);
        let complete = stream.summary().is_some_and(|line| line.complete);
        let at = |what: String| format!("`{}`: {what}", run.probe);
        match (complete, run.end) {
            (true, ExitKind::Code(0)) if run.action_done => {
                tally.pass("the summary arrived although the reader paused");
            }
            // Everything was written before the reader paused, so this proves nothing.
            (true, ExitKind::Code(0)) => {}
            (true, end) => tally.violation(run, || at(end.describe())),
            (false, end) => tally.violation(run, || {
                let (ms, got) = (PAUSE.as_millis(), stream.lines.len());
                let end = end.describe();
                at(format!(
                    "the reader paused for {ms} ms: {got} lines arrived, but no summary; {end}"
                ))
            }),
        }
    }
    let had = plain.is_some_and(|plain| EventStream::parse(&plain.stdout).summary().is_some());
    if plain.is_some_and(|plain| plain.end.is_success()) && !had {
        return reporter.not_verified(rule, "the command prints no summary that could be lost");
    }
    tally.report(reporter, rule, |reporter, rule| {
        report_not_tried(reporter, command, plain, rule)
    });
}

fn report_not_tried(
    reporter: Reporter,
    command: &ProbeCommand,
    plain: Option<&Arc<Capture>>,
    rule: &'static Rule,
) {
    match plain {
        Some(_) if needs_login(command, plain) => reporter.skip(rule, LOGIN),
        Some(run) if run.end.is_success() => {
            reporter.not_verified(rule, "the tool never had to wait for its reader");
        }
        Some(_) => {
            reporter.not_verified(rule, "the command fails even with the arguments as given")
        }
        None => reporter.not_applicable(rule, "not tested on commands that change something"),
    }
}

pub(super) static FULL: Rule = Rule {
    id: "AOI-03.write-error-ignored",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§6",
    requirement: "A run whose output cannot be written fails",
    why: "Otherwise a full disk looks like a complete, empty result.",
    hint: "Check the result of every write and of the last flush, and exit 74 if one fails.",
    topic: Topic::Flush,
    requirement_ids: &["AOI-6-02"],
};

pub(super) fn full_device(reporter: Reporter, command: &ProbeCommand, runs: &[&Arc<Capture>]) {
    let plain = runs.iter().find(|run| run.probe == PLAIN).copied();
    let Some(run) = runs.iter().find(|run| run.probe == DEVICE) else {
        return report_not_tried(reporter, command, plain, &FULL);
    };
    match run.end {
        _ if plain.is_none_or(|plain| plain.stdout.is_empty()) => {
            reporter.not_verified(&FULL, "the command prints nothing");
        }
        ExitKind::Code(0) => {
            reporter.violation(&FULL, "stdout cannot be written, but the tool exits 0", run)
        }
        ExitKind::TimedOut => reporter.violation(
            &FULL,
            "stdout cannot be written, and the tool does not exit",
            run,
        ),
        end => reporter.pass(
            &FULL,
            format!("{} if stdout cannot be written", end.describe()),
        ),
    }
}

pub static UPSTREAM: Rule = Rule {
    id: "AOI-03.upstream-cut",
    check: CheckId::Number(3),
    level: Level::Should,
    section: "§13",
    requirement: "Input that ends without the summary of the upstream tool is a failure",
    why: "The upstream tool crashed, so the input and the result are incomplete.",
    hint: "Track whether aoi:summary arrived before the end of input, and fail if it did not.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-13-08"],
};

pub(super) fn truncated_input(reporter: Reporter, command: &ProbeCommand, runs: &[&Arc<Capture>]) {
    if command.input.as_ref().is_none_or(|input| !input.upstream) {
        let why = "the command does not read the stream of another tool (`input.upstream`)";
        return reporter.not_applicable(&UPSTREAM, why);
    }
    let session = reporter.session;
    if is_mutating(session, command) && session.probe.sandbox {
        // Check 12 reports it, because it runs such commands in their own directories.
        return;
    }
    let run = |name| runs.iter().find(|run| run.probe == name);
    let (Some(whole), Some(cut)) = (run(WHOLE), run(CUT)) else {
        return reporter.not_applicable(&UPSTREAM, "not tested on commands that change something");
    };
    let ok =
        |run: &Capture| run.end.is_success() && EventStream::parse(&run.stdout).ok() == Some(true);
    match (ok(whole), ok(cut)) {
        (false, _) => {
            reporter.not_verified(&UPSTREAM, "the command also fails on a complete stream")
        }
        (true, true) => reporter.violation(
            &UPSTREAM,
            "the input ended without the upstream summary, but `ok` is true",
            cut,
        ),
        (true, false) => reporter.pass(&UPSTREAM, "truncated input is a failure"),
    }
}
