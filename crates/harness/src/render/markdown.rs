//! The report for a README or a comment on a pull request.

use std::io::{self, Write};

use super::words;
use super::{Options, badge, prompting};
use crate::model::{CaseResult, Report, Verdict};
use agentproto_report::markdown::{address_of, code, fence, in_html, inline};
use agentproto_text::{self as text, clip, plain};

/// Comments of the large hosts end at 65,536 characters.
const MOST_BYTES: usize = 50_000;
const EVIDENCE_CHARACTERS: usize = 400;
const MOST_EVIDENCE: usize = 8;
const MOST_IDS: usize = 20;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Vec::new();
    head(report, options, &mut page)?;
    let mut left_out = 0;
    for (verdict, title) in [
        (Verdict::Fail, "Failures"),
        (Verdict::Error, "Not judged"),
        (Verdict::Warn, "Warnings"),
    ] {
        let rows = report.results.iter().filter(|r| r.verdict == verdict);
        let mut rows: Vec<&CaseResult> = rows.collect();
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
        writeln!(
            page,
            "And {rows} more, which stand in the JSON and HTML reports.\n"
        )?;
    }
    unjudged(report, options, &mut page)?;
    writeln!(
        page,
        "<sub>{} {}, {}: {}</sub>",
        inline(&report.tool.name),
        inline(&report.tool.version),
        words::date(report.started),
        inline(&words::timing(report))
    )?;
    out.write_all(&page)
}

fn head(report: &Report, options: &Options, out: &mut Vec<u8>) -> io::Result<()> {
    let state = badge::badge(report);
    let words_of_badge = format!("{}: {}", state.label, state.message);
    match &options.badge {
        Some(address) => writeln!(
            out,
            "![{}]({})\n",
            inline(&words_of_badge),
            address_of(address)
        )?,
        None => writeln!(out, "**{}**\n", inline(&words_of_badge))?,
    }
    writeln!(
        out,
        "{} ({}): {}.\n",
        code(&report.target.name),
        inline(&words::agent(report)),
        inline(&words::verdict_line(report))
    )?;
    let verdicts: Vec<Verdict> = words::counts(&report.summary)
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(verdict, _)| verdict)
        .collect();
    if verdicts.is_empty() {
        return writeln!(out, "Nothing was judged.\n");
    }
    let names: Vec<&str> = verdicts.iter().map(|v| words::word(*v)).collect();
    writeln!(out, "| section | {} |", names.join(" | "))?;
    writeln!(out, "|---|{}", "--:|".repeat(verdicts.len()))?;
    let mut line = |name: &str, rows: &[&CaseResult]| {
        let cells = verdicts.iter().map(|verdict| {
            match rows.iter().filter(|r| r.verdict == *verdict).count() {
                0 => String::new(),
                n => n.to_string(),
            }
        });
        writeln!(
            out,
            "| {name} | {} |",
            cells.collect::<Vec<_>>().join(" | ")
        )
    };
    for section in words::sections(report) {
        let title = match report.suites.len() > 1 {
            true => format!("{}: {}", section.suite, section.title()),
            false => section.title().to_owned(),
        };
        line(&inline(&title), &section.rows)?;
    }
    let all: Vec<&CaseResult> = report.results.iter().collect();
    line("**all**", &all)?;
    if !options.fixed.is_empty() {
        let ids: Vec<&str> = options
            .fixed
            .iter()
            .map(|f| f.requirement.as_str())
            .collect();
        writeln!(out, "\nFixed since the baseline: {}", id_list(&ids))?;
    }
    writeln!(out)
}

fn finding(row: &CaseResult, out: &mut Vec<u8>) -> io::Result<()> {
    let known = if row.known { ", known" } else { "" };
    writeln!(
        out,
        "<details><summary><b>{}</b> ({}{known}): {}</summary>\n",
        in_html(&row.requirement),
        row.level.as_str(),
        in_html(&row.statement)
    )?;
    writeln!(out, "- Seen: {}", inline(&row.message))?;
    if let Some(hint) = &row.hint {
        writeln!(out, "- Do: {}", inline(hint))?;
    }
    writeln!(out, "- Source: {}", inline(&row.source))?;
    writeln!(
        out,
        "- Case: {}",
        inline(&format!("{} / {}", row.suite, row.case))
    )?;
    if !row.evidence.is_empty() {
        let lines: Vec<String> = row
            .evidence
            .iter()
            .take(MOST_EVIDENCE)
            .map(|e| {
                let arrow = match e.direction.as_str() {
                    "to-agent" => "→",
                    "from-agent" => "←",
                    "stderr" => "stderr",
                    _ => "process",
                };
                let text = plain(&e.text);
                format!("{arrow} {} {}", e.line, clip(&text, EVIDENCE_CHARACTERS))
            })
            .collect();
        let fence = fence(&lines);
        writeln!(out, "\n{fence}text\n{}\n{fence}", lines.join("\n"))?;
    }
    writeln!(out, "\n</details>\n")
}

fn unjudged(report: &Report, options: &Options, out: &mut Vec<u8>) -> io::Result<()> {
    for verdict in [Verdict::Skip, Verdict::NotVerified, Verdict::NotApplicable] {
        let reasons = words::reasons(report, verdict);
        let prompting = prompting::of(report).filter(|_| verdict == Verdict::Skip);
        if reasons.is_empty() && prompting.is_none() {
            continue;
        }
        let total = words::total(report, verdict);
        writeln!(
            out,
            "<details><summary>{total} {}: {}</summary>\n",
            words::word(verdict),
            words::meaning(verdict)
        )?;
        for reason in reasons.iter().take(MOST_IDS) {
            let ids = id_list(&words::ids(&reason.rows));
            let message = clip(reason.message, EVIDENCE_CHARACTERS);
            writeln!(out, "- {}: {ids}", inline(&message))?;
        }
        if let Some(advice) = words::advice(verdict) {
            writeln!(out, "\n{}", inline(advice))?;
        }
        if let Some(prompting) = prompting {
            let before = prompting.before(options.prompts.as_deref());
            let before = format!("{} {before}", prompting.headline());
            writeln!(
                out,
                "\n{}\n\n```yaml\n{}```",
                inline(&before),
                prompting.yaml
            )?;
            writeln!(out, "\n{}", inline(prompting::AFTER))?;
        }
        writeln!(out, "\n</details>\n")?;
    }
    Ok(())
}

fn id_list(ids: &[&str]) -> String {
    let some = ids.iter().take(MOST_IDS).map(|id| inline(id));
    let mut list = some.collect::<Vec<_>>().join(", ");
    if ids.len() > MOST_IDS {
        list.push_str(&format!(" and {} more", ids.len() - MOST_IDS));
    }
    list
}
