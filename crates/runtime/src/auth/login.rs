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
use crate::setup::tool::{self, BundleTool};
use agentproto_manifest::views::Auth;
use agentproto_sandbox::spawn::Stdio;

/// Variable that contains the callback URL for a login command.
pub const CALLBACK_VARIABLE: &str = "AGENTPROTO_CALLBACK_URL";
/// Time limit for commands without a user.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the completion check may take to succeed after the login command.
pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether the completion check reports a login, or `None` without a check (A29-AUTH-07).
pub async fn completed(
    ctx: &Context,
    tool: &BundleTool,
    auth: Auth<'_>,
) -> Result<Option<bool>, Error> {
    let check = auth.node().at(&["login", "completes_when"]);
    match step::check(&ctx.bundle, check, 15_000)? {
        Some(check) => Ok(Some(check_passes(ctx, tool, &check).await?)),
        None => Ok(None),
    }
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

/// Runs the login command and waits until the completion check succeeds. The state is authed
/// afterwards.
pub async fn login(
    ctx: &Context,
    bin: &Path,
    env: Vec<(OsString, OsString)>,
    completion_timeout: Duration,
) -> Result<(), Error> {
    let Some(auth) = ctx.bundle.common().auth() else {
        return Ok(());
    };
    let Some((login, cmd)) = auth.login().and_then(|login| Some((login, login.cmd()?))) else {
        return Err(required(ctx, "the bundle declares no `auth.login.cmd`"));
    };
    let interactive = login.interactive().unwrap_or(false);
    if interactive && ctx.interact.is_headless() {
        return Err(required(
            ctx,
            "login requires a user at a terminal (AIP-29 § Auth)",
        ));
    }
    let _lock = state::lock(ctx).await?;
    ctx.observer.progress(Stage::Auth, &format!("login: {cmd}"));
    ctx.audit.record("auth.login", json!({ "cmd": cmd }))?;
    let mut tool = BundleTool::new(ctx, bin);
    tool.env = env;
    let ready = template::line(cmd, &[]).map_err(|why| invalid(ctx, "login", &why))?;
    let finished = if login.requires_callback_url() == Some(true) {
        with_callback(ctx, &tool, ready).await?
    } else {
        let (stdio, limit) = match interactive {
            true => (Stdio::Inherit, None),
            false => (Stdio::Pipes, Some(COMMAND_TIMEOUT)),
        };
        tool.run(ready, limit, stdio).await?
    };
    if !tool::is_success(&finished) {
        let why = format!("`{cmd}` failed: {}", tool::describe_exit(ctx, &finished));
        return Err(failed(ctx, &why, "upstream_error"));
    }
    let until = tokio::time::Instant::now() + completion_timeout;
    let mut pause = Duration::from_millis(100);
    while completed(ctx, &tool, auth).await? == Some(false) {
        if tokio::time::Instant::now() + pause > until {
            let why = format!("`{cmd}` exited, but `completes_when` still reports no login");
            return Err(failed(ctx, &why, "upstream_error"));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    }
    let mut stored = state::read(ctx)?;
    stored.refreshed = Some(state::now());
    stored.set_state(ctx, LoginState::Authed, "login completed")
}

/// A login error with a `reason` (A29-DEFCLI-06).
fn failed(ctx: &Context, why: &str, reason: &str) -> Error {
    let mut error = required(ctx, why);
    if let Some(details) = error.details.as_object_mut() {
        details.insert("reason".to_owned(), reason.into());
    }
    error
}

/// Runs a command with a callback. It finds the callback URL in its environment. The query of the
/// callback is written as one line to its stdin (A29-AUTH-06, A29-SEC-06).
async fn with_callback(
    ctx: &Context,
    tool: &BundleTool,
    ready: template::FilledCommand,
) -> Result<Finished, Error> {
    let callback = Callback::open(None, None, &[]).await?;
    let url = callback.url();
    let mut ready = ready;
    ready.env.push((CALLBACK_VARIABLE.into(), url.into()));
    let context = ctx.clone();
    let show = move |text: &str| context.interact.show(&context.masks.mask(text));
    let mut started = tool.start(ready, CALLBACK_TIMEOUT, show).await?;
    let input = started.take_input();
    let waiting = async {
        let query = callback.wait(CALLBACK_TIMEOUT).await;
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
        finished = started.finish() => Ok(finished),
        () = waiting => Err(Error::new(Code::AuthRequired, "waiting for the callback was aborted")),
    }
}

/// Runs `refresh.cmd` (A29-AUTH-09, A29-DEFCLI-08). A failure that does not mean expiry leaves the
/// login state unchanged.
pub async fn refresh(
    ctx: &Context,
    bin: &Path,
    env: Vec<(OsString, OsString)>,
) -> Result<(), Error> {
    let auth = ctx.bundle.common().auth();
    let Some(cmd) = auth.and_then(|auth| auth.refresh()?.cmd()) else {
        return Err(Error::new(
            Code::OptionInvalid,
            "this bundle has nothing to refresh: its manifest has no `auth.refresh.cmd`",
        )
        .hint("run `agentproto auth login` to log in again"));
    };
    ctx.observer
        .progress(Stage::Auth, &format!("refresh: {cmd}"));
    let mut tool = BundleTool::new(ctx, bin);
    tool.env = env;
    let ready = template::line(cmd, &[]).map_err(|why| invalid(ctx, "refresh", &why))?;
    let finished = tool.run(ready, Some(COMMAND_TIMEOUT), Stdio::Pipes).await?;
    let success = tool::is_success(&finished);
    ctx.audit
        .record("auth.refresh", json!({ "cmd": cmd, "ok": success }))?;
    if success {
        let mut stored = state::read(ctx)?;
        stored.refreshed = Some(state::now());
        return stored.set_state(ctx, LoginState::Authed, "refreshed");
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
