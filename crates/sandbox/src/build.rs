//! Translates a policy into mounts, Landlock rights and filters. The result is the same for every
//! backend.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::plan::{
    Confinement, Mount, MountKind, PLACEHOLDER_FILE_MODE, PLACEHOLDER_MODE, PLACEHOLDER_TEXTS,
    PlanKind, Raw, Resource, Rights, Seccomp, SpawnPlan,
};
use super::policy::{Access, Exec, HiddenKind, PathGrant, Policy, SandboxSpec, is_separated};

/// Links of the merged `/usr` that programs and scripts use.
const USUAL_LINKS: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib64", "/lib32"];

/// The plan of a native spawn. `command` is the whole argv, and starts with the full path of the
/// program.
pub fn plan(policy: &Policy, command: &[OsString]) -> SpawnPlan {
    let mut leftovers = Vec::new();
    let confinement = confinement(policy, &mut leftovers);
    SpawnPlan {
        kind: PlanKind::Native,
        argv: command.iter().map(Raw::from).collect(),
        env: policy
            .env
            .iter()
            .map(|(name, value)| (Raw::from(name), Raw::from(value)))
            .collect(),
        cwd: Raw::from(&policy.cwd),
        tty: policy.tty.is_some(),
        no_stdin: false,
        linger_ms: 0,
        // A core dump would write the child's memory, including secrets, to the host.
        rlimits: vec![(Resource::CoreSize, 0)],
        cgroups: Vec::new(),
        leftovers,
        confinement: Some(confinement),
        sources: Vec::new(),
        source_identities: Vec::new(),
        inner: None,
    }
}

/// Size of the shared memory of a child without private directories, in bytes.
const SMALLEST: u64 = 4096;

fn confinement(policy: &Policy, leftovers: &mut Vec<Raw>) -> Confinement {
    let listed = matches!(policy.exec, Exec::Listed { .. });
    let mut tree = Tree::default();
    tree.add("/proc", MountKind::Proc);
    let size = policy.private_size;
    // The kernel does not limit a size of zero.
    let shared = size.max(SMALLEST);
    tree.add("/dev", MountKind::Dev { size: shared });
    let private = |exec| match size {
        0 => MountKind::Empty,
        size => MountKind::Private { exec, size },
    };
    tree.add("/tmp", private(!listed));
    let grants = effective(policy);
    let inside_grant = |path: &Path| grants.iter().any(|g| path.starts_with(&g.at));
    // AIP-29 does not define a private home: a home that is not granted does not exist.
    if policy.spec == SandboxSpec::Aip36 && !inside_grant(&policy.home) {
        tree.add(&policy.home, private(!listed));
    }
    let mut landlock = vec![rights("/proc", false, false), rights("/dev", true, false)];
    for grant in &grants {
        let write = grant.access == Access::Write;
        landlock.push(rights(&grant.at, write, grant.exec && !listed));
        tree.add(&grant.at, bind(grant));
    }
    for link in USUAL_LINKS.map(Path::new) {
        if let Ok(to) = std::fs::read_link(link) {
            tree.link(link, to);
        }
    }
    for link in &policy.links {
        tree.link(&link.at, link.to.clone());
    }
    for denial in &policy.denials {
        // A path is seen through its innermost grant.
        let containing = grants.iter().filter(|g| denial.path.starts_with(&g.at));
        let Some(grant) = containing.max_by_key(|g| g.at.components().count()) else {
            continue;
        };
        let below = denial.path.strip_prefix(&grant.at);
        let source = grant.source.join(below.unwrap_or(Path::new("")));
        let is_missing = matches!(
            denial.kind,
            HiddenKind::Missing | HiddenKind::Reserved | HiddenKind::ReservedFile(_)
        );
        if is_missing && grant.access == Access::Read {
            continue;
        }
        // A placeholder may belong to another session, which may end before this one.
        if is_missing || is_placeholder(&source) {
            leftovers.push(Raw::from(&source));
        }
        let what = match denial.kind {
            HiddenKind::File => MountKind::Mask { directory: false },
            HiddenKind::Directory | HiddenKind::Missing => MountKind::Mask { directory: true },
            HiddenKind::Reserved => MountKind::Reserved,
            HiddenKind::ReservedFile(text) => MountKind::ReservedFile {
                source: Raw::from(&source),
                text: text.to_owned(),
            },
            HiddenKind::State => MountKind::Empty,
        };
        tree.add(&denial.path, what);
    }
    tree.ensure(&policy.cwd);
    landlock.extend(tree.private_rights());
    if let Exec::Listed { programs, .. } = &policy.exec {
        for program in programs {
            landlock.push(rights(program, false, true));
        }
    }
    let (no_fork, no_memory_exec) = match policy.exec {
        Exec::Visible => (false, false),
        Exec::Listed { fork, .. } => (!fork, true),
    };
    Confinement {
        mounts: tree.into_mounts(),
        landlock,
        seccomp: Seccomp {
            no_fork,
            no_memory_exec,
        },
        proxy: !policy.egress.is_empty(),
    }
}

fn rights(path: impl AsRef<Path>, write: bool, exec: bool) -> Rights {
    Rights {
        path: Raw::from(path.as_ref()),
        write,
        exec,
    }
}

fn bind(grant: &PathGrant) -> MountKind {
    MountKind::Bind {
        source: Raw::from(&grant.source),
        writable: grant.access == Access::Write,
        exec: grant.exec,
    }
}

/// Grants without those that a denial removes, and without those that change nothing.
fn effective(policy: &Policy) -> Vec<&PathGrant> {
    let denied = |grant: &PathGrant| {
        policy
            .denials
            .iter()
            .any(|denial| denial.kind.removes_grants() && grant.at.starts_with(&denial.path))
    };
    let mut kept: Vec<&PathGrant> = Vec::new();
    let mut grants: Vec<&PathGrant> = policy.grants.iter().filter(|g| !denied(g)).collect();
    grants.sort_by_key(|g| (g.at.components().count(), g.access == Access::Write, g.exec));
    for grant in grants {
        let around = kept.iter().filter(|wider| grant.at.starts_with(&wider.at));
        let innermost = around.max_by_key(|wider| wider.at.components().count());
        let changes = innermost.is_none_or(|wider| {
            !shows(wider, grant) || is_separated(&policy.denials, wider, grant)
        });
        if changes || is_protective_mount(policy, grant) {
            kept.push(grant);
        }
    }
    kept
}

/// Whether the wider grant already shows the contents of the other one in the same way.
fn shows(wider: &PathGrant, grant: &PathGrant) -> bool {
    let same_place = match (
        grant.at.strip_prefix(&wider.at),
        grant.source.strip_prefix(&wider.source),
    ) {
        (Ok(at), Ok(source)) => at == source,
        _ => false,
    };
    same_place && (wider.access, wider.exec) == (grant.access, grant.exec)
}

/// Whether the grant is a writable directory around something that must stay in place. As a
/// separate mount the directory cannot be renamed and created again.
fn is_protective_mount(policy: &Policy, grant: &PathGrant) -> bool {
    let below = |path: &Path| path != grant.at && path.starts_with(&grant.at);
    grant.access == Access::Write
        && (policy.denials.iter().any(|denial| below(&denial.path))
            || policy
                .grants
                .iter()
                .any(|g| g.access == Access::Read && below(&g.at)))
}

/// Mounts by path. A later mount replaces an earlier one at the same path.
#[derive(Default)]
struct Tree {
    mounts: BTreeMap<PathBuf, MountKind>,
    plain: BTreeSet<PathBuf>,
}

impl Tree {
    fn add(&mut self, at: impl Into<PathBuf>, what: MountKind) {
        self.mounts.insert(at.into(), what);
    }

    /// Adds a link, unless an existing mount already shows it.
    fn link(&mut self, at: &Path, to: PathBuf) {
        let shown = self
            .mounts
            .iter()
            .any(|(mount, what)| at.starts_with(mount) && matches!(what, MountKind::Bind { .. }));
        if !shown {
            self.add(at, MountKind::Symlink { to: to.into() });
        }
    }

    /// Adds an empty directory, unless a mount already provides it.
    fn ensure(&mut self, path: &Path) {
        let containing = self.mounts.iter().filter(|(at, _)| path.starts_with(at));
        let container = containing.max_by_key(|(at, _)| at.components().count());
        let exists = match container {
            Some((_, MountKind::Bind { .. })) => true,
            Some((at, MountKind::Private { .. })) => at == path,
            _ => path == Path::new("/"),
        };
        if !exists {
            self.plain.insert(path.to_owned());
        }
    }

    fn private_rights(&self) -> Vec<Rights> {
        let private = self.mounts.iter().filter_map(|(at, what)| match what {
            MountKind::Private { exec, .. } => Some(rights(at, true, *exec)),
            _ => None,
        });
        private.collect()
    }

    /// Mounts in order: parents before their contents, and masks after what they hide.
    fn into_mounts(self) -> Vec<Mount> {
        let plain = self.plain.into_iter().map(|at| (at, MountKind::Directory));
        let mut mounts: Vec<Mount> = self
            .mounts
            .into_iter()
            .chain(plain)
            .map(|(at, what)| Mount {
                at: at.into(),
                what,
            })
            .collect();
        mounts.sort_by_key(|mount| {
            let is_mask = matches!(mount.what, MountKind::Mask { .. });
            (is_mask, mount.at.path().components().count())
        });
        mounts
    }
}

/// Whether a directory or file reserves a name for a session. The mode alone is not enough, because
/// a program could set it on a directory with contents.
pub(crate) fn is_placeholder(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::symlink_metadata(path).is_ok_and(|meta| {
        let mode = meta.permissions().mode() & 0o7777;
        match meta.is_dir() {
            true => {
                let is_empty = |mut entries: std::fs::ReadDir| entries.next().is_none();
                mode == PLACEHOLDER_MODE && std::fs::read_dir(path).is_ok_and(is_empty)
            }
            false => {
                let is_known =
                    |text: Vec<u8>| PLACEHOLDER_TEXTS.iter().any(|t| t.as_bytes() == text);
                meta.is_file()
                    && mode == PLACEHOLDER_FILE_MODE
                    && meta.len() < 16
                    && std::fs::read(path).is_ok_and(is_known)
            }
        }
    })
}
