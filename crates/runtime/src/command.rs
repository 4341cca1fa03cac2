//! Runs the commands of a bundle in its sandbox: version checks, setup steps, logins, and the agent
//! itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::auth;
use crate::context::{Context, Sandboxing};
use crate::error::{Code, Error};
use agentproto_manifest::{Disk, Doctype, Overlay};
use agentproto_sandbox::backend;
use agentproto_sandbox::confined::{
    self, ConfinedChild, ConfinementError, CreatedPaths, PreparedChild,
};
use agentproto_sandbox::egress::audit::AuditEntry;
use agentproto_sandbox::egress::{AuditSink, SystemResolver};
use agentproto_sandbox::plan::{Raw, SpawnPlan, unconfined};
use agentproto_sandbox::policy::{self, Exec, HostContext, Policy, PolicyError, SandboxManifest};
use agentproto_sandbox::spawn::{self, Bounds, Child, Exit, Piece, SpawnOptions, Stdio};

/// A sandbox without network, files and other programs.
const PURE: &str = "network: { egress: [] }\nfs: { read: [], write: [] }\n\
    exec: { allow: false }\nenv: { pass: [], set: {} }\n";

/// Maximum number of bytes kept of a command's output.
const MAX_OUTPUT: usize = 1 << 20;

/// A command line from a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// Plain words, executed without a shell.
    Words(Vec<String>),
    /// Uses shell syntax, such as pipes, variables or several commands.
    Shell(String),
}

impl CommandLine {
    /// Splits a line like a shell does if it contains only words and quotes.
    pub fn parse(text: &str) -> Result<CommandLine, String> {
        if uses_shell(text) {
            return Ok(CommandLine::Shell(text.to_owned()));
        }
        match shell_words::split(text) {
            Ok(words) if words.is_empty() => Err("the command is empty".to_owned()),
            Ok(words) => Ok(CommandLine::Words(words)),
            Err(_) => Err("unclosed quote in the command".to_owned()),
        }
    }
}

/// Whether anything outside quotes has a meaning to a shell that plain word splitting does not
/// have.
fn uses_shell(text: &str) -> bool {
    let mut quote = None;
    let mut chars = text.chars();
    let mut at_start = true;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => {
                chars.next();
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some('\''), _) => {}
            (_, '$' | '`') => return true,
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '#' | '\n') => {
                return true;
            }
            (None, '~') if at_start => return true,
            _ => {}
        }
        at_start = quote.is_none() && c.is_whitespace();
    }
    false
}

/// A command with its environment, timeout and stdio.
pub struct BundleCommand {
    /// The program, as named, and its arguments.
    pub argv: Vec<OsString>,
    /// Overrides the variables that the policy passes and sets.
    pub env: Vec<(OsString, OsString)>,
    /// Maximum run time, or `None` for no limit.
    pub timeout: Option<Duration>,
    /// How stdin, stdout and stderr are connected.
    pub stdio: Stdio,
}

impl BundleCommand {
    /// Creates a command with pipes, without a time limit.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        BundleCommand {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            timeout: None,
            stdio: Stdio::Pipes,
        }
    }

    /// Creates the command of a manifest line. A line with shell syntax runs in `/bin/sh`.
    pub fn line(line: CommandLine) -> Self {
        match line {
            CommandLine::Words(words) => BundleCommand::new(words),
            CommandLine::Shell(text) => BundleCommand::new(["/bin/sh", "-c", &text]),
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit status and resource usage.
    pub exit: Exit,
    /// The first part of its stdout, at most one mebibyte.
    pub stdout: Vec<u8>,
    /// The last part of its stderr.
    pub stderr: String,
}

/// A command that is ready to start.
pub struct Launch {
    kind: LaunchKind,
    /// The working directory as the child sees it.
    pub cwd: PathBuf,
    /// The policy that applies to the child, or `None` without a sandbox.
    pub policy: Option<Policy>,
    /// Whether the manifest requires a terminal (A29-SBX-12).
    pub needs_terminal: bool,
}

impl Launch {
    /// What was created on the host for this command.
    pub fn take_created(&mut self) -> CreatedPaths {
        match &mut self.kind {
            LaunchKind::Confined(prepared) => prepared.take_created(),
            LaunchKind::Open(_) => CreatedPaths::default(),
        }
    }

    /// Removes the time limit.
    pub fn without_timeout(&mut self) {
        if let LaunchKind::Confined(prepared) = &mut self.kind {
            prepared.without_timeout();
        }
    }
}

enum LaunchKind {
    Confined(Box<PreparedChild>),
    Open(Box<SpawnPlan>),
}

/// A started command. Its egress proxy lives as long as this value.
pub enum Started {
    /// A process in a sandbox.
    Confined(Box<ConfinedChild>),
    /// A process without a sandbox.
    Open(Box<Child>),
}

impl Started {
    /// The process.
    pub fn child(&mut self) -> &mut Child {
        match self {
            Started::Confined(confined) => &mut confined.child,
            Started::Open(child) => child,
        }
    }

    /// Waits for the exit.
    pub async fn wait(&mut self) -> Exit {
        match self {
            Started::Confined(confined) => confined.wait().await,
            Started::Open(child) => child.wait().await,
        }
    }

    /// Stops it: closes stdin, sends SIGTERM, waits five seconds, sends SIGKILL (A45-LIFE-09).
    pub async fn stop(&mut self) -> Exit {
        match self {
            Started::Confined(confined) => confined.stop().await,
            Started::Open(child) => child.stop().await,
        }
    }
}

impl Context {
    /// Resolves the policy for a command, and returns an error if a clause cannot be enforced. Runs
    /// nothing.
    pub fn prepare(
        &self,
        argv: &[OsString],
        env: &[(OsString, OsString)],
    ) -> Result<Launch, Error> {
        // Commands around a tool, such as its version check, have no terminal. The tool itself is
        // prepared by `prepare_tool`.
        let is_tool = self.bundle.manifest.doctype == Some(Doctype::Cli);
        let manifest = SandboxManifest::load(self.bundle.path());
        self.prepare_with(manifest, argv, self.host_context(env), !is_tool)
    }

    /// Like `prepare`, for a tool of the bundle. Its own block narrows the bundle's, and one that
    /// widens it is an error even without a sandbox (A29-INHERIT-03).
    pub fn prepare_tool(
        &self,
        tool: &Path,
        argv: &[OsString],
        env: &[(OsString, OsString)],
    ) -> Result<Launch, Error> {
        let manifest = SandboxManifest::load_tool(self.bundle.path(), tool);
        self.prepare_with(manifest, argv, self.host_context(env), true)
    }

    /// Prepares a command that only computes. It sees its own program, and nothing of the user, the
    /// workspace or the bundle.
    pub(crate) fn prepare_pure(&self, argv: &[OsString]) -> Result<Launch, Error> {
        let path = PathBuf::from("/sandbox.yaml");
        let mut files = Overlay::new(&Disk);
        files.texts.insert(path.clone(), Some(PURE.to_owned()));
        let manifest = SandboxManifest::load_from(&files, &path);
        let mut host = self.host_context(&[]);
        host.defaults.private_size = 0;
        self.prepare_with(manifest, argv, host, false)
    }

    fn prepare_with(
        &self,
        manifest: Result<SandboxManifest, PolicyError>,
        argv: &[OsString],
        host: HostContext,
        may_have_terminal: bool,
    ) -> Result<Launch, Error> {
        let Some((name, rest)) = argv.split_first() else {
            return Err(Error::new(Code::SpawnFailed, "no command to run"));
        };
        let program = host.find(name)?;
        let argv: Vec<OsString> = [program.into_os_string()]
            .into_iter()
            .chain(rest.iter().cloned())
            .collect();
        let mut resolved = manifest.and_then(|target| policy::resolve(&target, &host, &argv));
        if let (false, Ok(policy)) = (may_have_terminal, &mut resolved) {
            policy.tty = None;
        }
        match self.sandboxing {
            Sandboxing::Auto => confine(resolved?, &argv),
            Sandboxing::Off => {
                let (env, needs_terminal) = match resolved {
                    Ok(policy) => (policy.env, policy.tty.is_some()),
                    Err(error @ PolicyError::Widens { .. }) => return Err(error.into()),
                    Err(_) => (policy::basic_environment(&host), false),
                };
                let mut launch = open(&argv, &env, &self.cwd);
                launch.needs_terminal = needs_terminal;
                Ok(launch)
            }
        }
    }

    /// Prepares a command that a confined agent asks for. It runs under the agent's own policy, so
    /// the agent cannot gain access this way. The program must be one that the agent could run
    /// itself. It does not get the agent's secrets (A45-SEC-05).
    pub fn prepare_within(
        &self,
        policy: &Policy,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        cwd: &Path,
    ) -> Result<Launch, Error> {
        let mut policy = policy.clone();
        let Some((name, rest)) = argv.split_first() else {
            return Err(Error::new(Code::SpawnFailed, "no command to run"));
        };
        if let Exec::Listed {
            fork: false,
            clause,
            ..
        } = &policy.exec
        {
            let what = format!(
                "the sandbox does not allow new processes: `{}`",
                clause.text
            );
            return Err(Error::new(Code::SpawnFailed, what));
        }
        let program = policy.program(name, cwd).ok_or_else(|| {
            let what = format!(
                "the sandbox does not allow running `{}`",
                name.to_string_lossy()
            );
            Error::new(Code::ProgramNotFound, what)
        })?;
        let argv: Vec<OsString> = [program.into_os_string()]
            .into_iter()
            .chain(rest.iter().cloned())
            .collect();
        policy
            .env
            .retain(|(name, value)| !auth::is_secret(self, name, value));
        for (name, value) in env {
            policy.env.retain(|(known, _)| known != name);
            policy.env.push((name.clone(), value.clone()));
        }
        policy.cwd = cwd.to_owned();
        confine(policy, &argv)
    }

    /// Like `prepare_within`, for an agent that runs without a sandbox.
    pub fn prepare_open(
        &self,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        cwd: &Path,
    ) -> Result<Launch, Error> {
        let mut launch = self.prepare(argv, env)?;
        if let LaunchKind::Open(plan) = &mut launch.kind {
            plan.cwd = Raw::from(cwd);
        }
        Ok(launch)
    }

    /// Starts a prepared command.
    pub async fn launch(&self, launch: Launch, options: SpawnOptions) -> Result<Started, Error> {
        match launch.kind {
            LaunchKind::Confined(prepared) => {
                let sink = Arc::new(Egress(self.clone()));
                confined::start(*prepared, options, Arc::new(SystemResolver), sink)
                    .await
                    .map(|confined| Started::Confined(Box::new(confined)))
                    .map_err(not_started)
            }
            LaunchKind::Open(plan) => spawn::spawn(&plan, options)
                .await
                .map(|child| Started::Open(Box::new(child)))
                .map_err(|e| not_started(e.into())),
        }
    }

    /// Runs a command of the bundle until it exits.
    pub async fn run(&self, command: BundleCommand) -> Result<Finished, Error> {
        let launch = self.prepare(&command.argv, &command.env)?;
        let options = SpawnOptions {
            stdio: command.stdio,
            timeout: command.timeout,
            bounds: Bounds {
                line: MAX_OUTPUT,
                waiting: 2 * MAX_OUTPUT,
            },
            ..SpawnOptions::default()
        };
        let mut started = self.launch(launch, options).await?;
        Ok(finish(&mut started, &mut |_| {}).await)
    }

    /// Runs a program of the host that does not belong to the bundle, such as a package manager.
    /// The declared sandbox does not apply to it, but none of its processes outlives this one.
    pub async fn run_host(
        &self,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        cwd: &Path,
        options: SpawnOptions,
    ) -> Result<Finished, Error> {
        self.run_host_with_lines(argv, env, cwd, options, &mut |_| {})
            .await
    }

    /// Like `run_host`. `on_line` receives each line of stdout as it arrives.
    pub async fn run_host_with_lines(
        &self,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        cwd: &Path,
        options: SpawnOptions,
        on_line: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<Finished, Error> {
        let mut started = self.start_host(argv, env, cwd, options).await?;
        Ok(finish(&mut started, on_line).await)
    }

    /// Like `run_host`, but returns the running process, so that the caller can talk to it.
    pub async fn start_host(
        &self,
        argv: &[OsString],
        env: &[(OsString, OsString)],
        cwd: &Path,
        options: SpawnOptions,
    ) -> Result<Started, Error> {
        let host = self.host_context(env);
        let Some((name, rest)) = argv.split_first() else {
            return Err(Error::new(Code::SpawnFailed, "no command to run"));
        };
        let argv: Vec<OsString> = [host.find(name)?.into_os_string()]
            .into_iter()
            .chain(rest.iter().cloned())
            .collect();
        let plan = unconfined(&argv, &policy::basic_environment(&host), cwd);
        let child = spawn::spawn(&plan, options)
            .await
            .map_err(|e| not_started(e.into()))?;
        Ok(Started::Open(Box::new(child)))
    }
}

/// Closes stdin, collects the output, and waits for the exit.
pub(super) async fn finish(
    started: &mut Started,
    on_line: &mut (dyn FnMut(&[u8]) + Send),
) -> Finished {
    let child = started.child();
    child.stdin = None;
    let mut stdout = Vec::new();
    if let Some(mut lines) = child.stdout.take() {
        while let Some(piece) = lines.next().await {
            let (bytes, ended) = match piece {
                Piece::Line { bytes, ended } => (bytes, ended),
                Piece::TooLong { start, .. } => (start, true),
                Piece::Gap { .. } => continue,
            };
            on_line(&bytes);
            let remaining = MAX_OUTPUT.saturating_sub(stdout.len());
            stdout.extend_from_slice(bytes.get(..remaining.min(bytes.len())).unwrap_or_default());
            if ended && stdout.len() < MAX_OUTPUT {
                stdout.push(b'\n');
            }
        }
    }
    let exit = started.wait().await;
    let child = started.child();
    child.stderr.finish().await;
    Finished {
        exit,
        stdout,
        stderr: child.stderr.text(),
    }
}

fn confine(policy: Policy, argv: &[OsString]) -> Result<Launch, Error> {
    let backend = backend::choose(None);
    let prepared = confined::prepare(&policy, argv, &backend).map_err(not_started)?;
    Ok(Launch {
        kind: LaunchKind::Confined(Box::new(prepared)),
        cwd: policy.cwd.clone(),
        needs_terminal: policy.tty.is_some(),
        policy: Some(policy),
    })
}

fn open(argv: &[OsString], env: &[(OsString, OsString)], cwd: &Path) -> Launch {
    Launch {
        kind: LaunchKind::Open(Box::new(unconfined(argv, env, cwd))),
        cwd: cwd.to_owned(),
        needs_terminal: false,
        policy: None,
    }
}

/// The error for a command that could not be started.
fn not_started(error: ConfinementError) -> Error {
    match &error {
        ConfinementError::Unenforceable(list) => {
            Error::new(Code::SandboxUnenforceable, error.to_string())
                .hint("`agentproto sandbox explain` shows each clause; `--sandbox off` runs without a sandbox, at your own risk")
                .details(confined::refused_clauses(list))
        }
        _ => Error::new(Code::SpawnFailed, error.to_string()),
    }
}

/// Writes every decision of the egress proxy to the audit log.
struct Egress(Context);

impl AuditSink for Egress {
    fn record(&self, entry: &AuditEntry) -> std::io::Result<()> {
        let data = serde_json::to_value(entry)?;
        let audit = &self.0.audit;
        let recorded = match entry.is_refusal() {
            true => audit.record_refusal(entry.event.into(), "network.egress", data),
            false => audit.record("network.egress", data),
        };
        recorded.map_err(std::io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_need_no_shell() {
        let words = |text: &str| match CommandLine::parse(text) {
            Ok(CommandLine::Words(words)) => words,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(words("gh --version"), ["gh", "--version"]);
        assert_eq!(
            words("a 'b c' \"d | e\" f\\ g"),
            ["a", "b c", "d | e", "f g"]
        );
        assert_eq!(words("x a~b 'it''s $HOME'"), ["x", "a~b", "its $HOME"]);
    }

    #[test]
    fn shell_syntax_goes_to_the_shell() {
        for text in [
            "a | b",
            "a && b",
            "a; b",
            "a > f",
            "echo $HOME",
            "ls *",
            "cat ~/x",
            "\"$x\"",
            "`id`",
            "(a)",
        ] {
            assert_eq!(
                CommandLine::parse(text),
                Ok(CommandLine::Shell(text.to_owned())),
                "{text}"
            );
        }
        assert!(CommandLine::parse("").is_err() && CommandLine::parse("a 'b").is_err());
    }
}
