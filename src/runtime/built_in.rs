//! Bundles that this binary carries, unpacked where they are wanted.

use std::path::PathBuf;

use super::fault::Fault;
use super::home::Home;

/// Names of the bundles.
pub fn names() -> Vec<&'static str> {
    Vec::new()
}

/// The directory of a bundle, its files written; `None` where there is none of the name.
pub fn unpack(_name: &str, _home: &Home) -> Result<Option<PathBuf>, Fault> {
    Ok(None)
}
