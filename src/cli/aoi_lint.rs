//! `agentproto aoi-lint`: what a command-line tool does in machine mode, held against AOI-CLI.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::args::Global;
use super::{Failure, Outcome, io_failure, signals};
use crate::aoi::{self, LintError, probe};
use crate::exit;

#[derive(Args, Debug)]
pub struct AoiLint {
    /// The probe file: what may be done with the tool
    #[arg(long, value_name = "FILE")]
    pub probe: Option<PathBuf>,
    /// A SHOULD that is broken fails
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human",
          value_parser = ["human", "json", "jsonl", "junit", "sarif", "markdown", "badge"])]
    pub output: String,
    /// The tool and one command of it that may be run
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

pub fn run(args: &AoiLint, _global: &Global, out: &mut dyn Write) -> Outcome {
    signals::watch();
    let Some(file) = &args.probe else {
        return Err(Failure::new(exit::USAGE, "there is nothing to look at")
            .hint("agentproto aoi-lint --probe aoi-probe.yaml"));
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{}: {error}", file.display())))?;
    let base = file.parent().unwrap_or(std::path::Path::new("."));
    let base = std::path::absolute(base).map_err(io_failure)?;
    let mut probe = probe::parse(&text, &base).map_err(|mistakes| {
        let lines = mistakes
            .iter()
            .map(|m| format!("{}:{}:{}: {}", file.display(), m.line, m.column, m.message));
        Failure::new(exit::DATA, lines.collect::<Vec<_>>().join("\n"))
    })?;
    probe.file = Some(file.clone());
    let options = aoi::session::Options {
        strict: args.strict,
        ..aoi::session::Options::default()
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let report = tokio
        .block_on(aoi::lint(probe, options, &signals::STOP))
        .map_err(|error| match error {
            LintError::NoProgram(_) => Failure::new(exit::UNAVAILABLE, error.to_string()).hint(
                "the first word of `tool` is a program on PATH, or a path from the probe file",
            ),
            LintError::Workplace(_) => Failure::new(exit::CANT_CREATE, error.to_string()),
        })?;
    serde_json::to_writer_pretty(&mut *out, &report).map_err(|error| io_failure(error.into()))?;
    writeln!(out).map_err(io_failure)?;
    Ok(if report.summary.fail > 0 {
        exit::FINDINGS
    } else {
        exit::CLEAN
    })
}
