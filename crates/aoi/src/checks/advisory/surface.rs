//! Rules about standard flags and commands (§16), and about streams of other tools (§13).

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use super::input_schema;
use crate::capture::{Capture, ExitKind};
use crate::checks::{is_harmless, is_read_only, ok_run};
use crate::model::{CheckId, TOOL};
use crate::observe::succeeded;
use crate::probe::{JsonlInput, ProbeCommand};
use crate::rules::{Level, Rule, Topic};
use crate::run::StdinSource;
use crate::session::{LintSession, Reporter, RunOptions, with_options};
use crate::stream::EventStream;

pub async fn check(session: &LintSession) {
    tokio::join!(
        help(session),
        version(session),
        no_color(session),
        machine_flag(session),
        timeouts(session),
        inputs(session),
        codes(session),
    );
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

async fn human(session: &LintSession, probe: &str, line: &[&str]) -> Arc<Capture> {
    let how = RunOptions {
        no_machine_args: true,
        ..RunOptions::default()
    };
    session.run(TOOL, probe, &words(line), how).await
}

pub(super) static HELP: Rule = Rule {
    id: "AOI-adv.help",
    check: CheckId::Advisory,
    level: Level::Must,
    section: "§16.1",
    requirement: "`--help` and `-h` print help and exit 0",
    why: "People and programs start there, and discovery without a manifest depends on it.",
    hint: "Handle both before reading anything else, print to stdout and exit 0.",
    topic: Topic::Help,
    requirement_ids: &["AOI-16.1-01"],
};

/// Checks `--help` and `-h`. A tool that ignores its arguments prints the same as for `--version`.
async fn help(session: &LintSession) {
    let (long, short, other) = tokio::join!(
        human(session, "--help", &["--help"]),
        human(session, "-h", &["-h"]),
        human(session, "--version", &["--version"]),
    );
    let violation = |run: &Capture| {
        let nothing = run.stdout.is_empty() && run.stderr.is_empty();
        match run.end {
            ExitKind::Code(0) if nothing => Some(format!("`{}` prints nothing", run.probe)),
            ExitKind::Code(0) if run.stdout == other.stdout && !run.stdout.is_empty() => {
                Some(format!("`{}` prints the same as `--version`", run.probe))
            }
            ExitKind::Code(0) => None,
            end => Some(format!("`{}`: {}", run.probe, end.describe())),
        }
    };
    let reporter = session.reporter(TOOL);
    match (violation(&long), violation(&short)) {
        (Some(why), _) => reporter.violation(&HELP, why, &long),
        (None, Some(why)) => reporter.violation(&HELP, why, &short),
        (None, None) => reporter.pass(&HELP, "both exit 0 and print help"),
    }
}

pub(super) static VERSION: Rule = Rule {
    id: "AOI-adv.version",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§16.1",
    requirement: "`--version` prints the version of the tool and exits 0",
    why: "A report about a tool needs its version.",
    hint: "Print the name and version of the release.",
    topic: Topic::Help,
    requirement_ids: &["AOI-16.1-02"],
};

async fn version(session: &LintSession) {
    let run = human(session, "--version", &["--version"]).await;
    let has_number = run.stdout.iter().any(u8::is_ascii_digit);
    let violation = match run.end {
        ExitKind::Code(0) if has_number => None,
        ExitKind::Code(0) => Some("the output contains no version".to_owned()),
        end => Some(end.describe()),
    };
    let reporter = session.reporter(TOOL);
    reporter.decide(
        &VERSION,
        "`--version` prints a version and exits 0",
        violation,
        &run,
    );
}

/// Why there is no sample.
const NO_SAMPLE: &str = "no command that is marked `read_only: true` in the probe file succeeded";

/// The first read-only command that terminates and succeeds.
async fn sample(session: &LintSession) -> Option<(&ProbeCommand, Vec<String>, RunOptions)> {
    for command in session.commands() {
        let fits = is_read_only(session, command) && !command.unbounded && !command.needs_auth;
        if !fits {
            continue;
        }
        let (words, how) = ok_run(session, command);
        let run = session
            .run(&command.name, "ok, for comparison", &words, how.clone())
            .await;
        if succeeded(&run) {
            return Some((command, words, how));
        }
    }
    None
}

pub(super) static NO_COLOR: Rule = Rule {
    id: "AOI-adv.no-color",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§16.1",
    requirement: "`--no-color` is accepted",
    why: "Callers add it to every command, and fail if a tool rejects it.",
    hint: "Accept the flag, and ignore it in machine mode.",
    topic: Topic::Surface,
    requirement_ids: &["AOI-16.1-12"],
};

async fn no_color(session: &LintSession) {
    let reporter = session.reporter(TOOL);
    let Some((command, mut words, how)) = sample(session).await else {
        return reporter.not_verified(&NO_COLOR, NO_SAMPLE);
    };
    words.push("--no-color".to_owned());
    let run = session.run(&command.name, "--no-color", &words, how).await;
    let violation =
        (!succeeded(&run)).then(|| format!("`{}`: {}", command.name, run.end.describe()));
    reporter.decide(&NO_COLOR, "`--no-color` is accepted", violation, &run);
}

pub(super) static MACHINE_FLAG: Rule = Rule {
    id: "AOI-adv.machine-flag",
    check: CheckId::Advisory,
    level: Level::Must,
    section: "§1, §16.1",
    requirement: "`--output jsonl` or `--format jsonl` selects machine mode, unless the tool has no \
              other mode",
    why: "A caller that knows the spec can call any tool without reading its manual.",
    hint: "Accept one of the two in addition to the existing flag.",
    topic: Topic::Surface,
    requirement_ids: &["AOI-1-02", "AOI-16.1-03", "AOI-16.4-01", "AOI-16.4-03"],
};

async fn machine_flag(session: &LintSession) {
    let reporter = session.reporter(TOOL);
    let usual =
        |flag: &str, value: &str| ["--output", "--format"].contains(&flag) && value == "jsonl";
    let args = &session.probe.machine_args;
    let pairs = args.windows(2).any(|pair| match pair {
        [flag, value] => usual(flag, value),
        _ => false,
    });
    let joined = args
        .iter()
        .filter_map(|word| word.split_once('='))
        .any(|(flag, value)| usual(flag, value));
    if pairs || joined {
        return match sample(session).await {
            Some(_) => reporter.pass(&MACHINE_FLAG, "a run with the flag prints an AOI stream"),
            None => reporter.not_verified(&MACHINE_FLAG, NO_SAMPLE),
        };
    }
    if args.is_empty() {
        return reporter.not_applicable(&MACHINE_FLAG, "machine mode is the only mode");
    }
    let Some((command, words, how)) = sample(session).await else {
        return reporter.not_verified(&MACHINE_FLAG, NO_SAMPLE);
    };
    let mut last = None;
    for flag in ["--output", "--format"] {
        let words = with_options(&words, &[flag.to_owned(), "jsonl".to_owned()]);
        let how = RunOptions {
            no_machine_args: true,
            ..how.clone()
        };
        let run = session.run(&command.name, flag, &words, how).await;
        if succeeded(&run) {
            return reporter.pass(&MACHINE_FLAG, format!("`{flag} jsonl` also works"));
        }
        last = Some(run);
    }
    if let Some(run) = last {
        let message = format!(
            "machine mode needs `{}`; neither `--output jsonl` nor `--format jsonl` works",
            args.join(" ")
        );
        reporter.violation(&MACHINE_FLAG, message, &run);
    }
}

async fn timeouts(session: &LintSession) {
    let commands = session.commands().iter();
    let slow = commands.filter(|c| c.slow.is_some() && is_harmless(session, c));
    join_all(slow.map(|command| timeout(session, command))).await;
}

pub(super) static TIMEOUT: Rule = Rule {
    id: "AOI-adv.timeout",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§16.1",
    requirement: "`--timeout SECONDS` ends a run that takes longer, with a failure",
    why: "A caller that sets a time limit must not wait longer.",
    hint: "After the given time, emit an aoi:error of category timeout and exit 75 or 124.",
    topic: Topic::Surface,
    requirement_ids: &["AOI-16.1-05", "AOI-15-02"],
};

/// Runs the `slow` command line with a much shorter timeout.
async fn timeout(session: &LintSession, command: &ProbeCommand) {
    let reporter = session.reporter(&command.name);
    let slow = command.slow.clone().unwrap_or_default();
    let line = session.fill_shared(command, &slow);
    let name = &command.name;
    let slow = RunOptions {
        slow: true,
        ..RunOptions::default()
    };
    let whole = session.run(name, "slow, to its end", &line, slow.clone());
    let whole = whole.await;
    if !succeeded(&whole) {
        return reporter.not_verified(&TIMEOUT, "the `slow` run does not succeed");
    }
    // Run time without delays by a busy machine.
    let takes = whole.elapsed.saturating_sub(whole.delay);
    for (bound, needs) in [("0.1", 200), ("1", 2000)] {
        if takes < Duration::from_millis(needs) {
            continue;
        }
        let words = with_options(&line, &["--timeout".to_owned(), bound.to_owned()]);
        let probe = format!("--timeout {bound}");
        let retried = session.run_with_retries(name, &probe, &words, slow.clone(), succeeded);
        let run = retried.await;
        if is_usage(&run) {
            // The tool may accept whole seconds only.
            if bound == "1" {
                reporter.violation(&TIMEOUT, "`--timeout` is rejected", &run);
                return;
            }
            continue;
        }
        let late = run.elapsed >= whole.elapsed && run.end.is_success();
        let violation = (run.end.is_success() || late)
            .then(|| format!("`{probe}`: the command ignored the timeout and finished"));
        return reporter.decide(
            &TIMEOUT,
            "the command fails after the timeout",
            violation,
            &run,
        );
    }
    reporter.not_verified(
        &TIMEOUT,
        "the `slow` run is too short for a timeout that the tool accepts",
    );
}

fn is_usage(run: &Capture) -> bool {
    let stream = EventStream::parse(&run.stdout);
    let is_one = |line: &Value| line.as_str() == Some("usage");
    let is_reported = stream
        .errors()
        .any(|line| line.get("category").is_some_and(is_one));
    is_reported || run.end == ExitKind::Code(64) || run.end == ExitKind::Code(2)
}

async fn inputs(session: &LintSession) {
    let commands = session.commands().iter();
    let reading = commands.filter_map(|command| Some((command, command.input.as_ref()?)));
    join_all(reading.map(|(command, input)| async move {
        tokio::join!(
            input_schema::check(session, command, input),
            upstream(session, command, input)
        );
    }))
    .await;
}

pub static UPSTREAM_ERROR: Rule = Rule {
    id: "AOI-adv.upstream-error",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§13",
    requirement: "An aoi:error from an upstream tool leads to ok: false in the summary",
    why: "An error in the middle of a pipeline must reach its end.",
    hint: "Record that an aoi:error arrived, unless --continue-on-error is set.",
    topic: Topic::Input,
    requirement_ids: &["AOI-13-02", "AOI-13-04", "AOI-13-07"],
};

pub(super) static UPSTREAM_WARNING: Rule = Rule {
    id: "AOI-adv.upstream-warning",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§13",
    requirement: "An aoi:warning from an upstream tool is forwarded or counted",
    why: "A reader at the end of a pipeline sees nothing else of its start.",
    hint: "Emit it again, or add it to warning_count.",
    topic: Topic::Input,
    requirement_ids: &["AOI-13-02", "AOI-13-06"],
};

/// Checks that errors and warnings of an upstream tool are passed on.
async fn upstream(session: &LintSession, command: &ProbeCommand, input: &JsonlInput) {
    let reporter = session.reporter(&command.name);
    let rules = [&UPSTREAM_ERROR, &UPSTREAM_WARNING];
    let not = |why: &str| {
        for rule in rules {
            reporter.not_applicable(rule, why);
        }
    };
    if !input.upstream {
        return not("the command does not read the stream of another tool (`input.upstream`)");
    }
    if !is_harmless(session, command) {
        if session.probe.sandbox {
            // Check 12 reports errors, because it runs such commands in their own directories.
            let why = "not tested on commands that change something";
            return reporter.not_applicable(&UPSTREAM_WARNING, why);
        }
        return not("not tested on commands that change something");
    }
    let (line, _) = ok_run(session, command);
    let run = |probe: &'static str, event: Option<&str>, ok: bool| {
        let how = RunOptions {
            input: StdinSource::Bytes(piped(input, event, ok)),
            ..RunOptions::default()
        };
        let line = line.clone();
        async move { session.run(&command.name, probe, &line, how).await }
    };
    let error = r#"{"type":"aoi:error","category":"temporary","code":"UPSTREAM_DOWN","message":"It is down.","retryable":true}"#;
    let warning = r#"{"type":"aoi:warning","code":"UPSTREAM_OLD","message":"It is old."}"#;
    let (whole, failed, warned) = tokio::join!(
        run("upstream, complete", None, true),
        run("upstream, with an error", Some(error), false),
        run("upstream, with a warning", Some(warning), true),
    );
    if !succeeded(&whole) {
        for rule in rules {
            reporter.not_verified(rule, "the command fails on a complete stream");
        }
        return;
    }
    let violation =
        succeeded(&failed).then(|| "the upstream tool reported an error, but `ok` is true".into());
    reporter.decide(
        &UPSTREAM_ERROR,
        "an upstream error leads to ok: false",
        violation,
        &failed,
    );
    check_warning(reporter, &whole, &warned);
}

fn check_warning(reporter: Reporter, whole: &Capture, warned: &Arc<Capture>) {
    let count = |run: &Capture| {
        let stream = EventStream::parse(&run.stdout);
        let reported = stream.summary().and_then(|line| line.get("warning_count"));
        let reported = reported.and_then(Value::as_u64).unwrap_or(0);
        reported.max(stream.of_type("aoi:warning").count() as u64)
    };
    let violation = (count(warned) <= count(whole))
        .then(|| "the upstream warning is neither forwarded nor counted".to_owned());
    reporter.decide(
        &UPSTREAM_WARNING,
        "the upstream warning is forwarded or counted",
        violation,
        warned,
    );
}

/// A stream of another tool, with one additional event.
fn piped(input: &JsonlInput, event: Option<&str>, ok: bool) -> Vec<u8> {
    let mut lines = vec![r#"{"type":"aoi:meta","tool":"upstream","aoi_version":"0.2"}"#.to_owned()];
    lines.extend(input.good.iter().cloned());
    lines.extend(event.map(str::to_owned));
    let count = input.good.len();
    lines.push(format!(
        r#"{{"type":"aoi:summary","ok":{ok},"count":{count}}}"#
    ));
    crate::observe::join_lines(&lines)
}

async fn codes(session: &LintSession) {
    let commands = session.commands().iter();
    let read_only = commands.filter(|command| is_read_only(session, command));
    join_all(read_only.map(|command| code(session, command))).await;
}

pub(super) static CODE: Rule = Rule {
    id: "AOI-adv.code-unstable",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§9.1",
    requirement: "The same mistake always has the same error code",
    why: "Callers branch on the code.",
    hint: "Use one constant for each kind of failure.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-9.1-16"],
};

/// Makes the same mistake twice, and compares the codes.
async fn code(session: &LintSession, command: &ProbeCommand) {
    let reporter = session.reporter(&command.name);
    let mut lines = command.malformed.clone();
    if lines.is_empty() {
        let (mut words, _) = ok_run(session, command);
        words.push("--aoi-lint-unknown".to_owned());
        lines.push(words);
    }
    let mut compared = 0;
    for line in &lines {
        let line = session.fill(line, &[], session.shared_dirs());
        let run = || {
            session.run(
                &command.name,
                "malformed: twice",
                &line,
                RunOptions::default(),
            )
        };
        let (first, second) = tokio::join!(run(), run());
        let (Some(one), Some(other)) = (code_of(&first), code_of(&second)) else {
            continue;
        };
        if one != other {
            let message = format!("the same arguments returned {one} and {other}");
            return reporter.violation(&CODE, message, &second);
        }
        compared += 1;
    }
    match compared {
        0 => reporter.not_applicable(&CODE, "invalid usage has no error code in the stream"),
        _ => reporter.pass(
            &CODE,
            format!("{compared} mistakes, each with the same code twice"),
        ),
    }
}

fn code_of(run: &Capture) -> Option<String> {
    let stream = EventStream::parse(&run.stdout);
    let line = stream.errors().next()?;
    line.get("code")?.as_str().map(str::to_owned)
}
