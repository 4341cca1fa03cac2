//! AOI machine mode: one `result` per row between `aoi:meta` and `aoi:summary`.

use std::io::{self, Write};

use serde_json::json;

use super::{RenderOptions, words};
use crate::model::Report;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;
use agentproto_report::row;

pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let rows = report.results.iter();
    let events = rows.map(|row| Ok((EventType::Result, object(serde_json::to_value(row)?))));
    let summary = &report.summary;
    let mut fields = object(json!({
        "count": report.results.len(),
        "partial": report.partial,
        "target": report.target.name,
        "certified": summary.certified,
        "profile": report.profile,
        "counts": row::counts(summary)?,
        "known_count": words::known_failures(report),
        "timing": report.timing,
    }));
    if report.partial {
        fields.insert("reason".to_owned(), "interrupted".into());
    }
    if let Some(why) = &summary.reason {
        fields.insert("not_certified".to_owned(), why.as_str().into());
    }
    if let Some(strict) = &summary.strict {
        fields.insert("strict".to_owned(), serde_json::to_value(strict)?);
    }
    if !report.tck.is_empty() {
        fields.insert("tck".to_owned(), serde_json::to_value(&report.tck)?);
    }
    if let Some(shard) = &report.shard {
        fields.insert("shard".to_owned(), shard.as_str().into());
    }
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter().map(|f| f.id.as_str());
        fields.insert("fixed".to_owned(), fixed.collect());
    }
    let ok = !report.partial && !report.has_new_failures();
    let end = (ok, words::millis(report.timing.wall_ms), fields);
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    if !options.has_meta {
        emitter.meta(&options.command)?;
    }
    emitter.events(events, end)
}
