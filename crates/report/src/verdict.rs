//! What the harness and the AOI engine say of a requirement. Success without proof is none.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    /// Something that SHOULD not be, or that a note says one had better not do.
    Warn,
    /// The caller did not give what it takes: no prompt that leads there.
    Skip,
    /// The agent does not claim what this is about.
    #[serde(rename = "n_a")]
    NotApplicable,
    /// It ran, and nothing happened that could have been wrong.
    NotVerified,
    /// The harness could not judge.
    Error,
}

impl Verdict {
    pub const ALL: [Verdict; 7] = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Warn,
        Verdict::Skip,
        Verdict::NotApplicable,
        Verdict::NotVerified,
        Verdict::Error,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::Warn => "warn",
            Verdict::Skip => "skip",
            Verdict::NotApplicable => "n_a",
            Verdict::NotVerified => "not_verified",
            Verdict::Error => "error",
        }
    }
}
