//! `agentproto sandbox explain` and `agentproto sandbox run`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::Signals;
use crate::cli::agents::sandbox_clauses as table;
use crate::cli::agents::sandbox_settings;
use clap::{Args, Subcommand};

use crate::cli::agents::effects::IdempotencyArgs;
use crate::cli::args::{Global, LiveOutput, Output, values};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_lint::render::Meta;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_runtime::audit::Audit;
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;
use agentproto_runtime::{Error, validate};
use agentproto_sandbox::backend;
use agentproto_sandbox::confined::{self, ConfinedChild, ConfinementError, PreparedChild};
use agentproto_sandbox::diagnose;
use agentproto_sandbox::egress::{AuditSink, Decisions, JsonLines, SystemResolver};
use agentproto_sandbox::policy::{
    self, BUNDLE_FILES, HostContext, Policy, PolicyError, SandboxManifest, StateCreation,
};
use agentproto_sandbox::spawn::{Exit, OutputLines, Piece, SpawnOptions, Stdio};
use agentproto_sandbox::{Assessment, Backend, Enforcement};
use agentproto_text::escape_line;
use agentproto_text::redact::SecretRedactor;

#[derive(Subcommand, Debug)]
pub enum SandboxAction {
    /// Show how each sandbox clause is enforced on this machine, or why it cannot be
    Explain(SandboxExplain),
    /// Run a command in the sandbox of a manifest
    Run(SandboxRun),
}

#[derive(Args, Debug)]
pub struct SandboxExplain {
    /// Bundle directory, AGENT-CLI.md, CLI.md, SANDBOX.md, TOOL.md, or a YAML file with a sandbox
    /// block
    pub target: PathBuf,
    /// Use DIR as the working directory of the session [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Use this sandbox backend [default: the first one that works on this machine]
    #[arg(long, value_name = "NAME", value_parser = values(Backend::ALL))]
    pub backend: Option<Backend>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

#[derive(Args, Debug)]
pub struct SandboxRun {
    /// Bundle directory, AGENT-CLI.md, CLI.md, SANDBOX.md, TOOL.md, or a YAML file with a sandbox
    /// block
    #[arg(value_name = "TARGET")]
    pub policy: PathBuf,
    /// Run the command in DIR [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Use this sandbox backend [default: the first one that works on this machine]
    #[arg(long, value_name = "NAME", value_parser = values(Backend::ALL))]
    pub backend: Option<Backend>,
    /// Kill the command after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = crate::cli::agents::seconds)]
    pub timeout: Option<f64>,
    /// Append every decision of the egress proxy to FILE, one JSON object per line
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Run with a manifest that has errors
    #[arg(long)]
    pub allow_invalid: bool,
    #[command(flatten)]
    pub idempotency: IdempotencyArgs,
    /// Output format: the command's own streams, or events
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = LiveOutput::Human)]
    pub output: LiveOutput,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

pub fn run(action: &SandboxAction, global: &Global, out: &mut dyn Write) -> Outcome {
    match action {
        SandboxAction::Explain(args) => explain(args, global, out),
        SandboxAction::Run(args) => start(args, global, out),
    }
}

fn explain(args: &SandboxExplain, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let manifest = load(&args.target)?;
    let refusal = refused(&manifest);
    if let Some(error) = &refusal {
        let what = escape_line(&error.message);
        eprintln!("agentproto: warning: runs of this manifest are refused: {what}");
    }
    let mut host_context = host_context(&manifest, args.cwd.as_deref(), global)?;
    // Shows all that a login would create. Resolving a policy creates nothing.
    host_context.state_creation = StateCreation::Login;
    let policy = policy::resolve(&manifest, &host_context, &[]).map_err(policy_failure)?;
    let backend = backend::choose(args.backend);
    let list = confined::assess_all(&policy, &backend);
    let view = table::View {
        target: &args.target,
        policy: &policy,
        backend: backend.as_ref().ok().copied(),
        assessments: &list,
        errors: refusal.map_or(0, |error| error.details["errors"].as_u64().unwrap_or(1)),
        verbose: global.verbose,
    };
    match args.output {
        Output::Json => writeln!(out, "{:#}", view.json()),
        Output::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            view.events(&mut emitter)
                .and_then(|()| emitter.summary(true, started.elapsed(), Fields::new()))
        }
        Output::Human => {
            let meta = Meta {
                color: terminal::color(global),
                width: terminal::width(),
                ..Meta::default()
            };
            view.human(&meta, out)
        }
    }
    .map_err(io_failure)?;
    Ok(match list.iter().all(is_enforced) {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

fn is_enforced(assessment: &Assessment) -> bool {
    matches!(assessment.enforcement, Enforcement::Enforced { .. })
}

const NAME_A_SANDBOX: &str =
    "pass a CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md, or a YAML file with a sandbox block";

/// Loads a file, or the manifest of a bundle directory.
fn load(path: &Path) -> Result<SandboxManifest, Failure> {
    if !path.exists() {
        let what = format!("`{}` does not exist", path.display());
        return Err(Failure::new(exit::NO_INPUT, what)
            .typed("manifest_unreadable")
            .hint(NAME_A_SANDBOX));
    }
    let file = if path.is_dir() {
        let files = BUNDLE_FILES.map(|name| path.join(name));
        files
            .into_iter()
            .find(|file| file.is_file())
            .ok_or_else(|| {
                let what = format!("`{}` does not contain a manifest", path.display());
                Failure::new(exit::NO_INPUT, what).hint(NAME_A_SANDBOX)
            })?
    } else {
        path.to_owned()
    };
    SandboxManifest::load(&file).map_err(|error| {
        let failure = policy_failure(error);
        match file.extension().is_some_and(|extension| extension == "md") {
            true => failure,
            false => failure.hint(NAME_A_SANDBOX),
        }
    })
}

/// Why loading refuses the manifest, if it does. A plain YAML file is only a sandbox block.
fn refused(manifest: &SandboxManifest) -> Option<Error> {
    let document = &manifest.document;
    if document.path.extension().is_none_or(|e| e != "md") {
        return None;
    }
    let bundle = manifest.bundle().map(Path::to_owned);
    validate::refused(document, bundle.as_slice())
}

fn host_context(
    manifest: &SandboxManifest,
    cwd: Option<&Path>,
    global: &Global,
) -> Result<HostContext, Failure> {
    let failure = |e: io::Error| {
        Failure::new(
            exit::IO,
            format!("cannot determine the current directory: {e}"),
        )
    };
    let mut context = HostContext::of_this_process(&manifest.dir()).map_err(failure)?;
    if let Some(cwd) = cwd {
        context.cwd = cwd
            .canonicalize()
            .map_err(|e| Failure::new(exit::NO_INPUT, format!("`{}`: {e}", cwd.display())))?;
    }
    let settings = sandbox_settings::load(global, [])?;
    context.protection = settings.protection;
    context.defaults = settings.defaults;
    if let Ok(home) = Home::from_env() {
        context.protection.state.push(home.root().to_owned());
    }
    Ok(context)
}

fn policy_failure(error: PolicyError) -> Failure {
    let failure = Failure::new(exit_codes::of_policy_error(&error), error.to_string());
    let failure = failure.typed(error.code());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn start(args: &SandboxRun, global: &Global, out: &mut dyn Write) -> Outcome {
    let manifest = load(&args.policy)?;
    if let Some(error) = refused(&manifest) {
        if !args.allow_invalid {
            return Err(error.into());
        }
        let what = escape_line(&error.message);
        eprintln!("agentproto: warning: the manifest is invalid, and the run continues: {what}");
        audit_log(args)?.record("manifest.invalid", *error.details)?;
    }
    let host_context = host_context(&manifest, args.cwd.as_deref(), global)?;
    let policy =
        policy::resolve(&manifest, &host_context, &args.command).map_err(policy_failure)?;
    let command = command(&host_context, &args.command)?;
    let backend = backend::choose(args.backend);
    let prepared = confined::prepare(&policy, &command, &backend).map_err(start_failure)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| {
            Failure::new(
                exit::INTERNAL,
                format!("cannot start the async runtime: {e}"),
            )
        })?;
    runtime.block_on(async {
        match args.output {
            LiveOutput::Jsonl => run_with_events(args, prepared, out).await,
            LiveOutput::Human => run_with_streams(args, &policy, prepared).await,
        }
    })
}

/// The path of the program, followed by its arguments.
fn command(context: &HostContext, words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let Some((name, rest)) = words.split_first() else {
        return Err(Failure::new(exit::USAGE, "no command to run")
            .hint("usage: agentproto sandbox run TARGET -- COMMAND [ARGUMENT…]"));
    };
    let path = context.find(name).map_err(policy_failure)?;
    let mut command = vec![path.into_os_string()];
    command.extend(rest.iter().cloned());
    Ok(command)
}

fn start_failure(error: ConfinementError) -> Failure {
    match &error {
        ConfinementError::Unenforceable(_) | ConfinementError::Bubblewrap(_) => Failure {
            details: Box::new(match &error {
                ConfinementError::Unenforceable(list) => confined::refused_clauses(list),
                _ => Value::Null,
            }),
            ..Failure::new(exit::UNAVAILABLE, error.to_string())
                .typed("sandbox_unenforceable")
                .hint("`agentproto sandbox explain` shows every clause; `agentproto doctor` shows what this machine supports")
        },
        ConfinementError::Egress(_) => Failure::new(exit::DATA, error.to_string()),
        ConfinementError::Create { .. }
        | ConfinementError::Limits(_)
        | ConfinementError::Ingress { .. }
        | ConfinementError::Spawn(_) => {
            Failure::new(exit::UNAVAILABLE, error.to_string()).typed("spawn_failed")
        }
    }
}

/// Receives the decisions of the proxy.
fn audit(path: Option<&PathBuf>) -> Result<Arc<Decisions>, Failure> {
    let file =
        match path {
            Some(path) => Some(JsonLines::append(path).map_err(|e| {
                Failure::new(exit::CANT_CREATE, format!("`{}`: {e}", path.display()))
            })?),
            None => None,
        };
    Ok(Arc::new(Decisions::new(file)))
}

/// Runs the command with our own streams, or with a terminal that is connected to ours.
async fn run_with_streams(args: &SandboxRun, policy: &Policy, prepared: PreparedChild) -> Outcome {
    let audit = audit(args.audit.as_ref())?;
    let options = SpawnOptions {
        stdio: match policy.tty {
            Some(_) => Stdio::Terminal {
                rows: 24,
                columns: terminal::width() as u16,
            },
            None => Stdio::InheritExceptStderr,
        },
        stderr: Box::new(|bytes| {
            let mut err = io::stderr().lock();
            let _ = err.write_all(bytes).and_then(|()| err.flush());
        }),
        timeout: args.timeout.map(Duration::from_secs_f64),
        ..SpawnOptions::default()
    };
    let sink: Arc<dyn AuditSink> = audit.clone();
    let mut confined = confined::start(prepared, options, Arc::new(SystemResolver), sink)
        .await
        .map_err(start_failure)?;
    let bridge = confined
        .child
        .terminal
        .take()
        .map(crate::cli::agents::bridge::join);
    let exit = wait_for_exit(&mut confined).await;
    if let Some(bridge) = bridge {
        bridge.finish().await;
    }
    let decisions = audit.finish().map_err(io_failure)?;
    if !exit.status.success() {
        confined.child.stderr.finish().await;
        let stderr = confined.child.stderr.text();
        for hint in diagnose::diagnose(policy, &stderr, &decisions) {
            eprintln!(
                "agentproto: the sandbox may be the cause: {}",
                escape_line(&hint)
            );
        }
    }
    if exit.timed_out {
        return Err(Failure::new(
            exit::TEMPORARY,
            "the command was killed after the time limit",
        ));
    }
    Ok(code(exit.status))
}

/// Forwards our signals to the child. A second signal kills it.
async fn wait_for_exit(confined: &mut ConfinedChild) -> Exit {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else {
        return confined.wait().await;
    };
    let mut signaled = false;
    loop {
        let number = tokio::select! {
            _ = confined.child.wait() => break,
            _ = interrupt.recv() => libc::SIGINT,
            _ = terminate.recv() => libc::SIGTERM,
            _ = hangup.recv() => libc::SIGHUP,
        };
        if signaled {
            let _ = confined.child.kill().await;
        } else {
            let _ = confined.child.signal(number, false);
        }
        signaled = true;
    }
    confined.wait().await
}

/// The exit code, as shells report it.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => (128 + signal) as u8,
        (None, None) => exit::INTERNAL,
    }
}

async fn run_with_events(
    args: &SandboxRun,
    prepared: PreparedChild,
    out: &mut dyn Write,
) -> Outcome {
    let started = Instant::now();
    let audit = audit(args.audit.as_ref())?;
    let (sender, mut errors) = tokio::sync::mpsc::channel::<Vec<u8>>(256);
    let options = SpawnOptions {
        timeout: args.timeout.map(Duration::from_secs_f64),
        stderr: Box::new(move |bytes| {
            let _ = sender.try_send(bytes.to_vec());
        }),
        ..SpawnOptions::default()
    };
    let sink: Arc<dyn AuditSink> = audit.clone();
    let mut confined = confined::start(prepared, options, Arc::new(SystemResolver), sink)
        .await
        .map_err(start_failure)?;
    // Machine mode never asks the user: the child's stdin is empty.
    confined.child.stdin = None;
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("sandbox run").map_err(io_failure)?;
    let id = record_run(args)?;
    let mut signals = Signals::new();
    let mut interrupted = None;
    let mut stdout = confined.child.stdout.take();
    let mut stderr_open = true;
    while stdout.is_some() || stderr_open {
        tokio::select! {
            code = signals.next() => {
                // The first signal is forwarded to the child, the next one kills it.
                let number = i32::from(code) - 128;
                match interrupted.replace(code) {
                    None => drop(confined.child.signal(number, false)),
                    Some(_) => drop(confined.child.kill().await),
                }
            }
            piece = next(&mut stdout), if stdout.is_some() => match piece {
                Some(piece) => emitter.event(EventType::Output, &piece_fields(piece)).map_err(io_failure)?,
                None => stdout = None,
            },
            chunk = errors.recv(), if stderr_open => match chunk {
                Some(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let fields = object(json!({ "stream": "stderr", "text": text }));
                    emitter.event(EventType::Output, &fields).map_err(io_failure)?;
                }
                None => stderr_open = false,
            },
        }
    }
    let exit = wait_for_exit(&mut confined).await;
    for entry in audit.finish().map_err(io_failure)? {
        let fields = serde_json::to_value(entry).unwrap_or_default();
        emitter
            .event(EventType::Egress, &object(fields))
            .map_err(io_failure)?;
    }
    let code = interrupted.unwrap_or(code(exit.status));
    let fields = json!({
        "id": id,
        "exit_code": exit.status.code(),
        "signal": exit.status.signal(),
    });
    emitter
        .event(EventType::Sandboxed, &object(fields))
        .map_err(io_failure)?;
    let mut fields = object(json!({
        "exit_code": exit.status.code(),
        "signal": exit.status.signal(),
        "timed_out": exit.timed_out,
        "survivors": exit.usage.survivors,
        "user_us": exit.usage.user_us,
        "system_us": exit.usage.system_us,
        "peak_kb": exit.usage.peak_kb,
    }));
    if interrupted.is_some() {
        fields.extend(object(json!({ "reason": "interrupted", "partial": true })));
    }
    emitter
        .summary(code == 0, started.elapsed(), fields)
        .map_err(io_failure)?;
    Ok(code)
}

/// Records the run in the audit log, and returns its id.
fn record_run(args: &SandboxRun) -> Result<String, Failure> {
    let id = random::token()?.chars().take(16).collect::<String>();
    audit_log(args)?.record("sandbox.run", json!({ "id": id }))?;
    Ok(id)
}

fn audit_log(args: &SandboxRun) -> Result<Audit, Failure> {
    let entity = format!("local:{}", args.policy.display());
    let home = Home::from_env()?;
    Ok(Audit::open(&home, &entity, SecretRedactor::default())?)
}

async fn next(lines: &mut Option<OutputLines>) -> Option<Piece> {
    match lines {
        Some(lines) => lines.next().await,
        None => None,
    }
}

fn piece_fields(piece: Piece) -> Fields {
    object(match piece {
        Piece::Line { bytes, .. } => json!({
            "stream": "stdout",
            "text": String::from_utf8_lossy(&bytes),
        }),
        Piece::TooLong { start, length } => json!({
            "stream": "stdout",
            "text": String::from_utf8_lossy(&start),
            "cut_from_bytes": length,
        }),
        Piece::Gap { lines, bytes } => json!({
            "stream": "stdout",
            "text": "",
            "lost_lines": lines,
            "lost_bytes": bytes,
        }),
    })
}
