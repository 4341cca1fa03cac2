//! Observers of a run. They are notified when each stage of the lifecycle starts.

/// The stages of the lifecycle, in order (A45-SETUP-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Stage {
    /// Finding the manifest.
    Discover,
    /// Finding or installing the program.
    Install,
    /// Checking the program's version.
    VersionCheck,
    /// Running setup steps.
    Setup,
    /// Checking the login.
    Auth,
    /// Starting the agent.
    Spawn,
    /// Negotiating the protocol.
    Handshake,
    /// Opening or resuming a session.
    Session,
    /// Running a turn.
    Turn,
    /// Closing the session.
    Close,
    /// Ending the agent process.
    Teardown,
}

impl Stage {
    /// The stage as text, for example `version_check`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Receives what happens around the events of a turn. Texts contain no secrets.
pub trait Observer: Send + Sync {
    /// A stage starts. `detail` names its subject, such as a program or a session.
    fn stage(&self, stage: Stage, detail: &str);
    /// Progress within a stage, such as a download or a line of a package manager.
    fn progress(&self, stage: Stage, text: &str);
    /// A problem that does not stop the run. `code` is stable.
    fn warning(&self, code: &str, message: &str);
    /// A line that the agent wrote to stderr.
    fn stderr(&self, _line: &str) {}
}

/// An observer that ignores everything.
pub struct Silent;

impl Observer for Silent {
    fn stage(&self, _: Stage, _: &str) {}
    fn progress(&self, _: Stage, _: &str) {}
    fn warning(&self, _: &str, _: &str) {}
}
