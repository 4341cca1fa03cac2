//! The entry of a CLI bundle (AIP-29, `defineCli`): hooks that log in, refresh the login, detect an
//! expired login and read the output of a tool. A host attaches hooks in Rust ([`define_cli`]), or
//! the bundle contains a module for Node.

mod context;
mod define;
mod node;
mod process;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

pub use self::context::CliContext;
pub use self::define::{
    CancellationToken, CliDefinition, CliHandle, DetectExpiryArgs, DetectExpiryHook,
    ExpectedOutput, HookFuture, LoginArgs, LoginFailure, LoginHook, LoginResult, OutputError,
    ParseOutputArgs, ParseOutputHook, ParseOutputResult, RefreshArgs, RefreshFailure, RefreshHook,
    RefreshResult, define_cli,
};
use self::node::Module;
use crate::auth::callback::Callback;
use crate::context::Context;
use crate::error::Error;
use agentproto_manifest::{Doctype, Node, to_json};

/// How long a hook may take to end after it was canceled. Then it is dropped, and a module is
/// killed.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// The hooks of a bundle.
pub(crate) struct Entry {
    kind: Kind,
    /// Code and text of what is wrong with the definition.
    pub(crate) warnings: Vec<(&'static str, String)>,
}

enum Kind {
    Defined(CliHandle),
    Module(Box<Module>),
}

/// Which hooks an entry has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) login: bool,
    pub(crate) refresh: bool,
    pub(crate) parse_output: bool,
    pub(crate) detect_expiry: bool,
}

/// Whether the bundle may have a hook that logs in. A module is not loaded for this.
pub(crate) fn may_log_in(ctx: &Context) -> bool {
    match &ctx.cli {
        Some(handle) => handle.definition().login.is_some(),
        None => node::file(ctx).is_some(),
    }
}

/// The entry of the bundle. A module is loaded in a sandbox without network and files, so loading
/// it has no side effects (A29-DEFCLI-16).
pub(crate) async fn load(ctx: &Context) -> Result<Option<Entry>, Error> {
    if ctx.bundle.manifest.doctype != Some(Doctype::Cli) {
        return Ok(None);
    }
    let (kind, fields) = match &ctx.cli {
        Some(handle) => {
            let fields = fields_of(handle.definition());
            (Kind::Defined(handle.clone()), fields)
        }
        None => match node::file(ctx) {
            None => return Ok(None),
            Some(file) => match Module::load(ctx, &file).await? {
                Some((module, fields)) => (Kind::Module(Box::new(module)), fields),
                None => return Ok(None),
            },
        },
    };
    let mut entry = Entry {
        kind,
        warnings: Vec::new(),
    };
    let conflicts = conflicts(ctx.bundle.root(), &fields).into_iter();
    entry
        .warnings
        .extend(conflicts.map(|text| ("entry_conflict", text)));
    let hooks = entry.hooks();
    if (hooks.login || hooks.refresh) && ctx.bundle.common().auth().is_none() {
        let text =
            "the module has a hook for logins, but the CLI.md has no `auth`: the hook is not used";
        entry.warnings.push(("entry_hook_unused", text.to_owned()));
    }
    Ok(Some(entry))
}

/// Like [`load`], and sends the warnings to the observer.
pub(crate) async fn load_announced(ctx: &Context) -> Result<Option<Entry>, Error> {
    let entry = load(ctx).await?;
    if let Some(entry) = &entry {
        entry.announce(ctx);
    }
    Ok(entry)
}

/// The fields of a definition, with the names of the CLI.md.
fn fields_of(definition: &CliDefinition) -> Map<String, Value> {
    let all = json!({
        "id": definition.id,
        "name": definition.name,
        "description": definition.description,
        "bin": definition.bin,
        "version": definition.version,
        "install": definition.install,
        "version_check": definition.version_check,
        "sandbox": definition.sandbox,
        "commands": definition.commands,
        "tags": definition.tags,
        "metadata": definition.metadata,
    });
    let Value::Object(mut fields) = all else {
        return Map::new();
    };
    fields.retain(|_, value| !value.is_null());
    fields
}

/// Fields that differ from the CLI.md (A29-DEFCLI-12).
fn conflicts(root: &Node, fields: &Map<String, Value>) -> Vec<String> {
    let differs = |key: &str, value: &Value| match root.get(key).map(to_json) {
        None => false,
        Some(Value::Object(declared)) if key == "metadata" => {
            let pairs = value.as_object().into_iter().flatten();
            let mut common = pairs.filter_map(|(key, value)| Some((declared.get(key)?, value)));
            common.any(|(declared, value)| declared != value)
        }
        Some(declared) => declared != *value,
    };
    let found = fields.iter().filter(|(key, value)| differs(key, value));
    let texts = found.map(|(key, _)| {
        format!("`{key}` in the module differs from the CLI.md; the CLI.md is used")
    });
    texts.collect()
}

/// How a hook ended.
enum Ended<T> {
    Done(T),
    Canceled,
    TimedOut,
}

/// Runs a hook until it ends, the caller cancels, or the time is over. Afterwards its signal is
/// canceled in any case, also if this future is dropped.
async fn drive<T, F: Future<Output = T>>(
    ctx: &Context,
    limit: Duration,
    hook: impl FnOnce(CancellationToken) -> F,
) -> Ended<T> {
    if ctx.cancel.is_cancelled() {
        return Ended::Canceled;
    }
    let _running = ctx.count_hook();
    let signal = ctx.cancel.child_token();
    let _cancel = signal.clone().drop_guard();
    let running = hook(signal.clone());
    tokio::pin!(running);
    let ended = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Ended::Canceled,
        done = &mut running => return Ended::Done(done),
        () = tokio::time::sleep(limit) => Ended::TimedOut,
    };
    signal.cancel();
    let _ = tokio::time::timeout(CANCEL_GRACE, running).await;
    ended
}

impl Entry {
    /// Sends the warnings to the observer.
    pub(crate) fn announce(&self, ctx: &Context) {
        for (code, text) in &self.warnings {
            ctx.observer.warning(code, text);
        }
    }

    /// Which hooks it has.
    pub(crate) fn hooks(&self) -> Hooks {
        match &self.kind {
            Kind::Defined(handle) => {
                let definition = handle.definition();
                Hooks {
                    login: definition.login.is_some(),
                    refresh: definition.refresh.is_some(),
                    parse_output: definition.parse_output.is_some(),
                    detect_expiry: definition.detect_expiry.is_some(),
                }
            }
            Kind::Module(module) => module.hooks,
        }
    }

    /// Runs the hook that logs in, or returns `None` without one. It ends soon after `ctx.cancel`
    /// (A29-DEFCLI-05, A29-DEFCLI-13).
    pub(crate) async fn login(
        &self,
        ctx: &Context,
        bin: &Path,
        env: &[(OsString, OsString)],
        callback: Option<Callback>,
        limit: Duration,
    ) -> Option<Result<LoginResult, Error>> {
        if !self.hooks().login {
            return None;
        }
        let waits = callback.is_some();
        let context = match CliContext::new(ctx, bin, env, callback, limit) {
            Ok(context) => context,
            Err(error) => return Some(Err(error)),
        };
        let ended = drive(ctx, limit, async |signal| {
            let args = LoginArgs { context, signal };
            match &self.kind {
                Kind::Defined(handle) => match &handle.definition().login {
                    Some(hook) => Ok(hook(args).await),
                    None => Ok(LoginResult::Ok),
                },
                Kind::Module(module) => module.login(ctx, args).await,
            }
        });
        Some(match ended.await {
            Ended::Done(result) => result,
            Ended::Canceled => Ok(LoginResult::failed(
                LoginFailure::UserCancelled,
                "the login was canceled",
            )),
            Ended::TimedOut => {
                let reason = match waits {
                    true => LoginFailure::CallbackFailed,
                    false => LoginFailure::UpstreamError,
                };
                Ok(LoginResult::failed(reason, too_slow("login", limit)))
            }
        })
    }

    /// Runs the hook that renews the login, or returns `None` without one.
    pub(crate) async fn refresh(
        &self,
        ctx: &Context,
        bin: &Path,
        env: &[(OsString, OsString)],
        limit: Duration,
    ) -> Option<Result<RefreshResult, Error>> {
        if !self.hooks().refresh {
            return None;
        }
        let context = match CliContext::new(ctx, bin, env, None, limit) {
            Ok(context) => context,
            Err(error) => return Some(Err(error)),
        };
        let ended = drive(ctx, limit, async |signal| {
            let args = RefreshArgs { context, signal };
            match &self.kind {
                Kind::Defined(handle) => match &handle.definition().refresh {
                    Some(hook) => Ok(hook(args).await),
                    None => Ok(RefreshResult::Ok {
                        next_refresh_at: None,
                    }),
                },
                Kind::Module(module) => module.refresh(ctx, args).await,
            }
        });
        let failed = |why: String| Ok(RefreshResult::failed(RefreshFailure::UpstreamError, why));
        Some(match ended.await {
            Ended::Done(result) => result,
            Ended::Canceled => failed("the refresh was canceled".to_owned()),
            Ended::TimedOut => failed(too_slow("refresh", limit)),
        })
    }

    /// Runs the hook that reads the output, or returns `None` without one.
    pub(crate) async fn parse_output(
        &mut self,
        args: &ParseOutputArgs,
    ) -> Option<Result<ParseOutputResult, Error>> {
        match &mut self.kind {
            Kind::Defined(handle) => {
                let hook = handle.definition().parse_output.as_ref()?;
                Some(Ok(hook(args)))
            }
            Kind::Module(module) if module.hooks.parse_output => {
                Some(module.parse_output(args).await)
            }
            Kind::Module(_) => None,
        }
    }

    /// Runs the hook that detects an expired login. Without one, nothing is detected.
    pub(crate) async fn detect_expiry(&mut self, args: &DetectExpiryArgs) -> Result<bool, Error> {
        match &mut self.kind {
            Kind::Defined(handle) => {
                let hook = handle.definition().detect_expiry.as_ref();
                Ok(hook.is_some_and(|hook| hook(args)))
            }
            Kind::Module(module) if module.hooks.detect_expiry => module.detect_expiry(args).await,
            Kind::Module(_) => Ok(false),
        }
    }
}

fn too_slow(hook: &str, limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!("the hook `{hook}` did not finish within {seconds} s")
}
