//! Combines many runs into one verdict on a rule: the first violation, or the number of passes.

use std::sync::Arc;

use crate::capture::{Capture, PLAIN_RUN};
use crate::rules::Rule;
use crate::session::Reporter;

#[derive(Default)]
pub struct RuleTally {
    violation: Option<(String, Arc<Capture>)>,
    passes: usize,
    proof: String,
    unverified: Option<String>,
}

impl RuleTally {
    /// Counts a run that could have violated the rule, but did not.
    pub fn pass(&mut self, proof: impl Into<String>) {
        self.passes += 1;
        if self.proof.is_empty() {
            self.proof = proof.into();
        }
    }

    /// Records a violation. The plain run is preferred as evidence, because it is the easiest one to
    /// repeat.
    pub fn violation(&mut self, run: &Arc<Capture>, message: impl FnOnce() -> String) {
        let is_better = match &self.violation {
            None => true,
            Some((_, known)) => known.probe != PLAIN_RUN && run.probe == PLAIN_RUN,
        };
        if is_better {
            self.violation = Some((message(), Arc::clone(run)));
        }
    }

    pub fn record(&mut self, run: &Arc<Capture>, violation: Option<String>, proof: &str) {
        match violation {
            Some(message) => self.violation(run, || message),
            None => self.pass(proof),
        }
    }

    /// Records that a necessary situation did not occur. The rule is then not verified, unless it
    /// was violated.
    pub fn unverify(&mut self, why: impl Into<String>) {
        self.unverified.get_or_insert_with(|| why.into());
    }

    pub fn is_violated(&self) -> bool {
        self.violation.is_some()
    }

    /// Reports the verdict. `nothing` reports it if no run was relevant.
    pub fn report(
        self,
        reporter: Reporter,
        rule: &'static Rule,
        nothing: impl FnOnce(Reporter, &'static Rule),
    ) {
        match (self.violation, self.unverified) {
            (Some((message, run)), _) => reporter.violation(rule, message, &run),
            (None, Some(why)) => reporter.not_verified(rule, why),
            (None, None) if self.passes > 1 => {
                reporter.pass(rule, format!("{} ({} times)", self.proof, self.passes));
            }
            (None, None) if self.passes == 1 => reporter.pass(rule, self.proof),
            (None, None) => nothing(reporter, rule),
        }
    }
}
