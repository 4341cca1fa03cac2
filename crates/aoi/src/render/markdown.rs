//! The report for a README or a comment on a pull request.

use std::io::{self, Write};

use super::{Options, badge, words};
use crate::model::{Characteristic, Finding, Pair, Report, Verdict};
use agentproto_report::markdown::{address_of, fence, in_html, inline};
use agentproto_report::words::{date, word};
use agentproto_text::{self as text, clip, plain};

/// Comments of the large hosts end at 65,536 characters.
const MOST_BYTES: usize = 50_000;
const MOST_CHARACTERS: usize = 400;
const MOST_LINES: usize = 8;
const MOST_REASONS: usize = 20;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Vec::new();
    head(report, options, &mut page)?;
    let mut left_out = 0;
    for (verdict, title) in [
        (Verdict::Fail, "Failures"),
        (Verdict::Error, "Not judged"),
        (Verdict::Warn, "Warnings"),
    ] {
        let rows = report.checks.iter().filter(|r| r.verdict == verdict);
        let mut rows: Vec<&Finding> = rows.collect();
        rows.sort_by_key(|r| r.known);
        if !rows.is_empty() {
            writeln!(page, "### {title} ({})\n", rows.len())?;
        }
        for row in rows {
            if page.len() > MOST_BYTES {
                left_out += 1;
            } else {
                finding(row, &mut page)?;
            }
        }
    }
    if left_out > 0 {
        let rows = text::count(left_out, "row", "rows");
        writeln!(page, "And {rows} more, which stand in the JSON report.\n")?;
    }
    unjudged(report, &mut page)?;
    writeln!(
        page,
        "<sub>{} {}, {}: {}</sub>",
        inline(&report.tool.name),
        inline(&report.tool.version),
        date(report.started),
        inline(&words::timing(report))
    )?;
    out.write_all(&page)
}

fn head(report: &Report, options: &Options, out: &mut Vec<u8>) -> io::Result<()> {
    let state = badge::badge(report);
    if let (Some(badge), Some(address)) = (&state, &options.badge) {
        let words = format!("{}: {}", badge.label, badge.message);
        writeln!(out, "![{}]({})\n", inline(&words), address_of(address))?;
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
            "The run was stopped before its end, and proves nothing.\n"
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
            .map(|f| inline(&format!("{} ({})", f.rule, f.command)))
            .collect();
        writeln!(out, "\nFixed since the baseline: {}", fixed.join(", "))?;
    }
    writeln!(out)
}

fn finding(row: &Finding, out: &mut Vec<u8>) -> io::Result<()> {
    let rule = words::rule(row);
    let known = if row.known { ", known" } else { "" };
    writeln!(
        out,
        "<details><summary><b>{}</b> {} ({}, {}{known}): {}</summary>\n",
        in_html(&row.rule),
        in_html(&row.command),
        words::check(row.check),
        in_html(&row.section),
        in_html(&clip(&row.message, MOST_CHARACTERS)),
    )?;
    if let Some(rule) = rule {
        writeln!(out, "- Expected: {}", inline(rule.demands))?;
        writeln!(out, "- Why: {}", inline(rule.why))?;
    }
    writeln!(out, "- Observed: {}", inline(&row.message))?;
    if let Some(observed) = words::observed(row) {
        writeln!(out, "- Run: {}", inline(&observed))?;
    }
    if let Some(rule) = rule {
        writeln!(out, "- Do: {}", inline(rule.hint))?;
    }
    let mut lines: Vec<String> = Vec::new();
    if !row.repro.is_empty() {
        lines.push(format!("$ {}", plain(&words::shell(&row.repro))));
    }
    for key in ["stdout", "stderr"] {
        let text = words::evidence(row, key).unwrap_or_default();
        for line in text.lines().take(MOST_LINES) {
            lines.push(clip(&plain(line), MOST_CHARACTERS).into_owned());
        }
    }
    if !lines.is_empty() {
        let fence = fence(&lines);
        writeln!(out, "\n{fence}text\n{}\n{fence}", lines.join("\n"))?;
    }
    writeln!(out, "\n</details>\n")
}

fn unjudged(report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    for verdict in [Verdict::Skip, Verdict::NotVerified] {
        let reasons = words::reasons(report, verdict);
        if reasons.is_empty() {
            continue;
        }
        let total: usize = reasons.iter().map(|reason| reason.rows.len()).sum();
        writeln!(
            out,
            "<details><summary>{total} {}: {}</summary>\n",
            word(verdict),
            words::meaning(verdict)
        )?;
        for reason in reasons.iter().take(MOST_REASONS) {
            let message = clip(reason.message, MOST_CHARACTERS);
            let rows = reason.rows.iter().take(MOST_REASONS);
            let rows: Vec<String> = rows.map(|row| inline(row)).collect();
            writeln!(out, "- {}: {}", inline(&message), rows.join(", "))?;
        }
        writeln!(out, "\n</details>\n")?;
    }
    Ok(())
}
