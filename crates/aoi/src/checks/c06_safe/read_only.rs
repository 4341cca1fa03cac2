//! Commands that are declared read-only must not change anything.

use std::sync::Arc;

use crate::capture::Capture;
use crate::model::Check;
use crate::observe::{Effect, Sequence, State, declares, is_mutating, unseen, within};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::{How, Session};
use crate::sheet::Sheet;

const RULES: [&Rule; 2] = [&READ_ONLY, &READ_ONLY_STRAYS];

pub async fn check(session: &Session) {
    for command in session.commands() {
        let said = declares(session, command, "read_only") || command.read_only == Some(true);
        // Commands that only the probe file calls mutating run with their confirmation. Undeclared
        // ones are left out.
        if !said || command.unbounded || command.needs_auth {
            continue;
        }
        let mut sheet = Sheet::new(session.judge(&command.name));
        let looked = within(session, command, &READ_ONLY, async |sequence| {
            look(sequence, command, &mut sheet).await
        });
        match looked.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => sheet.doubt(&RULES, &why),
            Err(blocked) => blocked.tell(&mut sheet, &RULES),
        }
        sheet.settle(&RULES, "the probe did not get that far");
    }
}

pub(super) static READ_ONLY: Rule = Rule {
    id: "AOI-adv.read-only-changes",
    check: Check::Advisory,
    level: Level::Must,
    section: "§14.1",
    demands: "Commands that are declared read-only change nothing",
    why: "Callers run read-only commands without asking anybody.",
    hint: "Declare read_only: false for commands that change something, or remove the change.",
    topic: Topic::Confirm,
    register: &["AOI-14.1-01", "AOI-14.1-02"],
};

pub(super) static READ_ONLY_STRAYS: Rule = Rule {
    id: "AOI-adv.read-only-strays",
    check: Check::Advisory,
    level: Level::Should,
    section: "§14.1",
    demands: "Commands that are declared read-only leave no files in the home and working \
              directory, except caches and logs",
    why: "A directory that a command only reads, such as a repository, must stay as it is.",
    hint: "Write to XDG_CACHE_HOME, XDG_STATE_HOME or TMPDIR, or declare read_only: false. List \
           other caches and logs under `caches` in the probe file.",
    topic: Topic::Confirm,
    register: &["AOI-14.1-01"],
};

async fn look(
    sequence: &Sequence<'_>,
    command: &Command,
    sheet: &mut Sheet<'_>,
) -> Result<(), String> {
    let id = sequence.target().await?;
    let before = sequence.observe().await?;
    let call = match is_mutating(sequence.session, command) {
        true => sequence.confirmed(id.as_deref()),
        false => sequence.bare(id.as_deref()),
    };
    let run = sequence.run("read-only", &call, How::default()).await;
    // Take the snapshot before `observe`, which may be a run of the tool as well.
    let left = before.left(&sequence.files());
    let after = sequence.observe().await?;
    match before.effect(&after) {
        Effect::Some { told, .. } => {
            sheet.broken(&READ_ONLY, format!("declared read-only, but {told}"), &run);
            // The files are part of the reported change.
            sheet.not_applicable(&READ_ONLY_STRAYS, "the command is not read-only");
            return Ok(());
        }
        Effect::None => sheet.pass(
            &READ_ONLY,
            "the output of `observe` is the same before and after",
        ),
        Effect::Unseen => {
            sheet.not_verified(&READ_ONLY, unseen(sequence.session, super::UNSEEN));
        }
    }
    strays(sequence, left, sheet, &run).await
}

/// Files that the command leaves in its home or working directory. Files that `--help` also leaves
/// there are ignored, because every run creates them.
async fn strays(
    sequence: &Sequence<'_>,
    mut left: Vec<String>,
    sheet: &mut Sheet<'_>,
    run: &Arc<Capture>,
) -> Result<(), String> {
    if !left.is_empty() {
        let usual = usual(sequence).await?;
        left.retain(|path| !usual.contains(path));
    }
    let wrong = (!left.is_empty()).then(|| {
        let paths = State::shown(&left);
        format!("declared read-only, but leaves files behind: {paths}")
    });
    let proof = "the home and working directory are the same before and after";
    sheet.held(&READ_ONLY_STRAYS, proof, wrong, run);
    Ok(())
}

/// Files that `--help` and `capabilities` leave behind in new directories.
async fn usual(sequence: &Sequence<'_>) -> Result<Vec<String>, String> {
    let session = sequence.session;
    let world = session
        .world()
        .map_err(|error| format!("cannot create a directory for the run: {error}"))?;
    let fresh = Sequence {
        session,
        command: sequence.command,
        world,
    };
    let before = fresh.files();
    for line in [&["--help"][..], &["capabilities", "--output", "json"]] {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let how = How {
            human: true,
            world: Some(fresh.world.clone()),
            ..How::default()
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
    Ok(State::blind(before).left(&fresh.files()))
}
