//! A dry run with an idempotency key, followed by the real run with the same key.

use super::{Probe, key};
use crate::model::CheckId;
use crate::observe::{Effect, declares, succeeded};
use crate::rules::{Level, Rule, Topic};
use crate::session::RunOptions;
use crate::verdicts::Verdicts;

pub(super) static DRY_RUN_KEY: Rule = Rule {
    id: "AOI-07.dry-run-key",
    check: CheckId::Number(7),
    level: Level::Must,
    section: "§14.2, §18.2",
    requirement: "A dry run does not use up the idempotency key",
    why: "A caller that plans first and then applies with the same key gets a replay of the plan, \
          and nothing is done.",
    hint: "Store the key together with the change, and only if there is a change.",
    topic: Topic::Idempotency,
    requirement_ids: &["AOI-16.1-08", "AOI-18.2-06"],
};

impl Probe<'_, '_> {
    pub(super) async fn dry_run(&self, verdicts: &mut Verdicts<'_>) -> Result<(), String> {
        let mutation = self.mutation;
        let flag = match &mutation.command.dry_run {
            Some(flag) => flag.clone(),
            None if declares(mutation.session, mutation.command, "supports_dry_run") => {
                "--dry-run".to_owned()
            }
            None => {
                let why = "the command does not advertise a dry run";
                verdicts.not_applicable(&DRY_RUN_KEY, why);
                return Ok(());
            }
        };
        let (call, before) = self.fresh().await?;
        let call = self.keyed(&call, &key(mutation.session));
        let plan = call.with(&[flag]);
        let planned = mutation
            .run("dry run with a key", &plan, RunOptions::default())
            .await;
        if !succeeded(&planned) {
            let end = planned.end.describe();
            let why = format!("a dry run with a key is not accepted: {end}");
            verdicts.not_applicable(&DRY_RUN_KEY, why);
            return Ok(());
        }
        let after = mutation.observe().await?;
        if before.effect(&after).is_some() {
            verdicts.not_verified(&DRY_RUN_KEY, "the dry run changes something (check 6)");
            return Ok(());
        }
        let done = self
            .run_and_observe("the key of a dry run", &call, &after)
            .await?;
        let violation = match &done.effect {
            _ if !succeeded(&done.run) => Some(format!(
                "after a dry run, the command fails with the same key: {}",
                done.run.end.describe()
            )),
            Effect::None => Some(
                "after a dry run, the command with the same key has ok: true, but changes nothing"
                    .to_owned(),
            ),
            Effect::Some { .. } => None,
            Effect::Unknown => {
                verdicts.not_verified(&DRY_RUN_KEY, self.why_unobserved());
                return Ok(());
            }
        };
        let proof = "the key still works after a dry run";
        verdicts.decide(&DRY_RUN_KEY, proof, violation, &done.run);
        Ok(())
    }
}
