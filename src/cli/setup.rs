//! `agentproto setup`, and what it shares with `agentproto auth`: a target, notes while it
//! works, results at the end.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::args::Global;
use super::{Failure, Outcome, ask, io_failure};
use crate::exit;
use crate::report::aoi::{self, Emitter, object};
use crate::report::text::{plain, speech};
use crate::runtime::bundle::Bundle;
use crate::runtime::context::{Context, Sandboxing, Setting};
use crate::runtime::home::Home;
use crate::runtime::interact::{Headless, Interact};
use crate::runtime::observe::{Observer, Stage};
use crate::runtime::setup::answers::Answers;
use crate::runtime::setup::{self, Choices, Redo};
use crate::runtime::{Code, Fault, install, version};

/// No file of answers is longer.
const LONGEST_ANSWERS: u64 = 1 << 20;

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
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "off"])]
    pub sandbox: String,
    /// Confirm what would be asked, and take what the manifest proposes
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Install what has no SHA-256, too
    #[arg(long)]
    pub allow_unverified: bool,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "jsonl"])]
    pub output: String,
}

#[derive(Args, Debug)]
pub struct Setup {
    #[command(flatten)]
    pub common: Common,
    /// Do a step again, or all of them
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub redo: Option<String>,
    /// Answers for the prompts: a YAML file of `id: value`, secrets as `id: {env: NAME}`
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
}

pub fn run(args: &Setup, global: &Global, out: &mut dyn Write) -> Outcome {
    let choices = Choices {
        redo: match args.redo.as_deref() {
            None => Redo::Nothing,
            Some("") => Redo::All,
            Some(id) => Redo::One(id.to_owned()),
        },
        answers: match &args.answers {
            Some(path) => answers(path)?,
            None => Answers::default(),
        },
        asked_for: true,
    };
    perform("setup", &args.common, global, out, async |ctx| {
        let bin = installed(ctx, &args.common).await?;
        let report = setup::run(ctx, &bin, &choices).await?;
        let told = report.steps.iter().map(|(id, outcome)| Told {
            kind: "setup-step",
            fields: json!({ "id": id, "outcome": outcome.as_str() }),
            text: format!("{id}: {}", outcome.as_str()),
        });
        let mut told: Vec<Told> = told.collect();
        if told.is_empty() {
            told.push(Told {
                kind: "setup-step",
                fields: json!({ "id": Value::Null, "outcome": "none" }),
                text: "there is nothing to set up".to_owned(),
            });
        }
        Ok((told, exit::CLEAN))
    })
}

fn answers(path: &std::path::Path) -> Result<Answers, Failure> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST_ANSWERS).read_to_end(&mut bytes));
    read.map_err(|e| Failure::new(exit::NO_INPUT, format!("`{}`: {e}", path.display())))?;
    Ok(Answers::parse(&path.display().to_string(), bytes)?)
}

/// The program, installed where it is missing and of the right version (A29-SETUP-21).
pub async fn installed(ctx: &Context, common: &Common) -> Result<PathBuf, Fault> {
    let options = install::Options {
        allow_unverified: common.allow_unverified,
        reinstall: false,
    };
    let installed = install::ensure(ctx, options).await?;
    let (_, installed) = version::ensure(ctx, &installed).await?;
    Ok(installed.bin)
}

/// One result: for programs and for people.
pub struct Told {
    pub kind: &'static str,
    pub fields: Value,
    pub text: String,
}

enum Note {
    Stage(Stage, String),
    Progress(Stage, String),
    Warning(String, String),
}

struct Notes(mpsc::UnboundedSender<Note>);

impl Observer for Notes {
    fn stage(&self, stage: Stage, detail: &str) {
        let _ = self.0.send(Note::Stage(stage, detail.to_owned()));
    }

    fn progress(&self, stage: Stage, text: &str) {
        let _ = self.0.send(Note::Progress(stage, text.to_owned()));
    }

    fn warning(&self, code: &str, message: &str) {
        let note = Note::Warning(code.to_owned(), message.to_owned());
        let _ = self.0.send(note);
    }
}

/// Where notes and results go.
enum Face<'w> {
    Machine(Emitter<'w>),
    Human {
        out: &'w mut dyn Write,
        quiet: bool,
        verbose: bool,
    },
}

impl Face<'_> {
    fn note(&mut self, note: Note) -> std::io::Result<()> {
        match (self, note) {
            (Face::Machine(emitter), Note::Stage(stage, text) | Note::Progress(stage, text)) => {
                let fields = json!({ "stage": stage.as_str(), "message": text });
                emitter.event("progress", &object(fields))
            }
            (Face::Machine(emitter), Note::Warning(code, message)) => {
                emitter.warning(&code, &message, None)
            }
            (Face::Human { verbose: true, .. }, Note::Stage(stage, text)) => {
                eprintln!("[{}] {}", stage.as_str(), speech(&text));
                Ok(())
            }
            (Face::Human { quiet: false, .. }, Note::Progress(_, text)) => {
                eprintln!("{}", speech(&text));
                Ok(())
            }
            (Face::Human { .. }, Note::Warning(_, message)) => {
                eprintln!("warning: {}", speech(&message));
                Ok(())
            }
            (Face::Human { .. }, _) => Ok(()),
        }
    }

    fn told(&mut self, told: &Told) -> std::io::Result<()> {
        match self {
            Face::Machine(emitter) => emitter.event(told.kind, &object(told.fields.clone())),
            Face::Human { out, .. } => writeln!(out, "{}", speech(&told.text)),
        }
    }
}

/// Runs a piece of the lifecycle for a target: notes as they come, results at the end.
pub fn perform(
    command: &'static str,
    common: &Common,
    global: &Global,
    out: &mut dyn Write,
    work: impl AsyncFnOnce(&Context) -> Result<(Vec<Told>, u8), Fault>,
) -> Outcome {
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(exit::INTERNAL, format!("no runtime: {e}")))?;
    let mut face = match common.output.as_str() {
        "jsonl" => {
            let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
            emitter.meta(command).map_err(io_failure)?;
            Face::Machine(emitter)
        }
        _ => Face::Human {
            out,
            quiet: global.quiet,
            verbose: global.verbose,
        },
    };
    let ended = runtime.block_on(async {
        let (sender, notes) = mpsc::unbounded_channel();
        let ctx = match context(common, Arc::new(Notes(sender))) {
            Ok(ctx) => ctx,
            Err(fault) => return Ok(Ended::Worked(Err(fault))),
        };
        watched(work(&ctx), notes, &mut face).await
    });
    // Whatever still runs is killed with it.
    runtime.shutdown_timeout(Duration::from_millis(500));
    finish(face, ended.map_err(io_failure)?, began)
}

enum Ended {
    Worked(Result<(Vec<Told>, u8), Fault>),
    Interrupted(u8),
}

async fn watched(
    work: impl Future<Output = Result<(Vec<Told>, u8), Fault>>,
    mut notes: mpsc::UnboundedReceiver<Note>,
    face: &mut Face<'_>,
) -> std::io::Result<Ended> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::pin!(work);
    let ended = loop {
        tokio::select! {
            biased;
            Some(note) = notes.recv() => face.note(note)?,
            code = either(&mut interrupt, &mut terminate) => break Ended::Interrupted(code),
            worked = &mut work => break Ended::Worked(worked),
        }
    };
    while let Ok(note) = notes.try_recv() {
        face.note(note)?;
    }
    Ok(ended)
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) -> u8 {
    tokio::select! {
        _ = interrupt.recv() => exit::INTERRUPTED,
        _ = terminate.recv() => exit::TERMINATED,
    }
}

fn finish(mut face: Face<'_>, ended: Ended, began: Instant) -> Outcome {
    let (told, code) = match ended {
        Ended::Worked(Ok(worked)) => worked,
        Ended::Worked(Err(fault)) => return complain(face, fault, began),
        Ended::Interrupted(code) => {
            if let Face::Machine(emitter) = face {
                let fields = object(json!({ "reason": "interrupted" }));
                let summary = emitter.summary(false, began.elapsed(), fields);
                summary.map_err(io_failure)?;
            }
            return Ok(code);
        }
    };
    for told in &told {
        face.told(told).map_err(io_failure)?;
    }
    if let Face::Machine(emitter) = face {
        let summary = emitter.summary(code == exit::CLEAN, began.elapsed(), object(json!({})));
        summary.map_err(io_failure)?;
    }
    Ok(code)
}

fn complain(face: Face<'_>, fault: Fault, began: Instant) -> Outcome {
    let Face::Machine(mut emitter) = face else {
        return Err(fault.into());
    };
    let (code, name) = (fault.code.exit(), fault.code.as_str());
    let known = Failure::new(code, "");
    let failure = aoi::Failure {
        code: name,
        category: match fault.code {
            Code::AuthRequired | Code::SecretUnavailable => aoi::Category::Authn,
            _ => known.category(),
        },
        message: &fault.message,
        retryable: code == exit::TEMPORARY,
        hint: fault.hint.as_deref(),
    };
    emitter.error(&failure).map_err(io_failure)?;
    let fields = match &*fault.details {
        Value::Null => json!({}),
        details => json!({ "details": details }),
    };
    let summary = emitter.summary(false, began.elapsed(), object(fields));
    summary.map_err(io_failure)?;
    eprintln!("agentproto: {name}: {}", plain(&fault.message));
    Ok(code)
}

fn context(common: &Common, observer: Arc<dyn Observer>) -> Result<Context, Fault> {
    let home = Home::from_env()?;
    let bundle = Bundle::discover(&common.target, &common.adapters, &home)?;
    let sandboxing = match common.sandbox.as_str() {
        "off" => Sandboxing::Off,
        _ => Sandboxing::Auto,
    };
    let interact: Arc<dyn Interact> = match common.output == "human" && ask::somebody() {
        true => Arc::new(ask::Terminal),
        false => Arc::new(Headless),
    };
    let ctx = Context::new(
        bundle,
        Setting {
            home,
            cwd: common.cwd.clone().unwrap_or_else(|| PathBuf::from(".")),
            host_env: std::env::vars_os().collect(),
            sandboxing,
            yes: common.yes,
            observer,
            interact,
        },
    )?;
    if sandboxing == Sandboxing::Off {
        let what = "the declared sandbox is not enforced: these commands can do whatever you can";
        ctx.observer.warning("sandbox_off", what);
        ctx.audit.record("sandbox.off", json!({}))?;
    }
    Ok(ctx)
}
