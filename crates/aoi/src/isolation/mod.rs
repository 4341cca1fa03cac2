//! Isolates discovery from credentials and the network, which it must not need (§3). A self-test on
//! every lint run verifies the isolation. What cannot be verified is reported, and no verdict
//! relies on it.

mod backend;
pub mod doctor;
mod self_test;

use std::path::{Path, PathBuf};

pub use backend::{IsolationBackend, IsolationKind};

use crate::run::RunDirs;
use agentproto_sandbox::helper;
use agentproto_sandbox::probe;
use backend::IsolationScope;
use self_test::SelfTestResult;

/// The isolation that is available on this machine.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// Isolation to run discovery in, if any.
    pub backend: Option<IsolationBackend>,
    /// Description for the report.
    pub description: Vec<String>,
    /// Why the network cannot be isolated.
    pub no_network_isolation: Option<String>,
    /// Why credentials cannot be hidden.
    pub no_credential_isolation: Option<String>,
    /// Why the unix sockets of daemons cannot be hidden.
    pub no_socket_isolation: Option<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        unavailable("the isolation was not set up".to_owned())
    }
}

/// What a run must be able to see, and what it must not.
#[derive(Clone, Debug, Default)]
pub struct IsolationNeeds<'n> {
    /// Command line of the tool, with the full path of the program.
    pub argv: &'n [std::ffi::OsString],
    /// Credential files that the probe file names.
    pub credentials: &'n [String],
}

/// Tries one kind of isolation after another and keeps the first that works.
pub async fn establish(needs: &IsolationNeeds<'_>, root: &Path) -> Isolation {
    match prepare(needs, root) {
        Ok((scope, dirs)) => try_kinds(&scope, &dirs).await,
        Err(error) => unavailable(format!("cannot set up the self-test: {error}")),
    }
}

fn unavailable(why: String) -> Isolation {
    Isolation {
        backend: None,
        description: vec![format!("not isolated: {why}")],
        no_network_isolation: Some(why.clone()),
        no_credential_isolation: Some(why.clone()),
        no_socket_isolation: Some(why),
    }
}

async fn try_kinds(scope: &IsolationScope, dirs: &RunDirs) -> Isolation {
    if let Err(why) = check_self_test(dirs).await {
        return unavailable(why);
    }
    let mut refusals = Vec::new();
    for kind in [
        IsolationKind::Native,
        IsolationKind::Bubblewrap,
        IsolationKind::Filter,
    ] {
        match test_backend(kind, scope, dirs).await {
            Ok(isolation) => return isolation,
            Err(why) => refusals.push(format!("{}: {why}", kind.describe())),
        }
    }
    unavailable(refusals.join("; "))
}

/// Tests one kind of isolation, or returns why it does not work here.
pub async fn test_kind(
    kind: IsolationKind,
    needs: &IsolationNeeds<'_>,
    root: &Path,
) -> Result<Isolation, String> {
    let (scope, dirs) = prepare(needs, root).map_err(|error| error.to_string())?;
    check_self_test(&dirs).await?;
    test_backend(kind, &scope, &dirs).await
}

/// Checks that the self-test reaches everything without isolation. Otherwise its failure within the
/// isolation would prove nothing.
async fn check_self_test(dirs: &RunDirs) -> Result<(), String> {
    let control = self_test::reach(None, dirs)
        .await
        .map_err(|why| format!("cannot run the self-test: {why}"))?;
    match control.missing() {
        Some(what) => Err(format!(
            "even without isolation, the self-test cannot {what}"
        )),
        None => Ok(()),
    }
}

async fn test_backend(
    kind: IsolationKind,
    scope: &IsolationScope,
    dirs: &RunDirs,
) -> Result<Isolation, String> {
    let backend = match kind {
        IsolationKind::Native => IsolationBackend::native(scope),
        IsolationKind::Filter => IsolationBackend::filter(),
        IsolationKind::Bubblewrap => {
            let found = tokio::task::spawn_blocking(probe::bubblewrap).await;
            let found = found.map_err(|error| error.to_string())?;
            IsolationBackend::bubblewrap(scope, found.map_err(|line| line.text.clone())?)
        }
    };
    let result = self_test::reach(Some(&backend), dirs).await?;
    match result.tcp || result.udp {
        true => Err("the network can still be reached".to_owned()),
        false => Ok(describe_backend(backend, &result)),
    }
}

/// Starts of the descriptions of isolation that works.
const NETWORK: &str = "network:";
const SOCKETS: &str = "unix sockets:";
const CREDENTIALS: &str = "credentials:";

/// What discovery could not use, if the descriptions say so, and the remaining descriptions.
pub fn summarize(descriptions: &[String]) -> (Vec<&'static str>, Vec<&str>) {
    let working = [
        (NETWORK, "blocked with", "network"),
        (SOCKETS, "hidden with", "unix sockets"),
        (CREDENTIALS, "hidden with", "credentials"),
    ];
    let (mut blocked, mut rest) = (Vec::new(), Vec::new());
    for text in descriptions {
        let is_it = |(start, how, _): &&(&str, &str, &str)| {
            let text = text.strip_prefix(start).map(str::trim_start);
            text.is_some_and(|text| text.starts_with(how))
        };
        match working.iter().find(is_it) {
            Some((_, _, name)) => blocked.push(*name),
            None => rest.push(text.as_str()),
        }
    }
    (blocked, rest)
}

fn describe_backend(backend: IsolationBackend, result: &SelfTestResult) -> Isolation {
    let by = backend.kind().describe();
    let mut description = vec![format!(
        "{NETWORK} blocked with {by}; a test TCP port and a test UDP port could not be reached"
    )];
    let no_socket_isolation = result
        .unix
        .then(|| format!("a test socket can still be reached with {by}"));
    description.push(match (&no_socket_isolation, result.unix_tried) {
        (Some(why), _) => format!("unix sockets: not hidden: {why}"),
        (None, true) => format!("{SOCKETS} hidden with {by}; a test socket could not be reached"),
        (None, false) => "unix sockets: not tested: no test socket could be created".to_owned(),
    });
    let no_credential_isolation = match result.read.first() {
        Some(path) if backend.kind() == IsolationKind::Filter => Some(format!(
            "{by} cannot hide files; {} can still be read",
            path.display()
        )),
        Some(path) => Some(format!("{} can still be read", path.display())),
        None => None,
    };
    description.push(match &no_credential_isolation {
        Some(why) => format!("credentials: not hidden: {why}"),
        None => format!(
            "{CREDENTIALS} hidden with {by}: {} existing locations, and one test file",
            backend.hidden.len().saturating_sub(1)
        ),
    });
    for visible in &backend.visible {
        let visible = visible.display();
        description.push(format!(
            "{visible} is still visible, because the tool needs it"
        ));
    }
    Isolation {
        description,
        no_network_isolation: None,
        no_credential_isolation,
        no_socket_isolation: match result.unix_tried {
            true => no_socket_isolation,
            false => Some("no unix socket could be created for the self-test".to_owned()),
        },
        backend: Some(backend),
    }
}

/// Creates the directory of the self-test with its test credential, and lists what to hide.
fn prepare(needs: &IsolationNeeds, root: &Path) -> std::io::Result<(IsolationScope, RunDirs)> {
    let dirs = RunDirs::new(root.join("walls"))?;
    let credential_home = dirs.root.join("planted");
    std::fs::create_dir_all(credential_home.join(".config/aoi"))?;
    std::fs::write(self_test::test_credential(&dirs), "secret")?;
    let empty = dirs.root.join("empty");
    std::fs::write(&empty, "")?;
    let mut homes = homes();
    let credential_files = needs
        .credentials
        .iter()
        .map(|path| match path.strip_prefix("~/") {
            Some(rest) => homes.first().map_or_else(|| rest.into(), |h| h.join(rest)),
            None => PathBuf::from(path),
        });
    let credential_files = credential_files.filter(|path| path.is_absolute()).collect();
    homes.push(credential_home);
    let sockets = ["/run", "/var/run"].map(PathBuf::from).into_iter();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = sockets.chain(runtime).filter(|path| path.is_absolute());
    let scope = IsolationScope {
        homes,
        credential_files,
        sockets: sockets.collect(),
        keep: visible_paths(needs, root),
        empty,
    };
    Ok((scope, dirs))
}

/// Home directories according to the environment and the user database.
fn homes() -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = std::env::var_os("HOME")
        .map(PathBuf::from)
        .into_iter()
        .chain(account_home())
        .filter(|home| home.is_absolute() && home != Path::new("/"))
        .collect();
    homes.dedup();
    homes
}

fn account_home() -> Option<PathBuf> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    // SAFETY: no arguments, cannot fail.
    let own = unsafe { libc::getuid() }.to_string();
    let line = accounts
        .lines()
        .find(|line| line.split(':').nth(2) == Some(own.as_str()))?;
    line.split(':').nth(5).map(PathBuf::from)
}

/// Paths that must stay visible: the tool, the programs on `PATH`, our own binary, and the
/// directory of the runs. Each is listed as given and with symlinks resolved.
fn visible_paths(needs: &IsolationNeeds, root: &Path) -> Vec<PathBuf> {
    let words = needs.argv.iter().map(PathBuf::from);
    let search = std::env::var_os("PATH").unwrap_or_default();
    let programs: Vec<PathBuf> = std::env::split_paths(&search).collect();
    let named: Vec<PathBuf> = words
        .chain(programs)
        .chain(helper::own_path().ok())
        .chain([root.to_owned()])
        .filter(|path| path.is_absolute())
        .collect();
    let real = named.iter().filter_map(|path| path.canonicalize().ok());
    let real: Vec<PathBuf> = real.collect();
    named.into_iter().chain(real).collect()
}
