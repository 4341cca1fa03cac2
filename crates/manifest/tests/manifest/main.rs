//! Tests of manifest parsing and typed views.

use std::path::Path;

#[cfg(unix)]
mod confined;
mod views;
mod yaml;

/// The root of the repository.
fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates/manifest is two levels down")
}
