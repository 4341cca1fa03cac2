//! Install: finds the program that `bin` names, or installs it (A45-LIFE-02). The declared methods
//! are tried in order until one succeeds (A29-INSTALL-01).

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
use crate::error::{Code, Error};
use crate::interact::{Question, QuestionKind};
use crate::observe::Stage;
use agentproto_manifest::views::InstallMethod;
use agentproto_sandbox::programs::find::is_program;
use entry::{Method, SkipReason};
use machine::Machine;
pub use machine::UnmetRequirement;
use managers::Manager;
pub(super) use perform::manager_environment;
pub use plan::{InstallAction, InstallPlan, InstallStep, plan};
use store::ToolStore;

/// Options of an installation.
#[derive(Clone, Copy, Debug, Default)]
pub struct InstallOptions {
    /// `--allow-unverified`: also use installers and archives without a SHA-256.
    pub allow_unverified: bool,
    /// Install even if the program is already there.
    pub reinstall: bool,
}

/// A program that is ready to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Absolute.
    pub bin: PathBuf,
    /// The method that installed it, or `None` if it was already there.
    pub method: Option<String>,
}

/// Finds the program of a bundle, and installs it if it is missing.
pub async fn ensure(ctx: &Context, options: InstallOptions) -> Result<Installed, Error> {
    let bin = bin_name(ctx)?;
    ctx.observer.stage(Stage::Install, bin);
    let store = ToolStore::for_bundle(ctx)?;
    let methods = methods(ctx);
    if !options.reinstall
        && let Some(found) = find(ctx, &store, bin, &methods)
    {
        return usable(ctx, bin, found);
    }
    let home = ctx.home.clone();
    let name = format!("install-{}", store.identity);
    let _lock = run_on_thread(move || home.lock(&name)).await??;
    // Another process may have installed it while this one waited for the lock.
    if !options.reinstall
        && let Some(found) = find(ctx, &store, bin, &methods)
    {
        return usable(ctx, bin, found);
    }
    check_requirements(ctx)?;
    try_all(ctx, &store, bin, options).await
}

/// A program that is already there also needs a machine that meets `requires` (A29-INSTALL-16).
/// Only the space for an installation does not matter any more.
fn usable(ctx: &Context, bin: &str, found: Installed) -> Result<Installed, Error> {
    let machine = Machine {
        disk_mb: None,
        ..Machine::here(&ctx.home.path("tools"))
    };
    match machine.unmet_requirement(ctx.bundle.root().get("requires")) {
        Some(unmet) => {
            let what = format!("cannot use the installed `{bin}` on this machine: {unmet}");
            Err(Error::new(Code::InstallFailed, what)
                .hint("use a machine that meets `requires`, or a manifest for this machine")
                .details(json!({ "requires": unmet.key })))
        }
        None => Ok(found),
    }
}

/// Runs blocking work on its own thread. Tokio's shutdown waits for its blocking threads, so those
/// would delay the exit if the caller is gone.
async fn run_on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new()
        .name("install".to_owned())
        .spawn(move || drop(done.send(work())));
    started.map_err(|e| Error::new(Code::InstallFailed, format!("cannot start a thread: {e}")))?;
    let ended = outcome.await;
    ended.map_err(|_| {
        Error::new(
            Code::InstallFailed,
            "the installation thread stopped unexpectedly",
        )
    })
}

/// Returns an error if this machine does not meet `requires` (A29-INSTALL-16).
pub fn check_requirements(ctx: &Context) -> Result<(), Error> {
    let Some(why) = unmet_requirement(ctx) else {
        return Ok(());
    };
    let what = format!(
        "cannot install `{}` on this machine: {why}",
        ctx.bundle.text("bin")?
    );
    Err(Error::new(Code::InstallFailed, what)
        .hint("use a machine that meets `requires`, or a manifest for this machine"))
}

/// Why the bundle cannot be installed on this machine.
fn unmet_requirement(ctx: &Context) -> Option<UnmetRequirement> {
    Machine::here(&ctx.home.path("tools")).unmet_requirement(ctx.bundle.root().get("requires"))
}

/// The value of `bin`, checked to be usable as a program name (A29-REQ-08).
fn bin_name(ctx: &Context) -> Result<&str, Error> {
    let bin = ctx.bundle.text("bin")?;
    let forbidden = |c: char| c.is_whitespace() || c.is_control();
    if bin.is_empty()
        || bin.starts_with('-')
        || bin.chars().any(forbidden)
        || bin.ends_with(['/', '.'])
    {
        let node = ctx.bundle.root().get("bin").unwrap_or(ctx.bundle.root());
        return Err(ctx.bundle.invalid(node, "`bin` is not a program name"));
    }
    Ok(bin)
}

/// The last part of `bin`: the file name that a method has to install.
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

/// Looks for the program: at its path in the bundle, in the store of earlier installations, then on
/// PATH.
fn find(ctx: &Context, store: &ToolStore, bin: &str, methods: &[Method]) -> Option<Installed> {
    let existing = |bin: PathBuf| Installed { bin, method: None };
    if ctx.bundle.built_in && bin == "agentproto" {
        return agentproto_sandbox::helper::own_path().ok().map(existing);
    }
    if bin.contains('/') {
        let path = ctx.bundle.dir.join(bin);
        if is_program(&path) {
            return Some(existing(path));
        }
    }
    if let Some(installed) = store.find(ctx, file_name(bin), methods) {
        return Some(installed);
    }
    match bin.contains('/') {
        true => None,
        false => on_path(ctx, bin).map(existing),
    }
}

fn on_path(ctx: &Context, name: &str) -> Option<PathBuf> {
    ctx.host_context(&[]).find(OsStr::new(name)).ok()
}

async fn try_all(
    ctx: &Context,
    store: &ToolStore,
    bin: &str,
    options: InstallOptions,
) -> Result<Installed, Error> {
    let mut confirmed = false;
    let mut tried = Vec::new();
    let mut hints = Vec::new();
    let mut entries = ctx.bundle.common().install().peekable();
    while let Some(entry) = entries.next() {
        let name = entry.method().unwrap_or("?").to_owned();
        let ready = Method::read(entry).and_then(|m| ready(ctx, entry, &m, options).map(|()| m));
        let method = match ready {
            Ok(method) => method,
            Err(skip) => {
                if let Some(code) = skip.warning {
                    ctx.observer
                        .warning(code, &format!("install: {}", skip.why));
                }
                let text = format!("{name}: skipped, {}", skip.why);
                ctx.observer.progress(Stage::Install, &text);
                hints.extend(skip.hint);
                tried.push(json!({ "method": name, "skipped": skip.why }));
                continue;
            }
        };
        if !confirmed && !matches!(method, Method::Vendored { .. }) {
            confirm(ctx, bin, &method).await?;
            confirmed = true;
        }
        let subject = method.subject().to_owned();
        let mut what = json!({ "method": method.name(), "subject": subject });
        if let (Some(verified), Some(what)) = (method.is_verified(), what.as_object_mut()) {
            what.insert("verified".to_owned(), verified.into());
        }
        ctx.audit.record("install.attempt", what)?;
        if method.is_verified() == Some(false) {
            let text = format!("`{subject}` has no SHA-256: the download is not verified");
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
                if let Some(fatal) = failed.fatal {
                    return Err(fatal);
                }
                // The error below names the failure of the last method.
                if entries.peek().is_some() {
                    let text = format!("{}: failed, {why}", method.name());
                    ctx.observer.progress(Stage::Install, &text);
                }
                tried.push(failure);
            }
        }
    }
    Err(install_error(bin, tried, hints))
}

fn install_error(bin: &str, tried: Vec<serde_json::Value>, hints: Vec<String>) -> Error {
    let mut message = match tried.is_empty() {
        true => format!("`{bin}` was not found, and the manifest declares no install method"),
        false => format!("could not install `{bin}`"),
    };
    for one in &tried {
        let part = |key: &str| one.get(key).and_then(|v| v.as_str()).unwrap_or_default();
        let (how, why) = match one.get("skipped") {
            Some(_) => ("skipped, ", part("skipped")),
            None => ("", part("failed")),
        };
        message.push_str(&format!("; {}: {how}{why}", part("method")));
    }
    let mut hints = hints;
    hints.dedup();
    let hint = match hints.is_empty() {
        true => {
            format!("install `{bin}` yourself so that it is on PATH, then run the command again")
        }
        false => hints.join("; or "),
    };
    Error::new(Code::InstallFailed, message)
        .hint(hint)
        .details(json!({ "methods": tried }))
}

/// Whether a method can be tried on this machine.
fn ready(
    ctx: &Context,
    entry: InstallMethod<'_>,
    method: &Method,
    options: InstallOptions,
) -> Result<(), SkipReason> {
    let machine = Machine::here(&ctx.home.path("tools"));
    if let Some(unmet) = machine.unmet_requirement(entry.0.get("requires")) {
        return Err(SkipReason::new(unmet.why));
    }
    match method {
        Method::Package {
            manager, package, ..
        } => manager_ready(ctx, *manager, package),
        Method::Curl { url, sha256 } | Method::Download { url, sha256, .. } => {
            fetch::check_url(url, false).map_err(SkipReason::new)?;
            // Unverified downloads need `--allow-unverified` (A29-INSTALL-18).
            if sha256.is_none() && !options.allow_unverified {
                let mut skip = SkipReason::new(
                    "it has no `verify_sha256`, and unverified downloads are not allowed",
                );
                skip.hint =
                    Some("use `--allow-unverified` to install without verification".to_owned());
                return Err(skip);
            }
            Ok(())
        }
        Method::Vendored { path } => vendored::check(&ctx.bundle.dir, path)
            .map(|_| ())
            .map_err(SkipReason::new),
    }
}

fn manager_ready(ctx: &Context, manager: Manager, package: &str) -> Result<(), SkipReason> {
    if on_path(ctx, manager.program()).is_none() {
        return Err(SkipReason::new(format!(
            "no `{}` on PATH",
            manager.program()
        )));
    }
    // SAFETY: no arguments, cannot fail.
    if manager.needs_root() && unsafe { libc::geteuid() } != 0 {
        let mut skip = SkipReason::new(format!("`{}` needs root", manager.program()));
        skip.hint = Some(format!("run `{}`", manager.manual_command(package)));
        return Err(skip);
    }
    Ok(())
}

/// Asks for confirmation once, before the first method that changes anything.
async fn confirm(ctx: &Context, bin: &str, method: &Method) -> Result<(), Error> {
    if ctx.yes {
        return Ok(());
    }
    if ctx.interact.is_headless() {
        let what = format!(
            "`{bin}` is not installed; agentproto cannot ask without a terminal, so it installed nothing"
        );
        return Err(Error::new(Code::InstallFailed, what)
            .needs_confirmation()
            .hint(format!(
                "add `--yes` to install it; `agentproto install {} --dry-run` shows how",
                ctx.bundle.dir.display()
            )));
    }
    let question = Question {
        message: format!(
            "`{bin}` is not installed. Install it ({}: {})?",
            method.name(),
            method.subject()
        ),
        kind: QuestionKind::Boolean,
        default: Some("true".to_owned()),
    };
    match ctx.interact.ask(&question).await?.as_str() {
        "true" => Ok(()),
        _ => Err(Error::new(
            Code::Declined,
            format!("the installation of `{bin}` was declined"),
        )),
    }
}

/// Whether installing again could help: at least one method that is not a file of the bundle can be
/// tried.
pub fn can_reinstall(ctx: &Context, options: InstallOptions) -> bool {
    let mut entries = ctx.bundle.common().install();
    unmet_requirement(ctx).is_none()
        && entries.any(|entry| match Method::read(entry) {
            Ok(Method::Vendored { .. }) | Err(_) => false,
            Ok(method) => ready(ctx, entry, &method, options).is_ok(),
        })
}

/// Removes the installation, so that it does not take precedence over a program on PATH.
pub fn forget(ctx: &Context) -> Result<(), Error> {
    ToolStore::for_bundle(ctx)?.clear();
    Ok(())
}
