//! `agentproto sandbox explain` and `agentproto sandbox run`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::agents::exit_codes;
use crate::cli::agents::notes::Signals;
use crate::cli::agents::sandbox_clauses as table;
use clap::{Args, Subcommand};

use crate::cli::agents::effects::Keyed;
use crate::cli::args::{Global, LiveOutput, Output, values};
use crate::cli::{Failure, Outcome, io_failure, terminal};
use crate::exit;
use agentproto_lint::render::Meta;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;
use agentproto_runtime::home::Home;
use agentproto_runtime::secrets::random;
use agentproto_sandbox::backend;
use agentproto_sandbox::confined::{self, Confined, Prepared, StartError};
use agentproto_sandbox::diagnose;
use agentproto_sandbox::egress::audit::Entry;
use agentproto_sandbox::egress::{AuditSink, JsonLines, SystemResolver};
use agentproto_sandbox::policy::{self, Policy, Refusal, Surroundings, Target};
use agentproto_sandbox::spawn::{Exit, Lines, Options, Piece, Stdio};
use agentproto_sandbox::{Assessment, Backend, Standing};
use agentproto_text::plain;
use agentproto_text::redact::Masks;

/// Files of a bundle that may declare its sandbox; the first that exists is used.
const BUNDLE_FILES: [&str; 3] = ["AGENT-CLI.md", "CLI.md", "SANDBOX.md"];

#[derive(Subcommand, Debug)]
pub enum SandboxAction {
    /// Show how each sandbox clause is enforced on this machine, or why it cannot be
    Explain(SandboxExplain),
    /// Run a command in the sandbox of a manifest
    Run(SandboxRun),
}

#[derive(Args, Debug)]
pub struct SandboxExplain {
    /// Bundle, CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md, or a YAML file with a sandbox block
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
    /// Bundle, CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md, or a YAML file with a sandbox block
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
    #[command(flatten)]
    pub keyed: Keyed,
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
        SandboxAction::Run(args) => start(args, out),
    }
}

fn explain(args: &SandboxExplain, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let target = load(&args.target)?;
    let surroundings = surroundings(&target, args.cwd.as_deref())?;
    let policy = policy::resolve(&target, &surroundings, &[]).map_err(refused)?;
    let backend = backend::choose(args.backend);
    let list = confined::assess_all(&policy, &backend);
    let view = table::View {
        target: &args.target,
        policy: &policy,
        backend: backend.as_ref().ok().copied(),
        assessments: &list,
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
    matches!(assessment.standing, Standing::Enforced { .. })
}

/// Loads a file, or the manifest of a bundle directory.
fn load(path: &Path) -> Result<Target, Failure> {
    let file = if path.is_dir() {
        let files = BUNDLE_FILES.map(|name| path.join(name));
        files.into_iter().find(|file| file.is_file()).ok_or_else(|| {
            let what = format!("`{}` does not contain a manifest", path.display());
            Failure::new(exit::NO_INPUT, what)
                .hint("name a CLI.md, AGENT-CLI.md, SANDBOX.md, TOOL.md, or a YAML file with a sandbox block")
        })?
    } else {
        path.to_owned()
    };
    Target::load(&file).map_err(refused)
}

fn surroundings(target: &Target, cwd: Option<&Path>) -> Result<Surroundings, Failure> {
    let fault = |e: io::Error| {
        Failure::new(
            exit::IO,
            format!("cannot determine the current directory: {e}"),
        )
    };
    let mut around = Surroundings::of_this_process(&target.dir()).map_err(fault)?;
    if let Some(cwd) = cwd {
        around.cwd = cwd
            .canonicalize()
            .map_err(|e| Failure::new(exit::NO_INPUT, format!("`{}`: {e}", cwd.display())))?;
    }
    Ok(around)
}

fn refused(refusal: Refusal) -> Failure {
    Failure::new(exit_codes::of_refusal(&refusal), refusal.to_string()).typed(refusal.code())
}

fn start(args: &SandboxRun, out: &mut dyn Write) -> Outcome {
    let target = load(&args.policy)?;
    let surroundings = surroundings(&target, args.cwd.as_deref())?;
    let policy = policy::resolve(&target, &surroundings, &args.command).map_err(refused)?;
    let command = command(&surroundings, &args.command)?;
    let backend = backend::choose(args.backend);
    let prepared = confined::prepare(&policy, &command, &backend).map_err(not_started)?;
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
            LiveOutput::Jsonl => with_events(args, prepared, out).await,
            LiveOutput::Human => passed_through(args, &policy, prepared).await,
        }
    })
}

/// The path of the program, followed by its arguments.
fn command(around: &Surroundings, words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let Some((name, rest)) = words.split_first() else {
        return Err(Failure::new(exit::USAGE, "no command to run")
            .hint("usage: agentproto sandbox run POLICY -- COMMAND [ARGUMENT…]"));
    };
    let path = around.find(name).map_err(refused)?;
    let mut command = vec![path.into_os_string()];
    command.extend(rest.iter().cloned());
    Ok(command)
}

fn not_started(error: StartError) -> Failure {
    match &error {
        StartError::Unenforceable(_) | StartError::Bubblewrap(_) => Failure::new(exit::UNAVAILABLE, error.to_string())
            .typed("sandbox_unenforceable")
            .hint("`agentproto sandbox explain` shows every clause; `agentproto doctor` shows what this machine supports"),
        StartError::Egress(_) => Failure::new(exit::DATA, error.to_string()),
        StartError::Directory { .. }
        | StartError::Limits(_)
        | StartError::Ingress { .. }
        | StartError::Spawn(_) => {
            Failure::new(exit::UNAVAILABLE, error.to_string()).typed("spawn_failed")
        }
    }
}

/// Decisions of the proxy, for a file and for events.
struct Audit {
    file: Option<JsonLines>,
    heard: Mutex<Vec<Entry>>,
}

impl AuditSink for Audit {
    fn record(&self, entry: &Entry) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.record(entry)?;
        }
        self.heard.record(entry)
    }
}

fn audit(path: Option<&PathBuf>) -> Result<Arc<Audit>, Failure> {
    let file =
        match path {
            Some(path) => Some(JsonLines::append(path).map_err(|e| {
                Failure::new(exit::CANT_CREATE, format!("`{}`: {e}", path.display()))
            })?),
            None => None,
        };
    let heard = Mutex::default();
    Ok(Arc::new(Audit { file, heard }))
}

/// Runs the command with our own streams, or with a terminal that is connected to ours.
async fn passed_through(args: &SandboxRun, policy: &Policy, prepared: Prepared) -> Outcome {
    let audit = audit(args.audit.as_ref())?;
    let options = Options {
        stdio: match policy.tty {
            Some(_) => Stdio::Terminal {
                rows: 24,
                columns: terminal::width() as u16,
            },
            None => Stdio::InheritButErrors,
        },
        stderr: Box::new(|bytes| {
            let mut err = io::stderr().lock();
            let _ = err.write_all(bytes).and_then(|()| err.flush());
        }),
        timeout: args.timeout.map(Duration::from_secs_f64),
        ..Options::default()
    };
    let sink: Arc<dyn AuditSink> = audit.clone();
    let mut confined = confined::start(prepared, options, Arc::new(SystemResolver), sink)
        .await
        .map_err(not_started)?;
    let bridge = confined
        .child
        .terminal
        .take()
        .map(crate::cli::agents::bridge::join);
    let exit = until_ended(&mut confined).await;
    if let Some(bridge) = bridge {
        bridge.finish().await;
    }
    if !exit.status.success() {
        confined.child.stderr.finish().await;
        let heard = audit.heard.lock().unwrap_or_else(|e| e.into_inner());
        let said = confined.child.stderr.text();
        for hint in diagnose::diagnose(policy, &said, &heard) {
            eprintln!("agentproto: the sandbox may be the cause: {}", plain(&hint));
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
async fn until_ended(confined: &mut Confined) -> Exit {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else {
        return confined.wait().await;
    };
    let mut signalled = false;
    loop {
        let number = tokio::select! {
            _ = confined.child.wait() => break,
            _ = interrupt.recv() => libc::SIGINT,
            _ = terminate.recv() => libc::SIGTERM,
            _ = hangup.recv() => libc::SIGHUP,
        };
        if signalled {
            let _ = confined.child.kill().await;
        } else {
            let _ = confined.child.signal(number, false);
        }
        signalled = true;
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

async fn with_events(args: &SandboxRun, prepared: Prepared, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let audit = audit(args.audit.as_ref())?;
    let (say, mut errors) = tokio::sync::mpsc::channel::<Vec<u8>>(256);
    let options = Options {
        timeout: args.timeout.map(Duration::from_secs_f64),
        stderr: Box::new(move |bytes| {
            let _ = say.try_send(bytes.to_vec());
        }),
        ..Options::default()
    };
    let sink: Arc<dyn AuditSink> = audit.clone();
    let mut confined = confined::start(prepared, options, Arc::new(SystemResolver), sink)
        .await
        .map_err(not_started)?;
    // Machine mode never asks the user: the child's stdin is empty.
    confined.child.stdin = None;
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("sandbox run").map_err(io_failure)?;
    let id = written_down(args)?;
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
                Some(piece) => emitter.event(Event::Output, &piece_fields(piece)).map_err(io_failure)?,
                None => stdout = None,
            },
            chunk = errors.recv(), if stderr_open => match chunk {
                Some(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let fields = object(json!({ "stream": "stderr", "text": text }));
                    emitter.event(Event::Output, &fields).map_err(io_failure)?;
                }
                None => stderr_open = false,
            },
        }
    }
    let exit = until_ended(&mut confined).await;
    let heard = std::mem::take(&mut *audit.heard.lock().unwrap_or_else(|e| e.into_inner()));
    for entry in heard {
        let fields = serde_json::to_value(entry).unwrap_or_default();
        emitter
            .event(Event::Egress, &object(fields))
            .map_err(io_failure)?;
    }
    let code = interrupted.unwrap_or(code(exit.status));
    let told = json!({
        "id": id,
        "exit_code": exit.status.code(),
        "signal": exit.status.signal(),
    });
    emitter
        .event(Event::Sandboxed, &object(told))
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
fn written_down(args: &SandboxRun) -> Result<String, Failure> {
    let id = random::token()?.chars().take(16).collect::<String>();
    let entity = format!("local:{}", args.policy.display());
    let log =
        agentproto_runtime::audit::Audit::open(&Home::from_env()?, &entity, Masks::default())?;
    log.record("sandbox.run", json!({ "id": id }))?;
    Ok(id)
}

async fn next(lines: &mut Option<Lines>) -> Option<Piece> {
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
