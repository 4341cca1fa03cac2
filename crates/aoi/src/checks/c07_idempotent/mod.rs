//! Check 7: a mutation takes a key, and the same key again gives the first result and no second
//! effect.

mod rules;

use std::sync::Arc;

use futures::future::join_all;
use rules::{
    CONFLICT, DETAILS, EFFECT, KEY, KEY_DECLARED, NATURAL, OTHER_KEY, RACE, REPLAY, RESULT, WITHOUT,
};
use serde_json::Value;

use crate::capture::Capture;
use crate::observe::{
    Call, Effect, Sequence, State, changes, declares, ids, is_mutating, plain, refused, succeeded,
    unseen, within,
};
use crate::probe::Command;
use crate::rules::Rule;
use crate::run::Input;
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::Stream;

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
];

const REPLAYED: [&Rule; 7] = [
    &REPLAY, &RESULT, &DETAILS, &EFFECT, &OTHER_KEY, &WITHOUT, &CONFLICT,
];
const UNSEEN: &str = "the probe file has no `observe`: effects are not seen";

pub async fn check(session: &Session) {
    let mutating = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    join_all(mutating.map(|command| one(session, command))).await;
}

async fn one(session: &Session, command: &Command) {
    let mut sheet = Sheet::new(session.judge(&command.name));
    let declared = declares(session, command, "supports_idempotency_key");
    let flag = command
        .idempotency
        .as_deref()
        .unwrap_or("--idempotency-key");
    let mut wanted: Vec<&'static Rule> = [&[&KEY][..], &REPLAYED[..]].concat();
    match declared {
        true => wanted.push(&KEY_DECLARED),
        false => sheet.not_applicable(&KEY_DECLARED, "it is not declared"),
    }
    let done = within(session, command, &REPLAY, async |sequence| {
        let probe = Probe {
            sequence,
            flag,
            declared,
        };
        probe.all(&mut sheet).await
    });
    match done.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => sheet.doubt(&wanted, &why),
        Err(blocked) => blocked.tell(&mut sheet, &wanted),
    }
    sheet.settle(&wanted, "the probe did not come that far");
}

/// A key as callers make them.
fn key(session: &Session) -> String {
    let mut bytes = [0_u8; 8];
    // SAFETY: room for what is written. Without randomness the rest still tells keys apart.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let random: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{random}-{}", session.uniq())
}

struct Probe<'p, 's> {
    sequence: &'p Sequence<'s>,
    flag: &'p str,
    declared: bool,
}

/// A run and what it changed.
struct Done {
    run: Arc<Capture>,
    effect: Effect,
    after: State,
}

impl Probe<'_, '_> {
    fn keyed(&self, call: &Call, key: &str) -> Call {
        call.with(&[self.flag.to_owned(), key.to_owned()])
    }

    async fn act(&self, what: &str, call: &Call, before: &State) -> Result<Done, String> {
        let run = self.sequence.run(what, call, How::default()).await;
        let after = self.sequence.observe().await?;
        let effect = before.effect(&after);
        Ok(Done { run, effect, after })
    }

    /// The command on a target of its own, where it needs one.
    async fn fresh(&self) -> Result<(Call, State), String> {
        let id = self.sequence.target().await?;
        let before = self.sequence.observe().await?;
        Ok((self.sequence.confirmed(id.as_deref()), before))
    }

    fn unseen(&self) -> String {
        unseen(self.sequence.session, UNSEEN)
    }

    fn has_target(&self) -> bool {
        self.sequence.command.target_from.is_some()
    }

    async fn all(&self, sheet: &mut Sheet<'_>) -> Result<(), String> {
        let session = self.sequence.session;
        let (call, before) = self.fresh().await?;
        let known = key(session);
        let first = self
            .act("first with a key", &self.keyed(&call, &known), &before)
            .await?;
        if !succeeded(&first.run) {
            return self.keyless(sheet, &call, &first).await;
        }
        sheet.pass(&KEY, "a key is taken");
        if self.declared {
            sheet.pass(&KEY_DECLARED, "a key is taken");
        }
        match &first.effect {
            Effect::None => {
                let why = "the first run with a key changes nothing that `observe` shows";
                sheet.doubt(&[&EFFECT, &OTHER_KEY, &WITHOUT], why);
            }
            Effect::Unseen => sheet.doubt(&[&EFFECT, &OTHER_KEY, &WITHOUT], &self.unseen()),
            Effect::Some { .. } => {}
        }
        // A second target makes a replay that acts again visible.
        let (next, before) = match self.has_target() {
            true => self.fresh().await?,
            false => (call.clone(), first.after.clone()),
        };
        let again = self
            .act("the same key again", &self.keyed(&call, &known), &before)
            .await?;
        self.replay(sheet, &first, &again);
        let (new, before) = match again.effect.is_some() && self.has_target() {
            true => self.fresh().await?,
            false => (next, again.after),
        };
        let other = self
            .act("another key", &self.keyed(&new, &key(session)), &before)
            .await?;
        let natural = self.other_key(sheet, &other).await?;
        match natural {
            true => self.documented(sheet, &other.run).await,
            false => sheet.not_applicable(&NATURAL, "the input is no key of its own"),
        }
        self.without_key(sheet, &call, &other.after, natural)
            .await?;
        self.conflict(sheet, &call, &known).await?;
        self.race(sheet).await
    }

    /// The run with a key failed: is it the key?
    async fn keyless(
        &self,
        sheet: &mut Sheet<'_>,
        call: &Call,
        keyed: &Done,
    ) -> Result<(), String> {
        let (call, before) = match self.has_target() {
            true => self.fresh().await?,
            false => (call.clone(), keyed.after.clone()),
        };
        let plain = self.act("without a key", &call, &before).await?;
        if !succeeded(&plain.run) {
            let end = plain.run.end.told();
            return Err(format!("it fails without a key, too: {end}"));
        }
        let flag = self.flag;
        let end = keyed.run.end.told();
        if self.declared {
            let message = format!("a key is declared, but with `{flag} KEY` it fails: {end}");
            sheet.broken(&KEY_DECLARED, message, &keyed.run);
        }
        let again = match self.has_target() {
            // Without a key nothing says that this would be a retry.
            true => None,
            false => Some(self.act("the same again", &call, &plain.after).await?),
        };
        let told = |run: &Capture| ids(self.sequence.command, &Stream::read(&run.stdout));
        match again {
            Some(again)
                if succeeded(&again.run)
                    && again.effect == Effect::None
                    && plain.effect.is_some()
                    && told(&again.run) == told(&plain.run) =>
            {
                sheet.pass(&KEY, "the input is its own key");
                self.documented(sheet, &again.run).await;
                for rule in [&REPLAY, &RESULT, &EFFECT] {
                    sheet.pass(
                        rule,
                        "the same input again changes nothing and tells the same",
                    );
                }
                for rule in [&DETAILS, &OTHER_KEY, &WITHOUT, &CONFLICT] {
                    sheet.not_applicable(rule, "there are no keys beside the input");
                }
            }
            _ if plain.after.is_partial() => {
                // The input may be its own key.
                sheet.not_verified(&KEY, self.unseen());
                sheet.doubt(&REPLAYED, "no key is taken: nothing can be replayed");
            }
            _ => {
                let message = format!("with `{flag} KEY` it fails ({end}), without it works");
                sheet.broken(&KEY, message, &keyed.run);
                sheet.doubt(&REPLAYED, "no key is taken: nothing can be replayed");
            }
        }
        Ok(())
    }

    fn replay(&self, sheet: &mut Sheet<'_>, first: &Done, again: &Done) {
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

    /// Whether the input seems to be a key of its own.
    async fn other_key(&self, sheet: &mut Sheet<'_>, other: &Done) -> Result<bool, String> {
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
    async fn documented(&self, sheet: &mut Sheet<'_>, seen: &Arc<Capture>) {
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

    /// The same command with other content, where the probe file leaves room for it.
    fn other_words(&self) -> Option<Call> {
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

    async fn without_key(
        &self,
        sheet: &mut Sheet<'_>,
        call: &Call,
        before: &State,
        natural: bool,
    ) -> Result<(), String> {
        let (call, before) = match self.has_target() {
            true => self.fresh().await?,
            false => (call.clone(), before.clone()),
        };
        let before = match natural {
            // One more look: the words before this may have changed something.
            true => self.sequence.observe().await?,
            false => before,
        };
        let done = self.act("without a key", &call, &before).await?;
        match &done.effect {
            _ if !succeeded(&done.run) => {
                let end = done.run.end.told();
                sheet.not_verified(&WITHOUT, format!("without a key it fails: {end}"));
            }
            Effect::Some { .. } => sheet.pass(&WITHOUT, "without a key it is a write of its own"),
            Effect::Unseen => sheet.not_verified(&WITHOUT, self.unseen()),
            Effect::None if natural => {
                sheet.pass(&WITHOUT, "the input is its own key");
            }
            Effect::None => {
                let message = "without a key it says ok, but nothing changes";
                sheet.broken(&WITHOUT, message, &done.run);
            }
        }
        Ok(())
    }

    async fn conflict(
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
                    let why = "`ok` has neither {uniq} nor a target: there are no other words";
                    sheet.not_applicable(&CONFLICT, why);
                    return Ok(());
                }
            },
        };
        if other.words == call.words && self.sequence.command.input.is_none() {
            sheet.not_applicable(&CONFLICT, "other words cannot be made from `ok`");
            return Ok(());
        }
        let done = self
            .act(
                "a known key, other words",
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
            Effect::Some { told, .. } => Some(format!("a known key with other words acts: {told}")),
            _ if !refused(&done.run) => {
                Some("a known key with other words is answered as if nothing were wrong".to_owned())
            }
            _ if categories.is_empty() || categories.iter().any(fits) => None,
            _ => Some(format!(
                "refused with `{}`, not `conflict`",
                categories.join(", ")
            )),
        };
        sheet.held(
            &CONFLICT,
            "a known key with other words is refused",
            wrong,
            &done.run,
        );
        Ok(())
    }

    async fn race(&self, sheet: &mut Sheet<'_>) -> Result<(), String> {
        let (call, before) = self.fresh().await?;
        let call = self.keyed(&call, &key(self.sequence.session));
        let (one, two) = tokio::join!(
            self.sequence.run("two at once", &call, How::default()),
            self.sequence.run("two at once", &call, How::default()),
        );
        let after = self.sequence.observe().await?;
        let command = self.sequence.command;
        let told = ids(command, &Stream::read(&one.stdout)).len();
        match before.effect(&after) {
            _ if !succeeded(&one) && !succeeded(&two) => {
                sheet.broken(&RACE, "of two at once with one key both fail", &one);
            }
            Effect::Some {
                count: Some(count), ..
            } if told > 0 => {
                let told = told.max(ids(command, &Stream::read(&two.stdout)).len());
                let wrong = (count > told)
                    .then(|| format!("two at once with one key: {count} effects, not {told}"));
                sheet.held(
                    &RACE,
                    "two at once with one key have one effect",
                    wrong,
                    &one,
                );
            }
            _ => sheet.not_verified(&RACE, "how often it happened cannot be counted"),
        }
        Ok(())
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
