//! Setup: one-time steps before a bundle is ready (AIP-29 § Setup, AIP-45 § Setup). Each step runs
//! once per bundle, workspace and user.

pub mod answers;
mod browser;
pub(crate) mod ledger;
mod perform;
pub mod step;
pub(crate) mod template;
pub(crate) mod tool;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use self::answers::Answers;
use self::ledger::{Ledger, LedgerKey};
use self::perform::SetupRun;
use self::step::{PersistTarget, PromptKind, StepAction, StepDefinition};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::home::Lock;
use crate::interact::{Question, QuestionKind};
use crate::observe::Stage;
use crate::secrets::{self, SecretScope};

/// Steps to run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Redo {
    /// Only pending steps run.
    #[default]
    Nothing,
    /// All steps run again.
    All,
    /// The step with this id runs again.
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
pub struct SetupOptions {
    /// Steps to run again.
    pub redo: Redo,
    /// Prepared answers to the steps.
    pub answers: Answers,
    /// Whether the caller asked for setup itself. Then no confirmation is needed, and done steps
    /// with a `skip_if` check again (A29-SETUP-25).
    pub requested: bool,
}

/// The outcome of each step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupReport {
    /// Ids and outcomes, in the order of the manifest.
    pub steps: Vec<(String, StepOutcome)>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum StepOutcome {
    /// It ran and succeeded.
    Done,
    /// Its `skip_if` reports that it is done.
    Skipped,
    /// The ledger records that it is done.
    #[strum(serialize = "done before")]
    DoneBefore,
}

impl StepOutcome {
    /// The outcome as text, for example `done`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Runs pending steps, and returns the variables that setup stored, for every spawn (A45-SETUP-06).
pub async fn ensure(ctx: &Context, bin: &Path) -> Result<Vec<(OsString, OsString)>, Error> {
    run(ctx, bin, &SetupOptions::default()).await?;
    variables(ctx)
}

/// Values that steps stored as variables (A29-SETUP-17).
pub fn variables(ctx: &Context) -> Result<Vec<(OsString, OsString)>, Error> {
    let mut out = Vec::new();
    for step in step::steps(&ctx.bundle)? {
        if let Some(PersistTarget::Env(name)) = step.persist
            && let Some(stored) = secrets::variable(ctx, name, "setup")?
        {
            out.push((name.into(), stored.value.as_str().into()));
        }
    }
    Ok(out)
}

/// The stored value of an earlier step, if there is one.
fn stored_input(ctx: &Context, id: &str) -> Result<Option<secrets::StoredValue>, Error> {
    let steps = step::steps(&ctx.bundle)?;
    match steps.iter().find(|step| step.id == id).map(|s| &s.persist) {
        Some(Some(PersistTarget::Env(name))) => secrets::variable(ctx, name, "setup"),
        Some(Some(PersistTarget::Slug(slug))) => secrets::slug(ctx, slug, "setup"),
        _ => Ok(None),
    }
}

/// Ids and kinds of the steps that `run` would do. `skip_if` commands are not run.
pub fn pending(
    ctx: &Context,
    options: &SetupOptions,
) -> Result<Vec<(String, &'static str)>, Error> {
    let steps = step::steps(&ctx.bundle)?;
    check_options(&steps, options)?;
    let ledger = Ledger::read(&ctx.home, &LedgerKey::from_context(ctx)?)?;
    let mut pending = Vec::new();
    for step in &steps {
        if options.redo.names(step.id) || !is_done(ctx, &ledger, step)? {
            pending.push((step.id.to_owned(), step.action.kind()));
        }
    }
    Ok(pending)
}

/// Runs pending steps, and those that the caller wants to run again.
pub async fn run(ctx: &Context, bin: &Path, options: &SetupOptions) -> Result<SetupReport, Error> {
    let steps = step::steps(&ctx.bundle)?;
    check_options(&steps, options)?;
    // Without steps there is nothing to do (A29-SETUP-27).
    if steps.is_empty() {
        return Ok(SetupReport::default());
    }
    secrets::keyring::unlock(ctx).await?;
    let key = LedgerKey::from_context(ctx)?;
    let done = |ledger: &Ledger, step: &StepDefinition| is_done(ctx, ledger, step);
    if !options.requested {
        let ledger = Ledger::read(&ctx.home, &key)?;
        let mut all = true;
        for step in &steps {
            all = all && done(&ledger, step)?;
        }
        if all {
            return Ok(all_done_before(&steps));
        }
    }
    ctx.observer.stage(Stage::Setup, &key.bundle);
    let _lock = lock(ctx, Stage::Setup, format!("setup-{}", key.hash())).await?;
    let mut ledger = Ledger::read(&ctx.home, &key)?;
    let mut run = SetupRun::new(ctx, bin, options);
    let mut pending = Vec::new();
    let mut report = SetupReport::default();
    for step in &steps {
        let again = options.redo.names(step.id);
        let done_before = !again && done(&ledger, step)?;
        if done_before && (!options.requested || step.skip_if.is_none()) {
            report
                .steps
                .push((step.id.to_owned(), StepOutcome::DoneBefore));
            continue;
        }
        pending.push((step, again));
    }
    confirm(ctx, &mut run, &pending, options).await?;
    for (step, again) in pending {
        let outcome = run.step(step, again).await;
        let outcome_name = match &outcome {
            Ok(outcome) => outcome.as_str(),
            Err(_) => "failed",
        };
        let event = json!({ "id": step.id, "kind": step.action.kind(), "outcome": outcome_name });
        ctx.audit.record("setup.step", event)?;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                ledger.forget(step.id);
                ledger.write(&ctx.home, &key)?;
                return Err(error);
            }
        };
        ledger.mark(step.id, &step.hash, outcome.as_str());
        ledger.write(&ctx.home, &key)?;
        report.steps.push((step.id.to_owned(), outcome));
    }
    let order = |id: &str| steps.iter().position(|s| s.id == id);
    report.steps.sort_by_key(|(id, _)| order(id));
    Ok(report)
}

fn all_done_before(steps: &[StepDefinition]) -> SetupReport {
    let all = steps
        .iter()
        .map(|s| (s.id.to_owned(), StepOutcome::DoneBefore));
    SetupReport {
        steps: all.collect(),
    }
}

fn check_options(steps: &[StepDefinition], options: &SetupOptions) -> Result<(), Error> {
    let ids: Vec<&str> = steps.iter().map(|s| s.id).collect();
    let unknown = match &options.redo {
        Redo::One(id) if !ids.contains(&id.as_str()) => Some(id.as_str()),
        _ => options.answers.unknown(&ids),
    };
    match unknown {
        Some(id) => Err(
            Error::new(Code::OptionInvalid, format!("unknown setup step `{id}`")).hint(
                match ids.is_empty() {
                    true => "this bundle has no setup steps".to_owned(),
                    false => format!("the steps are: {}", ids.join(", ")),
                },
            ),
        ),
        None => Ok(()),
    }
}

/// A step that stored a variable is done only while the value exists.
fn is_done(ctx: &Context, ledger: &Ledger, step: &StepDefinition) -> Result<bool, Error> {
    if !ledger.has(step.id, &step.hash) {
        return Ok(false);
    }
    Ok(match step.persist {
        Some(PersistTarget::Env(name)) if !ledger.was_skipped(step.id) => {
            secrets::has_variable(ctx, name)?
        }
        _ => true,
    })
}

/// Takes a lock, so that two setups or logins do not interfere with each other.
pub(super) async fn lock(ctx: &Context, stage: Stage, name: String) -> Result<Lock, Error> {
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
    taken.map_err(|e| Error::new(Code::StateUnwritable, e.to_string()))?
}

/// Asks for confirmation before any step runs, or checks that the steps can run without a user.
async fn confirm(
    ctx: &Context,
    run: &mut SetupRun<'_>,
    pending: &[(&StepDefinition<'_>, bool)],
    options: &SetupOptions,
) -> Result<(), Error> {
    let confirmed = options.requested || ctx.yes;
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
        let stuck = |step: &&StepDefinition| needs_user(ctx, step, options);
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
        kind: QuestionKind::Boolean,
        default: Some("true".to_owned()),
    };
    match ctx.interact.ask(&question).await?.as_str() {
        "true" => Ok(()),
        _ => Err(required(ctx, &open)),
    }
}

/// Whether a step needs a user.
fn needs_user(ctx: &Context, step: &StepDefinition, options: &SetupOptions) -> bool {
    let answered = options.answers.has(step.id);
    match &step.action {
        StepAction::Cmd { interactive, .. } => *interactive,
        // `--yes` accepts the manifest's defaults (A29-SETUP-20).
        StepAction::Prompt { default, kind, .. } => {
            !answered && (!ctx.yes || default.is_none() || matches!(kind, PromptKind::Secret))
        }
        StepAction::External { .. } => !answered,
        StepAction::Oauth { .. } => true,
    }
}

/// The error `setup_required` with the pending steps (A29-SETUP-31).
fn required(ctx: &Context, open: &[&StepDefinition]) -> Error {
    let ids: Vec<&str> = open.iter().map(|s| s.id).collect();
    let pending: Vec<Value> = open
        .iter()
        .map(|s| json!({ "id": s.id, "kind": s.action.kind(), "description": s.description }))
        .collect();
    let what = format!(
        "pending setup steps: {} (AIP-29 § Setup)",
        ids.iter()
            .map(|id| format!("`{id}`"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Error::new(Code::SetupRequired, what)
        .hint(format!(
            "run `agentproto setup {}` in a terminal, or with `--answers FILE`; `--yes` runs the steps that need no answer",
            ctx.bundle.dir.display()
        ))
        .details(json!({ "pending": pending }))
}

/// The scope of values that setup stores.
pub(super) fn scope(ctx: &Context) -> Result<SecretScope, Error> {
    Ok(SecretScope {
        bundle: ctx.bundle.identity()?,
        origin: ledger::path_text(&ctx.bundle.dir),
        workspace: Some(ledger::path_text(&ctx.cwd)),
    })
}
