//! Checks paths before and after files are opened, on systems that cannot open files relative to a
//! directory.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::Access;

/// The path of a file or directory without links.
pub(super) struct Handle(PathBuf);

impl Handle {
    pub(super) fn root(path: &Path) -> io::Result<Handle> {
        Ok(Handle(path.to_owned()))
    }

    pub(super) fn beneath(&self, _: &Path, _: Access) -> io::Result<Handle> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn exactly(&self, path: &Path, _: Access) -> io::Result<Handle> {
        let path = match path.as_os_str().is_empty() {
            true => self.0.clone(),
            false => self.0.join(path),
        };
        without_links(&path)?;
        Ok(Handle(path))
    }

    pub(super) fn into_file(self) -> io::Result<File> {
        if std::fs::metadata(&self.0)?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let file = File::open(&self.0)?;
        without_links(&self.0)?;
        Ok(file)
    }

    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        without_links(&self.0)?;
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }
}

fn without_links(path: &Path) -> io::Result<()> {
    match std::fs::canonicalize(path)? == path {
        true => Ok(()),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Whether a link was met that is not followed.
pub(super) fn is_link(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}
