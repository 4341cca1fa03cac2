//! Login state (AIP-29 § Login state machine): unknown, unauthed, authed. Secrets reach a child
//! process only in its environment (A45-AUTH-03).

pub mod callback;
mod login;
pub mod state;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};

pub use self::login::{CALLBACK_VARIABLE, LoginOptions};
use self::state::LoginState;
use crate::context::Context;
use crate::entry::{self, Entry};
use crate::error::{Code, Error};
use crate::interact::{Question, QuestionKind};
use crate::observe::Stage;
use crate::secrets::inventory::Inventory;
use crate::secrets::resolve::{self, resolve};
use crate::secrets::{self, oauth};
use crate::setup;
use agentproto_manifest::Doctype;
use agentproto_manifest::views::Auth;

/// Exit code that AIP-29 reserves for `auth_required` (A29-OUT-08).
const RESERVED: i32 = 4;

/// Makes sure that the user is logged in, and returns the secrets as variables for the child. The
/// caller has checked the version, so an unknown state becomes unauthed (A29-LOGIN-02).
pub async fn ensure(ctx: &Context, bin: &Path) -> Result<Vec<(OsString, OsString)>, Error> {
    let entry = entry::load_announced(ctx).await?;
    ensure_with(ctx, bin, entry.as_ref()).await
}

/// Like `ensure`, with the hooks of a loaded entry.
pub(crate) async fn ensure_with(
    ctx: &Context,
    bin: &Path,
    entry: Option<&Entry>,
) -> Result<Vec<(OsString, OsString)>, Error> {
    // Without `auth` there is nothing to do (A29-OPT-04).
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(Vec::new());
    };
    ctx.observer.stage(Stage::Auth, &ctx.bundle.identity()?);
    let secrets = environment(ctx, "agent").await?;
    let env = with_setup(ctx, &secrets)?;
    let has_login = auth.login().is_some_and(|login| login.cmd().is_some())
        || entry.is_some_and(|entry| entry.hooks().login);
    let mut stored = state::leave_unknown(ctx)?;
    let by_variable = has_variable(auth, &secrets);
    let needs_nothing = names(auth).next().is_none() && !has_login;
    if !by_variable && !needs_nothing && stored.state != LoginState::Authed {
        match login::completed(ctx, bin, auth, &env).await? {
            Some(true) => {
                stored.set_state(ctx, LoginState::Authed, "the completion check passed")?
            }
            _ => attempt(ctx, bin, auth, &env, entry).await?,
        }
    }
    refresh_if_due(ctx, bin, auth, &env, entry).await?;
    Ok(secrets)
}

/// Unauthed: asks the user to log in, or returns an error at once if the user cannot
/// be asked (A29-LOGIN-05).
async fn attempt(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    env: &[(OsString, OsString)],
    entry: Option<&Entry>,
) -> Result<(), Error> {
    let cmd = auth.login().and_then(|login| login.cmd());
    let question = match (entry.is_some_and(|entry| entry.hooks().login), cmd) {
        (true, _) => "You are not logged in. Log in now?".to_owned(),
        (false, Some(cmd)) => format!("You are not logged in. Run `{cmd}` now?"),
        (false, None) => return Err(required(ctx, "no credentials")),
    };
    let interactive = auth.login().and_then(|l| l.interactive()) == Some(true);
    let run_login = if ctx.interact.is_headless() {
        ctx.yes && !interactive
    } else if ctx.yes {
        true
    } else {
        let question = Question {
            message: question,
            kind: QuestionKind::Boolean,
            default: Some("true".to_owned()),
        };
        ctx.interact.ask(&question).await? == "true"
    };
    match run_login {
        true => {
            let options = LoginOptions::default();
            login::login(ctx, bin, env.to_vec(), &options, entry).await
        }
        false => Err(required(ctx, "not logged in")),
    }
}

/// Refreshes the login when it is due, which delays the return to unauthed (A29-LOGIN-07).
async fn refresh_if_due(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    env: &[(OsString, OsString)],
    entry: Option<&Entry>,
) -> Result<(), Error> {
    let Some(way) = Refresh::of(auth, entry) else {
        return Ok(());
    };
    let every = refresh_interval(ctx, auth)?;
    let mut stored = state::read(ctx)?;
    if stored.refreshed.is_none() && every.is_some() {
        // The interval starts with the first run that is logged in.
        stored.refreshed = Some(state::now());
        return stored.write(ctx);
    }
    if !stored.is_due(every) {
        return Ok(());
    }
    let _lock = state::lock(ctx).await?;
    if !state::read(ctx)?.is_due(every) {
        return Ok(());
    }
    match login::refresh(ctx, bin, auth, way, env).await {
        Err(error) if error.code == Code::SecretUnavailable => {
            ctx.observer.warning("refresh_failed", &error.message);
            Ok(())
        }
        refreshed => refreshed,
    }
}

/// How a login is refreshed.
#[derive(Clone, Copy)]
enum Refresh<'a> {
    /// With the hook of the entry.
    Hook(&'a Entry),
    /// With `auth.refresh.cmd`.
    Command(&'a str),
}

impl<'a> Refresh<'a> {
    fn of(auth: Auth<'a>, entry: Option<&'a Entry>) -> Option<Refresh<'a>> {
        match entry.filter(|entry| entry.hooks().refresh) {
            Some(entry) => Some(Refresh::Hook(entry)),
            None => Some(Refresh::Command(auth.refresh()?.cmd()?)),
        }
    }
}

fn refresh_interval(ctx: &Context, auth: Auth<'_>) -> Result<Option<Duration>, Error> {
    let Some((refresh, every)) = auth.refresh().and_then(|r| Some((r, r.every()?))) else {
        return Ok(None);
    };
    match agentproto_text::time::duration(every) {
        Some(every) => Ok(Some(every)),
        None => {
            let what =
                format!("`{every}` is not an ISO-8601 duration such as `PT24H` (AIP-29 § Auth)");
            Err(ctx.bundle.invalid(refresh.node(), &what))
        }
    }
}

/// The variables of `auth.state.env`.
fn names(auth: Auth<'_>) -> impl Iterator<Item = &str> {
    auth.state().into_iter().flat_map(|state| state.env())
}

/// Every variable that the bundle's secrets may be passed in.
fn all_names(auth: Auth<'_>, inventory: &Inventory) -> Vec<String> {
    let mut out: Vec<String> = names(auth).map(str::to_owned).collect();
    let exposed = inventory.entries.iter().flat_map(|entry| &entry.variables);
    out.extend(exposed.map(|(name, _)| name.clone()));
    out.retain(|name| setup::template::is_variable(name));
    let mut seen = Vec::new();
    out.retain(|name| match seen.contains(name) {
        true => false,
        false => {
            seen.push(name.clone());
            true
        }
    });
    out
}

/// Whether a variable of the agent is for the agent alone: `auth` names it, or its value contains a
/// secret.
pub(crate) fn is_secret(ctx: &Context, name: &OsStr, value: &OsStr) -> bool {
    let root = ctx.bundle.root();
    let lists: [&[&str]; 2] = [
        &["auth", "state", "env"],
        &["sandbox", "env", "auth", "state", "env"],
    ];
    let mut declared = lists
        .iter()
        .filter_map(|path| root.at(path))
        .flat_map(|list| list.strings());
    let value = value.to_string_lossy();
    declared.any(|(declared, _)| name == declared) || ctx.masks.mask(&value) != value
}

/// Refuses exposures that this host does not serve (AIP-19): the program would miss its secret. An
/// entry that is not granted to this bundle is for others.
fn refuse_unserved(ctx: &Context, inventory: &Inventory) -> Result<(), Error> {
    let who = resolve::requester(ctx);
    let granted = inventory.entries.iter().filter(|e| e.access(&who).is_ok());
    for entry in granted {
        if let Some(kind) = entry.unsupported_exposures.first() {
            let what = format!(
                "the secret `{}` has an exposure of kind `{kind}`, which this host does not serve (AIP-19)",
                entry.slug
            );
            return Err(Error::new(Code::SecretUnavailable, what)
                .hint("pass it in a variable (`kind: env`), or remove the exposure")
                .details(json!({ "slug": entry.slug, "exposure": kind })));
        }
    }
    Ok(())
}

/// The available secrets as variables. Each is masked, and its read is audited. `to` names the
/// receiver.
pub async fn environment(ctx: &Context, to: &str) -> Result<Vec<(OsString, OsString)>, Error> {
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(Vec::new());
    };
    secrets::keyring::unlock(ctx).await?;
    let inventory = Inventory::from_bundle(&ctx.bundle)?;
    refuse_unserved(ctx, &inventory)?;
    let mut out = Vec::new();
    for name in all_names(auth, &inventory) {
        if let Some(resolved) = resolve(ctx, &inventory, &name, to).await? {
            out.push((resolved.name.into(), resolved.value));
        }
    }
    Ok(out)
}

/// Adds the variables that setup stored.
fn with_setup(
    ctx: &Context,
    secrets: &[(OsString, OsString)],
) -> Result<Vec<(OsString, OsString)>, Error> {
    let mut env = setup::variables(ctx)?;
    env.extend(secrets.iter().cloned());
    Ok(env)
}

/// Logs in, whatever the current state (A29-LOGIN-08). Uses the bundle's command. Without one,
/// uses OAuth for each secret with endpoints.
pub async fn login(ctx: &Context, bin: &Path, options: &LoginOptions) -> Result<(), Error> {
    ctx.observer.stage(Stage::Auth, &ctx.bundle.identity()?);
    let entry = entry::load_announced(ctx).await?;
    let has_hook = entry.as_ref().is_some_and(|entry| entry.hooks().login);
    secrets::keyring::unlock(ctx).await?;
    let has_command = has_hook || ctx.bundle.root().at(&["auth", "login", "cmd"]).is_some();
    let inventory = Inventory::from_bundle(&ctx.bundle)?;
    let mut by_oauth = inventory
        .entries
        .iter()
        .filter(|entry| entry.oauth.is_some());
    if let (false, Some(first)) = (has_command, by_oauth.next()) {
        if ctx.interact.is_headless() {
            return Err(required(ctx, "login requires a user with a browser"));
        }
        let mut stored = state::leave_unknown(ctx)?;
        for entry in [first].into_iter().chain(by_oauth) {
            if let Some(endpoints) = &entry.oauth {
                let tokens = oauth::login(ctx, endpoints).await;
                let tokens = tokens.map_err(|why| required(ctx, &why))?;
                secrets::store_slug(ctx, &entry.slug, tokens, true)?;
            }
        }
        stored.refreshed = Some(state::now());
        return stored.set_state(ctx, LoginState::Authed, "login completed");
    }
    let env = with_setup(ctx, &environment(ctx, "login").await?)?;
    login::login(ctx, bin, env, options, entry.as_ref()).await
}

/// Refreshes now: with the bundle's command, or with the stored refresh tokens. Without a login
/// there is nothing to refresh, so nothing runs and the state does not change (A29-LOGIN-09).
pub async fn refresh(ctx: &Context, bin: &Path) -> Result<(), Error> {
    ctx.observer.stage(Stage::Auth, &ctx.bundle.identity()?);
    let entry = entry::load_announced(ctx).await?;
    let auth = ctx.bundle.common().auth();
    let way = auth.and_then(|auth| Some((auth, Refresh::of(auth, entry.as_ref())?)));
    secrets::keyring::unlock(ctx).await?;
    let _lock = state::lock(ctx).await?;
    if way.is_none() {
        let mut renewed = false;
        for entry in &Inventory::from_bundle(&ctx.bundle)?.entries {
            if entry.oauth.is_some()
                && let Some(stored) = secrets::slug(ctx, &entry.slug, "refresh")?
            {
                oauth::renew(ctx, entry, &stored).await?;
                renewed = true;
            }
        }
        if renewed {
            return Ok(());
        }
    }
    let Some((auth, way)) = way else {
        return Err(Error::new(
            Code::OptionInvalid,
            "this bundle has nothing to refresh: its manifest has no `auth.refresh.cmd`",
        )
        .hint("run `agentproto auth login` to log in again"));
    };
    let secrets = environment(ctx, "refresh").await?;
    let env = with_setup(ctx, &secrets)?;
    if !has_variable(auth, &secrets) {
        let mut stored = state::read(ctx)?;
        match (login::completed(ctx, bin, auth, &env).await?, stored.state) {
            (Some(true), LoginState::Authed) | (None, LoginState::Authed) => {}
            (Some(true), _) => {
                state::leave_unknown(ctx)?;
                stored = state::read(ctx)?;
                stored.set_state(ctx, LoginState::Authed, "the completion check passed")?;
            }
            (Some(false), LoginState::Authed) => {
                stored.set_state(ctx, LoginState::Unauthed, "the completion check failed")?;
                return Err(required(ctx, "not logged in, so nothing was refreshed"));
            }
            _ => return Err(required(ctx, "not logged in, so nothing was refreshed")),
        }
    }
    login::refresh(ctx, bin, auth, way, &env).await
}

/// Whether a variable of `auth.state.env` has a value. One is enough, because bundles list
/// alternatives.
fn has_variable(auth: Auth<'_>, secrets: &[(OsString, OsString)]) -> bool {
    names(auth).any(|name| secrets.iter().any(|(known, _)| known == name))
}

/// Resets the login state to unknown, and returns whether it was known before. Setup is kept
/// (A29-SETUP-26).
pub fn forget(ctx: &Context) -> Result<bool, Error> {
    let mut stored = state::read(ctx)?;
    let was_known = stored.state != LoginState::Unknown;
    stored.set_state(ctx, LoginState::Unknown, "forgotten")?;
    Ok(was_known)
}

/// Checks whether an exited process reports an expired login (A29-AUTH-11). If so, the state
/// becomes unauthed (A29-LOGIN-04). `output` is the end of its output.
pub fn expired(ctx: &Context, status: ExitStatus, output: &str) -> Option<Error> {
    let auth = ctx.bundle.common().auth()?;
    let code = status.code()?;
    let detected = auth.expiry().and_then(|expiry| expiry.detect());
    let detected = detected.and_then(|text| text.strip_prefix("exit_code:")?.parse::<i32>().ok());
    let meaning = ctx.bundle.root().at(&["output", "exit_codes"]);
    let meaning = meaning.and_then(|codes| codes.str_at(&[&code.to_string()]));
    let is_tool = ctx.bundle.manifest.doctype == Some(Doctype::Cli);
    let reserved = is_tool && code == RESERVED && meaning.is_none() && detected.is_none();
    if detected != Some(code) && meaning != Some("auth_required") && !reserved {
        return None;
    }
    Some(expire(ctx, code, output))
}

/// Sets the state to unauthed, because the exit code, the manifest or a hook says that the login has
/// expired.
pub(crate) fn expire(ctx: &Context, code: i32, output: &str) -> Error {
    let output = ctx.masks.mask(output.trim()).into_owned();
    let why = match output.is_empty() {
        true => format!("the login has expired (exit code {code})"),
        false => format!("the login has expired (exit code {code}): {output}"),
    };
    let recorded = state::read(ctx)
        .and_then(|mut stored| stored.set_state(ctx, LoginState::Unauthed, "expiry detected"));
    recorded.err().unwrap_or_else(|| required(ctx, &why))
}

/// The login state, determined without logging in.
pub struct LoginStatus {
    /// The state.
    pub state: LoginState,
    /// Time of the last change of the state, in seconds since 1970.
    pub since: Option<u64>,
    /// Time of the last refresh, in seconds since 1970.
    pub refreshed: Option<u64>,
    /// Time of the next refresh, in seconds since 1970.
    pub refresh_due: Option<u64>,
    /// Current result of `completes_when`.
    pub check: Option<bool>,
    /// Each variable, with the source of its value.
    pub variables: Vec<(String, Option<String>)>,
    /// The login command.
    pub login: Option<String>,
}

impl LoginStatus {
    /// The status as JSON.
    pub fn json(&self) -> Value {
        let variables = self.variables.iter();
        let variables = variables.map(|(name, source)| json!({ "name": name, "source": source }));
        json!({
            "state": self.state.as_str(),
            "since": self.since,
            "refreshed": self.refreshed,
            "refresh_due": self.refresh_due,
            "check": self.check,
            "variables": variables.collect::<Vec<_>>(),
            "login": self.login,
        })
    }
}

/// Determines the login state without changing it. Without a binary the completion check is
/// skipped.
pub async fn status(ctx: &Context, bin: Option<&Path>) -> Result<LoginStatus, Error> {
    let stored = state::read(ctx)?;
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(LoginStatus {
            state: LoginState::Authed,
            since: None,
            refreshed: None,
            refresh_due: None,
            check: None,
            variables: Vec::new(),
            login: None,
        });
    };
    secrets::keyring::unlock(ctx).await?;
    let inventory = Inventory::from_bundle(&ctx.bundle)?;
    let mut variables = Vec::new();
    for name in all_names(auth, &inventory) {
        let source = resolve::source(ctx, &inventory, &name)?;
        variables.push((name, source));
    }
    let login = auth.login().and_then(|login| login.cmd());
    let check = match bin {
        Some(bin) if login.is_some() => {
            let env = with_setup(ctx, &environment(ctx, "status").await?)?;
            login::completed(ctx, bin, auth, &env).await?
        }
        _ => None,
    };
    let listed: Vec<&str> = names(auth).collect();
    let mut found = variables.iter().filter(|(_, source)| source.is_some());
    let by_variable = found.any(|(name, _)| listed.contains(&name.as_str()));
    let needs_nothing = listed.is_empty() && login.is_none() && !entry::may_log_in(ctx);
    let state = match (by_variable || needs_nothing, check) {
        (true, _) | (_, Some(true)) => LoginState::Authed,
        (_, Some(false)) => LoginState::Unauthed,
        (false, None) => stored.state,
    };
    let due = stored.refresh_due(refresh_interval(ctx, auth)?);
    Ok(LoginStatus {
        state,
        since: (stored.state == state).then_some(stored.since),
        refreshed: stored.refreshed,
        refresh_due: due,
        check,
        variables,
        login: login.map(str::to_owned),
    })
}

/// The error `auth_required`, with the variables and the login command.
fn required(ctx: &Context, why: &str) -> Error {
    let auth = ctx.bundle.common().auth();
    let names: Vec<&str> = auth.into_iter().flat_map(names).collect();
    let login = auth.and_then(|auth| auth.login()?.cmd());
    let missing = match names.as_slice() {
        [] => String::new(),
        [one] => format!("; `{one}` is not set"),
        several => format!("; none of `{}` is set", several.join("`, `")),
    };
    let what = match login {
        Some(cmd) => format!("{why}{missing}; the login command is `{cmd}` (AIP-29 § Auth)"),
        None => format!("{why}{missing} (AIP-29 § Auth)"),
    };
    Error::new(Code::AuthRequired, ctx.masks.mask(&what))
        .hint(login_hint(ctx))
        .details(json!({ "env": names, "login": login }))
}

fn login_hint(ctx: &Context) -> String {
    let target = ctx.bundle.dir.display();
    let auth = ctx.bundle.common().auth();
    let first = auth.and_then(|auth| names(auth).next());
    let set = first.map(|name| format!("set {name}, or run `agentproto auth set {target} {name}`"));
    let login = auth.and_then(|auth| auth.login()?.cmd()).is_some();
    let login = login || (auth.is_some() && entry::may_log_in(ctx));
    let login = login.then(|| format!("run `agentproto auth login {target}`"));
    match (login, set) {
        (Some(login), Some(set)) => format!("{login}; or {set}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "the manifest does not declare a way to log in".to_owned(),
    }
}
