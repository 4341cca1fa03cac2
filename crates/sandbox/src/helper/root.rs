//! The file system that the target sees: an empty root into which allowed paths are mounted.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use super::sys;
use super::{Step, StepError, step};
use crate::plan::{Mount, MountKind, PLACEHOLDER_FILE_MODE, PLACEHOLDER_MODE};

const BASE_ATTRIBUTES: u64 = sys::ATTR_NOSUID | sys::ATTR_NODEV;
/// Source of the masks for files. No policy can name this path.
const MASK_SOURCE: &CStr = c".masked";
/// Source of the empty directories at reserved names.
const RESERVED_SOURCE: &CStr = c".reserved";
/// Size of directories in memory that nothing can be written to after the start.
const SMALL: u64 = 16 << 20;

/// Builds the root and enters it. All sources are opened before anything is hidden.
pub fn build(mounts: &[Mount]) -> Result<(), StepError> {
    raise_descriptor_limit();
    sys::private_mounts().step(step("make mounts private"))?;
    let sources = mounts
        .iter()
        .map(source)
        .collect::<Result<Vec<_>, StepError>>()?;
    let attributes = BASE_ATTRIBUTES | sys::ATTR_NOEXEC;
    let root = tmpfs(c"0755", SMALL, attributes).step(step("create the root"))?;
    let mount_point = sys::c_path(mount_point()).step(step("find a place for the root"))?;
    sys::attach(root.as_fd(), libc::AT_FDCWD, &mount_point).step(step("attach the root"))?;
    let root_fd = root.as_raw_fd();
    sys::make_file(root_fd, MASK_SOURCE, 0).step(step("create the mask"))?;
    sys::make_directory(root_fd, RESERVED_SOURCE, 0o555).step(step("create the mask"))?;
    // Directories that become read-only when everything is mounted in them.
    let mut open = Vec::new();
    for (mount, source) in mounts.iter().zip(sources) {
        let mounted = mount_at(root_fd, mount, source).step(|| {
            let kind = match mount.what {
                MountKind::Mask { .. }
                | MountKind::Reserved
                | MountKind::ReservedFile { .. }
                | MountKind::Empty => "hide",
                _ => "mount",
            };
            format!("{kind} {}", mount.at.path().display())
        })?;
        open.extend(mounted);
    }
    for mount in &open {
        sys::restrict_mount(mount.as_fd(), sys::ATTR_RDONLY, false)
            .step(step("make a directory read-only"))?;
    }
    sys::restrict_mount(root.as_fd(), sys::ATTR_RDONLY, false)
        .step(step("make the root read-only"))?;
    // SAFETY: `root_fd` is an open descriptor.
    sys::check(unsafe { libc::fchdir(root_fd) }.into()).step(step("enter the root"))?;
    sys::pivot_here().step(step("enter the root"))
}

/// A directory that certainly exists. The root is mounted over it, only in this namespace.
fn mount_point() -> &'static Path {
    let candidates = ["/tmp", "/usr", "/etc"].map(Path::new);
    candidates
        .into_iter()
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/"))
}

/// Raises the descriptor limit, because one descriptor per source is open at the same time.
pub fn raise_descriptor_limit() {
    // SAFETY: plain data that the first call fills in.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            let soft = limit.rlim_cur;
            limit.rlim_cur = limit.rlim_max.min(1 << 16).max(soft);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

fn tmpfs(mode: &CStr, size: u64, attributes: u64) -> io::Result<OwnedFd> {
    let size = CString::new(size.to_string())?;
    // Each empty file also needs memory.
    let options = [(c"mode", mode), (c"size", &*size), (c"nr_inodes", c"1m")];
    sys::new_mount(c"tmpfs", &options, attributes)
}

fn source(mount: &Mount) -> Result<Option<OwnedFd>, StepError> {
    let MountKind::Bind {
        source,
        writable,
        exec,
    } = &mount.what
    else {
        return Ok(None);
    };
    let opening = || format!("open {}", source.path().display());
    let tree = sys::clone_tree(source.path()).step(opening)?;
    let mut attributes = BASE_ATTRIBUTES;
    if !writable {
        attributes |= sys::ATTR_RDONLY;
    }
    if !exec {
        attributes |= sys::ATTR_NOEXEC;
    }
    sys::restrict_mount(tree.as_fd(), attributes, true).step(opening)?;
    Ok(Some(tree))
}

/// Makes one mount. Returns it if it must become read-only at the end.
fn mount_at(root: i32, mount: &Mount, source: Option<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    let (parent, at) = parent_and_name(root, mount.at.path())?;
    let dir = parent.as_raw_fd();
    match &mount.what {
        MountKind::Bind { .. } => {
            let Some(tree) = source else { return Ok(None) };
            if sys::is_directory(tree.as_fd())? {
                sys::make_directory(dir, &at, 0o755)?;
            } else {
                sys::make_file(dir, &at, 0o644)?;
            }
            sys::attach(tree.as_fd(), dir, &at)?;
        }
        MountKind::Private { exec, size } => {
            sys::make_directory(dir, &at, 0o700)?;
            let noexec = if *exec { 0 } else { sys::ATTR_NOEXEC };
            let mount = tmpfs(c"0700", *size, BASE_ATTRIBUTES | noexec)?;
            sys::attach(mount.as_fd(), dir, &at)?;
        }
        MountKind::Empty => {
            sys::make_directory(dir, &at, 0o755)?;
            let mount = tmpfs(c"0755", SMALL, BASE_ATTRIBUTES | sys::ATTR_NOEXEC)?;
            sys::attach(mount.as_fd(), dir, &at)?;
            return Ok(Some(mount));
        }
        MountKind::Reserved => reserve(root, dir, &at)?,
        MountKind::ReservedFile { text, .. } => reserve_file(dir, &at, text)?,
        MountKind::Directory => sys::make_directory(dir, &at, 0o755)?,
        MountKind::Symlink { to } => sys::make_symlink(&sys::c_path(to.path())?, dir, &at)?,
        MountKind::Proc => {
            sys::make_directory(dir, &at, 0o755)?;
            // Read-only, because root owns the files of /proc/sys even without capabilities.
            let attributes = BASE_ATTRIBUTES | sys::ATTR_NOEXEC | sys::ATTR_RDONLY;
            let mount = sys::new_mount(c"proc", &[], attributes)?;
            sys::attach(mount.as_fd(), dir, &at)?;
            hide_keys(root, mount.as_raw_fd())?;
        }
        MountKind::Dev { size } => devices(dir, &at, *size)?,
        MountKind::Mask { directory } => mask(root, dir, &at, *directory)?,
    }
    Ok(None)
}

/// Hides the kernel's list of keys, which root may read for all users.
fn hide_keys(root: i32, proc: i32) -> io::Result<()> {
    for name in [c"keys", c"key-users"] {
        if sys::open_path(proc, name).is_ok() {
            mask(root, proc, name, false)?;
        }
    }
    Ok(())
}

/// Mounts an empty directory at a name that does not exist.
fn reserve(root: i32, dir: i32, at: &CStr) -> io::Result<()> {
    match sys::lock_directory(dir, at, PLACEHOLDER_MODE) {
        Ok(held) => std::mem::forget(held),
        Err(e) if cannot_be_created(dir, &e)? => return Ok(()),
        Err(e) => return Err(e),
    }
    let tree = sys::clone_at(root, RESERVED_SOURCE)?;
    let attributes = BASE_ATTRIBUTES | sys::ATTR_NOEXEC | sys::ATTR_RDONLY;
    sys::restrict_mount(tree.as_fd(), attributes, false)?;
    sys::attach(tree.as_fd(), dir, at)
}

/// Creates a file at a name that does not exist, and makes it read-only.
fn reserve_file(dir: i32, at: &CStr, text: &str) -> io::Result<()> {
    match sys::lock_file(dir, at, text, PLACEHOLDER_FILE_MODE) {
        Ok(held) => std::mem::forget(held),
        Err(e) if cannot_be_created(dir, &e)? => return Ok(()),
        Err(e) => return Err(e),
    }
    let tree = sys::clone_at(dir, at)?;
    let attributes = BASE_ATTRIBUTES | sys::ATTR_NOEXEC | sys::ATTR_RDONLY;
    sys::restrict_mount(tree.as_fd(), attributes, false)?;
    sys::attach(tree.as_fd(), dir, at)
}

/// Whether this error means that the target, which is the same user, cannot create the name either.
/// The owner of a directory can make it writable.
fn cannot_be_created(dir: i32, error: &io::Error) -> io::Result<bool> {
    match error.raw_os_error() {
        Some(libc::EROFS) => Ok(true),
        Some(libc::EACCES | libc::EPERM) => sys::is_own(dir).map(|own| !own),
        _ => Ok(false),
    }
}

fn mask(root: i32, dir: i32, at: &CStr, directory: bool) -> io::Result<()> {
    let mount = if directory {
        // The directory is created if it does not exist. If it were removed while this process
        // runs, the mask would disappear. The lock keeps other sessions on the same files from
        // removing it.
        if let Some(held) = sys::lock_directory(dir, at, PLACEHOLDER_MODE)? {
            std::mem::forget(held);
        }
        tmpfs(
            c"0000",
            SMALL,
            BASE_ATTRIBUTES | sys::ATTR_NOEXEC | sys::ATTR_RDONLY,
        )?
    } else {
        let tree = sys::clone_at(root, MASK_SOURCE)?;
        let attributes = BASE_ATTRIBUTES | sys::ATTR_NOEXEC | sys::ATTR_RDONLY;
        sys::restrict_mount(tree.as_fd(), attributes, false)?;
        tree
    };
    sys::attach(mount.as_fd(), dir, at)
}

fn devices(root: i32, at: &CStr, size: u64) -> io::Result<()> {
    sys::make_directory(root, at, 0o755)?;
    let dev = tmpfs(c"0755", SMALL, sys::ATTR_NOSUID | sys::ATTR_NOEXEC)?;
    sys::attach(dev.as_fd(), root, at)?;
    let fd = dev.as_raw_fd();
    // The old root is still in place, so these are the host's devices.
    for name in [c"null", c"zero", c"full", c"random", c"urandom", c"tty"] {
        let host = Path::new("/dev").join(name.to_str().unwrap_or_default());
        let Ok(tree) = sys::clone_tree(&host) else {
            continue;
        };
        sys::make_file(fd, name, 0o666)?;
        // Devices can still be written. But root owns these nodes of the host, and could change
        // their mode.
        let attributes = sys::ATTR_NOSUID | sys::ATTR_NOEXEC | sys::ATTR_RDONLY;
        sys::restrict_mount(tree.as_fd(), attributes, false)?;
        sys::attach(tree.as_fd(), fd, name)?;
    }
    for (name, to) in [
        (c"fd", c"/proc/self/fd"),
        (c"stdin", c"/proc/self/fd/0"),
        (c"stdout", c"/proc/self/fd/1"),
        (c"stderr", c"/proc/self/fd/2"),
        (c"ptmx", c"pts/ptmx"),
    ] {
        sys::make_symlink(to, fd, name)?;
    }
    sys::make_directory(fd, c"shm", 0o1777)?;
    let shared = tmpfs(c"1777", size, BASE_ATTRIBUTES | sys::ATTR_NOEXEC)?;
    sys::attach(shared.as_fd(), fd, c"shm")?;
    sys::make_directory(fd, c"pts", 0o755)?;
    let options = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
    let terminals = sys::new_mount(c"devpts", &options, sys::ATTR_NOSUID | sys::ATTR_NOEXEC)?;
    sys::attach(terminals.as_fd(), fd, c"pts")?;
    sys::restrict_mount(dev.as_fd(), sys::ATTR_RDONLY, false)
}

/// Opens the parent directory of a path, and returns it with the last name. Missing directories are
/// created. A link on the way is an error, because the tree may contain links that lead out.
fn parent_and_name(root: i32, path: &Path) -> io::Result<(OwnedFd, CString)> {
    let invalid_path = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "not an absolute path without `.` and `..`",
        )
    };
    let mut at = sys::open_path(root, c".")?;
    let mut last = None;
    for part in path.components() {
        let name = match part {
            Component::RootDir => continue,
            Component::Normal(name) => CString::new(name.as_bytes()).map_err(|_| invalid_path())?,
            _ => return Err(invalid_path()),
        };
        if let Some(above) = last.replace(name) {
            at = enter(at.as_raw_fd(), &above)?;
        }
    }
    Ok((at, last.ok_or_else(invalid_path)?))
}

fn enter(dir: i32, name: &CStr) -> io::Result<OwnedFd> {
    match sys::open_directory(dir, name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            sys::make_directory(dir, name, 0o755)?;
            sys::open_directory(dir, name)
        }
        other => other,
    }
}
