//! What the AOI engine found, in every form: one model (`aoi::model`), one file per format.
//!
//! Renderers only read. What the tool printed is hostile here: it passes `report::text` on its
//! way to a terminal, and the escaping of its format besides.

pub mod badge;
pub mod baseline;
pub mod docs;
pub mod files;
mod human;
mod json;
mod jsonl;
mod junit;
mod markdown;
mod sarif;
pub mod words;

use std::io::{self, Write};
use std::str::FromStr;

use crate::model::Report;
pub use baseline::Fixed;
pub use files::{load, write_all};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Human,
    Json,
    Jsonl,
    Junit,
    Sarif,
    Markdown,
    Badge,
    BadgeJson,
}

impl Format {
    pub const ALL: [Format; 8] = [
        Format::Human,
        Format::Json,
        Format::Jsonl,
        Format::Junit,
        Format::Sarif,
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
            Format::Markdown => "markdown",
            Format::Badge => "badge",
            Format::BadgeJson => "badge-json",
        }
    }

    /// A badge is a claim: there is none where nothing was proven.
    pub fn needs_proof(self) -> bool {
        matches!(self, Format::Badge | Format::BadgeJson)
    }
}

impl FromStr for Format {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        let mut all = Format::ALL.into_iter();
        all.find(|format| format.as_str() == name).ok_or(())
    }
}

/// What a renderer has to know besides the report.
#[derive(Clone, Debug)]
pub struct Options {
    pub color: bool,
    /// Ticks and other characters beyond ASCII may be printed.
    pub unicode: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// What was broken in the baseline and is no more.
    pub fixed: Vec<Fixed>,
    /// Address of the badge for Markdown; without one it is told in words.
    pub badge: Option<String>,
    /// Whether the run is good in its caller's eyes.
    pub ok: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            color: false,
            unicode: true,
            width: 100,
            fixed: Vec::new(),
            badge: None,
            ok: true,
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
        Format::Markdown => markdown::render,
        Format::Badge => badge::render,
        Format::BadgeJson => badge::render_json,
    };
    match renderer(report, options, out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
