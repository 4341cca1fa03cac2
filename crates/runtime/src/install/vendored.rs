//! `vendored`: a binary inside the bundle (A29-INSTALL-15).

use std::path::{Component, Path, PathBuf};

use agentproto_sandbox::programs::find::is_program;

/// Resolves a path of the manifest. It must not point outside the bundle, not even through a link.
pub fn check(bundle: &Path, path: &str) -> Result<PathBuf, String> {
    let relative = Path::new(path);
    let climbs = |c: Component<'_>| !matches!(c, Component::Normal(_) | Component::CurDir);
    if relative.components().any(climbs) {
        return Err(format!("`{path}` points outside the bundle"));
    }
    let whole = bundle.join(relative);
    let (Ok(real), Ok(root)) = (whole.canonicalize(), bundle.canonicalize()) else {
        return Err(format!("no `{path}` in the bundle"));
    };
    if !real.starts_with(&root) {
        return Err(format!("`{path}` is a link that points outside the bundle"));
    }
    match (real.is_file(), is_program(&real)) {
        (true, true) => Ok(real),
        (true, false) => Err(format!("`{path}` is not executable: run `chmod +x` on it")),
        (false, _) => Err(format!("`{path}` is not a regular file")),
    }
}
