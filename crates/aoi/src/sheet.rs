//! Collects one verdict per rule and command, in whatever order the runs produce them.

use std::sync::Arc;

use crate::capture::Capture;
use crate::rules::Rule;
use crate::session::Judge;

enum Row {
    Broken(String, Arc<Capture>),
    NotVerified(String),
    Skip(String),
    Pass(String),
    NotApplicable(String),
}

impl Row {
    /// A violation outweighs everything. An observation that was not possible outweighs a pass.
    fn weight(&self) -> u8 {
        match self {
            Row::Broken(..) => 4,
            Row::NotVerified(_) => 3,
            Row::Skip(_) => 2,
            Row::Pass(_) => 1,
            Row::NotApplicable(_) => 0,
        }
    }
}

/// Verdicts collected so far for one command. `settle` reports them.
pub struct Sheet<'s> {
    judge: Judge<'s>,
    rows: Vec<(&'static Rule, Row)>,
}

impl<'s> Sheet<'s> {
    pub fn new(judge: Judge<'s>) -> Sheet<'s> {
        let rows = Vec::new();
        Sheet { judge, rows }
    }

    /// Keeps the verdict with the higher weight, or the first of two with the same weight.
    fn put(&mut self, rule: &'static Rule, row: Row) {
        match self.rows.iter_mut().find(|(known, _)| known.id == rule.id) {
            Some((_, old)) if row.weight() > old.weight() => *old = row,
            Some(_) => {}
            None => self.rows.push((rule, row)),
        }
    }

    pub fn broken(&mut self, rule: &'static Rule, why: impl Into<String>, run: &Arc<Capture>) {
        self.put(rule, Row::Broken(why.into(), Arc::clone(run)));
    }

    pub fn pass(&mut self, rule: &'static Rule, proof: impl Into<String>) {
        self.put(rule, Row::Pass(proof.into()));
    }

    pub fn not_verified(&mut self, rule: &'static Rule, why: impl Into<String>) {
        self.put(rule, Row::NotVerified(why.into()));
    }

    pub fn skip(&mut self, rule: &'static Rule, why: impl Into<String>) {
        self.put(rule, Row::Skip(why.into()));
    }

    pub fn not_applicable(&mut self, rule: &'static Rule, why: impl Into<String>) {
        self.put(rule, Row::NotApplicable(why.into()));
    }

    pub fn held(
        &mut self,
        rule: &'static Rule,
        proof: &str,
        wrong: Option<String>,
        run: &Arc<Capture>,
    ) {
        match wrong {
            Some(message) => self.broken(rule, message, run),
            None => self.pass(rule, proof),
        }
    }

    /// Turns a pass of these rules into `not_verified`. Violations stay.
    pub fn doubt(&mut self, rules: &[&'static Rule], why: &str) {
        for rule in rules {
            self.not_verified(rule, why);
        }
    }

    /// Discards all verdicts on these rules, because the resource changed during the probe.
    pub fn withdraw(&mut self, rules: &[&'static Rule], why: &str) {
        let is_one = |rule: &Rule| rules.iter().any(|other| other.id == rule.id);
        self.rows.retain(|(rule, _)| !is_one(rule));
        self.doubt(rules, why);
    }

    /// Reports every verdict. A rule of the list without a verdict is `not_verified` with
    /// `not_reached`.
    pub fn settle(mut self, rules: &[&'static Rule], not_reached: &str) {
        for rule in rules {
            if !self.rows.iter().any(|(known, _)| known.id == rule.id) {
                self.not_verified(rule, not_reached);
            }
        }
        let judge = self.judge;
        for (rule, row) in self.rows {
            match row {
                Row::Broken(why, run) => judge.broken(rule, why, &run),
                Row::NotVerified(why) => judge.not_verified(rule, why),
                Row::Skip(why) => judge.skip(rule, why),
                Row::Pass(proof) => judge.pass(rule, proof),
                Row::NotApplicable(why) => judge.not_applicable(rule, why),
            }
        }
    }
}
