//! The kinds of isolation, and what a run can see in each of them.

use std::path::{Path, PathBuf};

use agentproto_sandbox::bwrap::{self, Bubblewrap};
use agentproto_sandbox::plan::{
    Confinement, Mount, MountKind, PRIVATE_SIZE, PlanKind, Raw, Rights, Seccomp, SpawnPlan,
};

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
pub enum IsolationKind {
    /// User, network and mount namespaces that we create.
    Native,
    /// Namespaces created by bubblewrap.
    Bubblewrap,
    /// A seccomp filter only: it blocks sockets, but cannot hide files.
    Filter,
}

impl IsolationKind {
    /// Description for messages.
    pub fn describe(self) -> &'static str {
        match self {
            IsolationKind::Native => "namespaces (user, network, mount)",
            IsolationKind::Bubblewrap => "bubblewrap",
            IsolationKind::Filter => "a seccomp filter",
        }
    }
}

/// What to hide, and what must stay visible.
#[derive(Clone, Debug, Default)]
pub struct IsolationScope {
    /// Home directories.
    pub homes: Vec<PathBuf>,
    /// Credential files that the probe file names.
    pub credential_files: Vec<PathBuf>,
    /// Directories with the unix sockets of daemons.
    pub sockets: Vec<PathBuf>,
    /// The tool, the directories on `PATH`, and the directory of the runs.
    pub keep: Vec<PathBuf>,
    /// Empty file that replaces hidden files.
    pub empty: PathBuf,
}

/// A configured isolation.
#[derive(Clone, Debug)]
pub struct IsolationBackend {
    kind: IsolationKind,
    confinement: Confinement,
    bubblewrap: Option<&'static Bubblewrap>,
    /// Existing credential locations that are hidden.
    pub hidden: Vec<PathBuf>,
    /// Parts of them that stay visible, because the tool needs them.
    pub visible: Vec<PathBuf>,
}

impl IsolationBackend {
    /// Blocks sockets with a seccomp filter.
    pub fn filter() -> IsolationBackend {
        IsolationBackend {
            kind: IsolationKind::Filter,
            confinement: Confinement::default(),
            bubblewrap: None,
            hidden: Vec::new(),
            visible: Vec::new(),
        }
    }

    /// Isolates with bubblewrap.
    pub fn bubblewrap(scope: &IsolationScope, found: &'static Bubblewrap) -> IsolationBackend {
        IsolationBackend {
            kind: IsolationKind::Bubblewrap,
            bubblewrap: Some(found),
            ..IsolationBackend::native(scope)
        }
    }

    /// Isolates with namespaces: no network except a private loopback, no sockets of daemons, no
    /// credentials.
    pub fn native(scope: &IsolationScope) -> IsolationBackend {
        let mut view = View::new(scope);
        let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
        for entry in entries {
            view.show_root_entry(&entry);
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
        let named = scope
            .credential_files
            .iter()
            .map(|path| (path.clone(), false));
        for (path, keeps) in named.chain(below.map(|path| (path, true))) {
            if let Some(hidden) = view.hide(&path, keeps) {
                view.hidden.push(hidden);
            }
        }
        IsolationBackend {
            kind: IsolationKind::Native,
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
            visible: view.visible,
        }
    }

    /// The kind of isolation.
    pub fn kind(&self) -> IsolationKind {
        self.kind
    }

    /// Adds the isolation to the plan of a run.
    pub fn apply(&self, plan: SpawnPlan) -> SpawnPlan {
        if self.kind == IsolationKind::Filter {
            return SpawnPlan {
                kind: PlanKind::Offline,
                ..plan
            };
        }
        let walled = SpawnPlan {
            kind: PlanKind::Native,
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
    scope: &'s IsolationScope,
    mounts: Vec<Mount>,
    hidden: Vec<PathBuf>,
    visible: Vec<PathBuf>,
}

impl View<'_> {
    fn new(scope: &IsolationScope) -> View<'_> {
        View {
            scope,
            mounts: Vec::new(),
            hidden: Vec::new(),
            visible: Vec::new(),
        }
    }

    fn add(&mut self, at: &Path, what: MountKind) {
        let at = Raw::from(at);
        self.mounts.push(Mount { at, what });
    }

    /// Shows an entry of the root directory. `/proc` and `/dev` are created anew.
    fn show_root_entry(&mut self, entry: &std::fs::DirEntry) {
        let path = entry.path();
        match path.to_str() {
            Some("/proc") => self.add(&path, MountKind::Proc),
            Some("/dev") => self.add(&path, MountKind::Dev { size: PRIVATE_SIZE }),
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
                MountKind::Bind {
                    source,
                    writable,
                    exec,
                },
            );
        } else if let Ok(to) = std::fs::read_link(path) {
            self.add(path, MountKind::Symlink { to: Raw::from(to) });
        }
    }

    /// Hides a path with symlinks resolved, except for the parts that must stay visible. Returns
    /// the resolved path if it exists and was not hidden before.
    fn hide(&mut self, path: &Path, keeps: bool) -> Option<PathBuf> {
        let path = std::fs::canonicalize(path).ok()?;
        let is_done = |mount: &Mount| {
            path.starts_with(mount.at.path()) && matches!(mount.what, MountKind::Private { .. })
        };
        if path == Path::new("/") || self.mounts.iter().any(is_done) {
            return None;
        }
        if !path.is_dir() {
            let source = Raw::from(&self.scope.empty);
            self.add(
                &path,
                MountKind::Bind {
                    source,
                    writable: false,
                    exec: false,
                },
            );
            return Some(path);
        }
        // The directory is empty rather than unreadable, so that a tool can look for an optional
        // file.
        let private = MountKind::Private {
            exec: false,
            size: PRIVATE_SIZE,
        };
        self.add(&path, private);
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        for child in entries.map(|entry| entry.path()) {
            if keeps
                && self
                    .scope
                    .keep
                    .iter()
                    .any(|visible| visible.starts_with(&child))
            {
                self.show(&child, true);
                self.visible.push(child);
            }
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_sandbox::run_directory::RunDirectory;

    fn of<'w>(backend: &'w IsolationBackend, path: &Path) -> Option<&'w MountKind> {
        let mounts = backend.confinement.mounts.iter();
        mounts
            .rev()
            .find(|mount| mount.at.path() == path)
            .map(|mount| &mount.what)
    }

    #[test]
    fn credentials_are_hidden_and_the_tool_stays_visible() {
        let dir = RunDirectory::new("walls").expect("a directory");
        let home = dir.path().join("home");
        for dir in [".config/nvm/bin", ".config/gh", ".aws", "bin"] {
            std::fs::create_dir_all(home.join(dir)).expect("made");
        }
        std::fs::write(home.join(".netrc"), "machine x").expect("written");
        let scope = IsolationScope {
            homes: vec![home.clone()],
            keep: vec![home.join(".config/nvm/bin")],
            empty: dir.path().join("empty"),
            ..IsolationScope::default()
        };
        let backend = IsolationBackend::native(&scope);
        let private = |path: &str| {
            matches!(
                of(&backend, &home.join(path)),
                Some(MountKind::Private { exec: false, .. })
            )
        };
        assert!(private(".config") && private(".aws") && !private("bin"));
        let bound = |path: &str| match of(&backend, &home.join(path)) {
            Some(MountKind::Bind { source, .. }) => Some(source.path().to_owned()),
            _ => None,
        };
        assert_eq!(bound(".config/nvm"), Some(home.join(".config/nvm")));
        assert_eq!(bound(".config/gh"), None);
        assert_eq!(bound(".netrc"), Some(dir.path().join("empty")));
        assert_eq!(backend.hidden.len(), 3);
        assert_eq!(backend.visible, [home.join(".config/nvm")]);
        assert_eq!(of(&backend, Path::new("/proc")), Some(&MountKind::Proc));
    }
}
