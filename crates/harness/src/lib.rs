//! Certification of agents: suites of cases, monitors, verdicts and reports.
//!
//! The cases of a suite talk to an agent over its raw wire (stdio or HTTP). Monitors check every
//! line. Each requirement of a spec gets a verdict and the wire lines that prove it.
//!
//! A [`Suite`] is parsed from YAML ([`suite::parse`]) or built in ([`suite::built_in`]). A
//! [`Launcher`] says what is certified: a command line, a bundle, or a session host that is already
//! running. [`run()`] runs the cases of the suites with a [`RunConfig`] and returns a [`Report`]. The
//! report has one [`CaseResult`] per requirement and case, with its [`Verdict`] and the
//! [`Evidence`] for it. [`render`] writes the report in every format.

#![deny(missing_docs)]

pub mod lifecycle;
pub mod model;
pub mod monitor;
mod probe;
pub mod profile;
pub mod render;
pub mod run;
pub mod sessions;
mod shape;
pub mod suite;
pub mod tck;

pub use lifecycle::BundleTarget;
pub use model::{CaseResult, Evidence, Level, Report, Target, Verdict};
pub use profile::Profile;
pub use run::process::{Launcher, Program, StartError};
pub use run::{
    LoginMethod, Progress, RunConfig, RunDirectory, RunOptions, RunResult, RunSecrets, run,
};
pub use sessions::HostTarget;
pub use suite::{Case, Requirement, Selection, Suite, SuiteProtocol};
