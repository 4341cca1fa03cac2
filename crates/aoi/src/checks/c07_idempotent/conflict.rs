//! A known key with other arguments, and two concurrent runs with the same key.

use super::{Probe, key};
use crate::model::CheckId;
use crate::observe::{Effect, Invocation, ids, succeeded, was_rejected};
use crate::rules::{Level, Rule, Topic};
use crate::run::StdinSource;
use crate::session::RunOptions;
use crate::stream::EventStream;
use crate::verdicts::Verdicts;

impl Probe<'_, '_> {
    /// The same command with other content, if the probe file allows it.
    pub(super) fn other_words(&self) -> Option<Invocation> {
        let command = self.mutation.command;
        if let Some(call) = self.mutation.other() {
            return Some(call);
        }
        let lines = command.input.iter().flat_map(|input| &input.good);
        let varies = command
            .ok
            .iter()
            .chain(lines)
            .any(|word| word.contains("{uniq}"));
        if varies && !self.has_target() {
            return Some(self.mutation.confirmed(None));
        }
        let input = command
            .input
            .as_ref()
            .filter(|input| input.good.len() > 1)?;
        let mut call = self.mutation.confirmed(None);
        let first = input.good.first()?.clone();
        call.input = StdinSource::Bytes(crate::observe::join_lines(&[first]));
        Some(call)
    }
}

pub(super) static CONFLICT: Rule = Rule {
    id: "AOI-07.key-conflict",
    check: CheckId::Number(7),
    level: Level::Should,
    section: "§9.1",
    requirement: "A known key with other arguments is rejected with category conflict",
    why: "Otherwise the caller takes the result of another write for its own.",
    hint: "Store a fingerprint of the input with the key. If it differs, fail with category \
           conflict.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-9.1-06"],
};

impl Probe<'_, '_> {
    pub(super) async fn conflict(
        &self,
        verdicts: &mut Verdicts<'_>,
        call: &Invocation,
        known: &str,
    ) -> Result<(), String> {
        let (other, before) = match self.has_target() {
            true => self.fresh().await?,
            false => match self.other_words() {
                Some(other) => (other, self.mutation.observe().await?),
                None => {
                    let why = "`ok` has neither {uniq} nor a target, so the arguments cannot be \
                               varied";
                    verdicts.not_applicable(&CONFLICT, why);
                    return Ok(());
                }
            },
        };
        if other.words == call.words && self.mutation.command.input.is_none() {
            verdicts.not_applicable(&CONFLICT, "the arguments in `ok` cannot be varied");
            return Ok(());
        }
        let done = self
            .run_and_observe(
                "a known key, other arguments",
                &self.keyed(&other, known),
                &before,
            )
            .await?;
        let stream = EventStream::parse(&done.run.stdout);
        let categories: Vec<&str> = stream
            .errors()
            .filter_map(|line| line.get("category")?.as_str())
            .collect();
        let fits = |category: &&str| matches!(*category, "conflict" | "validation" | "usage");
        let violation = match &done.effect {
            Effect::Some { summary, .. } => Some(format!(
                "a known key with other arguments has an effect: {summary}"
            )),
            _ if !was_rejected(&done.run) => {
                Some("a known key with other arguments is accepted".to_owned())
            }
            _ if categories.is_empty() || categories.iter().any(fits) => None,
            _ => Some(format!(
                "rejected with category `{}`; expected `conflict`",
                categories.join(", ")
            )),
        };
        verdicts.decide(
            &CONFLICT,
            "a known key with other arguments is rejected",
            violation,
            &done.run,
        );
        Ok(())
    }
}

pub(super) static RACE: Rule = Rule {
    id: "AOI-adv.idempotent-race",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§14.4",
    requirement: "Two concurrent runs with the same key have one effect",
    why: "A retry often starts while the first attempt is still running.",
    hint: "Lock the key before doing any work.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-14.4-01"],
};

impl Probe<'_, '_> {
    pub(super) async fn race(&self, verdicts: &mut Verdicts<'_>) -> Result<(), String> {
        let (call, before) = self.fresh().await?;
        let call = self.keyed(&call, &key(self.mutation.session));
        let (one, two) = tokio::join!(
            self.mutation
                .run("two concurrent runs", &call, RunOptions::default()),
            self.mutation
                .run("two concurrent runs", &call, RunOptions::default()),
        );
        let after = self.mutation.observe().await?;
        let command = self.mutation.command;
        let id_count = ids(command, &EventStream::parse(&one.stdout)).len();
        match before.effect(&after) {
            _ if !succeeded(&one) && !succeeded(&two) => {
                verdicts.violation(&RACE, "two concurrent runs with one key both fail", &one);
            }
            Effect::Some {
                count: Some(count), ..
            } if id_count > 0 => {
                let id_count = id_count.max(ids(command, &EventStream::parse(&two.stdout)).len());
                let violation = (count > id_count).then(|| {
                    format!(
                        "two concurrent runs with one key have {count} effects; expected {id_count}"
                    )
                });
                verdicts.decide(
                    &RACE,
                    "two concurrent runs with one key have one effect",
                    violation,
                    &one,
                );
            }
            _ => verdicts.not_verified(&RACE, "the number of effects cannot be counted"),
        }
        Ok(())
    }
}
