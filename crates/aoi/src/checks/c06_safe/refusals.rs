//! Runs without a confirmation, which must be rejected.

use std::time::Duration;

use super::{NO_OBSERVE, Probe, Setup, environment};
use crate::capture::{Capture, ExitKind};
use crate::model::CheckId;
use crate::observe::{Effect, Invocation, Mutation, was_rejected, why_unobserved};
use crate::rules::{Level, Rule, Topic};
use crate::run::StdinSource;
use crate::session::RunOptions;
use crate::verdicts::Verdicts;

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
    check: CheckId::Number(6),
    level: Level::Open,
    section: "§14.2",
    requirement: "Rejected commands and dry runs leave no files behind, except caches and logs",
    why: "Files written by a command that should do nothing are often half of a change.",
    hint: "Write nothing before it is clear that the change will happen. List caches and logs \
           under `caches` in the probe file.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-16.1-08"],
};

impl Probe<'_, '_> {
    /// Observes the state after a run that should change nothing.
    pub(super) async fn unchanged(
        &self,
        verdicts: &mut Verdicts<'_>,
        rule: &'static Rule,
        run: &std::sync::Arc<Capture>,
        setup: &mut Setup,
    ) -> Result<(), String> {
        let after = self.mutation.observe().await?;
        match setup.before.effect(&after) {
            Effect::Some { summary, .. } => {
                let how = &run.probe;
                verdicts.violation(rule, format!("{how}: {summary}; expected no change"), run);
                *setup = self.setup().await?;
                return Ok(());
            }
            Effect::None => {
                verdicts.pass(rule, "the output of `observe` is the same before and after")
            }
            Effect::Unknown => {
                verdicts.not_verified(rule, why_unobserved(self.mutation.session, NO_OBSERVE))
            }
        }
        if let Some(paths) = setup.before.written_files(&after) {
            verdicts.violation(
                &STRAY_WRITES,
                format!("{}: files written: {paths}", run.probe),
                run,
            );
            setup.before = after;
        } else {
            verdicts.pass(
                &STRAY_WRITES,
                "no file was written in the directories of the run",
            );
        }
        Ok(())
    }
}

pub(super) static REFUSES: Rule = Rule {
    id: "AOI-06.refuses",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.3",
    requirement: "A destructive command without its confirmation exits with a non-zero code and does \
              not have ok: true",
    why: "A caller that forgot the confirmation must learn that nothing was done.",
    hint: "Without --confirm, write one aoi:error and a summary with ok: false, exit 64, and do \
           nothing else.",
    topic: Topic::Confirm,
    requirement_ids: &[
        "AOI-14.3-01",
        "AOI-14.3-02",
        "AOI-16.1-10",
        "AOI-16.3-06",
        "AOI-18.2-06",
    ],
};

pub(super) static NO_EFFECT: Rule = Rule {
    id: "AOI-06.no-effect",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.3",
    requirement: "A destructive command without its confirmation changes nothing",
    why: "An error after the deletion is too late.",
    hint: "Check for the confirmation before touching anything.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.3-01"],
};

pub(super) static PIPED_YES: Rule = Rule {
    id: "AOI-06.piped-yes",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.3",
    requirement: "A `y` on stdin is not a confirmation",
    why: "Otherwise any piped input could delete something.",
    hint: "In machine mode, accept only the flag as a confirmation. Do not read stdin for it.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.3-01", "AOI-16.1-10"],
};

pub(super) static ENVIRONMENT: Rule = Rule {
    id: "AOI-06.environment",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§14.3",
    requirement: "Environment variables such as CI=1 are not a confirmation",
    why: "A confirmation is explicit. An agent that runs in CI has confirmed nothing.",
    hint: "Do not accept an environment variable in place of --confirm.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.3-01", "AOI-16.1-10"],
};

pub(super) static PROMPT: Rule = Rule {
    id: "AOI-06.prompt",
    check: CheckId::Number(6),
    level: Level::Must,
    section: "§1.3",
    requirement: "Machine mode never waits for input from a user, with or without a terminal",
    why: "Without a user, the caller waits until its own time limit.",
    hint: "Instead of prompting, write an aoi:error with code INTERACTIVE_REQUIRED, or reject the \
           command, and exit with a non-zero code.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-1.3-01", "AOI-1.3-03"],
};

impl Probe<'_, '_> {
    pub(super) async fn refusals(
        &self,
        verdicts: &mut Verdicts<'_>,
        setup: &mut Setup,
    ) -> Result<(), String> {
        let yes = || StdinSource::Bytes(b"y\n".to_vec());
        let usual = self.mutation.session.options.limit;
        let variables = environment::confirming(self.mutation).await;
        let all_set = |value: &str| -> Vec<(String, String)> {
            variables.iter().map(|name| variable(name, value)).collect()
        };
        let ci = vec![variable("CI", "1"), variable("YES", "1")];
        let none = Vec::new;
        let ways: [(&str, StdinSource, _, &'static Rule); 7] = [
            ("not confirmed", StdinSource::Null, none(), &REFUSES),
            (
                "not confirmed, stdin closed",
                StdinSource::Closed,
                none(),
                &REFUSES,
            ),
            ("not confirmed, `y` on stdin", yes(), none(), &PIPED_YES),
            (
                "not confirmed, CI=1 YES=1",
                StdinSource::Null,
                ci,
                &ENVIRONMENT,
            ),
            (
                "not confirmed, variables that could confirm set to 1",
                StdinSource::Null,
                all_set("1"),
                &ENVIRONMENT,
            ),
            (
                "not confirmed, variables that could confirm set to true",
                StdinSource::Null,
                all_set("true"),
                &ENVIRONMENT,
            ),
            (
                "not confirmed, on a terminal",
                StdinSource::Terminal,
                none(),
                &PROMPT,
            ),
        ];
        let mut patience = usual;
        for (what, input, env, rule) in ways {
            let mut call = self.mutation.unconfirmed(setup.id.as_deref());
            // Commands that read lines keep their input. For the others, stdin is what the probe
            // requires.
            if self.mutation.command.input.is_none() {
                call.input = input.clone();
            }
            let limit = match input {
                StdinSource::Terminal => patience,
                _ => usual,
            };
            let run = run_patiently(self.mutation, what, &call, &env, limit).await;
            if rule.id == REFUSES.id && run.end != ExitKind::TimedOut {
                patience = usual.min(SILENCE + 3 * run.elapsed);
            }
            match run.end {
                ExitKind::TimedOut => {
                    verdicts.violation(&PROMPT, format!("{what}: {}", wait_message(&run)), &run);
                }
                _ if rule.id == PROMPT.id => {
                    verdicts.pass(&PROMPT, "the command never waits for input")
                }
                _ => verdicts.decide(
                    rule,
                    "exits with a non-zero code and does not have ok: true",
                    not_rejected(&run),
                    &run,
                ),
            }
            self.unchanged(verdicts, &NO_EFFECT, &run, setup).await?;
        }
        Ok(())
    }
}

pub(super) static CONFIRM_COUNT: Rule = Rule {
    id: "AOI-adv.confirm-count",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§14.3",
    requirement: "A wrong --confirm-count stops a bulk deletion before it starts",
    why: "The count guards against a pattern that matches more than intended.",
    hint: "Count first. If the number differs, exit with a non-zero code and category conflict, \
           and delete nothing.",
    topic: Topic::Confirm,
    requirement_ids: &["AOI-14.3-02", "AOI-16.1-11"],
};

impl Probe<'_, '_> {
    /// Runs the command with a wrong count, if it takes one.
    pub(super) async fn count(
        &self,
        verdicts: &mut Verdicts<'_>,
        setup: &mut Setup,
    ) -> Result<(), String> {
        let mut call = self.mutation.confirmed(setup.id.as_deref());
        let flag = call.words.iter().position(|word| word == "--confirm-count");
        let number = flag.and_then(|at| call.words.get_mut(at + 1));
        let Some(number) = number else {
            let why = "neither `ok` nor `confirm` contains --confirm-count";
            verdicts.not_applicable(&CONFIRM_COUNT, why);
            return Ok(());
        };
        *number = match number.parse::<u64>() {
            Ok(count) => count.saturating_add(1000).to_string(),
            Err(_) => return Ok(()),
        };
        let run = self
            .mutation
            .run("wrong count", &call, RunOptions::default())
            .await;
        verdicts.decide(
            &CONFIRM_COUNT,
            "a wrong count is rejected",
            not_rejected(&run),
            &run,
        );
        self.unchanged(verdicts, &CONFIRM_COUNT, &run, setup).await
    }
}

pub(super) fn variable(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Why the run does not count as rejected, if it does not.
fn not_rejected(run: &Capture) -> Option<String> {
    if was_rejected(run) || run.end == ExitKind::TimedOut {
        return None;
    }
    let observed = match run.end {
        ExitKind::Code(0) => "exit 0".to_owned(),
        ExitKind::Code(_) => "the summary has ok: true".to_owned(),
        other => other.describe(),
    };
    let how = &run.probe;
    Some(format!(
        "{how}: {observed}; expected a non-zero exit code and no ok: true"
    ))
}

pub(super) fn wait_message(run: &Capture) -> String {
    let seconds = run.elapsed.as_secs_f64();
    format!("still waiting after {seconds:.1} s")
}

/// A run that may wait for a user. If it seems to wait, it is repeated with twice the time, because
/// the machine may be slow.
async fn run_patiently(
    mutation: &Mutation<'_>,
    what: &str,
    call: &Invocation,
    env: &[(String, String)],
    limit: Duration,
) -> std::sync::Arc<Capture> {
    let how = |limit| RunOptions {
        env: env.to_vec(),
        limit: Some(limit),
        ..RunOptions::default()
    };
    let run = mutation.run(what, call, how(limit)).await;
    match run.end {
        ExitKind::TimedOut if limit < mutation.session.options.limit => {
            mutation.run(what, call, how(2 * limit)).await
        }
        _ => run,
    }
}
