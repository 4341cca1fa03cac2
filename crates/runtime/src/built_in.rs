//! Bundles that are embedded in this binary, unpacked on demand.
//!
//! Their program is agentproto itself. In a program that embeds the library it is that program,
//! which recognizes the call by [`MARKER`].

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Code, Error};
use crate::home::{Home, write_with_mode};
use agentproto_mock_agents as mock;

/// Environment variable that is set when an embedding program is started as a mock agent.
pub const MARKER: &str = "AGENTPROTO_BUILT_IN";

static EMBEDDED: AtomicBool = AtomicBool::new(false);

/// Declares that this program is not agentproto, but runs mock agents when [`MARKER`] is set.
pub fn set_embedded() {
    EMBEDDED.store(true, Ordering::Relaxed);
}

/// Whether [`set_embedded`] was called.
pub fn is_embedded() -> bool {
    EMBEDDED.load(Ordering::Relaxed)
}

/// Names of the bundles.
pub fn names() -> Vec<&'static str> {
    mock::bundles().iter().map(|bundle| bundle.name).collect()
}

/// Writes the files of a bundle and returns its directory, or `None` for an unknown name.
pub fn unpack(name: &str, home: &Home) -> Result<Option<PathBuf>, Error> {
    let Some(bundle) = mock::bundles().iter().find(|bundle| bundle.name == name) else {
        return Ok(None);
    };
    let dir = home
        .dir(format!("built-in/{}", env!("CARGO_PKG_VERSION")))?
        .join(name);
    for (path, bytes, executable) in bundle.files {
        let file = dir.join(path);
        let mode = if *executable { 0o700 } else { 0o600 };
        // Another build with the same version number may have written other contents.
        if is_unpacked(&file, bytes, mode) {
            continue;
        }
        write_with_mode(&file, bytes, mode).map_err(|e| {
            let what = format!(
                "cannot unpack the bundled agent to `{}`: {e}",
                file.display()
            );
            Error::new(Code::StateUnwritable, what)
                .hint("set AGENTPROTO_HOME to a directory that you can write to")
        })?;
    }
    Ok(Some(dir))
}

fn is_unpacked(file: &Path, bytes: &[u8], mode: u32) -> bool {
    let usable = |found: std::fs::Metadata| found.permissions().mode() & mode == mode;
    std::fs::metadata(file).is_ok_and(usable)
        && std::fs::read(file).is_ok_and(|known| known == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_mode_or_content_is_written_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path());
        assert_eq!(unpack("unknown", &home).expect("no error"), None);
        for bundle in mock::bundles() {
            let at = unpack(bundle.name, &home)
                .expect("unpacked")
                .expect("there");
            for (path, bytes, executable) in bundle.files {
                let file = at.join(path);
                let mode = if *executable { 0o700 } else { 0o600 };
                let whole = |when: &str| {
                    unpack(bundle.name, &home).expect("unpacked");
                    let found = std::fs::metadata(&file).expect("there").permissions();
                    assert_eq!(found.mode() & 0o777, mode, "{path} {when}");
                    assert_eq!(std::fs::read(&file).expect("read"), *bytes, "{path} {when}");
                };
                whole("at first");
                let none = PermissionsExt::from_mode(mode & 0o400);
                std::fs::set_permissions(&file, none).expect("set");
                whole("without its mode");
                std::fs::write(&file, "other").expect("written");
                whole("with another text");
            }
        }
    }

    #[test]
    fn a_file_has_its_mode_when_it_appears() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("program");
        write_with_mode(&file, b"#!", 0o700).expect("written");
        assert!(is_unpacked(&file, b"#!", 0o700));
        write_with_mode(&file, b"#!", 0o600).expect("written");
        assert!(!is_unpacked(&file, b"#!", 0o700) && is_unpacked(&file, b"#!", 0o600));
    }
}
