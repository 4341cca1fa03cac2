//! Verdicts of `certify` and `aoi-lint` on a requirement. A pass needs evidence.

use serde::{Deserialize, Serialize};

/// Result of checking a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The requirement is met, with evidence.
    Pass,
    /// The requirement is violated.
    Fail,
    /// A SHOULD requirement or a recommendation is violated.
    Warn,
    /// The user did not provide what the check needs, such as a prompt.
    Skip,
    /// The agent does not declare the feature.
    #[serde(rename = "n_a")]
    NotApplicable,
    /// The check ran, but nothing happened that could have violated the requirement.
    NotVerified,
    /// The check could not be completed.
    Error,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 7] = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Warn,
        Verdict::Skip,
        Verdict::NotApplicable,
        Verdict::NotVerified,
        Verdict::Error,
    ];

    /// Name in machine formats.
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
