//! The subcommands that run, host or judge agents and tools. The linter is built without them.

mod aoi_lint;
mod aoi_mock;
mod aoi_selftest;
mod ask;
mod audit;
mod auth;
mod bridge;
mod certify;
mod client;
#[cfg(debug_assertions)]
pub mod contract;
mod coverage;
mod diff;
mod doctor;
pub mod effects;
mod exit_codes;
pub mod explain;
mod host;
mod host_rules;
mod input;
mod install;
pub mod log;
mod mcp;
mod mistakes;
mod mock;
mod model;
mod notes;
mod once;
mod perform;
mod progress;
mod record;
mod replay;
mod report;
mod run;
mod sandbox;
mod sandbox_clauses;
mod selftest;
mod serve;
mod sessions;
mod setup;
mod statement;
mod workspace;

use std::ffi::OsString;
use std::io::Write;

use clap::Subcommand;

use self::once::{Claim, claim};
use super::args::Global;
use super::machine::Call;
use super::machine::stream::Stream;
use super::{Cli, Failure, Outcome, signals};
use crate::exit;
use agentproto_runtime::fault::Fault;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Print what decides each statement of the specs: rules, cases, monitors
    Coverage(coverage::Coverage),
    /// Say what this machine can do: what its kernel can enforce, and what is missing
    Doctor(doctor::Doctor),
    /// Install the program of a bundle where it is missing, and check its version
    Install(install::Install),
    /// Look at a declared sandbox, or run a command in one
    Sandbox {
        #[command(subcommand)]
        action: sandbox::SandboxAction,
    },
    /// Run an agent: one turn, from its manifest to its end
    Run(run::Run),
    /// Serve many agents on this host: HTTP, server-sent events, MCP, a dashboard
    Serve(serve::Serve),
    /// List the sessions of a running host, watch them, or attach to one
    Sessions(sessions::Sessions),
    /// Manage the named directories that sessions run in
    Workspace {
        #[command(subcommand)]
        action: workspace::WorkspaceAction,
    },
    /// Do what a bundle needs once before it is ready
    Setup(setup::Setup),
    /// Log in to what a bundle needs, and keep its secrets
    Auth {
        #[command(subcommand)]
        action: auth::AuthAction,
    },
    /// Look at the audit log
    Audit {
        #[command(subcommand)]
        action: audit::AuditAction,
    },
    /// Prove what an agent really does: suites of cases over its raw wire
    Certify(Box<certify::Certify>),
    /// Prove what a command-line tool does in machine mode: the 13 checks of AOI-CLI
    AoiLint(aoi_lint::AoiLint),
    /// Stand between a client and its agent, and write down every line
    Record(record::Record),
    /// Play a recording: as the agent, as the client of a live agent, or before the judge
    Replay(replay::Replay),
    /// Say what differs between two recordings
    Diff(diff::Diff),
    /// Merge, render and list saved certification reports
    Report {
        #[command(subcommand)]
        action: report::ReportAction,
    },
    /// Run a mock agent on stdio, correct or wrong in one way
    Mock(mock::Mock),
    /// Serve agent sessions to an MCP client on standard input and output
    Mcp(mcp::Mcp),
}

impl Command {
    /// Standard output carries the agent's side of a conversation.
    pub fn is_agent(&self) -> bool {
        match self {
            Command::Replay(args) => args.is_agent(),
            Command::Mock(args) => args.is_agent(),
            _ => false,
        }
    }

    /// How much it reads besides its words.
    fn longest_payload(&self) -> Option<u64> {
        match self {
            Command::Auth { action } if action.reads_input() => Some(auth::LONGEST_SECRET + 1),
            Command::Run(args) if args.prompt.as_deref() == Some("-") => Some(run::LONGEST_PROMPT),
            _ => None,
        }
    }

    pub fn run(&self, global: &Global, out: &mut dyn Write) -> Outcome {
        match self {
            Command::Coverage(args) => coverage::run(args, out),
            Command::Doctor(args) => doctor::run(args, global, out),
            Command::Install(args) => install::run(args, global, out),
            Command::Sandbox { action } => sandbox::run(action, global, out),
            Command::Run(args) => run::run(args, global, out),
            Command::Serve(args) => serve::run(args, global, out),
            Command::Sessions(args) => sessions::run(args, global, out),
            Command::Workspace { action } => workspace::run(action, out),
            Command::Audit { action } => audit::run(action, out),
            Command::Setup(args) => setup::run(args, global, out),
            Command::Auth { action } => auth::run(action, global, out),
            Command::Certify(args) => certify::run(args, global, out),
            Command::AoiLint(args) => aoi_lint::run(args, global, out),
            Command::Record(args) => record::run(args, global),
            Command::Replay(args) => replay::run(args, global, out),
            Command::Diff(args) => diff::run(args, global, out),
            Command::Report { action } => report::run(action, global, out),
            Command::Mock(args) => mock::run(args, global, out),
            Command::Mcp(args) => mcp::run(args, global),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure {
            hint: fault.hint,
            details: fault.details,
            ..Failure::new(exit_codes::of(fault.code), fault.message).typed(fault.code.as_str())
        }
    }
}

/// A host of many small things: huge pages would hold a multiple of what it uses. Said before
/// anything is allocated; the helper takes it back, so that agents have what the machine gives.
pub fn keep_pages_small() {
    let hosts = ["serve", "mcp"];
    let first = std::env::args_os().nth(1);
    if first.is_some_and(|first| hosts.iter().any(|host| first == *host)) {
        // SAFETY: a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

/// Runs the command, or repeats the answer of an earlier run with the same key.
pub fn once<W: Write>(
    command: &Command,
    cli: &Cli,
    call: &Call,
    words: &[OsString],
    out: &mut Stream<W>,
) -> Outcome {
    let Some(key) = &call.key else {
        return super::run(cli, out);
    };
    // Others may hold the key for long, and input may be slow to come.
    let (key, words, limit) = (key.clone(), words.to_vec(), command.longest_payload());
    let claimed = signals::unless_stopped(move || claim(&key, &words, payload(limit)?))?;
    let turn = match claimed? {
        Claim::Done(answer) => return answer.give(call.is_machine, out),
        Claim::Ours(turn) => turn,
    };
    out.keep();
    let code = super::run(cli, out)?;
    // What failed may be tried again.
    if let (exit::CLEAN, Some(kept)) = (code, out.take_kept()) {
        turn.done(code, &kept)?;
    }
    Ok(code)
}

fn payload(limit: Option<u64>) -> Result<&'static [u8], Failure> {
    let Some(limit) = limit else {
        return Ok(&[]);
    };
    input::all(limit).map_err(|e| Failure::new(exit::IO, format!("standard input: {e}")))
}

/// A number of seconds on the command line.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("a number of seconds above 0".to_owned()),
    }
}
