//! Runs without a confirmation, which are to be refused.

use std::time::Duration;

use super::{Probe, Stage, UNSEEN};
use crate::capture::{Capture, End};
use crate::model::Check;
use crate::observe::{Call, Effect, Sequence, refused, unseen};
use crate::rules::{Level, Rule, Topic};
use crate::run::Input;
use crate::session::How;
use crate::sheet::Sheet;

/// What a refusal proves only where the same words, confirmed, do something.
pub(super) const REFUSAL: [&Rule; 5] = [
    &REFUSES,
    &NO_EFFECT,
    &PIPED_YES,
    &ENVIRONMENT,
    &CONFIRM_COUNT,
];

/// So long without a word is waiting for one.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

pub(super) static STRAY_WRITES: Rule = Rule {
    id: "AOI-06.stray-writes",
    check: Check::Number(6),
    level: Level::Open,
    section: "§14.2",
    demands: "Refusals and dry runs leave no files behind beside caches and logs",
    why: "Files that were written although nothing was to be done are often a half-done change.",
    hint: "Write nothing before it is clear that the change will happen; name caches and logs in the probe file under `caches`.",
    topic: Topic::Confirm,
    register: &["AOI-16.1-08"],
};

impl Probe<'_, '_> {
    /// Looks again after a run that was to change nothing.
    pub(super) async fn unchanged(
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
}

pub(super) static REFUSES: Rule = Rule {
    id: "AOI-06.refuses",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "A destructive command without its confirmation exits non-zero and does not say ok",
    why: "A caller that forgot the confirmation must learn that nothing was done.",
    hint: "Without --confirm: one aoi:error, a summary with ok false, exit 64, and nothing else.",
    topic: Topic::Confirm,
    register: &[
        "AOI-14.3-01",
        "AOI-14.3-02",
        "AOI-16.1-10",
        "AOI-16.3-06",
        "AOI-18.2-06",
    ],
};

pub(super) static NO_EFFECT: Rule = Rule {
    id: "AOI-06.no-effect",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "A destructive command without its confirmation changes nothing",
    why: "An error after the deletion is too late.",
    hint: "Look for the confirmation before anything is touched.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-01"],
};

pub(super) static PIPED_YES: Rule = Rule {
    id: "AOI-06.piped-yes",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "A `y` on standard input is no confirmation",
    why: "Whatever happens to be piped in would delete things.",
    hint: "Take only the flag for a confirmation in machine mode; do not read standard input for it.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-01", "AOI-16.1-10"],
};

pub(super) static ENVIRONMENT: Rule = Rule {
    id: "AOI-06.environment",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "CI=1 and the like are no confirmation",
    why: "Confirmation is explicit: an agent that runs in CI has confirmed nothing.",
    hint: "Let no variable of the environment stand for --confirm.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-01", "AOI-16.1-10"],
};

pub(super) static PROMPT: Rule = Rule {
    id: "AOI-06.prompt",
    check: Check::Number(6),
    level: Level::Must,
    section: "§1.3",
    demands: "Machine mode never waits for an answer, with or without a terminal",
    why: "Nobody is there to answer: the caller waits until its own time is over.",
    hint: "Where a question would be asked, write an aoi:error with code INTERACTIVE_REQUIRED or a refusal and exit non-zero.",
    topic: Topic::Confirm,
    register: &["AOI-1.3-01", "AOI-1.3-03"],
};

impl Probe<'_, '_> {
    pub(super) async fn refusals(
        &self,
        sheet: &mut Sheet<'_>,
        stage: &mut Stage,
    ) -> Result<(), String> {
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
}

pub(super) static CONFIRM_COUNT: Rule = Rule {
    id: "AOI-adv.confirm-count",
    check: Check::Advisory,
    level: Level::Should,
    section: "§14.3",
    demands: "A wrong --confirm-count stops a bulk deletion before it begins",
    why: "The count guards against a pattern that matches more than was meant.",
    hint: "Count first; where the number differs, exit non-zero with category conflict and delete nothing.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-02"],
};

impl Probe<'_, '_> {
    /// A count that is not true, where there is one to give.
    pub(super) async fn count(
        &self,
        sheet: &mut Sheet<'_>,
        stage: &mut Stage,
    ) -> Result<(), String> {
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
}

pub(super) fn pair(name: &str, value: &str) -> (String, String) {
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

pub(super) fn waits(run: &Capture) -> String {
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
