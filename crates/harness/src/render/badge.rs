//! The text of the badge of a certification.

use super::words::RunState;
use crate::model::Report;
use agentproto_report::badge::{Badge, Color};

/// The badge of a report: label, text and color.
pub fn badge(report: &Report) -> Badge {
    let summary = &report.summary;
    let (message, color) = if summary.certified {
        (certified(report), Color::Green)
    } else if summary.fail > 0 && report.partial {
        (format!("interrupted, {} failing", summary.fail), Color::Red)
    } else if summary.fail > 0 {
        (format!("{} failing", summary.fail), Color::Red)
    } else if report.partial {
        ("interrupted".to_owned(), Color::Yellow)
    } else if report.shard.is_some() || RunState::of(report) == RunState::Passed {
        ("partial".to_owned(), Color::Yellow)
    } else if summary.error > 0 {
        (format!("{} not checked", summary.error), Color::Yellow)
    } else {
        ("not certified".to_owned(), Color::Grey)
    };
    Badge {
        label: label(report),
        message,
        color,
    }
}

/// A certificate also says how many MUST requirements were tested.
fn certified(report: &Report) -> String {
    match report.tested() {
        (tested, all) if tested < all => format!("certified, {tested}/{all} MUST tested"),
        _ => "certified".to_owned(),
    }
}

fn label(report: &Report) -> String {
    let names: Vec<&str> = report.suites.iter().map(|s| s.name.as_str()).collect();
    match names.as_slice() {
        [] => report.tool.name.clone(),
        [one] => protocol(one).to_owned(),
        [one, two] => format!("{} + {}", protocol(one), protocol(two)),
        [one, rest @ ..] => format!("{} + {} suites", protocol(one), rest.len()),
    }
}

/// The common name of what a suite tests.
fn protocol(suite: &str) -> &str {
    match suite {
        "acp" => "ACP v1",
        "acp-v2-draft" => "ACP v2 draft",
        "mcp" => "MCP",
        "open-design" => "Open Design",
        "lifecycle" => "AIP-45",
        "sessions" => "AIP-46",
        other => other,
    }
}
