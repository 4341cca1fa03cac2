//! Runs with the same key again, and with another key.

use std::sync::Arc;

use serde_json::Value;

use super::{KeyedRun, NATURAL, Probe, key};
use crate::capture::Capture;
use crate::model::CheckId;
use crate::observe::{Effect, changes, ids, succeeded, without_volatile_fields};
use crate::rules::{Level, Rule, Topic};
use crate::session::RunOptions;
use crate::stream::EventStream;
use crate::verdicts::Verdicts;

pub(super) static REPLAY: Rule = Rule {
    id: "AOI-07.replay",
    check: CheckId::Number(7),
    level: Level::Must,
    section: "§14.4",
    requirement: "The same arguments with the same key succeed again",
    why: "A retry that fails looks like a write that failed.",
    hint: "If the key is known, return the stored result.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-16.1-09", "AOI-18.2-07"],
};

pub(super) static RESULT: Rule = Rule {
    id: "AOI-07.replay-result",
    check: CheckId::Number(7),
    level: Level::Must,
    section: "§14.4",
    requirement: "A replay reports the same ids as the first run",
    why: "The caller needs the id from the response that it lost.",
    hint: "Store the events of the first run with the key, and emit them again.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-18.2-07"],
};

pub(super) static DETAILS: Rule = Rule {
    id: "AOI-07.replay-details",
    check: CheckId::Number(7),
    level: Level::Open,
    section: "§14.4",
    requirement: "A replay emits the same events as the first run, apart from times and similar fields",
    why: "A caller that compares both responses expects them to be equal.",
    hint: "Emit the stored events. Mark the replay in the summary, not in the events.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-18.2-07"],
};

pub(super) static EFFECT: Rule = Rule {
    id: "AOI-07.replay-effect",
    check: CheckId::Number(7),
    level: Level::Must,
    section: "§14.4",
    requirement: "A replay has no second effect",
    why: "Preventing a second effect is the purpose of the key.",
    hint: "Store the key and the result in the same transaction as the change.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-14.4-01", "AOI-18.2-07"],
};

impl Probe<'_, '_> {
    pub(super) fn replay(&self, verdicts: &mut Verdicts<'_>, first: &KeyedRun, again: &KeyedRun) {
        let command = self.mutation.command;
        let run = &again.run;
        match &again.effect {
            Effect::Some { summary, .. } => {
                let message = format!("the same key has a second effect: {summary}");
                verdicts.violation(&EFFECT, message, run);
            }
            Effect::None => verdicts.pass(
                &EFFECT,
                "the output of `observe` is the same after the replay",
            ),
            Effect::Unknown => verdicts.not_verified(&EFFECT, self.why_unobserved()),
        }
        if !succeeded(run) {
            let message = format!(
                "the same arguments with the same key fail: {}",
                run.end.describe()
            );
            verdicts.violation(&REPLAY, message, run);
            verdicts.unverify(&[&RESULT, &DETAILS], "the replay failed");
            return;
        }
        verdicts.pass(&REPLAY, "the replay succeeds");
        let (old, new) = (
            EventStream::parse(&first.run.stdout),
            EventStream::parse(&run.stdout),
        );
        let (before, after) = (ids(command, &old), ids(command, &new));
        if before.iter().flatten().next().is_none() {
            let why = "the first run reports no id to compare";
            return verdicts.unverify(&[&RESULT, &DETAILS], why);
        }
        let violation = (before != after).then(|| {
            format!(
                "ids of the first run: {}; ids of the replay: {}",
                join_ids(&before),
                join_ids(&after)
            )
        });
        let same = violation.is_none();
        verdicts.decide(&RESULT, "the replay reports the same ids", violation, run);
        let details = |stream: &EventStream| -> Vec<Value> {
            changes(command, stream)
                .into_iter()
                .map(without_volatile_fields)
                .collect()
        };
        match same {
            false => verdicts.not_verified(&DETAILS, "the ids already differ"),
            true => {
                let differ = details(&old) != details(&new);
                let violation =
                    differ.then(|| "fields of the events differ from the first run".to_owned());
                verdicts.decide(&DETAILS, "the events are the same", violation, run);
            }
        }
    }
}

pub(super) static OTHER_KEY: Rule = Rule {
    id: "AOI-07.other-key",
    check: CheckId::Number(7),
    level: Level::Must,
    section: "§14.4",
    requirement: "Another key is a separate write",
    why: "A tool that treats every key like the first one loses writes.",
    hint: "Look up the exact key, and do the work if it is new.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-16.1-09"],
};

impl Probe<'_, '_> {
    /// Returns whether the input seems to act as the key.
    pub(super) async fn other_key(
        &self,
        verdicts: &mut Verdicts<'_>,
        other: &KeyedRun,
    ) -> Result<bool, String> {
        let proof = "a new key is a separate write";
        match &other.effect {
            _ if !succeeded(&other.run) => {
                let end = other.run.end.describe();
                verdicts.violation(
                    &OTHER_KEY,
                    format!("the command fails with a new key: {end}"),
                    &other.run,
                );
                Ok(false)
            }
            Effect::Some { .. } => {
                verdicts.pass(&OTHER_KEY, proof);
                Ok(false)
            }
            Effect::Unknown => {
                verdicts.not_verified(&OTHER_KEY, self.why_unobserved());
                Ok(false)
            }
            Effect::None => {
                let Some(call) = self.other_words() else {
                    let why = "a new key changes nothing, and `ok` has no {uniq} to vary the \
                               arguments";
                    verdicts.not_verified(&OTHER_KEY, why);
                    return Ok(true);
                };
                let call = self.keyed(&call, &key(self.mutation.session));
                let third = self
                    .run_and_observe("another key, other arguments", &call, &other.after)
                    .await?;
                match third.effect {
                    Effect::Some { .. } => {
                        verdicts.pass(
                            &OTHER_KEY,
                            "the input acts as the key; other input is written",
                        );
                        Ok(true)
                    }
                    Effect::Unknown => {
                        verdicts.not_verified(&OTHER_KEY, self.why_unobserved());
                        Ok(false)
                    }
                    Effect::None => {
                        let message = "neither a new key nor other arguments have an effect after \
                                       the first run";
                        verdicts.violation(&OTHER_KEY, message, &third.run);
                        Ok(false)
                    }
                }
            }
        }
    }

    /// Reports whether the natural key is documented.
    pub(super) async fn documented(&self, verdicts: &mut Verdicts<'_>, run: &Arc<Capture>) {
        let violation = (!self.documents_natural_key().await).then(|| {
            "the same arguments again change nothing, but neither `capabilities` nor --help \
             mentions a natural key"
                .to_owned()
        });
        verdicts.decide(&NATURAL, "the natural key is documented", violation, run);
    }

    /// Whether `capabilities` or `--help` mentions the natural key.
    pub(super) async fn documents_natural_key(&self) -> bool {
        let command = self.mutation.command;
        let session = self.mutation.session;
        let declared = session.declared.get();
        let entry = declared.and_then(|declared| declared.command(&command.name));
        let mut text = entry.map(Value::to_string).unwrap_or_default();
        let name = command.ok.first().unwrap_or(&command.name).clone();
        let how = RunOptions {
            no_machine_args: true,
            ..RunOptions::default()
        };
        let words = [name, "--help".to_owned()];
        let help = session.run(&command.name, "--help", &words, how).await;
        text.push_str(&String::from_utf8_lossy(&help.stdout));
        let text = text.to_lowercase().replace(['_', '-'], " ");
        let known = ["natural key", "upsert", "already exists", "same name"];
        known.iter().any(|word| text.contains(word))
    }
}

fn join_ids(ids: &[Option<String>]) -> String {
    let ids: Vec<&str> = ids
        .iter()
        .map(|id| id.as_deref().unwrap_or("none"))
        .collect();
    match ids.is_empty() {
        true => "none".to_owned(),
        false => ids.join(", "),
    }
}
