//! AOI machine mode of `lint`: one `finding` event per line between `aoi:meta` and `aoi:summary`.

use std::io::{self, Write};

use serde_json::json;

use crate::Report;
use crate::render::{Meta, is_partial, json};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let findings = report.findings.iter();
    let events = findings.map(|finding| Ok((EventType::Finding, json::finding(finding, meta))));
    let tally = meta.counts(report);
    let mut counts = object(json!({
        // Number of lines. It includes suppressed findings. The counts by severity do not, and they
        // are those of all pages.
        "count": report.findings.len(),
        // Not `error_count` and `warning_count`: these count error and warning events of the
        // stream.
        "findings": { "error": tally.errors, "warning": tally.warnings, "info": tally.infos },
        "info_count": tally.infos,
        "suppressed_count": tally.suppressed,
        "files": report.files.len(),
        "partial": is_partial(report) || meta.interrupted,
    }));
    if let Some(page) = &meta.page {
        counts.insert("truncated".to_owned(), page.next.is_some().into());
        counts.insert("next_cursor".to_owned(), page.next.clone().into());
    }
    if meta.interrupted {
        counts.insert("reason".to_owned(), "interrupted".into());
    }
    let ok = !meta.interrupted && !meta.run_fails(report);
    Emitter::new(out, &meta.version).stream("lint", events, (ok, meta.elapsed, counts))
}
