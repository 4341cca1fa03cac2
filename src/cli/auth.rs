//! `agentproto auth`: log in, look, refresh, and keep secrets.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use super::args::Global;
use super::setup::{Common, Told, installed, perform};
use super::{Outcome, ask};
use crate::exit;
use crate::runtime::auth::state::State;
use crate::runtime::auth::{self, Status};
use crate::runtime::context::Context;
use crate::runtime::secrets::inventory::{Inventory, conventional_slug};
use crate::runtime::secrets::{self, Kept, keyring};
use crate::runtime::{Code, Fault, install};

/// A secret is no book.
const LONGEST_SECRET: u64 = 64 << 10;

#[derive(Subcommand, Debug)]
pub enum AuthAction {
    /// Run the bundle's login, and wait until it shows
    Login(Login),
    /// Say whether there is a login, and where each secret would come from
    Status(Only),
    /// Run the bundle's refresh now
    Refresh(Only),
    /// Keep a secret: read from standard input, or asked for
    Set(Named),
    /// Drop a kept secret, or all of the bundle's with its login state
    Forget(Forget),
}

#[derive(Args, Debug)]
pub struct Only {
    #[command(flatten)]
    pub common: Common,
}

#[derive(Args, Debug)]
pub struct Login {
    #[command(flatten)]
    pub common: Common,
    /// Seconds that a finished login may take to show
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = super::args::seconds)]
    pub wait: f64,
}

#[derive(Args, Debug)]
pub struct Named {
    #[command(flatten)]
    pub common: Common,
    /// A variable of `auth.state.env`, or a slug of the SECRETS.md
    pub name: String,
}

#[derive(Args, Debug)]
pub struct Forget {
    #[command(flatten)]
    pub common: Common,
    /// A variable of `auth.state.env`, or a slug of the SECRETS.md
    pub name: Option<String>,
}

impl AuthAction {
    /// The command's name, and its output format.
    pub fn said(&self) -> (&'static str, &String) {
        match self {
            AuthAction::Login(args) => ("auth login", &args.common.output),
            AuthAction::Status(args) => ("auth status", &args.common.output),
            AuthAction::Refresh(args) => ("auth refresh", &args.common.output),
            AuthAction::Set(args) => ("auth set", &args.common.output),
            AuthAction::Forget(args) => ("auth forget", &args.common.output),
        }
    }
}

pub fn run(action: &AuthAction, global: &Global, out: &mut dyn Write) -> Outcome {
    let (command, _) = action.said();
    match action {
        AuthAction::Login(args) => perform(command, &args.common, global, out, async |ctx| {
            let bin = installed(ctx, &args.common).await?;
            let patience = Duration::from_secs_f64(args.wait);
            auth::login(ctx, &bin, Some(patience)).await?;
            Ok((vec![state("authed", "logged in")], exit::CLEAN))
        }),
        AuthAction::Refresh(args) => perform(command, &args.common, global, out, async |ctx| {
            let bin = installed(ctx, &args.common).await?;
            auth::refresh(ctx, &bin).await?;
            Ok((vec![state("authed", "refreshed")], exit::CLEAN))
        }),
        AuthAction::Status(args) => perform(command, &args.common, global, out, async |ctx| {
            let status = auth::status(ctx, there(ctx).as_deref()).await?;
            let code = match status.state {
                State::Authed => exit::CLEAN,
                State::Unknown | State::Unauthed => exit::NO_PERMISSION,
            };
            Ok((vec![told(&status)], code))
        }),
        AuthAction::Set(args) => perform(command, &args.common, global, out, async |ctx| {
            keyring::unlock(ctx).await?;
            set(ctx, &args.name).await
        }),
        AuthAction::Forget(args) => perform(command, &args.common, global, out, async |ctx| {
            keyring::unlock(ctx).await?;
            forget(ctx, args.name.as_deref())
        }),
    }
}

fn state(state: &str, text: &str) -> Told {
    Told {
        kind: "auth-status",
        fields: json!({ "state": state }),
        text: text.to_owned(),
    }
}

/// The program, if it is there: a look installs nothing.
fn there(ctx: &Context) -> Option<PathBuf> {
    let plan = install::plan(ctx, install::Options::default()).ok()?;
    plan.found.map(|found| found.bin)
}

fn told(status: &Status) -> Told {
    let mut lines = vec![status.state.as_str().to_owned()];
    for (name, source) in &status.variables {
        let from = source.as_deref().unwrap_or("set nowhere");
        lines.push(format!("  {name}: {from}"));
    }
    if let Some(login) = &status.login {
        lines.push(format!("  login: {login}"));
    }
    Told {
        kind: "auth-status",
        fields: status.json(),
        text: lines.join("\n"),
    }
}

/// The slug that a variable or a slug of the bundle means.
fn slug(ctx: &Context, name: &str) -> Result<String, Fault> {
    let inventory = Inventory::of(&ctx.bundle)?;
    if let Some(entry) = inventory.slug(name) {
        return Ok(entry.slug.clone());
    }
    if let Some((entry, _)) = inventory.variable(name) {
        return Ok(entry.slug.clone());
    }
    if variables(ctx).any(|variable| variable == name) {
        return Ok(conventional_slug(name));
    }
    let known = known(ctx, &inventory);
    match known.iter().any(|k| k == name) {
        true => Ok(name.to_owned()),
        false => {
            let what = format!("the bundle has no secret `{name}`");
            let hint = match known.is_empty() {
                true => "its manifest names none (`auth.state.env`, `auth.ref`)".to_owned(),
                false => format!("it has: {}", known.join(", ")),
            };
            Err(Fault::new(Code::OptionInvalid, what).hint(hint))
        }
    }
}

fn variables(ctx: &Context) -> impl Iterator<Item = &str> {
    let state = ctx.bundle.common().auth().and_then(|auth| auth.state());
    state.into_iter().flat_map(|state| state.env())
}

/// Every name that a secret of the bundle goes by.
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

async fn set(ctx: &Context, name: &str) -> Result<(Vec<Told>, u8), Fault> {
    let slug = slug(ctx, name)?;
    let value = value(ctx, name).await?;
    ctx.masks.add(&value);
    let kept = Kept {
        value: value.to_string(),
        secret: true,
    };
    secrets::keep_slug(ctx, &slug, kept, true)?;
    if ctx.variable(name).is_some() {
        let what = format!("`{name}` of the environment goes before the one that is kept");
        ctx.observer.warning("secret_shadowed", &what);
    }
    let told = Told {
        kind: "secret",
        fields: json!({ "slug": slug, "action": "set" }),
        text: format!("{slug}: kept"),
    };
    Ok((vec![told], exit::CLEAN))
}

/// From the terminal without an echo, or all of standard input.
async fn value(ctx: &Context, name: &str) -> Result<Zeroizing<String>, Fault> {
    let wrong = |what: String| Fault::new(Code::OptionInvalid, what);
    if !ctx.interact.is_headless() {
        let line = ask::read(&format!("{name}: "), true).await?;
        return match line.trim() {
            "" => Err(wrong("no value was given".to_owned())),
            value => Ok(Zeroizing::new(value.to_owned())),
        };
    }
    let mut bytes = Zeroizing::new(Vec::new());
    let read = std::io::stdin()
        .lock()
        .take(LONGEST_SECRET + 1)
        .read_to_end(&mut bytes);
    read.map_err(|e| wrong(format!("standard input: {e}")))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong("the value is no UTF-8".into()))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text {
        "" => Err(wrong("standard input holds no value".to_owned())),
        _ if bytes.len() as u64 > LONGEST_SECRET => Err(wrong("the value is too long".to_owned())),
        _ if text.contains('\0') => Err(wrong("the value holds a zero byte".to_owned())),
        _ => Ok(Zeroizing::new(text.to_owned())),
    }
}

/// Setup stays done (A29-SETUP-26).
fn forget(ctx: &Context, name: Option<&str>) -> Result<(Vec<Told>, u8), Fault> {
    let slugs = match name {
        Some(name) => vec![slug(ctx, name)?],
        None => {
            let known = known(ctx, &Inventory::of(&ctx.bundle)?);
            let slugs = known.iter().map(|name| slug(ctx, name));
            slugs.collect::<Result<_, _>>()?
        }
    };
    let mut told = Vec::new();
    for slug in slugs {
        let gone = secrets::forget_slug(ctx, &slug)?;
        if gone || name.is_some() {
            told.push(Told {
                kind: "secret",
                fields: json!({ "slug": slug, "action": if gone { "forgotten" } else { "none" } }),
                text: format!(
                    "{slug}: {}",
                    if gone { "forgotten" } else { "was not kept" }
                ),
            });
        }
    }
    if name.is_none() {
        auth::forget(ctx)?;
        told.push(state("unauthed", "the login state is forgotten"));
    }
    Ok((told, exit::CLEAN))
}
