//! A known key with other arguments, and two concurrent runs with the same key.

use super::{Probe, key};
use crate::model::Check;
use crate::observe::{Call, Effect, ids, refused, succeeded};
use crate::rules::{Level, Rule, Topic};
use crate::run::Input;
use crate::session::How;
use crate::sheet::Sheet;
use crate::stream::Stream;

impl Probe<'_, '_> {
    /// The same command with other content, if the probe file allows it.
    pub(super) fn other_words(&self) -> Option<Call> {
        let command = self.sequence.command;
        if let Some(call) = self.sequence.other() {
            return Some(call);
        }
        let lines = command.input.iter().flat_map(|input| &input.good);
        let varies = command
            .ok
            .iter()
            .chain(lines)
            .any(|word| word.contains("{uniq}"));
        if varies && !self.has_target() {
            return Some(self.sequence.confirmed(None));
        }
        let input = command
            .input
            .as_ref()
            .filter(|input| input.good.len() > 1)?;
        let mut call = self.sequence.confirmed(None);
        let first = input.good.first()?.clone();
        call.input = Input::Bytes(crate::observe::joined(&[first]));
        Some(call)
    }
}

pub(super) static CONFLICT: Rule = Rule {
    id: "AOI-07.key-conflict",
    check: Check::Number(7),
    level: Level::Should,
    section: "§9.1",
    demands: "A known key with other arguments is rejected with category conflict",
    why: "Otherwise the caller takes the result of another write for its own.",
    hint: "Store a fingerprint of the input with the key. If it differs, fail with category \
           conflict.",
    topic: Topic::Idempotency,
    register: &["AOI-9.1-06"],
};

impl Probe<'_, '_> {
    pub(super) async fn conflict(
        &self,
        sheet: &mut Sheet<'_>,
        call: &Call,
        known: &str,
    ) -> Result<(), String> {
        let (other, before) = match self.has_target() {
            true => self.fresh().await?,
            false => match self.other_words() {
                Some(other) => (other, self.sequence.observe().await?),
                None => {
                    let why = "`ok` has neither {uniq} nor a target, so the arguments cannot be \
                               varied";
                    sheet.not_applicable(&CONFLICT, why);
                    return Ok(());
                }
            },
        };
        if other.words == call.words && self.sequence.command.input.is_none() {
            sheet.not_applicable(&CONFLICT, "the arguments in `ok` cannot be varied");
            return Ok(());
        }
        let done = self
            .act(
                "a known key, other arguments",
                &self.keyed(&other, known),
                &before,
            )
            .await?;
        let stream = Stream::read(&done.run.stdout);
        let categories: Vec<&str> = stream
            .errors()
            .filter_map(|line| line.get("category")?.as_str())
            .collect();
        let fits = |category: &&str| matches!(*category, "conflict" | "validation" | "usage");
        let wrong = match &done.effect {
            Effect::Some { told, .. } => Some(format!(
                "a known key with other arguments has an effect: {told}"
            )),
            _ if !refused(&done.run) => {
                Some("a known key with other arguments is accepted".to_owned())
            }
            _ if categories.is_empty() || categories.iter().any(fits) => None,
            _ => Some(format!(
                "rejected with category `{}`; expected `conflict`",
                categories.join(", ")
            )),
        };
        sheet.held(
            &CONFLICT,
            "a known key with other arguments is rejected",
            wrong,
            &done.run,
        );
        Ok(())
    }
}

pub(super) static RACE: Rule = Rule {
    id: "AOI-adv.idempotent-race",
    check: Check::Advisory,
    level: Level::Open,
    section: "§14.4",
    demands: "Two concurrent runs with the same key have one effect",
    why: "A retry often starts while the first attempt is still running.",
    hint: "Lock the key before doing any work.",
    topic: Topic::Idempotency,
    register: &["AOI-14.4-01"],
};

impl Probe<'_, '_> {
    pub(super) async fn race(&self, sheet: &mut Sheet<'_>) -> Result<(), String> {
        let (call, before) = self.fresh().await?;
        let call = self.keyed(&call, &key(self.sequence.session));
        let (one, two) = tokio::join!(
            self.sequence
                .run("two concurrent runs", &call, How::default()),
            self.sequence
                .run("two concurrent runs", &call, How::default()),
        );
        let after = self.sequence.observe().await?;
        let command = self.sequence.command;
        let told = ids(command, &Stream::read(&one.stdout)).len();
        match before.effect(&after) {
            _ if !succeeded(&one) && !succeeded(&two) => {
                sheet.broken(&RACE, "two concurrent runs with one key both fail", &one);
            }
            Effect::Some {
                count: Some(count), ..
            } if told > 0 => {
                let told = told.max(ids(command, &Stream::read(&two.stdout)).len());
                let wrong = (count > told).then(|| {
                    format!(
                        "two concurrent runs with one key have {count} effects; expected {told}"
                    )
                });
                sheet.held(
                    &RACE,
                    "two concurrent runs with one key have one effect",
                    wrong,
                    &one,
                );
            }
            _ => sheet.not_verified(&RACE, "the number of effects cannot be counted"),
        }
        Ok(())
    }
}
