//! Check 6: destructive commands need a confirmation, dry runs change nothing, and no command waits
//! for a user.

mod auth;
mod read_only;
mod refusals;

use futures::future::join_all;

use crate::model::Check;
use crate::observe::{
    Call, Effect, Sequence, State, declares, is_destructive, is_mutating, manifest_run, refused,
    succeeded, unseen, within,
};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::Stream;
use auth::{AUTH_CATEGORY, AUTH_ERROR, BROWSER};
use read_only::{READ_ONLY, READ_ONLY_STRAYS};
use refusals::{
    CONFIRM_COUNT, ENVIRONMENT, NO_EFFECT, PIPED_YES, PROMPT, REFUSAL, REFUSES, STRAY_WRITES,
};

pub const RULES: &[&Rule] = &[
    &REFUSES,
    &NO_EFFECT,
    &PIPED_YES,
    &ENVIRONMENT,
    &PROMPT,
    &CONFIRMED,
    &CONFIRM_COUNT,
    &DRY_RUN_PLAN,
    &DRY_RUN_EFFECT,
    &STRAY_WRITES,
    &DECLARED,
    &AUTH_ERROR,
    &AUTH_CATEGORY,
    &BROWSER,
    &READ_ONLY,
    &READ_ONLY_STRAYS,
];

const DRY_RUN: [&Rule; 2] = [&DRY_RUN_PLAN, &DRY_RUN_EFFECT];

pub async fn check(session: &Session) {
    let changing = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    let needing = session
        .commands()
        .iter()
        .filter(|command| command.needs_auth);
    tokio::join!(
        join_all(changing.map(|command| changing_one(session, command))),
        join_all(needing.map(|command| auth::check(session, command))),
        read_only::check(session),
    );
}

async fn changing_one(session: &Session, command: &Command) {
    let mut sheet = Sheet::new(session.judge(&command.name));
    let destructive = is_destructive(session, command);
    let mut wanted: Vec<&'static Rule> = vec![&STRAY_WRITES];
    let dry_run = match &command.dry_run {
        Some(flag) => Some(flag.clone()),
        None => declares(session, command, "supports_dry_run").then(|| "--dry-run".to_owned()),
    };
    match dry_run {
        Some(_) => wanted.extend(DRY_RUN),
        None => {
            for rule in DRY_RUN {
                sheet.not_applicable(rule, "the command does not advertise a dry run");
            }
        }
    }
    if !destructive && dry_run.is_none() {
        return sheet.settle(&[], "");
    }
    if destructive {
        declared(session, command, &mut sheet);
        wanted.extend(REFUSAL);
        wanted.extend([&PROMPT, &CONFIRMED] as [&'static Rule; 2]);
    }
    let done = within(session, command, &REFUSES, async |sequence| {
        let probe = Probe {
            sequence,
            dry_run: dry_run.as_deref(),
            destructive,
        };
        probe.all(&mut sheet).await
    });
    match done.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => sheet.doubt(&wanted, &why),
        Err(blocked) => blocked.tell(&mut sheet, &wanted),
    }
    sheet.settle(&wanted, "the probe did not get that far");
}

static DECLARED: Rule = Rule {
    id: "AOI-06.declared",
    check: Check::Number(6),
    level: Level::Open,
    section: "§17",
    demands: "A destructive command is declared with destructive: true and requires_confirm: true",
    why: "A caller uses the manifest to decide which commands it may try.",
    hint: "Set destructive and requires_confirm to true for the command in `capabilities`.",
    topic: Topic::Confirm,
    register: &["AOI-17-05"],
};

/// Checks how `capabilities` declares a destructive command, if it lists the command.
fn declared(session: &Session, command: &Command, sheet: &mut Sheet) {
    let declared = session.declared.get();
    let Some(entry) = declared.and_then(|declared| declared.command(&command.name)) else {
        let why = "`capabilities` has no entry for the command";
        return sheet.not_applicable(&DECLARED, why);
    };
    let missing: Vec<&str> = ["destructive", "requires_confirm"]
        .into_iter()
        .filter(|key| entry.get(key).and_then(serde_json::Value::as_bool) != Some(true))
        .collect();
    let source = manifest_run(session);
    match (missing.is_empty(), source) {
        (true, _) => sheet.pass(&DECLARED, "destructive and requires_confirm are true"),
        (false, Some(run)) => {
            let message = format!(
                "`capabilities` does not declare `{}` with true for: {}",
                command.name,
                missing.join(", ")
            );
            sheet.broken(&DECLARED, message, &run);
        }
        (false, None) => sheet.not_verified(&DECLARED, "`capabilities` could not be read"),
    }
}

/// The probes of one command that changes something.
struct Probe<'p, 's> {
    sequence: &'p Sequence<'s>,
    dry_run: Option<&'p str>,
    destructive: bool,
}

/// The resource that the command is run on, and the state before the run.
struct Stage {
    id: Option<String>,
    before: State,
}

impl Probe<'_, '_> {
    async fn all(&self, sheet: &mut Sheet<'_>) -> Result<(), String> {
        let mut stage = self.stage().await?;
        if self.destructive {
            self.refusals(sheet, &mut stage).await?;
            self.count(sheet, &mut stage).await?;
        }
        self.plan(sheet, &mut stage).await?;
        self.control(sheet, &stage).await
    }

    async fn stage(&self) -> Result<Stage, String> {
        let id = self.sequence.target().await?;
        let before = self.sequence.observe().await?;
        Ok(Stage { id, before })
    }
}

static DRY_RUN_PLAN: Rule = Rule {
    id: "AOI-06.dry-run-plan",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.2",
    demands: "An advertised dry run exits 0 and emits at least one aoi:plan",
    why: "A caller shows the plan to the person who decides.",
    hint: "Emit an aoi:plan with action and target for each planned change.",
    topic: Topic::Confirm,
    register: &[
        "AOI-14.2-01",
        "AOI-14.2-02",
        "AOI-8.3-07",
        "AOI-16.1-08",
        "AOI-18.2-06",
    ],
};

static DRY_RUN_EFFECT: Rule = Rule {
    id: "AOI-06.dry-run-effect",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.2",
    demands: "A dry run changes nothing",
    why: "A caller requests a dry run because nothing may happen yet.",
    hint: "Return before the first write, not before the last.",
    topic: Topic::Confirm,
    register: &["AOI-16.1-08", "AOI-18.2-06"],
};

impl Probe<'_, '_> {
    async fn plan(&self, sheet: &mut Sheet<'_>, stage: &mut Stage) -> Result<(), String> {
        let Some(flag) = self.dry_run else {
            return Ok(());
        };
        let flag = [flag.to_owned()];
        let id = stage.id.clone();
        let call = self.sequence.bare(id.as_deref()).with(&flag);
        let mut run = self.sequence.run("dry run", &call, How::default()).await;
        if self.destructive && refused(&run) {
            // Some tools require both flags.
            self.unchanged(sheet, &DRY_RUN_EFFECT, &run, stage).await?;
            let call = self.sequence.confirmed(stage.id.as_deref()).with(&flag);
            run = self
                .sequence
                .run("dry run, confirmed", &call, How::default())
                .await;
        }
        let stream = Stream::read(&run.stdout);
        let wrong = match stream.of("aoi:plan").count() {
            _ if !run.end.is_success() => Some(format!("the dry run failed: {}", run.end.told())),
            _ if stream.ok() == Some(false) => Some("the dry run has ok: false".to_owned()),
            0 => Some("the dry run emits no aoi:plan".to_owned()),
            _ => None,
        };
        sheet.held(&DRY_RUN_PLAN, "the dry run emits an aoi:plan", wrong, &run);
        self.unchanged(sheet, &DRY_RUN_EFFECT, &run, stage).await
    }
}

static CONFIRMED: Rule = Rule {
    id: "AOI-06.confirmed",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "With its confirmation, a destructive command does what it reports",
    why: "Rejecting the unconfirmed command means something only if the confirmed one has an \
          effect. A success without an effect misleads the caller.",
    hint: "Report ok: true only after the resource is deleted.",
    topic: Topic::Confirm,
    register: &["AOI-16.1-10"],
};

impl Probe<'_, '_> {
    /// Runs the same arguments with the confirmation, which must have the effect.
    async fn control(&self, sheet: &mut Sheet<'_>, stage: &Stage) -> Result<(), String> {
        let call = self.sequence.confirmed(stage.id.as_deref());
        let run = self.sequence.run("confirmed", &call, How::default()).await;
        let after = self.sequence.observe().await?;
        let effect = stage.before.effect(&after);
        let needs = match self.destructive {
            true => [&REFUSAL[..], &DRY_RUN[..]].concat(),
            false => DRY_RUN.to_vec(),
        };
        let needs: Vec<&'static Rule> = match self.dry_run {
            Some(_) => needs,
            None => needs
                .into_iter()
                .filter(|rule| !DRY_RUN.contains(rule))
                .collect(),
        };
        let without: Vec<&'static Rule> = needs
            .iter()
            .copied()
            .filter(|rule| rule.id != CONFIRM_COUNT.id || has_count(&call))
            .collect();
        if !succeeded(&run) {
            let why = format!(
                "the confirmed command fails as well ({}), so its rejection proves nothing",
                run.end.told()
            );
            sheet.doubt(&without, &why);
            if self.destructive {
                sheet.not_verified(&CONFIRMED, why);
            }
            return Ok(());
        }
        let still =
            |id: &str| stage.before.mentions(id) == Some(true) && after.mentions(id) == Some(true);
        match effect {
            Effect::Some { told, .. } if self.destructive => sheet.pass(&CONFIRMED, told),
            Effect::Some { .. } => {}
            Effect::Unseen if self.destructive => {
                sheet.not_verified(&CONFIRMED, unseen(self.sequence.session, UNSEEN));
            }
            Effect::Unseen => {}
            Effect::None => {
                let why = "the confirmed command changes nothing in `observe`, so its rejection \
                           proves nothing";
                sheet.doubt(&without, why);
                match stage
                    .id
                    .as_deref()
                    .filter(|id| self.destructive && still(id))
                {
                    Some(id) => {
                        let message = format!("`ok` is true, but `{id}` still exists");
                        sheet.broken(&CONFIRMED, message, &run);
                    }
                    None if self.destructive => sheet.not_verified(&CONFIRMED, why),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

fn has_count(call: &Call) -> bool {
    call.words.iter().any(|word| word == "--confirm-count")
}

const UNSEEN: &str = "the probe file has no `observe`, so changes elsewhere cannot be detected";
