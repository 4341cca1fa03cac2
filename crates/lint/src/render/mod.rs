//! One findings model → every output format, one file each.
//!
//! Renderers only read: they never judge, sort or drop a finding. Texts of manifests reach
//! a terminal through `text::plain` alone, so that no control character gets there raw.

mod agent;
mod concise;
pub mod docs;
pub mod fingerprint;
mod github;
mod gitlab;
mod human;
mod json;
mod jsonl;
mod junit;
pub mod rules;
mod sarif;
mod secrets;
mod snippet;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentproto_report as shared;
use agentproto_report::{Row, TOOL, UnknownFormat, Verdict, format};
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

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownFormat, parse_err_fn = unknown)]
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
    pub const ALL: &[Format] = <Format as strum::VariantArray>::VARIANTS;
}

fn unknown(name: &str) -> UnknownFormat {
    UnknownFormat::new("output", name, Format::ALL)
}

impl Row for Finding {
    fn id(&self) -> &str {
        self.rule.slug
    }
    fn place(&self) -> Cow<'_, str> {
        self.file.to_string_lossy()
    }
    fn verdict(&self) -> Verdict {
        match self.severity {
            Severity::Error => Verdict::Fail,
            Severity::Warning | Severity::Info => Verdict::Warn,
        }
    }
    fn message(&self) -> &str {
        message(self)
    }
    fn suppressed(&self) -> Option<&str> {
        self.suppressed.as_deref()
    }
}

/// A report as it is to be shown.
struct Shown<'r> {
    report: &'r Report,
    meta: &'r Meta,
}

impl shared::Report for Shown<'_> {
    type Row = Finding;
    fn tool(&self) -> (&str, &str) {
        (TOOL, &self.meta.version)
    }
    fn rows(&self) -> &[Finding] {
        &self.report.findings
    }
}

/// Renders a report.
pub fn render(format: Format, report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let shown = Shown { report, meta };
    let rendered = match format {
        Format::Human => human::render(report, meta, out),
        Format::Concise => concise::render(report, meta, out),
        Format::Json => json::render(report, meta, out),
        Format::Jsonl => jsonl::render(report, meta, out),
        Format::Sarif => shared::sarif::write(&shown, out),
        Format::Github => github::render(report, meta, out),
        Format::Gitlab => gitlab::render(report, meta, out),
        Format::Junit => shared::junit::write(&shown, out),
        Format::Agent => agent::render(report, meta, out),
    };
    format::end(rendered, out)
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
