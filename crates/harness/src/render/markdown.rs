//! The report for a README or a comment on a pull request.

use std::io::{self, Write};

use super::words;
use super::{Options, badge, prompting};
use crate::model::{CaseResult, Report, Verdict};
use agentproto_report::markdown::{code, in_html, inline};
use agentproto_report::page::{self, Page};
use agentproto_report::{Row, row};
use agentproto_text::{clip, plain};

const MOST_EVIDENCE: usize = 8;
const MOST_IDS: usize = 20;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let page = Page {
        head: head(report, options)?,
        finding,
        elsewhere: "the JSON and HTML reports",
        unjudged: unjudged(report, options)?,
        started: report.started,
        timing: words::timing(report),
    };
    page.write(report, out)
}

fn head(report: &Report, options: &Options) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let state = badge::badge(report);
    match &options.badge {
        Some(address) => page::picture(&state, address, &mut out)?,
        None => writeln!(out, "**{}**\n", inline(&state.words()))?,
    }
    writeln!(
        out,
        "{} ({}): {}.\n",
        code(&report.target.name),
        inline(&words::agent(report)),
        inline(&words::verdict_line(report))
    )?;
    let verdicts = words::counts(&report.summary).into_iter();
    let verdicts: Vec<Verdict> = verdicts.map(|(verdict, _)| verdict).collect();
    if verdicts.is_empty() {
        writeln!(out, "Nothing was checked.\n")?;
        return Ok(out);
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
        let ids: Vec<&str> = options.fixed.iter().map(|f| f.id.as_str()).collect();
        writeln!(out, "\nFixed since the baseline: {}", id_list(&ids))?;
    }
    writeln!(out)?;
    Ok(out)
}

fn finding(row: &CaseResult, out: &mut Vec<u8>) -> io::Result<()> {
    let known = if row.known { ", known" } else { "" };
    let summary = format!(
        "<b>{}</b> ({}{known}): {}",
        in_html(&row.requirement),
        row.level.as_str(),
        in_html(&row.statement)
    );
    let facts = [
        ("Seen", Some(row.message.as_str())),
        ("Do", row.hint.as_deref()),
        ("Source", Some(&row.source)),
        ("Case", Some(&row.place())),
    ];
    let proof = row.evidence.iter().take(MOST_EVIDENCE).map(|e| {
        let arrow = match e.direction.as_str() {
            "to-agent" => "→",
            "from-agent" => "←",
            "stderr" => "stderr",
            _ => "process",
        };
        let text = plain(&e.text);
        format!("{arrow} {} {}", e.line, clip(&text, page::MOST_CHARACTERS))
    });
    page::details(&summary, &facts, &proof.collect::<Vec<_>>(), out)
}

fn unjudged(report: &Report, options: &Options) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for verdict in [Verdict::Skip, Verdict::NotVerified, Verdict::NotApplicable] {
        let reasons = words::reasons(report, verdict);
        let prompting = prompting::of(report).filter(|_| verdict == Verdict::Skip);
        if reasons.is_empty() && prompting.is_none() {
            continue;
        }
        let summary = format!(
            "{} {}: {}",
            words::total(report, verdict),
            words::word(verdict),
            words::meaning(verdict)
        );
        let reasons = reasons.iter();
        let reasons = reasons.map(|r| (r.message, id_list(&words::ids(&r.rows))));
        let mut more = String::new();
        if let Some(advice) = words::advice(verdict) {
            more.push_str(&format!("\n{}\n", inline(advice)));
        }
        if let Some(prompting) = prompting {
            let before = prompting.before(options.prompts.as_deref());
            let before = inline(&format!("{} {before}", prompting.headline()));
            let after = inline(prompting::AFTER);
            let yaml = &prompting.yaml;
            more.push_str(&format!("\n{before}\n\n```yaml\n{yaml}```\n\n{after}\n"));
        }
        page::unjudged(&summary, reasons, &more, &mut out)?;
    }
    Ok(out)
}

fn id_list(ids: &[&str]) -> String {
    row::first(ids, MOST_IDS, inline)
}
