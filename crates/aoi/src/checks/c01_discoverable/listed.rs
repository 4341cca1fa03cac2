//! Commands in `capabilities` that the tool does not have.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use super::invocations::run_isolated;
use crate::capture::{Capture, ExitKind};
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::session::LintSession;

pub(super) static MISSING: Rule = Rule {
    id: "AOI-adv.command-missing",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§16.2",
    requirement: "Every command in `capabilities` exists",
    why: "A caller that plans with a command from the manifest fails when it runs it.",
    hint: "Create the list of commands from the code that parses the command line.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-16.2-03"],
};

/// Maximum number of commands that are looked up.
const MAX_COMMANDS: usize = 100;

/// Asks each listed command for its help. A command that does not exist fails like one that cannot
/// exist. Only commands that are declared read-only are asked, because a tool that ignores `--help`
/// would run the command.
pub(super) async fn check(session: &LintSession, manifest: &Value, run: &Arc<Capture>) {
    let reporter = session.reporter(TOOL);
    let entries = manifest.get("commands").and_then(Value::as_array);
    let read_only = |entry: &&Value| entry.get("read_only") == Some(&Value::Bool(true));
    let names = entries.into_iter().flatten().filter(read_only);
    let names: Vec<&str> = names
        .filter_map(|entry| entry.get("name")?.as_str())
        .filter(|name| !name.trim().is_empty())
        .take(MAX_COMMANDS)
        .collect();
    if names.is_empty() {
        let why = "`capabilities` lists no command with read_only: true";
        return reporter.not_applicable(&MISSING, why);
    }
    let unknown = format!("aoi-lint-{}", session.uniq());
    let absent = help(session, &unknown).await;
    if !matches!(absent.end, ExitKind::Code(1..)) {
        let why = "the tool prints help for commands that do not exist";
        return reporter.not_verified(&MISSING, why);
    }
    let helps = join_all(names.iter().map(|name| help(session, name))).await;
    let missing: Vec<&str> = names
        .iter()
        .zip(&helps)
        .filter(|(name, help)| fails_alike(help, name, &absent, &unknown))
        .map(|(name, _)| *name)
        .collect();
    if missing.len() == names.len() {
        let why =
            "the commands have no --help of their own, so unknown commands look like known ones";
        return reporter.not_verified(&MISSING, why);
    }
    let violation = (!missing.is_empty()).then(|| {
        let first: Vec<String> = missing
            .iter()
            .take(3)
            .map(|name| format!("`{name}`"))
            .collect();
        format!(
            "listed, but rejected like a command that does not exist: {}",
            first.join(", ")
        )
    });
    let proof = format!("{} commands know --help", names.len());
    reporter.decide(&MISSING, &proof, violation, run);
}

async fn help(session: &LintSession, name: &str) -> Arc<Capture> {
    let mut words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
    words.push("--help".to_owned());
    run_isolated(session, &words, None).await
}

/// Whether both runs end alike and print the same, apart from the name of the command.
fn fails_alike(help: &Capture, name: &str, absent: &Capture, unknown: &str) -> bool {
    let text = |run: &Capture, name: &str| {
        let bytes = [run.stdout.as_slice(), run.stderr.as_slice()].concat();
        let text = String::from_utf8_lossy(&bytes).replace(name, "");
        // Ids and times of a run differ.
        let letters = text.chars().filter(|c| !c.is_ascii_digit());
        letters.collect::<String>().to_lowercase()
    };
    let is_alike = |a: String, b: String| a == b || similar(&a, &b);
    help.end == absent.end && is_alike(text(help, name), text(absent, unknown))
}

/// Whether most words are the same. A message may suggest similar commands, and an event has an id.
fn similar(a: &str, b: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        words
            .filter(|word| word.len() > 2)
            .map(str::to_owned)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    let same = a.iter().filter(|word| b.contains(word)).count();
    !a.is_empty() && 10 * same >= 7 * a.len().max(b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_unknown_commands_are_alike() {
        let run = |stderr: &str| Capture {
            stderr: stderr.as_bytes().to_vec(),
            ..crate::session::tests::run(0, ExitKind::Code(64))
        };
        let absent = run("error: unknown command `aoi-lint-1-7`\nTry --help\n");
        let alike = |text: &str| fails_alike(&run(text), "archive", &absent, "aoi-lint-1-7");
        assert!(alike("error: unknown command `archive`\nTry --help\n"));
        assert!(!alike(
            "usage: tool archive ID\nthe following arguments are required: ID\n"
        ));
        let works = crate::session::tests::run(0, ExitKind::Code(0));
        assert!(!fails_alike(&works, "archive", &absent, "aoi-lint-1-7"));
    }
}
