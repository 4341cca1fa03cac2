//! `agentproto aoi-lint`: checks the machine mode of a command-line tool against AOI-CLI.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::cli::agents::file_errors::{is_yaml, unreadable};
use crate::cli::agents::{aoi_selftest, certify, progress, selftest};
use crate::cli::args::{Global, Output, values};
use crate::cli::config::{self, AoiSeverity};
use crate::cli::{Failure, Outcome, io_failure, signals, terminal};
use crate::exit;
use agentproto_aoi::guess::{self, Discovery, ToolDescription};
use agentproto_aoi::model::{CheckId, Finding, Report, Verdict};
use agentproto_aoi::probe::{self, ProbeSpec};
use agentproto_aoi::render as aoi_lint;
use agentproto_aoi::render::{Format, baseline, jsonl};
use agentproto_aoi::session::{FindingObserver, LintOptions};
use agentproto_aoi::{self as aoi, LintError, init, rules, run};
use agentproto_manifest::fields::FieldError;
use agentproto_text::closest_of;

/// Default probe file, used if neither a probe file nor a command is given.
const DEFAULT_PROBE_FILE: &str = "aoi-probe.yaml";
/// How to get a first probe file.
const FIRST_PROBE_HINT: &str = "`agentproto aoi-lint init --write aoi-probe.yaml -- mytool` \
                                writes a first probe file";
/// Maximum size of a probe file, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Time limit for each discovery request to the tool.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of errors shown per file.
const MAX_SHOWN_ERRORS: usize = 50;

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AoiLint {
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Read the commands that may be run from this probe file [default: aoi-probe.yaml, if it
    /// exists]
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub probe: Option<PathBuf>,
    /// Fail on violated SHOULD requirements
    #[arg(long)]
    pub strict: bool,
    /// Also run the seven assertions of the AOI-CLI project's own linter, under the names that it uses
    #[arg(long)]
    pub compat: bool,
    /// Exit with code 1 on these results (comma-separated)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_enum, default_values_t = [FailOn::Fail])]
    pub fail_on: Vec<FailOn>,
    /// Exit with code 0 if all failures are already in this earlier report (JSON)
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value_t = Format::Human,
          value_parser = values(Format::ALL.iter().filter(|f| **f != Format::BadgeJson)))]
    pub output: Format,
    /// Write the report in every format to DIR
    #[arg(long, value_name = "DIR")]
    pub report_dir: Option<PathBuf>,
    /// Run only these checks (comma-separated): 1 to 13, or `advisory` for the rules outside of them
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        conflicts_with = "selftest"
    )]
    pub check: Vec<String>,
    /// Maximum number of parallel runs [default: two per processor]
    #[arg(long, short = 'j', value_name = "N")]
    pub jobs: Option<usize>,
    /// Time limit for each run, in seconds [default: 10, and 30 for
    /// `schema`, `capabilities`, `--help` and `--version`]
    #[arg(long, value_name = "S", value_parser = crate::cli::agents::seconds)]
    pub timeout: Option<f64>,
    /// Self-test: run the checks against mock tools with one known defect each (*mutants*) and
    /// correct mock tools (*variants*)
    #[arg(long, conflicts_with_all = ["probe", "command", "baseline", "report_dir"])]
    pub selftest: bool,
    /// With --selftest: run each mutant first with the check that should find its defect
    #[arg(long, requires = "selftest")]
    pub quick: bool,
    /// With --selftest: run only these mutants or variants (comma-separated)
    #[arg(long, value_name = "ID", value_delimiter = ',', requires = "selftest")]
    pub only: Vec<String>,
    /// The tool and one of its commands that is safe to run; `schema`, `capabilities`, `--help` and
    /// `--version` are also run
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Subcommand, Debug)]
pub enum Action {
    /// Print a first probe file, based on the tool's capabilities and help
    Init(Init),
}

#[derive(Args, Debug)]
pub struct Init {
    /// Write the probe file to FILE, which must not exist yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// The command that starts the tool
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<String>,
}

/// Results that make the exit code 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    Fail,
    Warn,
    #[value(name = "unproven")]
    NotVerified,
}

/// Returns the format as the error if only reports have it.
impl TryFrom<Format> for Output {
    type Error = Format;

    fn try_from(format: Format) -> Result<Self, Format> {
        match format {
            Format::Human => Ok(Output::Human),
            Format::Json => Ok(Output::Json),
            Format::Jsonl => Ok(Output::Jsonl),
            other => Err(other),
        }
    }
}

pub fn run(args: &AoiLint, global: &Global, out: &mut dyn Write) -> Outcome {
    signals::watch();
    check_recursion()?;
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(io_failure)?;
    if let Some(Action::Init(args)) = &args.action {
        return tokio.block_on(run_until_signal(first_probe(args, out)))?;
    }
    if args.selftest {
        let selftest_args = aoi_selftest::SelftestArgs {
            command: "aoi-lint",
            only: &args.only,
            quick: args.quick,
            output: selftest::output(args.output)?,
        };
        return aoi_selftest::run(&selftest_args, global, &tokio, out);
    }
    let format = args.output;
    // The run may take minutes, so a reader gets the first line at once.
    if format == Format::Jsonl {
        jsonl::begin(out).map_err(io_failure)?;
    }
    if format.needs_proof() && !args.check.is_empty() {
        let what = "a badge covers all checks, so it cannot be combined with --check";
        return Err(Failure::new(exit::USAGE, what).hint("remove --check"));
    }
    let mut options = options(args, global)?;
    let before = args.baseline.as_deref().map(read_baseline).transpose()?;
    let probe = match probe_file(args) {
        Some(file) => read_probe(&file)?,
        None if args.command.is_empty() => {
            return Err(Failure::new(exit::USAGE, "nothing to check").hint(format!(
                "run `agentproto aoi-lint --probe aoi-probe.yaml` or `agentproto aoi-lint -- \
                 mytool search x --output jsonl`; {FIRST_PROBE_HINT}"
            )));
        }
        None => {
            let limit = options.discovery_limit.min(DISCOVERY_TIMEOUT);
            tokio.block_on(run_until_signal(guess_probe(&args.command, limit)))??
        }
    };
    let file = probe.file.clone().unwrap_or_default();
    let (sender, decided) = tokio::sync::mpsc::unbounded_channel();
    // With a baseline, only the whole report says which failures are known. With --compat, the
    // assertions of the reference come first.
    if format == Format::Jsonl && before.is_none() && !args.compat {
        options.on_finding = FindingObserver::new(move |finding| {
            let _ = sender.send(finding.clone());
        });
    }
    let mut written = Vec::new();
    let report = tokio
        .block_on(lint_and_print(probe, options, decided, &mut written, out))?
        .map_err(|error| match error {
            LintError::ProbeMismatch(errors) => probe_file_errors(&file, &errors),
            LintError::Setup(error) => probe_file_errors(&file, &[error]).hint(
                "no check was run: run the setup by hand and fix it; it starts in an empty \
                 directory, with the probe file's `env` and AOI_WORLD",
            ),
            other => lint_failure(other),
        });
    progress::clear(global);
    let mut report = report?;
    let mut render_options = aoi_lint::RenderOptions {
        written: (format == Format::Jsonl).then_some(written),
        color: terminal::color(global),
        unicode: terminal::unicode(),
        width: terminal::width(),
        only: checks(&args.check)?,
        ..aoi_lint::RenderOptions::default()
    };
    if let Some(before) = &before {
        render_options.fixed = baseline::apply(&mut report, before);
    }
    render_options.ok = passes(args, &report, before.as_ref());
    if let Some(dir) = &args.report_dir {
        let written = aoi_lint::write_all(&report, dir, &render_options);
        written.map_err(|error| Failure::new(exit::CANT_CREATE, error.to_string()))?;
    }
    if format.needs_proof() && aoi_lint::badge::badge(&report).is_none() {
        let code = signals::interrupted().unwrap_or(exit::FINDINGS);
        return Err(Failure::new(code, "no badge: nothing was verified")
            .hint("use --output human to see why"));
    }
    // Called before rendering: it marks the signal as handled, so that the report is not cut off.
    let interrupted = signals::interrupted();
    aoi_lint::render(format, &report, &render_options, out).map_err(io_failure)?;
    if let Some(code) = interrupted {
        return Ok(code);
    }
    Ok(match render_options.ok {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

/// Runs the checks, and prints each finding when it is decided.
async fn lint_and_print(
    probe: ProbeSpec,
    options: LintOptions,
    mut decided: UnboundedReceiver<Finding>,
    written: &mut Vec<Finding>,
    out: &mut dyn Write,
) -> Result<Result<Report, LintError>, Failure> {
    let linting = aoi::lint(probe, options, &signals::STOP);
    tokio::pin!(linting);
    loop {
        tokio::select! {
            report = &mut linting => return Ok(report),
            Some(finding) = decided.recv() => {
                // After a signal, the rest is printed with the end of the report.
                if !signals::STOP.load(Ordering::Relaxed) {
                    jsonl::finding(&finding, out).map_err(io_failure)?;
                    written.push(finding);
                }
            }
        }
    }
}

/// The linter may check itself, but not a second level deep.
fn check_recursion() -> Result<(), Failure> {
    match run::depth() > 1 {
        true => Err(Failure::new(
            exit::USAGE,
            "endless recursion: aoi-lint runs inside aoi-lint inside aoi-lint",
        )
        .hint("in the probe file of a linter, name targets other than the linter itself")),
        false => Ok(()),
    }
}

fn options(args: &AoiLint, global: &Global) -> Result<LintOptions, Failure> {
    let default = LintOptions::default();
    let limit = args.timeout.map(certify::seconds).transpose()?;
    Ok(LintOptions {
        strict: args.strict,
        compat: args.compat,
        on_run: progress::of_tool(global),
        on_finding: default.on_finding,
        jobs: args.jobs.unwrap_or(default.jobs).max(1),
        limit: limit.unwrap_or(default.limit),
        discovery_limit: limit.unwrap_or(default.discovery_limit),
        severities: severities(global)?,
        only: checks(&args.check)?,
    })
}

fn checks(names: &[String]) -> Result<Vec<CheckId>, Failure> {
    let read = |name: &String| {
        name.parse().map_err(|()| {
            let message = format!("unknown check `{name}`");
            Failure::new(exit::USAGE, message).hint("use a number from 1 to 13, or `advisory`")
        })
    };
    names.iter().map(read).collect()
}

/// `[aoi.severity]` of agentproto.toml.
fn severities(global: &Global) -> Result<BTreeMap<String, Verdict>, Failure> {
    let config = config::load(global)?;
    let here = config.path.unwrap_or_else(|| config::FILE_NAME.into());
    let mut severities = BTreeMap::new();
    for (id, setting) in &config.aoi.severity {
        let Some(rule) = rules::find(id) else {
            let message = format!("{}: unknown rule `{id}`", here.display());
            let failure = Failure::new(exit::CONFIG, message);
            return Err(match closest_of(id, rules::all().map(|rule| rule.id)) {
                Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
                None => failure.hint("`agentproto rules --kind aoi` lists all rules"),
            });
        };
        let verdict = match setting {
            AoiSeverity::Fail => Verdict::Fail,
            AoiSeverity::Warn => Verdict::Warn,
        };
        severities.insert(rule.id.to_owned(), verdict);
    }
    Ok(severities)
}

fn probe_file(args: &AoiLint) -> Option<PathBuf> {
    let default = || {
        let file = PathBuf::from(DEFAULT_PROBE_FILE);
        (args.command.is_empty() && file.is_file()).then_some(file)
    };
    args.probe.clone().or_else(default)
}

fn read_probe(file: &Path) -> Result<ProbeSpec, Failure> {
    let read_failure = |error: std::io::Error| {
        let failure = unreadable(file, &error);
        match error.kind() {
            std::io::ErrorKind::InvalidData => Failure::new(exit::DATA, failure.message),
            _ => failure.hint(FIRST_PROBE_HINT),
        }
    };
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_BYTES + 1).read_to_string(&mut text))
        .map_err(read_failure)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > MAX_BYTES) {
        let message = format!("{} is not a probe file: larger than 4 MiB", file.display());
        return Err(Failure::new(exit::DATA, message));
    }
    let base = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let base = std::path::absolute(base).map_err(io_failure)?;
    let mut probe = probe::parse(&text, &base).map_err(|errors| {
        let failure = probe_file_errors(file, &errors);
        match is_yaml(&text) {
            true => failure.hint("`agentproto schema --name aoi-probe` describes the format"),
            false => failure,
        }
    })?;
    let left = probe::template_leftovers(&text, &probe);
    if !left.is_empty() {
        return Err(probe_file_errors(file, &left).hint(
            "remove commands that cannot be run; `agentproto schema --name aoi-probe` describes the file",
        ));
    }
    probe.file = Some(file.to_owned());
    Ok(probe)
}

/// An error that lists all errors in a probe file with their positions.
fn probe_file_errors(file: &Path, errors: &[FieldError]) -> Failure {
    let mut lines: Vec<String> = errors
        .iter()
        .take(MAX_SHOWN_ERRORS)
        .map(|m| format!("{}:{}:{}: {}", file.display(), m.line, m.column, m.message))
        .collect();
    if errors.len() > MAX_SHOWN_ERRORS {
        lines.push(format!("and {} more", errors.len() - MAX_SHOWN_ERRORS));
    }
    Failure::new(exit::DATA, lines.join("\n"))
}

fn current_dir() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(io_failure)
}

/// Runs work that comes before the report, unless a signal arrives.
async fn run_until_signal<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::select! {
        done = work => Ok(done),
        () = aoi::wait_for_stop(&signals::STOP) => {
            let code = signals::interrupted().unwrap_or(exit::INTERRUPTED);
            Err(Failure::new(code, "interrupted before anything was checked"))
        }
    }
}

/// Guesses a probe for the command after `--`.
async fn guess_probe(words: &[String], limit: Duration) -> Result<ProbeSpec, Failure> {
    let base = current_dir()?;
    let tool = words
        .get(..guess::tool_words(words, &base))
        .unwrap_or(words);
    let discovery = Discovery::new(tool, &base, limit).map_err(lint_failure)?;
    let discovered = ToolDescription {
        capabilities: discovery.capabilities().await,
        help: String::new(),
    };
    Ok(guess::probe(words, &base, &discovered))
}

async fn first_probe(args: &Init, out: &mut dyn Write) -> Outcome {
    let base = current_dir()?;
    let mut tool = args.command.clone();
    for word in tool.iter_mut().skip(1) {
        if !word.contains('/') && base.join(&*word).is_file() {
            *word = format!("./{word}");
        }
    }
    let discovery = Discovery::new(&tool, &base, DISCOVERY_TIMEOUT).map_err(lint_failure)?;
    let discovered = ToolDescription {
        capabilities: discovery.capabilities().await,
        help: discovery.help(&[]).await,
    };
    let mut helps = Vec::new();
    for (command, entry) in init::commands(&discovered).iter().take(30) {
        // Only for read-only commands: a tool that does not know `--help` would run the command.
        let flag = |key: &str| entry.as_ref()?.get(key)?.as_bool();
        if flag("read_only") == Some(true) {
            let words: Vec<&str> = command.split_whitespace().collect();
            helps.push(init::Help {
                command: command.clone(),
                text: discovery.help(&words).await,
            });
        }
    }
    let is_in_current_dir = match &args.write {
        Some(file) => file.parent().is_none_or(|parent| parent == Path::new("")),
        None => true,
    };
    if !is_in_current_dir {
        for word in &mut tool {
            if word.contains('/') && base.join(&*word).exists() {
                *word = base.join(&*word).to_string_lossy().into_owned();
            }
        }
    }
    let text = init::write(&tool, &discovered, &helps);
    let Some(file) = &args.write else {
        out.write_all(text.as_bytes()).map_err(io_failure)?;
        return Ok(exit::CLEAN);
    };
    let created = std::fs::File::create_new(file);
    created
        .and_then(|mut created| created.write_all(text.as_bytes()))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let message = format!("{} already exists and is not overwritten", file.display());
                Failure::new(exit::CANT_CREATE, message).hint(
                    "choose another file, or move this one; without --write the text is printed",
                )
            }
            _ => {
                let message = format!("{} cannot be written: {error}", file.display());
                Failure::new(exit::CANT_CREATE, message)
            }
        })?;
    Ok(exit::CLEAN)
}

fn read_baseline(path: &Path) -> Result<Report, Failure> {
    aoi_lint::load(path).map_err(|error| {
        let code = match path.exists() {
            true => exit::DATA,
            false => exit::NO_INPUT,
        };
        Failure::new(code, error.to_string())
            .hint("pass a report written by --output json, or report.json of --report-dir")
    })
}

fn passes(args: &AoiLint, report: &Report, before: Option<&Report>) -> bool {
    let fails_on = |what| args.fail_on.contains(&what);
    // A failure always counts, regardless of what else is selected.
    !(report.has_new_failures()
        || fails_on(FailOn::Warn) && report.has_new_warnings()
        || fails_on(FailOn::NotVerified)
            && (report.summary.pairs_proven == 0 || baseline::new_unproven(report, before)))
}

fn lint_failure(error: LintError) -> Failure {
    let message = error.to_string();
    match error {
        LintError::NoProgram(_) => Failure::new(exit::UNAVAILABLE, message).hint(
            "the first word of the tool must be a program on PATH, or a path (relative to the \
             probe file, if there is one)",
        ),
        LintError::NotExecutable(_) => Failure::new(exit::UNAVAILABLE, message)
            .hint("make the script executable with `chmod +x`"),
        LintError::NotStarted(_) => Failure::new(exit::UNAVAILABLE, message)
            .hint("start the script with #! and the path of its interpreter"),
        LintError::ProbeMismatch(_) | LintError::Setup(_) => Failure::new(exit::DATA, message),
        LintError::RunDirectory(_) | LintError::Thread(_) => {
            Failure::new(exit::CANT_CREATE, message)
        }
    }
}
