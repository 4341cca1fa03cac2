//! AOI tools that are wrong in exactly one way.
//!
//! Each mutant names the check of AOI-CLI §18.2 that must find it, and a run in which the defect is
//! visible.

mod advisory;
mod bounds;
mod combine;
mod discover;
mod effects;
mod errors;
mod input;
mod pipes;
mod safe;
mod schema;
mod secrets;
mod subtle;
mod summary;
mod tools;
mod typed;
mod usage;
mod versions;

use std::sync::LazyLock;

use crate::aoi::changes::Change;
pub use crate::model::ExpectedVerdict;

/// How a mutant differs from the conforming tool.
pub struct AoiDefect {
    /// Requirements of the register that it violates. Empty if its rule decides only one.
    pub violates: &'static [&'static str],
    /// Arguments of a run in which the defect is visible.
    pub run_args: &'static [&'static str],
    /// Environment of that run.
    pub setup: RunSetup,
    pub(crate) changes: Vec<Change>,
}

/// AOI mutant. Its id is `aoi-NN-…` for check NN, otherwise `aoi-advisory-…`.
pub type AoiMutant = crate::model::Mutant<AoiDefect>;

/// Environment of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSetup {
    /// Text on stdin.
    pub input: Option<&'static str>,
    /// Arguments of earlier runs with the same state.
    pub before: &'static [&'static [&'static str]],
    /// Name and value of an extra environment variable.
    pub env: Option<(&'static str, &'static str)>,
    /// Special condition of the run.
    pub condition: RunCondition,
    /// Whether the mutant does not exit by itself.
    pub hangs: bool,
}

/// Special condition of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCondition {
    /// No special condition.
    Plain,
    /// The reader of stdout has closed the pipe.
    ClosedPipe,
    /// The reader of stderr has closed the pipe.
    ClosedStderr,
    /// stdout is a full device.
    FullDevice,
    /// stdout is a small pipe that is read late.
    SlowReader,
    /// There is no network.
    NoNetwork,
    /// stdout is the controlling terminal.
    Terminal,
    /// The process gets this signal after its first line.
    Signal(i32),
    /// Only the first line is compared.
    FirstLine,
    /// A browser is installed.
    Browser,
}

const PLAIN: RunSetup = RunSetup {
    input: None,
    before: &[],
    env: None,
    condition: RunCondition::Plain,
    hangs: false,
};

impl AoiMutant {
    /// Number of the check of §18.2, or `None` for requirements that no check covers.
    pub fn check(&self) -> Option<u8> {
        self.id.strip_prefix("aoi-")?.get(..2)?.parse().ok()
    }
}

static ALL: LazyLock<Vec<AoiMutant>> = LazyLock::new(|| {
    let groups = [
        discover::mutants(),
        typed::mutants(),
        summary::mutants(),
        schema::mutants(),
        usage::mutants(),
        safe::mutants(),
        effects::mutants(),
        errors::mutants(),
        secrets::mutants(),
        pipes::mutants(),
        bounds::mutants(),
        input::mutants(),
        versions::mutants(),
        advisory::mutants(),
        subtle::mutants(),
    ];
    groups.into_iter().flatten().collect()
});

/// All AOI mutants.
pub fn all() -> impl Iterator<Item = &'static AoiMutant> {
    ALL.iter()
}
