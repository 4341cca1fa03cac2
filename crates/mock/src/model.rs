//! What all mutants and all variants have in common, whatever they are made of.

use std::ops::Deref;

/// One that is wrong in exactly one way.
pub struct Mutant<T> {
    pub id: &'static str,
    /// The statement or rule that it breaks; a judge is expected to name it.
    pub requirement: &'static str,
    /// What is wrong, in a sentence.
    pub wrong: &'static str,
    pub verdict: Verdict,
    pub made: T,
}

/// One that conforms, and does not look like the others.
pub struct Variant<T> {
    pub name: &'static str,
    /// How it is unlike others, in a sentence.
    pub what: &'static str,
    pub made: T,
}

/// What a judge is expected to say of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    Fail,
    /// The text only advises.
    Warn,
    NotVerified,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl<T> Mutant<T> {
    pub fn new(id: &'static str, requirement: &'static str, made: T) -> Mutant<T> {
        Mutant {
            id,
            requirement,
            wrong: "",
            verdict: Verdict::Fail,
            made,
        }
    }

    /// What is wrong.
    pub fn says(mut self, wrong: &'static str) -> Mutant<T> {
        self.wrong = wrong;
        self
    }

    /// Something that had better not be.
    pub fn warns(mut self) -> Mutant<T> {
        self.verdict = Verdict::Warn;
        self
    }
}

impl<T> Deref for Mutant<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.made
    }
}

impl<T> Deref for Variant<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.made
    }
}
