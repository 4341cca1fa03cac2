//! Probes with a secret in the environment, in the input or in a file.

use std::sync::atomic::{AtomicU64, Ordering};

use super::baits::{FLAG, Secret};
use super::{HINT, Probe, ProbeResult, WHY, baits, start};
use crate::canary;
use crate::model::CheckId;
use crate::observe::{ProbeBlocked, run_mutation};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::run::StdinSource;
use crate::session::{LintSession, RunOptions, with_options};

pub(super) static ENVIRONMENT: Rule = Rule {
    id: "AOI-09.environment",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "Values of environment variables are not printed, with or without --debug",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    requirement_ids: &["AOI-8.3-02", "AOI-11-06", "AOI-16.1-13"],
};

/// A probe with secrets in environment variables, some of which are common to all tools.
pub(super) fn environment(
    session: &LintSession,
    words: &[String],
    how: &RunOptions,
    number: &dyn Fn() -> u64,
) -> Probe {
    let program = session.argv.first().map(std::path::Path::new);
    let name = program
        .and_then(|path| path.file_stem())
        .unwrap_or_default();
    let prefix: String = name
        .to_string_lossy()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    let mut names = vec![
        "AOI_CANARY_ENV".to_owned(),
        "AWS_SECRET_ACCESS_KEY".to_owned(),
        format!("{prefix}_TOKEN"),
    ];
    names.extend(session.probe.credentials.env.iter().cloned());
    names.dedup();
    let mut how = how.clone();
    let mut secrets = Vec::new();
    for name in names {
        let canary = canary::new(number());
        how.env.push((name.clone(), canary.clone()));
        secrets.push(Secret {
            rule: &ENVIRONMENT,
            canary,
            position: name,
        });
    }
    Probe {
        name: "secrets in the environment",
        words: words.to_vec(),
        secrets,
        only_refused: false,
        how,
        own: Vec::new(),
    }
}

pub(super) static STDIN: Rule = Rule {
    id: "AOI-09.stdin",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "A rejected input line that looks like a secret is not quoted",
    why: WHY,
    hint: "Report the number of the line, not its content.",
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-02"],
};

/// A probe with an input line that is not JSON and looks like a secret.
pub(super) fn bad_line(words: &[String], number: u64) -> Probe {
    let canary = canary::new(number);
    Probe {
        name: "malformed: a secret in an input line",
        words: words.to_vec(),
        how: RunOptions {
            input: StdinSource::Bytes(format!("password={canary}\n").into_bytes()),
            ..RunOptions::default()
        },
        secrets: vec![Secret {
            rule: &STDIN,
            canary,
            position: "an input line".to_owned(),
        }],
        only_refused: true,
        own: Vec::new(),
    }
}

pub(super) static CONFIG: Rule = Rule {
    id: "AOI-09.config-file",
    check: CheckId::Number(9),
    level: Level::Must,
    section: "§11",
    requirement: "The content of credential files is not printed",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    requirement_ids: &["AOI-11-07"],
};

/// A probe with a secret in the tool's credential files.
pub(super) async fn in_config(
    session: &LintSession,
    command: &ProbeCommand,
    words: &[String],
    how: &RunOptions,
    number: u64,
) -> Option<ProbeResult> {
    let files = &session.probe.credentials.files;
    if files.is_empty() || command.unbounded {
        return None;
    }
    let dirs = session.new_dirs().ok()?;
    let canary = canary::new(number);
    let own = baits::in_files(&dirs, files, &canary);
    let probe = Probe {
        name: "a secret in a credential file",
        words: words.to_vec(),
        secrets: vec![Secret {
            rule: &CONFIG,
            canary,
            position: "a credential file".to_owned(),
        }],
        only_refused: false,
        how: RunOptions {
            dirs: Some(dirs),
            ..how.clone()
        },
        own,
    };
    match probe.own.is_empty() {
        true => None,
        false => start(session, command, probe).await,
    }
}

/// Probes of a command that changes something, in their own directories. A tool that ignores an
/// unknown flag may make the change.
pub(super) async fn changes(
    session: &LintSession,
    command: &ProbeCommand,
    numbers: &AtomicU64,
) -> Result<Vec<ProbeResult>, ProbeBlocked> {
    let done = run_mutation(session, command, &FLAG, async |mutation| {
        let number = || numbers.fetch_add(1, Ordering::Relaxed);
        let target = mutation.target().await?;
        let call = mutation.confirmed(target.as_deref());
        let how = RunOptions {
            input: call.input.clone(),
            dirs: Some(mutation.dirs.clone()),
            ..RunOptions::default()
        };
        let bait = |more: &[String]| baits::bait(&with_options(&call.words, more), &mut number());
        let mut probes: Vec<Probe> = Vec::new();
        for more in baits::few_arguments().iter().chain(&command.secrets) {
            let bait = bait(more);
            probes.push(Probe {
                name: "a secret in a flag of a mutating command",
                words: bait.words,
                secrets: bait.secrets,
                only_refused: false,
                how: how.clone(),
                own: Vec::new(),
            });
        }
        probes.push(environment(session, &call.words, &how, &number));
        if command.input.is_some() {
            let mut probe = bad_line(&call.words, number());
            probe.how.dirs = Some(mutation.dirs.clone());
            probes.push(probe);
        }
        let mut results = Vec::new();
        for probe in probes {
            results.extend(start(session, command, probe).await);
        }
        Ok::<_, String>(results)
    });
    done.await?.map_err(ProbeBlocked::NotVerified)
}
