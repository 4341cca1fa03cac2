//! Reports as files: every form of one in a directory, a saved one read again, and the errors of
//! both ways.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentproto_text::{plain, replace_file};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// No report is as large; whoever names a disk by mistake gets an error, not a full memory.
const MOST_BYTES: u64 = 512 << 20;

#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be written: {error}", plain(&.path.to_string_lossy()))]
pub struct WriteError {
    pub path: PathBuf,
    pub error: io::Error,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("`{}` cannot be read: {error}", plain(&.path.to_string_lossy()))]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("`{}` is no JSON: {error}", plain(&.path.to_string_lossy()))]
    NotJson {
        path: PathBuf,
        error: serde_json::Error,
    },
    #[error("`{}` is no {what}: {why}", plain(&.path.to_string_lossy()))]
    NotAReport {
        path: PathBuf,
        what: &'static str,
        why: String,
    },
}

/// Writes the named forms of a report into a directory, which is made if it is not there. Each file
/// is replaced in one step. A form that `render` has nothing for is taken away.
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

/// Reads a report of any of our kinds; its `schema` must be the one expected.
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
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|n| n > MOST_BYTES) {
        return Err(unreadable(io::Error::other("it is larger than 512 MiB")));
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
                "its schema is `{}`, not `{schema}`",
                plain(other)
            )));
        }
        None => return Err(not(format!("it has no `schema`; one has `{schema}`"))),
    }
    serde_json::from_value(value).map_err(|error| not(plain(&error.to_string()).into_owned()))
}
