//! Who watches a run: each stage of the lifecycle is told as it begins.

/// The lifecycle in its order (A45-SETUP-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Stage {
    Discover,
    Install,
    VersionCheck,
    Setup,
    Auth,
    Spawn,
    Handshake,
    Session,
    Turn,
    Close,
    Teardown,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Hears what happens around the events of a turn. Texts hold no secrets.
pub trait Observer: Send + Sync {
    /// A stage begins; `detail` says what it works on.
    fn stage(&self, stage: Stage, detail: &str);
    /// Something went on within a stage: a download, a package manager's line.
    fn progress(&self, stage: Stage, text: &str);
    /// Something is odd and the run goes on; `code` is stable.
    fn warning(&self, code: &str, message: &str);
    /// A line that the agent wrote to standard error.
    fn stderr(&self, _line: &str) {}
}

/// Nobody.
pub struct Silent;

impl Observer for Silent {
    fn stage(&self, _: Stage, _: &str) {}
    fn progress(&self, _: Stage, _: &str) {}
    fn warning(&self, _: &str, _: &str) {}
}
