//! What `install`, `setup` and `auth` share: a target, notes while it works, results at the end.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::cli::agents::ask;
use crate::cli::agents::notes::{self, Note, Notes, Signals};
use crate::cli::args::{Global, LiveOutput, values};
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::Event;
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, Sandboxing, Setting};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::{Headless, Interact};
use agentproto_runtime::observe::Observer;
use agentproto_runtime::{Fault, install, version};
use agentproto_text::speech;

/// What every one of these commands takes.
#[derive(Args, Debug)]
pub struct Common {
    /// A slug, a manifest or a bundle directory
    pub target: String,
    /// Workspace [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Look for slugs here, too
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Enforce the declared sandbox, or run without it
    #[arg(long, value_name = "WHEN", default_value_t = Sandboxing::Auto, value_parser = values(Sandboxing::ALL))]
    pub sandbox: Sandboxing,
    /// Confirm what would be asked, and take what the manifest proposes
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Take installers and archives without a SHA-256, too
    #[arg(long)]
    pub allow_unverified: bool,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = LiveOutput::Human)]
    pub output: LiveOutput,
}

impl Common {
    pub fn install_options(&self) -> install::Options {
        install::Options {
            allow_unverified: self.allow_unverified,
            reinstall: false,
        }
    }
}

/// The program, installed where it is missing and of the right version (A29-SETUP-21).
pub async fn installed(ctx: &Context, common: &Common) -> Result<PathBuf, Fault> {
    let installed = install::ensure(ctx, common.install_options()).await?;
    let (_, installed) = version::ensure(ctx, &installed).await?;
    Ok(installed.bin)
}

/// One result: for programs and for people.
pub struct Told {
    /// What programs are told; a plan for what would be done, none where only people are.
    pub kind: Option<Event>,
    pub fields: Value,
    pub text: String,
}

impl Told {
    pub fn plan(action: &str, target: &str, text: String) -> Self {
        Told {
            kind: Some(Event::Plan),
            fields: json!({ "action": action, "target": target, "detail": text }),
            text: format!("would {text}"),
        }
    }
}

/// What came of the work.
#[derive(Default)]
pub struct Done {
    pub told: Vec<Told>,
    pub code: u8,
    /// For the summary.
    pub fields: Fields,
}

impl From<Vec<Told>> for Done {
    fn from(told: Vec<Told>) -> Self {
        Done {
            told,
            ..Done::default()
        }
    }
}

/// Where notes and results go.
enum Face<'w> {
    Machine(Emitter<'w>),
    Human {
        out: &'w mut dyn Write,
        quiet: bool,
        /// Each stage is worth a line.
        has_stages: bool,
    },
}

impl Face<'_> {
    fn note(&mut self, note: &Note) -> std::io::Result<()> {
        match (self, note) {
            (Face::Machine(emitter), note) => return note.emit(emitter),
            (
                Face::Human {
                    has_stages: true, ..
                },
                Note::Stage(stage, text),
            ) => {
                eprintln!("{}: {}", stage.as_str(), speech(text));
            }
            (Face::Human { quiet: false, .. }, Note::Progress(_, text)) => {
                eprintln!("{}", speech(text));
            }
            (Face::Human { .. }, Note::Warning(code, message)) => {
                tracing::warn!("{code}: {message}");
            }
            (Face::Human { .. }, _) => {}
        }
        Ok(())
    }

    fn told(&mut self, told: &Told) -> std::io::Result<()> {
        match self {
            Face::Machine(emitter) => match told.kind {
                Some(kind) => emitter.event(kind, &object(told.fields.clone())),
                None => Ok(()),
            },
            Face::Human { out, .. } => writeln!(out, "{}", speech(&told.text)),
        }
    }
}

/// Runs a piece of the lifecycle for a target: notes as they come, results at the end. A failure
/// is told by the caller, who ends the stream.
pub fn perform(
    command: &'static str,
    common: &Common,
    global: &Global,
    out: &mut dyn Write,
    work: impl AsyncFnOnce(&Context) -> Result<Done, Failure>,
) -> Outcome {
    let began = Instant::now();
    let runtime = notes::runtime()?;
    let mut face = match common.output {
        LiveOutput::Jsonl => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta(command).map_err(io_failure)?;
            Face::Machine(emitter)
        }
        LiveOutput::Human => Face::Human {
            out,
            quiet: global.quiet,
            has_stages: global.verbose || (command == "install" && !global.quiet),
        },
    };
    let ended = runtime.block_on(async {
        let (sender, notes) = mpsc::unbounded_channel();
        let ctx = context(common, Arc::new(Notes(sender)))?;
        watched(work(&ctx), notes, &mut face).await
    });
    // Whatever still runs is killed with it.
    runtime.shutdown_timeout(Duration::from_millis(500));
    let done = ended?;
    // A reader may be slow: from here on the stream itself takes care of signals.
    signals::watch();
    for told in &done.told {
        face.told(told).map_err(io_failure)?;
    }
    if let Face::Machine(emitter) = face {
        let summary = emitter.summary(done.code == exit::CLEAN, began.elapsed(), done.fields);
        summary.map_err(io_failure)?;
    }
    Ok(done.code)
}

async fn watched(
    work: impl Future<Output = Result<Done, Failure>>,
    mut notes: mpsc::UnboundedReceiver<Note>,
    face: &mut Face<'_>,
) -> Result<Done, Failure> {
    let mut signals = Signals::new();
    tokio::pin!(work);
    let ended = loop {
        tokio::select! {
            biased;
            Some(note) = notes.recv() => face.note(&note).map_err(io_failure)?,
            code = signals.next() => break Err(Failure::interrupted(code)),
            worked = &mut work => break worked,
        }
    };
    while let Ok(note) = notes.try_recv() {
        face.note(&note).map_err(io_failure)?;
    }
    ended
}

fn context(common: &Common, observer: Arc<dyn Observer>) -> Result<Context, Fault> {
    let home = Home::from_env()?;
    let bundle = Bundle::discover(&common.target, &common.adapters, &home)?;
    let is_human = common.output == LiveOutput::Human;
    let interact: Arc<dyn Interact> = match is_human && ask::somebody() {
        true => Arc::new(ask::Terminal),
        false => Arc::new(Headless),
    };
    let ctx = Context::new(
        bundle,
        Setting {
            home,
            cwd: common.cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            host_env: std::sync::Arc::new(std::env::vars_os().collect()),
            sandboxing: common.sandbox,
            yes: common.yes,
            observer,
            interact,
        },
    )?;
    if common.sandbox == Sandboxing::Off {
        let what = "the declared sandbox is not enforced: these commands can do whatever you can";
        ctx.observer.warning("sandbox_off", what);
        ctx.audit.record("sandbox.off", json!({}))?;
    }
    Ok(ctx)
}
