//! Baselines: files that list known findings, which then do not count.
//!
//! An entry identifies a finding by rule, file and the text of its lines, not by line number.
//! Edits elsewhere in the file therefore do not make a known finding count again.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::finding::{Finding, Report};
use agentproto_manifest::{FileSource, ReadError, normalize};
use agentproto_text::replace_file;

const SCHEMA: &str = "agentproto.baseline/v1";
/// Value of `Finding::suppressed` for a finding that the baseline lists.
pub const REASON: &str = "baseline";

/// Why a baseline could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The file does not exist.
    #[error("the baseline `{}` does not exist", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("{}: cannot read the baseline: {error}", .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is not a baseline.
    #[error("{}: invalid baseline: {why}", .path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with its content.
        why: String,
    },
    /// The file cannot be written.
    #[error("{}: cannot write the baseline: {error}", .path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    path: String,
    rule: String,
    fingerprint: String,
}

/// Known findings, and how often each may occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Directory of the baseline file, to which its paths are relative.
    dir: PathBuf,
    entries: BTreeMap<Key, usize>,
}

/// The result of applying a baseline to a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaselineResult {
    /// Number of findings that the baseline suppressed.
    pub known: usize,
    /// Number of entries for linted files that match fewer findings than they list. The baseline
    /// should then be written again, but the run does not fail.
    pub stale: usize,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema: String,
    entries: Vec<FileEntry>,
}

#[derive(Serialize, Deserialize)]
struct FileEntry {
    rule: String,
    path: String,
    fingerprint: String,
    count: usize,
}

impl Baseline {
    /// A baseline of all findings that count or that only an older baseline suppresses. `file` is
    /// the path to which it will be written.
    pub fn of(report: &Report, file: &Path) -> Baseline {
        let mut baseline = Baseline {
            dir: directory_of(file),
            entries: BTreeMap::new(),
        };
        for finding in &report.findings {
            if finding.suppressed.as_deref().is_none_or(|r| r == REASON) {
                let key = baseline.key(report, finding);
                *baseline.entries.entry(key).or_insert(0) += 1;
            }
        }
        baseline
    }

    /// Reads a baseline file.
    pub fn load(file: &Path) -> Result<Baseline, BaselineError> {
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => BaselineError::Missing(file.to_owned()),
            io::ErrorKind::InvalidData => BaselineError::Invalid {
                path: file.to_owned(),
                why: "not valid UTF-8".to_owned(),
            },
            _ => BaselineError::Read {
                path: file.to_owned(),
                error,
            },
        };
        // Reading a named pipe would block forever.
        if !std::fs::metadata(file).map_err(fail)?.is_file() {
            return Err(fail(io::Error::other("not a regular file")));
        }
        Baseline::parse(&std::fs::read_to_string(file).map_err(fail)?, file)
    }

    /// Reads a baseline file from a source that may refuse to read it.
    pub fn load_from(files: &dyn FileSource, file: &Path) -> Result<Baseline, BaselineError> {
        let bytes = files.read(file).map_err(|error| match error {
            ReadError::NotFound => BaselineError::Missing(file.to_owned()),
            ReadError::LeavesTree { .. } => BaselineError::Read {
                path: file.to_owned(),
                error: io::Error::other("it is outside the repository of the configuration"),
            },
            error => BaselineError::Read {
                path: file.to_owned(),
                error: io::Error::other(error.to_string()),
            },
        })?;
        let text = String::from_utf8(bytes).map_err(|_| BaselineError::Invalid {
            path: file.to_owned(),
            why: "not valid UTF-8".to_owned(),
        })?;
        Baseline::parse(&text, file)
    }

    /// Parses the text of a baseline. `file` is the path it was read from.
    pub fn parse(text: &str, file: &Path) -> Result<Baseline, BaselineError> {
        let invalid = |why: String| BaselineError::Invalid {
            path: file.to_owned(),
            why,
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed: File = serde_json::from_str(text).map_err(|e| invalid(e.to_string()))?;
        if parsed.schema != SCHEMA {
            return Err(invalid(format!(
                "`schema` must be `{SCHEMA}`, found `{}`",
                parsed.schema
            )));
        }
        let mut entries = BTreeMap::new();
        for (i, entry) in parsed.entries.into_iter().enumerate() {
            if entry.rule.is_empty() || entry.path.is_empty() || entry.fingerprint.is_empty() {
                return Err(invalid(format!(
                    "entry {i} has an empty `rule`, `path` or `fingerprint`"
                )));
            }
            if entry.count == 0 {
                return Err(invalid(format!(
                    "`count` of entry {i} must be at least 1, found 0"
                )));
            }
            let key = Key {
                path: entry.path,
                rule: entry.rule,
                fingerprint: entry.fingerprint,
            };
            let count: &mut usize = entries.entry(key).or_insert(0);
            *count = count.saturating_add(entry.count);
        }
        Ok(Baseline {
            dir: directory_of(file),
            entries,
        })
    }

    /// The text of the file. Entries are sorted, so that two baselines can be compared line by
    /// line.
    pub fn render(&self) -> String {
        let file = File {
            schema: SCHEMA.to_owned(),
            entries: self
                .entries
                .iter()
                .map(|(key, count)| FileEntry {
                    rule: key.rule.clone(),
                    path: key.path.clone(),
                    fingerprint: key.fingerprint.clone(),
                    count: *count,
                })
                .collect(),
        };
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Writes the file atomically: readers see either the old text or the new one.
    pub fn write(&self, file: &Path) -> Result<(), BaselineError> {
        replace_file(file, self.render().as_bytes()).map_err(|error| BaselineError::Write {
            path: file.to_owned(),
            error,
        })
    }

    /// Total number of known findings.
    pub fn len(&self) -> usize {
        self.entries
            .values()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }
    /// Whether the baseline is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Marks known findings as suppressed. If there are more than the baseline lists, the first
    /// ones in report order are marked.
    pub fn apply(&self, report: &mut Report) -> BaselineResult {
        let mut left = self.entries.clone();
        let mut known = Vec::new();
        for (i, finding) in report.findings.iter().enumerate() {
            if finding.counts()
                && let Some(count) = left.get_mut(&self.key(report, finding))
                && *count > 0
            {
                *count -= 1;
                known.push(i);
            }
        }
        for i in &known {
            if let Some(finding) = report.findings.get_mut(*i) {
                finding.suppressed = Some(REASON.to_owned());
            }
        }
        left.retain(|_, count| *count > 0);
        let stale = if left.is_empty() {
            0
        } else {
            // Entries for files that were not linted in this run are not stale.
            let linted: HashSet<String> = report.files.iter().map(|f| self.relative(f)).collect();
            left.keys().filter(|key| linted.contains(&key.path)).count()
        };
        BaselineResult {
            known: known.len(),
            stale,
        }
    }

    fn key(&self, report: &Report, finding: &Finding) -> Key {
        Key {
            path: self.relative(&finding.file),
            rule: finding.rule.slug.to_owned(),
            fingerprint: fingerprint(report, finding),
        }
    }

    /// The path relative to the baseline's directory, with forward slashes.
    fn relative(&self, path: &Path) -> String {
        let path = absolute(path);
        let mut from = self.dir.components().peekable();
        let mut to = path.components().peekable();
        while let Some(part) = to.peek()
            && from.peek() == Some(part)
        {
            from.next();
            to.next();
        }
        let ups = from.map(|_| "..".to_owned());
        let downs = to.filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        });
        ups.chain(downs).collect::<Vec<_>>().join("/")
    }
}

fn absolute(path: &Path) -> PathBuf {
    normalize(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

fn directory_of(file: &Path) -> PathBuf {
    let file = absolute(file);
    file.parent().map(Path::to_owned).unwrap_or(file)
}

/// Digest of the rule and of the words on the finding's lines. Changes of whitespace do not
/// matter.
fn fingerprint(report: &Report, finding: &Finding) -> String {
    let mut hash = Sha256::new();
    hash.update(finding.rule.slug);
    if let Some(doc) = report.source(&finding.file) {
        let lines = doc.lines();
        let start = lines.line_start(finding.start.line).unwrap_or(0) as usize;
        let end = lines
            .line_start(finding.end.line.max(finding.start.line).saturating_add(1))
            .map_or(doc.text.len(), |end| end as usize);
        for word in doc.text.get(start..end).unwrap_or("").split_whitespace() {
            hash.update(" ");
            hash.update(word);
        }
        // A finding about the whole document has no text of its own: findings about two missing
        // fields both point at the opening fence. The message tells them apart.
        if finding.pointer.is_empty() {
            hash.update("\n");
            hash.update(&finding.message);
        }
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
