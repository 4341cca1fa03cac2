//! Probes with a secret in the environment, in the input or in a file.

use std::sync::atomic::{AtomicU64, Ordering};

use super::plant::{FLAG, Planted};
use super::{HINT, Probe, Result, WHY, plant, start};
use crate::canary;
use crate::model::Check;
use crate::observe::{Blocked, within};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::run::Input;
use crate::session::{How, Session, with_options};

pub(super) static ENVIRONMENT: Rule = Rule {
    id: "AOI-09.environment",
    check: Check::Number(9),
    level: Level::Must,
    section: "§11",
    demands: "Values of environment variables are not printed, with or without --debug",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    register: &["AOI-8.3-02", "AOI-11-06", "AOI-16.1-13"],
};

/// A probe with secrets in environment variables, some of which are common to all tools.
pub(super) fn environment(
    session: &Session,
    words: &[String],
    how: &How,
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
    let mut planted = Vec::new();
    for name in names {
        let canary = canary::new(number());
        how.env.push((name.clone(), canary.clone()));
        planted.push(Planted {
            rule: &ENVIRONMENT,
            canary,
            place: name,
        });
    }
    Probe {
        name: "secrets in the environment",
        words: words.to_vec(),
        planted,
        only_refused: false,
        how,
        own: Vec::new(),
    }
}

pub(super) static STDIN: Rule = Rule {
    id: "AOI-09.stdin",
    check: Check::Number(9),
    level: Level::Must,
    section: "§11",
    demands: "A rejected input line that looks like a secret is not quoted",
    why: WHY,
    hint: "Report the number of the line, not its content.",
    topic: Topic::Secrets,
    register: &["AOI-11-02"],
};

/// A probe with an input line that is not JSON and looks like a secret.
pub(super) fn bad_line(words: &[String], number: u64) -> Probe {
    let canary = canary::new(number);
    Probe {
        name: "malformed: a secret in an input line",
        words: words.to_vec(),
        how: How {
            input: Input::Bytes(format!("password={canary}\n").into_bytes()),
            ..How::default()
        },
        planted: vec![Planted {
            rule: &STDIN,
            canary,
            place: "an input line".to_owned(),
        }],
        only_refused: true,
        own: Vec::new(),
    }
}

pub(super) static CONFIG: Rule = Rule {
    id: "AOI-09.config-file",
    check: Check::Number(9),
    level: Level::Must,
    section: "§11",
    demands: "The content of credential files is not printed",
    why: WHY,
    hint: HINT,
    topic: Topic::Secrets,
    register: &["AOI-11-07"],
};

/// A probe with a secret in the tool's credential files.
pub(super) async fn in_config(
    session: &Session,
    command: &Command,
    words: &[String],
    how: &How,
    number: u64,
) -> Option<Result> {
    let files = &session.probe.credentials.files;
    if files.is_empty() || command.unbounded {
        return None;
    }
    let world = session.world().ok()?;
    let canary = canary::new(number);
    let own = plant::in_files(&world, files, &canary);
    let probe = Probe {
        name: "a secret in a credential file",
        words: words.to_vec(),
        planted: vec![Planted {
            rule: &CONFIG,
            canary,
            place: "a credential file".to_owned(),
        }],
        only_refused: false,
        how: How {
            world: Some(world),
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
    session: &Session,
    command: &Command,
    numbers: &AtomicU64,
) -> std::result::Result<Vec<Result>, Blocked> {
    let done = within(session, command, &FLAG, async |sequence| {
        let number = || numbers.fetch_add(1, Ordering::Relaxed);
        let target = sequence.target().await?;
        let call = sequence.confirmed(target.as_deref());
        let how = How {
            input: call.input.clone(),
            world: Some(sequence.world.clone()),
            ..How::default()
        };
        let bait = |more: &[String]| plant::bait(&with_options(&call.words, more), &mut number());
        let mut probes: Vec<Probe> = Vec::new();
        for more in plant::few().iter().chain(&command.secrets) {
            let bait = bait(more);
            probes.push(Probe {
                name: "a secret in a flag of a mutating command",
                words: bait.words,
                planted: bait.planted,
                only_refused: false,
                how: how.clone(),
                own: Vec::new(),
            });
        }
        probes.push(environment(session, &call.words, &how, &number));
        if command.input.is_some() {
            let mut probe = bad_line(&call.words, number());
            probe.how.world = Some(sequence.world.clone());
            probes.push(probe);
        }
        let mut results = Vec::new();
        for probe in probes {
            results.extend(start(session, command, probe).await);
        }
        Ok::<_, String>(results)
    });
    done.await?.map_err(Blocked::NotVerified)
}
