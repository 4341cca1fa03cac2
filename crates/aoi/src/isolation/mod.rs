//! Discovery must need neither credentials nor a network (§3): walls that take both away, and a
//! proof on every run that they do. What is not proven is told, and nothing is built on it.

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

/// What discovery is shut off from on this machine.
#[derive(Clone, Debug)]
pub struct Isolation {
    pub walls: Option<Walls>,
    /// In words for the report.
    pub told: Vec<String>,
    /// Why the network cannot be taken away.
    pub no_network_walls: Option<String>,
    /// Why credentials cannot be hidden.
    pub no_credential_walls: Option<String>,
    /// Why the sockets of daemons cannot be.
    pub no_socket_walls: Option<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        nothing("the walls were not set up".to_owned())
    }
}

/// What a run needs to see, and what it must not.
#[derive(Clone, Debug, Default)]
pub struct Needs<'n> {
    /// The tool's words, the program by its path.
    pub argv: &'n [std::ffi::OsString],
    /// Credentials that the probe file names.
    pub credentials: &'n [String],
}

/// Tries one kind of wall after the other and keeps the first that holds.
pub async fn establish(needs: &Needs<'_>, root: &Path) -> Isolation {
    match prepared(needs, root) {
        Ok((scope, world)) => climb(&scope, &world).await,
        Err(error) => nothing(format!("the self-test cannot be set up: {error}")),
    }
}

fn nothing(why: String) -> Isolation {
    Isolation {
        walls: None,
        told: vec![format!("nothing: {why}")],
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

/// One kind of wall by itself, or why it does not hold here.
pub async fn prove(make: Make, needs: &Needs<'_>, root: &Path) -> Result<Isolation, String> {
    let (scope, world) = prepared(needs, root).map_err(|error| error.to_string())?;
    control(&world).await?;
    behind(make, &scope, &world).await
}

/// Without walls everything must be within reach: else that it is not behind them says nothing.
async fn control(world: &World) -> Result<(), String> {
    let control = trial::reach(None, world)
        .await
        .map_err(|why| format!("the self-test does not run: {why}"))?;
    match control.missing() {
        Some(what) => Err(format!("even without walls the self-test cannot {what}")),
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
        true => Err("the network is still there".to_owned()),
        false => Ok(accepted(walls, &proof)),
    }
}

fn accepted(walls: Walls, proof: &Reached) -> Isolation {
    let by = walls.make().told();
    let mut told = vec![format!(
        "network: taken away by {by}; a TCP and a UDP port of ours were out of reach"
    )];
    let no_socket_walls = proof
        .unix
        .then(|| format!("a unix socket of ours can still be reached behind {by}"));
    told.push(match (&no_socket_walls, proof.unix_tried) {
        (Some(why), _) => format!("unix sockets: not taken away: {why}"),
        (None, true) => format!("unix sockets: taken away by {by}; one of ours was out of reach"),
        (None, false) => "unix sockets: not tried, no place for one of ours".to_owned(),
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
            "credentials: hidden by {by}: {} places that are there, and one that was planted",
            walls.hidden.len().saturating_sub(1)
        ),
    });
    for kept in &walls.kept {
        let kept = kept.display();
        told.push(format!("{kept} stays to be seen: the tool needs it"));
    }
    Isolation {
        told,
        no_network_walls: None,
        no_credential_walls,
        no_socket_walls: match proof.unix_tried {
            true => no_socket_walls,
            false => Some("no unix socket could be made for the self-test".to_owned()),
        },
        walls: Some(walls),
    }
}

/// The directory of the self-test with its planted credentials, and what is hidden.
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

/// What the environment and what the user database call home.
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

/// The tool, the programs that it may need, ourselves, and where runs happen: by the names
/// that lead there and by their places.
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
