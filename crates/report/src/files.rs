//! Writes all formats of a report to a directory, and loads a saved report.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentproto_text::{escape_line, replace_file};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum size of a report in bytes. If a user names a device by mistake, the limit prevents
/// memory exhaustion.
const MAX_BYTES: u64 = 512 << 20;

/// A report file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be written: {error}", escape_line(&.path.to_string_lossy()))]
pub struct WriteError {
    /// The file or directory.
    pub path: PathBuf,
    /// Error of the operating system.
    pub error: io::Error,
}

/// A saved report cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("`{}` {}", escape_line(&.path.to_string_lossy()), unreadable(error))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is not valid JSON.
    #[error("`{}` is not valid JSON: {error}", escape_line(&.path.to_string_lossy()))]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Error of the parser.
        error: serde_json::Error,
    },
    /// The file is JSON, but not a report of the expected kind.
    #[error("`{}` is not a valid {what}: {why}", escape_line(&.path.to_string_lossy()))]
    NotAReport {
        /// The file.
        path: PathBuf,
        /// Expected kind of report.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

/// Writes the given formats of a report to a directory and creates it if necessary. Each file is
/// replaced atomically. If `render` returns `None`, the file of that format is removed.
pub fn write_all<F: Copy>(
    dir: &Path,
    files: &[(&str, F)],
    render: impl Fn(F) -> io::Result<Option<Vec<u8>>>,
) -> Result<(), WriteError> {
    let failed = |path: &Path, error| WriteError {
        path: path.to_owned(),
        error,
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for (name, format) in files {
        let path = dir.join(name);
        let written = render(*format).and_then(|bytes| match bytes {
            Some(bytes) => replace_file(&path, &bytes),
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        });
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Loads a report of any kind. Its `schema` must be the expected one.
pub fn load<T: DeserializeOwned>(
    path: &Path,
    schema: &str,
    what: &'static str,
) -> Result<T, LoadError> {
    let unreadable = |error| LoadError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|n| n > MAX_BYTES) {
        return Err(unreadable(io::Error::other(
            "the file is larger than 512 MiB",
        )));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| LoadError::NotJson {
        path: path.to_owned(),
        error,
    })?;
    let not = |why: String| LoadError::NotAReport {
        path: path.to_owned(),
        what,
        why,
    };
    match value.get("schema").and_then(Value::as_str) {
        Some(own) if own == schema => {}
        Some(other) => {
            return Err(not(format!(
                "`schema` must be `{schema}`, found `{}`",
                escape_line(other)
            )));
        }
        None => return Err(not(format!("`schema` is missing, expected `{schema}`"))),
    }
    serde_json::from_value(value).map_err(|error| not(escape_line(&error.to_string()).into_owned()))
}
