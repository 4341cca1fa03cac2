//! `agentproto auth`: log in, show the login status, refresh logins, and store secrets.

use std::collections::HashSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use crate::cli::agents::effects::{Destructive, Effects};
use crate::cli::agents::lifecycle::{CommandResult, Common, ResultLine, installed, run_lifecycle};
use crate::cli::agents::{ask, stdin};
use crate::cli::args::Global;
use crate::cli::{Failure, Outcome};
use crate::exit;
use agentproto_report::event::EventType;
use agentproto_runtime::auth::callback::CallbackSettings;
use agentproto_runtime::auth::state::LoginState;
use agentproto_runtime::auth::{self, LoginOptions, LoginStatus};
use agentproto_runtime::context::Context;
use agentproto_runtime::interact::{Question, QuestionKind};
use agentproto_runtime::secrets::inventory::{Inventory, conventional_slug};
use agentproto_runtime::secrets::{self, StoredValue, keyring};
use agentproto_runtime::{Code, Error, install, setup};
use agentproto_text::{escape_line, shell};

/// Maximum length of a secret, in bytes.
pub const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Hides an option that the command accepts only because all `auth` commands share it.
fn hide(option: clap::Arg) -> clap::Arg {
    option.hide(true)
}

#[derive(Subcommand, Debug)]
pub enum AuthAction {
    /// Run the bundle's login and wait until it takes effect
    Login(Login),
    /// Show whether the bundle is logged in, and where each secret comes from
    #[command(mut_arg("yes", hide), mut_arg("allow_unverified", hide))]
    Status(AuthStatus),
    /// Renew the login now (`auth.refresh`)
    Refresh(Refresh),
    /// Store a secret that is read from stdin or typed at the terminal
    #[command(
        mut_arg("sandbox", hide),
        mut_arg("yes", hide),
        mut_arg("allow_unverified", hide)
    )]
    Set(AuthSet),
    /// Delete a stored secret, or all secrets of the bundle and its login state
    #[command(
        mut_arg("sandbox", hide),
        mut_arg("yes", hide),
        mut_arg("allow_unverified", hide)
    )]
    Forget(Forget),
}

#[derive(Args, Debug)]
pub struct AuthStatus {
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
    /// Maximum number of seconds to wait, after the login command, until the login works
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = crate::cli::agents::seconds)]
    pub wait: f64,
    /// End the login command after this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = crate::cli::agents::seconds)]
    pub timeout: f64,
    #[command(flatten)]
    pub callback: CallbackArgs,
}

/// How the callback of a login is reached. By default only from this machine.
#[derive(Args, Debug)]
pub struct CallbackArgs {
    /// Public URL of the callback, for a browser on another machine; a proxy must forward it to
    /// `--callback-bind`
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
    /// Receive the callback at this address [default: a free port on 127.0.0.1]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub callback_bind: Option<SocketAddr>,
    /// Receive the callback over HTTPS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "callback_tls_key")]
    pub callback_tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "callback_tls_cert")]
    pub callback_tls_key: Option<PathBuf>,
}

impl CallbackArgs {
    fn settings(&self) -> CallbackSettings {
        let files = self.callback_tls_cert.clone();
        CallbackSettings {
            bind: self.callback_bind,
            public_url: self.callback_url.clone(),
            tls: files.zip(self.callback_tls_key.clone()),
        }
    }
}

#[derive(Args, Debug)]
pub struct AuthSet {
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
    fn name_and_options(&self) -> (&'static str, &Common) {
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
        matches!(self, AuthAction::Set(_)) && !ask::is_interactive()
    }
}

pub fn run(action: &AuthAction, global: &Global, out: &mut dyn Write) -> Outcome {
    let (command, common) = action.name_and_options();
    run_lifecycle(command, common, global, out, async |ctx| match action {
        AuthAction::Login(args) => {
            if args.effects.dry_run {
                return Ok(plan_results(ctx, "login", "run the login")?.into());
            }
            let callback = args.callback.settings();
            callback.check()?;
            let mut ctx = ctx.clone();
            ctx.callback = callback;
            let ctx = &ctx;
            let bin = installed(ctx, common).await?;
            // The declared order (A29-SETUP-21).
            setup::ensure(ctx, &bin).await?;
            let options = LoginOptions {
                timeout: Duration::from_secs_f64(args.timeout),
                completion_timeout: Duration::from_secs_f64(args.wait),
            };
            auth::login(ctx, &bin, &options).await?;
            let text = match ctx.bundle.common().auth() {
                Some(_) => "logged in",
                None => "no login needed",
            };
            Ok(vec![state(ctx, "authed", text)?].into())
        }
        AuthAction::Refresh(args) => {
            if args.effects.dry_run {
                return Ok(plan_results(ctx, "refresh", "refresh the login")?.into());
            }
            let bin = installed(ctx, common).await?;
            auth::refresh(ctx, &bin).await?;
            Ok(vec![state(ctx, "authed", "refreshed")?].into())
        }
        AuthAction::Status(_) => {
            let status = auth::status(ctx, installed_program(ctx).as_deref()).await?;
            let code = match status.state {
                LoginState::Authed => exit::CLEAN,
                LoginState::Unknown | LoginState::Unauthed => exit::NO_PERMISSION,
            };
            Ok(CommandResult {
                results: vec![status_result(&status, &common.target)],
                code,
                ..CommandResult::default()
            })
        }
        AuthAction::Set(args) => set(ctx, args).await,
        AuthAction::Forget(args) => forget(ctx, args).await,
    })
}

fn plan_results(ctx: &Context, action: &str, text: &str) -> Result<Vec<ResultLine>, Error> {
    let bundle = ctx.bundle.identity()?;
    let text = format!("{text} of `{bundle}`");
    Ok(vec![ResultLine::plan(action, &bundle, text)])
}

fn state(ctx: &Context, state: &str, text: &str) -> Result<ResultLine, Error> {
    Ok(ResultLine {
        kind: Some(EventType::AuthStatus),
        fields: json!({ "id": ctx.bundle.identity()?, "state": state }),
        text: text.to_owned(),
    })
}

/// The installed program, if any. Showing the status installs nothing.
fn installed_program(ctx: &Context) -> Option<PathBuf> {
    let plan = install::plan(ctx, install::InstallOptions::default()).ok()?;
    plan.found.map(|found| found.bin)
}

fn status_result(status: &LoginStatus, target: &str) -> ResultLine {
    let mut lines = vec![state_text(status, target)];
    for (name, source) in &status.variables {
        let from = match source.as_deref() {
            None => "not set",
            Some("store") => "from the secret store",
            Some("environment") => "from the environment",
            Some(other) => other,
        };
        lines.push(format!("  {name}: {from}"));
    }
    if let Some(login) = &status.login {
        lines.push(format!("  login: {login}"));
    }
    ResultLine {
        kind: Some(EventType::AuthStatus),
        fields: status.json(),
        text: lines.join("\n"),
    }
}

/// The login state in words, and what to do.
fn state_text(status: &LoginStatus, target: &str) -> String {
    if status.state == LoginState::Authed {
        let nothing = status.variables.is_empty() && status.login.is_none();
        return if nothing {
            "no login needed"
        } else {
            "logged in"
        }
        .to_owned();
    }
    let names: Vec<&str> = status
        .variables
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let is_set = status.variables.iter().any(|(_, source)| source.is_some());
    match names.as_slice() {
        [one] if !is_set => format!("not logged in: run `{}`", set_command(target, one)),
        [first, _, ..] if !is_set => format!(
            "not logged in: set one of these variables, for example with `{}`",
            set_command(target, first)
        ),
        _ if status.login.is_some() => {
            let words = shell(&["agentproto", "auth", "login", target]);
            format!("not logged in: run `{}`", escape_line(&words))
        }
        _ => "not logged in".to_owned(),
    }
}

fn set_command(target: &str, name: &str) -> String {
    let words = shell(&["agentproto", "auth", "set", target, name]);
    escape_line(&words).into_owned()
}

/// The slug of the secret that `name`, a variable or a slug, refers to.
fn slug(ctx: &Context, name: &str) -> Result<String, Error> {
    let inventory = Inventory::from_bundle(&ctx.bundle)?;
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
    let known = secret_names(ctx, &inventory);
    match known.iter().any(|(slug, _)| slug == name) {
        true => Ok(name.to_owned()),
        false => {
            let what = format!("unknown secret `{name}`: the manifest does not declare it");
            let hint = match known.is_empty() {
                true => {
                    "declare it in `auth.state.env`, or in the SECRETS.md that `auth.ref` points to"
                        .to_owned()
                }
                false => {
                    let names = known.iter().map(|(slug, variable)| match variable {
                        Some(variable) => format!("{slug} (variable {variable})"),
                        None => slug.clone(),
                    });
                    let names: Vec<String> = names.collect();
                    format!("known secrets: {}", names.join(", "))
                }
            };
            Err(Error::new(Code::OptionInvalid, what).hint(hint))
        }
    }
}

fn variables(ctx: &Context) -> impl Iterator<Item = &str> {
    let state = ctx.bundle.common().auth().and_then(|auth| auth.state());
    state.into_iter().flat_map(|state| state.env())
}

/// The slugs of the bundle's secrets, with their variables.
fn secret_names<'c>(ctx: &'c Context, inventory: &Inventory) -> Vec<(String, Option<&'c str>)> {
    let slugs = inventory.entries.iter().map(|entry| entry.slug.clone());
    let persisted = ctx.bundle.common().setup().filter_map(|step| {
        let persist = step.persist().and_then(|persist| persist.secret_slug());
        Some(persist.or(step.secret_slug())?.to_owned())
    });
    let mut out: Vec<(String, Option<&str>)> = Vec::new();
    for name in variables(ctx) {
        let entry = inventory
            .variable(name)
            .map(|(entry, _)| entry.slug.clone());
        out.push((entry.unwrap_or_else(|| conventional_slug(name)), Some(name)));
    }
    for slug in slugs.chain(persisted) {
        if !out.iter().any(|(known, _)| *known == slug) {
            out.push((slug, None));
        }
    }
    out
}

async fn set(ctx: &Context, args: &AuthSet) -> Result<CommandResult, Failure> {
    let name = args.name.as_str();
    let slug = slug(ctx, name)?;
    if args.effects.dry_run {
        let text = format!("store a value for `{slug}`");
        return Ok(vec![ResultLine::plan("set", &slug, text)].into());
    }
    keyring::unlock(ctx).await?;
    let value = value(ctx, name).await?;
    ctx.masks.add(&value);
    let kept = StoredValue {
        value: value.to_string(),
        secret: true,
    };
    secrets::store_slug(ctx, &slug, kept, true)?;
    if ctx.variable(name).is_some() {
        let what =
            format!("the environment variable `{name}` takes precedence over the stored value");
        ctx.observer.warning("secret_shadowed", &what);
    }
    Ok(vec![secret(&slug, "set", "stored")].into())
}

fn secret(slug: &str, action: &str, text: &str) -> ResultLine {
    ResultLine {
        kind: Some(EventType::Secret),
        fields: json!({ "id": slug, "slug": slug, "action": action }),
        text: format!("{slug}: {text}"),
    }
}

/// Reads the value from the terminal without echo, or from stdin.
async fn value(ctx: &Context, name: &str) -> Result<Zeroizing<String>, Error> {
    let invalid = |what: String| Error::new(Code::OptionInvalid, what);
    if !ctx.interact.is_headless() {
        let line = ask::read(&format!("{name}: "), true).await?;
        return match line.trim() {
            "" => Err(invalid("no value was given".to_owned())),
            value => Ok(Zeroizing::new(value.to_owned())),
        };
    }
    let bytes = read_input()
        .await
        .map_err(|e| invalid(format!("cannot read stdin: {e}")))?;
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("the value is not UTF-8".into()))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text {
        "" => Err(invalid("stdin is empty".to_owned())),
        _ if bytes.len() as u64 > MAX_SECRET_BYTES => {
            Err(invalid("the value is longer than 64 KiB".to_owned()))
        }
        _ if text.contains('\0') => Err(invalid("the value contains a NUL byte".to_owned())),
        _ => Ok(Zeroizing::new(text.to_owned())),
    }
}

/// Reads stdin on its own thread, so that the caller can be interrupted.
async fn read_input() -> std::io::Result<&'static [u8]> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || sender.send(stdin::read_all(MAX_SECRET_BYTES + 1)));
    receiver.await.unwrap_or(Ok(&[]))
}

const NOTHING_TO_DELETE: &str = "nothing to delete: no stored secrets and no login state";

/// What `forget` would delete: each of these secrets that is stored, and the login state.
async fn forget_plans(
    ctx: &Context,
    slugs: &[String],
    with_login_state: bool,
) -> Result<Vec<ResultLine>, Failure> {
    let stored = secrets::stored_slugs(ctx, slugs).await?;
    let plans = stored.into_iter();
    let plans = plans.map(|slug| ResultLine::plan("forget", slug, format!("delete `{slug}`")));
    let mut plans: Vec<ResultLine> = plans.collect();
    if with_login_state && auth::state::read(ctx)?.state != LoginState::Unknown {
        plans.extend(plan_results(ctx, "forget", "delete the login state")?);
    }
    Ok(plans)
}

/// Deletes secrets and login state. The setup state is kept (A29-SETUP-26).
async fn forget(ctx: &Context, args: &Forget) -> Result<CommandResult, Failure> {
    let name = args.name.as_deref();
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => {
            let all = secret_names(ctx, &Inventory::from_bundle(&ctx.bundle)?);
            all.into_iter().map(|(slug, _)| slug).collect()
        }
    };
    let slugs = names.iter().map(|name| slug(ctx, name));
    let mut slugs: Vec<String> = slugs.collect::<Result<_, _>>()?;
    // A variable and a setup step may use the same secret.
    let mut seen = HashSet::new();
    slugs.retain(|slug| seen.insert(slug.clone()));
    let what = match name {
        Some(name) => format!("the stored secret `{name}`"),
        None => {
            let bundle = ctx.bundle.identity()?;
            format!("all stored secrets and the login state of `{bundle}`")
        }
    };
    let plans = forget_plans(ctx, &slugs, name.is_none()).await?;
    if args.destructive.effects.dry_run {
        return Ok(match (plans.is_empty(), name) {
            (false, _) => plans.into(),
            (true, None) => vec![state(ctx, "unauthed", NOTHING_TO_DELETE)?].into(),
            (true, Some(_)) => {
                let missing = slugs.iter();
                let missing = missing.map(|slug| secret(slug, "none", "is not stored"));
                missing.collect::<Vec<_>>().into()
            }
        });
    }
    require_confirmation(ctx, args, &what, plans.len()).await?;
    keyring::unlock(ctx).await?;
    let mut results = Vec::new();
    for slug in slugs {
        let gone = secrets::forget_slug(ctx, &slug)?;
        if gone || name.is_some() {
            results.push(match gone {
                true => secret(&slug, "forgotten", "deleted"),
                false => secret(&slug, "none", "was not stored"),
            });
        }
    }
    if name.is_none() {
        let text = match (auth::forget(ctx)?, results.is_empty()) {
            (true, _) => "deleted the login state",
            (false, true) => NOTHING_TO_DELETE,
            (false, false) => "no login state was stored",
        };
        results.push(state(ctx, "unauthed", text)?);
    }
    Ok(results.into())
}

/// Requires a confirmation, by an option or by the user at the terminal.
async fn require_confirmation(
    ctx: &Context,
    args: &Forget,
    what: &str,
    count: usize,
) -> Result<(), Failure> {
    let mut options = args.destructive.clone();
    options.confirm |= ctx.yes;
    if !options.confirm && !ctx.interact.is_headless() {
        let question = Question {
            message: format!("Delete {what}?"),
            kind: QuestionKind::Boolean,
            default: Some("false".to_owned()),
        };
        options.confirm = ctx.interact.ask(&question).await? == "true";
    }
    options.check(&format!("this deletes {what}"), count)
}
