//! Check 9: secrets are not printed, however they are passed and however the run ends.

mod baits;
mod probes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use serde_json::Value;

use super::tally::RuleTally;
use super::{is_harmless, is_read_only, ok_run, unknown_flag};
use crate::canary;
use crate::capture::Capture;
use crate::model::CheckId;
use crate::observe::ProbeBlocked;
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::run::{ReadMode, RunDirs, StdoutTarget};
use crate::session::{LintSession, RunOptions, with_options};
use crate::stream::EventStream;
use baits::{Bait, FLAG, HEADER, QUERY, Secret, USERINFO};
use probes::{CONFIG, ENVIRONMENT, STDIN, bad_line, changes, environment, in_config};

pub const RULES: &[&Rule] = &[
    &FLAG,
    &HEADER,
    &USERINFO,
    &QUERY,
    &ENVIRONMENT,
    &CONFIG,
    &STDIN,
    &INTERRUPTED,
    &OPERAND,
    &WRITTEN,
    &ARGV,
];

const HINT: &str = "Print the names of flags and variables, never their values. If needed, print \
                    a hash as `input_fingerprint`.";

const WHY: &str =
    "Output ends up in logs, transcripts and the memory of agents, so a secret in it is leaked.";

/// One run with fake secrets.
struct Probe {
    name: &'static str,
    words: Vec<String>,
    secrets: Vec<Secret>,
    /// Whether to check the run only if it fails. A value that the tool accepts may be shown.
    only_refused: bool,
    how: RunOptions,
    /// Files that the probe itself wrote.
    own: Vec<PathBuf>,
}

/// The outcome of one probe.
struct ProbeResult {
    probe: Probe,
    run: Arc<Capture>,
    dirs: RunDirs,
}

pub async fn check(session: &LintSession) {
    let numbers = AtomicU64::new(0);
    let numbers = &numbers;
    join_all(
        session
            .commands()
            .iter()
            .map(|command| check_command(session, command, numbers)),
    )
    .await;
}

static ARGV: Rule = Rule {
    id: "AOI-09.argv",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§8.3",
    requirement: "aoi:meta does not repeat the command line",
    why: "The caller knows what it passed, and later readers of the stream need not know.",
    hint: "Write `command`, and `args_redacted: true` if something was left out.",
    topic: Topic::Secrets,
    requirement_ids: &["AOI-8.3-02", "AOI-11-01", "AOI-11-08"],
};

async fn check_command(session: &LintSession, command: &ProbeCommand, numbers: &AtomicU64) {
    let reporter = session.reporter(&command.name);
    let mut tallies: BTreeMap<&str, RuleTally> = RULES
        .iter()
        .map(|rule| (rule.id, RuleTally::default()))
        .collect();
    let mut accepted: BTreeMap<&str, bool> = BTreeMap::new();
    let mut blocked = None;
    let results = match is_harmless(session, command) {
        true => all(session, command, numbers).await,
        false => changes(session, command, numbers)
            .await
            .unwrap_or_else(|why| {
                blocked = Some(why);
                Vec::new()
            }),
    };
    let vain = fails_anyway(session, command, &results).await;
    for result in &results {
        for (rule, violation) in leaks(result) {
            let Some(tally) = tallies.get_mut(rule.id) else {
                continue;
            };
            let fine = result.run.end.is_success();
            *accepted.entry(rule.id).or_default() |= fine;
            match violation {
                Some(message) => tally.violation(&result.run, || message),
                None => tally.pass("the secret is not printed"),
            }
        }
    }
    for rule in RULES.iter().copied().filter(|rule| *rule != &ARGV) {
        let mut tally = tallies.remove(rule.id).unwrap_or_default();
        if accepted.get(rule.id) == Some(&false) && !tally.is_violated() {
            tally = RuleTally::default();
            match vain {
                true => tally.unverify(
                    "the command fails even with the arguments as given, so the secrets were not processed",
                ),
                false => {
                    tally.pass("the secret is not printed when it is rejected; no run accepts it")
                }
            }
        }
        tally.report(reporter, rule, |reporter, rule| match &blocked {
            Some(ProbeBlocked::Skip(why)) => reporter.skip(rule, why),
            Some(ProbeBlocked::NotVerified(why)) => reporter.not_verified(rule, why),
            None => reporter.not_applicable(rule, "the command does not take such a secret"),
        });
    }
}

/// Whether the command fails for a reason other than the added secrets. A command that needs a
/// login may fail.
async fn fails_anyway(
    session: &LintSession,
    command: &ProbeCommand,
    results: &[ProbeResult],
) -> bool {
    let accepted = results.iter().any(|result| result.run.end.is_success());
    if accepted || command.needs_auth || command.unbounded || results.is_empty() {
        return false;
    }
    if !is_harmless(session, command) {
        // The run with secrets in its environment has unchanged arguments.
        return true;
    }
    let (words, how) = ok_run(session, command);
    let run = session.run(&command.name, "ok, for comparison", &words, how);
    !run.await.end.is_success()
}

static INTERRUPTED: Rule = Rule {
    id: "AOI-09.on-signal",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "An interrupted run does not print secrets from its command line",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02"],
};

async fn all(
    session: &LintSession,
    command: &ProbeCommand,
    numbers: &AtomicU64,
) -> Vec<ProbeResult> {
    let (words, how) = ok_run(session, command);
    let number = || numbers.fetch_add(1, Ordering::Relaxed);
    let with = |more: &[String]| with_options(&words, more);
    let probe = |name, bait: Bait, how: &RunOptions| Probe {
        name,
        words: bait.words,
        secrets: bait.secrets,
        only_refused: false,
        how: how.clone(),
        own: Vec::new(),
    };
    let bait = |more: &[String]| baits::bait(&with(more), &mut number());
    let debug = "--debug".to_owned();
    let mut probes = Vec::new();
    let may_bend = is_read_only(session, command);
    if may_bend {
        for more in baits::usual_arguments() {
            probes.push(probe("a secret in a common flag", bait(&more), &how));
        }
        let operand = [&words[..], &["password={canary}".to_owned()]].concat();
        let operand = baits::bait(&operand, &mut number());
        probes.push(Probe {
            only_refused: true,
            ..probe("a secret in an operand", operand, &how)
        });
    }
    for secret in &command.secrets {
        probes.push(probe("a secret", bait(secret), &how));
        if may_bend {
            let refused = [&secret[..], &[unknown_flag(session)]].concat();
            probes.push(probe(
                "malformed: a secret and an unknown flag",
                bait(&refused),
                &how,
            ));
            let loud = [&secret[..], std::slice::from_ref(&debug)].concat();
            probes.push(probe("a secret with --debug", bait(&loud), &how));
        }
        if let Some(slow) = command
            .slow
            .as_ref()
            .or(command.unbounded.then_some(&command.ok))
        {
            let slow = session.fill_shared(command, slow);
            let cancelled = RunOptions {
                reader: ReadMode::Signal {
                    number: libc::SIGINT,
                    group: false,
                },
                output: StdoutTarget::Pipe,
                ..how.clone()
            };
            let mut bait = baits::bait(&with_options(&slow, secret), &mut number());
            for secret in &mut bait.secrets {
                secret.rule = &INTERRUPTED;
            }
            probes.push(probe("a secret and SIGINT", bait, &cancelled));
        }
    }
    if !command.unbounded {
        probes.push(environment(session, &words, &how, &number));
        if may_bend {
            probes.push(environment(session, &with(&[debug]), &how, &number));
        }
    }
    let runs = probes
        .into_iter()
        .map(|probe| start(session, command, probe));
    let mut results: Vec<ProbeResult> = join_all(runs).await.into_iter().flatten().collect();
    results.extend(in_config(session, command, &words, &how, number()).await);
    if command.input.is_some() {
        results.extend(start(session, command, bad_line(&words, number())).await);
    }
    results
}

async fn start(
    session: &LintSession,
    command: &ProbeCommand,
    mut probe: Probe,
) -> Option<ProbeResult> {
    let dirs = match probe.how.dirs.take() {
        Some(dirs) => dirs,
        None => session.new_dirs().ok()?,
    };
    let how = RunOptions {
        dirs: Some(dirs.clone()),
        canaries: true,
        ..probe.how.clone()
    };
    let run = session
        .run(&command.name, probe.name, &probe.words, how)
        .await;
    Some(ProbeResult { probe, run, dirs })
}

static OPERAND: Rule = Rule {
    id: "AOI-09.rejected-operand",
    check: CheckId::Number(9),
    level: Level::Should,
    section: "§11",
    requirement: "A rejected operand such as `password=…` is not quoted",
    why: WHY,
    hint: "Report the position of the operand, not its value.",
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02"],
};

static WRITTEN: Rule = Rule {
    id: "AOI-09.written-file",
    check: CheckId::Number(9),
    level: Level::Should,
    section: "§11",
    requirement: "A run does not write secrets from its command line to files",
    why: "Other users read logs and caches, and the files remain.",
    hint: HINT,
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02"],
};

/// The verdicts of a run: for each relevant rule, a violation or a pass.
fn leaks(result: &ProbeResult) -> Vec<(&'static Rule, Option<String>)> {
    let (probe, run) = (&result.probe, &result.run);
    let mut found = Vec::new();
    if probe.only_refused && run.end.is_success() {
        return found;
    }
    if run.probe.ends_with("SIGINT") && !run.action_done {
        return found;
    }
    for secret in &probe.secrets {
        let rule = if probe.name.ends_with("operand") {
            &OPERAND
        } else {
            secret.rule
        };
        let shown = [("stdout", &run.stdout), ("stderr", &run.stderr)]
            .into_iter()
            .find_map(|(stream, bytes)| {
                canary::leaked_form(&secret.canary, bytes).map(|how| (stream, how))
            });
        let message = shown.map(|(stream, how)| {
            format!(
                "`{}`: the secret in {} is printed on {stream} {how}",
                run.probe, secret.position
            )
        });
        found.push((rule, message));
    }
    let left = baits::leaked_file(&result.dirs, &probe.secrets, &probe.own);
    let message = left.map(|(path, which)| {
        let place = probe
            .secrets
            .get(which)
            .map_or("", |secret| &secret.position);
        format!(
            "`{}`: the secret in {place} is written to the file {}",
            run.probe,
            path.display()
        )
    });
    found.push((&WRITTEN, message));
    found
}

/// Checks whether aoi:meta repeats the arguments of its run.
pub fn evaluate(session: &LintSession) {
    let captures = session.captures();
    for command in session.commands() {
        let mut tally = RuleTally::default();
        let own = captures
            .iter()
            .filter(|run| run.command == command.name && run.is_machine);
        for run in own {
            let words: Vec<String> = run
                .argv
                .iter()
                .skip(session.argv.len())
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            let stream = EventStream::parse(&run.stdout);
            let Some(meta) = stream.meta().and_then(|line| line.json.as_ref()) else {
                continue;
            };
            if words.len() > 1 {
                let violation = repeats(meta, &words).then(|| {
                    format!(
                        "`{}`: aoi:meta contains the arguments of the command line",
                        run.probe
                    )
                });
                tally.record(run, violation, "aoi:meta does not repeat the command line");
            }
        }
        tally.report(session.reporter(&command.name), &ARGV, |reporter, rule| {
            reporter.not_applicable(rule, "no run of the command has an aoi:meta");
        });
    }
}

/// Whether the value contains all words in order, as a list or as a string.
fn repeats(value: &Value, words: &[String]) -> bool {
    match value {
        Value::String(text) => text.contains(&words.join(" ")),
        Value::Array(items) => {
            let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            let is_row = texts
                .windows(words.len())
                .any(|row| row.iter().zip(words).all(|(a, b)| a == b));
            is_row || items.iter().any(|item| repeats(item, words))
        }
        Value::Object(members) => members.values().any(|member| repeats(member, words)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_command_line_is_detected() {
        let words: Vec<String> = ["search", "x", "--output", "jsonl"]
            .map(str::to_owned)
            .to_vec();
        for meta in [
            serde_json::json!({"args": ["tool", "search", "x", "--output", "jsonl"]}),
            serde_json::json!({"run": {"argv": "tool search x --output jsonl"}}),
        ] {
            assert!(repeats(&meta, &words), "{meta}");
        }
        for meta in [
            serde_json::json!({"command": "search", "args_redacted": true}),
            serde_json::json!({"flags": ["--output"], "query": "x"}),
        ] {
            assert!(!repeats(&meta, &words), "{meta}");
        }
    }
}
