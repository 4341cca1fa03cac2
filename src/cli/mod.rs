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
mod discovery;
#[cfg(target_os = "linux")]
mod doctor;
mod explain;
mod git;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod host_rules;
#[cfg(target_os = "linux")]
mod input;
#[cfg(target_os = "linux")]
mod install;
mod lint;
pub mod machine;
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
mod notes;
#[cfg(target_os = "linux")]
mod perform;
#[cfg(target_os = "linux")]
mod progress;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod replay;
#[cfg(target_os = "linux")]
mod report;
mod rules;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod sandbox_clauses;
#[cfg(target_os = "linux")]
mod selftest;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(target_os = "linux")]
mod setup;
mod signals;
#[cfg(target_os = "linux")]
mod statement;
mod terminal;
#[cfg(target_os = "linux")]
mod workspace;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use clap::FromArgMatches;
use serde_json::Value;

use self::machine::Call;
use self::machine::redact::Secrets;
use self::machine::stream::Stream;
use crate::exit;
use agentproto_report::aoi::Category;
#[cfg(unix)]
use agentproto_runtime::fault::Fault;
pub use args::Cli;
use args::Command;

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
    /// For programs: pending setup steps, clauses, exit status.
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
    /// A signal ended the work.
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
            Some("handshake_timeout" | "turn_timeout") => return Category::Timeout,
            // Trying again does not change the machine.
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

#[cfg(unix)]
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure {
            hint: fault.hint,
            details: fault.details,
            ..Failure::new(exit::of(fault.code), fault.message).typed(fault.code.as_str())
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

/// A host of many small things: huge pages would hold a multiple of what it uses. Said before
/// anything is allocated; the helper takes it back, so that agents have what the machine gives.
#[cfg(target_os = "linux")]
fn keep_pages_small() {
    let hosts = ["serve", "mcp"];
    let first = std::env::args_os().nth(1);
    if first.is_some_and(|first| hosts.iter().any(|host| first == *host)) {
        // SAFETY: a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

/// Runs the command line; the exit code of the process.
pub fn main() -> u8 {
    #[cfg(target_os = "linux")]
    keep_pages_small();
    let parsed = machine::catalogue::tree().try_get_matches();
    let parsed = parsed.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        let mut call = Call::of(&matches);
        call.is_machine &= !is_agent(&cli.command);
        Ok((cli, call))
    });
    let (cli, call) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return machine::misunderstood(&error),
    };
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let secrets = Secrets::of(words.iter().map(|word| word.to_string_lossy()));
    let out = BufWriter::new(io::stdout().lock());
    let mut out = Stream::new(out, call.is_machine).of(&call.name);
    // Before the first line, so that whoever has read it may send a signal.
    if call.is_machine {
        signals::watch();
    }
    let outcome = machine::negotiate(&cli.global);
    let outcome = outcome.and_then(|()| once(&cli, &call, &words, &mut out));
    let outcome = match out.flush() {
        // Who stops reading does not change the verdict.
        Err(error) if outcome.is_ok() && error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io_failure(error))
        }
        _ => outcome,
    };
    let code = match outcome {
        _ if out.frame.is_cut && !out.frame.is_closed => machine::interrupted(&call, &mut out),
        Ok(code) => code,
        Err(failure) => {
            machine::complain(&call, &failure, &secrets, &mut out);
            failure.code
        }
    };
    let _ = out.flush();
    machine::faulty(&out).unwrap_or(code)
}

/// Standard output carries the agent's side of a conversation.
fn is_agent(command: &Command) -> bool {
    match command {
        #[cfg(target_os = "linux")]
        Command::Replay(args) => args.is_agent(),
        #[cfg(unix)]
        Command::Mock(args) => args.is_agent(),
        _ => false,
    }
}

/// Runs the command, or tells what it did where its key is known.
#[cfg(target_os = "linux")]
fn once<W: Write>(cli: &Cli, call: &Call, words: &[OsString], out: &mut Stream<W>) -> Outcome {
    use machine::once::{Claim, claim};
    let Some(key) = &call.key else {
        return run(cli, out);
    };
    // Others may hold the key for long, and input may be slow to come.
    let (key, words, limit) = (key.clone(), words.to_vec(), longest_payload(cli));
    let claimed = signals::unless_stopped(move || claim(&key, &words, payload(limit)?))?;
    let turn = match claimed? {
        Claim::Done(answer) => return answer.give(call.is_machine, out),
        Claim::Ours(turn) => turn,
    };
    out.keep();
    let code = run(cli, out)?;
    // What failed may be tried again.
    if let (exit::CLEAN, Some(kept)) = (code, out.take_kept()) {
        turn.done(code, &kept)?;
    }
    Ok(code)
}

#[cfg(not(target_os = "linux"))]
fn once<W: Write>(cli: &Cli, _call: &Call, _words: &[OsString], out: &mut Stream<W>) -> Outcome {
    run(cli, out)
}

/// How much a command reads besides its words.
#[cfg(target_os = "linux")]
fn longest_payload(cli: &Cli) -> Option<u64> {
    match &cli.command {
        Command::Auth { action } if action.reads_input() => Some(auth::LONGEST_SECRET + 1),
        Command::Run(args) if args.prompt.as_deref() == Some("-") => Some(run::LONGEST_PROMPT),
        _ => None,
    }
}

#[cfg(target_os = "linux")]
fn payload(limit: Option<u64>) -> Result<&'static [u8], Failure> {
    let Some(limit) = limit else {
        return Ok(&[]);
    };
    input::all(limit).map_err(|e| Failure::new(exit::IO, format!("standard input: {e}")))
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
        Command::Sessions(args) => sessions::run(args, &cli.global, out),
        #[cfg(target_os = "linux")]
        Command::Workspace { action } => workspace::run(action, out),
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
        Command::InputSchema(args) => discovery::input_schema(args, out),
        Command::Capabilities(args) => discovery::capabilities(args, out),
        Command::Completions { shell } => completions::run(*shell, out),
        Command::Man => man::run(out),
    }
}
