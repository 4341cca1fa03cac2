//! The kinds of isolation, and what a run can see in each of them.

use std::path::{Path, PathBuf};

use agentproto_sandbox::bwrap::{self, Bubblewrap};
use agentproto_sandbox::plan::{Confinement, Kind, Mount, Plan, Raw, Rights, Seccomp, What};

/// Locations in a home directory where programs keep credentials. The home directory itself stays
/// visible, because the tool may be installed in it.
const CREDENTIALS: [&str; 21] = [
    ".config",
    ".aws",
    ".azure",
    ".kube",
    ".netrc",
    ".docker",
    ".ssh",
    ".gnupg",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".boto",
    ".vault-token",
    ".password-store",
    ".databrickscfg",
    ".local/share/keyrings",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d/credentials.tfrc.json",
];

/// How a run is isolated from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// User, network and mount namespaces that we create.
    Native,
    /// Namespaces created by bubblewrap.
    Bubblewrap,
    /// A seccomp filter only: it blocks sockets, but cannot hide files.
    Filter,
}

impl Make {
    /// Description for messages.
    pub fn told(self) -> &'static str {
        match self {
            Make::Native => "user, network and mount namespaces",
            Make::Bubblewrap => "bubblewrap",
            Make::Filter => "a seccomp filter",
        }
    }
}

/// What to hide, and what must stay visible.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Home directories.
    pub homes: Vec<PathBuf>,
    /// Credential files that the probe file names.
    pub more: Vec<PathBuf>,
    /// Directories with the unix sockets of daemons.
    pub sockets: Vec<PathBuf>,
    /// The tool, the directories on `PATH`, and the directory of the runs.
    pub keep: Vec<PathBuf>,
    /// Empty file that replaces hidden files.
    pub empty: PathBuf,
}

/// A configured isolation.
#[derive(Clone, Debug)]
pub struct Walls {
    make: Make,
    confinement: Confinement,
    bubblewrap: Option<&'static Bubblewrap>,
    /// Existing credential locations that are hidden.
    pub hidden: Vec<PathBuf>,
    /// Parts of them that stay visible, because the tool needs them.
    pub kept: Vec<PathBuf>,
}

impl Walls {
    /// Blocks sockets with a seccomp filter.
    pub fn filter() -> Walls {
        Walls {
            make: Make::Filter,
            confinement: Confinement::default(),
            bubblewrap: None,
            hidden: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Isolates with bubblewrap.
    pub fn bubblewrap(scope: &Scope, found: &'static Bubblewrap) -> Walls {
        Walls {
            make: Make::Bubblewrap,
            bubblewrap: Some(found),
            ..Walls::native(scope)
        }
    }

    /// Isolates with namespaces: no network except a private loopback, no sockets of daemons, no
    /// credentials.
    pub fn native(scope: &Scope) -> Walls {
        let mut view = View::new(scope);
        let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
        for entry in entries {
            view.top(&entry);
        }
        for path in &scope.sockets {
            view.hide(path, true);
        }
        let below = scope
            .homes
            .iter()
            .flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        // A credential that the probe file names is always hidden, even if the command line refers
        // to it.
        let named = scope.more.iter().map(|path| (path.clone(), false));
        for (path, keeps) in named.chain(below.map(|path| (path, true))) {
            if let Some(hidden) = view.hide(&path, keeps) {
                view.hidden.push(hidden);
            }
        }
        Walls {
            make: Make::Native,
            bubblewrap: None,
            confinement: Confinement {
                mounts: view.mounts,
                landlock: vec![Rights {
                    path: Raw::from("/"),
                    write: true,
                    exec: true,
                }],
                seccomp: Seccomp::default(),
                proxy: false,
            },
            hidden: view.hidden,
            kept: view.kept,
        }
    }

    /// The kind of isolation.
    pub fn make(&self) -> Make {
        self.make
    }

    /// Adds the isolation to the plan of a run.
    pub fn around(&self, plan: Plan) -> Plan {
        if self.make == Make::Filter {
            return Plan {
                kind: Kind::Offline,
                ..plan
            };
        }
        let walled = Plan {
            kind: Kind::Native,
            confinement: Some(self.confinement.clone()),
            ..plan
        };
        match self.bubblewrap {
            None => walled,
            // If bubblewrap cannot be used, the run fails. It never continues without isolation.
            Some(found) => bwrap::plan(walled.clone(), found).unwrap_or(walled),
        }
    }
}

struct View<'s> {
    scope: &'s Scope,
    mounts: Vec<Mount>,
    hidden: Vec<PathBuf>,
    kept: Vec<PathBuf>,
}

impl View<'_> {
    fn new(scope: &Scope) -> View<'_> {
        View {
            scope,
            mounts: Vec::new(),
            hidden: Vec::new(),
            kept: Vec::new(),
        }
    }

    fn add(&mut self, at: &Path, what: What) {
        let at = Raw::from(at);
        self.mounts.push(Mount { at, what });
    }

    /// Shows an entry of the root directory. `/proc` and `/dev` are created anew.
    fn top(&mut self, entry: &std::fs::DirEntry) {
        let path = entry.path();
        match path.to_str() {
            Some("/proc") => self.add(&path, What::Proc),
            Some("/dev") => self.add(&path, What::Dev),
            Some("/sys") => self.show(&path, false),
            _ => self.show(&path, true),
        }
    }

    fn show(&mut self, path: &Path, writable: bool) {
        let Ok(meta) = std::fs::symlink_metadata(path) else {
            return;
        };
        if !meta.is_symlink() {
            let source = Raw::from(path);
            let exec = true;
            self.add(
                path,
                What::Bind {
                    source,
                    writable,
                    exec,
                },
            );
        } else if let Ok(to) = std::fs::read_link(path) {
            self.add(path, What::Symlink { to: Raw::from(to) });
        }
    }

    /// Hides a path with symlinks resolved, except for the parts that must stay visible. Returns
    /// the resolved path if it exists and was not hidden before.
    fn hide(&mut self, path: &Path, keeps: bool) -> Option<PathBuf> {
        let path = std::fs::canonicalize(path).ok()?;
        let is_done = |mount: &Mount| {
            path.starts_with(mount.at.path()) && matches!(mount.what, What::Private { .. })
        };
        if path == Path::new("/") || self.mounts.iter().any(is_done) {
            return None;
        }
        if !path.is_dir() {
            let source = Raw::from(&self.scope.empty);
            self.add(
                &path,
                What::Bind {
                    source,
                    writable: false,
                    exec: false,
                },
            );
            return Some(path);
        }
        // The directory is empty rather than unreadable, so that a tool can look for an optional
        // file.
        self.add(&path, What::Private { exec: false });
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        for child in entries.map(|entry| entry.path()) {
            if keeps && self.scope.keep.iter().any(|kept| kept.starts_with(&child)) {
                self.show(&child, true);
                self.kept.push(child);
            }
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_sandbox::workplace::Workplace;

    fn of<'w>(walls: &'w Walls, path: &Path) -> Option<&'w What> {
        let mounts = walls.confinement.mounts.iter();
        mounts
            .rev()
            .find(|mount| mount.at.path() == path)
            .map(|mount| &mount.what)
    }

    #[test]
    fn credentials_are_hidden_and_the_tool_stays_visible() {
        let place = Workplace::new("walls").expect("a directory");
        let home = place.path().join("home");
        for dir in [".config/nvm/bin", ".config/gh", ".aws", "bin"] {
            std::fs::create_dir_all(home.join(dir)).expect("made");
        }
        std::fs::write(home.join(".netrc"), "machine x").expect("written");
        let scope = Scope {
            homes: vec![home.clone()],
            keep: vec![home.join(".config/nvm/bin")],
            empty: place.path().join("empty"),
            ..Scope::default()
        };
        let walls = Walls::native(&scope);
        let private = |path: &str| {
            matches!(
                of(&walls, &home.join(path)),
                Some(What::Private { exec: false })
            )
        };
        assert!(private(".config") && private(".aws") && !private("bin"));
        let bound = |path: &str| match of(&walls, &home.join(path)) {
            Some(What::Bind { source, .. }) => Some(source.path().to_owned()),
            _ => None,
        };
        assert_eq!(bound(".config/nvm"), Some(home.join(".config/nvm")));
        assert_eq!(bound(".config/gh"), None);
        assert_eq!(bound(".netrc"), Some(place.path().join("empty")));
        assert_eq!(walls.hidden.len(), 3);
        assert_eq!(walls.kept, [home.join(".config/nvm")]);
        assert_eq!(of(&walls, Path::new("/proc")), Some(&What::Proc));
    }
}
