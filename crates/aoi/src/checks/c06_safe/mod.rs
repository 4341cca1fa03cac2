//! Check 6: what destroys something wants a confirmation, a dry run changes nothing, and nothing
//! waits for a person.

mod auth;
mod read_only;
mod rules;

use std::time::Duration;

use futures::future::join_all;
use rules::{
    AUTH_CATEGORY, AUTH_ERROR, BROWSER, CONFIRM_COUNT, CONFIRMED, DECLARED, DRY_RUN_EFFECT,
    DRY_RUN_PLAN, ENVIRONMENT, NO_EFFECT, PIPED_YES, PROMPT, READ_ONLY, READ_ONLY_STRAYS, REFUSES,
    STRAY_WRITES,
};

use crate::capture::{Capture, End};
use crate::observe::{
    Call, Effect, Sequence, State, declares, is_destructive, is_mutating, manifest_run, refused,
    succeeded, unseen, within,
};
use crate::probe::Command;
use crate::rules::Rule;
use crate::run::Input;
use crate::session::{How, Session};
use crate::sheet::Sheet;
use crate::stream::Stream;

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
    &BROWSER,
    &READ_ONLY,
    &READ_ONLY_STRAYS,
];

/// What a refusal proves only where the same words, confirmed, do something.
const REFUSAL: [&Rule; 5] = [
    &REFUSES,
    &NO_EFFECT,
    &PIPED_YES,
    &ENVIRONMENT,
    &CONFIRM_COUNT,
];
const DRY_RUN: [&Rule; 2] = [&DRY_RUN_PLAN, &DRY_RUN_EFFECT];
/// So long without a word is waiting for one.
const SILENCE: Duration = Duration::from_secs(3);

pub async fn check(session: &Session) {
    let changing = session
        .commands()
        .iter()
        .filter(|command| is_mutating(session, command) && !command.needs_auth);
    let needing = session
        .commands()
        .iter()
        .filter(|command| command.needs_auth);
    tokio::join!(
        join_all(changing.map(|command| changing_one(session, command))),
        join_all(needing.map(|command| auth::check(session, command))),
        read_only::check(session),
    );
}

async fn changing_one(session: &Session, command: &Command) {
    let mut sheet = Sheet::new(session.judge(&command.name));
    let destructive = is_destructive(session, command);
    let mut wanted: Vec<&'static Rule> = vec![&STRAY_WRITES];
    let dry_run = match &command.dry_run {
        Some(flag) => Some(flag.clone()),
        None => declares(session, command, "supports_dry_run").then(|| "--dry-run".to_owned()),
    };
    match dry_run {
        Some(_) => wanted.extend(DRY_RUN),
        None => {
            for rule in DRY_RUN {
                sheet.not_applicable(rule, "no dry run is advertised");
            }
        }
    }
    if !destructive && dry_run.is_none() {
        return sheet.settle(&[], "");
    }
    if destructive {
        declared(session, command, &mut sheet);
        wanted.extend(REFUSAL);
        wanted.extend([&PROMPT, &CONFIRMED] as [&'static Rule; 2]);
    }
    let done = within(session, command, &REFUSES, async |sequence| {
        let probe = Probe {
            sequence,
            dry_run: dry_run.as_deref(),
            destructive,
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

/// What the manifest says of a destructive command, where it has an entry for it.
fn declared(session: &Session, command: &Command, sheet: &mut Sheet) {
    let declared = session.declared.get();
    let Some(entry) = declared.and_then(|declared| declared.command(&command.name)) else {
        let why = "capabilities have no entry for the command";
        return sheet.not_applicable(&DECLARED, why);
    };
    let missing: Vec<&str> = ["destructive", "requires_confirm"]
        .into_iter()
        .filter(|key| entry.get(key).and_then(serde_json::Value::as_bool) != Some(true))
        .collect();
    let source = manifest_run(session);
    match (missing.is_empty(), source) {
        (true, _) => sheet.pass(&DECLARED, "destructive and requires_confirm are true"),
        (false, Some(run)) => {
            let message = format!(
                "the entry of `{}` does not say true for: {}",
                command.name,
                missing.join(", ")
            );
            sheet.broken(&DECLARED, message, &run);
        }
        (false, None) => sheet.not_verified(&DECLARED, "capabilities were not seen"),
    }
}

/// The runs for one command that changes something.
struct Probe<'p, 's> {
    sequence: &'p Sequence<'s>,
    dry_run: Option<&'p str>,
    destructive: bool,
}

/// What stands there, and what the command is to be used on.
struct Stage {
    id: Option<String>,
    before: State,
}

impl Probe<'_, '_> {
    async fn all(&self, sheet: &mut Sheet<'_>) -> Result<(), String> {
        let mut stage = self.stage().await?;
        if self.destructive {
            self.refusals(sheet, &mut stage).await?;
            self.count(sheet, &mut stage).await?;
        }
        self.plan(sheet, &mut stage).await?;
        self.control(sheet, &stage).await
    }

    async fn stage(&self) -> Result<Stage, String> {
        let id = self.sequence.target().await?;
        let before = self.sequence.observe().await?;
        Ok(Stage { id, before })
    }

    /// Looks again after a run that was to change nothing.
    async fn unchanged(
        &self,
        sheet: &mut Sheet<'_>,
        rule: &'static Rule,
        run: &std::sync::Arc<Capture>,
        stage: &mut Stage,
    ) -> Result<(), String> {
        let after = self.sequence.observe().await?;
        match stage.before.effect(&after) {
            Effect::Some { told, .. } => {
                let how = &run.probe;
                sheet.broken(
                    rule,
                    format!("{how}: {told}, but nothing was to change"),
                    run,
                );
                *stage = self.stage().await?;
                return Ok(());
            }
            Effect::None => sheet.pass(rule, "what `observe` shows is the same before and after"),
            Effect::Unseen => sheet.not_verified(rule, unseen(self.sequence.session, UNSEEN)),
        }
        if let Some(paths) = stage.before.strays(&after) {
            sheet.broken(
                &STRAY_WRITES,
                format!("{}: files written: {paths}", run.probe),
                run,
            );
            stage.before = after;
        } else {
            sheet.pass(&STRAY_WRITES, "no file of the world was touched");
        }
        Ok(())
    }

    async fn refusals(&self, sheet: &mut Sheet<'_>, stage: &mut Stage) -> Result<(), String> {
        let yes = || Input::Bytes(b"y\n".to_vec());
        let usual = self.sequence.session.options.limit;
        let ways: [(&str, Input, &'static Rule); 5] = [
            ("not confirmed", Input::Null, &REFUSES),
            (
                "not confirmed, standard input closed",
                Input::Closed,
                &REFUSES,
            ),
            ("not confirmed, `y` on standard input", yes(), &PIPED_YES),
            ("not confirmed, CI=1 YES=1", Input::Null, &ENVIRONMENT),
            ("not confirmed, on a terminal", Input::Terminal, &PROMPT),
        ];
        let mut patience = usual;
        for (what, input, rule) in ways {
            let mut call = self.sequence.bare(stage.id.as_deref());
            // Lines to read stay; everything else is asked in its own way.
            if self.sequence.command.input.is_none() {
                call.input = input.clone();
            }
            let env = match rule.id == ENVIRONMENT.id {
                true => vec![pair("CI", "1"), pair("YES", "1")],
                false => Vec::new(),
            };
            let limit = match input {
                Input::Terminal => patience,
                _ => usual,
            };
            let run = patient(self.sequence, what, &call, &env, limit).await;
            if rule.id == REFUSES.id && run.end != End::TimedOut {
                patience = usual.min(SILENCE + 3 * run.elapsed);
            }
            match run.end {
                End::TimedOut => {
                    sheet.broken(&PROMPT, format!("{what}: {}", waits(&run)), &run);
                }
                _ if rule.id == PROMPT.id => sheet.pass(&PROMPT, "it never waits for an answer"),
                _ => sheet.held(
                    rule,
                    "it exits non-zero and does not say ok",
                    refusal(&run),
                    &run,
                ),
            }
            self.unchanged(sheet, &NO_EFFECT, &run, stage).await?;
        }
        Ok(())
    }

    /// A count that is not true, where there is one to give.
    async fn count(&self, sheet: &mut Sheet<'_>, stage: &mut Stage) -> Result<(), String> {
        let mut call = self.sequence.confirmed(stage.id.as_deref());
        let flag = call.words.iter().position(|word| word == "--confirm-count");
        let number = flag.and_then(|at| call.words.get_mut(at + 1));
        let Some(number) = number else {
            let why = "no --confirm-count stands in `ok` or `confirm`";
            sheet.not_applicable(&CONFIRM_COUNT, why);
            return Ok(());
        };
        *number = match number.parse::<u64>() {
            Ok(count) => count.saturating_add(1000).to_string(),
            Err(_) => return Ok(()),
        };
        let run = self
            .sequence
            .run("wrong count", &call, How::default())
            .await;
        sheet.held(
            &CONFIRM_COUNT,
            "a wrong count is refused",
            refusal(&run),
            &run,
        );
        self.unchanged(sheet, &CONFIRM_COUNT, &run, stage).await
    }

    async fn plan(&self, sheet: &mut Sheet<'_>, stage: &mut Stage) -> Result<(), String> {
        let Some(flag) = self.dry_run else {
            return Ok(());
        };
        let flag = [flag.to_owned()];
        let id = stage.id.clone();
        let call = self.sequence.bare(id.as_deref()).with(&flag);
        let mut run = self.sequence.run("dry run", &call, How::default()).await;
        if self.destructive && refused(&run) {
            // Some want both words.
            self.unchanged(sheet, &DRY_RUN_EFFECT, &run, stage).await?;
            let call = self.sequence.confirmed(stage.id.as_deref()).with(&flag);
            run = self
                .sequence
                .run("dry run, confirmed", &call, How::default())
                .await;
        }
        let stream = Stream::read(&run.stdout);
        let wrong = match stream.of("aoi:plan").count() {
            _ if !run.end.is_success() => Some(format!("the dry run fails: {}", run.end.told())),
            _ if stream.ok() == Some(false) => Some("the dry run says ok false".to_owned()),
            0 => Some("the dry run emits no aoi:plan".to_owned()),
            _ => None,
        };
        sheet.held(&DRY_RUN_PLAN, "it emits its plan", wrong, &run);
        self.unchanged(sheet, &DRY_RUN_EFFECT, &run, stage).await
    }

    /// The same words, meant: they must do what was refused before.
    async fn control(&self, sheet: &mut Sheet<'_>, stage: &Stage) -> Result<(), String> {
        let call = self.sequence.confirmed(stage.id.as_deref());
        let run = self.sequence.run("confirmed", &call, How::default()).await;
        let after = self.sequence.observe().await?;
        let effect = stage.before.effect(&after);
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
                "meant, it fails, too ({}): a refusal proves nothing",
                run.end.told()
            );
            sheet.doubt(&without, &why);
            if self.destructive {
                sheet.not_verified(&CONFIRMED, why);
            }
            return Ok(());
        }
        let still =
            |id: &str| stage.before.mentions(id) == Some(true) && after.mentions(id) == Some(true);
        match effect {
            Effect::Some { told, .. } if self.destructive => sheet.pass(&CONFIRMED, told),
            Effect::Some { .. } => {}
            Effect::Unseen if self.destructive => {
                sheet.not_verified(&CONFIRMED, unseen(self.sequence.session, UNSEEN));
            }
            Effect::Unseen => {}
            Effect::None => {
                let why =
                    "meant, it changes nothing that `observe` shows: a refusal proves nothing";
                sheet.doubt(&without, why);
                match stage
                    .id
                    .as_deref()
                    .filter(|id| self.destructive && still(id))
                {
                    Some(id) => {
                        let message = format!("it says ok, but `{id}` is still there");
                        sheet.broken(&CONFIRMED, message, &run);
                    }
                    None if self.destructive => sheet.not_verified(&CONFIRMED, why),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

fn has_count(call: &Call) -> bool {
    call.words.iter().any(|word| word == "--confirm-count")
}

const UNSEEN: &str = "the probe file has no `observe`: what happens elsewhere is not seen";

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// What is wrong with a refusal, if anything.
fn refusal(run: &Capture) -> Option<String> {
    if refused(run) || run.end == End::TimedOut {
        return None;
    }
    let seen = match run.end {
        End::Code(0) => "it exits 0".to_owned(),
        End::Code(_) => "its summary says ok".to_owned(),
        other => other.told(),
    };
    let how = &run.probe;
    Some(format!(
        "{how}: {seen}; a refusal exits non-zero and does not say ok"
    ))
}

fn waits(run: &Capture) -> String {
    let seconds = run.elapsed.as_secs_f64();
    format!("it was still waiting after {seconds:.1} s")
}

/// A run that may wait for a person. Whatever seems to wait gets a second chance: the machine
/// may be slow.
async fn patient(
    sequence: &Sequence<'_>,
    what: &str,
    call: &Call,
    env: &[(String, String)],
    limit: Duration,
) -> std::sync::Arc<Capture> {
    let how = |limit| How {
        env: env.to_vec(),
        limit: Some(limit),
        ..How::default()
    };
    let run = sequence.run(what, call, how(limit)).await;
    match run.end {
        End::TimedOut if limit < sequence.session.options.limit => {
            sequence.run(what, call, how(2 * limit)).await
        }
        _ => run,
    }
}
