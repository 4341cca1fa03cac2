//! The command line: one file per subcommand; each parses, calls a room and renders
//! through `report`.

#[cfg(target_os = "linux")]
mod aoi_lint;
#[cfg(unix)]
mod aoi_mock;
#[cfg(target_os = "linux")]
mod aoi_selftest;
mod args;
#[cfg(target_os = "linux")]
mod ask;
#[cfg(target_os = "linux")]
mod audit;
#[cfg(target_os = "linux")]
mod auth;
#[cfg(target_os = "linux")]
mod bridge;
#[cfg(target_os = "linux")]
mod certify;
#[cfg(target_os = "linux")]
mod client;
mod completions;
mod config;
mod coverage;
#[cfg(target_os = "linux")]
mod diff;
mod discover;
mod discovery;
#[cfg(target_os = "linux")]
mod doctor;
mod explain;
mod git;
#[cfg(target_os = "linux")]
mod install;
mod lint;
mod man;
#[cfg(target_os = "linux")]
mod mcp;
#[cfg(unix)]
mod mistakes;
#[cfg(unix)]
mod mock;
#[cfg(unix)]
mod model;
#[cfg(target_os = "linux")]
mod progress;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod replay;
#[cfg(target_os = "linux")]
mod report;
mod root;
mod rules;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod selftest;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod setup;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use clap::{CommandFactory, Parser};

use crate::exit;
use crate::report::aoi::{self, Category, Emitter};
#[cfg(unix)]
use crate::runtime::fault::Fault;
pub use args::Cli;
use args::Command;
pub use coverage::{Statement, register};

/// What a subcommand ends with: an exit code, or an error that is printed once, here.
pub type Outcome = Result<u8, Failure>;

/// An error at the edge: what, what to do, and the exit code that scripts see.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
    pub hint: Option<String>,
    /// A stable name, where the exit code alone says too little.
    pub slug: Option<&'static str>,
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
            hint: None,
            slug: None,
        }
    }
    pub fn typed(mut self, slug: &'static str) -> Self {
        self.slug = Some(slug);
        self
    }
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn category(&self) -> Category {
        match self.code {
            exit::USAGE => Category::Usage,
            exit::DATA => Category::Validation,
            exit::NO_INPUT => Category::NotFound,
            exit::UNAVAILABLE | exit::TEMPORARY => Category::Temporary,
            exit::CANT_CREATE | exit::IO => Category::Io,
            exit::NO_PERMISSION => Category::Authz,
            exit::CONFIG => Category::Config,
            exit::INTERRUPTED | exit::TERMINATED => Category::Cancelled,
            _ => Category::Internal,
        }
    }
}

#[cfg(unix)]
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure {
            hint: fault.hint,
            ..Failure::new(fault.code.exit(), fault.message).typed(fault.code.as_str())
        }
    }
}

/// Results could not be written; a reader that has gone away is no failure.
fn io_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(exit::CLEAN, ""),
        _ => Failure::new(exit::IO, format!("the output cannot be written: {error}")),
    }
}

/// Runs the command line; the exit code of the process.
pub fn main() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to stdout, mistakes to stderr.
            let code = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::CLEAN
            };
            let _ = error.print();
            if code == exit::USAGE && asks_for_events(std::env::args_os().skip(1)) {
                usage_events(&error);
            }
            return code;
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = run(&cli, &mut out);
    let outcome = match out.flush() {
        // Who stops reading does not change the verdict.
        Err(error) if outcome.is_ok() && error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io_failure(error))
        }
        _ => outcome,
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            complain(&cli, &failure, &mut out);
            let _ = out.flush();
            failure.code
        }
    }
}

fn run(cli: &Cli, out: &mut dyn Write) -> Outcome {
    match &cli.command {
        Command::Lint(args) => lint::run(args, &cli.global, out),
        Command::Explain(args) => explain::run(args, out),
        Command::Rules(args) => rules::run(args, &cli.global, out),
        Command::Coverage(args) => coverage::run(args, out),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => doctor::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Install(args) => install::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Sandbox { action } => sandbox::run(action, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Serve(args) => serve::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Audit { action } => audit::run(action, out),
        #[cfg(target_os = "linux")]
        Command::Setup(args) => setup::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Auth { action } => auth::run(action, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Certify(args) => certify::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::AoiLint(args) => aoi_lint::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Record(args) => record::run(args, &cli.global),
        #[cfg(target_os = "linux")]
        Command::Replay(args) => replay::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Diff(args) => diff::run(args, &cli.global, out),
        Command::Report { action } => report::run(action, &cli.global, out),
        #[cfg(unix)]
        Command::Mock(args) => mock::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Mcp(args) => mcp::run(args, &cli.global),
        Command::Schema(args) => discovery::schema(args, out),
        Command::Capabilities(args) => discovery::capabilities(args, out),
        Command::Completions { shell } => completions::run(*shell, out),
        Command::Man => man::run(out),
    }
}

/// Says what went wrong: to people on stderr, and in machine mode as events too.
fn complain(cli: &Cli, failure: &Failure, out: &mut dyn Write) {
    if failure.message.is_empty() {
        return;
    }
    // A file with several mistakes is told on several lines.
    let message = crate::report::text::plain_lines(&failure.message);
    let mut err = io::stderr().lock();
    let _ = match failure.slug {
        Some(slug) => writeln!(err, "agentproto: {slug}: {message}"),
        None => writeln!(err, "agentproto: {message}"),
    };
    if let Some(hint) = &failure.hint {
        let _ = writeln!(err, "  {}", crate::report::text::plain(hint));
    }
    if let Some(command) = machine_mode(&cli.command) {
        failure_events(command, failure, out);
    }
}

fn failure_events(command: &str, failure: &Failure, out: &mut dyn Write) {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    let code = match failure.slug {
        Some(slug) => slug.to_ascii_uppercase(),
        None => format!("EXIT_{}", failure.code),
    };
    let error = aoi::Failure {
        code: &code,
        category: failure.category(),
        message: &failure.message,
        retryable: failure.code == exit::TEMPORARY,
        hint: failure.hint.as_deref(),
    };
    let _ = emitter.meta(command);
    let _ = emitter.error(&error);
    let _ = emitter.summary(false, Duration::ZERO, aoi::Fields::new());
}

/// Whether a command line that could not be understood asks for machine mode all the same.
fn asks_for_events(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<OsString> = args.take_while(|arg| arg != "--").collect();
    let one = |arg: &OsString| {
        let forms = ["--output=jsonl", "--format=jsonl", "-o=jsonl", "-ojsonl"];
        forms.iter().any(|form| arg == form)
    };
    let two = |pair: &[OsString]| {
        matches!(pair, [name, value] if value == "jsonl"
            && ["--output", "--format", "-o"].iter().any(|n| name == n))
    };
    args.iter().any(one) || args.windows(2).any(two)
}

/// A reader of events gets its frame even where the command line is wrong.
fn usage_events(error: &clap::Error) {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let failure = Failure::new(exit::USAGE, message).hint("`agentproto --help` lists commands");
    let command = Cli::command();
    let named = std::env::args_os().nth(1).unwrap_or_default();
    let name = command
        .get_subcommands()
        .find(|c| *c.get_name() == named)
        .map_or("agentproto", |c| c.get_name());
    failure_events(name, &failure, &mut io::stdout().lock());
}

/// The command's name where it was asked for AOI events.
fn machine_mode(command: &Command) -> Option<&'static str> {
    let (name, output) = match command {
        Command::Lint(args) => ("lint", &args.output),
        Command::Explain(args) => ("explain", &args.output),
        Command::Rules(args) => ("rules", &args.output),
        Command::Coverage(args) => ("coverage", &args.output),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => ("doctor", &args.output),
        #[cfg(target_os = "linux")]
        Command::Install(args) => ("install", &args.output),
        #[cfg(target_os = "linux")]
        Command::Sandbox { action } => match action {
            args::SandboxAction::Explain(args) => ("sandbox explain", &args.output),
            args::SandboxAction::Run(args) => ("sandbox run", &args.output),
        },
        #[cfg(target_os = "linux")]
        Command::Run(args) => ("run", &args.output),
        #[cfg(target_os = "linux")]
        Command::Serve(args) => ("serve", &args.output),
        #[cfg(target_os = "linux")]
        Command::Setup(args) => ("setup", &args.common.output),
        #[cfg(target_os = "linux")]
        Command::Auth { action } => action.said(),
        #[cfg(target_os = "linux")]
        Command::Audit {
            action: audit::AuditAction::Verify(args),
        } => ("audit verify", &args.output),
        #[cfg(target_os = "linux")]
        Command::Certify(args) => ("certify", &args.output),
        #[cfg(target_os = "linux")]
        Command::AoiLint(args) => ("aoi-lint", &args.output),
        #[cfg(target_os = "linux")]
        Command::Replay(args) if !args.is_agent() => ("replay", &args.output),
        #[cfg(target_os = "linux")]
        Command::Diff(args) => ("diff", &args.output),
        #[cfg(target_os = "linux")]
        Command::Record(_) | Command::Replay(_) | Command::Mcp(_) => return None,
        Command::Report { action } => {
            let (name, output) = action.said();
            return (output == "jsonl").then_some(name);
        }
        #[cfg(unix)]
        Command::Mock(args) => ("mock", &args.output),
        Command::Schema(args) => ("schema", &args.output),
        Command::Capabilities(args) => ("capabilities", &args.output),
        Command::Completions { .. } | Command::Man => return None,
    };
    (output == "jsonl").then_some(name)
}

/// What a walk of one directory finds, without configuration.
#[doc(hidden)]
pub fn walk_for_bench(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let targets = discover::targets(&[dir.to_owned()], &config::Config::default(), false, 1);
    targets
        .unwrap_or_default()
        .into_iter()
        .map(|t| t.path)
        .collect()
}
