//! Install: from `bin` of a manifest to a program on this machine (A45-LIFE-02). What is
//! there already is taken; otherwise the declared methods are tried in their order until one
//! succeeds (A29-INSTALL-01).

mod entry;
mod managers;
mod store;
mod vendored;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::context::Context;
use super::fault::{Code, Fault};
use super::interact::{Kind, Question};
use super::observe::Stage;
use super::sandbox::programs::find::is_program;
use super::spawn;
use entry::{Method, Skip};
use managers::Manager;
use store::{Fresh, Store};

/// No package manager works longer on one package.
const LONGEST: Duration = Duration::from_secs(30 * 60);

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

/// How one method failed; the next one is tried.
struct Failed {
    why: String,
    /// Nothing further is tried.
    last: Option<Fault>,
}

impl Failed {
    fn new(why: impl Into<String>) -> Self {
        Failed {
            why: why.into(),
            last: None,
        }
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Failed::new(fault.message)
    }
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
    let locked = tokio::task::spawn_blocking(move || home.lock(&name)).await;
    let _lock = locked.map_err(|e| Fault::new(Code::InstallFailed, e.to_string()))??;
    // Another run may have installed it while we waited.
    if !options.reinstall
        && let Some(found) = find(ctx, &store, bin, &methods)
    {
        return Ok(found);
    }
    try_all(ctx, &store, bin, options).await
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
        return std::env::current_exe().ok().map(there);
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
        let ready = Method::read(entry).and_then(|m| ready(ctx, &m).map(|()| m));
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
        let what = json!({ "method": method.name(), "subject": subject });
        ctx.audit.record("install.attempt", what)?;
        let text = format!("{}: {subject}", method.name());
        ctx.observer.progress(Stage::Install, &text);
        match attempt(ctx, store, bin, &method, options).await {
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
    let mut message = format!("`{bin}` is not there, and no install method worked");
    if tried.is_empty() {
        message = format!("`{bin}` is not there, and the manifest declares nothing to install");
    }
    for one in &tried {
        let part = |key: &str| one.get(key).and_then(|v| v.as_str()).unwrap_or_default();
        let (how, why) = match one.get("skipped") {
            Some(_) => ("passed over", part("skipped")),
            None => ("failed", part("failed")),
        };
        message.push_str(&format!("\n  {}: {how}, {why}", part("method")));
    }
    let hint = match hints.is_empty() {
        true => format!("install `{bin}` yourself so that it is on PATH, then run again"),
        false => hints.join("; or "),
    };
    Fault::new(Code::InstallFailed, message)
        .hint(hint)
        .details(json!({ "methods": tried }))
}

/// Whether this machine can try a method at all.
fn ready(ctx: &Context, method: &Method) -> Result<(), Skip> {
    match method {
        Method::Package {
            manager, package, ..
        } => manager_ready(ctx, *manager, package),
        _ => Ok(()),
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

async fn attempt(
    ctx: &Context,
    store: &Store,
    bin: &str,
    method: &Method,
    _options: Options,
) -> Result<PathBuf, Failed> {
    let name = file_name(bin);
    let fresh = store.fresh()?;
    match method {
        Method::Package {
            manager,
            package,
            shared,
        } => package_into(ctx, &fresh, *manager, package, *shared, name).await?,
        Method::Vendored { path } => {
            let program = vendored::check(&ctx.bundle.dir, path).map_err(Failed::new)?;
            store.keep(fresh, method)?;
            return Ok(program);
        }
        Method::Curl { .. } | Method::Download { .. } => {
            return Err(Failed::new("not built yet"));
        }
    }
    let kept = store.keep(fresh, method)?;
    Ok(kept.join("bin").join(name))
}

async fn package_into(
    ctx: &Context,
    fresh: &Fresh,
    manager: Manager,
    package: &str,
    shared: bool,
    name: &str,
) -> Result<(), Failed> {
    for step in manager.steps(package, shared, &fresh.dir) {
        run(ctx, &step.argv, &step.env, &fresh.dir).await?;
    }
    if is_program(&fresh.dir.join("bin").join(name)) {
        return Ok(());
    }
    match on_path(ctx, name) {
        Some(program) => Ok(fresh.link(name, &program).map_err(unwritable)?),
        None => Err(Failed::new(format!(
            "`{package}` was installed, but brought no `{name}`"
        ))),
    }
}

fn unwritable(error: std::io::Error) -> Fault {
    Fault::new(Code::StateUnwritable, error.to_string())
}

/// Runs a program of the host and passes on what it says.
async fn run(
    ctx: &Context,
    argv: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
) -> Result<(), Failed> {
    let options = spawn::Options {
        timeout: Some(LONGEST),
        ..spawn::Options::default()
    };
    let mut heard = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        let text = ctx.masks.mask(text.trim_end());
        if !text.is_empty() {
            ctx.observer.progress(Stage::Install, &text);
        }
    };
    let finished = ctx
        .run_host_heard(argv, env, cwd, options, &mut heard)
        .await?;
    let program = argv
        .first()
        .map(|p| p.to_string_lossy())
        .unwrap_or_default();
    if finished.exit.timed_out {
        let minutes = LONGEST.as_secs() / 60;
        return Err(Failed::new(format!(
            "`{program}` did not end within {minutes} minutes"
        )));
    }
    if !finished.exit.status.success() {
        let said = finished.stderr.trim().lines().last().unwrap_or_default();
        return Err(Failed::new(format!(
            "`{program}` ended with {}: {said}",
            finished.exit.status
        )));
    }
    Ok(())
}

/// Whether another installation could change anything: some method other than a file of the
/// bundle is there to try.
pub fn can_reinstall(ctx: &Context) -> bool {
    methods(ctx)
        .iter()
        .any(|m| !matches!(m, Method::Vendored { .. }) && ready(ctx, m).is_ok())
}
