//! Check 6: destructive commands need a confirmation, dry runs change nothing, and no command waits
//! for a user.

mod auth;
mod environment;
mod first_run;
mod read_only;
mod refusals;

use futures::future::join_all;

use crate::model::CheckId;
use crate::observe::{
    Effect, Invocation, Mutation, ObservedState, capabilities_run, declares, is_destructive,
    is_mutating, run_mutation, succeeded, was_rejected, why_unobserved,
};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::stream::EventStream;
use crate::verdicts::Verdicts;
use auth::{AUTH_CATEGORY, AUTH_ERROR, AUTH_FIELDS, BROWSER};
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
    &AUTH_FIELDS,
    &BROWSER,
    &READ_ONLY,
    &READ_ONLY_STRAYS,
];

const DRY_RUN: [&Rule; 2] = [&DRY_RUN_PLAN, &DRY_RUN_EFFECT];

pub async fn check(session: &LintSession) {
    let changing = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    let needing = session
        .commands()
        .iter()
        .filter(|command| command.needs_auth);
    tokio::join!(
        join_all(changing.map(|command| check_mutating(session, command))),
        join_all(needing.map(|command| auth::check(session, command))),
        read_only::check(session),
        first_run::check(session),
    );
}

async fn check_mutating(session: &LintSession, command: &ProbeCommand) {
    let mut verdicts = Verdicts::new(session.reporter(&command.name));
    let destructive = is_destructive(session, command);
    let mut rules: Vec<&'static Rule> = vec![&STRAY_WRITES];
    let dry_run = match &command.dry_run {
        Some(flag) => Some(flag.clone()),
        None => declares(session, command, "supports_dry_run").then(|| "--dry-run".to_owned()),
    };
    match dry_run {
        Some(_) => rules.extend(DRY_RUN),
        None => {
            for rule in DRY_RUN {
                verdicts.not_applicable(rule, "the command does not advertise a dry run");
            }
        }
    }
    if !destructive && dry_run.is_none() {
        return verdicts.report(&[], "");
    }
    if destructive {
        declared(session, command, &mut verdicts);
        rules.extend(REFUSAL);
        rules.extend([&PROMPT, &CONFIRMED] as [&'static Rule; 2]);
    }
    let done = run_mutation(session, command, &REFUSES, async |mutation| {
        let probe = Probe {
            mutation,
            dry_run: dry_run.as_deref(),
            destructive,
        };
        probe.all(&mut verdicts).await
    });
    match done.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => verdicts.unverify(&rules, &why),
        Err(blocked) => blocked.report(&mut verdicts, &rules),
    }
    verdicts.report(&rules, "the probe did not get that far");
}

static DECLARED: Rule = Rule {
    id: "AOI-06.declared",
    check: CheckId::Number(6),
    level: Level::Open,
    section: "§17",
    requirement: "A destructive command is declared with destructive: true and requires_confirm: true",
    why: "A caller uses the manifest to decide which commands it may try.",
    hint: "Set destructive and requires_confirm to true for the command in `capabilities`.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-17-05"],
};

/// Checks how `capabilities` declares a destructive command, if it lists the command.
fn declared(session: &LintSession, command: &ProbeCommand, verdicts: &mut Verdicts) {
    let declared = session.declared.get();
    let Some(entry) = declared.and_then(|declared| declared.command(&command.name)) else {
        let why = "`capabilities` has no entry for the command";
        return verdicts.not_applicable(&DECLARED, why);
    };
    let missing: Vec<&str> = ["destructive", "requires_confirm"]
        .into_iter()
        .filter(|key| entry.get(key).and_then(serde_json::Value::as_bool) != Some(true))
        .collect();
    let source = capabilities_run(session);
    match (missing.is_empty(), source) {
        (true, _) => verdicts.pass(&DECLARED, "destructive and requires_confirm are true"),
        (false, Some(run)) => {
            let message = format!(
                "`capabilities` does not declare `{}` with true for: {}",
                command.name,
                missing.join(", ")
            );
            verdicts.violation(&DECLARED, message, &run);
        }
        (false, None) => verdicts.not_verified(&DECLARED, "`capabilities` could not be read"),
    }
}

/// The probes of one command that changes something.
struct Probe<'p, 's> {
    mutation: &'p Mutation<'s>,
    dry_run: Option<&'p str>,
    destructive: bool,
}

/// The resource that the command is run on, and the state before the run.
struct Setup {
    id: Option<String>,
    before: ObservedState,
}

impl Probe<'_, '_> {
    async fn all(&self, verdicts: &mut Verdicts<'_>) -> Result<(), String> {
        let mut setup = self.setup().await?;
        if self.destructive {
            self.refusals(verdicts, &mut setup).await?;
            self.count(verdicts, &mut setup).await?;
        }
        self.plan(verdicts, &mut setup).await?;
        self.check_confirmed(verdicts, &setup).await
    }

    async fn setup(&self) -> Result<Setup, String> {
        let id = self.mutation.target().await?;
        let before = self.mutation.observe().await?;
        Ok(Setup { id, before })
    }
}

static DRY_RUN_PLAN: Rule = Rule {
    id: "AOI-06.dry-run-plan",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.2",
    requirement: "An advertised dry run exits 0 and emits at least one aoi:plan",
    why: "A caller shows the plan to the person who decides.",
    hint: "Emit an aoi:plan with action and target for each planned change.",
    topic: Topic::Confirm,
    requirement_ids: &[
        "AOI-14.2-01",
        "AOI-14.2-02",
        "AOI-8.3-07",
        "AOI-16.1-08",
        "AOI-18.2-06",
    ],
};

static DRY_RUN_EFFECT: Rule = Rule {
    id: "AOI-06.dry-run-effect",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.2",
    requirement: "A dry run changes nothing",
    why: "A caller requests a dry run because nothing may happen yet.",
    hint: "Return before the first write, not before the last.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-16.1-08", "AOI-18.2-06"],
};

impl Probe<'_, '_> {
    async fn plan(&self, verdicts: &mut Verdicts<'_>, setup: &mut Setup) -> Result<(), String> {
        let Some(flag) = self.dry_run else {
            return Ok(());
        };
        let flag = [flag.to_owned()];
        let id = setup.id.clone();
        let call = self.mutation.unconfirmed(id.as_deref()).with(&flag);
        let mut run = self
            .mutation
            .run("dry run", &call, RunOptions::default())
            .await;
        if self.destructive && was_rejected(&run) {
            // Some tools require both flags.
            self.unchanged(verdicts, &DRY_RUN_EFFECT, &run, setup)
                .await?;
            let call = self.mutation.confirmed(setup.id.as_deref()).with(&flag);
            run = self
                .mutation
                .run("dry run, confirmed", &call, RunOptions::default())
                .await;
        }
        let stream = EventStream::parse(&run.stdout);
        let violation = match stream.of_type("aoi:plan").count() {
            _ if !run.end.is_success() => {
                Some(format!("the dry run failed: {}", run.end.describe()))
            }
            _ if stream.ok() == Some(false) => Some("the dry run has ok: false".to_owned()),
            0 => Some("the dry run emits no aoi:plan".to_owned()),
            _ => None,
        };
        verdicts.decide(
            &DRY_RUN_PLAN,
            "the dry run emits an aoi:plan",
            violation,
            &run,
        );
        self.unchanged(verdicts, &DRY_RUN_EFFECT, &run, setup).await
    }
}

static CONFIRMED: Rule = Rule {
    id: "AOI-06.confirmed",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.3",
    requirement: "With its confirmation, a destructive command does what it reports",
    why: "Rejecting the unconfirmed command means something only if the confirmed one has an \
          effect. A success without an effect misleads the caller.",
    hint: "Report ok: true only after the resource is deleted.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-16.1-10"],
};

impl Probe<'_, '_> {
    /// Runs the same arguments with the confirmation, which must have the effect.
    async fn check_confirmed(
        &self,
        verdicts: &mut Verdicts<'_>,
        setup: &Setup,
    ) -> Result<(), String> {
        let call = self.mutation.confirmed(setup.id.as_deref());
        let run = self
            .mutation
            .run("confirmed", &call, RunOptions::default())
            .await;
        let after = self.mutation.observe().await?;
        let effect = setup.before.effect(&after);
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
                run.end.describe()
            );
            verdicts.unverify(&without, &why);
            if self.destructive {
                verdicts.not_verified(&CONFIRMED, why);
            }
            return Ok(());
        }
        let still = |id: &str| {
            setup.before.contains_id(id) == Some(true) && after.contains_id(id) == Some(true)
        };
        match effect {
            Effect::Some { summary, .. } if self.destructive => verdicts.pass(&CONFIRMED, summary),
            Effect::Some { .. } => {}
            Effect::Unknown if self.destructive => {
                verdicts.not_verified(
                    &CONFIRMED,
                    why_unobserved(self.mutation.session, NO_OBSERVE),
                );
            }
            Effect::Unknown => {}
            Effect::None => {
                let why = "the confirmed command changes nothing in `observe`, so its rejection \
                           proves nothing";
                verdicts.unverify(&without, why);
                match setup
                    .id
                    .as_deref()
                    .filter(|id| self.destructive && still(id))
                {
                    Some(id) => {
                        let message = format!("`ok` is true, but `{id}` still exists");
                        verdicts.violation(&CONFIRMED, message, &run);
                    }
                    None if self.destructive => verdicts.not_verified(&CONFIRMED, why),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

fn has_count(call: &Invocation) -> bool {
    call.words.iter().any(|word| word == "--confirm-count")
}

const NO_OBSERVE: &str = "the probe file has no `observe`, so changes elsewhere cannot be detected";
