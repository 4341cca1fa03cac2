//! Check 5: invalid usage fails, and errors have their four fields.

mod errors;

use std::sync::Arc;

use futures::future::join_all;

use super::tally::RuleTally;
use super::{MALFORMED, is_read_only, ok_run, unknown_flag};
use crate::capture::{Capture, ExitKind};
use crate::model::{CheckId, TOOL};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, Reporter, RunOptions, with_options};
use crate::stack_trace;
use crate::stream::EventStream;
use errors::{CATEGORY, CATEGORY_CODE, CODE, FIELDS, RETRY, STRUCTURED};

pub const RULES: &[&Rule] = &[
    &FLAG,
    &COMMAND,
    &USAGE,
    &VALUE,
    &SIGNAL,
    &PROSE,
    &TRACE,
    &CRASH,
    &OK_TRUE,
    &FIELDS,
    &CATEGORY,
    &CODE,
    &CATEGORY_CODE,
    &RETRY,
    &STRUCTURED,
];

const UNKNOWN_FLAG: &str = "malformed: an unknown flag";

const UNKNOWN_COMMAND: &str = "malformed: an unknown command";

const FROM_PROBE_FILE: &str = "malformed: usage from the probe file";

const BAD_LIMIT: &str = "malformed: a limit that is not a number";

const JUNK_LIMIT: &str = "malformed: a limit with letters after the number";

const NEGATIVE_LIMIT: &str = "malformed: a negative limit";

const NO_LIMIT: &str = "malformed: a limit without its value";

const BAD_OUTPUT: &str = "malformed: an unknown format";

pub async fn check(session: &LintSession) {
    let commands = join_all(
        session
            .commands()
            .iter()
            .map(|command| run_invalid(session, command)),
    );
    tokio::join!(
        commands,
        run_invalid_tool_usage(session),
        run_invalid_mutations(session)
    );
}

/// Runs a command with invalid arguments. Commands that may change something are left out, because
/// a tool that ignores unknown flags would make the change.
async fn run_invalid(session: &LintSession, command: &ProbeCommand) {
    if !is_read_only(session, command) {
        return;
    }
    let name = &command.name;
    let (words, how) = ok_run(session, command);
    let with = |more: &[&str]| {
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        with_options(&words, &more)
    };
    let mut runs = vec![(UNKNOWN_FLAG, with(&[&unknown_flag(session)]), how.clone())];
    for listed in &command.malformed {
        let words = session.fill_shared(command, listed);
        runs.push((FROM_PROBE_FILE, words, how.clone()));
    }
    // These runs add the machine-mode options themselves, because those must not come last.
    let human = RunOptions {
        no_machine_args: true,
        ..how.clone()
    };
    if let Some(limit) = &command.limit {
        // Lenient parsers read the second one as 7.
        for (probe, value) in [
            (BAD_LIMIT, "abc"),
            (JUNK_LIMIT, "7x"),
            (NEGATIVE_LIMIT, "-1"),
        ] {
            runs.push((probe, with(&[&limit.flag, value]), how.clone()));
        }
        let mut last = session.probe.machine_args.clone();
        last.push(limit.flag.clone());
        let last = with_options(&words, &last);
        runs.push((NO_LIMIT, last, human.clone()));
    }
    if let Some(mode) = unknown_format(&session.probe.machine_args) {
        let words = with_options(&words, &mode);
        runs.push((BAD_OUTPUT, words, human));
    }
    let runs = runs
        .iter()
        .map(|(probe, words, how)| session.run(name, probe, words, how.clone()));
    join_all(runs).await;
}

/// The machine-mode options with an unknown format.
fn unknown_format(machine_args: &[String]) -> Option<Vec<String>> {
    let place = machine_args
        .iter()
        .position(|word| word.ends_with("jsonl"))?;
    let word = machine_args.get(place)?;
    let other = match word.split_once('=') {
        Some((flag, _)) => format!("{flag}=aoi-lint-nonsense"),
        None if place > 0 => "aoi-lint-nonsense".to_owned(),
        None => return None,
    };
    let mut words = machine_args.to_vec();
    *words.get_mut(place)? = other;
    Some(words)
}

/// Invalid usage of the tool itself.
async fn run_invalid_tool_usage(session: &LintSession) {
    let unknown = async {
        if has_commands(session) {
            let words = [format!("aoi-lint-{}", session.uniq())];
            session
                .run(TOOL, UNKNOWN_COMMAND, &words, RunOptions::default())
                .await;
        }
    };
    let flag = async {
        let declared = session.declared.get();
        if declared.is_some_and(|declared| declared.capabilities.is_some()) {
            let words = ["capabilities", "--output", "json", &unknown_flag(session)];
            let how = RunOptions {
                no_machine_args: true,
                ..RunOptions::default()
            };
            session
                .run(TOOL, UNKNOWN_FLAG, &words.map(str::to_owned), how)
                .await;
        }
    };
    tokio::join!(unknown, flag);
}

/// Whether the first word is known to be a command. Otherwise it may be an operand, and any word is
/// valid.
fn has_commands(session: &LintSession) -> bool {
    let declared = session.declared.get();
    session.commands().iter().any(|command| {
        let is_named = command.ok.first() == Some(&command.name);
        let is_declared =
            declared.is_some_and(|declared| declared.command(&command.name).is_some());
        is_named && (is_declared || session.probe.file.is_some())
    })
}

/// Runs commands that change something with the invalid usage from the probe file, if `sandbox` is
/// set.
async fn run_invalid_mutations(session: &LintSession) {
    let listed = session.commands().iter();
    let listed = listed.filter(|command| command.mutating && !command.malformed.is_empty());
    for command in listed {
        if !session.probe.sandbox {
            return;
        }
        let _turn = session.mutations.lock().await;
        for words in &command.malformed {
            let Ok(dirs) = session.new_dirs() else {
                continue;
            };
            let words = session.fill(words, &[], &dirs);
            let how = RunOptions {
                dirs: Some(dirs),
                ..RunOptions::default()
            };
            session
                .run(&command.name, FROM_PROBE_FILE, &words, how)
                .await;
        }
    }
}

/// Evaluates every run of the session.
pub fn evaluate(session: &LintSession) {
    let captures = session.captures();
    let names = session
        .commands()
        .iter()
        .map(|command| command.name.as_str());
    for name in std::iter::once(TOOL).chain(names) {
        let own = captures.iter().filter(|run| run.command == name);
        let runs: Vec<&Arc<Capture>> = own.collect();
        let command = session
            .commands()
            .iter()
            .find(|command| command.name == name);
        check_command(session, name, command, &runs);
    }
}

static FLAG: Rule = Rule {
    id: "AOI-05.unknown-flag",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§18.2",
    requirement: "Unknown flags are rejected",
    why: "A caller that misspells a flag assumes that it took effect, and a filter or a dry run \
          silently does not happen.",
    hint: "Let the argument parser reject unknown flags, and exit 64.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-02", "AOI-6-03", "AOI-18.2-05"],
};

static COMMAND: Rule = Rule {
    id: "AOI-05.unknown-command",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§18.2",
    requirement: "Unknown commands are rejected",
    why: "A caller that runs a command that does not exist must get an error, not something else.",
    hint: "Exit 64 if the first word is not a command. Printing the help text is not enough.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-02", "AOI-6-03", "AOI-18.2-05"],
};

static USAGE: Rule = Rule {
    id: "AOI-05.malformed",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§18.2",
    requirement: "Usage that the probe file lists as `malformed` is rejected",
    why: "If a missing operand is guessed, the result answers another question.",
    hint: "Check the operands before doing any work, and exit 64.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-02", "AOI-18.2-05"],
};

static VALUE: Rule = Rule {
    id: "AOI-05.bad-value",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§18.2",
    requirement: "Invalid and missing flag values are rejected, such as a limit that is negative or \
                  not a number",
    why: "If a limit or format is silently replaced, the caller gets something that it did not \
          request.",
    hint: "Parse values strictly, and exit 64 for an invalid one.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-02", "AOI-18.2-05"],
};

fn check_command(
    session: &LintSession,
    name: &str,
    command: Option<&ProbeCommand>,
    runs: &[&Arc<Capture>],
) {
    let reporter = session.reporter(name);
    let none = |reporter: Reporter, rule: &'static Rule| match command {
        None => reporter.not_applicable(rule, "the tool itself was not run"),
        Some(command) if command.mutating => {
            reporter.not_applicable(rule, "not tested on commands that change something");
        }
        Some(command) if !is_read_only(session, command) => {
            reporter.skip(
                rule,
                "invalid arguments are tried only on read-only commands; if the command is one, set \
                 `read_only: true` for it in the probe file",
            );
        }
        Some(_) => reporter.not_verified(rule, "no invalid usage of the command was run"),
    };
    // An unbounded command that had to be stopped counts as working.
    let succeeds = runs
        .iter()
        .any(|run| (run.end.is_success() || run.action_done) && !super::may_fail(run));
    for (rule, probes) in [
        (&FLAG, &[UNKNOWN_FLAG][..]),
        (&COMMAND, &[UNKNOWN_COMMAND]),
        (&USAGE, &[FROM_PROBE_FILE]),
        (
            &VALUE,
            &[BAD_LIMIT, JUNK_LIMIT, NEGATIVE_LIMIT, NO_LIMIT, BAD_OUTPUT],
        ),
    ] {
        let mut tally = RuleTally::default();
        for run in runs
            .iter()
            .filter(|run| probes.contains(&run.probe.as_str()))
        {
            check_rejected(run, succeeds || command.is_none(), &mut tally);
        }
        let optional = rule != &FLAG;
        tally.report(reporter, rule, |reporter, rule| match optional {
            true => reporter.not_applicable(rule, "the command has no such usage to test"),
            false => none(reporter, rule),
        });
    }
    let malformed: Vec<&Arc<Capture>> = runs
        .iter()
        .filter(|run| run.probe.starts_with(MALFORMED))
        .copied()
        .collect();
    check_failures(reporter, &malformed, &none);
    errors::check(reporter, runs);
}

/// Whether a run that is invalid on purpose failed.
fn check_rejected(run: &Arc<Capture>, succeeds: bool, tally: &mut RuleTally) {
    let what = run.probe.trim_start_matches(MALFORMED);
    match run.end {
        ExitKind::Code(0) => tally.violation(run, || format!("{what}: exit 0")),
        ExitKind::TimedOut => tally.violation(run, || format!("{what}: the tool does not exit")),
        ExitKind::Code(code) if succeeds || reports_usage_error(run) => {
            tally.pass(format!("exit {code}"))
        }
        // AOI-05.signal reports it.
        ExitKind::Signal(_) => tally.unverify("the tool was killed by a signal (AOI-05.signal)"),
        ExitKind::Code(_) => {
            tally.unverify("no run of the command succeeds, so any usage would fail")
        }
    }
}

fn reports_usage_error(run: &Capture) -> bool {
    EventStream::parse(&run.stdout).errors().any(|error| {
        let category = error.get("category").and_then(|category| category.as_str());
        matches!(category, Some("usage" | "validation"))
    })
}

static SIGNAL: Rule = Rule {
    id: "AOI-05.signal",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§6",
    requirement: "Invalid usage does not kill the process with a signal",
    why: "A crash does not tell what is wrong with the arguments.",
    hint: "Reject invalid usage with an error and an exit code.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-02"],
};

static PROSE: Rule = Rule {
    id: "AOI-05.prose",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§2",
    requirement: "Invalid usage prints only events to stdout, or nothing",
    why: "Callers parse stdout whatever the exit code is.",
    hint: "Print usage to stderr, or as an aoi:error.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-2-12", "AOI-2-13"],
};

static TRACE: Rule = Rule {
    id: "AOI-05.trace",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§2",
    requirement: "Invalid usage prints no stack trace",
    why: "A stack trace describes the tool's internals, not the caller's mistake.",
    hint: "Catch the parser's exceptions, and report what is wrong in one sentence.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-2-12"],
};

static CRASH: Rule = Rule {
    id: "AOI-05.crash-status",
    check: CheckId::Number(5),
    level: Level::Should,
    section: "§6",
    requirement: "The exit code of invalid usage is not that of a crash",
    why: "Callers take 101, 134, 139 and all codes above 128 for a panic or a signal.",
    hint: "Exit 64 for usage errors.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-03"],
};

static OK_TRUE: Rule = Rule {
    id: "AOI-05.ok-true",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§4.1",
    requirement: "The summary of invalid usage does not have ok: true",
    why: "A caller that reads only the stream takes the error for a success.",
    hint: "Set ok to false in the summary of a usage error.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-6-02"],
};

/// Checks how invalid usage fails.
fn check_failures(
    reporter: Reporter,
    malformed: &[&Arc<Capture>],
    none: &dyn Fn(Reporter, &'static Rule),
) {
    let [mut signal, mut prose, mut traces, mut crash, mut ok] =
        std::array::from_fn::<RuleTally, 5, _>(|_| RuleTally::default());
    for run in malformed {
        let what = run.probe.trim_start_matches(MALFORMED);
        let died = match run.end {
            ExitKind::Signal(number) => Some(format!("{what}: killed by signal {number}")),
            _ => None,
        };
        signal.record(run, died, "the tool exits by itself");
        let found = stack_trace::find(&run.stderr).or_else(|| stack_trace::find(&run.stdout));
        let violation = found
            .map(|trace| format!("{what}: stack trace ({}): {:?}", trace.language, trace.line));
        traces.record(run, violation, "no stack trace");
        if let ExitKind::Code(code @ 1..) = run.end {
            let crashed = (code > 128 || code == 101)
                .then(|| format!("{what}: exit {code}, which looks like a crash"));
            crash.record(run, crashed, &format!("exit {code}"));
        }
        if !run.is_machine {
            continue;
        }
        let stream = EventStream::parse(&run.stdout);
        let invalid = stream
            .lines
            .iter()
            .find(|line| line.kind().is_none() && !line.bytes.is_empty());
        let violation =
            invalid.map(|line| format!("{what}: line {} of stdout is not an event", line.number));
        prose.record(run, violation, "stdout has only events, or nothing");
        let says_ok = stream
            .of_type("aoi:summary")
            .any(|line| line.get("ok") == Some(&true.into()));
        let violation = (says_ok && !run.end.is_success())
            .then(|| format!("{what}: {}, but `ok` is true", run.end.describe()));
        ok.record(run, violation, "no ok: true");
    }
    for (tally, rule) in [
        (signal, &SIGNAL),
        (prose, &PROSE),
        (traces, &TRACE),
        (crash, &CRASH),
        (ok, &OK_TRUE),
    ] {
        tally.report(reporter, rule, none);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_replaced_by_an_unknown_one() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let invalid = |text: &str| unknown_format(&words(text)).map(|words| words.join(" "));
        assert_eq!(
            invalid("--output jsonl").as_deref(),
            Some("--output aoi-lint-nonsense")
        );
        assert_eq!(
            invalid("--format=jsonl -q").as_deref(),
            Some("--format=aoi-lint-nonsense -q")
        );
        assert_eq!(invalid("--json"), None);
        assert_eq!(invalid("jsonl"), None);
    }
}
