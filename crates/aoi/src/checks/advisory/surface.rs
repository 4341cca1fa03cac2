//! Flags and commands that every tool has (§16), and streams of others (§13).

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::{Capture, End};
use crate::checks::{is_harmless, is_read_only, plain};
use crate::model::{Check, TOOL};
use crate::observe::succeeded;
use crate::probe::{Command, Input as Reads};
use crate::rules::{Level, Rule, Topic};
use crate::run::Input;
use crate::session::{How, Judge, Session, with_options};
use crate::stream::Stream;

pub async fn check(session: &Session) {
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

async fn human(session: &Session, probe: &str, line: &[&str]) -> Arc<Capture> {
    let how = How {
        human: true,
        ..How::default()
    };
    session.run(TOOL, probe, &words(line), how).await
}

pub(super) static HELP: Rule = Rule {
    id: "AOI-adv.help",
    check: Check::Advisory,
    level: Level::Must,
    section: "§16.1",
    demands: "`--help` and `-h` print help and exit 0",
    why: "It is where people and programs begin, and what a discovery without a manifest falls back on.",
    hint: "Take both before anything else is read, print to stdout and exit 0.",
    topic: Topic::Surface,
    register: &["AOI-16.1-01"],
};

/// A tool that looks at none of its words prints the same for all of them.
async fn help(session: &Session) {
    let (long, short, other) = tokio::join!(
        human(session, "--help", &["--help"]),
        human(session, "-h", &["-h"]),
        human(session, "--version", &["--version"]),
    );
    let wrong = |run: &Capture| {
        let nothing = run.stdout.is_empty() && run.stderr.is_empty();
        match run.end {
            End::Code(0) if nothing => Some(format!("`{}` prints nothing", run.probe)),
            End::Code(0) if run.stdout == other.stdout && !run.stdout.is_empty() => {
                Some(format!("`{}` prints what `--version` prints", run.probe))
            }
            End::Code(0) => None,
            end => Some(format!("`{}`: {}", run.probe, end.told())),
        }
    };
    let judge = session.judge(TOOL);
    match (wrong(&long), wrong(&short)) {
        (Some(why), _) => judge.broken(&HELP, why, &long),
        (None, Some(why)) => judge.broken(&HELP, why, &short),
        (None, None) => judge.pass(&HELP, "both exit 0 and print something of their own"),
    }
}

pub(super) static VERSION: Rule = Rule {
    id: "AOI-adv.version",
    check: Check::Advisory,
    level: Level::Should,
    section: "§16.1",
    demands: "`--version` prints the version of the tool and exits 0",
    why: "A report about a tool needs its version.",
    hint: "Print the name and the version of the release.",
    topic: Topic::Surface,
    register: &["AOI-16.1-02"],
};

async fn version(session: &Session) {
    let run = human(session, "--version", &["--version"]).await;
    let has_number = run.stdout.iter().any(u8::is_ascii_digit);
    let wrong = match run.end {
        End::Code(0) if has_number => None,
        End::Code(0) => Some("it prints no version".to_owned()),
        end => Some(end.told()),
    };
    let judge = session.judge(TOOL);
    judge.held(&VERSION, "it prints a version and exits 0", wrong, &run);
}

/// The first command that may be run again and again, and that ends well.
async fn sample(session: &Session) -> Option<(&Command, Vec<String>, How)> {
    for command in session.commands() {
        let fits = is_read_only(session, command) && !command.unbounded && !command.needs_auth;
        if !fits {
            continue;
        }
        let (words, how) = plain(session, command);
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
    check: Check::Advisory,
    level: Level::Should,
    section: "§16.1",
    demands: "`--no-color` is accepted",
    why: "Callers add it to every tool; one that refuses it breaks them.",
    hint: "Accept it, and do nothing with it in machine mode.",
    topic: Topic::Surface,
    register: &["AOI-16.1-12"],
};

async fn no_color(session: &Session) {
    let judge = session.judge(TOOL);
    let Some((command, mut words, how)) = sample(session).await else {
        return judge.not_verified(&NO_COLOR, "no read-only command succeeds");
    };
    words.push("--no-color".to_owned());
    let run = session.run(&command.name, "--no-color", &words, how).await;
    let wrong = (!succeeded(&run)).then(|| format!("`{}`: {}", command.name, run.end.told()));
    judge.held(&NO_COLOR, "it is accepted", wrong, &run);
}

pub(super) static MACHINE_FLAG: Rule = Rule {
    id: "AOI-adv.machine-flag",
    check: Check::Advisory,
    level: Level::Must,
    section: "§1, §16.1",
    demands: "`--output jsonl` or `--format jsonl` puts the tool into machine mode, unless it has no other",
    why: "A caller that knows the text can call any tool without reading its manual.",
    hint: "Accept one of the two beside the flag that there is.",
    topic: Topic::Surface,
    register: &["AOI-1-02", "AOI-16.1-03", "AOI-16.4-03"],
};

async fn machine_flag(session: &Session) {
    let judge = session.judge(TOOL);
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
            Some(_) => judge.pass(&MACHINE_FLAG, "a run with it is an AOI stream"),
            None => judge.not_verified(&MACHINE_FLAG, "no read-only command succeeds"),
        };
    }
    if args.is_empty() {
        return judge.not_applicable(&MACHINE_FLAG, "machine mode is its only mode");
    }
    let Some((command, words, how)) = sample(session).await else {
        return judge.not_verified(&MACHINE_FLAG, "no read-only command succeeds");
    };
    let mut last = None;
    for flag in ["--output", "--format"] {
        let words = with_options(&words, &[flag.to_owned(), "jsonl".to_owned()]);
        let how = How {
            human: true,
            ..how.clone()
        };
        let run = session.run(&command.name, flag, &words, how).await;
        if succeeded(&run) {
            return judge.pass(&MACHINE_FLAG, format!("`{flag} jsonl` works, too"));
        }
        last = Some(run);
    }
    if let Some(run) = last {
        let message = format!(
            "machine mode takes `{}`; neither `--output jsonl` nor `--format jsonl` is known",
            args.join(" ")
        );
        judge.broken(&MACHINE_FLAG, message, &run);
    }
}

async fn timeouts(session: &Session) {
    let commands = session.commands().iter();
    let slow = commands.filter(|c| c.slow.is_some() && is_harmless(session, c));
    join_all(slow.map(|command| timeout(session, command))).await;
}

pub(super) static TIMEOUT: Rule = Rule {
    id: "AOI-adv.timeout",
    check: Check::Advisory,
    level: Level::Should,
    section: "§16.1",
    demands: "`--timeout SECONDS` ends a run that takes longer, with a failure",
    why: "A caller that gives a bound must not wait beyond it.",
    hint: "Give up when the time is over: an aoi:error of category timeout, exit 75 or 124.",
    topic: Topic::Surface,
    register: &["AOI-16.1-05", "AOI-15-02"],
};

/// A bound that is well below what the slow run takes.
async fn timeout(session: &Session, command: &Command) {
    let judge = session.judge(&command.name);
    let slow = command.slow.clone().unwrap_or_default();
    let line = session.fill(&slow, &[], session.common());
    let name = &command.name;
    let slow = How {
        slow: true,
        ..How::default()
    };
    let whole = session.run(name, "slow, to its end", &line, slow.clone());
    let whole = whole.await;
    if !succeeded(&whole) {
        return judge.not_verified(&TIMEOUT, "its `slow` run does not succeed");
    }
    // What it takes on a machine that has time for it.
    let takes = whole.elapsed.saturating_sub(whole.starved);
    for (bound, needs) in [("0.1", 200), ("1", 2000)] {
        if takes < Duration::from_millis(needs) {
            continue;
        }
        let words = with_options(&line, &["--timeout".to_owned(), bound.to_owned()]);
        let probe = format!("--timeout {bound}");
        let fairly = session.run_fairly(name, &probe, &words, slow.clone(), succeeded);
        let run = fairly.await;
        if is_usage(&run) {
            // Whole seconds, perhaps.
            if bound == "1" {
                judge.broken(&TIMEOUT, "it is refused", &run);
                return;
            }
            continue;
        }
        let late = run.elapsed >= whole.elapsed && run.end.is_success();
        let wrong = (run.end.is_success() || late)
            .then(|| format!("`{probe}`: it went on to its end as if nothing had been said"));
        return judge.held(&TIMEOUT, "it gives up when the time is over", wrong, &run);
    }
    judge.not_verified(
        &TIMEOUT,
        "its `slow` run is over too soon for a bound that the tool takes",
    );
}

fn is_usage(run: &Capture) -> bool {
    let stream = Stream::read(&run.stdout);
    let is_one = |line: &Value| line.as_str() == Some("usage");
    let told = stream
        .errors()
        .any(|line| line.get("category").is_some_and(is_one));
    told || run.end == End::Code(64) || run.end == End::Code(2)
}

async fn inputs(session: &Session) {
    let commands = session.commands().iter();
    let reading = commands.filter_map(|command| Some((command, command.input.as_ref()?)));
    join_all(reading.map(|(command, input)| async move {
        tokio::join!(
            input_schema(session, command),
            upstream(session, command, input)
        );
    }))
    .await;
}

pub(super) static INPUT_SCHEMA: Rule = Rule {
    id: "AOI-adv.input-schema",
    check: Check::Advisory,
    level: Level::Should,
    section: "§12.1",
    demands: "`input-schema --output json --command NAME` prints the JSON Schema of what a command reads",
    why: "Whoever writes the lines must know what may stand in them.",
    hint: "Print the schema by which the command itself validates its input.",
    topic: Topic::Input,
    register: &["AOI-12.1-02", "AOI-16.2-02"],
};

pub(super) static INPUT_OPEN: Rule = Rule {
    id: "AOI-adv.input-schema-open",
    check: Check::Advisory,
    level: Level::Should,
    section: "§10.3",
    demands: "The schema of the input refuses unknown fields",
    why: "A misspelt field that is let through is a value that is lost.",
    hint: "Set `additionalProperties: false`.",
    topic: Topic::Input,
    register: &["AOI-10.3-02"],
};

async fn input_schema(session: &Session, command: &Command) {
    let judge = session.judge(&command.name);
    let has_format = session.probe.machine_args.iter().any(|w| w == "--format");
    let output = if has_format { "--format" } else { "--output" };
    let line = ["input-schema", output, "json", "--command", &command.name];
    let how = How {
        human: true,
        ..How::default()
    };
    let run = session.run(TOOL, "input-schema", &words(&line), how).await;
    let document = serde_json::from_slice::<Value>(&run.stdout).ok();
    let document = document.filter(|document| run.end.is_success() && document.is_object());
    let Some(document) = document else {
        let message = format!(
            "`input-schema --command {}`: {}",
            command.name,
            run.end.told()
        );
        judge.broken(&INPUT_SCHEMA, message, &run);
        return judge.not_applicable(&INPUT_OPEN, "there is no schema of its input");
    };
    let wrong = jsonschema::meta::validate(&document)
        .err()
        .map(|error| format!("it is no valid JSON Schema: {error}"));
    judge.held(&INPUT_SCHEMA, "a JSON Schema", wrong, &run);
    let closes = |key: &str| document.get(key) == Some(&Value::Bool(false));
    let is_closed = closes("additionalProperties") || closes("unevaluatedProperties");
    // A choice of several shapes may close each of them.
    let branches = ["oneOf", "anyOf", "allOf", "if", "$ref"];
    if !is_closed && branches.iter().any(|key| document.get(*key).is_some()) {
        let why = "the schema is made of several, each of which may be closed";
        return judge.not_applicable(&INPUT_OPEN, why);
    }
    let wrong = (!is_closed).then(|| "`additionalProperties` is not false".to_owned());
    judge.held(&INPUT_OPEN, "unknown fields are refused", wrong, &run);
}

pub(super) static UPSTREAM_ERROR: Rule = Rule {
    id: "AOI-adv.upstream-error",
    check: Check::Advisory,
    level: Level::Should,
    section: "§13",
    demands: "An aoi:error from upstream turns the own summary to ok: false",
    why: "A pipeline is as good as its weakest part; an error in the middle must reach its end.",
    hint: "Remember that an aoi:error came by, unless --continue-on-error was given.",
    topic: Topic::Input,
    register: &["AOI-13-02", "AOI-13-04", "AOI-13-07"],
};

pub(super) static UPSTREAM_WARNING: Rule = Rule {
    id: "AOI-adv.upstream-warning",
    check: Check::Advisory,
    level: Level::Should,
    section: "§13",
    demands: "An aoi:warning from upstream is passed on or counted",
    why: "Whoever reads the end of a pipeline sees nothing else of its beginning.",
    hint: "Emit it again, or add it to warning_count.",
    topic: Topic::Input,
    register: &["AOI-13-02", "AOI-13-06"],
};

/// What an upstream says of itself must reach the end of the pipeline.
async fn upstream(session: &Session, command: &Command, input: &Reads) {
    let judge = session.judge(&command.name);
    let rules = [&UPSTREAM_ERROR, &UPSTREAM_WARNING];
    let not = |why: &str| {
        for rule in rules {
            judge.not_applicable(rule, why);
        }
    };
    if !input.upstream {
        return not("it reads no stream of another tool (`input.upstream`)");
    }
    if !is_harmless(session, command) {
        return not("not tried on a command that changes something");
    }
    let (line, _) = plain(session, command);
    let run = |probe: &'static str, event: Option<&str>, ok: bool| {
        let how = How {
            input: Input::Bytes(piped(input, event, ok)),
            ..How::default()
        };
        let line = line.clone();
        async move { session.run(&command.name, probe, &line, how).await }
    };
    let error = r#"{"type":"aoi:error","category":"temporary","code":"UPSTREAM_DOWN","message":"It is down.","retryable":true}"#;
    let warning = r#"{"type":"aoi:warning","code":"UPSTREAM_OLD","message":"It is old."}"#;
    let (whole, failed, warned) = tokio::join!(
        run("upstream, whole", None, true),
        run("upstream, with an error", Some(error), false),
        run("upstream, with a warning", Some(warning), true),
    );
    if !succeeded(&whole) {
        for rule in rules {
            judge.not_verified(rule, "it does not succeed on a whole stream");
        }
        return;
    }
    let wrong =
        succeeded(&failed).then(|| "an error came from upstream, and it says ok: true".into());
    judge.held(
        &UPSTREAM_ERROR,
        "an upstream's error is no success",
        wrong,
        &failed,
    );
    judge_warning(judge, &whole, &warned);
}

fn judge_warning(judge: Judge, whole: &Capture, warned: &Arc<Capture>) {
    let count = |run: &Capture| {
        let stream = Stream::read(&run.stdout);
        let said = stream.summary().and_then(|line| line.get("warning_count"));
        let said = said.and_then(Value::as_u64).unwrap_or(0);
        said.max(stream.of("aoi:warning").count() as u64)
    };
    let wrong = (count(warned) <= count(whole))
        .then(|| "a warning came from upstream, and is neither passed on nor counted".to_owned());
    judge.held(
        &UPSTREAM_WARNING,
        "it is passed on or counted",
        wrong,
        warned,
    );
}

/// A stream of another tool with one event more.
fn piped(input: &Reads, event: Option<&str>, ok: bool) -> Vec<u8> {
    let mut lines = vec![r#"{"type":"aoi:meta","tool":"upstream","aoi_version":"0.2"}"#.to_owned()];
    lines.extend(input.good.iter().cloned());
    lines.extend(event.map(str::to_owned));
    let count = input.good.len();
    lines.push(format!(
        r#"{{"type":"aoi:summary","ok":{ok},"count":{count}}}"#
    ));
    crate::observe::joined(&lines)
}

async fn codes(session: &Session) {
    let commands = session.commands().iter();
    let bent = commands.filter(|command| is_read_only(session, command));
    join_all(bent.map(|command| code(session, command))).await;
}

pub(super) static CODE: Rule = Rule {
    id: "AOI-adv.code-unstable",
    check: Check::Advisory,
    level: Level::Should,
    section: "§9.1",
    demands: "The same mistake has the same code each time",
    why: "A caller branches on it.",
    hint: "Give every kind of failure one constant.",
    topic: Topic::Errors,
    register: &["AOI-9.1-16"],
};

/// The same mistake, twice.
async fn code(session: &Session, command: &Command) {
    let judge = session.judge(&command.name);
    let mut lines = command.malformed.clone();
    if lines.is_empty() {
        let (mut words, _) = plain(session, command);
        words.push("--aoi-lint-unknown".to_owned());
        lines.push(words);
    }
    let mut told = 0;
    for line in &lines {
        let line = session.fill(line, &[], session.common());
        let run = || session.run(&command.name, "malformed: twice", &line, How::default());
        let (first, second) = tokio::join!(run(), run());
        let (Some(one), Some(other)) = (code_of(&first), code_of(&second)) else {
            continue;
        };
        if one != other {
            let message = format!("the same words gave {one} and {other}");
            return judge.broken(&CODE, message, &second);
        }
        told += 1;
    }
    match told {
        0 => judge.not_applicable(&CODE, "its mistakes have no code in the stream"),
        _ => judge.pass(
            &CODE,
            format!("{told} mistakes, each twice with the same code"),
        ),
    }
}

fn code_of(run: &Capture) -> Option<String> {
    let stream = Stream::read(&run.stdout);
    let line = stream.errors().next()?;
    line.get("code")?.as_str().map(str::to_owned)
}
