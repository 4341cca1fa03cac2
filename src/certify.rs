//! Certify an agent: run conformance suites against it, and get a report with one verdict per
//! requirement.
//!
//! ```no_run
//! # async fn certify() -> Result<(), Box<dyn std::error::Error>> {
//! let report = agentproto::certify::command(["my-agent", "acp"])
//!     .only(["PT-01", "TR-03"])
//!     .run()
//!     .await?;
//! for failure in agentproto::certify::failures(&report) {
//!     eprintln!("{}: {}", failure.requirement, failure.message);
//! }
//! assert_eq!(report.summary.fail, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Call [`crate::init`] first in `main`.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use agentproto_harness::render::Format;
use agentproto_harness::run::{command, prompts};
pub use agentproto_harness::suite::LoadError;
pub use agentproto_harness::{
    CaseResult, Evidence, Level, Profile, Report, StartError, Target, Verdict,
};
use agentproto_harness::{
    Launcher, LoginMethod, RunConfig, RunDirectory, RunOptions, RunSecrets, Selection, Suite,
    render, suite,
};

/// Certifies an agent by its command line: the program, then its arguments.
pub fn command<S: Into<OsString>>(argv: impl IntoIterator<Item = S>) -> Certification {
    Certification::new(Agent::Command(argv.into_iter().map(Into::into).collect()))
}

/// Certifies a built-in mock agent: `acp`, `acp-v2` or `mcp`. It shows what a report looks like.
pub fn mock(kind: impl Into<String>) -> Certification {
    Certification::new(Agent::Mock(kind.into()))
}

/// The results that make a run fail.
pub fn failures(report: &Report) -> impl Iterator<Item = &CaseResult> {
    let results = report.results.iter();
    results.filter(|result| matches!(result.verdict, Verdict::Fail | Verdict::Error))
}

/// Writes a report in one of the formats of `agentproto certify --output`.
pub fn render(report: &Report, format: Format) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = render::render(format, report, &render::RenderOptions::default(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum CertifyError {
    /// The suite is unknown, or its file cannot be read or is invalid.
    #[error(transparent)]
    Suite(#[from] LoadError),
    /// A name given to [`Certification::only`] is neither a requirement, a chapter, a section nor a
    /// case of the suites.
    #[error("unknown requirement or case `{0}`")]
    UnknownId(String),
    /// The program cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A directory for the run cannot be created.
    #[error("cannot create a directory for the run: {0}")]
    Directory(#[from] io::Error),
}

enum Agent {
    Command(Vec<OsString>),
    Mock(String),
}

/// A certification that is being configured. [`Certification::run`] runs it.
#[must_use]
pub struct Certification {
    agent: Agent,
    suites: Vec<String>,
    only: Vec<String>,
    env: Vec<(String, String)>,
    prompts: Vec<(String, String)>,
    timeout: Option<Duration>,
    jobs: Option<usize>,
    profile: Option<Profile>,
}

impl Certification {
    fn new(agent: Agent) -> Self {
        Certification {
            agent,
            suites: Vec::new(),
            only: Vec::new(),
            env: Vec::new(),
            prompts: Vec::new(),
            timeout: None,
            jobs: None,
            profile: None,
        }
    }

    /// Adds a suite: `acp` (the default), `mcp`, `open-design`, `acp-v2-draft`, or a YAML file.
    pub fn suite(mut self, name: impl Into<String>) -> Self {
        self.suites.push(name.into());
        self
    }

    /// Runs only these requirements (`PT-11`), chapters (`PT`), sections or cases.
    pub fn only<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.only.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the agent's environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Says which prompt makes the agent do something, for example `tool` (call a tool). Cases that
    /// need a prompt without a text are skipped.
    pub fn prompt(mut self, key: impl Into<String>, text: impl Into<String>) -> Self {
        self.prompts.push((key.into(), text.into()));
        self
    }

    /// Sets the time limit for a response. The default is 30 seconds.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets how many cases run in parallel. The default is two per processor.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = Some(jobs);
        self
    }

    /// Sets which MUST requirements decide. The default is [`Profile::Core`], or
    /// [`Profile::Strict`] for selected requirements.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Runs the cases. The report contains every verdict, whatever the agent does.
    ///
    /// # Errors
    /// A suite or an id is unknown, or the program cannot be started.
    pub async fn run(self) -> Result<Report, CertifyError> {
        let default = match &self.agent {
            Agent::Mock(name) => command::mock_named(name)?.1,
            Agent::Command(_) => command::DEFAULT_SUITE,
        };
        let names = match self.suites.as_slice() {
            [] => vec![default.to_owned()],
            names => names.to_vec(),
        };
        let suites = names.iter().map(|name| suite::load(name));
        let suites: Vec<Suite> = suites.collect::<Result<_, _>>()?;
        let only = Selection::new(&self.only, &suites)
            .map_err(|unknown| CertifyError::UnknownId(unknown.word))?;
        let (target, program) = match &self.agent {
            Agent::Command(argv) => command::command(argv.clone(), &self.env)?,
            Agent::Mock(name) => command::mock(name, &self.env)?,
        };
        let is_mock = matches!(self.agent, Agent::Mock(_));
        let launcher = Launcher::Program(program);
        let mut known = match is_mock {
            true => prompts::mock_prompts(),
            false => prompts::default_prompts(),
        };
        known.extend(self.prompts);
        let default = RunConfig::new(launcher, RunDirectory::new("certify")?);
        let config = RunConfig {
            secrets: RunSecrets::new(&self.env, &default.launcher),
            prompts: known,
            timeout: self.timeout.unwrap_or(default.timeout),
            login: if is_mock {
                LoginMethod::First
            } else {
                LoginMethod::No
            },
            state_variable: is_mock.then_some("MOCK_STATE_DIR"),
            ..default
        };
        let default = RunOptions::default();
        let options = RunOptions {
            jobs: self.jobs.unwrap_or(default.jobs),
            profile: self.profile.unwrap_or(match self.only.is_empty() {
                true => Profile::Core,
                false => Profile::Strict,
            }),
            only,
            ..default
        };
        let selected = options.only.clone();
        let ran = agentproto_harness::run(Arc::new(suites), target, config, options, Arc::new(()));
        let mut report = ran.await.report;
        report.retain_selected(&selected);
        Ok(report)
    }
}
