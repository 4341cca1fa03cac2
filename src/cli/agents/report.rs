//! `agentproto report`: merges, renders and lists saved certification reports.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::cli::args::{Global, values};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_harness::model::Report;
use agentproto_harness::render::index::{self, IndexError};
use agentproto_harness::render::{
    Format, MergeError, RenderOptions, baseline, load, merge, render, write_all,
};
use agentproto_report::files::{LoadError, WriteError};
use agentproto_text::{count, escape_line};

#[derive(Subcommand, Debug)]
pub enum ReportAction {
    /// Merge the shards of one run
    Merge(Merge),
    /// Print a saved report in another format
    Render(Render),
    /// Write index.html and index.md, a table of all reports below DIR
    Index(Index),
}

#[derive(Args, Debug)]
pub struct Form {
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", alias = "format", default_value_t = Format::Human, value_parser = values(Format::ALL))]
    pub output: Format,
    /// Also write the report in every format to DIR
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// Exit with code 0 if all failures are already in this earlier report (JSON)
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Merge {
    /// JSON reports of all shards, in any order
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub form: Form,
}

#[derive(Args, Debug)]
pub struct Render {
    /// JSON report
    pub file: PathBuf,
    #[command(flatten)]
    pub form: Form,
}

#[derive(Args, Debug)]
pub struct Index {
    /// Directories with reports (NAME/report.json or NAME.json), or report directories
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Write the index to DIR [default: the given directory, if there is only one]
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

pub fn run(action: &ReportAction, global: &Global, out: &mut dyn Write) -> Outcome {
    match action {
        ReportAction::Merge(args) => {
            let reports: Vec<Report> = args
                .files
                .iter()
                .map(|file| read(file))
                .collect::<Result<_, _>>()?;
            let merged = merge(reports).map_err(|error| merge_failure(&error, &args.files))?;
            let report = show(merged, &args.form, "report merge", global, out)?;
            // The last step of a sharded run decides the exit code.
            Ok(match report.partial || report.has_new_failures() {
                true => exit::FINDINGS,
                false => exit::CLEAN,
            })
        }
        ReportAction::Render(args) => {
            let report = read(&args.file)?;
            show(report, &args.form, "report render", global, out)?;
            Ok(exit::CLEAN)
        }
        ReportAction::Index(args) => {
            let to = match (&args.to, args.dirs.as_slice()) {
                (Some(to), _) => to,
                (None, [dir]) => dir,
                (None, _) => {
                    return Err(
                        Failure::new(exit::USAGE, "no directory for the index was given")
                            .hint("add --to DIR"),
                    );
                }
            };
            if !to.is_dir() {
                let message = format!("{} is not a directory", escape_line(&to.to_string_lossy()));
                return Err(Failure::new(exit::NO_INPUT, message));
            }
            let reports = index::write(&args.dirs, to).map_err(index_failure)?;
            if !global.quiet {
                writeln!(
                    out,
                    "{} in {}",
                    count(reports, "report", "reports"),
                    escape_line(&to.join("index.html").to_string_lossy())
                )
                .map_err(io_failure)?;
            }
            Ok(exit::CLEAN)
        }
    }
}

fn named(files: &[PathBuf]) -> String {
    let names = files.iter().enumerate().take(20);
    let names = names.map(|(i, file)| format!("{} {}", i + 1, file.to_string_lossy()));
    names.collect::<Vec<_>>().join(", ")
}

fn read(file: &Path) -> Result<Report, Failure> {
    load(file).map_err(|error| load_failure(&error))
}

fn show(
    mut report: Report,
    form: &Form,
    command: &str,
    global: &Global,
    out: &mut dyn Write,
) -> Result<Report, Failure> {
    let mut options = RenderOptions {
        command: command.to_owned(),
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        report_dir: form.report_dir.clone(),
        ..RenderOptions::default()
    };
    if let Some(file) = &form.baseline {
        options.fixed = baseline::apply(&mut report, &read(file)?);
    }
    if let Some(dir) = &form.report_dir {
        write_all(&report, dir, &options).map_err(|error| write_failure(&error))?;
    }
    render(form.output, &report, &options, out).map_err(io_failure)?;
    Ok(report)
}

fn merge_failure(error: &MergeError, files: &[PathBuf]) -> Failure {
    let file = match error {
        MergeError::NotAShard(number) => number.checked_sub(1).and_then(|at| files.get(at)),
        _ => None,
    };
    match file {
        Some(file) => Failure::new(
            exit::DATA,
            format!(
                "`{}` is from a whole run, not from a shard; `merge` needs reports of \
                 `certify --shard I/N`",
                file.display()
            ),
        ),
        None => Failure::new(exit::DATA, error.to_string()).hint(format!(
            "reports are numbered in the given order: {}",
            named(files)
        )),
    }
}

fn load_failure(error: &LoadError) -> Failure {
    let hint = "pass a report written by `certify --output json`, or report.json of --report-dir";
    let code = match error {
        LoadError::Unreadable { error, .. } => match error.kind() {
            io::ErrorKind::NotFound => exit::NO_INPUT,
            _ => exit::IO,
        },
        LoadError::NotJson { .. } | LoadError::NotAReport { .. } => exit::DATA,
    };
    Failure::new(code, error.to_string()).hint(hint)
}

fn write_failure(error: &WriteError) -> Failure {
    Failure::new(exit::CANT_CREATE, error.to_string())
}

fn index_failure(error: IndexError) -> Failure {
    match &error {
        IndexError::Load(error) => load_failure(error),
        IndexError::Write(error) => write_failure(error),
        IndexError::Empty(_) => Failure::new(exit::NO_INPUT, error.to_string())
            .hint("`certify --report-dir DIR/NAME` writes one"),
        IndexError::Unreadable { error: cause, .. } => {
            let code = match cause.kind() {
                io::ErrorKind::NotFound => exit::NO_INPUT,
                _ => exit::IO,
            };
            Failure::new(code, error.to_string())
        }
    }
}
