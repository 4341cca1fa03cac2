//! AOI tools that are wrong in exactly one way.
//!
//! Each names the check of AOI-CLI §18.2 that must notice it, and a run in which it shows.

mod advisory;
mod bounds;
mod combine;
mod discover;
mod effects;
mod input;
mod pipes;
mod safe;
mod schema;
mod secrets;
mod summary;
mod tools;
mod typed;
mod usage;
mod versions;

use std::sync::LazyLock;

use crate::aoi::twist::Twist;
pub use crate::model::Verdict;

/// A tool that breaks a rule; a judge is expected to name it.
pub struct Broken {
    /// The arguments of a run in which it shows.
    pub shows: &'static [&'static str],
    pub scene: Scene,
    pub(crate) twists: Vec<Twist>,
}

/// Its id is `aoi-NN-…` for check NN, else `aoi-advisory-…`.
pub type Mutant = crate::model::Mutant<Broken>;

/// What is around the run.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub input: Option<&'static str>,
    /// Runs before it, with the same state.
    pub before: &'static [&'static [&'static str]],
    pub env: Option<(&'static str, &'static str)>,
    pub place: Place,
    /// It does not end by itself.
    pub hangs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Plain,
    /// Nobody reads stdout.
    ClosedPipe,
    /// Nobody reads stderr.
    ClosedStderr,
    /// Stdout is a full device.
    FullDevice,
    /// Stdout is a small pipe that is read late.
    SlowReader,
    /// There is no route to anywhere.
    NoNetwork,
    /// Stdout and the controlling terminal are one.
    Terminal,
    /// A signal comes after the first line.
    Signal(i32),
    /// Only the first line counts.
    FirstLine,
    /// A browser stands ready.
    Browser,
}

const PLAIN: Scene = Scene {
    input: None,
    before: &[],
    env: None,
    place: Place::Plain,
    hangs: false,
};

impl Mutant {
    /// The check of §18.2; none for the statements beyond them.
    pub fn check(&self) -> Option<u8> {
        self.id.strip_prefix("aoi-")?.get(..2)?.parse().ok()
    }
}

static ALL: LazyLock<Vec<Mutant>> = LazyLock::new(|| {
    let groups = [
        discover::mutants(),
        typed::mutants(),
        summary::mutants(),
        schema::mutants(),
        usage::mutants(),
        safe::mutants(),
        effects::mutants(),
        secrets::mutants(),
        pipes::mutants(),
        bounds::mutants(),
        input::mutants(),
        versions::mutants(),
        advisory::mutants(),
    ];
    groups.into_iter().flatten().collect()
});

pub fn all() -> impl Iterator<Item = &'static Mutant> {
    ALL.iter()
}
