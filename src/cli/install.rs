//! `agentproto install`: the program of a bundle, installed where it is missing, and its
//! version checked.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::args::Global;
use super::{Failure, Outcome, io_failure};
use crate::exit;
use crate::manifest::range::Version;
use crate::report::aoi::{self, Emitter, Fields, object};
use crate::report::text::plain;
use crate::runtime::bundle::Bundle;
use crate::runtime::context::{Context, Sandboxing, Setting};
use crate::runtime::fault::Fault;
use crate::runtime::home::Home;
use crate::runtime::install::{self, Action, Installed, Options, Plan};
use crate::runtime::interact::{Answering, Headless, Interact, Question};
use crate::runtime::observe::{Observer, Stage};
use crate::runtime::version;

#[derive(Args, Debug)]
pub struct Install {
    /// A slug, a manifest, or a bundle directory
    pub target: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Take installers and archives without a SHA-256, too
    #[arg(long)]
    pub allow_unverified: bool,
    /// Install even where the program is there
    #[arg(long)]
    pub reinstall: bool,
    /// Where slugs are looked up, before the own adapters
    #[arg(long, value_name = "DIR")]
    pub adapters: Vec<PathBuf>,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "jsonl"])]
    pub output: String,
}

/// What an observer heard.
enum Told {
    Stage(Stage, String),
    Progress(Stage, String),
    Warning(String, String),
}

struct Teller(UnboundedSender<Told>);

impl Observer for Teller {
    fn stage(&self, stage: Stage, detail: &str) {
        let _ = self.0.send(Told::Stage(stage, detail.to_owned()));
    }
    fn progress(&self, stage: Stage, text: &str) {
        let _ = self.0.send(Told::Progress(stage, text.to_owned()));
    }
    fn warning(&self, code: &str, message: &str) {
        let _ = self
            .0
            .send(Told::Warning(code.to_owned(), message.to_owned()));
    }
}

/// Asks yes or no on the terminal; an installation asks nothing else.
struct Confirm;

impl Interact for Confirm {
    fn is_headless(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, question: &'a Question) -> Answering<'a> {
        Box::pin(async move {
            let message = plain(&question.message).into_owned();
            let (say, answer) = tokio::sync::oneshot::channel();
            // Not a thread of the runtime, which would wait for it after a signal.
            std::thread::spawn(move || {
                let mut err = io::stderr().lock();
                let _ = write!(err, "{message} [Y/n] ").and_then(|()| err.flush());
                drop(err);
                let mut line = String::new();
                let read = io::stdin().read_line(&mut line);
                let _ = say.send(read.is_ok_and(|n| n > 0).then_some(line));
            });
            let yes = match answer.await {
                Ok(Some(line)) => matches!(line.trim(), "" | "y" | "Y" | "yes" | "Yes"),
                Ok(None) | Err(_) => false,
            };
            Ok(yes.to_string())
        })
    }

    fn show(&self, text: &str) {
        eprintln!("{}", plain(text));
    }
}

pub fn run(args: &Install, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let machine = args.output == "jsonl";
    let (say, told) = mpsc::unbounded_channel();
    let ctx = context(args, machine, say)?;
    let options = Options {
        allow_unverified: args.allow_unverified,
        reinstall: args.reinstall,
    };
    if args.dry_run {
        let plan = install::plan(&ctx, options)?;
        let shown = match machine {
            true => plan_events(&plan, started, out),
            false => plan_text(&plan, out),
        };
        return shown.map(|()| exit::CLEAN).map_err(io_failure);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(exit::INTERNAL, format!("no runtime: {e}")))?;
    let work = work(ctx, options);
    match machine {
        true => runtime.block_on(with_events(work, told, started, out)),
        false => runtime.block_on(for_people(work, told, global.quiet, out)),
    }
}

fn context(args: &Install, machine: bool, say: UnboundedSender<Told>) -> Result<Context, Failure> {
    let home = Home::from_env()?;
    let bundle = Bundle::discover(&args.target, &args.adapters, &home)?;
    let cwd = std::env::current_dir()
        .map_err(|e| Failure::new(exit::IO, format!("the current directory: {e}")))?;
    let person = !machine && io::stdin().is_terminal() && io::stderr().is_terminal();
    let interact: Arc<dyn Interact> = match person {
        true => Arc::new(Confirm),
        false => Arc::new(Headless),
    };
    let setting = Setting {
        home,
        cwd,
        host_env: std::env::vars_os().collect(),
        sandboxing: Sandboxing::Auto,
        yes: args.yes,
        observer: Arc::new(Teller(say)),
        interact,
    };
    Ok(Context::new(bundle, setting)?)
}

/// Owns the context: when it is done, so are the observer and its channel.
async fn work(ctx: Context, options: Options) -> Result<(Version, Installed), Fault> {
    let installed = install::ensure(&ctx, options).await?;
    version::ensure_with(&ctx, &installed, options).await
}

/// The exit code of the signal that came, if one came first.
async fn interrupted() -> u8 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    let [Ok(mut interrupt), Ok(mut terminate)] = kinds.map(signal) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => exit::INTERRUPTED,
        _ = terminate.recv() => exit::TERMINATED,
    }
}

type Done = Result<Result<(Version, Installed), Fault>, u8>;

/// Runs the work and hands on what is told meanwhile, in its order.
async fn watched(
    work: impl Future<Output = Result<(Version, Installed), Fault>>,
    mut told: UnboundedReceiver<Told>,
    mut hear: impl FnMut(Told) -> io::Result<()>,
) -> io::Result<Done> {
    let done = {
        let mut work = std::pin::pin!(work);
        let mut signal = std::pin::pin!(interrupted());
        loop {
            tokio::select! {
                biased;
                Some(one) = told.recv() => hear(one)?,
                code = &mut signal => break Err(code),
                done = &mut work => break Ok(done),
            }
        }
    };
    while let Ok(one) = told.try_recv() {
        hear(one)?;
    }
    Ok(done)
}

async fn for_people(
    work: impl Future<Output = Result<(Version, Installed), Fault>>,
    told: UnboundedReceiver<Told>,
    quiet: bool,
    out: &mut dyn Write,
) -> Outcome {
    let hear = |one: Told| {
        let mut err = io::stderr().lock();
        match one {
            Told::Warning(code, message) => {
                writeln!(err, "agentproto: warning: {code}: {}", plain(&message))
            }
            _ if quiet => Ok(()),
            Told::Stage(stage, detail) => writeln!(err, "{}: {}", stage.as_str(), plain(&detail)),
            Told::Progress(_, text) => writeln!(err, "  {}", plain(&text)),
        }
    };
    let done = watched(work, told, hear).await.map_err(io_failure)?;
    let (version, installed) = match done {
        Ok(result) => result?,
        Err(code) => return Err(Failure::new(code, "interrupted: nothing was installed")),
    };
    let how = match &installed.method {
        Some(method) => format!("installed by {method}"),
        None => "it was there, nothing to install".to_owned(),
    };
    let bin = installed.bin.to_string_lossy();
    writeln!(out, "{} {version} ({how})", plain(&bin)).map_err(io_failure)?;
    Ok(exit::CLEAN)
}

async fn with_events(
    work: impl Future<Output = Result<(Version, Installed), Fault>>,
    told: UnboundedReceiver<Told>,
    started: Instant,
    out: &mut dyn Write,
) -> Outcome {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("install").map_err(io_failure)?;
    let hear = |one: Told| match one {
        Told::Stage(stage, text) | Told::Progress(stage, text) => {
            let fields = object(json!({ "stage": stage.as_str(), "message": text }));
            emitter.event("progress", &fields)
        }
        Told::Warning(code, message) => emitter.warning(&code, &message, None),
    };
    let done = watched(work, told, hear).await.map_err(io_failure)?;
    let failure = match done {
        Ok(Ok((version, installed))) => {
            let fields = object(json!({
                "bin": installed.bin.to_string_lossy(),
                "version": version.to_string(),
                "method": installed.method,
            }));
            emitter
                .summary(true, started.elapsed(), fields)
                .map_err(io_failure)?;
            return Ok(exit::CLEAN);
        }
        Ok(Err(fault)) => Failure::from(fault),
        Err(code) => Failure::new(code, "interrupted").typed("interrupted"),
    };
    let code = failure.slug.unwrap_or("failed");
    let error = aoi::Failure {
        code,
        category: failure.category(),
        message: &failure.message,
        retryable: failure.code == exit::TEMPORARY,
        hint: failure.hint.as_deref(),
    };
    emitter.error(&error).map_err(io_failure)?;
    let mut fields = Fields::new();
    if code == "interrupted" {
        fields.insert("reason".to_owned(), "interrupted".into());
        fields.insert("partial".to_owned(), true.into());
    }
    emitter
        .summary(false, started.elapsed(), fields)
        .map_err(io_failure)?;
    Ok(failure.code)
}

fn plan_text(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let bin = plain(&plan.bin);
    if let Some(found) = &plan.found {
        let path = found.bin.to_string_lossy();
        return writeln!(out, "{bin} is there: {}. Nothing to install.", plain(&path));
    }
    if let Some(why) = &plan.blocked {
        return writeln!(out, "{bin} cannot be installed here: {}", plain(why));
    }
    if plan.steps.is_empty() {
        return writeln!(
            out,
            "{bin} is not there, and the manifest declares nothing to install."
        );
    }
    writeln!(out, "{bin} is not there. To be tried, in this order:")?;
    for (number, step) in plan.steps.iter().enumerate() {
        let (method, text) = (plain(&step.method), step.text());
        writeln!(out, "  {}. {method}: {}", number + 1, plain(&text))?;
        if let Action::Skip {
            hint: Some(hint), ..
        } = &step.action
        {
            writeln!(out, "     {}", plain(hint))?;
        }
    }
    Ok(())
}

fn plan_events(plan: &Plan, started: Instant, out: &mut dyn Write) -> io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("install")?;
    let nothing = plan.found.is_some() || plan.blocked.is_some();
    for step in plan.steps.iter().filter(|_| !nothing) {
        let mut fields = object(step.json());
        let target = step.subject.clone().unwrap_or_else(|| plan.bin.clone());
        fields.insert("target".to_owned(), target.into());
        fields.insert("detail".to_owned(), step.text().into());
        emitter.event("plan", &fields)?;
    }
    let fields = object(json!({
        "bin": plan.bin,
        "found": plan.found.as_ref().map(|f| f.bin.to_string_lossy()),
        "blocked": plan.blocked,
    }));
    emitter.summary(true, started.elapsed(), fields)
}
