//! The AOI engine: what a command-line tool does in machine mode, held against AOI-CLI v0.2, per
//! characteristic and per command.
//!
//! `probe` says what may be done with the tool, `session` runs it (`run`, `isolation`), `checks`
//! judge what came (`stream`, `capture`), `model` is what they found. Nothing is proven by a run
//! that could not have shown the opposite.

pub mod canary;
pub mod capture;
pub mod checks;
pub mod isolation;
pub mod model;
pub mod probe;
pub mod rules;
pub mod run;
pub mod session;
pub mod stream;
mod streams;
pub mod strict;
pub mod trace;

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use model::{Report, Subject, Timing, Tool};
use probe::Probe;
use session::{Options, Session};

use crate::runtime::workplace::Workplace;

#[derive(Debug, thiserror::Error)]
pub enum LintError {
    #[error("there is no program `{0}`")]
    NoProgram(String),
    #[error("cannot make a directory for the runs: {0}")]
    Workplace(#[source] std::io::Error),
}

/// Runs every check that the probe allows.
pub async fn lint(
    probe: Probe,
    options: Options,
    stop: &'static AtomicBool,
) -> Result<Report, LintError> {
    let begun = Instant::now();
    let argv = argv(&probe)?;
    let place = Workplace::new("aoi").map_err(LintError::Workplace)?;
    let jobs = options.jobs;
    let session = Session::new(probe, options, argv, place.path().to_owned(), stop)
        .map_err(LintError::Workplace)?;
    checks::all(&session).await;
    Ok(report(&session, begun, jobs))
}

fn argv(probe: &Probe) -> Result<Vec<OsString>, LintError> {
    let (first, rest) = probe
        .tool
        .split_first()
        .ok_or_else(|| LintError::NoProgram(String::new()))?;
    let program =
        run::program(first, &probe.base).ok_or_else(|| LintError::NoProgram(first.clone()))?;
    Ok([program.into_os_string()]
        .into_iter()
        .chain(rest.iter().map(OsString::from))
        .collect())
}

fn report(session: &Session, begun: Instant, jobs: usize) -> Report {
    let mut checks = session.findings();
    checks.sort_by(|a, b| (a.check, &a.command, &a.rule).cmp(&(b.check, &b.command, &b.rule)));
    let names: Vec<String> = session.commands().iter().map(|c| c.name.clone()).collect();
    let matrix = model::matrix(&checks, &names);
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Report {
        schema: model::SCHEMA.to_owned(),
        tool: Tool {
            name: "agentproto".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        target: subject(session),
        summary: model::summary(&checks, &matrix),
        matrix,
        checks,
        timing: Timing {
            wall_ms: ms(begun.elapsed()),
            target_ms: ms(session.costs.target()),
            waits_ms: ms(session.costs.waits()),
            runs: session.costs.runs(),
            jobs: jobs as u64,
        },
        isolation: session.isolation.clone(),
        partial: session.is_stopped(),
    }
}

fn subject(session: &Session) -> Subject {
    let declared = session.declared.get();
    let said = |key: &str| {
        let value = declared?.capabilities.as_ref()?.get(key)?;
        value.as_str().map(str::to_owned)
    };
    let first = session.probe.tool.first().cloned().unwrap_or_default();
    Subject {
        name: said("tool").unwrap_or(first),
        version: said("tool_version"),
        argv: session.probe.tool.clone(),
        probe_file: session
            .probe
            .file
            .as_ref()
            .map(|file| file.to_string_lossy().into_owned()),
    }
}
