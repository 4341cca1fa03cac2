//! What a manifest says, and what this machine makes of it.

use serde::Serialize;

/// One statement of a policy, by its place in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Clause {
    /// JSON Pointer, such as `/sandbox/fs/deny/0`.
    pub pointer: String,
    /// The statement as people know it, such as `fs.deny ~/.ssh/**`.
    pub text: String,
}

impl Clause {
    pub fn new(pointer: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            text: text.into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// By what: `mount namespace`, `seccomp`, …
    Enforced { by: String },
    /// Why not, and what would help.
    Unenforceable { why: String },
}

/// A clause with its standing on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assessment {
    #[serde(flatten)]
    pub clause: Clause,
    #[serde(flatten)]
    pub standing: Standing,
    /// What an author should know although the clause holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
