//! Runs one install method in a new directory of the store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::archive::{self, Content, Limits};
use super::entry::Method;
use super::fetch::{self, FetchError, Wanted};
use super::managers::Manager;
use super::store::{Fresh, Store};
use super::{apart, on_path, script, vendored};
use crate::context::Context;
use crate::fault::{Code, Fault};
use crate::home::make_dir;
use crate::observe::Stage;
use agentproto_sandbox::programs::find::is_program;
use agentproto_sandbox::spawn;

/// Time limit for a package manager or an installer.
const LONGEST: Duration = Duration::from_secs(30 * 60);
const LARGEST_ARCHIVE: u64 = 2 << 30;
const LONGEST_LINE: usize = 64 << 10;
const LARGEST_SCRIPT: u64 = 16 << 20;

/// Variables that configure package managers: proxies, mirrors and certificates.
const PASSED: [&str; 10] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
const PASSED_PREFIXES: [&str; 7] = [
    "npm_config_",
    "NPM_CONFIG_",
    "PIP_",
    "CARGO_",
    "RUSTUP_",
    "HOMEBREW_",
    "NODE_EXTRA_CA",
];
const PASSED_GO: [&str; 9] = [
    "GOPROXY",
    "GONOPROXY",
    "GOPRIVATE",
    "GOSUMDB",
    "GONOSUMDB",
    "GOFLAGS",
    "GOTOOLCHAIN",
    "GOPATH",
    "GOROOT",
];
/// Parts of variable names that indicate a secret. Such variables are not passed on.
const SECRET: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "AUTH"];

/// Why a method failed. The next one is tried, unless `last` is set.
pub struct Failed {
    pub why: String,
    /// If set, no further method is tried, and this error is returned.
    pub last: Option<Fault>,
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
        let last = (fault.code == Code::StateUnwritable).then(|| fault.clone());
        Failed {
            why: fault.message,
            last,
        }
    }
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Self {
        let why = error.to_string();
        let last = match &error {
            // The file was changed, so other sources of the same program are not trusted either.
            FetchError::Digest { found, wanted, .. } => {
                let details = serde_json::json!({ "found": found, "wanted": wanted });
                let hint = "the download was discarded; check the source, then correct `verify_sha256` in the manifest";
                let fault = Fault::new(Code::Sha256Mismatch, &why).hint(hint);
                Some(fault.details(details))
            }
            // A full disk would also fail the next method.
            FetchError::Disk(_) => Some(
                Fault::new(Code::StateUnwritable, &why)
                    .hint("free some disk space, or set AGENTPROTO_HOME to another disk"),
            ),
            FetchError::Refused(_) | FetchError::Network(_) => None,
        };
        Failed { why, last }
    }
}

/// Runs a method and returns the installed program. A failed attempt leaves no files behind.
pub async fn perform(
    ctx: &Context,
    store: &Store,
    name: &str,
    method: &Method,
) -> Result<PathBuf, Failed> {
    if let Method::Vendored { path } = method {
        let program = vendored::check(&ctx.bundle.dir, path).map_err(Failed::new)?;
        store.keep(store.fresh()?, method)?;
        return Ok(program);
    }
    let fresh = store.fresh()?;
    match method {
        Method::Package {
            manager,
            package,
            shared,
        } => install_package(ctx, &fresh, *manager, package, *shared, name).await?,
        Method::Curl { url, sha256 } => run_installer(ctx, &fresh, url, sha256, name).await?,
        Method::Download {
            url,
            extract_bin,
            sha256,
        } => download(ctx, &fresh, url, sha256, extract_bin, name).await?,
        Method::Vendored { .. } => {}
    }
    let kept = store.keep(fresh, method)?;
    Ok(kept.join("bin").join(name))
}

async fn install_package(
    ctx: &Context,
    fresh: &Fresh,
    manager: Manager,
    package: &str,
    shared: bool,
    name: &str,
) -> Result<(), Failed> {
    for step in manager.steps(package, shared, &fresh.dir) {
        let mut env = configuration(ctx);
        env.extend(step.env);
        run(ctx, &step.argv, &env, &fresh.dir).await?;
    }
    if is_program(&fresh.dir.join("bin").join(name)) {
        return Ok(());
    }
    let elsewhere = match (manager, shared) {
        (Manager::Pip, true) => Some(ctx.user_home().join(".local/bin").join(name)),
        _ => None,
    };
    let program = on_path(ctx, name).or(elsewhere.filter(|path| is_program(path)));
    match program {
        Some(program) => fresh.link(name, &program).map_err(|e| disk(&fresh.dir, &e)),
        None => Err(Failed::new(format!(
            "`{package}` was installed, but it does not contain `{name}`"
        ))),
    }
}

async fn run_installer(
    ctx: &Context,
    fresh: &Fresh,
    url: &str,
    sha256: &Option<String>,
    name: &str,
) -> Result<(), Failed> {
    let file = fresh.dir.join("installer");
    let wanted = Wanted {
        url: url.to_owned(),
        sha256: sha256.clone(),
        most: LARGEST_SCRIPT,
        to: file.clone(),
    };
    fetch::fetch(ctx, wanted).await?;
    let mut argv = script::interpreter(&file).map_err(Failed::new)?;
    argv.push(file.clone().into_os_string());
    let mut env = network(ctx);
    let own = script::environment(&fresh.dir).map_err(|e| disk(&fresh.dir, &e))?;
    env.extend(own);
    run(ctx, &argv, &env, &fresh.dir).await?;
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_dir_all(fresh.dir.join("tmp"));
    if is_program(&fresh.dir.join("bin").join(name)) {
        return Ok(());
    }
    let program = script::left_behind(&fresh.dir, name).or_else(|| on_path(ctx, name));
    match program {
        Some(program) => fresh.link(name, &program).map_err(|e| disk(&fresh.dir, &e)),
        None => Err(Failed::new(format!(
            "the installer did not install `{name}`"
        ))),
    }
}

async fn download(
    ctx: &Context,
    fresh: &Fresh,
    url: &str,
    sha256: &Option<String>,
    extract_bin: &str,
    name: &str,
) -> Result<(), Failed> {
    let file = fresh.dir.join("fetched");
    let wanted = Wanted {
        url: url.to_owned(),
        sha256: sha256.clone(),
        most: LARGEST_ARCHIVE,
        to: file.clone(),
    };
    fetch::fetch(ctx, wanted).await?;
    ctx.observer
        .progress(Stage::Install, &format!("unpacking {extract_bin}"));
    let (into, bin) = (fresh.dir.join("archive"), fresh.dir.join("bin"));
    make_dir(&bin).map_err(|e| disk(&bin, &e))?;
    let alone = bin.join(name);
    let wanted = extract_bin.to_owned();
    let unpacked = apart(move || {
        let content = archive::unpack(&file, &into, &alone, Limits::default())?;
        let _ = std::fs::remove_file(&file);
        match content {
            Content::Program => Ok(None),
            Content::Tree => archive::program(&into, &wanted).map(Some),
        }
    });
    match unpacked.await?.map_err(Failed::new)? {
        Some(program) => fresh.link(name, &program).map_err(|e| disk(&fresh.dir, &e)),
        None => Ok(()),
    }
}

fn disk(path: &Path, error: &std::io::Error) -> Failed {
    let what = format!("cannot write `{}`: {error}", path.display());
    Fault::new(Code::StateUnwritable, what).into()
}

/// Variables of the caller's environment for proxies and certificates. Passwords in them are masked
/// in the output of programs.
fn network(ctx: &Context) -> Vec<(OsString, OsString)> {
    passed(ctx, |name| PASSED.contains(&name))
}

/// Like `network`, plus variables for mirrors and caches of package managers.
pub fn configuration(ctx: &Context) -> Vec<(OsString, OsString)> {
    passed(ctx, |name| {
        let upper = name.to_ascii_uppercase();
        PASSED.contains(&name)
            || PASSED_GO.contains(&name)
            || (PASSED_PREFIXES.iter().any(|p| name.starts_with(p))
                && !SECRET.iter().any(|part| upper.contains(part)))
    })
}

fn passed(ctx: &Context, wanted: impl Fn(&str) -> bool) -> Vec<(OsString, OsString)> {
    let mut out = Vec::new();
    for (name, value) in ctx.host_env.iter() {
        if name.to_str().is_some_and(&wanted) {
            if let Some(password) = value.to_str().and_then(password_in) {
                ctx.masks.add(password);
            }
            out.push((name.clone(), value.clone()));
        }
    }
    out
}

/// The password in `scheme://user:password@host`.
fn password_in(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.split('/').next()?.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Runs a program of the host and forwards its output as progress.
async fn run(
    ctx: &Context,
    argv: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
) -> Result<(), Failed> {
    let (observer, masks) = (Arc::clone(&ctx.observer), ctx.masks.clone());
    let say = move |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        let text = masks.mask(text.trim());
        if !text.is_empty() {
            observer.progress(Stage::Install, &text);
        }
    };
    let mut heard = say.clone();
    let mut held = Vec::new();
    let options = spawn::Options {
        timeout: Some(LONGEST),
        stderr: Box::new(move |bytes| {
            held.extend_from_slice(bytes);
            while let Some(at) = memchr::memchr2(b'\n', b'\r', &held) {
                let line: Vec<u8> = held.drain(..=at).collect();
                say(&line);
            }
            // Limits the buffer for a line without an end.
            held.truncate(LONGEST_LINE);
        }),
        ..spawn::Options::default()
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
            "`{program}` did not exit within {minutes} minutes"
        )));
    }
    if !finished.exit.status.success() {
        let said: Vec<&str> = finished.stderr.trim().lines().collect();
        let said = said.get(said.len().saturating_sub(3)..).unwrap_or_default();
        return Err(Failed::new(format!(
            "`{program}` failed with {}: {}",
            finished.exit.status,
            said.join(" / ")
        )));
    }
    Ok(())
}
