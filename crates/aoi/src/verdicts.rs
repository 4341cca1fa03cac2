//! Collects one verdict per rule and command, in whatever order the runs produce them.

use std::sync::Arc;

use crate::capture::Capture;
use crate::rules::Rule;
use crate::session::Reporter;

enum Entry {
    Violated(String, Arc<Capture>),
    NotVerified(String),
    Skip(String),
    Pass(String),
    NotApplicable(String),
}

impl Entry {
    /// A violation outweighs everything. An observation that was not possible outweighs a pass.
    fn rank(&self) -> u8 {
        match self {
            Entry::Violated(..) => 4,
            Entry::NotVerified(_) => 3,
            Entry::Skip(_) => 2,
            Entry::Pass(_) => 1,
            Entry::NotApplicable(_) => 0,
        }
    }
}

/// Verdicts collected so far for one command. `report` reports them.
pub struct Verdicts<'s> {
    reporter: Reporter<'s>,
    entries: Vec<(&'static Rule, Entry)>,
}

impl<'s> Verdicts<'s> {
    pub fn new(reporter: Reporter<'s>) -> Verdicts<'s> {
        let entries = Vec::new();
        Verdicts { reporter, entries }
    }

    /// Keeps the verdict with the higher weight, or the first of two with the same weight.
    fn keep(&mut self, rule: &'static Rule, entry: Entry) {
        match self
            .entries
            .iter_mut()
            .find(|(known, _)| known.id == rule.id)
        {
            Some((_, old)) if entry.rank() > old.rank() => *old = entry,
            Some(_) => {}
            None => self.entries.push((rule, entry)),
        }
    }

    pub fn violation(&mut self, rule: &'static Rule, why: impl Into<String>, run: &Arc<Capture>) {
        self.keep(rule, Entry::Violated(why.into(), Arc::clone(run)));
    }

    pub fn pass(&mut self, rule: &'static Rule, proof: impl Into<String>) {
        self.keep(rule, Entry::Pass(proof.into()));
    }

    pub fn not_verified(&mut self, rule: &'static Rule, why: impl Into<String>) {
        self.keep(rule, Entry::NotVerified(why.into()));
    }

    pub fn skip(&mut self, rule: &'static Rule, why: impl Into<String>) {
        self.keep(rule, Entry::Skip(why.into()));
    }

    pub fn not_applicable(&mut self, rule: &'static Rule, why: impl Into<String>) {
        self.keep(rule, Entry::NotApplicable(why.into()));
    }

    pub fn decide(
        &mut self,
        rule: &'static Rule,
        proof: &str,
        violation: Option<String>,
        run: &Arc<Capture>,
    ) {
        match violation {
            Some(message) => self.violation(rule, message, run),
            None => self.pass(rule, proof),
        }
    }

    /// Turns a pass of these rules into `not_verified`. Violations stay.
    pub fn unverify(&mut self, rules: &[&'static Rule], why: &str) {
        for rule in rules {
            self.not_verified(rule, why);
        }
    }

    /// Discards all verdicts on these rules, because the resource changed during the probe.
    pub fn discard(&mut self, rules: &[&'static Rule], why: &str) {
        let is_one = |rule: &Rule| rules.iter().any(|other| other.id == rule.id);
        self.entries.retain(|(rule, _)| !is_one(rule));
        self.unverify(rules, why);
    }

    /// Reports every verdict. A rule of the list without a verdict is `not_verified` with
    /// `not_reached`.
    pub fn report(mut self, rules: &[&'static Rule], not_reached: &str) {
        for rule in rules {
            if !self.entries.iter().any(|(known, _)| known.id == rule.id) {
                self.not_verified(rule, not_reached);
            }
        }
        let reporter = self.reporter;
        for (rule, entry) in self.entries {
            match entry {
                Entry::Violated(why, run) => reporter.violation(rule, why, &run),
                Entry::NotVerified(why) => reporter.not_verified(rule, why),
                Entry::Skip(why) => reporter.skip(rule, why),
                Entry::Pass(proof) => reporter.pass(rule, proof),
                Entry::NotApplicable(why) => reporter.not_applicable(rule, why),
            }
        }
    }
}
