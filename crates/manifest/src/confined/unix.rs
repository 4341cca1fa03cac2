//! Opens files relative to an open directory.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

use super::Access;

/// An open file or directory.
pub(super) struct Handle(OwnedFd);

impl Handle {
    pub(super) fn root(path: &Path) -> io::Result<Handle> {
        let flags = flags(Access::Directory);
        Ok(Handle(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a path below this directory. On Linux, links that stay below it are followed.
    pub(super) fn beneath(&self, path: &Path, access: Access) -> io::Result<Handle> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{ResolveFlags, openat2};
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            let open = || openat2(&self.0, path, flags(access), Mode::empty(), resolve);
            Ok(Handle(retry_on_intr(open)?))
        }
        #[cfg(not(target_os = "linux"))]
        self.exactly(path, access)
    }

    /// Opens a path below this directory, and does not follow any link.
    pub(super) fn exactly(&self, path: &Path, access: Access) -> io::Result<Handle> {
        let open = |dir: &OwnedFd, name: &OsStr, access| {
            let flags = flags(access) | OFlags::NOFOLLOW;
            retry_on_intr(|| openat(dir, name, flags, Mode::empty()))
        };
        let mut names = path.components().peekable();
        let mut dir = open(&self.0, OsStr::new("."), Access::Directory)?;
        while let Some(part) = names.next() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                _ => return Err(Errno::LOOP.into()),
            };
            let last = names.peek().is_none();
            let access = if last { access } else { Access::Directory };
            dir = open(&dir, name, access)?;
        }
        Ok(Handle(dir))
    }

    pub(super) fn into_file(self) -> io::Result<File> {
        Ok(File::from(self.0))
    }

    /// Creates a file in this directory that only its owner can open. It must not exist.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        Ok(File::from(openat(&self.0, name, flags, mode)?))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

/// Opening a pipe must not block, and a terminal must not become the controlling one.
fn flags(access: Access) -> OFlags {
    match access {
        Access::Read => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Access::Directory => DIRECTORY | OFlags::DIRECTORY | OFlags::CLOEXEC,
    }
}

/// Directories that can be passed through, but not listed, must also work.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::RDONLY;

/// Whether a link was met that is not followed, or the system does not support the call.
pub(super) fn is_link(error: &io::Error) -> bool {
    let Some(errno) = Errno::from_io_error(error) else {
        return false;
    };
    // `openat2` reports a link that leaves as XDEV, and a concurrent rename as AGAIN. Old kernels
    // (NOSYS) and container runtimes (PERM) do not have it. `openat` reports a link in place of a
    // file as LOOP (MLINK on BSD) and in place of a directory as NOTDIR.
    [
        Errno::XDEV,
        Errno::AGAIN,
        Errno::NOSYS,
        Errno::PERM,
        Errno::LOOP,
        Errno::MLINK,
        Errno::NOTDIR,
    ]
    .contains(&errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Other users cannot open a temporary file before it has the permissions of the old file.
    #[test]
    fn a_new_file_is_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Handle::root(&dir.path().canonicalize().expect("there")).expect("opened");
        let file = root.create(OsStr::new("new")).expect("created");
        let mode = file.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
