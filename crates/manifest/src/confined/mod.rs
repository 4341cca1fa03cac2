//! The file system below one directory. No symbolic link leads out of it.

use std::path::{Component, Path, PathBuf};

use agentproto_text::files;

use crate::files::{Disk, FileSource, PathKind, ReadError, read_error, read_limited};
use crate::workspace::normalize;

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(not(unix), path = "portable.rs")]
mod platform;

use platform::Handle;

/// Maximum number of links that are followed to find the one that leaves the root, as in Linux.
const MAX_LINKS: usize = 40;

/// The file system below a root directory. Symbolic links that stay below it are followed. A path
/// that leaves it through a link is not opened.
///
/// On Unix, files are opened relative to the open root directory, so a link that appears between
/// the check and the read has no effect.
pub struct ConfinedDisk {
    /// Root as given, absolute and normalized.
    root: PathBuf,
    /// Root without links.
    real_root: PathBuf,
    working_dir: PathBuf,
    /// The open root directory, or why it cannot be opened.
    handle: Result<Handle, ReadError>,
}

/// What a path is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// To read its contents.
    Read,
    /// To open, create and rename the files in it.
    Directory,
}

/// Why a file was not replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    /// The path is a symbolic link.
    #[error("is a symbolic link, and nothing is written through links")]
    Link,
    /// The contents are not those that were expected.
    #[error("changed while it was being fixed; nothing was written to it")]
    Changed,
    /// The file cannot be read again.
    #[error("cannot be read again: {0}")]
    Read(ReadError),
    /// The operating system reported an error.
    #[error("cannot be written: {0}")]
    Write(String),
}

impl ConfinedDisk {
    /// The files below a directory.
    pub fn new(root: impl AsRef<Path>) -> Self {
        let working_dir = std::env::current_dir().unwrap_or_default();
        let root = normalize(&working_dir.join(root));
        let real_root = std::fs::canonicalize(&root).unwrap_or_else(|_| root.clone());
        ConfinedDisk {
            handle: Handle::root(&real_root).map_err(read_error),
            root,
            real_root,
            working_dir,
        }
    }

    /// The root without links.
    pub fn real_root(&self) -> &Path {
        &self.real_root
    }

    /// Whether a path exists below the root, after its links are followed.
    pub fn contains(&self, path: &Path) -> bool {
        self.real(path).is_some()
    }

    /// Replaces a file's contents atomically if they are still `old`, and keeps its permissions.
    /// Nothing is written through a symbolic link: neither if the file is one, nor if its directory
    /// is reached through one that leaves the root.
    pub fn replace(&self, path: &Path, old: &[u8], new: &[u8]) -> Result<(), ReplaceError> {
        let failed = |error: std::io::Error| ReplaceError::Write(error.to_string());
        let again = |error: std::io::Error| ReplaceError::Read(read_error(error));
        let name = path
            .file_name()
            .ok_or_else(|| ReplaceError::Write("the path has no file name".to_owned()))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let dir = self
            .open(parent, Access::Directory)
            .map_err(ReplaceError::Read)?;
        let handle = dir
            .exactly(Path::new(name), Access::Read)
            .map_err(|error| match platform::is_link(&error) {
                true => ReplaceError::Link,
                false => again(error),
            })?;
        let file = handle.into_file().map_err(again)?;
        let permissions = file.metadata().map_err(again)?.permissions();
        if read_limited(file).map_err(ReplaceError::Read)? != old {
            return Err(ReplaceError::Changed);
        }
        let create = |temporary: &str| dir.create(temporary.as_ref());
        let (temporary, file) =
            files::create_temporary(&name.to_string_lossy(), create).map_err(failed)?;
        let written = files::fill(file, Some(permissions), new)
            .and_then(|()| dir.rename(temporary.as_ref(), name));
        if written.is_err() {
            // Report the first error, not one of the cleanup.
            let _ = dir.remove(temporary.as_ref());
        }
        written.map_err(failed)
    }

    fn open(&self, path: &Path, access: Access) -> Result<Handle, ReadError> {
        let root = self.handle.as_ref().map_err(Clone::clone)?;
        if let Some(inside) = self.relative(path) {
            match root.beneath(&inside, access) {
                Ok(handle) => return Ok(handle),
                Err(error) if platform::is_link(&error) => {}
                Err(error) => return Err(read_error(error)),
            }
        }
        // Links that are absolute or go through the parent of the root may still lead to a file
        // below the root.
        match std::fs::canonicalize(self.working_dir.join(path)) {
            Ok(real) => match real.strip_prefix(&self.real_root) {
                Ok(inside) => root.exactly(inside, access).map_err(read_error),
                Err(_) => Err(self.leaving_link(path).unwrap_or(ReadError::LeavesTree {
                    link: path.to_owned(),
                    target: real,
                })),
            },
            // Does not reveal whether a file outside the root exists.
            Err(error) => Err(self.leaving_link(path).unwrap_or(read_error(error))),
        }
    }

    /// The path relative to the root, unless it contains `..`: after a link, `..` is not the
    /// directory that the text of the path suggests.
    fn relative(&self, path: &Path) -> Option<PathBuf> {
        if path.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let absolute = self.working_dir.join(path);
        absolute
            .strip_prefix(&self.root)
            .ok()
            .map(|inside| Path::new(".").join(inside))
    }

    /// The path without links, if it is below the root.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        let real = std::fs::canonicalize(self.working_dir.join(path)).ok()?;
        real.starts_with(&self.real_root).then_some(real)
    }

    /// The error for a path that leaves the root by the text of a link. It names the link that leads
    /// out, and its text.
    fn leaving_link(&self, path: &Path) -> Option<ReadError> {
        let inside = |p: &Path| p.starts_with(&self.root) || p.starts_with(&self.real_root);
        let mut at = self.working_dir.join(path);
        for _ in 0..MAX_LINKS {
            let mut parts: Vec<&Path> = at.ancestors().filter(|part| inside(part)).collect();
            parts.reverse();
            let read = |part: &Path| Some((part.to_owned(), std::fs::read_link(part).ok()?));
            let (link, target) = parts.into_iter().find_map(read)?;
            let rest = at.strip_prefix(&link).unwrap_or(Path::new(""));
            let next = link.parent().unwrap_or(&link).join(&target).join(rest);
            at = normalize(&next);
            if !inside(&at) {
                let shown = link.strip_prefix(&self.working_dir);
                let link = shown.map_or_else(|_| link.clone(), Path::to_owned);
                return Some(ReadError::LeavesTree { link, target });
            }
        }
        None
    }
}

impl FileSource for ConfinedDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let handle = self.open(path, Access::Read)?;
        read_limited(handle.into_file().map_err(read_error)?)
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        Disk.kind(&self.real(path)?)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.real(dir).map_or_else(Vec::new, |dir| Disk.list(&dir))
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        Disk.link_target(path)
    }
}
