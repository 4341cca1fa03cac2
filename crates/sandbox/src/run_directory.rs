//! Directories for the cases of a run, below one that belongs to the run and is removed at its end.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

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
    /// Creates a directory that only its owner can access, with `what` in its name.
    pub fn new(what: &str) -> io::Result<RunDirectory> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("agentproto-{what}-{}-{count}", std::process::id());
        // With links in its path, an agent's real paths would look different.
        let parent = std::env::temp_dir().canonicalize()?;
        let root = parent.join(name);
        create_private_dir(&root)?;
        Ok(RunDirectory {
            root,
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
        create_private_dir(&path)?;
        Ok(CaseDir { path })
    }
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
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
