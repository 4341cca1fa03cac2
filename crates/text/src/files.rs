//! Atomic replacement of files.

use std::path::{Path, PathBuf};

/// Replaces a file's contents atomically, so that a reader sees either the old bytes or the new
/// ones. The target of a symbolic link is replaced, not the link. Permissions are kept.
pub fn replace_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = target
        .file_name()
        .ok_or_else(|| std::io::Error::other("the path has no file name"))?;
    let permissions = std::fs::metadata(&target).ok().map(|m| m.permissions());
    let (temporary, mut file) = temporary_beside(&target, &name.to_string_lossy())?;
    let written = file
        .write_all(bytes)
        .and_then(|()| match permissions {
            Some(permissions) => file.set_permissions(permissions),
            None => Ok(()),
        })
        .and_then(|()| file.sync_all())
        .and_then(|()| {
            drop(file);
            std::fs::rename(&temporary, &target)
        });
    if written.is_err() {
        // Report the first error, not one of the cleanup.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn temporary_beside(target: &Path, name: &str) -> std::io::Result<(PathBuf, std::fs::File)> {
    let mut attempt = 0;
    loop {
        let path = target.with_file_name(format!(".{name}.{}-{attempt}.tmp", std::process::id()));
        match std::fs::File::create_new(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && attempt < 100 => {
                attempt += 1;
            }
            opened => return opened.map(|file| (path, file)),
        }
    }
}
