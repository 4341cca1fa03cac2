//! One findings model → every output format, one file each.
//!
//! Renderers only read: they never judge, sort or drop a finding. Texts of manifests reach
//! a terminal through `text::plain` alone, so that no control character gets there raw.

pub mod agent;
pub mod concise;
pub mod docs;
pub mod fingerprint;
pub mod github;
pub mod gitlab;
pub mod human;
pub mod json;
pub mod jsonl;
pub mod junit;
pub mod rules;
pub mod sarif;
mod secrets;
mod snippet;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use agentproto_report::TOOL;
use agentproto_text as text;

use crate::{Finding, Level, Profile, Report, Safety, Severity, Source};

/// What a renderer has to know besides the findings.
#[derive(Clone, Debug)]
pub struct Meta {
    pub version: String,
    pub profile: Profile,
    pub color: bool,
    /// Box drawing and other characters beyond ASCII may be printed.
    pub unicode: bool,
    /// Columns of the terminal.
    pub width: usize,
    pub elapsed: Duration,
    /// The run fails from this severity on.
    pub fail_on: Severity,
    /// Findings never fail the run.
    pub exit_zero: bool,
    /// A signal ended the run before every file was judged.
    pub interrupted: bool,
    /// Paths below this directory are printed relative to it.
    pub base: Option<PathBuf>,
    /// The report holds a page of the findings.
    pub part: Option<Part>,
}

/// What a page of findings does not show by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whether the findings of all pages fail the run.
    pub failed: bool,
    /// The cursor of the next page.
    pub next: Option<String>,
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            profile: Profile::Default,
            color: false,
            unicode: true,
            width: 100,
            elapsed: Duration::ZERO,
            fail_on: Severity::Error,
            exit_zero: false,
            interrupted: false,
            base: None,
            part: None,
        }
    }
}

impl Meta {
    /// A path as reports print it: relative to `base` where it can be, with forward slashes.
    pub fn path(&self, path: &Path) -> String {
        let inside = self
            .base
            .as_deref()
            .and_then(|base| path.strip_prefix(base).ok())
            .unwrap_or(path);
        let text = inside.to_string_lossy();
        let text = text.strip_prefix("./").unwrap_or(&text);
        match text {
            "" => ".".to_owned(),
            text if cfg!(windows) => text.replace('\\', "/"),
            text => text.to_owned(),
        }
    }

    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether one finding is enough to fail the run.
    pub fn is_failure(&self, finding: &Finding) -> bool {
        finding.counts() && finding.severity >= self.fail_on
    }

    pub fn run_fails(&self, report: &Report) -> bool {
        if let Some(part) = &self.part {
            return part.failed;
        }
        !self.exit_zero && report.findings.iter().any(|f| self.is_failure(f))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Human,
    Concise,
    Json,
    Jsonl,
    Sarif,
    Github,
    Gitlab,
    Junit,
    Agent,
}

impl Format {
    pub const ALL: [Format; 9] = [
        Format::Human,
        Format::Concise,
        Format::Json,
        Format::Jsonl,
        Format::Sarif,
        Format::Github,
        Format::Gitlab,
        Format::Junit,
        Format::Agent,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Format::Human => "human",
            Format::Concise => "concise",
            Format::Json => "json",
            Format::Jsonl => "jsonl",
            Format::Sarif => "sarif",
            Format::Github => "github",
            Format::Gitlab => "gitlab",
            Format::Junit => "junit",
            Format::Agent => "agent",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no output format `{}`; there are {}", text::plain(.0), format_names())]
pub struct UnknownFormat(pub String);

fn format_names() -> String {
    Format::ALL.map(Format::as_str).join(", ")
}

impl FromStr for Format {
    type Err = UnknownFormat;
    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.as_str() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// Renders a report. A reader that closes its end has seen enough: that is no error.
pub fn render(format: Format, report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let renderer = match format {
        Format::Human => human::render,
        Format::Concise => concise::render,
        Format::Json => json::render,
        Format::Jsonl => jsonl::render,
        Format::Sarif => sarif::render,
        Format::Github => github::render,
        Format::Gitlab => gitlab::render,
        Format::Junit => junit::render,
        Format::Agent => agent::render,
    };
    match renderer(report, meta, out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub errors: usize,
    pub warnings: usize,
    pub infos: usize,
    pub suppressed: usize,
    /// Findings that `--fix` mends.
    pub safe_fixes: usize,
    /// Findings that only `--unsafe-fixes` mends.
    pub unsafe_fixes: usize,
}

impl Tally {
    pub fn of<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Self {
        let mut tally = Tally::default();
        for finding in findings {
            if !finding.counts() {
                tally.suppressed += 1;
                continue;
            }
            match finding.severity {
                Severity::Error => tally.errors += 1,
                Severity::Warning => tally.warnings += 1,
                Severity::Info => tally.infos += 1,
            }
            match finding.fix.as_ref().map(|fix| fix.safety) {
                Some(Safety::Safe) => tally.safe_fixes += 1,
                Some(Safety::Unsafe) => tally.unsafe_fixes += 1,
                None => {}
            }
        }
        tally
    }

    pub fn total(&self) -> usize {
        self.errors + self.warnings + self.infos
    }

    /// "2 errors, 1 info"; kinds that do not occur are left out.
    pub fn words(&self) -> String {
        let kinds = [
            (self.errors, "error", "errors"),
            (self.warnings, "warning", "warnings"),
            (self.infos, "info", "infos"),
        ];
        let words: Vec<_> = kinds
            .into_iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, one, many)| text::count(n, one, many))
            .collect();
        if words.is_empty() {
            "no findings".to_owned()
        } else {
            words.join(", ")
        }
    }
}

/// Whether a file of the run could not be read at all.
pub(crate) fn is_partial(report: &Report) -> bool {
    report
        .findings
        .iter()
        .any(|f| report.source(&f.file).is_none())
}

/// Neighbouring findings of the same file; the report is in file order.
pub(crate) fn by_file<'f>(
    findings: &'f [&'f Finding],
) -> impl Iterator<Item = (&'f Path, &'f [&'f Finding])> {
    findings
        .chunk_by(|a, b| a.file == b.file)
        .filter_map(|chunk| Some((chunk.first()?.file.as_path(), chunk)))
}

pub(crate) fn counted(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.counts()).collect()
}

/// The message, or the rule's title where a finding has none to say.
pub(crate) fn message(finding: &Finding) -> &str {
    if finding.message.trim().is_empty() {
        finding.rule.title
    } else {
        &finding.message
    }
}

/// `AIP-45 §Conformance (MUST)`.
pub fn citation(source: Source, level: Level) -> String {
    let section = match source.section {
        "" => String::new(),
        section => format!(" §{section}"),
    };
    let spec = match source.spec {
        "" => TOOL,
        spec => spec,
    };
    format!("{spec}{section} ({})", level.as_str())
}
