//! The report in Markdown, for a README or a pull request comment.

use std::io::{self, Write};

use super::{Options, badge, words};
use crate::model::{Characteristic, Finding, Pair, Report, Verdict};
use agentproto_report::markdown::{in_html, inline};
use agentproto_report::page::{self, MOST_CHARACTERS, Page};
use agentproto_report::words::word;
use agentproto_text::{clip, plain};

const MOST_LINES: usize = 8;
const MOST_ROWS: usize = 20;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page {
        head: head(report, options)?,
        finding,
        elsewhere: "the JSON report",
        unjudged: unjudged(report)?,
        started: report.started,
        timing: words::timing(report),
    };
    page.write(report, out)
}

fn head(report: &Report, options: &Options) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if let (Some(badge), Some(address)) = (badge::badge(report), &options.badge) {
        page::picture(&badge, address, &mut out)?;
    }
    writeln!(
        out,
        "**{}** against {}: {}.\n",
        inline(&words::target(report)),
        words::SPEC,
        words::pairs(report)
    )?;
    if report.partial {
        writeln!(
            out,
            "The run was interrupted. The results are incomplete, and no pair is proven.\n"
        )?;
    }
    let names = Characteristic::ALL.map(Characteristic::as_str);
    writeln!(out, "| command | {} |", names.join(" | "))?;
    writeln!(out, "|---|{}", ":-:|".repeat(names.len()))?;
    for (command, cells) in words::rows(report) {
        let cells = cells.map(|pair| match pair {
            Pair::Pass => "✓",
            Pair::Fail => "✗",
            Pair::Unproven => "\\~",
            Pair::NotApplicable => "–",
        });
        writeln!(out, "| {} | {} |", inline(command), cells.join(" | "))?;
    }
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter();
        let fixed: Vec<String> = fixed
            .map(|f| inline(&format!("{} ({})", f.id, f.place)))
            .collect();
        writeln!(out, "\nFixed since the baseline: {}", fixed.join(", "))?;
    }
    writeln!(out)?;
    Ok(out)
}

fn finding(row: &Finding, out: &mut Vec<u8>) -> io::Result<()> {
    let rule = words::rule(row);
    let known = if row.known { ", known" } else { "" };
    let summary = format!(
        "<b>{}</b> {} ({}, {}{known}): {}",
        in_html(&row.rule),
        in_html(&row.command),
        words::check(row.check),
        in_html(&row.section),
        in_html(&clip(&row.message, MOST_CHARACTERS)),
    );
    let observed = words::observed(row);
    let facts = [
        ("Expected", rule.map(|rule| rule.demands)),
        ("Why", rule.map(|rule| rule.why)),
        ("Observed", Some(row.message.as_str())),
        ("Run", observed.as_deref()),
        ("Do", rule.map(|rule| rule.hint)),
    ];
    let mut proof: Vec<String> = Vec::new();
    if !row.repro.is_empty() {
        proof.push(format!("$ {}", plain(&words::shell(&row.repro))));
    }
    for key in ["stdout", "stderr"] {
        let text = words::evidence(row, key).unwrap_or_default();
        for line in text.lines().take(MOST_LINES) {
            proof.push(clip(&plain(line), MOST_CHARACTERS).into_owned());
        }
    }
    page::details(&summary, &facts, &proof, out)
}

fn unjudged(report: &Report) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for verdict in [Verdict::Skip, Verdict::NotVerified] {
        let reasons = words::reasons(report, verdict);
        if reasons.is_empty() {
            continue;
        }
        let total: usize = reasons.iter().map(|reason| reason.rows.len()).sum();
        let summary = format!("{total} {}: {}", word(verdict), words::meaning(verdict));
        let reasons = reasons.iter().map(|reason| {
            let rows = reason.rows.iter().take(MOST_ROWS);
            let rows: Vec<String> = rows.map(|row| inline(&words::named(row))).collect();
            (reason.message, rows.join(", "))
        });
        page::unjudged(&summary, reasons, "", &mut out)?;
    }
    Ok(out)
}
