//! Reports as files: every form of one in a directory, and a saved one read again.

use std::path::Path;

use super::{Format, Options, render};
use crate::model::{Report, SCHEMA};
use agentproto_report::files::load_as;
pub use agentproto_report::files::{LoadError, WriteError};
use agentproto_text::replace_file;

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

/// Reads what `--output json` or `--report-dir` wrote.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    load_as(path, SCHEMA, "certification report")
}
