//! Runs with the same key again, and with another key.

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
    demands: "The same arguments with the same key succeed again",
    why: "A retry that fails looks like a write that failed.",
    hint: "If the key is known, return the stored result.",
    topic: Topic::Idempotency,
    register: &["AOI-16.1-09", "AOI-18.2-07"],
};

pub(super) static RESULT: Rule = Rule {
    id: "AOI-07.replay-result",
    check: Check::Number(7),
    level: Level::Must,
    section: "§14.4",
    demands: "A replay reports the same ids as the first run",
    why: "The caller needs the id from the response that it lost.",
    hint: "Store the events of the first run with the key, and emit them again.",
    topic: Topic::Idempotency,
    register: &["AOI-18.2-07"],
};

pub(super) static DETAILS: Rule = Rule {
    id: "AOI-07.replay-details",
    check: Check::Number(7),
    level: Level::Open,
    section: "§14.4",
    demands: "A replay emits the same events as the first run, apart from times and similar fields",
    why: "A caller that compares both responses expects them to be equal.",
    hint: "Emit the stored events. Mark the replay in the summary, not in the events.",
    topic: Topic::Idempotency,
    register: &["AOI-18.2-07"],
};

pub(super) static EFFECT: Rule = Rule {
    id: "AOI-07.replay-effect",
    check: Check::Number(7),
    level: Level::Must,
    section: "§14.4",
    demands: "A replay has no second effect",
    why: "Preventing a second effect is the purpose of the key.",
    hint: "Store the key and the result in the same transaction as the change.",
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
            Effect::None => sheet.pass(
                &EFFECT,
                "the output of `observe` is the same after the replay",
            ),
            Effect::Unseen => sheet.not_verified(&EFFECT, self.unseen()),
        }
        if !succeeded(run) {
            let message = format!(
                "the same arguments with the same key fail: {}",
                run.end.told()
            );
            sheet.broken(&REPLAY, message, run);
            sheet.doubt(&[&RESULT, &DETAILS], "the replay failed");
            return;
        }
        sheet.pass(&REPLAY, "the replay succeeds");
        let (old, new) = (Stream::read(&first.run.stdout), Stream::read(&run.stdout));
        let (before, after) = (ids(command, &old), ids(command, &new));
        if before.iter().flatten().next().is_none() {
            let why = "the first run reports no id to compare";
            return sheet.doubt(&[&RESULT, &DETAILS], why);
        }
        let wrong = (before != after).then(|| {
            format!(
                "ids of the first run: {}; ids of the replay: {}",
                shown(&before),
                shown(&after)
            )
        });
        let same = wrong.is_none();
        sheet.held(&RESULT, "the replay reports the same ids", wrong, run);
        let details = |stream: &Stream| -> Vec<Value> {
            changes(command, stream).into_iter().map(plain).collect()
        };
        match same {
            false => sheet.not_verified(&DETAILS, "the ids already differ"),
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
    demands: "Another key is a separate write",
    why: "A tool that treats every key like the first one loses writes.",
    hint: "Look up the exact key, and do the work if it is new.",
    topic: Topic::Idempotency,
    register: &["AOI-16.1-09"],
};

impl Probe<'_, '_> {
    /// Returns whether the input seems to act as the key.
    pub(super) async fn other_key(
        &self,
        sheet: &mut Sheet<'_>,
        other: &Done,
    ) -> Result<bool, String> {
        let proof = "a new key is a separate write";
        match &other.effect {
            _ if !succeeded(&other.run) => {
                let end = other.run.end.told();
                sheet.broken(
                    &OTHER_KEY,
                    format!("the command fails with a new key: {end}"),
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
                    let why = "a new key changes nothing, and `ok` has no {uniq} to vary the \
                               arguments";
                    sheet.not_verified(&OTHER_KEY, why);
                    return Ok(true);
                };
                let call = self.keyed(&call, &key(self.sequence.session));
                let third = self
                    .act("another key, other arguments", &call, &other.after)
                    .await?;
                match third.effect {
                    Effect::Some { .. } => {
                        sheet.pass(
                            &OTHER_KEY,
                            "the input acts as the key; other input is written",
                        );
                        Ok(true)
                    }
                    Effect::Unseen => {
                        sheet.not_verified(&OTHER_KEY, self.unseen());
                        Ok(false)
                    }
                    Effect::None => {
                        let message = "neither a new key nor other arguments have an effect after \
                                       the first run";
                        sheet.broken(&OTHER_KEY, message, &third.run);
                        Ok(false)
                    }
                }
            }
        }
    }

    /// Checks whether `capabilities` or `--help` mentions the natural key.
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
            "the same arguments again change nothing, but neither `capabilities` nor --help \
             mentions a natural key"
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
