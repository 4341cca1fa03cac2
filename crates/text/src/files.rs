//! Atomic replacement of files.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file's contents atomically, so that a reader sees either the old bytes or the new
/// ones. Permissions are kept. A symbolic link is an error: a repository can contain one that points
/// to any file.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("the path has no file name"))?;
    let permissions = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            return Err(io::Error::other(
                "it is a symbolic link, and nothing is written through links: remove it, or name \
                 another file",
            ));
        }
        Ok(found) => Some(found.permissions()),
        Err(_) => None,
    };
    let create = |name: &str| new_file(&path.with_file_name(name), permissions.is_some());
    let (temporary, file) = create_temporary(&name.to_string_lossy(), create)?;
    let temporary = path.with_file_name(temporary);
    let written = fill(file, permissions, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // Report the first error, not one of the cleanup.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Creates a file. Other users cannot open a private one before it has other permissions.
fn new_file(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)
}

/// Creates a temporary file for the replacement of the file `name`. `create` must create a new file
/// with the given name. Returns the name and the file.
pub fn create_temporary(
    name: &str,
    create: impl Fn(&str) -> io::Result<File>,
) -> io::Result<(String, File)> {
    let mut attempt = 0;
    loop {
        let temporary = format!(".{name}.{}-{attempt}.tmp", std::process::id());
        match create(&temporary) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            created => return created.map(|file| (temporary, file)),
        }
    }
}

/// Sets the permissions of a new file, then writes its contents to disk.
pub fn fill(mut file: File, permissions: Option<Permissions>, bytes: &[u8]) -> io::Result<()> {
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        let found = std::fs::metadata(path).expect("there");
        found.permissions().mode() & 0o777
    }

    #[test]
    fn permissions_are_kept() {
        let dir = std::env::temp_dir().join(format!("agentproto-files-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("made");
        let path = dir.join("file");
        new_file(&path, true).expect("created");
        assert_eq!(mode(&path), 0o600, "before the permissions are set");
        std::fs::remove_file(&path).expect("removed");
        replace_file(&path, b"new").expect("written");
        for wanted in [0o600, 0o640, 0o444] {
            std::fs::set_permissions(&path, Permissions::from_mode(wanted)).expect("set");
            replace_file(&path, b"newer").expect("written");
            assert_eq!(mode(&path), wanted);
            assert_eq!(std::fs::read(&path).expect("read"), b"newer");
        }
        let link = dir.join("link");
        for target in ["file", "missing"] {
            symlink(target, &link).expect("linked");
            let error = replace_file(&link, b"x").expect_err("a link");
            assert!(error.to_string().contains("symbolic link"), "{error}");
            assert!(link.is_symlink() && !dir.join("missing").exists());
            std::fs::remove_file(&link).expect("removed");
        }
        assert_eq!(std::fs::read(&path).expect("read"), b"newer");
        assert_eq!(std::fs::read_dir(&dir).expect("there").count(), 1);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
