//! Renders a certification report in every format: one model (`harness::model`), one file per
//! format.
//!
//! Renderers only read. Text from an agent, a manifest or a saved file is untrusted: it passes
//! through `report::text` before it reaches a terminal, and is escaped for its format.

/// Badge of a report.
pub mod badge;
/// Known failures from an earlier report.
pub mod baseline;
/// Report as an HTML page.
pub mod html;
mod human;
/// Index page of many reports.
pub mod index;
mod jsonl;
mod junit;
mod markdown;
mod merge;
mod next;
mod order;
mod page;
mod prompting;
mod sarif;
mod words;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::model::{CaseResult, Report, SCHEMA, Verdict};
use agentproto_report as shared;
use agentproto_report::baseline::FixedRow;
use agentproto_report::files::{self, LoadError, WriteError};
use agentproto_report::{Row, UnknownFormat, format, row};
pub use merge::{MergeError, merge};
pub use order::arrange;
pub use words::fails_without_failure;
pub(crate) use words::severity_rank;

/// Output format of a report.
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
    /// Text for a terminal.
    Human,
    /// The report as one JSON object.
    Json,
    /// One JSON event per line.
    Jsonl,
    /// JUnit XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
    /// One HTML page.
    Html,
    /// Markdown for a pull request or a job summary.
    Markdown,
    /// Badge as an SVG image.
    Badge,
    /// Badge as JSON for shields.io.
    BadgeJson,
}

impl Format {
    /// All formats, in the order of the help text.
    pub const ALL: &[Format] = <Format as strum::VariantArray>::VARIANTS;
}

fn unknown(name: &str) -> UnknownFormat {
    UnknownFormat::new("report", name, Format::ALL)
}

impl Row for CaseResult {
    fn id(&self) -> &str {
        &self.requirement
    }
    fn subject(&self) -> Cow<'_, str> {
        format!("{} / {}", self.suite, self.case).into()
    }
    fn verdict(&self) -> Verdict {
        self.verdict
    }
    fn message(&self) -> &str {
        &self.message
    }
    fn suppressed(&self) -> Option<&str> {
        self.known.then_some(row::BASELINE)
    }
}

impl shared::RowReport for Report {
    type Row = CaseResult;
    fn tool(&self) -> (&str, &str) {
        (&self.tool.name, &self.tool.version)
    }
    fn rows(&self) -> &[CaseResult] {
        &self.results
    }
}

/// What a renderer needs to know besides the report.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// The subcommand that a stream of events names.
    pub command: String,
    /// Whether the terminal output is colored.
    pub color: bool,
    /// Whether arrows and other non-ASCII characters may be printed.
    pub unicode: bool,
    /// Width of the terminal in columns.
    pub width: usize,
    /// The directory to which `write_all` writes every format of the report.
    pub report_dir: Option<PathBuf>,
    /// The prompts file that was passed.
    pub prompts: Option<PathBuf>,
    /// What failed in the baseline and passes now.
    pub fixed: Vec<FixedRow>,
    /// Address of the badge image for Markdown. Without one, the badge is written as text.
    pub badge: Option<String>,
    /// Whether `aoi:meta`, the first line of a stream of events, is already written.
    pub has_meta: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        RenderOptions {
            command: "certify".to_owned(),
            color: false,
            unicode: true,
            width: 100,
            report_dir: None,
            prompts: None,
            fixed: Vec::new(),
            badge: None,
            has_meta: false,
        }
    }
}

/// Renders a report.
pub fn render(
    format: Format,
    report: &Report,
    options: &RenderOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rendered = match format {
        Format::Human => human::render(report, options, out),
        Format::Json => format::json(report, out),
        Format::Jsonl => jsonl::render(report, options, out),
        Format::Junit => shared::junit::write(report, out),
        Format::Sarif => shared::sarif::write(report, out),
        Format::Html => html::render(report, options, out),
        Format::Markdown => markdown::render(report, options, out),
        Format::Badge => shared::badge::svg(&badge::badge(report), None, out),
        Format::BadgeJson => shared::badge::endpoint(&badge::badge(report), out),
    };
    format::end(rendered, out)
}

/// The files that `write_all` writes.
const FILES: [(&str, Format); 7] = [
    ("report.json", Format::Json),
    ("report.html", Format::Html),
    ("report.md", Format::Markdown),
    ("junit.xml", Format::Junit),
    ("report.sarif", Format::Sarif),
    ("badge.svg", Format::Badge),
    ("badge.json", Format::BadgeJson),
];

/// Writes every format of a report to a directory, which is created if it does not exist.
pub fn write_all(report: &Report, dir: &Path, options: &RenderOptions) -> Result<(), WriteError> {
    let options = RenderOptions {
        color: false,
        badge: Some("badge.svg".to_owned()),
        ..options.clone()
    };
    files::write_all(dir, &FILES, |format| {
        let mut bytes = Vec::new();
        render(format, report, &options, &mut bytes).map(|()| Some(bytes))
    })
}

/// Reads a report that `--output json` or `--report-dir` wrote.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    files::load(path, SCHEMA, "certification report")
}
