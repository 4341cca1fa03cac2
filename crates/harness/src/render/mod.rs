//! A certification report in every form: one model (`harness::model`), one file per format.
//!
//! Renderers only read. Whatever an agent, a manifest or a saved file says is hostile here:
//! it passes `report::text` on its way to a terminal, and the escaping of its format besides.

pub mod badge;
pub mod baseline;
pub mod files;
pub mod html;
pub mod human;
pub mod index;
pub mod json;
pub mod jsonl;
pub mod junit;
pub mod markdown;
pub mod merge;
mod next;
mod order;
mod page;
pub mod prompting;
pub mod sarif;
pub mod words;

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

use crate::model::Report;
use agentproto_text as text;
pub use baseline::Fixed;
pub use files::{LoadError, WriteError, load, write_all};
pub use merge::{MergeError, merge};
pub use order::arrange;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Human,
    Json,
    Jsonl,
    Junit,
    Sarif,
    Html,
    Markdown,
    Badge,
    BadgeJson,
}

impl Format {
    pub const ALL: [Format; 9] = [
        Format::Human,
        Format::Json,
        Format::Jsonl,
        Format::Junit,
        Format::Sarif,
        Format::Html,
        Format::Markdown,
        Format::Badge,
        Format::BadgeJson,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Format::Human => "human",
            Format::Json => "json",
            Format::Jsonl => "jsonl",
            Format::Junit => "junit",
            Format::Sarif => "sarif",
            Format::Html => "html",
            Format::Markdown => "markdown",
            Format::Badge => "badge",
            Format::BadgeJson => "badge-json",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no report format `{}`; there are {}", text::plain(.0), format_names())]
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

/// What a renderer has to know besides the report.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command that a stream of events names.
    pub command: String,
    pub color: bool,
    /// Arrows and other characters beyond ASCII may be printed.
    pub unicode: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Where `write_all` has put, or will put, every form of the report.
    pub report_dir: Option<PathBuf>,
    /// The prompts file that was given.
    pub prompts: Option<PathBuf>,
    /// What failed in the baseline and does no more.
    pub fixed: Vec<Fixed>,
    /// Address of the badge for Markdown; without one the badge is told in words.
    pub badge: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            command: "certify".to_owned(),
            color: false,
            unicode: true,
            width: 100,
            report_dir: None,
            prompts: None,
            fixed: Vec::new(),
            badge: None,
        }
    }
}

/// Renders a report. A reader that closes its end has seen enough: that is no error.
pub fn render(
    format: Format,
    report: &Report,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let renderer = match format {
        Format::Human => human::render,
        Format::Json => json::render,
        Format::Jsonl => jsonl::render,
        Format::Junit => junit::render,
        Format::Sarif => sarif::render,
        Format::Html => html::render,
        Format::Markdown => markdown::render,
        Format::Badge => badge::render,
        Format::BadgeJson => badge::render_json,
    };
    match renderer(report, options, out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
