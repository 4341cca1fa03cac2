//! Directories for the cases of a run, below one that belongs to the run and is removed at its end.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory of a run. Dropping it removes everything.
pub struct RunDirectory {
    root: PathBuf,
    cases: AtomicU64,
}

/// The directory of one case. Dropping it removes it.
pub struct CaseDir {
    path: PathBuf,
}

impl RunDirectory {
    /// Creates a directory that only its owner can access, with `what` in its name. Other users
    /// cannot predict the rest of the name.
    pub fn new(what: &str) -> io::Result<RunDirectory> {
        // With links in its path, an agent's real paths would look different.
        let parent = std::env::temp_dir().canonicalize()?;
        let name = parent.join(format!("agentproto-{what}-XXXXXX"));
        let mut name = CString::new(name.into_os_string().into_vec())?.into_bytes_with_nul();
        // SAFETY: a C string, in which the end of the name is replaced.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(io::Error::last_os_error());
        }
        name.pop();
        Ok(RunDirectory {
            root: OsString::from_vec(name).into(),
            cases: AtomicU64::new(0),
        })
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Creates a directory for the next case.
    pub fn case(&self) -> io::Result<CaseDir> {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(format!("case-{number}"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(CaseDir { path })
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
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn directories_are_private_unpredictable_and_removed() {
        let [one, two] = ["test", "test"].map(|what| RunDirectory::new(what).expect("made"));
        let path = one.path().to_owned();
        assert_ne!(one.path(), two.path());
        let name = path.file_name().expect("a name").to_string_lossy();
        let random = name.strip_prefix("agentproto-test-").expect("the prefix");
        assert!(random.len() == 6 && random != "XXXXXX", "{name}");
        assert!(path.is_absolute() && path.is_dir());
        let case = one.case().expect("made");
        for dir in [one.path(), case.path()] {
            let mode = std::fs::metadata(dir).expect("there").permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
        }
        drop((case, one));
        assert!(!path.exists() && two.path().exists());
    }
}
