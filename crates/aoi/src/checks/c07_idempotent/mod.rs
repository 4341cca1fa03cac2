//! Check 7: a mutation accepts an idempotency key. The same key again returns the first result and
//! has no second effect.

mod conflict;
mod replay;

use std::sync::Arc;

use futures::future::join_all;

use crate::capture::Capture;
use crate::model::Check;
use crate::observe::{
    Call, Effect, Sequence, State, declares, ids, is_mutating, succeeded, unseen, within,
};
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::Stream;
use conflict::{CONFLICT, RACE};
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
];

const REPLAYED: [&Rule; 7] = [
    &REPLAY, &RESULT, &DETAILS, &EFFECT, &OTHER_KEY, &WITHOUT, &CONFLICT,
];

const UNSEEN: &str = "the probe file has no `observe`, so effects cannot be detected";

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
        false => sheet.not_applicable(
            &KEY_DECLARED,
            "the command does not declare supports_idempotency_key",
        ),
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
    sheet.settle(&wanted, "the probe did not get that far");
}

/// A key such as callers create.
fn key(session: &Session) -> String {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer has the given length. Without randomness, the rest still distinguishes
    // keys.
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

    /// The command, with a new target if it needs one.
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
}

static KEY_DECLARED: Rule = Rule {
    id: "AOI-07.declared-key",
    check: Check::Number(7),
    level: Level::Must,
    section: "§17",
    demands: "A command that declares supports_idempotency_key accepts a key",
    why: "Callers retry commands that are declared safe to retry.",
    hint: "Accept --idempotency-key, or declare supports_idempotency_key: false.",
    topic: Topic::Idempotency,
    register: &["AOI-17-05", "AOI-18.2-07"],
};

static NATURAL: Rule = Rule {
    id: "AOI-07.natural-key",
    check: Check::Number(7),
    level: Level::Should,
    section: "§14.4",
    demands: "If the input itself acts as the key, that is documented",
    why: "Otherwise a caller that wants two equal resources gets one, and does not know why.",
    hint: "Mention the `natural key` in the command's --help, or add natural_key to the command \
           in `capabilities`.",
    topic: Topic::Idempotency,
    register: &["AOI-14.4-01"],
};

impl Probe<'_, '_> {
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
        sheet.pass(&KEY, "a key is accepted");
        if self.declared {
            sheet.pass(&KEY_DECLARED, "a key is accepted");
        }
        match &first.effect {
            Effect::None => {
                let why = "the first run with a key changes nothing in `observe`";
                sheet.doubt(&[&EFFECT, &OTHER_KEY, &WITHOUT], why);
            }
            Effect::Unseen => sheet.doubt(&[&EFFECT, &OTHER_KEY, &WITHOUT], &self.unseen()),
            Effect::Some { .. } => {}
        }
        // A second target makes a replay with an effect visible.
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
            false => sheet.not_applicable(&NATURAL, "the input does not act as the key"),
        }
        self.without_key(sheet, &call, &other.after, natural)
            .await?;
        self.conflict(sheet, &call, &known).await?;
        self.race(sheet).await
    }
}

static KEY: Rule = Rule {
    id: "AOI-07.key",
    check: Check::Number(7),
    level: Level::Should,
    section: "§14.4",
    demands: "A write accepts an idempotency key, or has a natural key",
    why: "After a lost response, a caller does not know whether to retry.",
    hint: "Accept --idempotency-key KEY and store its result, or derive the id from the input.",
    topic: Topic::Idempotency,
    register: &["AOI-14.4-01", "AOI-16.1-09"],
};

impl Probe<'_, '_> {
    /// The run with a key failed. Finds out whether the key is the cause.
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
            return Err(format!("the command also fails without a key: {end}"));
        }
        let flag = self.flag;
        let end = keyed.run.end.told();
        if self.declared {
            let message = format!(
                "supports_idempotency_key is declared, but the command fails \
                 with `{flag} KEY`: {end}"
            );
            sheet.broken(&KEY_DECLARED, message, &keyed.run);
        }
        let again = match self.has_target() {
            // Without a key, nothing identifies this run as a retry.
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
                sheet.pass(&KEY, "the input acts as the key");
                self.documented(sheet, &again.run).await;
                for rule in [&REPLAY, &RESULT, &EFFECT] {
                    sheet.pass(
                        rule,
                        "the same input again changes nothing and reports the same ids",
                    );
                }
                for rule in [&DETAILS, &OTHER_KEY, &WITHOUT, &CONFLICT] {
                    sheet.not_applicable(rule, "the command takes no key other than its input");
                }
            }
            _ if plain.after.is_partial() => {
                // The input may act as the key.
                sheet.not_verified(&KEY, self.unseen());
                sheet.doubt(&REPLAYED, "no key is accepted, so nothing can be replayed");
            }
            _ => {
                let message = format!(
                    "the command fails with `{flag} KEY` ({end}), but works \
                     without it"
                );
                sheet.broken(&KEY, message, &keyed.run);
                sheet.doubt(&REPLAYED, "no key is accepted, so nothing can be replayed");
            }
        }
        Ok(())
    }
}

static WITHOUT: Rule = Rule {
    id: "AOI-07.without-key",
    check: Check::Number(7),
    level: Level::Should,
    section: "§14.4",
    demands: "Without a key, every run is a separate write, unless the input acts as the key",
    why: "A missing key must not be treated like a known key.",
    hint: "Store results only for keys that were given.",
    topic: Topic::Idempotency,
    register: &["AOI-14.4-01"],
};

impl Probe<'_, '_> {
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
            // Observe again, because the earlier runs may have changed something.
            true => self.sequence.observe().await?,
            false => before,
        };
        let done = self.act("without a key", &call, &before).await?;
        match &done.effect {
            _ if !succeeded(&done.run) => {
                let end = done.run.end.told();
                sheet.not_verified(&WITHOUT, format!("the command fails without a key: {end}"));
            }
            Effect::Some { .. } => sheet.pass(&WITHOUT, "a run without a key is a separate write"),
            Effect::Unseen => sheet.not_verified(&WITHOUT, self.unseen()),
            Effect::None if natural => {
                sheet.pass(&WITHOUT, "the input acts as the key");
            }
            Effect::None => {
                let message = "without a key, `ok` is true, but nothing changes";
                sheet.broken(&WITHOUT, message, &done.run);
            }
        }
        Ok(())
    }
}
