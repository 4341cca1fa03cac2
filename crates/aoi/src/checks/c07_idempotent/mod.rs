//! Check 7: a mutation accepts an idempotency key. The same key again returns the first result and
//! has no second effect.

mod conflict;
mod dry_run;
mod replay;

use std::sync::Arc;

use futures::future::join_all;

use crate::capture::Capture;
use crate::model::CheckId;
use crate::observe::{
    Effect, Invocation, Mutation, ObservedState, declares, ids, is_mutating, run_mutation,
    succeeded, why_unobserved,
};
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};
use crate::stream::EventStream;
use crate::verdicts::Verdicts;
use conflict::{CONFLICT, RACE};
use dry_run::DRY_RUN_KEY;
use replay::{DETAILS, EFFECT, OTHER_KEY, REPLAY, RESULT};

pub const RULES: &[&Rule] = &[
    &KEY_DECLARED,
    &KEY,
    &REPLAY,
    &RESULT,
    &DETAILS,
    &EFFECT,
    &OTHER_KEY,
    &WITHOUT,
    &NATURAL,
    &CONFLICT,
    &RACE,
    &DRY_RUN_KEY,
];

const REPLAYED: [&Rule; 7] = [
    &REPLAY, &RESULT, &DETAILS, &EFFECT, &OTHER_KEY, &WITHOUT, &CONFLICT,
];

const NO_OBSERVE: &str = "the probe file has no `observe`, so effects cannot be detected";

pub async fn check(session: &LintSession) {
    let mutating = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    join_all(mutating.map(|command| one(session, command))).await;
}

async fn one(session: &LintSession, command: &ProbeCommand) {
    let mut verdicts = Verdicts::new(session.reporter(&command.name));
    let declared = declares(session, command, "supports_idempotency_key");
    let flag = command
        .idempotency
        .as_deref()
        .unwrap_or("--idempotency-key");
    let mut rules: Vec<&'static Rule> = [&[&KEY][..], &REPLAYED[..]].concat();
    match declared {
        true => rules.push(&KEY_DECLARED),
        false => verdicts.not_applicable(
            &KEY_DECLARED,
            "the command does not declare supports_idempotency_key",
        ),
    }
    let done = run_mutation(session, command, &REPLAY, async |mutation| {
        let probe = Probe {
            mutation,
            flag,
            declared,
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

/// A key such as callers create.
fn key(session: &LintSession) -> String {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer has the given length. Without randomness, the rest still distinguishes
    // keys.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{random}-{}", session.uniq())
}

struct Probe<'p, 's> {
    mutation: &'p Mutation<'s>,
    flag: &'p str,
    declared: bool,
}

/// A run and what it changed.
struct KeyedRun {
    run: Arc<Capture>,
    effect: Effect,
    after: ObservedState,
}

impl Probe<'_, '_> {
    fn keyed(&self, call: &Invocation, key: &str) -> Invocation {
        call.with(&[self.flag.to_owned(), key.to_owned()])
    }

    async fn run_and_observe(
        &self,
        what: &str,
        call: &Invocation,
        before: &ObservedState,
    ) -> Result<KeyedRun, String> {
        let run = self.mutation.run(what, call, RunOptions::default()).await;
        let after = self.mutation.observe().await?;
        let effect = before.effect(&after);
        Ok(KeyedRun { run, effect, after })
    }

    /// The command, with a new target if it needs one.
    async fn fresh(&self) -> Result<(Invocation, ObservedState), String> {
        let id = self.mutation.target().await?;
        let before = self.mutation.observe().await?;
        Ok((self.mutation.confirmed(id.as_deref()), before))
    }

    fn why_unobserved(&self) -> String {
        why_unobserved(self.mutation.session, NO_OBSERVE)
    }

    fn has_target(&self) -> bool {
        self.mutation.command.target_from.is_some()
    }
}

static KEY_DECLARED: Rule = Rule {
    id: "AOI-07.declared-key",
    check: CheckId::Number(7),
    level: Level::Must,
    section: "§17",
    requirement: "A command that declares supports_idempotency_key accepts a key",
    why: "Callers retry commands that are declared safe to retry.",
    hint: "Accept --idempotency-key, or declare supports_idempotency_key: false.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-17-05", "AOI-18.2-07"],
};

static NATURAL: Rule = Rule {
    id: "AOI-07.natural-key",
    check: CheckId::Number(7),
    level: Level::Should,
    section: "§14.4",
    requirement: "If the input itself acts as the key, that is documented",
    why: "Otherwise a caller that wants two equal resources gets one, and does not know why.",
    hint: "Mention the `natural key` in the command's --help, or add natural_key to the command \
           in `capabilities`.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-14.4-01"],
};

impl Probe<'_, '_> {
    async fn all(&self, verdicts: &mut Verdicts<'_>) -> Result<(), String> {
        let session = self.mutation.session;
        let (call, before) = self.fresh().await?;
        let known = key(session);
        let first = self
            .run_and_observe("first with a key", &self.keyed(&call, &known), &before)
            .await?;
        if !succeeded(&first.run) {
            return self.check_keyless(verdicts, &call, &first).await;
        }
        verdicts.pass(&KEY, "a key is accepted");
        if self.declared {
            verdicts.pass(&KEY_DECLARED, "a key is accepted");
        }
        match &first.effect {
            Effect::None => {
                let why = "the first run with a key changes nothing in `observe`";
                verdicts.unverify(&[&EFFECT, &OTHER_KEY, &WITHOUT], why);
            }
            Effect::Unknown => {
                verdicts.unverify(&[&EFFECT, &OTHER_KEY, &WITHOUT], &self.why_unobserved())
            }
            Effect::Some { .. } => {}
        }
        // A second target makes a replay with an effect visible.
        let (next, before) = match self.has_target() {
            true => self.fresh().await?,
            false => (call.clone(), first.after.clone()),
        };
        let again = self
            .run_and_observe("the same key again", &self.keyed(&call, &known), &before)
            .await?;
        self.replay(verdicts, &first, &again);
        let (new, before) = match again.effect.is_some() && self.has_target() {
            true => self.fresh().await?,
            false => (next, again.after),
        };
        let other = self
            .run_and_observe("another key", &self.keyed(&new, &key(session)), &before)
            .await?;
        let natural = self.other_key(verdicts, &other).await?;
        match natural {
            true => self.documented(verdicts, &other.run).await,
            false => verdicts.not_applicable(&NATURAL, "the input does not act as the key"),
        }
        self.without_key(verdicts, &call, &other.after, natural)
            .await?;
        self.conflict(verdicts, &call, &known).await?;
        match natural {
            true => verdicts.not_applicable(&DRY_RUN_KEY, "the input acts as the key"),
            false => self.dry_run(verdicts).await?,
        }
        self.race(verdicts).await
    }
}

static KEY: Rule = Rule {
    id: "AOI-07.key",
    check: CheckId::Number(7),
    level: Level::Should,
    section: "§14.4",
    requirement: "A write accepts an idempotency key, or has a natural key",
    why: "After a lost response, a caller does not know whether to retry.",
    hint: "Accept --idempotency-key KEY and store its result, or derive the id from the input.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-14.4-01", "AOI-16.1-09"],
};

impl Probe<'_, '_> {
    /// The run with a key failed. Finds out whether the key is the cause.
    async fn check_keyless(
        &self,
        verdicts: &mut Verdicts<'_>,
        call: &Invocation,
        keyed: &KeyedRun,
    ) -> Result<(), String> {
        let (call, before) = match self.has_target() {
            true => self.fresh().await?,
            false => (call.clone(), keyed.after.clone()),
        };
        let plain = self
            .run_and_observe("without a key", &call, &before)
            .await?;
        if !succeeded(&plain.run) {
            let end = plain.run.end.describe();
            return Err(format!("the command also fails without a key: {end}"));
        }
        let flag = self.flag;
        let end = keyed.run.end.describe();
        if self.declared {
            let message = format!(
                "supports_idempotency_key is declared, but the command fails \
                 with `{flag} KEY`: {end}"
            );
            verdicts.violation(&KEY_DECLARED, message, &keyed.run);
        }
        // Without a key, only a documented natural key identifies this run as a retry.
        let again = match self.has_target() && !self.documents_natural_key().await {
            true => None,
            false => Some(
                self.run_and_observe("the same again", &call, &plain.after)
                    .await?,
            ),
        };
        let reported_ids =
            |run: &Capture| ids(self.mutation.command, &EventStream::parse(&run.stdout));
        let is_same = |again: &KeyedRun| {
            succeeded(&again.run) && reported_ids(&again.run) == reported_ids(&plain.run)
        };
        match again.filter(|again| again.effect == Effect::None && plain.effect.is_some()) {
            Some(again) if !is_same(&again) && self.has_target() => {
                let proof = "the command has a documented natural key, and the same run again \
                             changes nothing";
                for rule in [&KEY, &NATURAL, &EFFECT] {
                    verdicts.pass(rule, proof);
                }
                for rule in [&REPLAY, &RESULT, &DETAILS, &OTHER_KEY, &WITHOUT, &CONFLICT] {
                    verdicts.not_applicable(rule, "the command takes no key other than its input");
                }
            }
            Some(again) if is_same(&again) => {
                verdicts.pass(&KEY, "the input acts as the key");
                self.documented(verdicts, &again.run).await;
                for rule in [&REPLAY, &RESULT, &EFFECT] {
                    verdicts.pass(
                        rule,
                        "the same input again changes nothing and reports the same ids",
                    );
                }
                for rule in [&DETAILS, &OTHER_KEY, &WITHOUT, &CONFLICT] {
                    verdicts.not_applicable(rule, "the command takes no key other than its input");
                }
            }
            _ if plain.after.is_partial() => {
                // The input may act as the key.
                verdicts.not_verified(&KEY, self.why_unobserved());
                verdicts.unverify(&REPLAYED, "no key is accepted, so nothing can be replayed");
            }
            _ => {
                let message = format!(
                    "the command fails with `{flag} KEY` ({end}), but works \
                     without it"
                );
                verdicts.violation(&KEY, message, &keyed.run);
                verdicts.unverify(&REPLAYED, "no key is accepted, so nothing can be replayed");
            }
        }
        Ok(())
    }
}

static WITHOUT: Rule = Rule {
    id: "AOI-07.without-key",
    check: CheckId::Number(7),
    level: Level::Should,
    section: "§14.4",
    requirement: "Without a key, every run is a separate write, unless the input acts as the key",
    why: "A missing key must not be treated like a known key.",
    hint: "Store results only for keys that were given.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-14.4-01"],
};

impl Probe<'_, '_> {
    async fn without_key(
        &self,
        verdicts: &mut Verdicts<'_>,
        call: &Invocation,
        before: &ObservedState,
        natural: bool,
    ) -> Result<(), String> {
        let (call, before) = match self.has_target() {
            true => self.fresh().await?,
            false => (call.clone(), before.clone()),
        };
        let before = match natural {
            // Observe again, because the earlier runs may have changed something.
            true => self.mutation.observe().await?,
            false => before,
        };
        let done = self
            .run_and_observe("without a key", &call, &before)
            .await?;
        match &done.effect {
            _ if !succeeded(&done.run) => {
                let end = done.run.end.describe();
                verdicts.not_verified(&WITHOUT, format!("the command fails without a key: {end}"));
            }
            Effect::Some { .. } => {
                verdicts.pass(&WITHOUT, "a run without a key is a separate write")
            }
            Effect::Unknown => verdicts.not_verified(&WITHOUT, self.why_unobserved()),
            Effect::None if natural => {
                verdicts.pass(&WITHOUT, "the input acts as the key");
            }
            Effect::None => {
                let message = "without a key, `ok` is true, but nothing changes";
                verdicts.violation(&WITHOUT, message, &done.run);
            }
        }
        Ok(())
    }
}
