//! Commands that are declared read-only must not change anything.

use std::sync::Arc;

use crate::capture::Capture;
use crate::model::CheckId;
use crate::observe::{
    Effect, Mutation, ObservedState, declares, is_mutating, run_mutation, why_unobserved,
};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::verdicts::Verdicts;

const RULES: [&Rule; 2] = [&READ_ONLY, &READ_ONLY_STRAYS];

pub async fn check(session: &LintSession) {
    for command in session.commands() {
        let is_declared =
            declares(session, command, "read_only") || command.read_only == Some(true);
        // Commands that only the probe file calls mutating run with their confirmation. Undeclared
        // ones are left out.
        if !is_declared || command.unbounded || command.needs_auth {
            continue;
        }
        let mut verdicts = Verdicts::new(session.reporter(&command.name));
        let looked = run_mutation(session, command, &READ_ONLY, async |mutation| {
            check_command(mutation, command, &mut verdicts).await
        });
        match looked.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => verdicts.unverify(&RULES, &why),
            Err(blocked) => blocked.report(&mut verdicts, &RULES),
        }
        verdicts.report(&RULES, "the probe did not get that far");
    }
}

pub(super) static READ_ONLY: Rule = Rule {
    id: "AOI-adv.read-only-changes",
    check: CheckId::Advisory,
    level: Level::Must,
    section: "§14.1",
    requirement: "Commands that are declared read-only change nothing",
    why: "Callers run read-only commands without asking anybody.",
    hint: "Declare read_only: false for commands that change something, or remove the change.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.1-01", "AOI-14.1-02"],
};

pub(super) static READ_ONLY_STRAYS: Rule = Rule {
    id: "AOI-adv.read-only-strays",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§14.1",
    requirement: "Commands that are declared read-only leave no files in the home and working \
              directory, except caches and logs",
    why: "A directory that a command only reads, such as a repository, must stay as it is.",
    hint: "Write to XDG_CACHE_HOME, XDG_STATE_HOME or TMPDIR, or declare read_only: false. List \
           other caches and logs under `caches` in the probe file.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.1-01"],
};

async fn check_command(
    mutation: &Mutation<'_>,
    command: &ProbeCommand,
    verdicts: &mut Verdicts<'_>,
) -> Result<(), String> {
    let id = mutation.target().await?;
    let before = mutation.observe().await?;
    let call = match is_mutating(mutation.session, command) {
        true => mutation.confirmed(id.as_deref()),
        false => mutation.unconfirmed(id.as_deref()),
    };
    let run = mutation
        .run("read-only", &call, RunOptions::default())
        .await;
    // Take the snapshot before `observe`, which may be a run of the tool as well.
    let left = before.leftover_files(&mutation.files());
    let after = mutation.observe().await?;
    match before.effect(&after) {
        Effect::Some { summary, .. } => {
            verdicts.violation(
                &READ_ONLY,
                format!("declared read-only, but {summary}"),
                &run,
            );
            // The files are part of the reported change.
            verdicts.not_applicable(&READ_ONLY_STRAYS, "the command is not read-only");
            return Ok(());
        }
        Effect::None => verdicts.pass(
            &READ_ONLY,
            "the output of `observe` is the same before and after",
        ),
        Effect::Unknown => {
            verdicts.not_verified(
                &READ_ONLY,
                why_unobserved(mutation.session, super::NO_OBSERVE),
            );
        }
    }
    check_leftover_files(mutation, left, verdicts, &run).await
}

/// Files that the command leaves in its home or working directory. Files that `--help` also leaves
/// there are ignored, because every run creates them.
async fn check_leftover_files(
    mutation: &Mutation<'_>,
    mut left: Vec<String>,
    verdicts: &mut Verdicts<'_>,
    run: &Arc<Capture>,
) -> Result<(), String> {
    if !left.is_empty() {
        let usual_files = usual_files(mutation).await?;
        left.retain(|path| !usual_files.contains(path));
    }
    let violation = (!left.is_empty()).then(|| {
        let paths = ObservedState::first_three(&left);
        format!("declared read-only, but leaves files behind: {paths}")
    });
    let proof = "the home and working directory are the same before and after";
    verdicts.decide(&READ_ONLY_STRAYS, proof, violation, run);
    Ok(())
}

/// Files that `--help` and `capabilities` leave behind in new directories.
async fn usual_files(mutation: &Mutation<'_>) -> Result<Vec<String>, String> {
    let session = mutation.session;
    let dirs = session
        .new_dirs()
        .map_err(|error| format!("cannot create a directory for the run: {error}"))?;
    let fresh = Mutation {
        session,
        command: mutation.command,
        dirs,
    };
    let before = fresh.files();
    for line in [&["--help"][..], &["capabilities", "--output", "json"]] {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let how = RunOptions {
            no_machine_args: true,
            dirs: Some(fresh.dirs.clone()),
            ..RunOptions::default()
        };
        session
            .run(
                crate::model::TOOL,
                "files that every run leaves",
                &words,
                how,
            )
            .await;
    }
    Ok(ObservedState::files_only(before).leftover_files(&fresh.files()))
}
