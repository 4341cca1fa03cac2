//! Install: from `bin` of a manifest to a program on this machine (A45-LIFE-02). What is
//! there already is taken; otherwise the declared methods are tried in their order until one
//! succeeds (A29-INSTALL-01).

pub mod archive;
mod entry;
mod fetch;
mod machine;
mod managers;
mod perform;
mod plan;
mod script;
mod store;
mod vendored;

use std::ffi::OsStr;
use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::fault::{Code, Fault};
use crate::interact::{Kind, Question};
use crate::observe::Stage;
use agentproto_manifest::views::InstallMethod;
use agentproto_sandbox::programs::find::is_program;
use entry::{Method, Skip};
use machine::Machine;
pub use machine::Missed;
use managers::Manager;
pub(super) use perform::configuration as manager_environment;
pub use plan::{Action, Plan, Step, plan};
use store::Store;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// `--allow-unverified`: installers and archives without a SHA-256, too.
    pub allow_unverified: bool,
    /// Installs even where the program is there.
    pub reinstall: bool,
}

/// A program that stands ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Absolute.
    pub bin: PathBuf,
    /// By which method we installed it; `None` where it was there.
    pub method: Option<String>,
}

/// Finds the program of a bundle, and installs it where it is missing.
pub async fn ensure(ctx: &Context, options: Options) -> Result<Installed, Fault> {
    let bin = bin_name(ctx)?;
    ctx.observer.stage(Stage::Install, bin);
    let store = Store::of(ctx)?;
    let methods = methods(ctx);
    if !options.reinstall
        && let Some(found) = find(ctx, &store, bin, &methods)
    {
        return Ok(found);
    }
    let home = ctx.home.clone();
    let name = format!("install-{}", store.identity);
    let _lock = apart(move || home.lock(&name)).await??;
    // Another run may have installed it while we waited.
    if !options.reinstall
        && let Some(found) = find(ctx, &store, bin, &methods)
    {
        return Ok(found);
    }
    if let Some(why) = blocked(ctx) {
        let what = format!("`{bin}` cannot be installed here: {why}");
        return Err(Fault::new(Code::InstallFailed, what)
            .hint("use a machine that the manifest is for, or a manifest for this one"));
    }
    try_all(ctx, &store, bin, options).await
}

/// Work that blocks, on a thread that nobody has to wait for when the caller has gone: a
/// runtime that shuts down would wait for its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new()
        .name("install".to_owned())
        .spawn(move || drop(done.send(work())));
    started.map_err(|e| Fault::new(Code::InstallFailed, format!("no thread: {e}")))?;
    let ended = outcome.await;
    ended.map_err(|_| {
        Fault::new(
            Code::InstallFailed,
            "a thread of the installation broke off",
        )
    })
}

/// Why this machine may install nothing of the bundle (A29-INSTALL-16).
fn blocked(ctx: &Context) -> Option<Missed> {
    Machine::here(&ctx.home.path("tools")).misses(ctx.bundle.root().get("requires"))
}

/// `bin`, as far as it can be a program's name (A29-REQ-08).
fn bin_name(ctx: &Context) -> Result<&str, Fault> {
    let bin = ctx.bundle.text("bin")?;
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if bin.is_empty() || bin.starts_with('-') || bin.chars().any(odd) || bin.ends_with(['/', '.']) {
        let node = ctx.bundle.root().get("bin").unwrap_or(ctx.bundle.root());
        return Err(ctx.bundle.invalid(node, "`bin` is no name of a program"));
    }
    Ok(bin)
}

/// The last part of `bin`: what a method has to bring.
fn file_name(bin: &str) -> &str {
    bin.rsplit('/').next().unwrap_or(bin)
}

fn methods(ctx: &Context) -> Vec<Method> {
    let entries = ctx.bundle.common();
    entries
        .install()
        .filter_map(|entry| Method::read(entry).ok())
        .collect()
}

/// What is there already: by its path, installed by us, on PATH.
fn find(ctx: &Context, store: &Store, bin: &str, methods: &[Method]) -> Option<Installed> {
    let there = |bin: PathBuf| Installed { bin, method: None };
    if ctx.bundle.built_in && bin == "agentproto" {
        return agentproto_sandbox::helper::own_path().ok().map(there);
    }
    if bin.contains('/') {
        let path = ctx.bundle.dir.join(bin);
        if is_program(&path) {
            return Some(there(path));
        }
    }
    if let Some(ours) = store.find(ctx, file_name(bin), methods) {
        return Some(ours);
    }
    match bin.contains('/') {
        true => None,
        false => on_path(ctx, bin).map(there),
    }
}

fn on_path(ctx: &Context, name: &str) -> Option<PathBuf> {
    ctx.surroundings(&[]).find(OsStr::new(name)).ok()
}

async fn try_all(
    ctx: &Context,
    store: &Store,
    bin: &str,
    options: Options,
) -> Result<Installed, Fault> {
    let mut asked = false;
    let mut tried = Vec::new();
    let mut hints = Vec::new();
    for entry in ctx.bundle.common().install() {
        let name = entry.method().unwrap_or("?").to_owned();
        let ready = Method::read(entry).and_then(|m| ready(ctx, entry, &m, options).map(|()| m));
        let method = match ready {
            Ok(method) => method,
            Err(skip) => {
                if let Some(code) = skip.warning {
                    ctx.observer
                        .warning(code, &format!("install: {}", skip.why));
                }
                let text = format!("{name}: passed over, {}", skip.why);
                ctx.observer.progress(Stage::Install, &text);
                hints.extend(skip.hint);
                tried.push(json!({ "method": name, "skipped": skip.why }));
                continue;
            }
        };
        if !asked && !matches!(method, Method::Vendored { .. }) {
            confirm(ctx, bin, &method).await?;
            asked = true;
        }
        let subject = method.subject().to_owned();
        let mut what = json!({ "method": method.name(), "subject": subject });
        if let (Some(verified), Some(what)) = (method.is_verified(), what.as_object_mut()) {
            what.insert("verified".to_owned(), verified.into());
        }
        ctx.audit.record("install.attempt", what)?;
        if method.is_verified() == Some(false) {
            let text = format!("`{subject}` has no SHA-256: whatever comes is used");
            ctx.observer.warning("install_unverified", &text);
        }
        let text = format!("{}: {subject}", method.name());
        ctx.observer.progress(Stage::Install, &text);
        match perform::perform(ctx, store, file_name(bin), &method).await {
            Ok(bin) => {
                let done = json!({ "method": method.name(), "bin": bin.to_string_lossy() });
                ctx.audit.record("install.done", done)?;
                return Ok(Installed {
                    bin,
                    method: Some(method.name().to_owned()),
                });
            }
            Err(failed) => {
                let why = ctx.masks.mask(&failed.why).into_owned();
                let failure = json!({ "method": method.name(), "failed": why });
                ctx.audit.record("install.failed", failure.clone())?;
                if let Some(last) = failed.last {
                    return Err(last);
                }
                let text = format!("{}: failed, {why}", method.name());
                ctx.observer.progress(Stage::Install, &text);
                tried.push(failure);
            }
        }
    }
    Err(none_worked(bin, tried, hints))
}

fn none_worked(bin: &str, tried: Vec<serde_json::Value>, hints: Vec<String>) -> Fault {
    let mut message = match tried.is_empty() {
        true => format!("`{bin}` is not there, and the manifest declares nothing to install"),
        false => format!("no install method brought `{bin}`"),
    };
    for one in &tried {
        let part = |key: &str| one.get(key).and_then(|v| v.as_str()).unwrap_or_default();
        let (how, why) = match one.get("skipped") {
            Some(_) => ("passed over", part("skipped")),
            None => ("failed", part("failed")),
        };
        message.push_str(&format!("; {}: {how}, {why}", part("method")));
    }
    let mut hints = hints;
    hints.dedup();
    let hint = match hints.is_empty() {
        true => format!("install `{bin}` yourself so that it is on PATH, then run again"),
        false => hints.join("; or "),
    };
    Fault::new(Code::InstallFailed, message)
        .hint(hint)
        .details(json!({ "methods": tried }))
}

/// Whether a method can be tried on this machine at all.
fn ready(
    ctx: &Context,
    entry: InstallMethod<'_>,
    method: &Method,
    options: Options,
) -> Result<(), Skip> {
    let machine = Machine::here(&ctx.home.path("tools"));
    if let Some(missed) = machine.misses(entry.0.get("requires")) {
        return Err(Skip::new(missed.why));
    }
    match method {
        Method::Package {
            manager, package, ..
        } => manager_ready(ctx, *manager, package),
        Method::Curl { url, sha256 } | Method::Download { url, sha256, .. } => {
            fetch::check_url(url, false).map_err(Skip::new)?;
            // A29-INSTALL-18.
            if sha256.is_none() && !options.allow_unverified {
                let mut skip =
                    Skip::new("it has no `verify_sha256`, and nothing unverified is run");
                skip.hint = Some("`--allow-unverified` takes it as it comes".to_owned());
                return Err(skip);
            }
            Ok(())
        }
        Method::Vendored { path } => vendored::check(&ctx.bundle.dir, path)
            .map(|_| ())
            .map_err(Skip::new),
    }
}

fn manager_ready(ctx: &Context, manager: Manager, package: &str) -> Result<(), Skip> {
    if on_path(ctx, manager.program()).is_none() {
        return Err(Skip::new(format!(
            "there is no `{}` on PATH",
            manager.program()
        )));
    }
    // SAFETY: no arguments, cannot fail.
    if manager.needs_root() && unsafe { libc::geteuid() } != 0 {
        let mut skip = Skip::new(format!("`{}` needs root", manager.program()));
        skip.hint = Some(format!("`{}`", manager.by_hand(package)));
        return Err(skip);
    }
    Ok(())
}

/// Asked once, before the first method that changes anything.
async fn confirm(ctx: &Context, bin: &str, method: &Method) -> Result<(), Fault> {
    if ctx.yes {
        return Ok(());
    }
    if ctx.interact.is_headless() {
        let what = format!("`{bin}` has to be installed, and nobody is there to confirm it");
        return Err(Fault::new(Code::InstallFailed, what)
            .hint("`--yes` confirms it; `agentproto install TARGET --dry-run` shows the plan"));
    }
    let question = Question {
        message: format!(
            "`{bin}` is not there. Install it ({}: {})?",
            method.name(),
            method.subject()
        ),
        kind: Kind::Boolean,
        default: Some("true".to_owned()),
    };
    match ctx.interact.ask(&question).await?.as_str() {
        "true" => Ok(()),
        _ => Err(Fault::new(
            Code::Declined,
            format!("the installation of `{bin}` was declined"),
        )),
    }
}

/// Whether another installation could change anything: some method other than a file of the
/// bundle is there to try.
pub fn can_reinstall(ctx: &Context, options: Options) -> bool {
    let mut entries = ctx.bundle.common().install();
    blocked(ctx).is_none()
        && entries.any(|entry| match Method::read(entry) {
            Ok(Method::Vendored { .. }) | Err(_) => false,
            Ok(method) => ready(ctx, entry, &method, options).is_ok(),
        })
}

/// Drops what we installed, so that it does not stand before what is on PATH.
pub fn forget(ctx: &Context) -> Result<(), Fault> {
    Store::of(ctx)?.clear();
    Ok(())
}
