//! Certification: suites of cases drive an agent over its raw wire, monitors watch every line,
//! and each statement of a spec gets a verdict with the lines that prove it.
//!
//! A [`Suite`] is read from YAML ([`suite::parse`]) or built in ([`suite::built_in`]). A
//! [`Launcher`] says what is certified: a command line, a bundle, or a host that runs already.
//! [`run()`] plays the cases of the suites in a [`Setting`] and returns a [`Report`]: one
//! [`CaseResult`] per statement, with its [`Verdict`] and the [`Evidence`] for it. [`render`]
//! writes the report in every format.

pub mod lifecycle;
pub mod model;
pub mod monitor;
mod probe;
pub mod render;
pub mod run;
pub mod sessions;
mod shape;
pub mod suite;

pub use lifecycle::BundleTarget;
pub use model::{CaseResult, Evidence, Level, Report, Target, Verdict};
pub use run::process::{Launcher, Program, StartError};
pub use run::{Login, Options, Progress, Ran, Secrets, Setting, Workspace, run};
pub use sessions::HostTarget;
pub use suite::{Case, Protocol, Requirement, Selection, Suite};
