//! What `install`, `setup` and `auth` share: the target, notes while they work, and results at the
//! end.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cli::agents::ask;
use crate::cli::agents::notes::{self, Note, Notes, Signals, stage_text};
use crate::cli::agents::sandbox_settings;
use crate::cli::args::{Global, LiveOutput, values};
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, SandboxSettings, Sandboxing};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::{Headless, Interact};
use agentproto_runtime::observe::Observer;
use agentproto_runtime::{Error, install, validate, version};
use agentproto_text::escape_output;

/// Options that all of these commands share.
#[derive(Args, Debug)]
pub struct Common {
    /// An adapter's name, an AGENT-CLI.md or CLI.md, or a directory that contains one
    pub target: String,
    /// Use DIR as the workspace [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Look up adapters in DIR first
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Enforce the declared sandbox or refuse to start (auto), or run without it (off)
    #[arg(long, value_name = "WHEN", default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// Answer yes to every question, and accept the defaults of the manifest
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Also accept installers and archives without a SHA-256
    #[arg(long)]
    pub allow_unverified: bool,
    /// Use a manifest that has errors
    #[arg(long)]
    pub allow_invalid: bool,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = LiveOutput::Human)]
    pub output: LiveOutput,
}

impl Common {
    pub fn install_options(&self) -> install::InstallOptions {
        install::InstallOptions {
            allow_unverified: self.allow_unverified,
            reinstall: false,
        }
    }
}

/// Path of the program. It is installed if it is missing, and its version is checked
/// (A29-SETUP-21).
pub async fn installed(ctx: &Context, common: &Common) -> Result<PathBuf, Error> {
    let installed = install::ensure(ctx, common.install_options()).await?;
    let (_, installed) = version::ensure(ctx, &installed).await?;
    Ok(installed.bin)
}

/// One result, for programs and for people.
pub struct ResultLine {
    /// Event for programs: a plan if nothing is done, or `None` if only people see the result.
    pub kind: Option<EventType>,
    pub fields: Value,
    pub text: String,
}

impl ResultLine {
    pub fn plan(action: &str, target: &str, text: String) -> Self {
        ResultLine {
            kind: Some(EventType::Plan),
            fields: json!({ "action": action, "target": target, "detail": text }),
            text: format!("would {text}"),
        }
    }
}

/// The outcome of the work.
#[derive(Default)]
pub struct CommandResult {
    pub results: Vec<ResultLine>,
    pub code: u8,
    /// Additional fields of the summary.
    pub fields: Fields,
}

impl From<Vec<ResultLine>> for CommandResult {
    fn from(results: Vec<ResultLine>) -> Self {
        CommandResult {
            results,
            ..CommandResult::default()
        }
    }
}

/// Output for notes and results.
enum ResultWriter<'w> {
    Machine(Emitter<'w>),
    Human {
        out: &'w mut dyn Write,
        quiet: bool,
        /// Whether to print a line for each stage.
        has_stages: bool,
    },
}

impl ResultWriter<'_> {
    fn note(&mut self, note: &Note) -> std::io::Result<()> {
        match (self, note) {
            (ResultWriter::Machine(emitter), note) => return note.emit(emitter),
            (
                ResultWriter::Human {
                    has_stages: true, ..
                },
                Note::Stage(stage, text),
            ) => {
                eprintln!("{}", escape_output(&stage_text(*stage, text)));
            }
            (ResultWriter::Human { quiet: false, .. }, Note::Progress(_, text)) => {
                eprintln!("{}", escape_output(text));
            }
            (ResultWriter::Human { .. }, Note::Warning(code, message)) => {
                tracing::warn!("{code}: {message}");
            }
            (ResultWriter::Human { .. }, _) => {}
        }
        Ok(())
    }

    fn result(&mut self, result: &ResultLine) -> std::io::Result<()> {
        match self {
            ResultWriter::Machine(emitter) => match result.kind {
                Some(kind) => emitter.event(kind, &object(result.fields.clone())),
                None => Ok(()),
            },
            ResultWriter::Human { out, .. } => writeln!(out, "{}", escape_output(&result.text)),
        }
    }
}

/// Runs a lifecycle command for a target. Prints notes as they arrive and results at the end. On a
/// failure the caller prints the error and ends the stream.
pub fn run_lifecycle(
    command: &'static str,
    common: &Common,
    global: &Global,
    out: &mut dyn Write,
    work: impl AsyncFnOnce(&Context) -> Result<CommandResult, Failure>,
) -> Outcome {
    let started = Instant::now();
    let sandbox = sandbox_settings::load(global, &common.adapters)?;
    let runtime = notes::runtime()?;
    let mut writer = match common.output {
        LiveOutput::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta(command).map_err(io_failure)?;
            ResultWriter::Machine(emitter)
        }
        LiveOutput::Human => ResultWriter::Human {
            out,
            quiet: global.quiet,
            has_stages: global.verbose || (command == "install" && !global.quiet),
        },
    };
    let ended = runtime.block_on(async {
        let (sender, notes) = mpsc::unbounded_channel();
        let ctx = context(common, sandbox, Arc::new(Notes(sender)))?;
        run_with_notes(work(&ctx), notes, &mut writer, &ctx).await
    });
    // Also kills what still runs.
    runtime.shutdown_timeout(Duration::from_millis(500));
    let done = ended?;
    // The reader may be slow: from here on, the stream handles signals itself.
    signals::watch();
    for result in &done.results {
        writer.result(result).map_err(io_failure)?;
    }
    if let ResultWriter::Machine(emitter) = writer {
        let summary = emitter.summary(done.code == exit::CLEAN, started.elapsed(), done.fields);
        summary.map_err(io_failure)?;
    }
    Ok(done.code)
}

/// How long a canceled command may take to end.
const CANCEL_LIMIT: Duration = Duration::from_secs(4);

async fn run_with_notes(
    work: impl Future<Output = Result<CommandResult, Failure>>,
    mut notes: mpsc::UnboundedReceiver<Note>,
    writer: &mut ResultWriter<'_>,
    ctx: &Context,
) -> Result<CommandResult, Failure> {
    let mut signals = Signals::new();
    tokio::pin!(work);
    let ended = loop {
        tokio::select! {
            biased;
            Some(note) = notes.recv() => writer.note(&note).map_err(io_failure)?,
            code = signals.next() => {
                // A hook gets time to end. The runtime limits it.
                if ctx.runs_hook() {
                    ctx.cancel.cancel();
                    let _ = tokio::time::timeout(CANCEL_LIMIT, &mut work).await;
                }
                break Err(Failure::interrupted(code));
            }
            worked = &mut work => break worked,
        }
    };
    while let Ok(note) = notes.try_recv() {
        writer.note(&note).map_err(io_failure)?;
    }
    ended
}

fn context(
    common: &Common,
    sandbox: SandboxSettings,
    observer: Arc<dyn Observer>,
) -> Result<Context, Error> {
    let home = Home::from_env()?;
    let bundle = Bundle::discover(&common.target, &common.adapters, &home)?;
    let is_human = common.output == LiveOutput::Human;
    let interact: Arc<dyn Interact> = match is_human && ask::is_interactive() {
        true => Arc::new(ask::TerminalPrompt),
        false => Arc::new(Headless),
    };
    let ctx = Context::new(
        bundle,
        ContextOptions {
            home,
            cwd: common.cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            host_env: std::sync::Arc::new(std::env::vars_os().collect()),
            sandboxing: common.sandbox,
            sandbox,
            yes: common.yes,
            observer,
            interact,
        },
    )?;
    if common.sandbox == Sandboxing::Off {
        let what = "the declared sandbox is not enforced: these commands have all your permissions";
        ctx.observer.warning("sandbox_off", what);
        ctx.audit.record("sandbox.off", json!({}))?;
    }
    validate::check(&ctx, &[], common.allow_invalid)?;
    Ok(ctx)
}
