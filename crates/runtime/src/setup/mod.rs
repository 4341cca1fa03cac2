//! Setup: what a bundle needs once before it is ready (AIP-29 § Setup, AIP-45 § Setup). Each
//! step is done a single time for each bundle, workspace and user.

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

/// Steps that are done again.
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

/// What the caller of a setup decides.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    pub redo: Redo,
    pub answers: Answers,
    /// The caller asked for setup itself: nobody has to confirm it, and done steps that can
    /// check themselves do so (A29-SETUP-25).
    pub asked_for: bool,
}

/// What a setup did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub steps: Vec<(String, Outcome)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    Done,
    /// Its `skip_if` says that it is done.
    Skipped,
    /// The ledger says that it is done.
    #[strum(serialize = "done before")]
    Before,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Does what is pending; the variables that setup persisted, for every spawn (A45-SETUP-06).
pub async fn ensure(ctx: &Context, bin: &Path) -> Result<Vec<(OsString, OsString)>, Fault> {
    run(ctx, bin, &Choices::default()).await?;
    variables(ctx)
}

/// Values that steps persisted as variables (A29-SETUP-17).
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

/// What an earlier step gave, where it was kept.
fn kept_input(ctx: &Context, id: &str) -> Result<Option<secrets::Kept>, Fault> {
    let steps = step::steps(&ctx.bundle)?;
    match steps.iter().find(|step| step.id == id).map(|s| &s.persist) {
        Some(Some(Persist::Env(name))) => secrets::variable(ctx, name, "setup"),
        Some(Some(Persist::Slug(slug))) => secrets::slug(ctx, slug, "setup"),
        _ => Ok(None),
    }
}

/// What `run` would do, as far as that can be said without doing anything: ids and kinds.
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

/// Does what is pending, or what the caller wants done again.
pub async fn run(ctx: &Context, bin: &Path, choices: &Choices) -> Result<Report, Fault> {
    let steps = step::steps(&ctx.bundle)?;
    check_choices(&steps, choices)?;
    // A29-SETUP-27.
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
        Some(id) => Err(Fault::new(
            Code::OptionInvalid,
            format!("there is no setup step `{id}`"),
        )
        .hint(format!("the steps are: {}", ids.join(", ")))),
        None => Ok(()),
    }
}

/// A step that persisted a variable is done only as long as the value is there.
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

/// Others wait: two setups, or two logins, would get in each other's way.
pub(super) async fn lock(ctx: &Context, stage: Stage, name: String) -> Result<Lock, Fault> {
    let home = ctx.home.clone();
    let mut taking = tokio::task::spawn_blocking(move || home.lock(&name));
    let taken = match tokio::time::timeout(Duration::from_secs(1), &mut taking).await {
        Ok(taken) => taken,
        Err(_) => {
            ctx.observer
                .progress(stage, "another process is at it: waiting until it is done");
            taking.await
        }
    };
    taken.map_err(|e| Fault::new(Code::StateUnwritable, e.to_string()))?
}

/// Before anything runs: is everybody there who is needed?
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

/// Whether a step cannot be done without a person.
fn needs_somebody(ctx: &Context, step: &Step, choices: &Choices) -> bool {
    let answered = choices.answers.has(step.id);
    match &step.what {
        What::Cmd { interactive, .. } => *interactive,
        // `--yes` takes what the manifest proposes (A29-SETUP-20).
        What::Prompt { default, kind, .. } => {
            !answered && (!ctx.yes || default.is_none() || matches!(kind, Asked::Secret))
        }
        What::External { .. } => !answered,
        What::Oauth { .. } => true,
    }
}

/// A29-SETUP-31.
fn required(ctx: &Context, open: &[&Step]) -> Fault {
    let ids: Vec<&str> = open.iter().map(|s| s.id).collect();
    let pending: Vec<Value> = open
        .iter()
        .map(|s| json!({ "id": s.id, "kind": s.what.kind(), "description": s.description }))
        .collect();
    let what = format!(
        "setup is not done: {} (AIP-29 § Setup)",
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

/// The scope of what setup keeps.
pub(super) fn scope(ctx: &Context) -> Result<Scope, Fault> {
    Ok(Scope {
        bundle: ctx.bundle.identity()?,
        origin: ledger::text(&ctx.bundle.dir),
        workspace: Some(ledger::text(&ctx.cwd)),
    })
}
