//! Where manifests are read from: the disk, or texts laid over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A manifest is a page or two; what is larger than this is something else.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    File { executable: bool },
    Directory,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("the file does not exist")]
    NotFound,
    #[error("it is a directory, not a file")]
    IsDirectory,
    #[error("it is neither a file nor a directory")]
    Special,
    #[error("it has {0} bytes; manifests may have at most {MAX_FILE_BYTES}")]
    TooLarge(u64),
    #[error("it cannot be read: {0}")]
    Io(String),
}

pub trait FileSource: Sync {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError>;
    fn kind(&self, path: &Path) -> Option<PathKind>;
    /// Names in a directory, sorted; empty where it cannot be listed.
    fn list(&self, dir: &Path) -> Vec<String>;
    /// Where a path that is a symbolic link leads; `None` for anything else.
    fn link_target(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

/// Files that the run has found already, so that nobody has to ask the disk again.
pub trait KnownFiles: Sync {
    /// Whether a path is one of them; it was named or walked, and is trusted.
    fn contains(&self, path: &Path) -> bool;
    /// Names of the Markdown files in a directory, and of the directories that hold some;
    /// `None` where the directory was not walked.
    fn list(&self, dir: &Path) -> Option<Vec<String>>;
}

pub struct Disk;

/// Opens without waiting: a pipe under a manifest's name must not hold the run up.
#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let meta = std::fs::metadata(path)?;
    if meta.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    std::fs::File::open(path)
}

impl FileSource for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        use std::io::Read;
        let fail = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::NotFound => ReadError::NotFound,
            std::io::ErrorKind::IsADirectory => ReadError::IsDirectory,
            _ => ReadError::Io(e.to_string()),
        };
        let file = open(path).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        if meta.is_dir() {
            return Err(ReadError::IsDirectory);
        }
        if !meta.is_file() {
            return Err(ReadError::Special);
        }
        if meta.len() > MAX_FILE_BYTES {
            return Err(ReadError::TooLarge(meta.len()));
        }
        let mut bytes = Vec::with_capacity(meta.len() as usize + 1);
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(fail)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(ReadError::TooLarge(bytes.len() as u64));
        }
        Ok(bytes)
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        let meta = std::fs::metadata(path).ok()?;
        if meta.is_dir() {
            return Some(PathKind::Directory);
        }
        #[cfg(unix)]
        let executable = {
            use std::os::unix::fs::PermissionsExt;
            meta.permissions().mode() & 0o111 != 0
        };
        #[cfg(not(unix))]
        let executable = true;
        Some(PathKind::File { executable })
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        // A link to nowhere leads nowhere; reading it will tell.
        is_link.then(|| std::fs::canonicalize(path).ok()).flatten()
    }
}

/// Texts that stand in for, or beside, what a lower source has (stdin, staged contents,
/// a fix on trial). `None` hides a file.
pub struct Overlay<'a> {
    pub below: &'a dyn FileSource,
    pub texts: BTreeMap<PathBuf, Option<String>>,
}

impl<'a> Overlay<'a> {
    pub fn new(below: &'a dyn FileSource) -> Self {
        Overlay {
            below,
            texts: BTreeMap::new(),
        }
    }
}

impl FileSource for Overlay<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        match self.texts.get(path) {
            Some(Some(text)) if text.len() as u64 > MAX_FILE_BYTES => {
                Err(ReadError::TooLarge(text.len() as u64))
            }
            Some(Some(text)) => Ok(text.clone().into_bytes()),
            Some(None) => Err(ReadError::NotFound),
            None => self.below.read(path),
        }
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        match self.texts.get(path) {
            Some(Some(_)) => Some(PathKind::File { executable: false }),
            Some(None) => None,
            None => self.below.kind(path),
        }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let mut names = self.below.list(dir);
        for (path, text) in &self.texts {
            if path.parent() == Some(dir)
                && let Some(name) = path.file_name().and_then(|n| n.to_str())
            {
                names.retain(|n| n != name);
                if text.is_some() {
                    names.push(name.to_owned());
                }
            }
        }
        names.sort();
        names
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        match self.texts.get(path) {
            Some(_) => None,
            None => self.below.link_target(path),
        }
    }
}
