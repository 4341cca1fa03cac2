//! Data that all kinds of mutants and variants have in common.

use std::ops::Deref;

/// Implementation with exactly one known defect.
pub struct Mutant<T> {
    /// Name on the command line.
    pub id: &'static str,
    /// Requirement or rule that it violates. A check is expected to report it.
    pub requirement: &'static str,
    /// Description of the defect, one sentence.
    pub defect: &'static str,
    /// Expected verdict of the check.
    pub verdict: ExpectedVerdict,
    /// What makes it behave wrongly.
    pub data: T,
}

/// Conforming implementation that behaves differently from the default.
pub struct Variant<T> {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the difference, one sentence.
    pub description: &'static str,
    /// What makes it behave differently.
    pub data: T,
}

/// Verdict that a check is expected to give for a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ExpectedVerdict {
    /// The mutant violates a mandatory requirement.
    Fail,
    /// The mutant violates a recommendation.
    Warn,
    /// The check cannot verify the requirement.
    NotVerified,
}

impl ExpectedVerdict {
    /// Name in reports, in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl<T> Mutant<T> {
    /// Creates a mutant without a description whose expected verdict is a failure.
    pub fn new(id: &'static str, requirement: &'static str, data: T) -> Mutant<T> {
        Mutant {
            id,
            requirement,
            defect: "",
            verdict: ExpectedVerdict::Fail,
            data,
        }
    }

    /// Sets the description of the defect.
    pub fn describe(mut self, defect: &'static str) -> Mutant<T> {
        self.defect = defect;
        self
    }

    /// Sets the expected verdict to a warning.
    pub fn expect_warning(mut self) -> Mutant<T> {
        self.verdict = ExpectedVerdict::Warn;
        self
    }
}

impl<T> Deref for Mutant<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> Deref for Variant<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.data
    }
}
