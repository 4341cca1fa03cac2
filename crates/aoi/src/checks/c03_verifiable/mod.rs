//! Check 3: a finite success ends with exit 0 and a summary that says so; nothing else does.

mod counts;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::tally::Tally;
use super::{is_harmless, is_read_only, plain, upstream};
use crate::capture::{Capture, End};
use crate::probe::Command;
use crate::rules::Rule;
use crate::run::{Input, Output, Reader};
use crate::session::{How, Judge, Session};
use crate::stream::Stream;
use rules::*;

pub const RULES: &[&Rule] = rules::ALL;

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

fn slow_reader(
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
                tally.held("the summary came although nobody read for a while");
            }
            // Everything was written before the reader was slow.
            (true, End::Code(0)) => {}
            (true, end) => tally.wrong(run, || at(end.told())),
            (false, end) => tally.wrong(run, || {
                let (ms, got) = (PAUSE.as_millis(), stream.lines.len());
                let end = end.told();
                at(format!(
                    "nobody read for {ms} ms: {got} lines and no summary came, {end}"
                ))
            }),
        }
    }
    let had = plain.is_some_and(|plain| Stream::read(&plain.stdout).summary().is_some());
    if plain.is_some_and(|plain| plain.end.is_success()) && !had {
        return judge.not_verified(rule, "the plain run has no summary that could be lost");
    }
    tally.settle(judge, rule, |judge, rule| {
        not_tried(judge, command, plain, rule)
    });
}

fn not_tried(judge: Judge, command: &Command, plain: Option<&Arc<Capture>>, rule: &'static Rule) {
    match plain {
        Some(_) if lacks_login(command, plain) => judge.skip(rule, LOGIN),
        Some(run) if run.end.is_success() => {
            judge.not_verified(rule, "nothing could make it wait for its reader");
        }
        Some(_) => judge.not_verified(rule, "the plain run does not succeed"),
        None => judge.not_applicable(rule, "not tried on a command that changes something"),
    }
}

fn full(judge: Judge, command: &Command, runs: &[&Arc<Capture>]) {
    let plain = runs.iter().find(|run| run.probe == PLAIN).copied();
    let Some(run) = runs.iter().find(|run| run.probe == DEVICE) else {
        return not_tried(judge, command, plain, &FULL);
    };
    match run.end {
        _ if plain.is_none_or(|plain| plain.stdout.is_empty()) => {
            judge.not_verified(&FULL, "it prints nothing that could fail to be written");
        }
        End::Code(0) => judge.broken(&FULL, "stdout cannot be written, and it exits 0", run),
        End::TimedOut => judge.broken(&FULL, "stdout cannot be written, and it does not end", run),
        end => judge.pass(
            &FULL,
            format!("{} where stdout cannot be written", end.told()),
        ),
    }
}

fn cut(judge: Judge, command: &Command, runs: &[&Arc<Capture>]) {
    if command.input.as_ref().is_none_or(|input| !input.upstream) {
        let why = "it reads no stream of another tool (`input.upstream`)";
        return judge.not_applicable(&UPSTREAM, why);
    }
    let run = |name| runs.iter().find(|run| run.probe == name);
    let (Some(whole), Some(cut)) = (run(WHOLE), run(CUT)) else {
        return judge.not_applicable(&UPSTREAM, "not tried on a command that changes something");
    };
    let ok = |run: &Capture| run.end.is_success() && Stream::read(&run.stdout).ok() == Some(true);
    match (ok(whole), ok(cut)) {
        (false, _) => {
            judge.not_verified(&UPSTREAM, "it does not succeed on a whole stream, either")
        }
        (true, true) => judge.broken(
            &UPSTREAM,
            "its input ended without the upstream's summary, and it says ok: true",
            cut,
        ),
        (true, false) => judge.pass(&UPSTREAM, "input that breaks off is no success"),
    }
}
