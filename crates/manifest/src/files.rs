//! Sources of manifests: the disk, or texts that replace files on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum size of a manifest in bytes. Real manifests are one or two pages long.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Kind of an existing path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Anything but a directory.
    File {
        /// Whether an executable bit is set.
        executable: bool,
    },
    /// A directory.
    Directory,
}

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The path does not exist.
    #[error("the file does not exist")]
    NotFound,
    /// The path is a directory.
    #[error("expected a file, found a directory")]
    IsDirectory,
    /// The path is a pipe, a socket or a device.
    #[error("expected a file, found neither a file nor a directory")]
    Special,
    /// The file has this many bytes, more than `MAX_FILE_BYTES`.
    #[error("the file has {0} bytes, but a manifest may have at most {MAX_FILE_BYTES}")]
    TooLarge(u64),
    /// A symbolic link leads out of the directory that files are read from.
    #[error(
        "`{}` is a symbolic link to `{}`, outside the workspace; the file is not read",
        .link.display(),
        .target.display()
    )]
    LeavesTree {
        /// Path of the link.
        link: PathBuf,
        /// Text of the link.
        target: PathBuf,
    },
    /// The operating system reported an error.
    #[error("the file cannot be read: {0}")]
    Io(String),
}

/// A source of files.
pub trait FileSource: Sync {
    /// Contents of a file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError>;
    /// Kind of a path, or `None` if it does not exist.
    fn kind(&self, path: &Path) -> Option<PathKind>;
    /// Names in a directory, sorted. Empty if the directory cannot be listed.
    fn list(&self, dir: &Path) -> Vec<String>;
    /// Target of a symbolic link, or `None` if the path is not one.
    fn link_target(&self, _path: &Path) -> Option<PathBuf> {
        None
    }
}

/// Files that the run has already found, so that the disk need not be asked again.
pub trait KnownFiles: Sync {
    /// Whether a path is one of them. Such a path was named or walked, and is trusted.
    fn contains(&self, path: &Path) -> bool;
    /// Names of the Markdown files in a directory and of the directories that contain some, or
    /// `None` if the directory was not walked.
    fn list(&self, dir: &Path) -> Option<Vec<String>>;
}

/// The file system.
pub struct Disk;

/// Opens a file without blocking, because a pipe with a manifest's name must not stop the run.
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

pub(crate) fn read_error(error: std::io::Error) -> ReadError {
    match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::NotFound,
        std::io::ErrorKind::IsADirectory => ReadError::IsDirectory,
        _ => ReadError::Io(error.to_string()),
    }
}

/// Reads an open file, if it is a regular file of at most `MAX_FILE_BYTES`.
pub(crate) fn read_limited(file: std::fs::File) -> Result<Vec<u8>, ReadError> {
    use std::io::Read;
    let meta = file.metadata().map_err(read_error)?;
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
        .map_err(read_error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge(bytes.len() as u64));
    }
    Ok(bytes)
}

impl FileSource for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        read_limited(open(path).map_err(read_error)?)
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
        // A dangling link has no target. Reading it reports the error.
        is_link.then(|| std::fs::canonicalize(path).ok()).flatten()
    }
}

/// Texts that replace or extend the files of another source, such as stdin, staged contents, or
/// a fix that is being checked.
pub struct Overlay<'a> {
    /// Source of all other files.
    pub base: &'a dyn FileSource,
    /// Replaced files. `None` hides a file.
    pub texts: BTreeMap<PathBuf, Option<String>>,
}

impl<'a> Overlay<'a> {
    /// An overlay without texts.
    pub fn new(base: &'a dyn FileSource) -> Self {
        Overlay {
            base,
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
            None => self.base.read(path),
        }
    }

    fn kind(&self, path: &Path) -> Option<PathKind> {
        match self.texts.get(path) {
            Some(Some(_)) => Some(PathKind::File { executable: false }),
            Some(None) => None,
            None => self.base.kind(path),
        }
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        let mut names = self.base.list(dir);
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
            None => self.base.link_target(path),
        }
    }
}
