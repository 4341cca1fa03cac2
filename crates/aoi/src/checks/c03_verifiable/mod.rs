//! Check 3: a finite command that succeeds exits 0 with a terminal summary that has ok: true, and
//! no other run does.

mod counts;
mod readers;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::tally::RuleTally;
use super::{is_harmless, is_read_only, ok_run, upstream_input};
use crate::capture::{Capture, PLAIN_RUN};
use crate::model::CheckId;
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::run::{ReadMode, StdinSource, StdoutTarget};
use crate::session::{LintSession, Reporter, RunOptions};
use crate::stream::EventStream;
use counts::{COUNT, COUNT_ALL, ERRORS};
pub use readers::UPSTREAM;
use readers::{FULL, SLOW_READER, full_device, slow_reader, truncated_input};

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
    &STDOUT_HELD,
];

/// How long the slow reader pauses.
const PAUSE: Duration = Duration::from_millis(1500);

/// Maximum output that is read byte by byte.
const MAX_BYTEWISE: usize = 64 << 10;

/// Names of the runs, which also identify them later.
const PLAIN: &str = PLAIN_RUN;

const SLOW: &str = "slow reader";

const LATE: &str = "slow reader of the summary";

const DEVICE: &str = "output to a full device";

const ABSENT: &str = "a nonexistent operand";

const WHOLE: &str = "whole input";

const CUT: &str = "input without its summary";

/// Starts the runs that this check needs.
pub async fn check(session: &LintSession) {
    let finite = |command: &&ProbeCommand| is_harmless(session, command) && !command.unbounded;
    let commands = session.commands().iter().filter(finite);
    join_all(commands.map(|command| start(session, command))).await;
}

async fn start(session: &LintSession, command: &ProbeCommand) {
    let (words, how) = ok_run(session, command);
    let name = &command.name;
    let run = session.run(name, PLAIN, &words, how.clone()).await;
    let is_ok = run.end.is_success();
    let slow = RunOptions {
        output: StdoutTarget::NearlyFull(0),
        reader: ReadMode::Delayed(PAUSE.saturating_add(run.elapsed)),
        limit: Some(session.options.limit + PAUSE + run.elapsed),
        ..how.clone()
    };
    let late = before_summary(&run.stdout).map(|lines| RunOptions {
        output: StdoutTarget::Small,
        reader: ReadMode::Pause { lines, time: PAUSE },
        limit: Some(session.options.limit + PAUSE),
        ..how.clone()
    });
    let full_device = RunOptions {
        output: StdoutTarget::Full,
        ..how.clone()
    };
    tokio::join!(
        async {
            if is_ok {
                tokio::join!(
                    session.run(name, SLOW, &words, slow),
                    session.run(name, DEVICE, &words, full_device),
                    async {
                        if let Some(late) = late {
                            session.run(name, LATE, &words, late).await;
                        }
                    },
                );
            }
        },
        async {
            if let Some(words) = with_nonexistent_operand(session, command, &words) {
                session.run(name, ABSENT, &words, how.clone()).await;
            }
        },
        pipeline(session, command, &words),
    );
}

/// Number of lines before the last two, if the output is small enough to be read byte by byte.
fn before_summary(stdout: &[u8]) -> Option<usize> {
    let lines = stdout.iter().filter(|byte| **byte == b'\n').count();
    (stdout.len() <= MAX_BYTEWISE)
        .then_some(lines)?
        .checked_sub(2)
}

/// The arguments with the last operand replaced by a name that most likely does not exist.
fn with_nonexistent_operand(
    session: &LintSession,
    command: &ProbeCommand,
    words: &[String],
) -> Option<Vec<String>> {
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

/// Runs the command with a complete upstream stream and with a truncated one.
async fn pipeline(session: &LintSession, command: &ProbeCommand, words: &[String]) {
    let Some(input) = command.input.as_ref().filter(|input| input.upstream) else {
        return;
    };
    let how = |is_whole| RunOptions {
        input: StdinSource::Bytes(upstream_input(input, is_whole)),
        ..RunOptions::default()
    };
    tokio::join!(
        session.run(&command.name, WHOLE, words, how(true)),
        session.run(&command.name, CUT, words, how(false)),
    );
}

/// Evaluates every run of every command.
pub fn evaluate(session: &LintSession) {
    let captures = session.captures();
    for command in session.commands() {
        let own = captures.iter().filter(|run| run.command == command.name);
        let runs: Vec<&Arc<Capture>> = own.filter(|run| run.is_machine).collect();
        check_command(session, command, &runs);
    }
}

static STDOUT_HELD: Rule = Rule {
    id: "AOI-03.stdout-held",
    check: CheckId::Number(3),
    level: Level::Should,
    section: "§4",
    requirement: "stdout is closed when the tool exits",
    why: "If a child process keeps stdout open, the caller waits for an end of file that does not \
          come.",
    hint: "Start child processes with stdout closed or redirected, and wait for those that write \
           to it.",
    topic: Topic::Flush,
    requirement_ids: &["AOI-4-03"],
};

fn check_command(session: &LintSession, command: &ProbeCommand, runs: &[&Arc<Capture>]) {
    let reporter = session.reporter(&command.name);
    if command.unbounded {
        for rule in RULES.iter().copied() {
            reporter.not_applicable(rule, "the command is unbounded");
        }
        return;
    }
    if runs.is_empty() {
        for rule in RULES.iter().copied() {
            reporter.skip(
                rule,
                "the command was not run: commands that change something run only with `sandbox: \
                 true`",
            );
        }
        return;
    }
    let plain = runs.iter().find(|run| run.probe == PLAIN).copied();
    let complete = || {
        let read = runs
            .iter()
            .filter(|run| run.was_read() && !run.is_incomplete());
        read.map(|run| (*run, EventStream::parse(&run.stdout)))
    };
    check_exit(reporter, command, plain, runs);
    let successes: Vec<(&Arc<Capture>, EventStream)> = complete()
        .filter(|(run, _)| run.end.is_success() && !super::may_fail(run))
        .collect();
    let failures: Vec<(&Arc<Capture>, EventStream)> = complete()
        .filter(|(run, _)| !run.end.is_success())
        .collect();
    check_successes(reporter, command, plain, &successes);
    let all: Vec<(&Arc<Capture>, EventStream)> = complete().collect();
    counts::check(reporter, command, &all);
    check_metas(reporter, &all);
    check_failures(reporter, &failures, &successes);
    slow_reader(reporter, command, plain, runs);
    full_device(reporter, command, runs);
    truncated_input(reporter, command, runs);
    let mut held = RuleTally::default();
    for run in runs {
        let violation = run.stdout_held.then(|| {
            format!(
                "`{}`: a child process still held stdout open half a second after the tool exited",
                run.probe
            )
        });
        held.record(run, violation, "stdout was closed when the tool exited");
    }
    held.report(reporter, &STDOUT_HELD, |reporter, rule| {
        reporter.not_verified(rule, "the command was not run")
    });
}

/// Whether the `ok` run failed and the command needs a login.
fn needs_login(command: &ProbeCommand, plain: Option<&Arc<Capture>>) -> bool {
    command.needs_auth && plain.is_some_and(|run| !run.end.is_success())
}

const LOGIN: &str = "the command needs a login, and the runs have no credentials";

static EXIT: Rule = Rule {
    id: "AOI-03.exit-not-zero",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§4.1",
    requirement: "A finite command that succeeds exits 0",
    why: "The exit code is the first thing that a caller and its shell look at.",
    hint: "Exit 0 after the summary, and use another exit code only for failures. If the command \
           does not know `--output jsonl`, support it, or check a command that does.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-4.1-01", "AOI-6-01", "AOI-13.1-04", "AOI-18.2-03"],
};

fn check_exit(
    reporter: Reporter,
    command: &ProbeCommand,
    plain: Option<&Arc<Capture>>,
    runs: &[&Arc<Capture>],
) {
    match plain {
        Some(_) if needs_login(command, plain) => reporter.skip(&EXIT, LOGIN),
        Some(run) if super::lacks_target(run) => reporter.not_verified(&EXIT, super::NO_TARGET),
        Some(run) => {
            let violation = (!run.end.is_success()).then(|| {
                format!(
                    "`{}`: {}, expected exit 0",
                    command.name,
                    run.end.describe()
                )
            });
            reporter.decide(&EXIT, "exits 0", violation, run);
        }
        None if runs.iter().any(|run| run.end.is_success()) => {
            reporter.pass(&EXIT, "exits 0 on success");
        }
        None => reporter.not_verified(&EXIT, "no run of the command succeeded"),
    }
}

/// Check 2 reports the unprefixed syntax once.
const LEGACY: &str = "framework events have no prefix (AOI-02.legacy-unprefixed)";

static SUMMARY: Rule = Rule {
    id: "AOI-03.summary-last",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§4",
    requirement: "A run that exits 0 has exactly one aoi:summary, which is the last event",
    why: "A stream without a summary looks like a crash to the caller.",
    hint: "Write one aoi:summary as the last line of every run.",
    topic: Topic::Summary,
    requirement_ids: &[
        "AOI-4-02",
        "AOI-4-03",
        "AOI-4.1-02",
        "AOI-8.3-12",
        "AOI-13.1-03",
    ],
};

static OK: Rule = Rule {
    id: "AOI-03.ok-not-true",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§4.1",
    requirement: "The summary of a successful run has ok: true",
    why: "`ok` is how the tool reports that it did what was requested.",
    hint: "Set ok to the boolean true, not to a string.",
    topic: Topic::Summary,
    requirement_ids: &[
        "AOI-4.1-01",
        "AOI-6-16",
        "AOI-8.3-13",
        "AOI-13.1-01",
        "AOI-13.1-05",
    ],
};

static META_FIRST: Rule = Rule {
    id: "AOI-03.meta-first",
    check: CheckId::Number(3),
    level: Level::Should,
    section: "§4",
    requirement: "aoi:meta is the first event",
    why: "It contains the schema name and version, which a caller needs before it reads the rest.",
    hint: "Write aoi:meta before any other event.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-0-04", "AOI-4-01", "AOI-8.3-01"],
};

fn check_successes(
    reporter: Reporter,
    command: &ProbeCommand,
    plain: Option<&Arc<Capture>>,
    successes: &[(&Arc<Capture>, EventStream)],
) {
    let (mut summary, mut ok, mut meta) = (
        RuleTally::default(),
        RuleTally::default(),
        RuleTally::default(),
    );
    for (run, stream) in successes {
        if stream.is_legacy() {
            for tally in [&mut summary, &mut ok, &mut meta] {
                tally.unverify(LEGACY);
            }
            continue;
        }
        let at = |what: String| format!("`{}`: {what}", run.probe);
        let violation = match (stream.of_type("aoi:summary").count(), stream.summary()) {
            (1, Some(_)) => None,
            (0, _) => Some(at("exit 0 without an aoi:summary".to_owned())),
            (1, None) => Some(at("output follows the aoi:summary".to_owned())),
            (more, _) => Some(at(format!("{more} aoi:summary events; expected one"))),
        };
        summary.record(run, violation, "one aoi:summary as the last event");
        let is_plain = plain.is_none_or(|plain| Arc::ptr_eq(plain, run));
        let last = stream
            .of_type("aoi:summary")
            .last()
            .map(|line| line.get("ok"));
        match last {
            Some(Some(Value::Bool(true))) => ok.pass("ok is true"),
            // Only the `ok` run must have ok: true.
            Some(Some(Value::Bool(false))) if !is_plain || plain.is_none() => {}
            Some(Some(other)) => {
                ok.violation(run, || at(format!("`ok` must be true, found {other}")))
            }
            Some(None) => ok.violation(run, || at("the aoi:summary has no `ok`".to_owned())),
            None if is_plain => ok.unverify("the run has no aoi:summary"),
            None => {}
        }
        let violation = match stream.lines.iter().find(|line| line.kind().is_some()) {
            Some(first) if first.kind() == Some("aoi:meta") => None,
            Some(_) if stream.meta().is_some() => {
                Some(at("an event precedes the aoi:meta".to_owned()))
            }
            _ => Some(at("no aoi:meta".to_owned())),
        };
        meta.record(run, violation, "aoi:meta is the first event");
    }
    for (tally, rule) in [(summary, &SUMMARY), (ok, &OK), (meta, &META_FIRST)] {
        tally.report(reporter, rule, |reporter, rule| {
            match needs_login(command, plain) {
                true => reporter.skip(rule, LOGIN),
                false => reporter.not_verified(rule, "no run of the command succeeded"),
            }
        });
    }
}

static ONE_META: Rule = Rule {
    id: "AOI-03.meta-twice",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§8.3",
    requirement: "A stream has at most one aoi:meta",
    why: "With two of them, a caller cannot tell which one describes the stream.",
    hint: "Write aoi:meta once per run. If you forward the meta of an upstream tool, forward it \
           as data.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-8.3-01"],
};

fn check_metas(reporter: Reporter, all: &[(&Arc<Capture>, EventStream)]) {
    let mut tally = RuleTally::default();
    for (run, stream) in all {
        match stream.of_type("aoi:meta").count() {
            0 => {}
            1 => tally.pass("one aoi:meta"),
            more => tally.violation(run, || {
                format!(
                    "`{}`: {more} aoi:meta events; expected at most one",
                    run.probe
                )
            }),
        }
    }
    tally.report(reporter, &ONE_META, |reporter, rule| {
        reporter.not_applicable(rule, "no run of the command has an aoi:meta");
    });
}

static FAILURE_OK: Rule = Rule {
    id: "AOI-03.ok-true-on-failure",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§4.1",
    requirement: "A run with a non-zero exit code does not have ok: true",
    why: "A caller that reads only the stream takes the failure for a success.",
    hint: "Derive `ok` and the exit code from the same value.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-4.1-03", "AOI-6-02"],
};

static ZERO_NOT_OK: Rule = Rule {
    id: "AOI-03.exit-zero-on-failure",
    check: CheckId::Number(3),
    level: Level::Open,
    section: "§6",
    requirement: "A run with ok: false does not exit 0",
    why: "Shells and callers that check only the exit code take it for a success.",
    hint: "If ok is false, exit with the code of the error category, such as 69 or 70.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-6-01"],
};

static FAILURE_SUMMARY: Rule = Rule {
    id: "AOI-03.failure-summary",
    check: CheckId::Number(3),
    level: Level::Open,
    section: "§23",
    requirement: "A failure after aoi:meta also ends with a summary",
    why: "Without a summary, a failure looks like a crash. The spec leaves this open.",
    hint: "Write an aoi:summary with ok: false before exiting.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-4-02"],
};

fn check_failures(
    reporter: Reporter,
    failures: &[(&Arc<Capture>, EventStream)],
    successes: &[(&Arc<Capture>, EventStream)],
) {
    let (mut not_ok, mut summary, mut zero) = (
        RuleTally::default(),
        RuleTally::default(),
        RuleTally::default(),
    );
    for (run, stream) in failures {
        let says_ok = stream
            .of_type("aoi:summary")
            .any(|line| line.get("ok") == Some(&Value::Bool(true)));
        // Check 5 covers invalid usage, and `exit` covers the `ok` run.
        if says_ok && !super::may_fail(run) && run.probe != PLAIN {
            not_ok.violation(run, || {
                format!("`{}`: {}, but `ok` is true", run.probe, run.end.describe())
            });
        } else if !says_ok {
            not_ok.pass("a failing run does not have ok: true");
        }
        if stream.ok() == Some(false) {
            zero.pass("ok: false comes with a non-zero exit code");
        }
        if stream.meta().is_some() {
            let violation = stream.summary().is_none();
            let violation = violation.then(|| {
                format!(
                    "`{}`: {} after aoi:meta, without a summary",
                    run.probe,
                    run.end.describe()
                )
            });
            summary.record(run, violation, "a failure ends with a summary");
        }
    }
    for (run, stream) in successes {
        if run.probe != PLAIN && stream.ok() == Some(false) {
            zero.violation(run, || {
                format!("`{}`: exit 0, but `ok` is false", run.probe)
            });
        }
    }
    not_ok.report(reporter, &FAILURE_OK, |reporter, rule| {
        reporter.skip(
            rule,
            "no run of the command failed; add an invalid command line as `malformed` to the probe \
             file",
        );
    });
    zero.report(reporter, &ZERO_NOT_OK, |reporter, rule| {
        reporter.not_applicable(rule, "no run of the command has ok: false");
    });
    summary.report(reporter, &FAILURE_SUMMARY, |reporter, rule| {
        reporter.not_applicable(rule, "no run of the command failed after aoi:meta");
    });
}
