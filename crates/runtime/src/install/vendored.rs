//! `vendored`: a ready binary inside of the bundle (A29-INSTALL-15).

use std::path::{Component, Path, PathBuf};

use agentproto_sandbox::programs::find::is_program;

/// The file that a path of the manifest means; it must not lead out of the bundle, not even
/// by a link.
pub fn check(bundle: &Path, path: &str) -> Result<PathBuf, String> {
    let relative = Path::new(path);
    let climbs = |c: Component<'_>| !matches!(c, Component::Normal(_) | Component::CurDir);
    if relative.components().any(climbs) {
        return Err(format!("`{path}` leads out of the bundle"));
    }
    let whole = bundle.join(relative);
    let (Ok(real), Ok(root)) = (whole.canonicalize(), bundle.canonicalize()) else {
        return Err(format!("there is no `{path}` in the bundle"));
    };
    if !real.starts_with(&root) {
        return Err(format!("`{path}` is a link that leads out of the bundle"));
    }
    match (real.is_file(), is_program(&real)) {
        (true, true) => Ok(real),
        (true, false) => Err(format!(
            "`{path}` is not executable; `chmod +x` makes it so"
        )),
        (false, _) => Err(format!("`{path}` is no regular file")),
    }
}
