//! Reports as files: every form of one in a directory, and a saved one read again.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Format, Options, render};
use crate::harness::model::{Report, SCHEMA};
use crate::manifest::replace_file;
use crate::report::text::plain;

/// What `write_all` writes.
pub const FILES: [(&str, Format); 7] = [
    ("report.json", Format::Json),
    ("report.html", Format::Html),
    ("report.md", Format::Markdown),
    ("junit.xml", Format::Junit),
    ("report.sarif", Format::Sarif),
    ("badge.svg", Format::Badge),
    ("badge.json", Format::BadgeJson),
];

/// No report is as large; whoever names a disk by mistake gets an error, not a full memory.
const MOST_BYTES: u64 = 512 << 20;

#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be written: {error}", plain(&.path.to_string_lossy()))]
pub struct WriteError {
    pub path: PathBuf,
    pub error: io::Error,
}

/// Writes every form of a report into a directory, which is made if it is not there. Each file
/// is replaced in one step.
pub fn write_all(report: &Report, dir: &Path, options: &Options) -> Result<(), WriteError> {
    let failed = |path: &Path, error| WriteError {
        path: path.to_owned(),
        error,
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let options = Options {
        color: false,
        badge: Some("badge.svg".to_owned()),
        ..options.clone()
    };
    for (name, format) in FILES {
        let path = dir.join(name);
        let mut bytes = Vec::new();
        render(format, report, &options, &mut bytes)
            .and_then(|()| replace_file(&path, &bytes))
            .map_err(|error| failed(&path, error))?;
    }
    Ok(())
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

/// Reads what `--output json` or `--report-dir` wrote.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    load_as(path, SCHEMA, "certification report")
}

/// Reads a report of any of our kinds; its `schema` must be the one expected.
pub(in crate::report) fn load_as<T: DeserializeOwned>(
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
