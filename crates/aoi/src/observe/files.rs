//! Snapshot of a directory by content, to detect changes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Maximum number of entries. Further entries are ignored.
const MAX_ENTRIES: usize = 20_000;
/// Bytes read of each file. Beyond them, only the length is compared.
const MAX_BYTES: u64 = 1 << 20;
/// Bytes of all files together that are searched for ids.
const MAX_TEXT: usize = 8 << 20;
/// Maximum depth of directories.
const MAX_DEPTH: usize = 32;

/// Names of cache directories.
const CACHES: [&str; 4] = ["__pycache__", ".cache", ".pytest_cache", ".npm"];

/// Marks a directory in place of a content hash.
const DIRECTORY: &str = "directory";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSnapshot {
    /// Entries by path relative to the root: kind, and length and hash of the content.
    entries: BTreeMap<PathBuf, String>,
}

impl FileSnapshot {
    /// Takes a snapshot. Entries in `ignored` are left out.
    pub fn of(root: &Path, ignored: &[PathBuf]) -> FileSnapshot {
        let mut files = FileSnapshot::default();
        files.walk(root, Path::new(""), ignored, 0);
        files
    }

    fn walk(&mut self, root: &Path, below: &Path, ignored: &[PathBuf], depth: usize) {
        let Ok(entries) = fs::read_dir(root.join(below)) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = below.join(&name);
            let is_cache = name.to_str().is_some_and(|name| CACHES.contains(&name));
            let full = root.join(&path);
            if is_cache || ignored.contains(&full) || self.entries.len() >= MAX_ENTRIES {
                continue;
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                // Parent directories of an ignored path may be created along with it.
                if !ignored.iter().any(|place| place.starts_with(&full)) {
                    self.entries.insert(path.clone(), DIRECTORY.to_owned());
                }
                if depth < MAX_DEPTH {
                    self.walk(root, &path, ignored, depth + 1);
                }
            } else if kind.is_file() {
                self.entries.insert(path, content(&full));
            } else {
                let target = fs::read_link(&full).unwrap_or_default();
                self.entries.insert(path, format!("link {target:?}"));
            }
        }
    }

    /// Paths that were added, removed or changed.
    pub fn changed(&self, later: &FileSnapshot) -> Vec<String> {
        let all = self.entries.keys().chain(later.entries.keys());
        let differs = |path: &&PathBuf| self.entries.get(*path) != later.entries.get(*path);
        let mut paths: Vec<String> = all
            .filter(differs)
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Whether the path is a directory in this snapshot.
    pub fn is_directory(&self, path: &str) -> bool {
        let entry = self.entries.get(Path::new(path));
        entry.is_some_and(|entry| entry == DIRECTORY)
    }

    /// Names and contents, to search for ids.
    pub fn text(&self, root: &Path) -> Vec<u8> {
        let mut text = Vec::new();
        for path in self.entries.keys() {
            text.extend_from_slice(path.to_string_lossy().as_bytes());
            text.push(b'\n');
            let full = root.join(path);
            if text.len() < MAX_TEXT && is_plain(&full) {
                text.extend(read_prefix(&full));
                text.push(b'\n');
            }
        }
        text
    }
}

fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

fn read_prefix(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

fn content(path: &Path) -> String {
    let length = fs::symlink_metadata(path).map_or(0, |meta| meta.len());
    let hash = Sha256::digest(read_prefix(path));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{length} {hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_detected_by_content_and_caches_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/__pycache__")).unwrap();
        fs::create_dir_all(at("logs")).unwrap();
        fs::write(at("a/kept"), "one").unwrap();
        let ignored = [at("logs"), at("far/state")];
        let before = FileSnapshot::of(dir.path(), &ignored);
        fs::write(at("a/kept"), "one").unwrap();
        fs::write(at("a/__pycache__/x.pyc"), "x").unwrap();
        fs::write(at("logs/today"), "x").unwrap();
        fs::create_dir_all(at("far/state")).unwrap();
        fs::write(at("far/state/today"), "x").unwrap();
        let same = FileSnapshot::of(dir.path(), &ignored);
        assert_eq!(before.changed(&same), Vec::<String>::new());
        fs::write(at("a/kept"), "two").unwrap();
        fs::write(at("new"), "id-7").unwrap();
        std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
        let later = FileSnapshot::of(dir.path(), &ignored);
        assert_eq!(before.changed(&later), ["a/kept", "link", "new"]);
        let text = String::from_utf8(later.text(dir.path())).unwrap();
        assert!(text.contains("id-7") && text.contains("a/kept"));
    }
}
