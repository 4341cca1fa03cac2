//! Runs one install method in a new directory of the store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::archive::{self, ArchiveContent, ArchiveLimits};
use super::entry::Method;
use super::fetch::{self, Download, FetchError};
use super::managers::Manager;
use super::store::{NewGeneration, ToolStore};
use super::{on_path, run_on_thread, script, vendored};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::home::make_dir;
use crate::observe::Stage;
use agentproto_sandbox::programs::find::is_program;
use agentproto_sandbox::spawn;

/// Time limit for a package manager or an installer.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const MAX_ARCHIVE: u64 = 2 << 30;
const MAX_LINE: usize = 64 << 10;
const MAX_SCRIPT: u64 = 16 << 20;

/// Variables that configure package managers: proxies, mirrors and certificates.
const NETWORK_VARIABLES: [&str; 10] = [
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
const MANAGER_PREFIXES: [&str; 7] = [
    "npm_config_",
    "NPM_CONFIG_",
    "PIP_",
    "CARGO_",
    "RUSTUP_",
    "HOMEBREW_",
    "NODE_EXTRA_CA",
];
const GO_VARIABLES: [&str; 9] = [
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
const SECRET_PARTS: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "AUTH"];

/// Why a method failed. The next one is tried, unless `fatal` is set.
pub struct MethodError {
    pub why: String,
    /// If set, no further method is tried, and this error is returned.
    pub fatal: Option<Error>,
}

impl MethodError {
    fn new(why: impl Into<String>) -> Self {
        MethodError {
            why: why.into(),
            fatal: None,
        }
    }
}

impl From<Error> for MethodError {
    fn from(error: Error) -> Self {
        let fatal = (error.code == Code::StateUnwritable).then(|| error.clone());
        MethodError {
            why: error.message,
            fatal,
        }
    }
}

impl From<FetchError> for MethodError {
    fn from(error: FetchError) -> Self {
        let why = error.to_string();
        let fatal = match &error {
            // The file was changed, so other sources of the same program are not trusted either.
            FetchError::Digest {
                found, expected, ..
            } => {
                let details = serde_json::json!({ "found": found, "wanted": expected });
                let hint = "the download was discarded; check the source, then correct `verify_sha256` in the manifest";
                let error = Error::new(Code::Sha256Mismatch, &why).hint(hint);
                Some(error.details(details))
            }
            // A full disk would also fail the next method.
            FetchError::Disk(_) => Some(
                Error::new(Code::StateUnwritable, &why)
                    .hint("free some disk space, or set AGENTPROTO_HOME to another disk"),
            ),
            FetchError::Refused(_) | FetchError::Network(_) => None,
        };
        MethodError { why, fatal }
    }
}

/// Runs a method and returns the installed program. A failed attempt leaves no files behind.
pub async fn perform(
    ctx: &Context,
    store: &ToolStore,
    name: &str,
    method: &Method,
) -> Result<PathBuf, MethodError> {
    if let Method::Vendored { path } = method {
        let program = vendored::check(&ctx.bundle.dir, path).map_err(MethodError::new)?;
        store.activate(store.new_generation()?, method)?;
        return Ok(program);
    }
    let generation = store.new_generation()?;
    match method {
        Method::Package {
            manager,
            package,
            shared,
        } => install_package(ctx, &generation, *manager, package, *shared, name).await?,
        Method::Curl { url, sha256 } => run_installer(ctx, &generation, url, sha256, name).await?,
        Method::Download {
            url,
            extract_bin,
            sha256,
        } => download(ctx, &generation, url, sha256, extract_bin, name).await?,
        Method::Vendored { .. } => {}
    }
    let active = store.activate(generation, method)?;
    Ok(active.join("bin").join(name))
}

async fn install_package(
    ctx: &Context,
    generation: &NewGeneration,
    manager: Manager,
    package: &str,
    shared: bool,
    name: &str,
) -> Result<(), MethodError> {
    for step in manager.steps(package, shared, &generation.dir) {
        let mut env = manager_environment(ctx);
        env.extend(step.env);
        run(ctx, &step.argv, &env, &generation.dir).await?;
    }
    if is_program(&generation.dir.join("bin").join(name)) {
        return Ok(());
    }
    let elsewhere = match (manager, shared) {
        (Manager::Pip, true) => Some(ctx.user_home().join(".local/bin").join(name)),
        _ => None,
    };
    let program = on_path(ctx, name).or(elsewhere.filter(|path| is_program(path)));
    match program {
        Some(program) => generation
            .link(name, &program)
            .map_err(|e| disk_error(&generation.dir, &e)),
        None => Err(MethodError::new(format!(
            "`{package}` was installed, but it does not contain `{name}`"
        ))),
    }
}

async fn run_installer(
    ctx: &Context,
    generation: &NewGeneration,
    url: &str,
    sha256: &Option<String>,
    name: &str,
) -> Result<(), MethodError> {
    let file = generation.dir.join("installer");
    let download = Download {
        url: url.to_owned(),
        sha256: sha256.clone(),
        max_bytes: MAX_SCRIPT,
        to: file.clone(),
    };
    fetch::fetch(ctx, download).await?;
    let mut argv = script::interpreter(&file).map_err(MethodError::new)?;
    argv.push(file.clone().into_os_string());
    let mut env = network_environment(ctx);
    let own = script::environment(&generation.dir).map_err(|e| disk_error(&generation.dir, &e))?;
    env.extend(own);
    run(ctx, &argv, &env, &generation.dir).await?;
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_dir_all(generation.dir.join("tmp"));
    if is_program(&generation.dir.join("bin").join(name)) {
        return Ok(());
    }
    let program = script::find_installed(&generation.dir, name).or_else(|| on_path(ctx, name));
    match program {
        Some(program) => generation
            .link(name, &program)
            .map_err(|e| disk_error(&generation.dir, &e)),
        None => Err(MethodError::new(format!(
            "the installer did not install `{name}`"
        ))),
    }
}

async fn download(
    ctx: &Context,
    generation: &NewGeneration,
    url: &str,
    sha256: &Option<String>,
    extract_bin: &str,
    name: &str,
) -> Result<(), MethodError> {
    let file = generation.dir.join("fetched");
    let download = Download {
        url: url.to_owned(),
        sha256: sha256.clone(),
        max_bytes: MAX_ARCHIVE,
        to: file.clone(),
    };
    fetch::fetch(ctx, download).await?;
    ctx.observer
        .progress(Stage::Install, &format!("unpacking {extract_bin}"));
    let (into, bin) = (generation.dir.join("archive"), generation.dir.join("bin"));
    make_dir(&bin).map_err(|e| disk_error(&bin, &e))?;
    let single = bin.join(name);
    let program = extract_bin.to_owned();
    let unpacked = run_on_thread(move || {
        let content = archive::unpack(&file, &into, &single, ArchiveLimits::default())?;
        let _ = std::fs::remove_file(&file);
        match content {
            ArchiveContent::Program => Ok(None),
            ArchiveContent::Tree => archive::program(&into, &program).map(Some),
        }
    });
    match unpacked.await?.map_err(MethodError::new)? {
        Some(program) => generation
            .link(name, &program)
            .map_err(|e| disk_error(&generation.dir, &e)),
        None => Ok(()),
    }
}

fn disk_error(path: &Path, error: &std::io::Error) -> MethodError {
    let what = format!("cannot write `{}`: {error}", path.display());
    Error::new(Code::StateUnwritable, what).into()
}

/// Variables of the caller's environment for proxies and certificates. Passwords in them are masked
/// in the output of programs.
fn network_environment(ctx: &Context) -> Vec<(OsString, OsString)> {
    passed_variables(ctx, |name| NETWORK_VARIABLES.contains(&name))
}

/// Like `network_environment`, plus variables for mirrors and caches of package managers.
pub fn manager_environment(ctx: &Context) -> Vec<(OsString, OsString)> {
    passed_variables(ctx, |name| {
        let upper = name.to_ascii_uppercase();
        NETWORK_VARIABLES.contains(&name)
            || GO_VARIABLES.contains(&name)
            || (MANAGER_PREFIXES.iter().any(|p| name.starts_with(p))
                && !SECRET_PARTS.iter().any(|part| upper.contains(part)))
    })
}

fn passed_variables(ctx: &Context, is_passed: impl Fn(&str) -> bool) -> Vec<(OsString, OsString)> {
    let mut out = Vec::new();
    for (name, value) in ctx.host_env.iter() {
        if name.to_str().is_some_and(&is_passed) {
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
) -> Result<(), MethodError> {
    let (observer, masks) = (Arc::clone(&ctx.observer), ctx.masks.clone());
    let report = move |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        let text = masks.mask(text.trim());
        if !text.is_empty() {
            observer.progress(Stage::Install, &text);
        }
    };
    let mut on_line = report.clone();
    let mut partial_line = Vec::new();
    let options = spawn::SpawnOptions {
        timeout: Some(PROGRAM_TIMEOUT),
        stderr: Box::new(move |bytes| {
            partial_line.extend_from_slice(bytes);
            while let Some(at) = memchr::memchr2(b'\n', b'\r', &partial_line) {
                let line: Vec<u8> = partial_line.drain(..=at).collect();
                report(&line);
            }
            // Limits the buffer for a line without an end.
            partial_line.truncate(MAX_LINE);
        }),
        ..spawn::SpawnOptions::default()
    };
    let finished = ctx
        .run_host_with_lines(argv, env, cwd, options, &mut on_line)
        .await?;
    let program = argv
        .first()
        .map(|p| p.to_string_lossy())
        .unwrap_or_default();
    if finished.exit.timed_out {
        let minutes = PROGRAM_TIMEOUT.as_secs() / 60;
        return Err(MethodError::new(format!(
            "`{program}` did not exit within {minutes} minutes"
        )));
    }
    if !finished.exit.status.success() {
        let how = match finished.exit.status.code() {
            Some(code) => format!("exited with status {code}"),
            None => format!("was killed ({})", finished.exit.status),
        };
        let lines = error_lines(&finished.stderr).join(" / ");
        return Err(MethodError::new(format!("`{program}` {how}: {lines}")));
    }
    Ok(())
}

/// The lines of stderr that most likely give the cause: the first ones that mention an error, or
/// else the last ones.
fn error_lines(stderr: &str) -> Vec<&str> {
    let lines: Vec<&str> = stderr.trim().lines().map(str::trim).collect();
    let is_error = |line: &&&str| line.to_ascii_lowercase().contains("error");
    let errors: Vec<&str> = lines.iter().filter(is_error).take(2).copied().collect();
    match errors.is_empty() {
        true => lines[lines.len().saturating_sub(3)..].to_vec(),
        false => errors,
    }
}

#[cfg(test)]
mod tests {
    use super::error_lines;

    #[test]
    fn the_cause_of_a_failed_installation_is_quoted() {
        let npm = "npm warn x\nnpm error code E404\nnpm error 404 Not Found - GET x\n\
                   npm error 404\nnpm error A complete log of this run can be found in: x\n";
        assert_eq!(
            error_lines(npm),
            ["npm error code E404", "npm error 404 Not Found - GET x"]
        );
        assert_eq!(error_lines("a\nb\nc\nd\n"), ["b", "c", "d"]);
        assert_eq!(error_lines(""), [""; 0]);
    }
}
