//! Runs with a slow reader, a full device or truncated input.

use std::sync::Arc;

use super::{CUT, DEVICE, LATE, LOGIN, PAUSE, PLAIN, SLOW, WHOLE, lacks_login};
use crate::capture::{Capture, End};
use crate::checks::tally::Tally;
use crate::model::Check;
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::Judge;
use crate::stream::Stream;

pub(super) static SLOW_READER: Rule = Rule {
    id: "AOI-03.summary-lost",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4",
    demands: "A slow reader receives all output",
    why: "Callers may pause. A tool that exits before its output is read loses the summary.",
    hint: "Flush stdout and wait until everything is written before the process exits.",
    topic: Topic::Flush,
    register: &["AOI-4-02"],
};

pub(super) fn slow_reader(
    judge: Judge,
    command: &Command,
    plain: Option<&Arc<Capture>>,
    runs: &[&Arc<Capture>],
) {
    let rule = &SLOW_READER;
    let mut tally = Tally::default();
    for run in runs
        .iter()
        .filter(|run| [SLOW, LATE].contains(&run.probe.as_str()))
    {
        let stream = Stream::read(&run.stdout);
        let kept = stream.summary().is_some_and(|line| line.complete);
        let at = |what: String| format!("`{}`: {what}", run.probe);
        match (kept, run.end) {
            (true, End::Code(0)) if run.acted => {
                tally.held("the summary arrived although the reader paused");
            }
            // Everything was written before the reader paused, so this proves nothing.
            (true, End::Code(0)) => {}
            (true, end) => tally.wrong(run, || at(end.told())),
            (false, end) => tally.wrong(run, || {
                let (ms, got) = (PAUSE.as_millis(), stream.lines.len());
                let end = end.told();
                at(format!(
                    "the reader paused for {ms} ms: {got} lines arrived, but no summary; {end}"
                ))
            }),
        }
    }
    let had = plain.is_some_and(|plain| Stream::read(&plain.stdout).summary().is_some());
    if plain.is_some_and(|plain| plain.end.is_success()) && !had {
        return judge.not_verified(rule, "the `ok` run has no summary that could be lost");
    }
    tally.settle(judge, rule, |judge, rule| {
        not_tried(judge, command, plain, rule)
    });
}

fn not_tried(judge: Judge, command: &Command, plain: Option<&Arc<Capture>>, rule: &'static Rule) {
    match plain {
        Some(_) if lacks_login(command, plain) => judge.skip(rule, LOGIN),
        Some(run) if run.end.is_success() => {
            judge.not_verified(rule, "the tool never had to wait for its reader");
        }
        Some(_) => judge.not_verified(rule, "the `ok` run does not succeed"),
        None => judge.not_applicable(rule, "not tested on commands that change something"),
    }
}

pub(super) static FULL: Rule = Rule {
    id: "AOI-03.write-error-ignored",
    check: Check::Number(3),
    level: Level::Must,
    section: "§6",
    demands: "A run whose output cannot be written fails",
    why: "Otherwise a full disk looks like a complete, empty result.",
    hint: "Check the result of every write and of the last flush, and exit 74 if one fails.",
    topic: Topic::Flush,
    register: &["AOI-6-02"],
};

pub(super) fn full(judge: Judge, command: &Command, runs: &[&Arc<Capture>]) {
    let plain = runs.iter().find(|run| run.probe == PLAIN).copied();
    let Some(run) = runs.iter().find(|run| run.probe == DEVICE) else {
        return not_tried(judge, command, plain, &FULL);
    };
    match run.end {
        _ if plain.is_none_or(|plain| plain.stdout.is_empty()) => {
            judge.not_verified(&FULL, "the command prints nothing");
        }
        End::Code(0) => judge.broken(&FULL, "stdout cannot be written, but the tool exits 0", run),
        End::TimedOut => judge.broken(
            &FULL,
            "stdout cannot be written, and the tool does not exit",
            run,
        ),
        end => judge.pass(&FULL, format!("{} if stdout cannot be written", end.told())),
    }
}

pub(super) static UPSTREAM: Rule = Rule {
    id: "AOI-03.upstream-cut",
    check: Check::Number(3),
    level: Level::Should,
    section: "§13",
    demands: "Input that ends without the summary of the upstream tool is a failure",
    why: "The upstream tool crashed, so the input and the result are incomplete.",
    hint: "Track whether aoi:summary arrived before the end of input, and fail if it did not.",
    topic: Topic::Summary,
    register: &["AOI-13-08"],
};

pub(super) fn cut(judge: Judge, command: &Command, runs: &[&Arc<Capture>]) {
    if command.input.as_ref().is_none_or(|input| !input.upstream) {
        let why = "the command does not read the stream of another tool (`input.upstream`)";
        return judge.not_applicable(&UPSTREAM, why);
    }
    let run = |name| runs.iter().find(|run| run.probe == name);
    let (Some(whole), Some(cut)) = (run(WHOLE), run(CUT)) else {
        return judge.not_applicable(&UPSTREAM, "not tested on commands that change something");
    };
    let ok = |run: &Capture| run.end.is_success() && Stream::read(&run.stdout).ok() == Some(true);
    match (ok(whole), ok(cut)) {
        (false, _) => judge.not_verified(&UPSTREAM, "the command also fails on a complete stream"),
        (true, true) => judge.broken(
            &UPSTREAM,
            "the input ended without the upstream summary, but `ok` is true",
            cut,
        ),
        (true, false) => judge.pass(&UPSTREAM, "truncated input is a failure"),
    }
}
