//! Setup: one-time steps before a bundle is ready (AIP-29 § Setup, AIP-45 § Setup). Each step runs
//! once per bundle, workspace and user.

pub mod answers;
mod browser;
pub mod ledger;
mod perform;
pub mod step;
pub mod template;
pub mod tool;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use self::answers::Answers;
use self::ledger::{Ledger, Triple};
use self::perform::Run;
use self::step::{Asked, Persist, Step, What};
use crate::context::Context;
use crate::fault::{Code, Fault};
use crate::home::Lock;
use crate::interact::{Kind, Question};
use crate::observe::Stage;
use crate::secrets::{self, Scope};

/// Steps to run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Redo {
    #[default]
    Nothing,
    All,
    One(String),
}

impl Redo {
    fn names(&self, step: &str) -> bool {
        match self {
            Redo::All => true,
            Redo::One(id) => id == step,
            Redo::Nothing => false,
        }
    }
}

/// Options of a setup run.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    pub redo: Redo,
    pub answers: Answers,
    /// Whether the caller asked for setup itself. Then no confirmation is needed, and done steps
    /// with a `skip_if` check again (A29-SETUP-25).
    pub asked_for: bool,
}

/// The outcome of each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub steps: Vec<(String, Outcome)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    Done,
    /// Its `skip_if` reports that it is done.
    Skipped,
    /// The ledger records that it is done.
    #[strum(serialize = "done before")]
    Before,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Runs pending steps, and returns the variables that setup stored, for every spawn (A45-SETUP-06).
pub async fn ensure(ctx: &Context, bin: &Path) -> Result<Vec<(OsString, OsString)>, Fault> {
    run(ctx, bin, &Choices::default()).await?;
    variables(ctx)
}

/// Values that steps stored as variables (A29-SETUP-17).
pub fn variables(ctx: &Context) -> Result<Vec<(OsString, OsString)>, Fault> {
    let mut out = Vec::new();
    for step in step::steps(&ctx.bundle)? {
        if let Some(Persist::Env(name)) = step.persist
            && let Some(kept) = secrets::variable(ctx, name, "setup")?
        {
            out.push((name.into(), kept.value.as_str().into()));
        }
    }
    Ok(out)
}

/// The stored value of an earlier step, if there is one.
fn kept_input(ctx: &Context, id: &str) -> Result<Option<secrets::Kept>, Fault> {
    let steps = step::steps(&ctx.bundle)?;
    match steps.iter().find(|step| step.id == id).map(|s| &s.persist) {
        Some(Some(Persist::Env(name))) => secrets::variable(ctx, name, "setup"),
        Some(Some(Persist::Slug(slug))) => secrets::slug(ctx, slug, "setup"),
        _ => Ok(None),
    }
}

/// Ids and kinds of the steps that `run` would do. `skip_if` commands are not run.
pub fn pending(ctx: &Context, choices: &Choices) -> Result<Vec<(String, &'static str)>, Fault> {
    let steps = step::steps(&ctx.bundle)?;
    check_choices(&steps, choices)?;
    let ledger = Ledger::read(&ctx.home, &Triple::of(ctx)?)?;
    let mut pending = Vec::new();
    for step in &steps {
        if choices.redo.names(step.id) || !is_done(ctx, &ledger, step)? {
            pending.push((step.id.to_owned(), step.what.kind()));
        }
    }
    Ok(pending)
}

/// Runs pending steps, and those that the caller wants to run again.
pub async fn run(ctx: &Context, bin: &Path, choices: &Choices) -> Result<Report, Fault> {
    let steps = step::steps(&ctx.bundle)?;
    check_choices(&steps, choices)?;
    // Without steps there is nothing to do (A29-SETUP-27).
    if steps.is_empty() {
        return Ok(Report::default());
    }
    secrets::keyring::unlock(ctx).await?;
    let triple = Triple::of(ctx)?;
    let done = |ledger: &Ledger, step: &Step| is_done(ctx, ledger, step);
    if !choices.asked_for {
        let ledger = Ledger::read(&ctx.home, &triple)?;
        let mut all = true;
        for step in &steps {
            all = all && done(&ledger, step)?;
        }
        if all {
            return Ok(before(&steps));
        }
    }
    ctx.observer.stage(Stage::Setup, &triple.bundle);
    let _lock = lock(ctx, Stage::Setup, format!("setup-{}", triple.key())).await?;
    let mut ledger = Ledger::read(&ctx.home, &triple)?;
    let mut run = Run::new(ctx, bin, choices);
    let mut pending = Vec::new();
    let mut report = Report::default();
    for step in &steps {
        let again = choices.redo.names(step.id);
        let was = !again && done(&ledger, step)?;
        if was && (!choices.asked_for || step.skip_if.is_none()) {
            report.steps.push((step.id.to_owned(), Outcome::Before));
            continue;
        }
        pending.push((step, again));
    }
    agree(ctx, &mut run, &pending, choices).await?;
    for (step, again) in pending {
        let outcome = run.step(step, again).await;
        let told = match &outcome {
            Ok(outcome) => outcome.as_str(),
            Err(_) => "failed",
        };
        let event = json!({ "id": step.id, "kind": step.what.kind(), "outcome": told });
        ctx.audit.record("setup.step", event)?;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(fault) => {
                ledger.forget(step.id);
                ledger.write(&ctx.home, &triple)?;
                return Err(fault);
            }
        };
        ledger.mark(step.id, &step.hash, outcome.as_str());
        ledger.write(&ctx.home, &triple)?;
        report.steps.push((step.id.to_owned(), outcome));
    }
    let order = |id: &str| steps.iter().position(|s| s.id == id);
    report.steps.sort_by_key(|(id, _)| order(id));
    Ok(report)
}

fn before(steps: &[Step]) -> Report {
    let all = steps.iter().map(|s| (s.id.to_owned(), Outcome::Before));
    Report {
        steps: all.collect(),
    }
}

fn check_choices(steps: &[Step], choices: &Choices) -> Result<(), Fault> {
    let ids: Vec<&str> = steps.iter().map(|s| s.id).collect();
    let unknown = match &choices.redo {
        Redo::One(id) if !ids.contains(&id.as_str()) => Some(id.as_str()),
        _ => choices.answers.unknown(&ids),
    };
    match unknown {
        Some(id) => Err(
            Fault::new(Code::OptionInvalid, format!("unknown setup step `{id}`"))
                .hint(format!("the steps are: {}", ids.join(", "))),
        ),
        None => Ok(()),
    }
}

/// A step that stored a variable is done only while the value exists.
fn is_done(ctx: &Context, ledger: &Ledger, step: &Step) -> Result<bool, Fault> {
    if !ledger.has(step.id, &step.hash) {
        return Ok(false);
    }
    Ok(match step.persist {
        Some(Persist::Env(name)) if !ledger.was_skipped(step.id) => {
            secrets::has_variable(ctx, name)?
        }
        _ => true,
    })
}

/// Takes a lock, so that two setups or logins do not interfere with each other.
pub(super) async fn lock(ctx: &Context, stage: Stage, name: String) -> Result<Lock, Fault> {
    let home = ctx.home.clone();
    let mut taking = tokio::task::spawn_blocking(move || home.lock(&name));
    let taken = match tokio::time::timeout(Duration::from_secs(1), &mut taking).await {
        Ok(taken) => taken,
        Err(_) => {
            ctx.observer
                .progress(stage, "waiting for another process to finish");
            taking.await
        }
    };
    taken.map_err(|e| Fault::new(Code::StateUnwritable, e.to_string()))?
}

/// Asks for confirmation before any step runs, or checks that the steps can run without a user.
async fn agree(
    ctx: &Context,
    run: &mut Run<'_>,
    pending: &[(&Step<'_>, bool)],
    choices: &Choices,
) -> Result<(), Fault> {
    let confirmed = choices.asked_for || ctx.yes;
    if confirmed && !ctx.interact.is_headless() {
        return Ok(());
    }
    let mut open = Vec::new();
    for (step, again) in pending {
        if *again || !run.is_skipped(step).await? {
            open.push(*step);
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    if ctx.interact.is_headless() {
        let stuck = |step: &&Step| needs_somebody(ctx, step, choices);
        return match confirmed && !open.iter().any(stuck) {
            true => Ok(()),
            false => Err(required(ctx, &open)),
        };
    }
    let ids: Vec<&str> = open.iter().map(|s| s.id).collect();
    let question = Question {
        message: format!(
            "{} needs to be set up once ({}). Do it now?",
            ctx.bundle.text("id")?,
            ids.join(", ")
        ),
        kind: Kind::Boolean,
        default: Some("true".to_owned()),
    };
    match ctx.interact.ask(&question).await?.as_str() {
        "true" => Ok(()),
        _ => Err(required(ctx, &open)),
    }
}

/// Whether a step needs a user.
fn needs_somebody(ctx: &Context, step: &Step, choices: &Choices) -> bool {
    let answered = choices.answers.has(step.id);
    match &step.what {
        What::Cmd { interactive, .. } => *interactive,
        // `--yes` accepts the manifest's defaults (A29-SETUP-20).
        What::Prompt { default, kind, .. } => {
            !answered && (!ctx.yes || default.is_none() || matches!(kind, Asked::Secret))
        }
        What::External { .. } => !answered,
        What::Oauth { .. } => true,
    }
}

/// The error `setup_required` with the pending steps (A29-SETUP-31).
fn required(ctx: &Context, open: &[&Step]) -> Fault {
    let ids: Vec<&str> = open.iter().map(|s| s.id).collect();
    let pending: Vec<Value> = open
        .iter()
        .map(|s| json!({ "id": s.id, "kind": s.what.kind(), "description": s.description }))
        .collect();
    let what = format!(
        "pending setup steps: {} (AIP-29 § Setup)",
        ids.iter()
            .map(|id| format!("`{id}`"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Fault::new(Code::SetupRequired, what)
        .hint(format!(
            "run `agentproto setup {}` in a terminal, or with `--answers FILE`",
            ctx.bundle.dir.display()
        ))
        .details(json!({ "pending": pending }))
}

/// The scope of values that setup stores.
pub(super) fn scope(ctx: &Context) -> Result<Scope, Fault> {
    Ok(Scope {
        bundle: ctx.bundle.identity()?,
        origin: ledger::text(&ctx.bundle.dir),
        workspace: Some(ledger::text(&ctx.cwd)),
    })
}
