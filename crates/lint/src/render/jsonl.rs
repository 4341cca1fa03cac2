//! AOI machine mode of `lint`: one `finding` event per line between `aoi:meta` and `aoi:summary`.

use std::io::{self, Write};

use serde_json::json;

use crate::Report;
use crate::render::{Meta, Tally, is_partial, json};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::Event;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let findings = report.findings.iter();
    let events = findings.map(|finding| Ok((Event::Finding, json::finding(finding, meta))));
    let tally = Tally::of(&report.findings);
    let mut counts = object(json!({
        // Number of lines. It includes suppressed findings; the counts by severity do not.
        "count": report.findings.len(),
        // Not `error_count` and `warning_count`: these count error and warning events of the
        // stream.
        "findings": { "error": tally.errors, "warning": tally.warnings, "info": tally.infos },
        "info_count": tally.infos,
        "suppressed_count": tally.suppressed,
        "files": report.files.len(),
        "partial": is_partial(report) || meta.interrupted,
    }));
    if let Some(part) = &meta.part {
        counts.insert("truncated".to_owned(), part.next.is_some().into());
        counts.insert("next_cursor".to_owned(), part.next.clone().into());
    }
    if meta.interrupted {
        counts.insert("reason".to_owned(), "interrupted".into());
    }
    let ok = !meta.interrupted && !meta.run_fails(report);
    Emitter::new(out, &meta.version).stream("lint", events, (ok, meta.elapsed, counts))
}
