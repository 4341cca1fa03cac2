//! Isolates discovery from credentials and the network, which it must not need (§3). A self-test on
//! every lint run verifies the isolation. What cannot be verified is reported, and no verdict
//! relies on it.

pub mod powers;
mod trial;
mod walls;

use std::path::{Path, PathBuf};

pub use walls::{Make, Walls};

use crate::run::World;
use agentproto_sandbox::helper;
use agentproto_sandbox::probe;
use trial::Reached;
use walls::Scope;

/// The isolation that is available on this machine.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// Isolation to run discovery in, if any.
    pub walls: Option<Walls>,
    /// Description for the report.
    pub told: Vec<String>,
    /// Why the network cannot be isolated.
    pub no_network_walls: Option<String>,
    /// Why credentials cannot be hidden.
    pub no_credential_walls: Option<String>,
    /// Why the unix sockets of daemons cannot be hidden.
    pub no_socket_walls: Option<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        nothing("the isolation was not set up".to_owned())
    }
}

/// What a run must be able to see, and what it must not.
#[derive(Clone, Debug, Default)]
pub struct Needs<'n> {
    /// Command line of the tool, with the full path of the program.
    pub argv: &'n [std::ffi::OsString],
    /// Credential files that the probe file names.
    pub credentials: &'n [String],
}

/// Tries one kind of isolation after another and keeps the first that works.
pub async fn establish(needs: &Needs<'_>, root: &Path) -> Isolation {
    match prepared(needs, root) {
        Ok((scope, world)) => climb(&scope, &world).await,
        Err(error) => nothing(format!("cannot set up the self-test: {error}")),
    }
}

fn nothing(why: String) -> Isolation {
    Isolation {
        walls: None,
        told: vec![format!("not isolated: {why}")],
        no_network_walls: Some(why.clone()),
        no_credential_walls: Some(why.clone()),
        no_socket_walls: Some(why),
    }
}

async fn climb(scope: &Scope, world: &World) -> Isolation {
    if let Err(why) = control(world).await {
        return nothing(why);
    }
    let mut refusals = Vec::new();
    for make in [Make::Native, Make::Bubblewrap, Make::Filter] {
        match behind(make, scope, world).await {
            Ok(isolation) => return isolation,
            Err(why) => refusals.push(format!("{}: {why}", make.told())),
        }
    }
    nothing(refusals.join("; "))
}

/// Tests one kind of isolation, or returns why it does not work here.
pub async fn prove(make: Make, needs: &Needs<'_>, root: &Path) -> Result<Isolation, String> {
    let (scope, world) = prepared(needs, root).map_err(|error| error.to_string())?;
    control(&world).await?;
    behind(make, &scope, &world).await
}

/// Checks that the self-test reaches everything without isolation. Otherwise its failure within the
/// isolation would prove nothing.
async fn control(world: &World) -> Result<(), String> {
    let control = trial::reach(None, world)
        .await
        .map_err(|why| format!("cannot run the self-test: {why}"))?;
    match control.missing() {
        Some(what) => Err(format!(
            "even without isolation, the self-test cannot {what}"
        )),
        None => Ok(()),
    }
}

async fn behind(make: Make, scope: &Scope, world: &World) -> Result<Isolation, String> {
    let walls = match make {
        Make::Native => Walls::native(scope),
        Make::Filter => Walls::filter(),
        Make::Bubblewrap => {
            let found = tokio::task::spawn_blocking(probe::bubblewrap).await;
            let found = found.map_err(|error| error.to_string())?;
            Walls::bubblewrap(scope, found.map_err(|line| line.text.clone())?)
        }
    };
    let proof = trial::reach(Some(&walls), world).await?;
    match proof.tcp || proof.udp {
        true => Err("the network can still be reached".to_owned()),
        false => Ok(accepted(walls, &proof)),
    }
}

fn accepted(walls: Walls, proof: &Reached) -> Isolation {
    let by = walls.make().told();
    let mut told = vec![format!(
        "network: blocked by {by}; a test TCP port and a test UDP port could not be reached"
    )];
    let no_socket_walls = proof
        .unix
        .then(|| format!("a test socket can still be reached with {by}"));
    told.push(match (&no_socket_walls, proof.unix_tried) {
        (Some(why), _) => format!("unix sockets: not hidden: {why}"),
        (None, true) => format!("unix sockets: hidden by {by}; a test socket could not be reached"),
        (None, false) => "unix sockets: not tested: no test socket could be created".to_owned(),
    });
    let no_credential_walls = match proof.read.first() {
        Some(path) if walls.make() == Make::Filter => Some(format!(
            "{by} cannot hide files; {} can still be read",
            path.display()
        )),
        Some(path) => Some(format!("{} can still be read", path.display())),
        None => None,
    };
    told.push(match &no_credential_walls {
        Some(why) => format!("credentials: not hidden: {why}"),
        None => format!(
            "credentials: hidden by {by}: {} existing locations, and one test file",
            walls.hidden.len().saturating_sub(1)
        ),
    });
    for kept in &walls.kept {
        let kept = kept.display();
        told.push(format!(
            "{kept} is still visible, because the tool needs it"
        ));
    }
    Isolation {
        told,
        no_network_walls: None,
        no_credential_walls,
        no_socket_walls: match proof.unix_tried {
            true => no_socket_walls,
            false => Some("no unix socket could be created for the self-test".to_owned()),
        },
        walls: Some(walls),
    }
}

/// Creates the directory of the self-test with its test credential, and lists what to hide.
fn prepared(needs: &Needs, root: &Path) -> std::io::Result<(Scope, World)> {
    let world = World::new(root.join("walls"))?;
    let planted = world.root.join("planted");
    std::fs::create_dir_all(planted.join(".config/aoi"))?;
    std::fs::write(trial::planted(&world), "secret")?;
    let empty = world.root.join("empty");
    std::fs::write(&empty, "")?;
    let mut homes = homes();
    let more = needs
        .credentials
        .iter()
        .map(|path| match path.strip_prefix("~/") {
            Some(rest) => homes.first().map_or_else(|| rest.into(), |h| h.join(rest)),
            None => PathBuf::from(path),
        });
    let more = more.filter(|path| path.is_absolute()).collect();
    homes.push(planted);
    let sockets = ["/run", "/var/run"].map(PathBuf::from).into_iter();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = sockets.chain(runtime).filter(|path| path.is_absolute());
    let scope = Scope {
        homes,
        more,
        sockets: sockets.collect(),
        keep: kept(needs, root),
        empty,
    };
    Ok((scope, world))
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
fn kept(needs: &Needs, root: &Path) -> Vec<PathBuf> {
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
