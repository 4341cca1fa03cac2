//! Runs without a confirmation, which must be rejected.

use std::time::Duration;

use super::{Probe, Stage, UNSEEN};
use crate::capture::{Capture, End};
use crate::model::Check;
use crate::observe::{Call, Effect, Sequence, refused, unseen};
use crate::rules::{Level, Rule, Topic};
use crate::run::Input;
use crate::session::How;
use crate::sheet::Sheet;

/// Rules whose passes are valid only if the confirmed command has an effect.
pub(super) const REFUSAL: [&Rule; 5] = [
    &REFUSES,
    &NO_EFFECT,
    &PIPED_YES,
    &ENVIRONMENT,
    &CONFIRM_COUNT,
];

/// Time without an exit that counts as waiting for input.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

pub(super) static STRAY_WRITES: Rule = Rule {
    id: "AOI-06.stray-writes",
    check: Check::Number(6),
    level: Level::Open,
    section: "§14.2",
    demands: "Rejected commands and dry runs leave no files behind, except caches and logs",
    why: "Files written by a command that should do nothing are often half of a change.",
    hint: "Write nothing before it is clear that the change will happen. List caches and logs \
           under `caches` in the probe file.",
    topic: Topic::Confirm,
    register: &["AOI-16.1-08"],
};

impl Probe<'_, '_> {
    /// Observes the state after a run that should change nothing.
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
                sheet.broken(rule, format!("{how}: {told}; expected no change"), run);
                *stage = self.stage().await?;
                return Ok(());
            }
            Effect::None => {
                sheet.pass(rule, "the output of `observe` is the same before and after")
            }
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
            sheet.pass(
                &STRAY_WRITES,
                "no file was written in the directories of the run",
            );
        }
        Ok(())
    }
}

pub(super) static REFUSES: Rule = Rule {
    id: "AOI-06.refuses",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "A destructive command without its confirmation exits with a non-zero code and does \
              not have ok: true",
    why: "A caller that forgot the confirmation must learn that nothing was done.",
    hint: "Without --confirm, write one aoi:error and a summary with ok: false, exit 64, and do \
           nothing else.",
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
    hint: "Check for the confirmation before touching anything.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-01"],
};

pub(super) static PIPED_YES: Rule = Rule {
    id: "AOI-06.piped-yes",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "A `y` on stdin is not a confirmation",
    why: "Otherwise any piped input could delete something.",
    hint: "In machine mode, accept only the flag as a confirmation. Do not read stdin for it.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-01", "AOI-16.1-10"],
};

pub(super) static ENVIRONMENT: Rule = Rule {
    id: "AOI-06.environment",
    check: Check::Number(6),
    level: Level::Must,
    section: "§14.3",
    demands: "Environment variables such as CI=1 are not a confirmation",
    why: "A confirmation is explicit. An agent that runs in CI has confirmed nothing.",
    hint: "Do not accept an environment variable in place of --confirm.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-01", "AOI-16.1-10"],
};

pub(super) static PROMPT: Rule = Rule {
    id: "AOI-06.prompt",
    check: Check::Number(6),
    level: Level::Must,
    section: "§1.3",
    demands: "Machine mode never waits for input from a user, with or without a terminal",
    why: "Without a user, the caller waits until its own time limit.",
    hint: "Instead of prompting, write an aoi:error with code INTERACTIVE_REQUIRED, or reject the \
           command, and exit with a non-zero code.",
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
            ("not confirmed, stdin closed", Input::Closed, &REFUSES),
            ("not confirmed, `y` on stdin", yes(), &PIPED_YES),
            ("not confirmed, CI=1 YES=1", Input::Null, &ENVIRONMENT),
            ("not confirmed, on a terminal", Input::Terminal, &PROMPT),
        ];
        let mut patience = usual;
        for (what, input, rule) in ways {
            let mut call = self.sequence.bare(stage.id.as_deref());
            // Commands that read lines keep their input. For the others, stdin is what the probe
            // requires.
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
                _ if rule.id == PROMPT.id => {
                    sheet.pass(&PROMPT, "the command never waits for input")
                }
                _ => sheet.held(
                    rule,
                    "exits with a non-zero code and does not have ok: true",
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
    demands: "A wrong --confirm-count stops a bulk deletion before it starts",
    why: "The count guards against a pattern that matches more than intended.",
    hint: "Count first. If the number differs, exit with a non-zero code and category conflict, \
           and delete nothing.",
    topic: Topic::Confirm,
    register: &["AOI-14.3-02"],
};

impl Probe<'_, '_> {
    /// Runs the command with a wrong count, if it takes one.
    pub(super) async fn count(
        &self,
        sheet: &mut Sheet<'_>,
        stage: &mut Stage,
    ) -> Result<(), String> {
        let mut call = self.sequence.confirmed(stage.id.as_deref());
        let flag = call.words.iter().position(|word| word == "--confirm-count");
        let number = flag.and_then(|at| call.words.get_mut(at + 1));
        let Some(number) = number else {
            let why = "neither `ok` nor `confirm` contains --confirm-count";
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
            "a wrong count is rejected",
            refusal(&run),
            &run,
        );
        self.unchanged(sheet, &CONFIRM_COUNT, &run, stage).await
    }
}

pub(super) fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Why the run does not count as rejected, if it does not.
fn refusal(run: &Capture) -> Option<String> {
    if refused(run) || run.end == End::TimedOut {
        return None;
    }
    let seen = match run.end {
        End::Code(0) => "exit 0".to_owned(),
        End::Code(_) => "the summary has ok: true".to_owned(),
        other => other.told(),
    };
    let how = &run.probe;
    Some(format!(
        "{how}: {seen}; expected a non-zero exit code and no ok: true"
    ))
}

pub(super) fn waits(run: &Capture) -> String {
    let seconds = run.elapsed.as_secs_f64();
    format!("still waiting after {seconds:.1} s")
}

/// A run that may wait for a user. If it seems to wait, it is repeated with twice the time, because
/// the machine may be slow.
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
