//! The report as one JSON document (schemas/aoi-report.schema.json).

use std::io::{self, Write};

use super::Options;
use crate::model::Report;
use agentproto_text as text;

pub fn render(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", text::pretty(&serde_json::to_value(report)?)?)
}
