//! The report in Markdown, for a README or a pull request comment.

use std::io::{self, Write};

use super::{RenderOptions, badge, wording};
use crate::model::{Characteristic, Finding, PairState, Report, Verdict};
use agentproto_report::markdown::{in_html, inline};
use agentproto_report::page::{self, MAX_CHARACTERS, MarkdownPage};
use agentproto_report::words::verdict_name;
use agentproto_text::{clip, escape_line, lower_first};

const MAX_LINES: usize = 8;
const MAX_ROWS: usize = 20;

pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let page = MarkdownPage {
        head: head(report, options)?,
        finding,
        see_also: "the JSON report",
        without_verdict: without_verdict(report)?,
        started: report.started,
        timing: wording::timing(report),
    };
    page.write(report, out)
}

fn head(report: &Report, options: &RenderOptions) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if let (Some(badge), Some(address)) = (badge::badge(report), &options.badge) {
        page::badge_image(&badge, address, &mut out)?;
    }
    writeln!(
        out,
        "**{}** against {}: {}.\n",
        inline(&wording::target(report)),
        wording::SPEC,
        lower_first(&wording::pairs(report))
    )?;
    if report.partial {
        writeln!(
            out,
            "The run was interrupted. The results are incomplete, and no cell of the matrix is proven.\n"
        )?;
    }
    let names = Characteristic::ALL.map(Characteristic::as_str);
    writeln!(out, "| command | {} |", names.join(" | "))?;
    writeln!(out, "|---|{}", ":-:|".repeat(names.len()))?;
    for (command, cells) in wording::rows(report) {
        let mut marks = cells.map(|pair| match pair {
            PairState::Pass => "✓",
            PairState::Fail => "✗",
            PairState::Unproven => "\\~",
            PairState::NotApplicable => "–",
        });
        for (mark, characteristic) in marks.iter_mut().zip(Characteristic::ALL) {
            if *mark == "–" && !options.is_checked(characteristic) {
                *mark = "·";
            }
        }
        writeln!(
            out,
            "| {} | {} |",
            inline(wording::command(command)),
            marks.join(" | ")
        )?;
    }
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter();
        let fixed: Vec<String> = fixed
            .map(|f| inline(&format!("{} ({})", f.id, f.subject)))
            .collect();
        writeln!(out, "\nFixed since the baseline: {}", fixed.join(", "))?;
    }
    writeln!(out)?;
    Ok(out)
}

fn finding(row: &Finding, out: &mut Vec<u8>) -> io::Result<()> {
    let rule = wording::rule(row);
    let known = if row.known { ", known" } else { "" };
    let message = wording::message(row);
    let summary = format!(
        "<b>{}</b> {} ({}, {}{known}): {}",
        in_html(&row.rule),
        in_html(wording::command(&row.command)),
        wording::check(row.check),
        in_html(&row.section),
        in_html(&clip(&message, MAX_CHARACTERS)),
    );
    let observed = wording::observed(row);
    let facts = [
        ("Expected", rule.map(|rule| rule.requirement)),
        ("Why", rule.map(|rule| rule.why)),
        ("Observed", Some(message.as_str())),
        ("Result", observed.as_deref()),
        ("Fix", rule.map(|rule| rule.hint)),
    ];
    let mut proof: Vec<String> = Vec::new();
    if !row.repro.is_empty() {
        proof.push(format!(
            "$ {}",
            escape_line(&agentproto_text::shell(&row.repro))
        ));
    }
    for key in ["stdout", "stderr"] {
        let text = wording::evidence(row, key).unwrap_or_default();
        for line in text.lines().take(MAX_LINES) {
            proof.push(clip(&escape_line(line), MAX_CHARACTERS).into_owned());
        }
    }
    page::details(&summary, &facts, &proof, out)
}

fn without_verdict(report: &Report) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for verdict in [Verdict::Skip, Verdict::NotVerified] {
        let reasons = wording::reasons(report, verdict);
        if reasons.is_empty() {
            continue;
        }
        let total: usize = reasons.iter().map(|reason| reason.rows.len()).sum();
        let summary = format!(
            "{total} {}: {}",
            verdict_name(verdict),
            wording::meaning(verdict)
        );
        let reasons = reasons.iter().map(|reason| {
            let rows = reason.rows.iter().take(MAX_ROWS);
            let rows: Vec<String> = rows.map(|row| inline(&wording::named(row))).collect();
            (reason.message, rows.join(", "))
        });
        page::without_verdict(&summary, reasons, "", &mut out)?;
    }
    Ok(out)
}
