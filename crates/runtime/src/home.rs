//! `$AGENTPROTO_HOME`: all state that outlives a run. Directories have mode 0700 and files 0600.
//! Files are replaced atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Code, Error};

/// The directory with all state. Nothing is created until it is needed.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Uses this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Home { root: root.into() }
    }

    /// `$AGENTPROTO_HOME`, or `~/.agentproto`.
    pub fn from_env() -> Result<Self, Error> {
        let named = |name| std::env::var_os(name).map(PathBuf::from);
        let root = named("AGENTPROTO_HOME").filter(|p| !p.as_os_str().is_empty());
        let root = root.or_else(|| Some(named("HOME")?.join(".agentproto")));
        match root.and_then(|root| std::path::absolute(root).ok()) {
            Some(root) => Ok(Home { root }),
            None => Err(Error::new(
                Code::StateUnwritable,
                "no state directory: neither AGENTPROTO_HOME nor HOME is set",
            )
            .hint("set AGENTPROTO_HOME to a directory that you can write to")),
        }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of something below the directory.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.join(below)
    }

    /// Creates a private directory (mode 0700) if it is missing.
    pub fn dir(&self, below: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = self.path(below);
        make_dir(&path).map_err(|e| unwritable(&path, &e))?;
        Ok(path)
    }

    /// Replaces a file atomically.
    pub fn write(&self, below: impl AsRef<Path>, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(below);
        write_private(&path, bytes).map_err(|e| unwritable(&path, &e))
    }

    /// The contents of a file, or `None` if it does not exist.
    pub fn read(&self, below: impl AsRef<Path>) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(below);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(unwritable(&path, &e)),
        }
    }

    /// Takes a named lock, and waits while another process holds it. The lock is held until the
    /// guard is dropped.
    pub fn lock(&self, name: &str) -> Result<Lock, Error> {
        let dir = self.dir("locks")?;
        let path = dir.join(format!("{name}.lock"));
        let held = lock_file(&path, libc::LOCK_EX).map_err(|e| unwritable(&path, &e))?;
        held.ok_or_else(|| unwritable(&path, &io::Error::from(io::ErrorKind::WouldBlock)))
    }

    /// Like `lock`, but returns `None` instead of waiting when another process holds the lock.
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>, Error> {
        let dir = self.dir("locks")?;
        let path = dir.join(format!("{name}.lock"));
        lock_file(&path, libc::LOCK_EX | libc::LOCK_NB).map_err(|e| unwritable(&path, &e))
    }
}

/// The lock is released when this is dropped.
pub struct Lock {
    _file: File,
}

/// `None` if `LOCK_NB` is set and another process holds the lock.
fn lock_file(path: &Path, how: libc::c_int) -> io::Result<Option<Lock>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)?;
    loop {
        // SAFETY: the descriptor belongs to `file`, which is open.
        if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
            return Ok(Some(Lock { _file: file }));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Ok(None),
            _ => return Err(error),
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let what = format!("cannot use the state in `{}`: {error}", path.display());
    let hint = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "the disk is full: free some space and run the command again"
        }
        _ => "check the directory's owner and mode, or set AGENTPROTO_HOME",
    };
    Error::new(Code::StateUnwritable, what).hint(hint)
}

/// Creates a directory and its parents with mode 0700.
pub fn make_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Writes a temporary file in the same directory and renames it, so that a reader sees either the
/// old file or the new one.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with_mode(path, bytes, 0o600)
}

/// Sets the mode before the rename: if the process is killed in between, no partial file is left in
/// place.
pub fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    make_dir(dir)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = dir.join(format!(".{name}.{}.{}", std::process::id(), unique()));
    let written = (|| {
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(bytes)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A number that is unique within this process.
pub fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_private_and_replaced_atomically() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path().join("state"));
        assert_eq!(home.read("a/b.json").expect("readable"), None);
        home.write("a/b.json", b"1").expect("written");
        home.write("a/b.json", b"2").expect("written");
        assert_eq!(
            home.read("a/b.json").expect("readable"),
            Some(b"2".to_vec())
        );
        let mode = |p: PathBuf| fs::metadata(p).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(home.path("a/b.json")), 0o600);
        assert_eq!(mode(home.path("a")), 0o700);
        assert_eq!(fs::read_dir(home.path("a")).expect("there").count(), 1);
    }

    #[test]
    fn a_held_lock_cannot_be_taken_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path());
        let held = home.try_lock("x").expect("usable");
        assert!(held.is_some());
        assert!(home.try_lock("x").expect("usable").is_none());
        assert!(home.try_lock("y").expect("usable").is_some());
        drop(held);
        assert!(home.try_lock("x").expect("usable").is_some());
    }

    #[test]
    fn unwritable_state_is_a_typed_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("written");
        let error = Home::new(&file)
            .write("x", b"1")
            .expect_err("a file is not a directory");
        assert_eq!(error.code, Code::StateUnwritable);
    }
}
