//! AOI machine mode: one `result` per row between `aoi:meta` and `aoi:summary`.

use std::io::{self, Write};

use serde_json::json;

use super::{Options, words};
use crate::model::Report;
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::Event;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta(&options.command)?;
    for result in &report.results {
        emitter.event(Event::Result, &object(serde_json::to_value(result)?))?;
    }
    let summary = &report.summary;
    let mut fields = object(json!({
        "count": report.results.len(),
        "partial": report.partial,
        "target": report.target.name,
        "certified": summary.certified,
        "counts": {
            "pass": summary.pass,
            "fail": summary.fail,
            "warn": summary.warn,
            "skip": summary.skip,
            "n_a": summary.n_a,
            "not_verified": summary.not_verified,
            "error": summary.error,
        },
        "known_count": words::known(report),
        "timing": report.timing,
    }));
    if report.partial {
        fields.insert("reason".to_owned(), "interrupted".into());
    }
    if let Some(why) = &summary.reason {
        fields.insert("not_certified".to_owned(), why.as_str().into());
    }
    if let Some(shard) = &report.shard {
        fields.insert("shard".to_owned(), shard.as_str().into());
    }
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter().map(|f| &f.requirement);
        fields.insert("fixed".to_owned(), fixed.cloned().collect());
    }
    let ok = !report.partial && !report.has_new_failures();
    emitter.summary(ok, words::millis(report.timing.wall_ms), fields)
}
