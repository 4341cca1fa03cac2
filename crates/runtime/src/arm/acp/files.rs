//! File access for the agent, limited to its working directory and its sandbox. Neither links nor
//! renames can bypass the limits: every path is opened from `/` without following links, also the
//! part above a grant, because the agent may be able to replace a directory there. Links below a
//! grant are resolved first, and their target is checked like any other path.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use agentproto_sandbox::Policy;
use agentproto_sandbox::policy::Access;

/// Maximum size in bytes of a file to read.
const MAX_FILE_SIZE: u64 = 8 << 20;
/// Maximum number of links in a path, like in the kernel.
const MAX_LINKS: usize = 40;

#[derive(Debug, PartialEq, Eq)]
pub enum FileError {
    Missing,
    /// The agent sent invalid parameters or asked for something that is not allowed.
    Params(String),
    Other(String),
}

impl FileError {
    /// The error without the path, for the audit log.
    pub fn text(&self) -> &str {
        match self {
            FileError::Missing => "file not found",
            FileError::Params(what) | FileError::Other(what) => what,
        }
    }
}

/// Files and directories that stay protected under every name. The agent can rename the directories
/// above them, and this process is not confined by its sandbox.
#[derive(Default)]
pub struct Guarded {
    hidden: HashSet<(u64, u64)>,
    read_only: HashSet<(u64, u64)>,
}

impl Guarded {
    pub fn from_policy(policy: &Policy) -> Self {
        let identity = |path: &Path| {
            let meta = std::fs::symlink_metadata(path).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        let hidden = policy.denials.iter().filter_map(|denial| {
            let grants = policy
                .grants
                .iter()
                .filter(|g| denial.path.starts_with(&g.at));
            let grant = grants.max_by_key(|g| g.at.components().count())?;
            let below = denial.path.strip_prefix(&grant.at).ok()?;
            identity(&grant.source.join(below))
        });
        let read_only = policy.grants.iter().filter(|g| g.access == Access::Read);
        Guarded {
            hidden: hidden.collect(),
            read_only: read_only.filter_map(|g| identity(&g.source)).collect(),
        }
    }

    fn check(&self, file: &File, access: Access) -> Result<(), FileError> {
        let meta = file.metadata().map_err(io_error)?;
        let identity = (meta.dev(), meta.ino());
        if self.hidden.contains(&identity) {
            return Err(invalid_params("the sandbox denies access"));
        }
        if access == Access::Write && self.read_only.contains(&identity) {
            return Err(invalid_params("the sandbox allows only reading"));
        }
        Ok(())
    }
}

/// The agent's working directory, in its own view and on the host.
pub struct Files<'p> {
    pub agent_cwd: PathBuf,
    pub host_cwd: PathBuf,
    pub policy: Option<&'p Policy>,
    pub guarded: &'p Guarded,
}

/// A directory on the host, and a path below it. The policy resolved the links in the path of the
/// directory when the session started, so a link that is there now was planted.
struct HostPath {
    root: PathBuf,
    below: PathBuf,
}

impl Files<'_> {
    pub fn read(&self, path: &Path) -> Result<String, FileError> {
        let host_path = self.resolve(path, Access::Read)?;
        let (dir, name) = self.walk(&host_path, Access::Read)?;
        let flags = libc::O_RDONLY | libc::O_NONBLOCK;
        let file = open_below(dir.as_fd(), &name, flags, 0).map_err(io_error)?;
        self.guarded.check(&file, Access::Read)?;
        let meta = file.metadata().map_err(io_error)?;
        if !meta.is_file() {
            return Err(invalid_params("not a regular file"));
        }
        if meta.len() > MAX_FILE_SIZE {
            let what = format!(
                "the file has {} bytes, more than {MAX_FILE_SIZE}",
                meta.len()
            );
            return Err(FileError::Params(what));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_SIZE)
            .read_to_end(&mut bytes)
            .map_err(io_error)?;
        String::from_utf8(bytes).map_err(|_| invalid_params("the file is not valid UTF-8"))
    }

    /// Writes a whole file. It and its directories are created if they are missing. `record` is
    /// called when the access is allowed, before the contents are written.
    pub fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        record: impl FnOnce() -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let host_path = self.resolve(path, Access::Write)?;
        let (dir, name) = self.walk(&host_path, Access::Write)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK;
        let mut file = open_below(dir.as_fd(), &name, flags, 0o644).map_err(io_error)?;
        self.guarded.check(&file, Access::Write)?;
        if !file.metadata().map_err(io_error)?.is_file() {
            return Err(invalid_params("not a regular file"));
        }
        record()?;
        file.set_len(0).map_err(io_error)?;
        file.write_all(bytes).map_err(io_error)
    }

    /// Opens the directory of the file, component by component. For writing, missing directories
    /// are created.
    fn walk(&self, host_path: &HostPath, access: Access) -> Result<(OwnedFd, PathBuf), FileError> {
        let root = open_root(&host_path.root).map_err(io_error)?;
        self.guarded.check(&root, access)?;
        let mut dir = OwnedFd::from(root);
        let name = host_path
            .below
            .file_name()
            .map(PathBuf::from)
            .unwrap_or_default();
        for part in host_path
            .below
            .parent()
            .into_iter()
            .flat_map(Path::components)
        {
            let part = Path::new(part.as_os_str());
            let flags = libc::O_PATH | libc::O_DIRECTORY;
            let next = match open_below(dir.as_fd(), part, flags, 0) {
                Err(e) if e.kind() == io::ErrorKind::NotFound && access == Access::Write => {
                    make_directory(dir.as_fd(), part).map_err(io_error)?;
                    open_below(dir.as_fd(), part, flags, 0)
                }
                other => other,
            };
            let next = next.map_err(io_error)?;
            self.guarded.check(&next, access)?;
            dir = next.into();
        }
        Ok((dir, name))
    }

    /// Resolves a path that the sandbox allows. Links are followed only here, once, and their
    /// target is checked like any other path.
    fn resolve(&self, path: &Path, access: Access) -> Result<HostPath, FileError> {
        if !path.is_absolute() {
            return Err(invalid_params(
                "the path is not absolute (ACP, file system)",
            ));
        }
        let first = self.check_access(path, access)?;
        let Some(below) = resolve_links(&first.root, &first.below)? else {
            return Ok(first);
        };
        let inside = match self.policy.and_then(|p| p.on_host(path)) {
            Some((grant, _)) if first.root == grant.source => grant.at.join(below),
            _ => self.agent_cwd.join(below),
        };
        // The same error as for any other link, so that it says nothing about the target.
        self.check_access(&inside, access).map_err(|_| link_error())
    }

    fn check_access(&self, path: &Path, access: Access) -> Result<HostPath, FileError> {
        let Ok(below) = path.strip_prefix(&self.agent_cwd) else {
            return Err(invalid_params(
                "the path is outside the session's working directory",
            ));
        };
        let plain = |part: Component| matches!(part, Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(plain) {
            return Err(invalid_params(
                "the path must name a file and must not contain `.` or `..`",
            ));
        }
        let Some(policy) = self.policy else {
            return Ok(HostPath {
                root: self.host_cwd.clone(),
                below: below.to_owned(),
            });
        };
        let Some((grant, _)) = policy.on_host(path) else {
            return Err(invalid_params("the sandbox does not allow access"));
        };
        if access == Access::Write && grant.access != Access::Write {
            return Err(invalid_params("the sandbox allows only reading"));
        }
        let below = path.strip_prefix(&grant.at).unwrap_or(Path::new(""));
        if below.as_os_str().is_empty() {
            // The grant is for the file itself.
            let root = grant.source.parent().unwrap_or(Path::new("/"));
            let name = grant.source.file_name().unwrap_or_default();
            return Ok(HostPath {
                root: root.to_owned(),
                below: name.into(),
            });
        }
        Ok(HostPath {
            root: grant.source.clone(),
            below: below.to_owned(),
        })
    }
}

fn invalid_params(what: &str) -> FileError {
    FileError::Params(what.to_owned())
}

/// The error for every link that the agent may not follow. It is the same whether its target exists
/// or not, so the agent, which can create links, learns nothing about paths that it cannot see.
fn link_error() -> FileError {
    invalid_params("a symbolic link in the path points to a place that the agent may not access")
}

/// Resolves the links in a path below `root`, as far as it exists. Returns `None` if it contains no
/// link. It never looks at anything outside `root`.
fn resolve_links(root: &Path, below: &Path) -> Result<Option<PathBuf>, FileError> {
    let dir = open_root(root).map_err(io_error)?;
    let mut links = 0;
    let mut resolved = PathBuf::new();
    let mut pending: Vec<PathBuf> = below.components().rev().map(to_path).collect();
    while let Some(part) = pending.pop() {
        // Only targets of links contain `.` and `..`.
        match part.as_os_str().as_bytes() {
            b"." => continue,
            b".." if resolved.pop() => continue,
            b".." => return Err(link_error()),
            _ => resolved.push(&part),
        }
        let Ok(target) = read_link(dir.as_fd(), &resolved) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(link_error());
        }
        resolved.pop();
        let mut target = target.as_path();
        if target.is_absolute() {
            target = target.strip_prefix(root).map_err(|_| link_error())?;
            resolved.clear();
        }
        pending.extend(target.components().rev().map(to_path));
    }
    Ok((links > 0).then_some(resolved))
}

fn to_path(part: Component) -> PathBuf {
    PathBuf::from(part.as_os_str())
}

fn io_error(error: io::Error) -> FileError {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => FileError::Missing,
        (_, Some(libc::EXDEV | libc::ELOOP)) => link_error(),
        _ => FileError::Other(error.to_string()),
    }
}

/// Opens a directory without following links on the way to it.
fn open_root(root: &Path) -> io::Result<File> {
    let top = File::open("/")?;
    let below = root.strip_prefix("/").unwrap_or(root);
    let below = match below.as_os_str().is_empty() {
        true => Path::new("."),
        false => below,
    };
    open_below(top.as_fd(), below, libc::O_PATH | libc::O_DIRECTORY, 0)
}

/// Reads a link below a directory. Links on the way to it are not followed.
fn read_link(dir: BorrowedFd, path: &Path) -> io::Result<PathBuf> {
    let link = open_below(dir, path, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
    let mut target = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the path is an empty C string, and the buffer has the given size.
    let length = unsafe {
        libc::readlinkat(
            link.as_raw_fd(),
            c"".as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    target.truncate(length);
    Ok(OsString::from_vec(target).into())
}

/// Opens a name or relative path below a directory, without following links.
fn open_below(dir: BorrowedFd, path: &Path, flags: i32, mode: u64) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: plain data, for which all zeros are a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.mode = mode;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    loop {
        // SAFETY: the path is a C string, the structure has the given size, and the returned
        // descriptor is new.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                dir.as_raw_fd(),
                path.as_ptr(),
                &how,
                size_of::<libc::open_how>(),
            )
        };
        if fd >= 0 {
            // SAFETY: see above.
            return Ok(unsafe { File::from_raw_fd(fd as i32) });
        }
        let error = io::Error::last_os_error();
        // The kernel asks to retry if a rename interfered.
        if error.raw_os_error() != Some(libc::EAGAIN) {
            return Err(error);
        }
    }
}

fn make_directory(dir: BorrowedFd, name: &Path) -> io::Result<()> {
    let name = CString::new(name.as_os_str().as_bytes())?;
    // SAFETY: the name is a C string, and the descriptor is open.
    match unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), 0o755) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
