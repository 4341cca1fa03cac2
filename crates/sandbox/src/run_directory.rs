//! Directories for the cases of a run, below one that belongs to the run and is removed at its end.
//!
//! A run that is killed cannot remove its directory. The next run does it. A lock on the directory
//! tells whether its run is still alive: the kernel releases it when the process ends.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The start of the name of every directory of a run.
const PREFIX: &str = "agentproto-";
/// Number of random characters at the end of the name.
const RANDOM: usize = 6;
/// Comes before the random characters. Earlier versions did not lock their directories, and had
/// nothing in this place.
const LOCKED: char = 'r';
/// Number of names that are tried.
const MAX_ATTEMPTS: usize = 8;
/// Maximum number of entries of the parent that are searched for directories of earlier runs.
const MAX_SEARCHED: usize = 10_000;

/// The directory of a run. Dropping it removes everything.
pub struct RunDirectory {
    root: PathBuf,
    cases: AtomicU64,
    /// Locked as long as the run lives.
    _lock: File,
}

/// The directory of one case. Dropping it removes it.
pub struct CaseDir {
    path: PathBuf,
}

impl RunDirectory {
    /// Creates a directory that only its owner can access, with `what` in its name. Other users
    /// cannot predict the rest of the name. Directories of earlier runs that were killed are
    /// removed.
    pub fn new(what: &str) -> io::Result<RunDirectory> {
        // With links in its path, an agent's real paths would look different.
        let parent = std::env::temp_dir().canonicalize()?;
        RunDirectory::below(&parent, what)
    }

    fn below(parent: &Path, what: &str) -> io::Result<RunDirectory> {
        remove_leftovers(parent, what);
        let mut last = io::Error::other("the new directory was removed at once");
        for _ in 0..MAX_ATTEMPTS {
            let root = create(parent, what)?;
            // A run that starts at this moment may take the new directory for a leftover. Then it
            // holds the lock, or the directory is gone.
            match lock(&root) {
                Ok(Some(lock)) if is_at(&lock, &root) => {
                    return Ok(RunDirectory {
                        root,
                        cases: AtomicU64::new(0),
                        _lock: lock,
                    });
                }
                Ok(_) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Creates a directory for the next case.
    pub fn case(&self) -> io::Result<CaseDir> {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(format!("case-{number}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(CaseDir { path })
    }
}

fn create(parent: &Path, what: &str) -> io::Result<PathBuf> {
    let name = parent.join(format!("{PREFIX}{what}-{LOCKED}{}", "X".repeat(RANDOM)));
    let mut name = CString::new(name.into_os_string().into_vec())?.into_bytes_with_nul();
    // SAFETY: a C string, in which the end of the name is replaced.
    if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    name.pop();
    Ok(OsString::from_vec(name).into())
}

/// Locks a directory. `None` if another process has locked it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let directory = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(path)?;
    // SAFETY: an open descriptor, and no memory.
    let locked = unsafe { libc::flock(directory.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match locked {
        0 => Ok(Some(directory)),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}

/// Whether a path still names an open directory.
fn is_at(directory: &File, path: &Path) -> bool {
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    match (directory.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => same(open, named),
        _ => false,
    }
}

/// Removes directories of runs that were killed. Errors are ignored: a leftover must never make a
/// run fail.
fn remove_leftovers(parent: &Path, what: &str) {
    // SAFETY: takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.take(MAX_SEARCHED) {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| {
            let rest = name.strip_prefix(PREFIX)?.strip_prefix(what)?;
            rest.strip_prefix('-')?.strip_prefix(LOCKED)
        });
        let is_random = |text: &str| {
            text.len() == RANDOM && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !random.is_some_and(is_random) {
            continue;
        }
        let path = entry.path();
        if let Ok(Some(lock)) = lock(&path)
            && lock.metadata().is_ok_and(|found| found.uid() == user)
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

impl CaseDir {
    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CaseDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn directories_are_private_unpredictable_and_removed() {
        let [one, two] = ["test", "test"].map(|what| RunDirectory::new(what).expect("made"));
        let path = one.path().to_owned();
        assert_ne!(one.path(), two.path());
        let name = path.file_name().expect("a name").to_string_lossy();
        let random = name.strip_prefix("agentproto-test-r").expect("the prefix");
        assert!(random.len() == 6 && random != "XXXXXX", "{name}");
        assert!(path.is_absolute() && path.is_dir());
        let case = one.case().expect("made");
        for dir in [one.path(), case.path()] {
            let mode = fs::metadata(dir).expect("there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
        }
        drop((case, one));
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn only_directories_of_dead_runs_are_removed() {
        let parent = RunDirectory::new("leftovers").expect("made");
        let at = |name: &str| parent.path().join(name);
        for name in [
            "agentproto-test-raB3dE9",
            "agentproto-test-of-mine",
            "agentproto-test-aB3dE9",
            "agentproto-other-raB3dE9",
            "elsewhere",
        ] {
            fs::create_dir_all(at(name).join("case-0/home")).expect("made");
        }
        fs::write(at("agentproto-test-rfile00"), "").expect("written");
        symlink(at("elsewhere"), at("agentproto-test-rlink00")).expect("linked");
        let alive = RunDirectory::below(parent.path(), "test").expect("made");
        let next = RunDirectory::below(parent.path(), "test").expect("made");
        assert!(alive.path().exists() && next.path().exists());
        assert!(!at("agentproto-test-raB3dE9").exists());
        for kept in [
            "agentproto-test-of-mine",
            "agentproto-test-aB3dE9",
            "agentproto-other-raB3dE9",
            "agentproto-test-rfile00",
            "agentproto-test-rlink00",
            "elsewhere/case-0/home",
        ] {
            assert!(at(kept).exists(), "{kept}");
        }
    }

    #[test]
    fn a_leftover_that_cannot_be_removed_does_no_harm() {
        let parent = RunDirectory::new("leftovers").expect("made");
        let leftover = parent.path().join("agentproto-test-raB3dE9");
        fs::create_dir_all(leftover.join("case-0")).expect("made");
        fs::set_permissions(&leftover, fs::Permissions::from_mode(0o000)).expect("set");
        RunDirectory::below(parent.path(), "test").expect("made");
        if leftover.exists() {
            fs::set_permissions(&leftover, fs::Permissions::from_mode(0o700)).expect("set");
        }
    }
}
