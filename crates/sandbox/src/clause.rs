//! The clauses of a manifest, and how this machine enforces them.

use serde::Serialize;

/// One clause of a policy, identified by its position in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Clause {
    /// JSON Pointer, such as `/sandbox/fs/deny/0`.
    pub pointer: String,
    /// The clause in short form, such as `fs.deny ~/.ssh/**`.
    pub text: String,
}

impl Clause {
    /// A clause with this pointer and text.
    pub fn new(pointer: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            text: text.into(),
        }
    }
}

/// Start of `Enforcement::Enforced::by` for a clause that grants nothing on this machine, such as a
/// program that is not installed.
pub const NO_EFFECT: &str = "no effect: ";

/// Start of `Enforcement::Enforced::by` for a clause that allows everything, so that nothing is
/// left to enforce.
pub const GRANTS_ALL: &str = "grants everything: ";

/// Whether a clause is enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Enforcement {
    /// The clause is enforced.
    Enforced {
        /// How it is enforced.
        by: String,
    },
    /// The clause cannot be enforced.
    Unenforceable {
        /// The reason, and what would help.
        why: String,
    },
}

/// A clause and whether it is enforced on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assessment {
    /// The clause.
    #[serde(flatten)]
    pub clause: Clause,
    /// Whether it is enforced.
    #[serde(flatten)]
    pub enforcement: Enforcement,
    /// What an author should know although the clause is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
