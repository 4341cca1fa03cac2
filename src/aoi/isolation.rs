//! Discovery must need neither credentials nor a network (§3): walls that take both away.

use std::path::{Path, PathBuf};

use crate::runtime::sandbox::plan::{Confinement, Kind, Mount, Plan, Raw, Rights, Seccomp, What};

/// Places below a home where programs keep credentials. The home itself stays: the tool may
/// live in it.
const CREDENTIALS: [&str; 8] = [
    ".config",
    ".aws",
    ".kube",
    ".netrc",
    ".docker",
    ".ssh",
    ".gnupg",
    ".git-credentials",
];

/// What stands around a run.
#[derive(Clone, Debug)]
pub struct Walls {
    confinement: Confinement,
}

impl Walls {
    /// No network but an own loopback, no sockets of daemons, no credentials.
    pub fn new(homes: &[PathBuf], more: &[PathBuf]) -> Walls {
        let mut mounts = Vec::new();
        let mut add = |at: &Path, what| {
            mounts.push(Mount {
                at: Raw::from(at),
                what,
            });
        };
        let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
        for entry in entries {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let what = match path.to_str() {
                Some("/proc") => What::Proc,
                Some("/dev") => What::Dev,
                Some("/run") => What::Private { exec: false },
                _ if kind.is_symlink() => match std::fs::read_link(&path) {
                    Ok(to) => What::Symlink { to: Raw::from(to) },
                    Err(_) => continue,
                },
                _ => What::Bind {
                    source: Raw::from(&path),
                    writable: path != Path::new("/sys"),
                    exec: true,
                },
            };
            add(&path, what);
        }
        let hidden = homes
            .iter()
            .flat_map(|home| CREDENTIALS.map(|name| home.join(name)))
            .chain(more.iter().cloned());
        for path in hidden {
            // Through links: the place itself is hidden, whatever leads there.
            if let Ok(path) = std::fs::canonicalize(&path) {
                let directory = path.is_dir();
                add(&path, What::Mask { directory });
            }
        }
        Walls {
            confinement: Confinement {
                mounts,
                landlock: vec![Rights {
                    path: Raw::from("/"),
                    write: true,
                    exec: true,
                }],
                seccomp: Seccomp::default(),
                proxy: false,
            },
        }
    }

    /// The same run, behind them.
    pub fn around(&self, plan: Plan) -> Plan {
        Plan {
            kind: Kind::Native,
            confinement: Some(self.confinement.clone()),
            ..plan
        }
    }
}
