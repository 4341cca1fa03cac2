//! Reports as files: every form of one in a directory, and a saved one read again.

use std::io;
use std::path::Path;

use super::{Format, Options, badge, render};
use crate::model::{Report, SCHEMA};
use agentproto_report::files::load_as;
use agentproto_report::files::{LoadError, WriteError};
use agentproto_text::replace_file;

/// What `write_all` writes.
pub const FILES: [(&str, Format); 7] = [
    ("report.json", Format::Json),
    ("report.jsonl", Format::Jsonl),
    ("report.md", Format::Markdown),
    ("junit.xml", Format::Junit),
    ("report.sarif", Format::Sarif),
    ("badge.svg", Format::Badge),
    ("badge.json", Format::BadgeJson),
];

/// Writes every form of a report into a directory, which is made if it is not there. A badge
/// that is no longer earned is taken away.
pub fn write_all(report: &Report, dir: &Path, options: &Options) -> Result<(), WriteError> {
    let failed = |path: &Path, error| WriteError {
        path: path.to_owned(),
        error,
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let earned = badge::badge(report).is_some();
    let options = Options {
        color: false,
        badge: earned.then(|| "badge.svg".to_owned()),
        ..options.clone()
    };
    for (name, format) in FILES {
        let path = dir.join(name);
        let written = if format.needs_proof() && !earned {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            let mut bytes = Vec::new();
            let rendered = render(format, report, &options, &mut bytes);
            rendered.and_then(|()| replace_file(&path, &bytes))
        };
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Reads what `--output json` or `--report-dir` wrote.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    load_as(path, SCHEMA, "AOI report")
}
