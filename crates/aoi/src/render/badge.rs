//! A badge that says how many pairs are proven, never a level (§18.1).

use std::io::{self, Write};

use super::{Options, json, words};
use crate::model::Report;
use agentproto_report::badge::{Badge, Color, endpoint, svg};
use agentproto_report::fingerprint;
use agentproto_report::words::date;
use agentproto_text as text;

/// `None` where nothing was proven: there is nothing to claim.
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
        label: words::SPEC.to_owned(),
        message: format!(
            "{}/{} pairs proven",
            summary.pairs_proven,
            words::applicable(report)
        ),
        color,
    })
}

fn wanted(report: &Report) -> io::Result<Badge> {
    badge(report).ok_or_else(|| io::Error::other("nothing was proven, so there is no badge"))
}

/// Who, when, by what, and the SHA-256 of the report that stands behind it.
fn about(report: &Report, options: &Options) -> io::Result<String> {
    let mut bytes = Vec::new();
    json::render(report, options, &mut bytes)?;
    Ok(format!(
        "{}, {}, {} {}, report sha256 {}",
        words::target(report),
        date(report.started),
        report.tool.name,
        report.tool.version,
        fingerprint::sha256(&bytes)
    ))
}

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    svg(&wanted(report)?, Some(&about(report, options)?), out)
}

pub fn render_json(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", text::pretty(&endpoint(&wanted(report)?))?)
}
