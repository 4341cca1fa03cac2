//! Renders a report in all output formats. Each format has its own file.
//!
//! Renderers do not change, sort or drop findings. Text from manifests is always passed through
//! `text::escape_line` before it is printed, so that no control character reaches a terminal.

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

/// Settings of a renderer, and facts about the run.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Version of agentproto.
    pub version: String,
    /// Profile of the run.
    pub profile: Profile,
    /// Whether to use ANSI colors.
    pub color: bool,
    /// Whether box drawing and other non-ASCII characters may be printed.
    pub unicode: bool,
    /// Width of the terminal in columns.
    pub width: usize,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Findings of this severity or higher fail the run.
    pub fail_on: Severity,
    /// Whether findings never fail the run.
    pub exit_zero: bool,
    /// Whether a signal stopped the run before all files were checked.
    pub interrupted: bool,
    /// Paths below this directory are printed relative to it.
    pub base: Option<PathBuf>,
    /// Set if the report contains only one page of the findings.
    pub page: Option<PageInfo>,
    /// Whether to leave out notes, such as how to get more information.
    pub quiet: bool,
    /// Options and paths that repeat the run, for a shell. They are printed after `agentproto lint`.
    pub arguments: String,
}

/// Facts about all findings, for a report that contains only one page of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// Whether the findings of all pages fail the run.
    pub failed: bool,
    /// Counts of the findings of all pages.
    pub counts: FindingCounts,
    /// Cursor of the next page. `None` on the last page.
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
            page: None,
            quiet: false,
            arguments: String::new(),
        }
    }
}

impl Meta {
    /// A path as reports print it: relative to `base` if possible, with forward slashes.
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

    /// Duration of the run in milliseconds.
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether a finding fails the run, unless `exit_zero` is set.
    pub fn is_failure(&self, finding: &Finding) -> bool {
        finding.counts() && finding.severity >= self.fail_on
    }

    /// Counts of all findings of the run, even if the report contains only one page of them.
    pub fn counts(&self, report: &Report) -> FindingCounts {
        match &self.page {
            Some(page) => page.counts,
            None => FindingCounts::of(&report.findings),
        }
    }

    /// Whether the run fails.
    pub fn run_fails(&self, report: &Report) -> bool {
        if let Some(page) = &self.page {
            return page.failed;
        }
        !self.exit_zero && report.findings.iter().any(|f| self.is_failure(f))
    }
}

/// Output formats of `lint`.
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
    /// Findings with source excerpts.
    Human,
    /// One line per finding.
    Concise,
    /// One JSON document.
    Json,
    /// AOI events, one per line.
    Jsonl,
    /// SARIF 2.1.0.
    Sarif,
    /// GitHub workflow commands.
    Github,
    /// GitLab Code Quality report.
    Gitlab,
    /// JUnit XML.
    Junit,
    /// Short text for language models.
    Agent,
}

impl Format {
    /// All formats.
    pub const ALL: &[Format] = <Format as strum::VariantArray>::VARIANTS;
}

fn unknown(name: &str) -> UnknownFormat {
    UnknownFormat::new("output", name, Format::ALL)
}

impl Row for Finding {
    fn id(&self) -> &str {
        self.rule.slug
    }
    fn subject(&self) -> Cow<'_, str> {
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

/// A report and the settings of its renderer.
struct RenderedReport<'r> {
    report: &'r Report,
    meta: &'r Meta,
}

impl shared::RowReport for RenderedReport<'_> {
    type Row = Finding;
    fn tool(&self) -> (&str, &str) {
        (TOOL, &self.meta.version)
    }
    fn rows(&self) -> &[Finding] {
        &self.report.findings
    }
}

/// Writes a report in a format.
pub fn render(format: Format, report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let rendered_report = RenderedReport { report, meta };
    let rendered = match format {
        Format::Human => human::render(report, meta, out),
        Format::Concise => concise::render(report, meta, out),
        Format::Json => json::render(report, meta, out),
        Format::Jsonl => jsonl::render(report, meta, out),
        Format::Sarif => shared::sarif::write(&rendered_report, out),
        Format::Github => github::render(report, meta, out),
        Format::Gitlab => gitlab::render(report, meta, out),
        Format::Junit => shared::junit::write(&rendered_report, out),
        Format::Agent => agent::render(report, meta, out),
    };
    format::end(rendered, out)
}

/// Number of findings by severity and kind of fix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FindingCounts {
    /// Errors that count.
    pub errors: usize,
    /// Warnings that count.
    pub warnings: usize,
    /// Infos that count.
    pub infos: usize,
    /// Suppressed findings of any severity.
    pub suppressed: usize,
    /// Findings that `--fix` can fix.
    pub safe_fixes: usize,
    /// Findings that only `--unsafe-fixes` can fix.
    pub unsafe_fixes: usize,
}

impl FindingCounts {
    /// Counts findings.
    pub fn of<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Self {
        let mut counts = FindingCounts::default();
        for finding in findings {
            if !finding.counts() {
                counts.suppressed += 1;
                continue;
            }
            match finding.severity {
                Severity::Error => counts.errors += 1,
                Severity::Warning => counts.warnings += 1,
                Severity::Info => counts.infos += 1,
            }
            match finding.fix.as_ref().map(|fix| fix.safety) {
                Some(Safety::Safe) => counts.safe_fixes += 1,
                Some(Safety::Unsafe) => counts.unsafe_fixes += 1,
                None => {}
            }
        }
        counts
    }

    /// Number of findings that count.
    pub fn total(&self) -> usize {
        self.errors + self.warnings + self.infos
    }

    /// For example "2 errors, 1 info". Severities without findings are left out.
    pub fn describe(&self) -> String {
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

/// Whether a file of the run could not be read.
pub(crate) fn is_partial(report: &Report) -> bool {
    report
        .findings
        .iter()
        .any(|f| report.source(&f.file).is_none())
}

/// The findings grouped by file. They must be in report order.
pub(crate) fn by_file<'f>(
    findings: &'f [&'f Finding],
) -> impl Iterator<Item = (&'f Path, &'f [&'f Finding])> {
    findings
        .chunk_by(|a, b| a.file == b.file)
        .filter_map(|chunk| Some((chunk.first()?.file.as_path(), chunk)))
}

/// The findings that count.
pub(crate) fn active_findings(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.counts()).collect()
}

/// The message of a finding, or the title of its rule if it has none.
pub(crate) fn message(finding: &Finding) -> &str {
    if finding.message.trim().is_empty() {
        finding.rule.title
    } else {
        &finding.message
    }
}

/// The source of a finding, for example `AIP-45 §Conformance (MUST)`.
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
