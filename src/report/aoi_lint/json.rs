//! The report as one JSON document (schemas/aoi-report.schema.json).

use std::io::{self, Write};

use super::Options;
use crate::aoi::model::Report;
use crate::report::text;

pub fn render(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", text::pretty(&serde_json::to_value(report)?)?)
}
