//! The subcommands that run, host or test agents and tools. The linter is built without them.

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
    /// List the requirements of the specs with the rules, cases and monitors that check them
    Coverage(coverage::Coverage),
    /// Show what this machine supports: what its kernel can enforce, and what is missing
    Doctor(doctor::Doctor),
    /// Install the program of a bundle if it is missing, and check its version
    Install(install::Install),
    /// Explain a declared sandbox, or run a command in it
    Sandbox {
        #[command(subcommand)]
        action: sandbox::SandboxAction,
    },
    /// Run one turn of the agent that a manifest describes
    Run(run::Run),
    /// Serve many agents on this host: HTTP, server-sent events, MCP and a dashboard
    Serve(serve::Serve),
    /// List the sessions of a running host, watch them, or attach to one
    Sessions(sessions::Sessions),
    /// Manage the named directories that sessions run in
    Workspace {
        #[command(subcommand)]
        action: workspace::WorkspaceAction,
    },
    /// Run the setup steps that a bundle needs once
    Setup(setup::Setup),
    /// Log in to the services that a bundle needs, and store its secrets
    Auth {
        #[command(subcommand)]
        action: auth::AuthAction,
    },
    /// Check the audit log
    Audit {
        #[command(subcommand)]
        action: audit::AuditAction,
    },
    /// Certify an agent: run conformance suites against it over the wire
    Certify(Box<certify::Certify>),
    /// Check the machine mode of a command-line tool with the 13 checks of AOI-CLI
    AoiLint(aoi_lint::AoiLint),
    /// Forward every line between a client and its agent, and record it
    Record(record::Record),
    /// Replay a recording as the agent or as the client, or check it with suites
    Replay(replay::Replay),
    /// Show the differences between two recordings
    Diff(diff::Diff),
    /// Merge, render and list saved certification reports
    Report {
        #[command(subcommand)]
        action: report::ReportAction,
    },
    /// Run a mock agent on stdio, conforming or with one known defect
    Mock(mock::Mock),
    /// Serve agent sessions to an MCP client on stdin and stdout
    Mcp(mcp::Mcp),
}

impl Command {
    /// Whether stdout carries the agent's side of a conversation.
    pub fn is_agent(&self) -> bool {
        match self {
            Command::Replay(args) => args.is_agent(),
            Command::Mock(args) => args.is_agent(),
            _ => false,
        }
    }

    /// Maximum number of bytes that the command reads from stdin, if it reads stdin.
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

/// Turns off huge pages for host commands, because with many small allocations they would take a
/// multiple of the memory that is used. Called before anything is allocated. The helper turns them
/// on again, so that agents run with the machine's own setting.
pub fn keep_pages_small() {
    let hosts = ["serve", "mcp"];
    let first = std::env::args_os().nth(1);
    if first.is_some_and(|first| hosts.iter().any(|host| first == *host)) {
        // SAFETY: only sets a flag of this process.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

/// Runs the command, or returns the result of an earlier run with the same key.
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
    // Another process may hold the key for long, and input may be slow to arrive.
    let (key, words, limit) = (key.clone(), words.to_vec(), command.longest_payload());
    let claimed = signals::unless_stopped(move || claim(&key, &words, payload(limit)?))?;
    let turn = match claimed? {
        Claim::Done(answer) => return answer.give(call.is_machine, out),
        Claim::Ours(turn) => turn,
    };
    out.keep();
    let code = super::run(cli, out)?;
    // A call that failed may be repeated.
    if let (exit::CLEAN, Some(kept)) = (code, out.take_kept()) {
        turn.done(code, &kept)?;
    }
    Ok(code)
}

fn payload(limit: Option<u64>) -> Result<&'static [u8], Failure> {
    let Some(limit) = limit else {
        return Ok(&[]);
    };
    input::all(limit).map_err(|e| Failure::new(exit::IO, format!("cannot read stdin: {e}")))
}

/// A number of seconds on the command line.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("must be a number of seconds above 0".to_owned()),
    }
}
