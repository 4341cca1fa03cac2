//! The subcommands that run, host or test agents and tools. The linter is built without them.

mod aoi_lint;
mod aoi_mock;
mod aoi_selftest;
mod ask;
mod audit;
mod auth;
mod bridge;
mod bundles;
mod call;
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
mod export;
mod file_errors;
mod host;
mod host_rules;
mod install;
mod lifecycle;
pub mod log;
mod mcp;
mod mock;
mod model;
mod notes;
mod once;
mod preview;
mod progress;
mod recipes;
mod record;
mod replay;
mod report;
mod requirement;
mod run;
mod sandbox;
mod sandbox_clauses;
mod sandbox_settings;
mod selftest;
mod serve;
mod sessions;
mod setup;
mod stdin;
mod workspace;

use std::ffi::OsString;
use std::io::Write;

use clap::Subcommand;

use self::once::{Claim, claim};
use super::args::Global;
use super::deferred::{Action, Deferred};
use super::machine::Call;
use super::machine::stream::Stream;
use super::{Cli, Failure, Outcome, signals};
use crate::exit;
use agentproto_runtime::error::Error;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the requirements of the specs with the rules, cases and monitors that check them
    Coverage(Deferred<coverage::Coverage>),
    /// Run one turn of the agent that a manifest describes
    Run(Deferred<run::Run>),
    /// Call a command of the tool that a CLI.md describes, or list its commands
    Call(Deferred<call::CallTool>),
    /// Install the program that a bundle describes if it is missing, and check its version
    Install(Deferred<install::Install>),
    /// Run the one-time setup steps of a bundle
    Setup(Deferred<setup::Setup>),
    /// Log in to the services that a bundle needs, and store its secrets
    Auth(Deferred<Action<auth::AuthAction>>),
    /// Explain a declared sandbox, or run a command in it
    Sandbox(Deferred<Action<sandbox::SandboxAction>>),
    /// Show what this machine supports: what its kernel can enforce, and what is missing
    Doctor(Deferred<doctor::Doctor>),
    /// Check the audit log, or print an anchor, a short value that later proves that the log was not
    /// changed
    Audit(Deferred<Action<audit::AuditAction>>),
    /// Run the daemon: many agent sessions over HTTP, server-sent events and MCP, with a dashboard
    Serve(Deferred<serve::Serve>),
    /// List, start, follow and control the sessions of the running daemon
    Sessions(Deferred<sessions::Sessions>),
    /// Manage the named directories that sessions run in
    Workspace(Deferred<Action<workspace::WorkspaceAction>>),
    /// Serve agent sessions, or the tools of CLI bundles, to an MCP client on stdin and stdout
    Mcp(Deferred<mcp::Mcp>),
    /// Certify an agent: run conformance suites against it over stdin and stdout
    Certify(Deferred<certify::Certify>),
    /// Check the machine mode of a command-line tool with the 13 checks of AOI-CLI
    AoiLint(Deferred<aoi_lint::AoiLint>),
    /// Write an agent's definition for another host
    Export(Deferred<Action<export::ExportAction>>),
    /// Forward every line between a client and its agent, and record it
    Record(Deferred<record::Record>),
    /// Replay a recording as the agent or as the client, or check it with suites
    Replay(Deferred<replay::Replay>),
    /// Show the differences between two recordings
    Diff(Deferred<diff::Diff>),
    /// Merge, render and list saved certification reports
    Report(Deferred<Action<report::ReportAction>>),
    /// Run a mock agent, server, model or tool, conforming or with one known defect
    Mock(Deferred<mock::Mock>),
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
    fn max_stdin_bytes(&self) -> Option<u64> {
        match self {
            Command::Auth(args) if args.action.reads_input() => Some(auth::MAX_SECRET_BYTES + 1),
            Command::Run(args) if args.prompt.as_deref() == Some("-") => {
                Some(run::MAX_PROMPT_BYTES)
            }
            Command::Call(args) if args.input.as_deref() == Some("-") => {
                Some(call::MAX_INPUT_BYTES)
            }
            Command::Sessions(args) if args.reads_input() => Some(run::MAX_PROMPT_BYTES),
            _ => None,
        }
    }

    pub fn run(&self, global: &Global, out: &mut dyn Write) -> Outcome {
        match self {
            Command::Coverage(args) => coverage::run(args, out),
            Command::Doctor(args) => doctor::run(args, global, out),
            Command::Install(args) => install::run(args, global, out),
            Command::Sandbox(args) => sandbox::run(&args.action, global, out),
            Command::Run(args) => run::run(args, global, out),
            Command::Call(args) => call::run(args, global, out),
            Command::Serve(args) => serve::run(args, global, out),
            Command::Sessions(args) => sessions::run(args, global, out),
            Command::Workspace(args) => workspace::run(&args.action, out),
            Command::Audit(args) => audit::run(&args.action, out),
            Command::Setup(args) => setup::run(args, global, out),
            Command::Auth(args) => auth::run(&args.action, global, out),
            Command::Certify(args) => certify::run(args, global, out),
            Command::AoiLint(args) => aoi_lint::run(args, global, out),
            Command::Export(args) => export::run(&args.action, out),
            Command::Record(args) => record::run(args, global),
            Command::Replay(args) => replay::run(args, global, out),
            Command::Diff(args) => diff::run(args, global, out),
            Command::Report(args) => report::run(&args.action, global, out),
            Command::Mock(args) => mock::run(args, global, out),
            Command::Mcp(args) => mcp::run(args, global),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure {
            hint: error.hint,
            details: error.details,
            ..Failure::new(exit_codes::of(error.code), error.message).typed(error.code.as_str())
        }
    }
}

/// Runs the command, or returns the result of an earlier run with the same key.
pub fn run_once<W: Write>(
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
    let (key, words, limit) = (key.clone(), words.to_vec(), command.max_stdin_bytes());
    let claimed = signals::run_until_signal(move || claim(&key, &words, payload(limit)?))?;
    let claimed_key = match claimed? {
        Claim::Done(answer) => return answer.print(call.is_machine, out),
        Claim::New(claimed_key) => claimed_key,
    };
    out.store_output();
    let code = super::run(cli, out)?;
    // A call that failed may be repeated.
    if let (exit::CLEAN, Some(stored)) = (code, out.take_stored()) {
        claimed_key.store(code, &stored)?;
    }
    Ok(code)
}

fn payload(limit: Option<u64>) -> Result<&'static [u8], Failure> {
    let Some(limit) = limit else {
        return Ok(&[]);
    };
    stdin::read_all(limit).map_err(|e| Failure::new(exit::IO, format!("cannot read stdin: {e}")))
}

/// A number of seconds on the command line.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("expected a number of seconds above 0".to_owned()),
    }
}
