//! The suites that are embedded in the binary.

use std::io;
use std::path::MAIN_SEPARATOR;

use super::{Suite, parse_all};
use agentproto_manifest::fields::FieldError;
use agentproto_suites::SUITES;

/// Names of the built-in suites.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// A built-in suite. `None` if no suite has this name. Tests parse all of them.
pub fn built_in(name: &str) -> Option<Result<Suite, Vec<FieldError>>> {
    let (_, texts) = SUITES.iter().find(|(known, _)| *known == name)?;
    Some(parse_all(texts))
}

/// Why a suite could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The suite is not built in, and the name is not a path.
    #[error("unknown suite `{0}`")]
    Unknown(String),
    /// The file cannot be read.
    #[error("the suite `{path}` cannot be read: {error}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is not a valid suite.
    #[error("{}", first_error(path, errors))]
    Invalid {
        /// Path of the file.
        path: String,
        /// Its errors.
        errors: Vec<FieldError>,
    },
}

fn first_error(path: &str, errors: &[FieldError]) -> String {
    match errors.first() {
        Some(first) => format!(
            "invalid suite: {path}:{}:{}: {}",
            first.line, first.column, first.message
        ),
        None => format!("invalid suite: {path}"),
    }
}

/// A built-in suite, or one from a file. A name with a slash or a dot is the path of a file.
///
/// # Errors
/// The suite is unknown, or the file cannot be read or is invalid.
pub fn load(name: &str) -> Result<Suite, LoadError> {
    let parsed = match built_in(name) {
        Some(parsed) => parsed,
        None if !name.contains([MAIN_SEPARATOR, '.']) => {
            return Err(LoadError::Unknown(name.to_owned()));
        }
        None => {
            let text = std::fs::read_to_string(name);
            super::parse(&text.map_err(|error| LoadError::Unreadable {
                path: name.to_owned(),
                error,
            })?)
        }
    };
    parsed.map_err(|errors| LoadError::Invalid {
        path: name.to_owned(),
        errors,
    })
}

/// Whether any built-in suite contains this text.
pub fn any_contains(words: &str) -> bool {
    let mut texts = SUITES.iter().flat_map(|(_, texts)| texts.iter());
    texts.any(|text| text.contains(words))
}
