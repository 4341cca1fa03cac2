//! `agentproto auth`: log in, show the login status, refresh logins, and store secrets.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use crate::cli::agents::effects::{Destructive, Effects};
use crate::cli::agents::perform::{Common, Done, Told, installed, perform};
use crate::cli::agents::{ask, input};
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome};
use crate::exit;
use agentproto_report::event::Event;
use agentproto_runtime::auth::state::State;
use agentproto_runtime::auth::{self, Status};
use agentproto_runtime::context::Context;
use agentproto_runtime::interact::{Kind, Question};
use agentproto_runtime::secrets::inventory::{Inventory, conventional_slug};
use agentproto_runtime::secrets::{self, Kept, keyring};
use agentproto_runtime::{Code, Fault, install};

/// Maximum length of a secret, in bytes.
pub const LONGEST_SECRET: u64 = 64 << 10;

#[derive(Subcommand, Debug)]
pub enum AuthAction {
    /// Run the bundle's login and wait until it takes effect
    Login(Login),
    /// Show whether the bundle is logged in, and where each secret comes from
    Status(Only),
    /// Run the bundle's refresh now
    Refresh(Refresh),
    /// Store a secret, read from stdin or asked for at the terminal
    Set(Named),
    /// Delete a stored secret, or all secrets of the bundle and its login state
    Forget(Forget),
}

#[derive(Args, Debug)]
pub struct Only {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args, Debug)]
pub struct Refresh {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub effects: Effects,
}

#[derive(Args, Debug)]
pub struct Login {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub effects: Effects,
    /// Maximum number of seconds to wait for a finished login to take effect
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = crate::cli::agents::seconds)]
    pub wait: f64,
}

#[derive(Args, Debug)]
pub struct Named {
    #[command(flatten)]
    pub common: Common,
    /// Variable in `auth.state.env`, or slug in SECRETS.md
    pub name: String,
    #[command(flatten)]
    pub effects: Effects,
}

#[derive(Args, Debug)]
pub struct Forget {
    #[command(flatten)]
    pub common: Common,
    /// Variable in `auth.state.env`, or slug in SECRETS.md
    pub name: Option<String>,
    #[command(flatten)]
    pub destructive: Destructive,
}

impl AuthAction {
    /// The command's name, and the options that all of them share.
    fn said(&self) -> (&'static str, &Common) {
        match self {
            AuthAction::Login(args) => ("auth login", &args.common),
            AuthAction::Status(args) => ("auth status", &args.common),
            AuthAction::Refresh(args) => ("auth refresh", &args.common),
            AuthAction::Set(args) => ("auth set", &args.common),
            AuthAction::Forget(args) => ("auth forget", &args.common),
        }
    }

    /// Whether the command reads its value from stdin.
    pub fn reads_input(&self) -> bool {
        matches!(self, AuthAction::Set(_)) && !ask::somebody()
    }
}

pub fn run(action: &AuthAction, global: &Global, out: &mut dyn Write) -> Outcome {
    let (command, common) = action.said();
    perform(command, common, global, out, async |ctx| match action {
        AuthAction::Login(args) => {
            if args.effects.dry_run {
                return Ok(planned(ctx, "login", "run the login")?.into());
            }
            let bin = installed(ctx, common).await?;
            let patience = Duration::from_secs_f64(args.wait);
            auth::login(ctx, &bin, Some(patience)).await?;
            Ok(vec![state(ctx, "authed", "logged in")?].into())
        }
        AuthAction::Refresh(args) => {
            if args.effects.dry_run {
                return Ok(planned(ctx, "refresh", "refresh the login")?.into());
            }
            let bin = installed(ctx, common).await?;
            auth::refresh(ctx, &bin).await?;
            Ok(vec![state(ctx, "authed", "refreshed")?].into())
        }
        AuthAction::Status(_) => {
            let status = auth::status(ctx, there(ctx).as_deref()).await?;
            let code = match status.state {
                State::Authed => exit::CLEAN,
                State::Unknown | State::Unauthed => exit::NO_PERMISSION,
            };
            Ok(Done {
                told: vec![told(&status)],
                code,
                ..Done::default()
            })
        }
        AuthAction::Set(args) => set(ctx, args).await,
        AuthAction::Forget(args) => forget(ctx, args).await,
    })
}

fn planned(ctx: &Context, action: &str, text: &str) -> Result<Vec<Told>, Fault> {
    let bundle = ctx.bundle.identity()?;
    let text = format!("{text} of `{bundle}`");
    Ok(vec![Told::plan(action, &bundle, text)])
}

fn state(ctx: &Context, state: &str, text: &str) -> Result<Told, Fault> {
    Ok(Told {
        kind: Some(Event::AuthStatus),
        fields: json!({ "id": ctx.bundle.identity()?, "state": state }),
        text: text.to_owned(),
    })
}

/// The installed program, if any. Showing the status installs nothing.
fn there(ctx: &Context) -> Option<PathBuf> {
    let plan = install::plan(ctx, install::Options::default()).ok()?;
    plan.found.map(|found| found.bin)
}

fn told(status: &Status) -> Told {
    let mut lines = vec![status.state.as_str().to_owned()];
    for (name, source) in &status.variables {
        let from = source.as_deref().unwrap_or("not set");
        lines.push(format!("  {name}: {from}"));
    }
    if let Some(login) = &status.login {
        lines.push(format!("  login: {login}"));
    }
    Told {
        kind: Some(Event::AuthStatus),
        fields: status.json(),
        text: lines.join("\n"),
    }
}

/// The slug of the secret that `name`, a variable or a slug, refers to.
fn slug(ctx: &Context, name: &str) -> Result<String, Fault> {
    let inventory = Inventory::of(&ctx.bundle)?;
    if let Some(entry) = inventory.slug(name) {
        return Ok(entry.slug.clone());
    }
    if let Some((entry, _)) = inventory.variable(name) {
        return Ok(entry.slug.clone());
    }
    // Also match the slug that the secret is stored under, because events use it.
    let mut own = variables(ctx).map(|variable| (variable, conventional_slug(variable)));
    if let Some((_, slug)) = own.find(|(variable, slug)| *variable == name || slug == name) {
        return Ok(slug);
    }
    let known = known(ctx, &inventory);
    match known.iter().any(|k| k == name) {
        true => Ok(name.to_owned()),
        false => {
            let what = format!("the bundle has no secret `{name}`");
            let hint = match known.is_empty() {
                true => "its manifest declares none (`auth.state.env`, `auth.ref`)".to_owned(),
                false => format!("known secrets: {}", known.join(", ")),
            };
            Err(Fault::new(Code::OptionInvalid, what).hint(hint))
        }
    }
}

fn variables(ctx: &Context) -> impl Iterator<Item = &str> {
    let state = ctx.bundle.common().auth().and_then(|auth| auth.state());
    state.into_iter().flat_map(|state| state.env())
}

/// All names of the bundle's secrets.
fn known(ctx: &Context, inventory: &Inventory) -> Vec<String> {
    let slugs = inventory.entries.iter().map(|entry| entry.slug.clone());
    let persisted = ctx.bundle.common().setup().filter_map(|step| {
        let persist = step.persist().and_then(|persist| persist.secret_slug());
        Some(persist.or(step.secret_slug())?.to_owned())
    });
    let mut out: Vec<String> = variables(ctx).map(str::to_owned).collect();
    for name in slugs.chain(persisted) {
        if !out.contains(&name) {
            out.push(name);
        }
    }
    out
}

async fn set(ctx: &Context, args: &Named) -> Result<Done, Failure> {
    let name = args.name.as_str();
    let slug = slug(ctx, name)?;
    if args.effects.dry_run {
        let text = format!("store a value for `{slug}`");
        return Ok(vec![Told::plan("set", &slug, text)].into());
    }
    keyring::unlock(ctx).await?;
    let value = value(ctx, name).await?;
    ctx.masks.add(&value);
    let kept = Kept {
        value: value.to_string(),
        secret: true,
    };
    secrets::keep_slug(ctx, &slug, kept, true)?;
    if ctx.variable(name).is_some() {
        let what =
            format!("the environment variable `{name}` takes precedence over the stored value");
        ctx.observer.warning("secret_shadowed", &what);
    }
    Ok(vec![secret(&slug, "set", "stored")].into())
}

fn secret(slug: &str, action: &str, text: &str) -> Told {
    Told {
        kind: Some(Event::Secret),
        fields: json!({ "id": slug, "slug": slug, "action": action }),
        text: format!("{slug}: {text}"),
    }
}

/// Reads the value from the terminal without echo, or from stdin.
async fn value(ctx: &Context, name: &str) -> Result<Zeroizing<String>, Fault> {
    let wrong = |what: String| Fault::new(Code::OptionInvalid, what);
    if !ctx.interact.is_headless() {
        let line = ask::read(&format!("{name}: "), true).await?;
        return match line.trim() {
            "" => Err(wrong("no value was given".to_owned())),
            value => Ok(Zeroizing::new(value.to_owned())),
        };
    }
    let bytes = read_input()
        .await
        .map_err(|e| wrong(format!("cannot read stdin: {e}")))?;
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("the value is not UTF-8".into()))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text {
        "" => Err(wrong("stdin is empty".to_owned())),
        _ if bytes.len() as u64 > LONGEST_SECRET => {
            Err(wrong("the value is longer than 64 KiB".to_owned()))
        }
        _ if text.contains('\0') => Err(wrong("the value contains a NUL byte".to_owned())),
        _ => Ok(Zeroizing::new(text.to_owned())),
    }
}

/// Reads stdin on its own thread, so that the caller can be interrupted.
async fn read_input() -> std::io::Result<&'static [u8]> {
    let (give, take) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || give.send(input::all(LONGEST_SECRET + 1)));
    take.await.unwrap_or(Ok(&[]))
}

/// Deletes secrets and login state. The setup state is kept (A29-SETUP-26).
async fn forget(ctx: &Context, args: &Forget) -> Result<Done, Failure> {
    let name = args.name.as_deref();
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => known(ctx, &Inventory::of(&ctx.bundle)?),
    };
    let slugs = names.iter().map(|name| slug(ctx, name));
    let slugs: Vec<String> = slugs.collect::<Result<_, _>>()?;
    let what = match name {
        Some(name) => format!("the secret `{name}`"),
        None => "every secret of the bundle and its login state".to_owned(),
    };
    if args.destructive.effects.dry_run {
        let plans = slugs.iter();
        let plans = plans.map(|slug| Told::plan("forget", slug, format!("forget `{slug}`")));
        let mut plans: Vec<Told> = plans.collect();
        if name.is_none() {
            plans.extend(planned(ctx, "forget", "forget the login state")?);
        }
        return Ok(plans.into());
    }
    confirmed(ctx, args, &what, slugs.len()).await?;
    keyring::unlock(ctx).await?;
    let mut told = Vec::new();
    for slug in slugs {
        let gone = secrets::forget_slug(ctx, &slug)?;
        if gone || name.is_some() {
            told.push(match gone {
                true => secret(&slug, "forgotten", "forgotten"),
                false => secret(&slug, "none", "was not stored"),
            });
        }
    }
    if name.is_none() {
        auth::forget(ctx)?;
        told.push(state(ctx, "unauthed", "login state forgotten")?);
    }
    Ok(told.into())
}

/// Requires a confirmation, by an option or by the user at the terminal.
async fn confirmed(ctx: &Context, args: &Forget, what: &str, count: usize) -> Result<(), Failure> {
    let mut wish = args.destructive.clone();
    wish.confirm |= ctx.yes;
    if !wish.confirm && !ctx.interact.is_headless() {
        let question = Question {
            message: format!("Forget {what}?"),
            kind: Kind::Boolean,
            default: Some("false".to_owned()),
        };
        wish.confirm = ctx.interact.ask(&question).await? == "true";
    }
    wish.check(&format!("forgetting {what}"), count)
}
