//! `login.cmd`, its completion check, and `refresh.cmd`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::callback::Callback;
use super::state::{self, LoginState};
use super::{login_hint, required};
use crate::command::Finished;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::observe::Stage;
use crate::setup::step::{self, ExitCheck};
use crate::setup::template;
use crate::setup::tool::{self, BundleTool, OutputView};
use agentproto_manifest::views::Auth;
use agentproto_sandbox::confined::CreatedPaths;
use agentproto_sandbox::policy::StateCreation;
use agentproto_sandbox::spawn::Stdio;

/// Variable that contains the callback URL for a login command.
pub const CALLBACK_VARIABLE: &str = "AGENTPROTO_CALLBACK_URL";
/// Time limit for `refresh.cmd`.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limits of a login.
#[derive(Clone, Copy, Debug)]
pub struct LoginOptions {
    /// Maximum run time of the login command. A user may have to open a page meanwhile.
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

/// Runs the login command and waits until the completion check succeeds, which alone decides
/// (A29-LOGIN-03). Without a check, the exit code decides. The state is authed afterwards.
pub async fn login(
    ctx: &Context,
    bin: &Path,
    env: Vec<(OsString, OsString)>,
    options: &LoginOptions,
) -> Result<(), Error> {
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(());
    };
    let Some((login, cmd)) = auth.login().and_then(|login| Some((login, login.cmd()?))) else {
        return Err(required(ctx, "the bundle declares no `auth.login.cmd`"));
    };
    if login.interactive() == Some(true) && ctx.interact.is_headless() {
        return Err(required(
            ctx,
            "login requires a user at a terminal (AIP-29 § Auth)",
        ));
    }
    let _lock = state::lock(ctx).await?;
    state::leave_unknown(ctx)?;
    ctx.observer.progress(Stage::Auth, &format!("login: {cmd}"));
    ctx.audit.record("auth.login", json!({ "cmd": cmd }))?;
    let finished = run_login(ctx, bin, auth, cmd, &env, options).await;
    let result = match finished {
        Ok(finished) => confirm(ctx, bin, auth, cmd, &env, options, &finished).await,
        Err(error) => Err(error),
    };
    let mut stored = state::read(ctx)?;
    match &result {
        Ok(()) => {
            stored.refreshed = Some(state::now());
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

/// Waits until the completion check confirms the login.
async fn confirm(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
    cmd: &str,
    env: &[(OsString, OsString)],
    options: &LoginOptions,
    finished: &Finished,
) -> Result<(), Error> {
    let success = tool::is_success(finished);
    let until = tokio::time::Instant::now() + options.completion_timeout;
    let mut pause = Duration::from_millis(100);
    loop {
        match completed(ctx, bin, auth, env).await? {
            Some(true) => return Ok(()),
            None if success => return Ok(()),
            _ => {}
        }
        if !success {
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
            return Err(failed(ctx, why.trim_end_matches(": "), reason));
        }
        if tokio::time::Instant::now() + pause > until {
            let why = format!("`{cmd}` exited, but `completes_when` still reports no login");
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
    let callback = match login.and_then(|login| login.requires_callback_url()) {
        Some(true) => Some(Callback::open(&ctx.callback, None, None, &[]).await?),
        _ => None,
    };
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

/// Runs `refresh.cmd` (A29-AUTH-09, A29-DEFCLI-08). The caller has made sure that the user is
/// logged in: a refresh is not a login. A failure that does not mean expiry leaves the login state
/// unchanged.
pub async fn refresh(
    ctx: &Context,
    bin: &Path,
    auth: Auth<'_>,
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
        let mut stored = state::read(ctx)?;
        if completed(ctx, bin, auth, env).await? == Some(false)
            && stored.state == LoginState::Authed
        {
            stored.set_state(ctx, LoginState::Unauthed, "the completion check failed")?;
            let why = format!("`{cmd}` succeeded, but `completes_when` reports no login");
            return Err(failed(ctx, &why, "auth_expired"));
        }
        stored.refreshed = Some(state::now());
        return stored.write(ctx);
    }
    let why = tool::describe_exit(ctx, &finished);
    if let Some(error) = super::expired(ctx, finished.exit.status, &why) {
        return Err(error);
    }
    let what = format!("`{cmd}` failed: {why}");
    Err(Error::new(Code::SecretUnavailable, what)
        .hint(login_hint(ctx))
        .details(json!({ "reason": "upstream_error" })))
}
