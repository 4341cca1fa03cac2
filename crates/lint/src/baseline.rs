//! Baselines: findings that were known when the file was written and do not count.
//!
//! An entry knows a finding by its rule, its file and the text at fault, not by its line, so
//! edits elsewhere in the file do not bring it back.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::finding::{Finding, Report};
use agentproto_manifest::normalize;
use agentproto_text::replace_file;

const SCHEMA: &str = "agentproto.baseline/v1";
/// What `Finding::suppressed` says of a known finding.
pub const REASON: &str = "baseline";

#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("{}: there is no such baseline file", .0.display())]
    Missing(PathBuf),
    #[error("{}: the baseline cannot be read: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: the baseline is malformed: {why}", .path.display())]
    Malformed { path: PathBuf, why: String },
    #[error("{}: the baseline cannot be written: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    path: String,
    rule: String,
    fingerprint: String,
}

/// Known findings with how often each may occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Directory of the baseline file, to which its paths are relative.
    dir: PathBuf,
    entries: BTreeMap<Key, usize>,
}

/// What a baseline did to a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Findings that do not count any more.
    pub known: usize,
    /// Entries for linted files that match fewer findings than they allow: time to write the
    /// baseline anew, no reason to fail.
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
    /// A baseline of all findings that count, or that only an older baseline covers. `file`
    /// is where it will be written.
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

    pub fn load(file: &Path) -> Result<Baseline, BaselineError> {
        let fail = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => BaselineError::Missing(file.to_owned()),
            io::ErrorKind::InvalidData => BaselineError::Malformed {
                path: file.to_owned(),
                why: "it is not UTF-8".to_owned(),
            },
            _ => BaselineError::Read {
                path: file.to_owned(),
                error,
            },
        };
        // A pipe under the baseline's name would block for ever.
        if !std::fs::metadata(file).map_err(fail)?.is_file() {
            return Err(fail(io::Error::other("it is not a file")));
        }
        Baseline::parse(&std::fs::read_to_string(file).map_err(fail)?, file)
    }

    /// Reads a baseline's text; `file` is where it comes from.
    pub fn parse(text: &str, file: &Path) -> Result<Baseline, BaselineError> {
        let malformed = |why: String| BaselineError::Malformed {
            path: file.to_owned(),
            why,
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed: File = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
        if parsed.schema != SCHEMA {
            return Err(malformed(format!(
                "its `schema` is `{}`, not `{SCHEMA}`",
                parsed.schema
            )));
        }
        let mut entries = BTreeMap::new();
        for (i, entry) in parsed.entries.into_iter().enumerate() {
            if entry.rule.is_empty() || entry.path.is_empty() || entry.fingerprint.is_empty() {
                return Err(malformed(format!(
                    "entry {i} has an empty `rule`, `path` or `fingerprint`"
                )));
            }
            if entry.count == 0 {
                return Err(malformed(format!("entry {i} has the `count` 0")));
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

    /// The file's text: sorted, so that two baselines can be compared line by line.
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

    /// Writes the file in one step: readers see the old text or the new one.
    pub fn write(&self, file: &Path) -> Result<(), BaselineError> {
        replace_file(file, self.render().as_bytes()).map_err(|error| BaselineError::Write {
            path: file.to_owned(),
            error,
        })
    }

    /// How many findings it knows.
    pub fn len(&self) -> usize {
        self.entries
            .values()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Marks known findings as suppressed, the first in reading order where there are more
    /// than the baseline allows.
    pub fn apply(&self, report: &mut Report) -> Matched {
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
            // Files outside the run were not looked at, so nothing is known about them.
            let linted: HashSet<String> = report.files.iter().map(|f| self.relative(f)).collect();
            left.keys().filter(|key| linted.contains(&key.path)).count()
        };
        Matched {
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

    /// A path as the baseline writes it.
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

/// Digest of the rule and the lines at fault, white space folded.
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
        // A finding about the document as a whole has no text of its own: two missing fields
        // both point at the fence.
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
