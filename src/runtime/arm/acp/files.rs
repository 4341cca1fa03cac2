//! Files for the agent: inside its working directory and its sandbox, whatever links say.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::runtime::sandbox::Policy;
use crate::runtime::sandbox::policy::Access;

/// A larger file is no text for a prompt.
const LARGEST: u64 = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    Missing,
    /// The agent asked for something that it may not ask for.
    Params(String),
    Other(String),
}

/// The agent's working directory: where it sees it, and where it is.
pub struct Files<'p> {
    pub seen: PathBuf,
    pub host: PathBuf,
    pub policy: Option<&'p Policy>,
}

impl Files<'_> {
    pub fn read(&self, path: &Path) -> Result<String, Trouble> {
        let below = self.below(path, Access::Read)?;
        let root = self.root()?;
        let file = open_below(root.as_fd(), &below, libc::O_RDONLY | libc::O_NONBLOCK, 0)
            .map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(Trouble::Params("this is no regular file".to_owned()));
        }
        if meta.len() > LARGEST {
            return Err(Trouble::Params(format!(
                "the file has {} bytes, more than {LARGEST}",
                meta.len()
            )));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
        String::from_utf8(bytes)
            .map_err(|_| Trouble::Params("the file is no UTF-8 text".to_owned()))
    }

    /// Writes a file whole; it and its directories are made where they are missing.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Trouble> {
        let below = self.below(path, Access::Write)?;
        let mut dir = self.root()?;
        let name = below.file_name().map(PathBuf::from).unwrap_or_default();
        for part in below.parent().into_iter().flat_map(Path::components) {
            let part = Path::new(part.as_os_str());
            let flags = libc::O_PATH | libc::O_DIRECTORY;
            let next = match open_below(dir.as_fd(), part, flags, 0) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    make_directory(dir.as_fd(), part).map_err(failed)?;
                    open_below(dir.as_fd(), part, flags, 0)
                }
                other => other,
            };
            dir = next.map_err(failed)?.into();
        }
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK;
        let mut file = open_below(dir.as_fd(), &name, flags, 0o644).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(Trouble::Params("this is no regular file".to_owned()));
        }
        file.set_len(0).map_err(failed)?;
        file.write_all(bytes).map_err(failed)
    }

    fn root(&self) -> Result<OwnedFd, Trouble> {
        File::open(&self.host).map(Into::into).map_err(failed)
    }

    /// The path below the working directory, where the sandbox grants it.
    fn below(&self, path: &Path, access: Access) -> Result<PathBuf, Trouble> {
        let no = |what: &str| Trouble::Params(what.to_owned());
        if !path.is_absolute() {
            return Err(no("the path is not absolute (ACP, file system)"));
        }
        let Ok(below) = path.strip_prefix(&self.seen) else {
            return Err(no(
                "the path lies outside of the session's working directory",
            ));
        };
        let plain = |part: Component| matches!(part, Component::Normal(_));
        if below.as_os_str().is_empty() || !below.components().all(plain) {
            return Err(no("the path is no plain path to a file"));
        }
        let Some(policy) = self.policy else {
            return Ok(below.to_owned());
        };
        match policy.access(path) {
            Some(grant) if access == Access::Read || grant.access == Access::Write => {
                Ok(below.to_owned())
            }
            Some(_) => Err(no("the sandbox grants reading only")),
            None => Err(no("the sandbox does not grant it")),
        }
    }
}

fn failed(error: io::Error) -> Trouble {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => Trouble::Missing,
        (_, Some(libc::EXDEV | libc::ELOOP)) => {
            Trouble::Params("a link on the way leads out of the working directory".to_owned())
        }
        _ => Trouble::Other(error.to_string()),
    }
}

/// Opens a path; no link on it leads out, not even for a moment.
fn open_below(dir: BorrowedFd, path: &Path, flags: i32, mode: u64) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: plain data; all zero is a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.mode = mode;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    loop {
        // SAFETY: a C string and a structure of the size given; the descriptor is new.
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
            // SAFETY: as above.
            return Ok(unsafe { File::from_raw_fd(fd as i32) });
        }
        let error = io::Error::last_os_error();
        // The kernel asks for another try where a rename came in between.
        if error.raw_os_error() != Some(libc::EAGAIN) {
            return Err(error);
        }
    }
}

fn make_directory(dir: BorrowedFd, name: &Path) -> io::Result<()> {
    let name = CString::new(name.as_os_str().as_bytes())?;
    // SAFETY: a C string and a descriptor that lives.
    match unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), 0o755) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Files<'static> {
        Files {
            seen: "/workspace".into(),
            host: dir.to_owned(),
            policy: None,
        }
    }

    #[test]
    fn files_are_read_and_written_below_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path());
        let path = Path::new("/workspace/a/b/c.txt");
        assert_eq!(files.read(path), Err(Trouble::Missing));
        assert_eq!(files.write(path, b"long text"), Ok(()));
        assert_eq!(files.write(path, b"text"), Ok(()));
        assert_eq!(files.read(path).as_deref(), Ok("text"));
    }

    #[test]
    fn nothing_leads_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let outside = tempfile::tempdir().expect("a directory");
        std::fs::write(outside.path().join("secret"), "x").expect("written");
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, dir.path().join(name)).expect("linked");
        };
        link(&outside.path().join("secret"), "file");
        link(outside.path(), "dir");
        link(Path::new("../.."), "up");
        link(Path::new("inside"), "good");
        std::fs::write(dir.path().join("inside"), "ok").expect("written");
        let files = files(dir.path());
        for path in [
            "relative",
            "/etc/passwd",
            "/workspace/../etc/passwd",
            "/workspace",
            "/workspace/file",
            "/workspace/dir/secret",
            "/workspace/up/x",
            "/workspacex/a",
        ] {
            assert!(
                matches!(files.read(Path::new(path)), Err(Trouble::Params(_))),
                "{path}"
            );
            assert!(
                matches!(files.write(Path::new(path), b""), Err(Trouble::Params(_))),
                "{path}"
            );
        }
        assert_eq!(
            files.read(Path::new("/workspace/good")).as_deref(),
            Ok("ok")
        );
        assert_eq!(
            std::fs::read(outside.path().join("secret")).expect("read"),
            b"x"
        );
    }
}
