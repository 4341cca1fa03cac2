//! One rule over many runs: the first that broke it, or how often it was held.

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
    /// A run that could have broken the rule and did not.
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

    /// Something that had to be reached was not: whatever was held, the rule is not proven.
    pub fn doubt(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert_with(|| why.into());
    }

    pub fn is_broken(&self) -> bool {
        self.wrong.is_some()
    }

    /// The one row of the rule; `nothing` says it where no run bore on it.
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
