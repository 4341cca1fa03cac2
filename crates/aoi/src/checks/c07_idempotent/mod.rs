//! Check 7: a mutation takes a key, and the same key again gives the first result and no second
//! effect.

mod conflict;
mod replay;

use std::sync::Arc;

use futures::future::join_all;

use crate::capture::Capture;
use crate::model::Check;
use crate::observe::{Call, Effect, Sequence, State, declares, is_mutating, succeeded, within};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::{How, Session};
use crate::sheet::Sheet;
use conflict::{CONFLICT, RACE};
use replay::{DETAILS, EFFECT, KEY, KEY_DECLARED, NATURAL, OTHER_KEY, REPLAY, RESULT};

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

static WITHOUT: Rule = Rule {
    id: "AOI-07.without-key",
    check: Check::Number(7),
    level: Level::Should,
    section: "§14.4",
    demands: "Without a key every run is a write of its own, unless the input is its own key",
    why: "A missing key must not be taken for a key that was seen.",
    hint: "Remember results only for keys that were given.",
    topic: Topic::Idempotency,
    register: &["AOI-14.4-01"],
};

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
}
