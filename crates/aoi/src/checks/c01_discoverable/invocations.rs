//! The ways to run a discovery command, and the diagnosis if none of them works.

use std::sync::Arc;

use serde_json::Value;

use super::document;
use super::document::DiscoveryOutput;
use crate::capture::{Capture, ExitKind};
use crate::isolation;
use crate::isolation::{IsolationBackend, IsolationKind, IsolationNeeds};
use crate::model::TOOL;
use crate::rules::Rule;
use crate::run::RunDirs;
use crate::session::{LintSession, RunOptions};

/// A discovery command and its rules.
#[derive(Clone, Copy)]
pub struct DiscoveryRules {
    pub word: &'static str,
    pub fails: &'static Rule,
    pub hangs: &'static Rule,
    pub network: &'static Rule,
    pub credentials: &'static Rule,
    pub forms: &'static Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvocationKind {
    Command,
    /// A subcommand with the prefix `aoi-` (§16.4).
    Alias,
    Flag,
}

#[derive(Clone, Debug)]
pub struct DiscoveryRun {
    pub kind: InvocationKind,
    pub words: Vec<String>,
    pub capture: Arc<Capture>,
    pub document: DiscoveryOutput,
    pub has_escapes: bool,
}

impl DiscoveryRun {
    pub fn json(&self) -> Option<&Value> {
        match &self.document {
            DiscoveryOutput::Json(value) if self.capture.end.is_success() => Some(value),
            _ => None,
        }
    }
}

/// Options that request JSON, with the tool's own first.
fn json_words(session: &LintSession) -> Vec<Vec<String>> {
    let own: Vec<String> = session
        .probe
        .machine_args
        .iter()
        .map(|word| word.replace("jsonl", "json"))
        .collect();
    let usual = vec!["--output".to_owned(), "json".to_owned()];
    match own == usual || own == session.probe.machine_args {
        true => vec![usual],
        false => vec![own, usual],
    }
}

fn candidates(session: &LintSession, word: &str, kind: InvocationKind) -> Vec<Vec<String>> {
    let first = match kind {
        InvocationKind::Command => word.to_owned(),
        InvocationKind::Alias => format!("aoi-{word}"),
        InvocationKind::Flag => format!("--{word}"),
    };
    let mut all: Vec<Vec<String>> = json_words(session)
        .into_iter()
        .map(|json| [vec![first.clone()], json].concat())
        .collect();
    if kind == InvocationKind::Flag {
        all.push(vec![first]);
    }
    all
}

/// Runs the tool in isolation, in its own directories if they can be created.
pub async fn run_isolated(
    session: &LintSession,
    words: &[String],
    dirs: Option<RunDirs>,
) -> Arc<Capture> {
    let how = RunOptions {
        isolated: true,
        no_machine_args: true,
        limit: Some(session.options.discovery_limit),
        dirs: dirs.or_else(|| session.new_dirs().ok()),
        ..RunOptions::default()
    };
    session.run(TOOL, "discovery", words, how).await
}

async fn run_discovery(
    session: &LintSession,
    kind: InvocationKind,
    words: Vec<String>,
) -> DiscoveryRun {
    let capture = run_isolated(session, &words, None).await;
    let (document, has_escapes) = document::read(&capture.stdout);
    DiscoveryRun {
        kind,
        words,
        capture,
        document,
        has_escapes,
    }
}

/// Runs discovery in several ways. Returns the first one that prints a document, otherwise the
/// first one that exits 0, otherwise the first one.
pub async fn discover(session: &LintSession, topic: &DiscoveryRules) -> Option<DiscoveryRun> {
    let mut best: Option<DiscoveryRun> = None;
    for kind in [
        InvocationKind::Command,
        InvocationKind::Alias,
        InvocationKind::Flag,
    ] {
        for words in candidates(session, topic.word, kind) {
            let found = run_discovery(session, kind, words).await;
            if found.json().is_some() {
                return Some(found);
            }
            let hangs = found.capture.end == ExitKind::TimedOut;
            let better = match &best {
                None => true,
                Some(best) => !best.capture.end.is_success() && found.capture.end.is_success(),
            };
            if better && !(hangs && best.is_some()) {
                best = Some(found);
            }
            if hangs || session.is_stopped() {
                return best;
            }
        }
    }
    best
}

/// The result of the flag, if the tool has it in addition to the subcommand.
pub async fn by_flag(session: &LintSession, topic: &DiscoveryRules) -> Option<DiscoveryRun> {
    for words in candidates(session, topic.word, InvocationKind::Flag) {
        let found = run_discovery(session, InvocationKind::Flag, words).await;
        if found.json().is_some() {
            return Some(found);
        }
    }
    None
}

/// The run of the subcommand, if it exists but does not work. It exists if it fails differently
/// from a command that cannot exist.
pub async fn failing_command(
    session: &LintSession,
    topic: &DiscoveryRules,
) -> Option<Arc<Capture>> {
    let words = candidates(session, topic.word, InvocationKind::Command)
        .into_iter()
        .next()?;
    let mut invalid = words.clone();
    if let Some(first) = invalid.first_mut() {
        *first = format!("aoi-lint-{}", session.uniq());
    }
    let (own, unknown) = tokio::join!(
        run_isolated(session, &words, None),
        run_isolated(session, &invalid, None)
    );
    let is_known = own.end != unknown.end && !mentions(&first_lines(&own), &UNKNOWN);
    is_known.then_some(own)
}

/// Whether any unknown flag has the same result. The tool does not know this flag then.
pub async fn ignores_flags(session: &LintSession, flag: &DiscoveryRun) -> bool {
    let mut words = flag.words.clone();
    if let Some(first) = words.first_mut() {
        *first = format!("--aoi-lint-{}", session.uniq());
    }
    let other = run_discovery(session, InvocationKind::Flag, words).await;
    other.json().is_some() && other.json() == flag.json()
}

/// Words of a message that asks for a login.
const LOGIN: [&str; 11] = [
    "log in",
    "login",
    "logged in",
    "sign in",
    "credential",
    "authenticat",
    "unauthorized",
    "unauthorised",
    "api key",
    "access token",
    "api token",
];

/// Words of a message about a network problem.
const NETWORK: [&str; 9] = [
    "network",
    "unreachable",
    "connection refused",
    "econnrefused",
    "could not resolve",
    "name resolution",
    "enotfound",
    "no route",
    "offline",
];

/// Words of a message about an unknown command. A list of the known commands may follow it.
const UNKNOWN: [&str; 6] = [
    "unknown",
    "unrecognized",
    "unrecognised",
    "invalid",
    "no such",
    "usage",
];

/// Launchers that do not find the program without the user's home directory.
const LAUNCHERS: [&str; 12] = [
    "nvm", "asdf", "pyenv", "rbenv", "nodenv", "goenv", "jenv", "mise", "rtx", "volta", "fnm",
    "proto",
];

/// Reports why a discovery command failed.
pub async fn diagnose(session: &LintSession, topic: &DiscoveryRules, failed: &DiscoveryRun) {
    let reporter = session.reporter(TOOL);
    let run = &failed.capture;
    let line = failed.words.join(" ");
    let stderr_words = first_stderr_line(run);
    if run.end == ExitKind::TimedOut {
        let limit = session.options.discovery_limit.as_secs();
        return reporter.violation(
            topic.hangs,
            format!("`{line}` did not terminate within {limit} s"),
            run,
        );
    }
    let description = format!("`{line}`: {}{stderr_words}", run.end.describe());
    if asks_for_login(run) {
        let message = format!("{description}; it asks for credentials");
        return reporter.violation(topic.credentials, message, run);
    }
    // First remove the isolation without adding credentials, to find out which of them is the
    // cause.
    let variables = empty_credentials(session);
    let outside = run_again(session, failed, with_env(variables.clone())).await;
    if session.isolation.backend.is_some() && outside.is_some() {
        reporter.pass(topic.fails, "exits 0 without isolation");
        let offline = RunOptions {
            backend: network_isolation(session).await,
            env: variables,
            ..RunOptions::default()
        };
        if offline.backend.is_some() && run_again(session, failed, offline).await.is_some() {
            let message = format!(
                "{description}; it works without a network if credential files are \
                 readable"
            );
            return reporter.violation(topic.credentials, message, run);
        }
        let message = format!("{description}; it works without isolation");
        return reporter.violation(topic.network, message, run);
    }
    if !empty_credentials(session).is_empty()
        && run_again(session, failed, RunOptions::default())
            .await
            .is_some()
    {
        let message = format!(
            "{description}; it works only with the environment variables listed as \
             credentials"
        );
        return reporter.violation(topic.credentials, message, run);
    }
    let at_home = match outside {
        None => run_again(session, failed, with_env(real_home())).await,
        found => found,
    };
    match at_home {
        Some(_) if mentions(&run.stderr_text(), &LAUNCHERS) => {
            let message =
                format!("{description}; its launcher needs the home directory of the user");
            for rule in [topic.fails, topic.network, topic.credentials] {
                reporter.not_verified(rule, message.clone());
            }
        }
        Some(_) => {
            let message =
                format!("{description}; it works only with the home directory of the user");
            reporter.violation(topic.credentials, message, run);
        }
        // This machine may have no network at all.
        None if asks_for_network(run) => {
            let message = format!("{description}; it needs a network");
            reporter.violation(topic.network, message, run);
        }
        None => reporter.violation(topic.fails, description, run),
    }
}

/// The environment variables that the probe file lists as credentials, set to an empty value.
fn empty_credentials(session: &LintSession) -> Vec<(String, String)> {
    let names = session.probe.env.iter().map(|(name, _)| name);
    let secret = names.filter(|name| session.probe.credentials.env.contains(name));
    secret.map(|name| (name.clone(), String::new())).collect()
}

fn asks_for_network(run: &Capture) -> bool {
    let first = first_lines(run);
    mentions(&first, &NETWORK) && !mentions(&first, &UNKNOWN)
}

/// Whether the first lines ask for a login, or the exit code means a missing permission.
fn asks_for_login(run: &Capture) -> bool {
    let first = first_lines(run);
    run.end == ExitKind::Code(77) || (mentions(&first, &LOGIN) && !mentions(&first, &UNKNOWN))
}

fn first_lines(run: &Capture) -> String {
    let text = run.stderr_text() + &String::from_utf8_lossy(&run.stdout);
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.take(3).collect::<Vec<_>>().join("\n")
}

fn mentions(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// A run without isolation, with these environment variables.
fn with_env(env: Vec<(String, String)>) -> RunOptions {
    RunOptions {
        env,
        ..RunOptions::default()
    }
}

/// Isolation that blocks the network, but hides no files, if it works on this machine.
async fn network_isolation(session: &LintSession) -> Option<IsolationBackend> {
    let dirs = session.new_dirs().ok()?;
    let needs = IsolationNeeds {
        argv: &session.argv,
        credentials: &session.probe.credentials.files,
    };
    let proven = isolation::test_kind(IsolationKind::Filter, &needs, &dirs.root).await;
    proven.ok()?.backend
}

/// Repeats the run in another way. Only a document counts as success.
async fn run_again(session: &LintSession, failed: &DiscoveryRun, how: RunOptions) -> Option<Value> {
    let how = RunOptions {
        no_machine_args: true,
        limit: Some(session.options.discovery_limit),
        dirs: session.new_dirs().ok(),
        ..how
    };
    let run = session
        .run(TOOL, "discovery without isolation", &failed.words, how)
        .await;
    match (run.end.is_success(), document::read(&run.stdout).0) {
        (true, DiscoveryOutput::Json(value)) => Some(value),
        _ => None,
    }
}

fn real_home() -> Vec<(String, String)> {
    let Ok(home) = std::env::var("HOME") else {
        return Vec::new();
    };
    let below = [
        ("XDG_CONFIG_HOME", "/.config"),
        ("XDG_CACHE_HOME", "/.cache"),
        ("XDG_DATA_HOME", "/.local/share"),
        ("XDG_STATE_HOME", "/.local/state"),
        ("HOME", ""),
    ];
    let set = |(name, rest): (&str, &str)| (name.to_owned(), format!("{home}{rest}"));
    below.map(set).into()
}

/// The first line on stderr, for a message.
pub fn first_stderr_line(run: &Capture) -> String {
    let text = run.stderr_text();
    let first = text.lines().find(|line| !line.trim().is_empty());
    let masked = first.map(|line| crate::canary::masked(line.trim()));
    let shown = masked.map(|line| crate::schema::shorten(&line));
    shown.map_or_else(String::new, |line| format!(", `{line}`"))
}
