//! `login.cmd`, its completion check, and `refresh.cmd`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::callback::Callback;
use super::state::{self, LoginState};
use super::{Refresh, login_hint, required};
use crate::command::Finished;
use crate::context::Context;
use crate::entry::{Entry, LoginFailure, LoginResult, RefreshFailure, RefreshResult};
use crate::error::{Code, Error};
use crate::observe::Stage;
use crate::setup::step::{self, ExitCheck};
use crate::setup::template;
use crate::setup::tool::{self, BundleTool, OutputView};
use agentproto_manifest::views::Auth;
use agentproto_sandbox::confined::CreatedPaths;
use agentproto_sandbox::policy::StateCreation;
use agentproto_sandbox::spawn::Stdio;
use agentproto_text::truncate;

/// Variable that contains the callback URL for a login command.
pub const CALLBACK_VARIABLE: &str = "AGENTPROTO_CALLBACK_URL";
/// Time limit for a refresh.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of characters of a hook's message.
const MAX_MESSAGE: usize = 1000;

/// Time limits of a login.
#[derive(Clone, Copy, Debug)]
pub struct LoginOptions {
    /// Maximum run time of the login command or hook. A user may have to open a page meanwhile.
    pub timeout: Duration,
    /// How long the completion check may take to succeed after the login command.
    pub completion_timeout: Duration,
}

impl Default for LoginOptions {
    fn default() -> Self {
        LoginOptions {
            timeout: Duration::from_secs(600),
            completion_timeout: Duration::from_secs(60),
        }
    }
}

/// Whether the completion check reports a login, or `None` without a check (A29-AUTH-07). It
/// creates no paths of `auth.state`, because a path that exists may look like a login.
pub async fn completed(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    env: &[(OsString, OsString)],
) -> Result<Option<bool>, Error> {
    let check = auth.node().at(&["login", "completes_when"]);
    let Some(check) = step::check(&ctx.bundle, check, 15_000)? else {
        return Ok(None);
    };
    let mut tool = BundleTool::new(&ctx.creating(StateCreation::Nothing), bin);
    tool.env = env.to_vec();
    check_passes(ctx, &tool, &check).await.map(Some)
}

async fn check_passes(
    ctx: &Context,
    tool: &BundleTool,
    check: &ExitCheck<'_>,
) -> Result<bool, Error> {
    let ready = template::line(check.line, &[]);
    let ready = ready.map_err(|why| invalid(ctx, "login", &why))?;
    let finished = tool.run(ready, Some(check.timeout), Stdio::Pipes).await?;
    let code = finished.exit.status.code().map(i64::from);
    Ok(!finished.exit.timed_out && code == Some(check.exit_code))
}

fn invalid(ctx: &Context, key: &str, why: &str) -> Error {
    let root = ctx.bundle.root();
    let node = root.at(&["auth", key]).unwrap_or(root);
    ctx.bundle.invalid(node, &format!("`auth.{key}`: {why}"))
}

/// How a login is done: with the hook of the entry, or with `auth.login.cmd`.
#[derive(Clone, Copy)]
enum Login<'a> {
    Hook(&'a Entry),
    Command(&'a str),
}

impl std::fmt::Display for Login<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Login::Hook(_) => f.write_str("the login hook"),
            Login::Command(cmd) => write!(f, "`{cmd}`"),
        }
    }
}

/// Runs the login hook or command and waits until the completion check succeeds, which alone
/// decides (A29-LOGIN-03). Without a check, the hook or the exit code decides. The state is authed
/// afterwards. If `ctx.cancel` ends the login, the state stays as it was.
pub(super) async fn login(
    ctx: &Context,
    bin: &Path,
    env: Vec<(OsString, OsString)>,
    options: &LoginOptions,
    entry: Option<&Entry>,
) -> Result<(), Error> {
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(());
    };
    let cmd = auth.login().and_then(|login| login.cmd());
    let way = match (entry.filter(|entry| entry.hooks().login), cmd) {
        (Some(entry), _) => Login::Hook(entry),
        (None, Some(cmd)) => Login::Command(cmd),
        (None, None) => return Err(required(ctx, "the bundle declares no `auth.login.cmd`")),
    };
    let is_interactive = auth.login().and_then(|login| login.interactive()) == Some(true);
    if is_interactive && ctx.interact.is_headless() {
        return Err(required(
            ctx,
            "login requires a user at a terminal (AIP-29 § Auth)",
        ));
    }
    let _lock = state::lock(ctx).await?;
    state::leave_unknown(ctx)?;
    let (text, audited) = match way {
        Login::Hook(_) => ("hook of the module", json!({ "hook": "login" })),
        Login::Command(cmd) => (cmd, json!({ "cmd": cmd })),
    };
    ctx.observer
        .progress(Stage::Auth, &format!("login: {text}"));
    ctx.audit.record("auth.login", audited)?;
    let trying = async {
        let failure = match way {
            Login::Hook(entry) => hook(ctx, bin, auth, entry, &env, options).await?,
            Login::Command(cmd) => {
                let finished = run_login(ctx, bin, auth, cmd, &env, options).await?;
                command_failure(ctx, auth, cmd, options, &finished)
            }
        };
        confirm(ctx, bin, auth, way, &env, options, failure).await
    };
    let result = match way {
        // The hook gets the signal, and time to end.
        Login::Hook(_) => trying.await,
        Login::Command(_) => tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(failed(ctx, "the login was canceled", CANCELED)),
            tried = trying => tried,
        },
    };
    if ctx.cancel.is_cancelled() && result.is_err() {
        return result;
    }
    let mut stored = state::read(ctx)?;
    match &result {
        Ok(()) => {
            stored.refreshed = Some(state::now());
            stored.next_refresh = None;
            stored.set_state(ctx, LoginState::Authed, "login completed")?;
        }
        // A failed attempt does not end an earlier login, unless the check says so.
        Err(_) if stored.state == LoginState::Authed => {
            if completed(ctx, bin, auth, &env).await? == Some(false) {
                stored.set_state(ctx, LoginState::Unauthed, "the completion check failed")?;
            }
        }
        Err(_) => {}
    }
    result
}

/// Reason of a canceled login.
const CANCELED: &str = "user_cancelled";

/// Why an attempt failed, and the reason as AIP-29 names it.
type Failure = Option<(String, &'static str)>;

/// Runs the login hook (A29-DEFCLI-05).
async fn hook(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    entry: &Entry,
    env: &[(OsString, OsString)],
    options: &LoginOptions,
) -> Result<Failure, Error> {
    let callback = callback(ctx, auth).await?;
    let result = entry.login(ctx, bin, env, callback, options.timeout).await;
    match result.transpose()? {
        None | Some(LoginResult::Ok) => Ok(None),
        Some(LoginResult::Failed { reason, message }) => {
            let what = match reason {
                LoginFailure::UserCancelled => "the login was canceled",
                LoginFailure::CallbackFailed => "the callback of the login failed",
                LoginFailure::UpstreamError => "the service refused the login",
            };
            Err(failed(ctx, &explained(what, message), reason.into()))
        }
    }
}

/// A text with the message of a hook, unless they are the same.
fn explained(what: &str, message: Option<String>) -> String {
    match message {
        Some(message) if message != what => format!("{what}: {}", truncate(&message, MAX_MESSAGE)),
        _ => what.to_owned(),
    }
}

/// Why the login command failed, or `None` if it succeeded.
fn command_failure(
    ctx: &Context,
    auth: Auth<'_>,
    cmd: &str,
    options: &LoginOptions,
    finished: &Finished,
) -> Failure {
    if tool::is_success(finished) {
        return None;
    }
    let limit = options.timeout.as_secs_f64();
    let why = match finished.exit.timed_out {
        true => format!(
            "`{cmd}` did not finish within {limit} s: {}",
            tool::output_tail(ctx, finished)
        ),
        false => format!("`{cmd}` failed: {}", tool::describe_exit(ctx, finished)),
    };
    let by_callback = auth.login().and_then(|l| l.requires_callback_url()) == Some(true);
    let reason = match finished.exit.timed_out && by_callback {
        true => "callback_failed",
        false => "upstream_error",
    };
    Some((why.trim_end_matches(": ").to_owned(), reason))
}

/// Waits until the completion check confirms the login.
async fn confirm(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    way: Login<'_>,
    env: &[(OsString, OsString)],
    options: &LoginOptions,
    failure: Failure,
) -> Result<(), Error> {
    let until = tokio::time::Instant::now() + options.completion_timeout;
    let mut pause = Duration::from_millis(100);
    loop {
        match completed(ctx, bin, auth, env).await? {
            Some(true) => return Ok(()),
            None if failure.is_none() => return Ok(()),
            _ => {}
        }
        if let Some((why, reason)) = failure {
            return Err(failed(ctx, &why, reason));
        }
        if tokio::time::Instant::now() + pause > until {
            let why = format!("{way} ended, but `completes_when` still reports no login");
            return Err(failed(ctx, &why, "upstream_error"));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

/// A login error with a `reason` (A29-DEFCLI-06).
fn failed(ctx: &Context, why: &str, reason: &str) -> Error {
    let mut error = required(ctx, why);
    if let Some(details) = error.details.as_object_mut() {
        details.insert("reason".to_owned(), reason.into());
    }
    error
}

/// Removes paths of `auth.state` that were created for a login which did not use them.
struct RemoveUnused(CreatedPaths);

impl Drop for RemoveUnused {
    fn drop(&mut self) {
        self.0.remove_empty();
    }
}

/// The callback of the login, if the manifest requires one.
async fn callback(ctx: &Context, auth: Auth<'_>) -> Result<Option<Callback>, Error> {
    let required = auth.login().and_then(|login| login.requires_callback_url());
    match required {
        Some(true) => Ok(Some(Callback::open(&ctx.callback, None, None, &[]).await?)),
        _ => Ok(None),
    }
}

/// Runs the login command. With `requires_callback_url`, it finds the callback URL in its
/// environment, and the query of the callback is written as one line to its stdin (A29-AUTH-06,
/// A29-SEC-06).
async fn run_login(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    cmd: &str,
    env: &[(OsString, OsString)],
    options: &LoginOptions,
) -> Result<Finished, Error> {
    let mut ready = template::line(cmd, &[]).map_err(|why| invalid(ctx, "login", &why))?;
    let login = auth.login();
    let callback = callback(ctx, auth).await?;
    if let Some(callback) = &callback {
        let url = callback.url();
        ready.env.push((CALLBACK_VARIABLE.into(), url.into()));
    }
    let interactive = login.and_then(|login| login.interactive()) == Some(true);
    let stdio = match interactive && callback.is_none() {
        true => Stdio::Inherit,
        false => Stdio::Pipes,
    };
    let mut tool = BundleTool::new(&ctx.creating(StateCreation::Login), bin);
    tool.env = env.to_vec();
    let view = OutputView::new(ctx);
    let mut running = tool.start(ready, options.timeout, stdio, view).await?;
    let _created = RemoveUnused(running.take_created());
    let input = running.take_input();
    let Some(callback) = callback else {
        drop(input);
        return Ok(running.finish().await);
    };
    let waiting = async {
        let query = callback.wait(options.timeout).await;
        if let (Ok(query), Some(mut input)) = (query, input) {
            let pairs = query.iter().map(|(name, value)| {
                ctx.masks.add(value);
                format!("{}={}", template::percent(name), template::percent(value))
            });
            let line = pairs.collect::<Vec<_>>().join("&") + "\n";
            let _ = input.write_all(line.as_bytes()).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        finished = running.finish() => Ok(finished),
        () = waiting => Err(Error::new(Code::AuthRequired, "waiting for the callback was aborted")),
    }
}

/// Refreshes the login (A29-AUTH-09, A29-DEFCLI-08). The caller has made sure that the user is
/// logged in: a refresh is not a login. A failure that does not mean expiry leaves the login state
/// unchanged.
pub(super) async fn refresh(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    way: Refresh<'_>,
    env: &[(OsString, OsString)],
) -> Result<(), Error> {
    let (what, next_refresh) = match way {
        Refresh::Hook(entry) => (
            "the refresh hook".to_owned(),
            refresh_hook(ctx, bin, entry, env).await?,
        ),
        Refresh::Command(cmd) => {
            refresh_command(ctx, bin, cmd, env).await?;
            (format!("`{cmd}`"), None)
        }
    };
    let mut stored = state::read(ctx)?;
    if completed(ctx, bin, auth, env).await? == Some(false) && stored.state == LoginState::Authed {
        stored.set_state(ctx, LoginState::Unauthed, "the completion check failed")?;
        let why = format!("{what} succeeded, but `completes_when` reports no login");
        return Err(failed(ctx, &why, "auth_expired"));
    }
    stored.refreshed = Some(state::now());
    stored.next_refresh = next_refresh;
    stored.write(ctx)
}

/// Runs the refresh hook (A29-DEFCLI-07). Returns the time of the next refresh, in seconds since
/// 1970, if the hook says so.
async fn refresh_hook(
    ctx: &Context,
    bin: &Path,
    entry: &Entry,
    env: &[(OsString, OsString)],
) -> Result<Option<u64>, Error> {
    ctx.observer
        .progress(Stage::Auth, "refresh: hook of the module");
    let result = entry.refresh(ctx, bin, env, REFRESH_TIMEOUT).await;
    let result = result.transpose()?;
    let success = matches!(result, None | Some(RefreshResult::Ok { .. }));
    ctx.audit
        .record("auth.refresh", json!({ "hook": "refresh", "ok": success }))?;
    match result {
        None => Ok(None),
        Some(RefreshResult::Ok { next_refresh_at }) => {
            next_refresh_at.map(|text| seconds(&text)).transpose()
        }
        Some(RefreshResult::Failed { reason, message }) => match reason {
            RefreshFailure::AuthExpired => {
                let why = explained("the login has expired", message);
                let mut stored = state::read(ctx)?;
                stored.set_state(ctx, LoginState::Unauthed, "expiry detected")?;
                Err(failed(ctx, &why, reason.into()))
            }
            RefreshFailure::UpstreamError => {
                let why = explained("the service refused the refresh", message);
                Err(not_refreshed(ctx, &why))
            }
        },
    }
}

/// A date and time in seconds since 1970.
fn seconds(text: &str) -> Result<u64, Error> {
    let time = agentproto_text::time::parse_time(text);
    // A time before 1970 is in the past, so the refresh is due.
    time.map(|time| time.max(0.0) as u64).ok_or_else(|| {
        let text = truncate(text, 80);
        let what = format!("`nextRefreshAt` is not an ISO-8601 date and time: `{text}`");
        Error::new(Code::EntryFailed, what)
            .hint("the refresh hook must return a time such as `2030-01-31T12:00:00Z`")
            .details(json!({ "during": "refresh" }))
    })
}

fn not_refreshed(ctx: &Context, why: &str) -> Error {
    Error::new(Code::SecretUnavailable, ctx.masks.mask(why))
        .hint(login_hint(ctx))
        .details(json!({ "reason": "upstream_error" }))
}

/// Runs `refresh.cmd`.
async fn refresh_command(
    ctx: &Context,
    bin: &Path,
    cmd: &str,
    env: &[(OsString, OsString)],
) -> Result<(), Error> {
    ctx.observer
        .progress(Stage::Auth, &format!("refresh: {cmd}"));
    let mut tool = BundleTool::new(ctx, bin);
    tool.env = env.to_vec();
    let ready = template::line(cmd, &[]).map_err(|why| invalid(ctx, "refresh", &why))?;
    let finished = tool.run(ready, Some(REFRESH_TIMEOUT), Stdio::Pipes).await?;
    let success = tool::is_success(&finished);
    ctx.audit
        .record("auth.refresh", json!({ "cmd": cmd, "ok": success }))?;
    if success {
        return Ok(());
    }
    let why = tool::describe_exit(ctx, &finished);
    if let Some(error) = super::expired(ctx, finished.exit.status, &why) {
        return Err(error);
    }
    Err(not_refreshed(ctx, &format!("`{cmd}` failed: {why}")))
}
