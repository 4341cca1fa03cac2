//! AOI tools that are wrong in exactly one way.
//!
//! Each names the check of AOI-CLI §18.2 that must notice it, and a run in which it shows.

mod advisory;
mod bounds;
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

use crate::aoi::twist::Twist;

pub struct Mutant {
    /// `aoi-NN-…` for check NN, else `aoi-advisory-…`.
    pub id: &'static str,
    /// The rule that a judge is expected to name.
    pub rule: &'static str,
    pub verdict: Verdict,
    /// What is wrong, in a sentence.
    pub wrong: &'static str,
    /// The arguments of a run in which it shows.
    pub shows: &'static [&'static str],
    pub scene: Scene,
    pub(crate) twists: [Option<Twist>; 2],
}

/// What a judge is expected to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fail,
    Warn,
    NotVerified,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Fail => "fail",
            Verdict::Warn => "warn",
            Verdict::NotVerified => "not_verified",
        }
    }
}

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

pub(super) const fn mutant(
    id: &'static str,
    rule: &'static str,
    wrong: &'static str,
    shows: &'static [&'static str],
    twist: Twist,
) -> Mutant {
    Mutant {
        id,
        rule,
        verdict: Verdict::Fail,
        wrong,
        shows,
        scene: PLAIN,
        twists: [Some(twist), None],
    }
}

impl Mutant {
    const fn warns(mut self) -> Mutant {
        self.verdict = Verdict::Warn;
        self
    }
    const fn proves_nothing(mut self) -> Mutant {
        self.verdict = Verdict::NotVerified;
        self
    }
    const fn input(mut self, input: &'static str) -> Mutant {
        self.scene.input = Some(input);
        self
    }
    const fn after(mut self, before: &'static [&'static [&'static str]]) -> Mutant {
        self.scene.before = before;
        self
    }
    const fn env(mut self, name: &'static str, value: &'static str) -> Mutant {
        self.scene.env = Some((name, value));
        self
    }
    const fn at(mut self, place: Place) -> Mutant {
        self.scene.place = place;
        self
    }
    const fn hangs(mut self) -> Mutant {
        self.scene.hangs = true;
        self
    }
    /// Where one place is not enough for one defect.
    const fn and(mut self, twist: Twist) -> Mutant {
        self.twists[1] = Some(twist);
        self
    }

    /// The check of §18.2; none for the statements beyond them.
    pub fn check(&self) -> Option<u8> {
        self.id.strip_prefix("aoi-")?.get(..2)?.parse().ok()
    }
}

pub fn all() -> impl Iterator<Item = &'static Mutant> {
    let groups = [
        discover::MUTANTS,
        typed::MUTANTS,
        summary::MUTANTS,
        schema::MUTANTS,
        usage::MUTANTS,
        safe::MUTANTS,
        effects::MUTANTS,
        secrets::MUTANTS,
        pipes::MUTANTS,
        bounds::MUTANTS,
        input::MUTANTS,
        versions::MUTANTS,
        advisory::MUTANTS,
    ];
    groups.into_iter().flatten()
}
