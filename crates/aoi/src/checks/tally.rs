//! Combines many runs into one verdict on a rule: the first violation, or the number of passes.

use std::sync::Arc;

use crate::capture::Capture;
use crate::rules::Rule;
use crate::session::Judge;

#[derive(Default)]
pub struct Tally {
    wrong: Option<(String, Arc<Capture>)>,
    proofs: usize,
    proof: String,
    doubt: Option<String>,
}

impl Tally {
    /// Counts a run that could have violated the rule, but did not.
    pub fn held(&mut self, proof: impl Into<String>) {
        self.proofs += 1;
        if self.proof.is_empty() {
            self.proof = proof.into();
        }
    }

    pub fn wrong(&mut self, run: &Arc<Capture>, message: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            self.wrong = Some((message(), Arc::clone(run)));
        }
    }

    pub fn see(&mut self, run: &Arc<Capture>, wrong: Option<String>, proof: &str) {
        match wrong {
            Some(message) => self.wrong(run, || message),
            None => self.held(proof),
        }
    }

    /// Records that a necessary situation did not occur. The rule is then not verified, unless it
    /// was violated.
    pub fn doubt(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert_with(|| why.into());
    }

    pub fn is_broken(&self) -> bool {
        self.wrong.is_some()
    }

    /// Reports the verdict. `nothing` reports it if no run was relevant.
    pub fn settle(
        self,
        judge: Judge,
        rule: &'static Rule,
        nothing: impl FnOnce(Judge, &'static Rule),
    ) {
        match (self.wrong, self.doubt) {
            (Some((message, run)), _) => judge.broken(rule, message, &run),
            (None, Some(why)) => judge.not_verified(rule, why),
            (None, None) if self.proofs > 1 => {
                judge.pass(rule, format!("{} ({} times)", self.proof, self.proofs));
            }
            (None, None) if self.proofs == 1 => judge.pass(rule, self.proof),
            (None, None) => nothing(judge, rule),
        }
    }
}
