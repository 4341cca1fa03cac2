//! Remembers successful version checks for a short time, because hosts often start many sessions of
//! one bundle, and a check starts two processes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentproto_manifest::Document;
use agentproto_manifest::range::Version;
use parking_lot::Mutex;

/// How long a check is trusted. The program may read more files than the one that is compared here.
const TRUSTED: Duration = Duration::from_secs(60);
/// Maximum number of remembered checks.
const MAX_CHECKS: usize = 256;

struct Check {
    manifest: Arc<Document>,
    bin: PathBuf,
    file: FileIdentity,
    version: Version,
    at: Instant,
}

static CHECKS: Mutex<Vec<Check>> = Mutex::new(Vec::new());

/// A file, and the time of its last change of any kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    /// `None` if the file cannot be read. Links are followed.
    pub fn read(path: &Path) -> Option<FileIdentity> {
        let found = path.metadata().ok()?;
        Some(FileIdentity {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// The version of an unchanged program that was checked for the same manifest shortly before.
pub fn find(manifest: &Arc<Document>, bin: &Path) -> Option<Version> {
    let file = FileIdentity::read(bin)?;
    let checks = CHECKS.lock();
    let is_same = |check: &&Check| {
        check.at.elapsed() < TRUSTED
            && check.bin == bin
            && check.file == file
            && check.manifest.path == manifest.path
            && check.manifest.text == manifest.text
    };
    checks
        .iter()
        .find(is_same)
        .map(|check| check.version.clone())
}

/// Remembers a check. `file` was read before the program ran.
pub fn remember(manifest: &Arc<Document>, bin: &Path, file: FileIdentity, version: &Version) {
    let mut checks = CHECKS.lock();
    checks.retain(|check| {
        check.at.elapsed() < TRUSTED && (check.bin != bin || check.manifest.path != manifest.path)
    });
    if checks.len() >= MAX_CHECKS {
        checks.remove(0);
    }
    checks.push(Check {
        manifest: Arc::clone(manifest),
        bin: bin.to_owned(),
        file,
        version: version.clone(),
        at: Instant::now(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_program_or_manifest_is_checked_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let bin = dir.path().join("tool");
        std::fs::write(&bin, "one").expect("written");
        let manifest = |text: &str| Arc::new(Document::parse("AGENT-CLI.md", text.to_owned()));
        let first = manifest("---\nversion: 1\n---\n");
        assert!(find(&first, &bin).is_none());
        let file = FileIdentity::read(&bin).expect("a file");
        let version = Version::parse("1.2.3").expect("a version");
        remember(&first, &bin, file, &version);
        let same = manifest("---\nversion: 1\n---\n");
        assert_eq!(
            find(&same, &bin).map(|found| found.to_string()).as_deref(),
            Some("1.2.3")
        );
        assert!(find(&manifest("---\nversion: 2\n---\n"), &bin).is_none());
        // The same size and the same modification time.
        let modified = bin
            .metadata()
            .and_then(|data| data.modified())
            .expect("a time");
        std::fs::write(&bin, "two").expect("written");
        let file = std::fs::File::options()
            .write(true)
            .open(&bin)
            .expect("opened");
        file.set_modified(modified).expect("set");
        assert!(find(&first, &bin).is_none());
        std::fs::remove_file(&bin).expect("removed");
        assert!(find(&first, &bin).is_none());
    }
}
