//! Bundles that this binary carries, unpacked where they are wanted.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::fault::{Code, Fault};
use super::home::{Home, write_private};
use crate::mock;

/// Names of the bundles.
pub fn names() -> Vec<&'static str> {
    mock::bundles().iter().map(|bundle| bundle.name).collect()
}

/// The directory of a bundle, its files written; `None` where there is none of the name.
pub fn unpack(name: &str, home: &Home) -> Result<Option<PathBuf>, Fault> {
    let Some(bundle) = mock::bundles().iter().find(|bundle| bundle.name == name) else {
        return Ok(None);
    };
    let dir = home
        .dir(format!("built-in/{}", env!("CARGO_PKG_VERSION")))?
        .join(name);
    for (path, bytes, executable) in bundle.files {
        let file = dir.join(path);
        // Another version of the same number may have written it.
        if std::fs::read(&file).is_ok_and(|known| known == *bytes) {
            continue;
        }
        let written = write_private(&file, bytes).and_then(|()| match executable {
            true => std::fs::set_permissions(&file, PermissionsExt::from_mode(0o700)),
            false => Ok(()),
        });
        written.map_err(|e| {
            let what = format!(
                "the bundled agent cannot be unpacked to `{}`: {e}",
                file.display()
            );
            Fault::new(Code::StateUnwritable, what)
                .hint("set AGENTPROTO_HOME to a directory of your own")
        })?;
    }
    Ok(Some(dir))
}
