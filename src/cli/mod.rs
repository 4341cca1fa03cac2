//! The command line: one file per subcommand. Each parses its arguments, calls a crate, and renders
//! the result with `report`.

#[cfg(agents)]
mod agents;
mod args;
mod completions;
mod config;
mod deferred;
mod discovery;
mod explain;
mod git;
mod lint;
pub mod machine;
mod man;
mod rules;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use clap::{CommandFactory, FromArgMatches};
use serde_json::Value;

use self::machine::Call;
use self::machine::redact::Secrets;
use self::machine::stream::Stream;
use crate::exit;
use agentproto_report::aoi::Category;
pub use args::Cli;
use args::Command;

/// The result of a subcommand: an exit code, or an error that is printed once, here.
pub type Outcome = Result<u8, Failure>;

/// An error of a command: what went wrong, what to do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub message: String,
    pub hint: Option<String>,
    /// A stable name, if the exit code alone is not specific enough.
    pub slug: Option<&'static str>,
    /// Data for programs: pending setup steps, clauses, exit status.
    pub details: Box<Value>,
}

impl Failure {
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Failure {
            code,
            message: message.into(),
            hint: None,
            slug: None,
            details: Box::default(),
        }
    }
    /// The error of work that a signal ended.
    pub fn interrupted(code: u8) -> Self {
        Failure::new(code, "interrupted").typed("interrupted")
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
        match self.slug {
            Some("idempotency_conflict" | "count_differs") => return Category::Conflict,
            Some("auth_required" | "secret_unavailable" | "interactive_required") => {
                return Category::Authn;
            }
            Some("handshake_timeout" | "turn_timeout" | "tool_timeout") => {
                return Category::Timeout;
            }
            Some("input_invalid") => return Category::Validation,
            // A retry does not change the machine.
            Some("sandbox_unenforceable" | "sandbox_unsupported_provider" | "version_mismatch") => {
                return Category::Config;
            }
            _ => {}
        }
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

/// An error for results that cannot be written. A reader that is gone is not an error.
fn io_failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(exit::CLEAN, ""),
        _ => Failure::new(exit::IO, format!("the output cannot be written: {error}")),
    }
}

/// Runs the command line, and returns the exit code of the process.
pub fn main() -> u8 {
    let parsed = Cli::command().try_get_matches();
    let parsed = parsed.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        let mut call = Call::of(&matches);
        call.is_machine &= !is_agent(&cli.command);
        Ok((cli, call))
    });
    let (cli, call) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return machine::usage_error(&error),
    };
    #[cfg(agents)]
    if let Command::Agents(_) = &cli.command {
        agents::log::start(cli.global.log);
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let secrets = Secrets::of(words.iter().map(|word| word.to_string_lossy()));
    let out = BufWriter::new(io::stdout().lock());
    let mut out = machine::stream(out, &call);
    // Before the first line, because a reader of that line may send a signal.
    if call.is_machine {
        signals::watch();
    }
    let outcome = machine::negotiate(&cli.global);
    let outcome = outcome.and_then(|()| run_once(&cli, &call, &words, &mut out));
    let outcome = match out.flush() {
        // A reader that is gone does not change the verdict.
        Err(error) if outcome.is_ok() && error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io_failure(error))
        }
        _ => outcome,
    };
    let code = match outcome {
        _ if out.frame.is_interrupted && !out.frame.is_closed => {
            machine::interrupted(&call, &mut out)
        }
        Ok(code) => code,
        Err(failure) => {
            machine::print_failure(&call, &failure, &secrets, &mut out);
            failure.code
        }
    };
    let _ = out.flush();
    machine::report_violation(&out).unwrap_or(code)
}

/// Whether stdout carries the agent's side of a conversation instead of our events.
fn is_agent(command: &Command) -> bool {
    match command {
        #[cfg(agents)]
        Command::Agents(command) => command.is_agent(),
        _ => false,
    }
}

/// Runs the command, or returns the result of an earlier run with the same key. Only commands that
/// change something take a key, and the linter has none.
#[cfg(agents)]
fn run_once<W: Write>(cli: &Cli, call: &Call, words: &[OsString], out: &mut Stream<W>) -> Outcome {
    match &cli.command {
        Command::Agents(command) => agents::run_once(command, cli, call, words, out),
        _ => run(cli, out),
    }
}

#[cfg(not(agents))]
fn run_once<W: Write>(cli: &Cli, _: &Call, _: &[OsString], out: &mut Stream<W>) -> Outcome {
    run(cli, out)
}

fn run(cli: &Cli, out: &mut dyn Write) -> Outcome {
    match &cli.command {
        Command::Lint(args) => lint::run(args, &cli.global, out),
        Command::Explain(args) => explain::run(args, out),
        Command::Rules(args) => rules::run(args, &cli.global, out),
        #[cfg(agents)]
        Command::Agents(command) => command.run(&cli.global, out),
        Command::Schema(args) => discovery::schema(args, out),
        Command::InputSchema(args) => discovery::input_schema(args, out),
        Command::Capabilities(args) => discovery::capabilities(args, out),
        Command::Completions(args) => completions::run(args, out),
        Command::Man(_) => man::run(out),
    }
}
