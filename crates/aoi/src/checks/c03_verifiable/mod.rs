//! Check 3: a finite success ends with exit 0 and a summary that says so; nothing else does.

mod counts;
mod readers;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::tally::Tally;
use super::{is_harmless, is_read_only, plain, upstream};
use crate::capture::Capture;
use crate::model::Check;
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::run::{Input, Output, Reader};
use crate::session::{How, Judge, Session};
use crate::stream::Stream;
use counts::{COUNT, COUNT_ALL, ERRORS};
use readers::{FULL, SLOW_READER, UPSTREAM, cut, full, slow_reader};

pub const RULES: &[&Rule] = &[
    &EXIT,
    &SUMMARY,
    &OK,
    &META_FIRST,
    &ONE_META,
    &COUNT,
    &COUNT_ALL,
    &ERRORS,
    &SLOW_READER,
    &FULL,
    &FAILURE_OK,
    &ZERO_NOT_OK,
    &FAILURE_SUMMARY,
    &UPSTREAM,
    &HELD,
];

/// How long a slow reader reads nothing.
const PAUSE: Duration = Duration::from_millis(1500);

/// So much is read byte by byte.
const MOST_TAKEN: usize = 64 << 10;

/// Names of the runs, by which they are found again.
const PLAIN: &str = "ok";

const SLOW: &str = "slow reader";

const LATE: &str = "slow reader of the summary";

const DEVICE: &str = "output to a full device";

const ABSENT: &str = "an operand that is not there";

const WHOLE: &str = "whole input";

const CUT: &str = "input without its summary";

/// Starts the tool in every way that this check is about.
pub async fn check(session: &Session) {
    let finite = |command: &&Command| is_harmless(session, command) && !command.unbounded;
    let commands = session.commands().iter().filter(finite);
    join_all(commands.map(|command| start(session, command))).await;
}

async fn start(session: &Session, command: &Command) {
    let (words, how) = plain(session, command);
    let name = &command.name;
    let run = session.run(name, PLAIN, &words, how.clone()).await;
    let is_ok = run.end.is_success();
    let slow = How {
        output: Output::Tight(0),
        reader: Reader::Late(PAUSE.saturating_add(run.elapsed)),
        limit: Some(session.options.limit + PAUSE + run.elapsed),
        ..how.clone()
    };
    let late = before_summary(&run.stdout).map(|lines| How {
        output: Output::Small,
        reader: Reader::Pause { lines, time: PAUSE },
        limit: Some(session.options.limit + PAUSE),
        ..how.clone()
    });
    let full = How {
        output: Output::Full,
        ..how.clone()
    };
    tokio::join!(
        async {
            if is_ok {
                tokio::join!(
                    session.run(name, SLOW, &words, slow),
                    session.run(name, DEVICE, &words, full),
                    async {
                        if let Some(late) = late {
                            session.run(name, LATE, &words, late).await;
                        }
                    },
                );
            }
        },
        async {
            if let Some(words) = absent(session, command, &words) {
                session.run(name, ABSENT, &words, how.clone()).await;
            }
        },
        pipeline(session, command, &words),
    );
}

/// How many lines come before the one before the summary, where they are few enough to be taken
/// byte by byte.
fn before_summary(stdout: &[u8]) -> Option<usize> {
    let lines = stdout.iter().filter(|byte| **byte == b'\n').count();
    (stdout.len() <= MOST_TAKEN)
        .then_some(lines)?
        .checked_sub(2)
}

/// The same words with another last operand, which is most likely nowhere.
fn absent(session: &Session, command: &Command, words: &[String]) -> Option<Vec<String>> {
    let is_flag = |word: &String| word.starts_with('-');
    let is_free = |at: usize| at > 0 && !words.get(at - 1).is_some_and(is_flag);
    let place = (1..words.len())
        .rev()
        .find(|at| words.get(*at).is_some_and(|word| !is_flag(word)) && is_free(*at))?;
    let fits = is_read_only(session, command) && command.input.is_none();
    let mut words = words.to_vec();
    *words.get_mut(place)? = format!("aoi-absent-{}", session.uniq());
    fits.then_some(words)
}

/// An upstream that ended well, and one that broke off.
async fn pipeline(session: &Session, command: &Command, words: &[String]) {
    let Some(input) = command.input.as_ref().filter(|input| input.upstream) else {
        return;
    };
    let how = |is_whole| How {
        input: Input::Bytes(upstream(input, is_whole)),
        ..How::default()
    };
    tokio::join!(
        session.run(&command.name, WHOLE, words, how(true)),
        session.run(&command.name, CUT, words, how(false)),
    );
}

/// Looks at every run of every command.
pub fn conclude(session: &Session) {
    let captures = session.captures();
    for command in session.commands() {
        let own = captures.iter().filter(|run| run.command == command.name);
        let runs: Vec<&Arc<Capture>> = own.filter(|run| run.is_machine).collect();
        judge(session, command, &runs);
    }
}

static HELD: Rule = Rule {
    id: "AOI-03.stdout-held",
    check: Check::Number(3),
    level: Level::Should,
    section: "§4",
    demands: "stdout ends when the tool ends",
    why: "A process that stays behind with stdout open makes the caller wait for an end that does not come.",
    hint: "Start helpers with stdout closed or led elsewhere, and wait for those that write to it.",
    topic: Topic::Flush,
    register: &["AOI-4-03"],
};

fn judge(session: &Session, command: &Command, runs: &[&Arc<Capture>]) {
    let judge = session.judge(&command.name);
    if command.unbounded {
        for rule in RULES.iter().copied() {
            judge.not_applicable(rule, "the stream has no end of its own");
        }
        return;
    }
    if runs.is_empty() {
        for rule in RULES.iter().copied() {
            judge.skip(
                rule,
                "it was not run: changes are made only with `sandbox: true`",
            );
        }
        return;
    }
    let plain = runs.iter().find(|run| run.probe == PLAIN).copied();
    let complete = || {
        let read = runs.iter().filter(|run| run.was_read() && !run.was_cut());
        read.map(|run| (*run, Stream::read(&run.stdout)))
    };
    exit(judge, command, plain, runs);
    let successes: Vec<(&Arc<Capture>, Stream)> = complete()
        .filter(|(run, _)| run.end.is_success() && !super::is_bent(run))
        .collect();
    let failures: Vec<(&Arc<Capture>, Stream)> = complete()
        .filter(|(run, _)| !run.end.is_success())
        .collect();
    success(judge, command, plain, &successes);
    let all: Vec<(&Arc<Capture>, Stream)> = complete().collect();
    counts::judge(judge, command, &all);
    metas(judge, &all);
    failure(judge, &failures, &successes);
    slow_reader(judge, command, plain, runs);
    full(judge, command, runs);
    cut(judge, command, runs);
    let mut held = Tally::default();
    for run in runs {
        let wrong = run.held.then(|| {
            format!("`{}`: the tool had ended, and a process of it still held stdout half a second later", run.probe)
        });
        held.see(run, wrong, "stdout ended with the tool");
    }
    held.settle(judge, &HELD, |judge, rule| {
        judge.not_verified(rule, "it was not run")
    });
}

/// A run that was to succeed and needs what nobody gave.
fn lacks_login(command: &Command, plain: Option<&Arc<Capture>>) -> bool {
    command.needs_auth && plain.is_some_and(|run| !run.end.is_success())
}

const LOGIN: &str = "it needs a login, which the runs do not have";

static EXIT: Rule = Rule {
    id: "AOI-03.exit-not-zero",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4.1",
    demands: "A finite success exits 0",
    why: "The exit status is the first thing that a caller and its shell look at.",
    hint: "Exit 0 after the summary, and with another status only where something failed.",
    topic: Topic::Summary,
    register: &["AOI-4.1-01", "AOI-6-01", "AOI-13.1-04", "AOI-18.2-03"],
};

fn exit(judge: Judge, command: &Command, plain: Option<&Arc<Capture>>, runs: &[&Arc<Capture>]) {
    match plain {
        Some(_) if lacks_login(command, plain) => judge.skip(&EXIT, LOGIN),
        Some(run) => {
            let wrong = (!run.end.is_success())
                .then(|| format!("`{}` was to succeed, but: {}", command.name, run.end.told()));
            judge.held(&EXIT, "it exits 0", wrong, run);
        }
        None if runs.iter().any(|run| run.end.is_success()) => {
            judge.pass(&EXIT, "it exits 0 where it succeeds");
        }
        None => judge.not_verified(&EXIT, "no run of it succeeded"),
    }
}

/// The dialect without prefixes is told once, by check 2.
const LEGACY: &str = "the framework's events have no prefix here (AOI-02.legacy-unprefixed)";

static SUMMARY: Rule = Rule {
    id: "AOI-03.summary-last",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4",
    demands: "A run that exits 0 ends with exactly one aoi:summary, and nothing after it",
    why: "A stream that ends without its summary looks to a caller like a crash.",
    hint: "Write one aoi:summary as the last line, whatever was found.",
    topic: Topic::Summary,
    register: &[
        "AOI-4-02",
        "AOI-4-03",
        "AOI-4.1-02",
        "AOI-8.3-12",
        "AOI-13.1-03",
    ],
};

static OK: Rule = Rule {
    id: "AOI-03.ok-not-true",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4.1",
    demands: "The summary of a success has ok: true",
    why: "`ok` is how the tool itself says that it did what it was asked for.",
    hint: "Set ok to the boolean true, not to a text.",
    topic: Topic::Summary,
    register: &["AOI-4.1-01", "AOI-8.3-13", "AOI-13.1-05"],
};

static META_FIRST: Rule = Rule {
    id: "AOI-03.meta-first",
    check: Check::Number(3),
    level: Level::Should,
    section: "§4",
    demands: "aoi:meta is the first event",
    why: "Schema name and version stand in it: a caller needs them before it reads the rest.",
    hint: "Write aoi:meta before the work begins.",
    topic: Topic::Summary,
    register: &["AOI-0-04", "AOI-4-01", "AOI-8.3-01"],
};

fn success(
    judge: Judge,
    command: &Command,
    plain: Option<&Arc<Capture>>,
    successes: &[(&Arc<Capture>, Stream)],
) {
    let (mut summary, mut ok, mut meta) = (Tally::default(), Tally::default(), Tally::default());
    for (run, stream) in successes {
        if stream.is_legacy() {
            for tally in [&mut summary, &mut ok, &mut meta] {
                tally.doubt(LEGACY);
            }
            continue;
        }
        let at = |what: String| format!("`{}`: {what}", run.probe);
        let wrong = match (stream.of("aoi:summary").count(), stream.summary()) {
            (1, Some(_)) => None,
            (0, _) => Some(at("it exits 0 without an aoi:summary".to_owned())),
            (1, None) => Some(at("something follows the aoi:summary".to_owned())),
            (more, _) => Some(at(format!("there are {more} aoi:summary events"))),
        };
        summary.see(run, wrong, "one aoi:summary, and it is last");
        let is_plain = plain.is_none_or(|plain| Arc::ptr_eq(plain, run));
        let last = stream.of("aoi:summary").last().map(|line| line.get("ok"));
        match last {
            Some(Some(Value::Bool(true))) => ok.held("ok is true"),
            // Only a run that was to succeed must say so.
            Some(Some(Value::Bool(false))) if !is_plain || plain.is_none() => {}
            Some(Some(other)) => ok.wrong(run, || at(format!("ok is {other}, not true"))),
            Some(None) => ok.wrong(run, || at("the aoi:summary has no `ok`".to_owned())),
            None if is_plain => ok.doubt("there is no aoi:summary to look into"),
            None => {}
        }
        let wrong = match stream.lines.iter().find(|line| line.kind().is_some()) {
            Some(first) if first.kind() == Some("aoi:meta") => None,
            Some(_) if stream.meta().is_some() => {
                Some(at("something precedes the aoi:meta".to_owned()))
            }
            _ => Some(at("there is no aoi:meta".to_owned())),
        };
        meta.see(run, wrong, "aoi:meta comes first");
    }
    for (tally, rule) in [(summary, &SUMMARY), (ok, &OK), (meta, &META_FIRST)] {
        tally.settle(judge, rule, |judge, rule| {
            match lacks_login(command, plain) {
                true => judge.skip(rule, LOGIN),
                false => judge.not_verified(rule, "no run of it succeeded"),
            }
        });
    }
}

static ONE_META: Rule = Rule {
    id: "AOI-03.meta-twice",
    check: Check::Number(3),
    level: Level::Must,
    section: "§8.3",
    demands: "There is one aoi:meta at most",
    why: "Two of them leave a caller to choose which one describes the stream.",
    hint: "Write aoi:meta once per run; pass an upstream's meta on as data, if at all.",
    topic: Topic::Summary,
    register: &["AOI-8.3-01"],
};

fn metas(judge: Judge, all: &[(&Arc<Capture>, Stream)]) {
    let mut tally = Tally::default();
    for (run, stream) in all {
        match stream.of("aoi:meta").count() {
            0 => {}
            1 => tally.held("one aoi:meta"),
            more => tally.wrong(run, || {
                format!("`{}`: there are {more} aoi:meta events", run.probe)
            }),
        }
    }
    tally.settle(judge, &ONE_META, |judge, rule| {
        judge.not_applicable(rule, "no run of it has an aoi:meta");
    });
}

static FAILURE_OK: Rule = Rule {
    id: "AOI-03.ok-true-on-failure",
    check: Check::Number(3),
    level: Level::Must,
    section: "§4.1",
    demands: "A run that exits with another status than 0 does not say ok: true",
    why: "Two answers to one question: a caller that reads only the stream takes the failure for a success.",
    hint: "Derive `ok` and the exit status from one value.",
    topic: Topic::Summary,
    register: &["AOI-4.1-03", "AOI-6-02"],
};

static ZERO_NOT_OK: Rule = Rule {
    id: "AOI-03.exit-zero-on-failure",
    check: Check::Number(3),
    level: Level::Open,
    section: "§6",
    demands: "A run that says ok: false does not exit 0",
    why: "A shell and every caller that looks at the status alone take it for a success.",
    hint: "Exit with the status of the category, such as 69 or 70, where ok is false.",
    topic: Topic::Summary,
    register: &["AOI-6-01"],
};

static FAILURE_SUMMARY: Rule = Rule {
    id: "AOI-03.failure-summary",
    check: Check::Number(3),
    level: Level::Open,
    section: "§23",
    demands: "A failure after aoi:meta ends with a summary, too",
    why: "Without it a failure cannot be told from a crash; the text leaves this open.",
    hint: "Write aoi:summary with ok: false on the way out.",
    topic: Topic::Summary,
    register: &["AOI-4-02"],
};

fn failure(
    judge: Judge,
    failures: &[(&Arc<Capture>, Stream)],
    successes: &[(&Arc<Capture>, Stream)],
) {
    let (mut not_ok, mut summary, mut zero) =
        (Tally::default(), Tally::default(), Tally::default());
    for (run, stream) in failures {
        let says_ok = stream
            .of("aoi:summary")
            .any(|line| line.get("ok") == Some(&Value::Bool(true)));
        // What malformed usage says is for check 5; the plain run's own status is judged above.
        if says_ok && !super::is_bent(run) && run.probe != PLAIN {
            not_ok.wrong(run, || {
                format!("`{}`: {}, and ok is true", run.probe, run.end.told())
            });
        } else if !says_ok {
            not_ok.held("a failing run does not say ok: true");
        }
        if stream.ok() == Some(false) {
            zero.held("ok: false comes with another status than 0");
        }
        if stream.meta().is_some() {
            let wrong = stream.summary().is_none();
            let wrong = wrong.then(|| {
                format!(
                    "`{}`: {} after aoi:meta, and no summary",
                    run.probe,
                    run.end.told()
                )
            });
            summary.see(run, wrong, "a failure has its summary");
        }
    }
    for (run, stream) in successes {
        if run.probe != PLAIN && stream.ok() == Some(false) {
            zero.wrong(run, || format!("`{}`: exit 0, and ok is false", run.probe));
        }
    }
    not_ok.settle(judge, &FAILURE_OK, |judge, rule| {
        judge.skip(
            rule,
            "no run of it failed: `malformed` in the probe file gives one that does",
        );
    });
    zero.settle(judge, &ZERO_NOT_OK, |judge, rule| {
        judge.not_applicable(rule, "no run of it says ok: false");
    });
    summary.settle(judge, &FAILURE_SUMMARY, |judge, rule| {
        judge.not_applicable(rule, "no run of it failed after aoi:meta");
    });
}
