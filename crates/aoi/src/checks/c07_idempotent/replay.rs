//! The same key again, and another one.

use std::sync::Arc;

use serde_json::Value;

use super::{Done, NATURAL, Probe, key};
use crate::capture::Capture;
use crate::model::Check;
use crate::observe::{Effect, changes, ids, plain, succeeded};
use crate::rules::{Level, Rule, Topic};
use crate::session::How;
use crate::sheet::Sheet;
use crate::stream::Stream;

pub(super) static REPLAY: Rule = Rule {
    id: "AOI-07.replay",
    check: Check::Number(7),
    level: Level::Must,
    section: "§14.4",
    demands: "The same words with the same key succeed again",
    why: "A retry that fails looks like a write that failed.",
    hint: "Where the key is known, answer with what was answered before.",
    topic: Topic::Idempotency,
    register: &["AOI-16.1-09", "AOI-18.2-07"],
};

pub(super) static RESULT: Rule = Rule {
    id: "AOI-07.replay-result",
    check: Check::Number(7),
    level: Level::Must,
    section: "§14.4",
    demands: "A replay tells the same ids as the first run",
    why: "The caller needs the id of what its first, lost answer made.",
    hint: "Keep the events of the first run with the key, and emit them again.",
    topic: Topic::Idempotency,
    register: &["AOI-18.2-07"],
};

pub(super) static DETAILS: Rule = Rule {
    id: "AOI-07.replay-details",
    check: Check::Number(7),
    level: Level::Open,
    section: "§14.4",
    demands: "A replay tells of the same events as the first run, but for times and the like",
    why: "A caller that compares both answers should find them alike.",
    hint: "Emit the stored events; mark a replay in the summary, not in the events.",
    topic: Topic::Idempotency,
    register: &["AOI-18.2-07"],
};

pub(super) static EFFECT: Rule = Rule {
    id: "AOI-07.replay-effect",
    check: Check::Number(7),
    level: Level::Must,
    section: "§14.4",
    demands: "A replay has no second effect",
    why: "That is what the key is for.",
    hint: "Store key and result in one step with the change.",
    topic: Topic::Idempotency,
    register: &["AOI-14.4-01", "AOI-18.2-07"],
};

impl Probe<'_, '_> {
    pub(super) fn replay(&self, sheet: &mut Sheet<'_>, first: &Done, again: &Done) {
        let command = self.sequence.command;
        let run = &again.run;
        match &again.effect {
            Effect::Some { told, .. } => {
                let message = format!("the same key has a second effect: {told}");
                sheet.broken(&EFFECT, message, run);
            }
            Effect::None => {
                sheet.pass(&EFFECT, "what `observe` shows is the same after the replay")
            }
            Effect::Unseen => sheet.not_verified(&EFFECT, self.unseen()),
        }
        if !succeeded(run) {
            let message = format!("the same words with the same key fail: {}", run.end.told());
            sheet.broken(&REPLAY, message, run);
            sheet.doubt(&[&RESULT, &DETAILS], "the replay failed");
            return;
        }
        sheet.pass(&REPLAY, "the replay succeeds");
        let (old, new) = (Stream::read(&first.run.stdout), Stream::read(&run.stdout));
        let (before, after) = (ids(command, &old), ids(command, &new));
        if before.iter().flatten().next().is_none() {
            let why = "the first run tells no id to compare with";
            return sheet.doubt(&[&RESULT, &DETAILS], why);
        }
        let wrong = (before != after).then(|| {
            format!(
                "ids of the first run: {}; of the replay: {}",
                shown(&before),
                shown(&after)
            )
        });
        let same = wrong.is_none();
        sheet.held(&RESULT, "the replay tells the same ids", wrong, run);
        let details = |stream: &Stream| -> Vec<Value> {
            changes(command, stream).into_iter().map(plain).collect()
        };
        match same {
            false => sheet.not_verified(&DETAILS, "not even the ids are the same"),
            true => {
                let differ = details(&old) != details(&new);
                let wrong =
                    differ.then(|| "fields of the events differ from the first run".to_owned());
                sheet.held(&DETAILS, "the events are the same", wrong, run);
            }
        }
    }
}

pub(super) static OTHER_KEY: Rule = Rule {
    id: "AOI-07.other-key",
    check: Check::Number(7),
    level: Level::Must,
    section: "§14.4",
    demands: "Another key is another write",
    why: "A tool that takes every key for the first one loses writes.",
    hint: "Look the key up as it is given, and do the work where it is new.",
    topic: Topic::Idempotency,
    register: &["AOI-16.1-09"],
};

impl Probe<'_, '_> {
    /// Whether the input seems to be a key of its own.
    pub(super) async fn other_key(
        &self,
        sheet: &mut Sheet<'_>,
        other: &Done,
    ) -> Result<bool, String> {
        let proof = "a new key is a new write";
        match &other.effect {
            _ if !succeeded(&other.run) => {
                let end = other.run.end.told();
                sheet.broken(
                    &OTHER_KEY,
                    format!("with a new key it fails: {end}"),
                    &other.run,
                );
                Ok(false)
            }
            Effect::Some { .. } => {
                sheet.pass(&OTHER_KEY, proof);
                Ok(false)
            }
            Effect::Unseen => {
                sheet.not_verified(&OTHER_KEY, self.unseen());
                Ok(false)
            }
            Effect::None => {
                let Some(call) = self.other_words() else {
                    let why = "a new key changes nothing, and `ok` has no {uniq} to ask for more";
                    sheet.not_verified(&OTHER_KEY, why);
                    return Ok(true);
                };
                let call = self.keyed(&call, &key(self.sequence.session));
                let third = self
                    .act("another key, other words", &call, &other.after)
                    .await?;
                match third.effect {
                    Effect::Some { .. } => {
                        sheet.pass(
                            &OTHER_KEY,
                            "the input is its own key; other input is written",
                        );
                        Ok(true)
                    }
                    Effect::Unseen => {
                        sheet.not_verified(&OTHER_KEY, self.unseen());
                        Ok(false)
                    }
                    Effect::None => {
                        let message =
                            "neither a new key nor other words have an effect after the first run";
                        sheet.broken(&OTHER_KEY, message, &third.run);
                        Ok(false)
                    }
                }
            }
        }
    }

    /// Whether capabilities or --help speak of the natural key.
    pub(super) async fn documented(&self, sheet: &mut Sheet<'_>, seen: &Arc<Capture>) {
        let command = self.sequence.command;
        let session = self.sequence.session;
        let declared = session.declared.get();
        let entry = declared.and_then(|declared| declared.command(&command.name));
        let mut text = entry.map(Value::to_string).unwrap_or_default();
        let name = command.ok.first().unwrap_or(&command.name).clone();
        let how = How {
            human: true,
            ..How::default()
        };
        let words = [name, "--help".to_owned()];
        let help = session.run(&command.name, "--help", &words, how).await;
        text.push_str(&String::from_utf8_lossy(&help.stdout));
        let text = text.to_lowercase().replace(['_', '-'], " ");
        let known = ["natural key", "upsert", "already exists", "same name"];
        let wrong = (!known.iter().any(|word| text.contains(word))).then(|| {
            "the same words again change nothing, and neither capabilities nor --help say so"
                .to_owned()
        });
        sheet.held(&NATURAL, "the natural key is documented", wrong, seen);
    }
}

fn shown(ids: &[Option<String>]) -> String {
    let ids: Vec<&str> = ids
        .iter()
        .map(|id| id.as_deref().unwrap_or("none"))
        .collect();
    match ids.is_empty() {
        true => "none".to_owned(),
        false => ids.join(", "),
    }
}
