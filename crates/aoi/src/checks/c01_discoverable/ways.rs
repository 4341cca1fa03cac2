//! The ways to run a discovery command, and the diagnosis if none of them works.

use std::sync::Arc;

use serde_json::Value;

use super::document;
use super::document::Document;
use crate::capture::{Capture, End};
use crate::isolation;
use crate::isolation::{Make, Needs, Walls};
use crate::model::TOOL;
use crate::rules::Rule;
use crate::run::World;
use crate::session::{How, Session};

/// A discovery command and its rules.
#[derive(Clone, Copy)]
pub struct Subject {
    pub word: &'static str,
    pub fails: &'static Rule,
    pub hangs: &'static Rule,
    pub network: &'static Rule,
    pub credentials: &'static Rule,
    pub forms: &'static Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Command,
    /// A subcommand with the prefix `aoi-` (§16.4).
    Alias,
    Flag,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub kind: Kind,
    pub words: Vec<String>,
    pub capture: Arc<Capture>,
    pub document: Document,
    pub coloured: bool,
}

impl Answer {
    pub fn json(&self) -> Option<&Value> {
        match &self.document {
            Document::Json(value) if self.capture.end.is_success() => Some(value),
            _ => None,
        }
    }
}

/// Options that request JSON, with the tool's own first.
fn json_words(session: &Session) -> Vec<Vec<String>> {
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

fn candidates(session: &Session, word: &str, kind: Kind) -> Vec<Vec<String>> {
    let first = match kind {
        Kind::Command => word.to_owned(),
        Kind::Alias => format!("aoi-{word}"),
        Kind::Flag => format!("--{word}"),
    };
    let mut all: Vec<Vec<String>> = json_words(session)
        .into_iter()
        .map(|json| [vec![first.clone()], json].concat())
        .collect();
    if kind == Kind::Flag {
        all.push(vec![first]);
    }
    all
}

/// Runs the tool in isolation, in its own directories if they can be created.
pub async fn ask(session: &Session, words: &[String], world: Option<World>) -> Arc<Capture> {
    let how = How {
        isolated: true,
        human: true,
        limit: Some(session.options.discovery_limit),
        world: world.or_else(|| session.world().ok()),
        ..How::default()
    };
    session.run(TOOL, "discovery", words, how).await
}

async fn answer(session: &Session, kind: Kind, words: Vec<String>) -> Answer {
    let capture = ask(session, &words, None).await;
    let (document, coloured) = document::read(&capture.stdout);
    Answer {
        kind,
        words,
        capture,
        document,
        coloured,
    }
}

/// Runs discovery in several ways. Returns the first one that prints a document, otherwise the
/// first one that exits 0, otherwise the first one.
pub async fn find(session: &Session, topic: &Subject) -> Option<Answer> {
    let mut best: Option<Answer> = None;
    for kind in [Kind::Command, Kind::Alias, Kind::Flag] {
        for words in candidates(session, topic.word, kind) {
            let found = answer(session, kind, words).await;
            if found.json().is_some() {
                return Some(found);
            }
            let hangs = found.capture.end == End::TimedOut;
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
pub async fn by_flag(session: &Session, topic: &Subject) -> Option<Answer> {
    for words in candidates(session, topic.word, Kind::Flag) {
        let found = answer(session, Kind::Flag, words).await;
        if found.json().is_some() {
            return Some(found);
        }
    }
    None
}

/// The run of the subcommand, if it exists but does not work. It exists if it fails differently
/// from a command that cannot exist.
pub async fn failing_command(session: &Session, topic: &Subject) -> Option<Arc<Capture>> {
    let words = candidates(session, topic.word, Kind::Command)
        .into_iter()
        .next()?;
    let mut odd = words.clone();
    if let Some(first) = odd.first_mut() {
        *first = format!("aoi-lint-{}", session.uniq());
    }
    let (own, unknown) = tokio::join!(ask(session, &words, None), ask(session, &odd, None));
    let is_known = own.end != unknown.end && !mentions(&first_lines(&own), &UNKNOWN);
    is_known.then_some(own)
}

/// Whether any unknown flag has the same result. The tool does not know this flag then.
pub async fn ignores_flags(session: &Session, flag: &Answer) -> bool {
    let mut words = flag.words.clone();
    if let Some(first) = words.first_mut() {
        *first = format!("--aoi-lint-{}", session.uniq());
    }
    let other = answer(session, Kind::Flag, words).await;
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
const SHIMS: [&str; 12] = [
    "nvm", "asdf", "pyenv", "rbenv", "nodenv", "goenv", "jenv", "mise", "rtx", "volta", "fnm",
    "proto",
];

/// Reports why a discovery command failed.
pub async fn diagnose(session: &Session, topic: &Subject, failed: &Answer) {
    let judge = session.judge(TOOL);
    let run = &failed.capture;
    let line = failed.words.join(" ");
    let said = first_words(run);
    if run.end == End::TimedOut {
        let limit = session.options.discovery_limit.as_secs();
        return judge.broken(
            topic.hangs,
            format!("`{line}` did not terminate within {limit} s"),
            run,
        );
    }
    let told = format!("`{line}`: {}{said}", run.end.told());
    if wants_login(run) {
        let message = format!("{told}; it asks for credentials");
        return judge.broken(topic.credentials, message, run);
    }
    // First remove the isolation without adding credentials, to find out which of them is the
    // cause.
    let variables = no_variables(session);
    let outside = again(session, failed, set(variables.clone())).await;
    if session.isolation.walls.is_some() && outside.is_some() {
        judge.pass(topic.fails, "exits 0 without isolation");
        let offline = How {
            walls: only_offline(session).await,
            env: variables,
            ..How::default()
        };
        if offline.walls.is_some() && again(session, failed, offline).await.is_some() {
            let message = format!(
                "{told}; it works without a network if credential files are \
                 readable"
            );
            return judge.broken(topic.credentials, message, run);
        }
        let message = format!("{told}; it works without isolation");
        return judge.broken(topic.network, message, run);
    }
    if !no_variables(session).is_empty() && again(session, failed, How::default()).await.is_some() {
        let message = format!(
            "{told}; it works only with the environment variables listed as \
             credentials"
        );
        return judge.broken(topic.credentials, message, run);
    }
    let at_home = match outside {
        None => again(session, failed, set(real_home())).await,
        found => found,
    };
    match at_home {
        Some(_) if mentions(&run.stderr_text(), &SHIMS) => {
            let message = format!("{told}; its launcher needs the home directory of the user");
            for rule in [topic.fails, topic.network, topic.credentials] {
                judge.not_verified(rule, message.clone());
            }
        }
        Some(_) => {
            let message = format!("{told}; it works only with the home directory of the user");
            judge.broken(topic.credentials, message, run);
        }
        // This machine may have no network at all.
        None if wants_network(run) => {
            let message = format!("{told}; it needs a network");
            judge.broken(topic.network, message, run);
        }
        None => judge.broken(topic.fails, told, run),
    }
}

/// The environment variables that the probe file lists as credentials, set to an empty value.
fn no_variables(session: &Session) -> Vec<(String, String)> {
    let names = session.probe.env.iter().map(|(name, _)| name);
    let secret = names.filter(|name| session.probe.credentials.env.contains(name));
    secret.map(|name| (name.clone(), String::new())).collect()
}

fn wants_network(run: &Capture) -> bool {
    let first = first_lines(run);
    mentions(&first, &NETWORK) && !mentions(&first, &UNKNOWN)
}

/// Whether the first lines ask for a login, or the exit code means a missing permission.
fn wants_login(run: &Capture) -> bool {
    let first = first_lines(run);
    run.end == End::Code(77) || (mentions(&first, &LOGIN) && !mentions(&first, &UNKNOWN))
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
fn set(env: Vec<(String, String)>) -> How {
    How {
        env,
        ..How::default()
    }
}

/// Isolation that blocks the network, but hides no files, if it works on this machine.
async fn only_offline(session: &Session) -> Option<Walls> {
    let world = session.world().ok()?;
    let needs = Needs {
        argv: &session.argv,
        credentials: &session.probe.credentials.files,
    };
    let proven = isolation::prove(Make::Filter, &needs, &world.root).await;
    proven.ok()?.walls
}

/// Repeats the run in another way. Only a document counts as success.
async fn again(session: &Session, failed: &Answer, how: How) -> Option<Value> {
    let how = How {
        human: true,
        limit: Some(session.options.discovery_limit),
        world: session.world().ok(),
        ..how
    };
    let run = session
        .run(TOOL, "discovery without isolation", &failed.words, how)
        .await;
    match (run.end.is_success(), document::read(&run.stdout).0) {
        (true, Document::Json(value)) => Some(value),
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
pub fn first_words(run: &Capture) -> String {
    let text = run.stderr_text();
    let first = text.lines().find(|line| !line.trim().is_empty());
    let masked = first.map(|line| crate::canary::masked(line.trim()));
    let shown = masked.map(|line| crate::schema::shortened(&line));
    shown.map_or_else(String::new, |line| format!(", `{line}`"))
}
