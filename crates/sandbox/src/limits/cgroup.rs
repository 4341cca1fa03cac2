//! Control groups: finds where we can create groups, in version 1, version 2 or a hybrid of both,
//! and accesses the files of a group.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Version of the control group interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
}

/// A group in which we can create groups. This was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupParent {
    /// Version of its hierarchy.
    pub version: CgroupVersion,
    /// Its directory.
    pub dir: PathBuf,
    /// Memory limit of the groups between this one and the runner's own, in bytes. Our groups must
    /// not bypass it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_ceiling: Option<u64>,
    /// Process limit of the groups between this one and the runner's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_ceiling: Option<u64>,
}

/// The group in which each resource can be limited, or the reason why it cannot.
#[derive(Clone, Debug, Serialize)]
pub struct CgroupParents {
    /// Where memory can be limited.
    #[serde(serialize_with = "parent_or_reason")]
    pub memory: Result<CgroupParent, String>,
    /// Where the number of processes can be limited.
    #[serde(serialize_with = "parent_or_reason")]
    pub pids: Result<CgroupParent, String>,
    /// Where processor time can be measured.
    #[serde(serialize_with = "parent_or_reason")]
    pub cpu: Result<CgroupParent, String>,
}

fn parent_or_reason<S: Serializer>(
    group: &Result<CgroupParent, String>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(1))?;
    match group {
        Ok(group) => map.serialize_entry("place", group)?,
        Err(why) => map.serialize_entry("why", why)?,
    }
    map.end()
}

/// The groups of this machine, determined once per process.
pub(crate) fn parents() -> &'static CgroupParents {
    static PARENTS: OnceLock<CgroupParents> = OnceLock::new();
    PARENTS.get_or_init(|| {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Layout::parse(&own, &mounts).parents()
    })
}

/// The runner's own groups.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    /// Mount point and own directory in version 2.
    unified: Option<(PathBuf, PathBuf)>,
    /// Own directory of each controller in version 1.
    legacy: Vec<(String, PathBuf)>,
}

impl Layout {
    fn parse(own: &str, mountinfo: &str) -> Self {
        let mut layout = Self::default();
        for line in own.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            for mount in mountinfo.lines().filter_map(MountInfo::parse) {
                if controllers.is_empty() && mount.kind == "cgroup2" {
                    let dir = mount.directory(path);
                    layout.unified = dir.map(|dir| (PathBuf::from(mount.at), dir));
                } else if !controllers.is_empty() && mount.kind == "cgroup" {
                    let named = |c: &&str| mount.options.split(',').any(|option| option == *c);
                    let Some(dir) = mount.directory(path) else {
                        continue;
                    };
                    for controller in controllers.split(',').filter(named) {
                        layout.legacy.push((controller.to_owned(), dir.clone()));
                    }
                }
            }
        }
        layout
    }

    fn parents(&self) -> CgroupParents {
        let available = self
            .unified
            .as_ref()
            .map(|(_, own)| read_words(own, "cgroup.controllers"));
        let available = available.unwrap_or_default();
        let needed: Vec<&str> = ["memory", "pids"]
            .into_iter()
            .filter(|name| available.iter().any(|a| a == name))
            .collect();
        let usable =
            |dir: &Path| check_own_and_writable(dir).and_then(|()| try_group(dir, "cpu.stat"));
        let unified = self.unified_parent(&needed, usable);
        let one = |controller: &str, file: &str| {
            let here = needed.contains(&controller);
            match (&unified, here) {
                (Ok(group), true) => Ok(group.clone()),
                (Err(why), true) => Err(why.clone()),
                (_, false) => self.legacy_parent(controller, file),
            }
        };
        let memory = one("memory", "memory.limit_in_bytes");
        let pids = one("pids", "pids.max");
        // Version 2 measures processor time in every group, regardless of its controllers.
        let cpu = unified
            .or_else(|_| self.unified_parent(&[], usable))
            .or_else(|_| self.legacy_parent("cpuacct", "cpuacct.usage"));
        CgroupParents { memory, pids, cpu }
    }

    /// The nearest group, from our own upwards, that delegates the controllers to its children. A
    /// group with processes cannot do that, so it is rarely the session's own group.
    fn unified_parent(
        &self,
        needed: &[&str],
        usable: impl Fn(&Path) -> Result<(), String>,
    ) -> Result<CgroupParent, String> {
        let Some((mount, own)) = &self.unified else {
            return Err("control groups version 2 are not mounted".to_owned());
        };
        let mut group = CgroupParent {
            version: CgroupVersion::V2,
            dir: own.clone(),
            memory_ceiling: None,
            pids_ceiling: None,
        };
        let mut why = None;
        for dir in own.ancestors().take_while(|dir| dir.starts_with(mount)) {
            let delegated = read_words(dir, "cgroup.subtree_control");
            let missing = needed.iter().find(|n| !delegated.iter().any(|h| h == *n));
            let tried = match missing {
                Some(name) => Err(format!("{} does not delegate `{name}`", dir.display())),
                None => usable(dir),
            };
            match tried {
                Ok(()) => {
                    group.dir = dir.to_owned();
                    return Ok(group);
                }
                Err(reason) => why = why.or(Some(reason)),
            }
            if needed.is_empty() {
                break;
            }
            group.memory_ceiling = lower(group.memory_ceiling, read_number(dir, "memory.max"));
            group.pids_ceiling = lower(group.pids_ceiling, read_number(dir, "pids.max"));
        }
        Err(why.unwrap_or_else(|| "no control group is delegated to us".to_owned()))
    }

    fn legacy_parent(&self, controller: &str, file: &str) -> Result<CgroupParent, String> {
        let found = self.legacy.iter().find(|(name, _)| name == controller);
        let Some((_, dir)) = found else {
            return Err(format!("the controller `{controller}` is not available"));
        };
        try_group(dir, file)?;
        Ok(CgroupParent {
            version: CgroupVersion::V1,
            dir: dir.clone(),
            memory_ceiling: None,
            pids_ceiling: None,
        })
    }
}

/// A line of `/proc/self/mountinfo`.
struct MountInfo<'a> {
    /// The part of the file system that is mounted.
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> MountInfo<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (location, kind) = line.split_once(" - ")?;
        let mut location = location.split(' ').skip(3);
        let (root, at) = (location.next()?, location.next()?);
        let mut kind = kind.split(' ');
        Some(Self {
            root,
            at,
            kind: kind.next()?,
            options: kind.nth(1).unwrap_or_default(),
        })
    }

    /// The directory where a group of this hierarchy is visible, if it is.
    fn directory(&self, group: &str) -> Option<PathBuf> {
        let below = Path::new(group).strip_prefix(self.root).ok()?;
        let escapes = below.components().any(|part| part.as_os_str() == "..");
        // Joining an empty path would add a slash.
        let dir = Path::new(self.at).components().chain(below.components());
        (!escapes).then(|| dir.collect())
    }
}

fn read_words(dir: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn read_number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

fn lower(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Checks that we own and can write to a group. In version 2, only then may we move processes below
/// it.
fn check_own_and_writable(dir: &Path) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("{} {why}", dir.display()));
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    match fs::metadata(dir) {
        Ok(about) if about.uid() == user => {}
        _ => return refuse("belongs to another user"),
    }
    let procs = dir.join("cgroup.procs");
    let Ok(path) = std::ffi::CString::new(procs.as_os_str().as_bytes()) else {
        return refuse("is not a valid path");
    };
    // SAFETY: a C string that outlives the call.
    match unsafe { libc::access(path.as_ptr(), libc::W_OK) } {
        0 => Ok(()),
        _ => refuse("is not writable"),
    }
}

/// Creates a group, checks that it has a file, and removes it.
fn try_group(parent: &Path, file: &str) -> Result<(), String> {
    let dir = create(parent)
        .map_err(|e| format!("cannot create a group in {}: {e}", parent.display()))?;
    let exists = dir.join(file).exists();
    let _ = fs::remove_dir(&dir);
    if exists {
        Ok(())
    } else {
        Err(format!("groups in {} have no `{file}`", parent.display()))
    }
}

const PREFIX: &str = "agentproto";

/// Creates an empty group.
pub(crate) fn create(parent: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = parent.join(format!("{PREFIX}-{}-{count}", std::process::id()));
    fs::create_dir(&dir)?;
    Ok(dir)
}

/// Removes groups of runners that are gone and could not clean up. A group with a process cannot be
/// removed.
pub(crate) fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            let (owner, count) = name
                .strip_prefix(PREFIX)?
                .strip_prefix('-')?
                .split_once('-')?;
            let _: u64 = count.parse().ok()?;
            owner.parse::<u32>().ok()
        });
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Limits the memory. Swap is included, because it would only hide the excess.
pub(crate) fn limit_memory(version: CgroupVersion, dir: &Path, bytes: u64) -> io::Result<()> {
    let set = |file: &str, value: u64| fs::write(dir.join(file), value.to_string());
    let set_if_there = |file: &str, value: u64| match set(file, value) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        // Without swap accounting the file does not exist and cannot be created.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && !dir.join(file).exists() => Ok(()),
        other => other,
    };
    match version {
        CgroupVersion::V2 => {
            set("memory.max", bytes)?;
            set_if_there("memory.swap.max", 0)
        }
        CgroupVersion::V1 => {
            set("memory.limit_in_bytes", bytes)?;
            set_if_there("memory.memsw.limit_in_bytes", bytes)
        }
    }
}

pub(crate) fn limit_pids(dir: &Path, count: u64) -> io::Result<()> {
    fs::write(dir.join("pids.max"), count.to_string())
}

/// Reads the processor time of a running group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuMeter {
    version: CgroupVersion,
    file: PathBuf,
}

impl CpuMeter {
    /// Reads the group in a directory.
    pub fn new(version: CgroupVersion, dir: &Path) -> Self {
        let file = match version {
            CgroupVersion::V1 => "cpuacct.usage",
            CgroupVersion::V2 => "cpu.stat",
        };
        Self {
            version,
            file: dir.join(file),
        }
    }

    /// The processor time so far, or `None` if the group is gone.
    pub fn spent(&self) -> Option<Duration> {
        let text = fs::read_to_string(&self.file).ok()?;
        match self.version {
            CgroupVersion::V1 => text.trim().parse().ok().map(Duration::from_nanos),
            CgroupVersion::V2 => {
                let line = text.lines().find_map(|l| l.strip_prefix("usage_usec "))?;
                line.trim().parse().ok().map(Duration::from_micros)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 /box /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn hybrid_layouts_are_read() {
        let own = "4:memory:/box/a\n2:cpu,cpuacct:/x\n1:name=systemd:/y\n0::/z:1\n";
        let layout = Layout::parse(own, HYBRID);
        let at = |path: &str| PathBuf::from(format!("/sys/fs/cgroup/{path}"));
        assert_eq!(layout.unified, Some((at("unified"), at("unified/z:1"))));
        assert_eq!(
            layout.legacy,
            [
                ("memory".to_owned(), at("memory/a")),
                ("cpu".to_owned(), at("cpu,cpuacct/x")),
                ("cpuacct".to_owned(), at("cpu,cpuacct/x")),
            ]
        );
    }

    #[test]
    fn groups_outside_the_mounts_are_ignored() {
        assert_eq!(
            Layout::parse("4:memory:/other\n", HYBRID),
            Layout::default()
        );
        assert_eq!(Layout::parse("0::/../up\n", HYBRID), Layout::default());
        assert_eq!(Layout::parse("nonsense", "- - -"), Layout::default());
    }

    #[test]
    fn a_parent_group_is_used_with_the_limits_in_between() {
        let mount = tempfile::tempdir().expect("directory");
        let own = mount.path().join("slice/scope/session");
        fs::create_dir_all(&own).expect("made");
        let write = |dir: &str, file: &str, text: &str| {
            fs::write(mount.path().join(dir).join(file), text).expect("written");
        };
        write("slice", "cgroup.subtree_control", "cpu memory pids\n");
        write("slice", "memory.max", "5\n");
        write("slice/scope", "cgroup.subtree_control", "pids\n");
        write("slice/scope", "memory.max", "100\n");
        write("slice/scope", "pids.max", "max\n");
        write("slice/scope/session", "memory.max", "200\n");
        write("slice/scope/session", "pids.max", "7\n");
        let layout = Layout {
            unified: Some((mount.path().to_owned(), own.clone())),
            legacy: vec![],
        };
        let group = layout.unified_parent(&["memory", "pids"], |_| Ok(()));
        assert_eq!(
            group,
            Ok(CgroupParent {
                version: CgroupVersion::V2,
                dir: mount.path().join("slice"),
                memory_ceiling: Some(100),
                pids_ceiling: Some(7),
            })
        );
        let alone = layout.unified_parent(&[], |_| Ok(())).expect("its own");
        assert_eq!((alone.dir, alone.pids_ceiling), (own, None));
        let refused = layout.unified_parent(&["memory"], |_| Err("not ours".to_owned()));
        assert!(refused.is_err_and(|why| why.contains("does not delegate `memory`")));
    }

    #[test]
    fn the_lower_limit_is_used() {
        assert_eq!(lower(None, None), None);
        assert_eq!(lower(Some(3), None), Some(3));
        assert_eq!(lower(Some(3), Some(2)), Some(2));
    }
}
