//! Renders AOI reports, one file per format, from one model (`aoi::model`).
//!
//! Renderers only read. Output of the tool is untrusted: it goes through `report::text` before it
//! reaches a terminal, and through the escaping of the format.

pub mod badge;
pub mod baseline;
pub mod docs;
mod human;
pub mod jsonl;
mod junit;
mod markdown;
mod sarif;
mod wording;

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use crate::model::{Characteristic, CheckId, Finding, Report, SCHEMA, Verdict, characteristics};
use agentproto_report as shared;
use agentproto_report::baseline::FixedRow;
use agentproto_report::files::{self, LoadError, WriteError};
use agentproto_report::{Row, UnknownFormat, format, row};

/// Output formats of a report.
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
    /// Text for terminals.
    Human,
    /// The whole report as one JSON document.
    Json,
    /// AOI machine mode: one JSON event per line.
    Jsonl,
    /// JUnit XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
    /// Markdown for a README or a pull request.
    Markdown,
    /// Badge as an SVG image.
    Badge,
    /// Badge as JSON for shields.io.
    BadgeJson,
}

impl Format {
    /// All formats.
    pub const ALL: &[Format] = <Format as strum::VariantArray>::VARIANTS;

    /// Whether the format is a badge, which exists only if at least one pair is proven.
    pub fn needs_proof(self) -> bool {
        matches!(self, Format::Badge | Format::BadgeJson)
    }
}

fn unknown(name: &str) -> UnknownFormat {
    UnknownFormat::new("report", name, Format::ALL)
}

impl Row for Finding {
    fn id(&self) -> &str {
        &self.rule
    }
    fn subject(&self) -> Cow<'_, str> {
        self.command.as_str().into()
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
    type Row = Finding;
    fn tool(&self) -> (&str, &str) {
        (&self.tool.name, &self.tool.version)
    }
    fn rows(&self) -> &[Finding] {
        &self.checks
    }
}

/// Options of the renderers.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    /// Whether to use colors.
    pub color: bool,
    /// Whether characters outside ASCII may be printed.
    pub unicode: bool,
    /// Width of the terminal in columns.
    pub width: usize,
    /// Violations of the baseline that are fixed now.
    pub fixed: Vec<FixedRow>,
    /// URL of the badge in Markdown. Without it, the report has no badge image.
    pub badge: Option<String>,
    /// Value of `ok` in the machine-mode summary.
    pub ok: bool,
    /// Findings that machine mode has already printed, after its `aoi:meta`. `None` if it has
    /// printed nothing.
    pub written: Option<Vec<Finding>>,
    /// The checks that were selected. Empty means all checks.
    pub only: Vec<CheckId>,
}

impl RenderOptions {
    /// Whether a selected check decides the characteristic.
    fn is_checked(&self, characteristic: Characteristic) -> bool {
        let decides = |check: &CheckId| characteristics(*check).contains(&characteristic);
        self.only.is_empty() || self.only.iter().any(decides)
    }
}

impl Default for RenderOptions {
    fn default() -> Self {
        RenderOptions {
            color: false,
            unicode: true,
            width: 100,
            fixed: Vec::new(),
            badge: None,
            written: None,
            only: Vec::new(),
            ok: true,
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
        Format::Markdown => markdown::render(report, options, out),
        Format::Badge | Format::BadgeJson => badge(format, report, out),
    };
    format::end(rendered, out)
}

fn badge(format: Format, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Some(badge) = badge::badge(report) else {
        return Err(io::Error::other(
            "no pair is proven, so no badge can be created",
        ));
    };
    match format {
        Format::BadgeJson => shared::badge::endpoint(&badge, out),
        _ => shared::badge::svg(&badge, Some(&badge::about(report)?), out),
    }
}

/// File names that `write_all` writes.
const FILES: [(&str, Format); 7] = [
    ("report.json", Format::Json),
    ("report.jsonl", Format::Jsonl),
    ("report.md", Format::Markdown),
    ("junit.xml", Format::Junit),
    ("report.sarif", Format::Sarif),
    ("badge.svg", Format::Badge),
    ("badge.json", Format::BadgeJson),
];

/// Writes the report in every format into a directory, which is created if necessary. A badge from
/// an earlier run that is no longer earned is removed.
pub fn write_all(report: &Report, dir: &Path, options: &RenderOptions) -> Result<(), WriteError> {
    let earned = badge::badge(report).is_some();
    let options = RenderOptions {
        color: false,
        written: None,
        badge: earned.then(|| "badge.svg".to_owned()),
        ..options.clone()
    };
    files::write_all(dir, &FILES, |format| {
        if format.needs_proof() && !earned {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        render(format, report, &options, &mut bytes).map(|()| Some(bytes))
    })
}

/// Reads a report that `--output json` or `--report-dir` wrote.
pub fn load(path: &Path) -> Result<Report, LoadError> {
    files::load(path, SCHEMA, "AOI report")
}
