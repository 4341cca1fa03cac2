//! Checks what a command-line tool does in machine mode against AOI-CLI v0.2, per characteristic
//! and per command.
//!
//! `probe` describes what may be done with the tool. `session` runs it (`run`, `isolation`).
//! `checks` evaluate the output (`stream`, `capture`), and `model` holds the findings. A rule
//! passes only if some run could have violated it.

#![deny(missing_docs)]

mod adapt;
pub mod canary;
mod capture;
mod checks;
mod cleanup;
mod compat;
mod cpu_wait;
pub mod guess;
mod hints;
pub mod init;
pub mod isolation;
mod mismatch;
pub mod model;
mod observe;
pub mod probe;
pub mod render;
pub mod rules;
pub mod run;
mod schema;
pub mod session;
pub mod shared;
mod stack_trace;
mod stdio;
mod stream;
mod verdicts;

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use agentproto_manifest::fields::FieldError;
use model::{Report, Timing, Tool, ToolUnderTest};
use probe::ProbeSpec;
use session::{LintOptions, LintSession};
use shared::{RunSlots, SharedEnvironment};

/// Why no report could be produced.
#[derive(Debug, thiserror::Error)]
pub enum LintError {
    /// The program was not found: the word that names it.
    #[error("program not found: `{0}`")]
    NoProgram(String),
    /// The file exists, but is not executable: the word that names it.
    #[error("`{0}` is not executable")]
    NotExecutable(String),
    /// Every run failed to start: the last reason.
    #[error("cannot start the tool: {0}")]
    NotStarted(String),
    /// Commands in the probe file that the tool does not list, each with its position.
    #[error("the probe file does not match the tool")]
    ProbeMismatch(Vec<FieldError>),
    /// A `setup` program of the probe file failed.
    #[error("{}", .0.message)]
    Setup(FieldError),
    /// The operating system refused a new thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The temporary directory for the runs could not be created.
    #[error("cannot create a directory for the runs: {0}")]
    RunDirectory(#[source] std::io::Error),
}

/// Runs every check that the probe allows. Setting `stop` ends the run early with a partial report.
pub async fn lint(
    probe: ProbeSpec,
    options: LintOptions,
    stop: &'static AtomicBool,
) -> Result<Report, LintError> {
    let begun = Instant::now();
    let shared = shared_environment(&probe, RunSlots::new(options.jobs)).await?;
    lint_in(&shared, begun, probe, options, stop).await
}

/// Creates the environment that several lint runs of the same program share.
pub async fn shared_environment(
    probe: &ProbeSpec,
    slots: RunSlots,
) -> Result<SharedEnvironment, LintError> {
    let needs = isolation::IsolationNeeds {
        argv: &resolve_argv(probe)?,
        credentials: &probe.credentials.files,
    };
    SharedEnvironment::new(&needs, slots).await
}

/// Runs every check in an environment that other lint runs may use at the same time.
pub async fn lint_in(
    shared: &SharedEnvironment,
    begun: Instant,
    probe: ProbeSpec,
    options: LintOptions,
    stop: &'static AtomicBool,
) -> Result<Report, LintError> {
    let argv = resolve_argv(&probe)?;
    let (dir, _cleanup) = shared.new_run_dir();
    let jobs = options.jobs;
    let session = LintSession::new(probe, options, argv, dir, shared, stop)
        .map_err(LintError::RunDirectory)?;
    let done = tokio::select! {
        done = checks::all(&session) => done,
        // Dropping `checks::all` stops the active runs and every process that they started.
        () = wait_for_stop(stop) => Ok(()),
    };
    if let Some(why) = session.start_error() {
        return Err(LintError::NotStarted(why));
    }
    done?;
    Ok(report(&session, begun, jobs))
}

/// Waits until `stop` is set.
pub async fn wait_for_stop(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn resolve_argv(probe: &ProbeSpec) -> Result<Vec<OsString>, LintError> {
    let (first, rest) = probe
        .tool
        .split_first()
        .ok_or_else(|| LintError::NoProgram(String::new()))?;
    let program =
        run::program(first, &probe.base).ok_or_else(|| LintError::NoProgram(first.clone()))?;
    if !run::is_executable(&program) {
        return Err(LintError::NotExecutable(first.clone()));
    }
    // A script path after an interpreter must be absolute, because runs use another working
    // directory.
    let absolute = |word: &String| {
        let word = probe::placeholders::unprotect(word).into_owned();
        let path = probe.base.join(&word);
        match word.contains('/') && path.exists() {
            true => path.into_os_string(),
            false => OsString::from(word),
        }
    };
    Ok([program.into_os_string()]
        .into_iter()
        .chain(rest.iter().map(absolute))
        .collect())
}

fn report(session: &LintSession, begun: Instant, jobs: usize) -> Report {
    let mut checks = session.findings();
    // A run that one check needs also yields findings of other checks. Those are incomplete.
    let only = &session.options.only;
    checks.retain(|finding| only.is_empty() || only.contains(&finding.check));
    checks.extend(mismatch::unprobed(session));
    for finding in &mut checks {
        canary::mask(finding);
    }
    checks.sort_by(|a, b| (a.check, &a.command, &a.rule).cmp(&(b.check, &b.command, &b.rule)));
    let names: Vec<String> = session.commands().iter().map(|c| c.name.clone()).collect();
    let matrix = model::matrix(&checks, &names);
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let wall = begun.elapsed();
    let started = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |now| now.saturating_sub(wall).as_secs());
    let mut report = Report {
        schema: model::SCHEMA.to_owned(),
        tool: Tool {
            name: "agentproto".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        target: tool_under_test(session),
        summary: model::summary(&checks, &matrix),
        matrix,
        checks,
        timing: Timing {
            wall_ms: ms(wall),
            target_ms: ms(session.stats.target()),
            waits_ms: ms(session.stats.waits()),
            busy_ms: ms(session.stats.busy()),
            runs: session.stats.runs(),
            jobs: jobs as u64,
        },
        isolation: session.isolation.description.clone(),
        partial: false,
        started,
        compat: match session.options.compat {
            true => compat::assertions(session),
            false => Vec::new(),
        },
    };
    if session.is_stopped() {
        report.mark_interrupted();
    }
    report
}

fn tool_under_test(session: &LintSession) -> ToolUnderTest {
    let declared = session.declared.get();
    let declared_text = |key: &str| {
        let value = declared?.capabilities.as_ref()?.get(key)?;
        value.as_str().map(str::to_owned)
    };
    let first = session
        .probe
        .tool
        .first()
        .map(|word| guess::base_name(word));
    ToolUnderTest {
        name: declared_text("tool").or(first).unwrap_or_default(),
        version: declared_text("tool_version"),
        argv: session.probe.tool.clone(),
        probe_file: session
            .probe
            .file
            .as_ref()
            .map(|file| file.to_string_lossy().into_owned()),
        lines: session
            .commands()
            .iter()
            .filter(|command| command.line > 0)
            .map(|command| (command.name.clone(), command.line))
            .collect(),
    }
}
