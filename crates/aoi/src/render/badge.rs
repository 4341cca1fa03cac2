//! A badge with the number of proven pairs. It never shows a level (§18.1).

use std::io;

use super::wording;
use crate::model::Report;
use agentproto_report::badge::{Badge, Color};
use agentproto_report::words::date;
use agentproto_report::{fingerprint, format};

/// Returns `None` if no pair is proven, or if the run was interrupted.
pub fn badge(report: &Report) -> Option<Badge> {
    let summary = &report.summary;
    if summary.pairs_proven == 0 || report.partial {
        return None;
    }
    let color = match (summary.pairs_failing, summary.pairs_unproven) {
        (0, 0) => Color::Green,
        (0, _) => Color::Yellow,
        _ => Color::Red,
    };
    Some(Badge {
        label: wording::SPEC.to_owned(),
        message: format!(
            "{}/{} pairs proven",
            summary.pairs_proven,
            wording::applicable(report)
        ),
        color,
    })
}

/// Title of the badge: tool, date, linter version, and SHA-256 of the report.
pub(super) fn about(report: &Report) -> io::Result<String> {
    let mut bytes = Vec::new();
    format::json(report, &mut bytes)?;
    Ok(format!(
        "{}, {}, {} {}, report sha256 {}",
        wording::target(report),
        date(report.started),
        report.tool.name,
        report.tool.version,
        fingerprint::sha256(&bytes)
    ))
}
