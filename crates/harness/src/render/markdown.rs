//! The report for a README or a comment on a pull request.

use std::io::{self, Write};

use super::words;
use super::{RenderOptions, badge, prompting};
use crate::model::{CaseResult, Report, Verdict};
use agentproto_report::markdown::{code, in_html, inline};
use agentproto_report::page::{self, MarkdownPage};
use agentproto_report::{Row, row};
use agentproto_text::{clip, escape_line};

const MAX_EVIDENCE: usize = 8;
const MAX_IDS: usize = 20;

pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let page = MarkdownPage {
        head: head(report, options)?,
        finding,
        see_also: "the JSON and HTML reports",
        without_verdict: without_verdict(report, options)?,
        started: report.started,
        timing: words::timing(report),
    };
    page.write(report, out)
}

fn head(report: &Report, options: &RenderOptions) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let state = badge::badge(report);
    match &options.badge {
        Some(address) => page::badge_image(&state, address, &mut out)?,
        None => writeln!(out, "**{}**\n", inline(&state.text()))?,
    }
    writeln!(
        out,
        "{} ({}): {}.\n",
        code(&report.target.name),
        inline(&words::agent(report)),
        inline(&words::verdict_line(report))
    )?;
    if let Some(profile) = words::profile(report) {
        writeln!(out, "Profile: {}.\n", inline(&profile))?;
    }
    if let Some(kit) = words::kit(report) {
        writeln!(out, "acp-tck: {}.\n", inline(&kit))?;
        kit_table(report, &mut out)?;
    }
    let verdicts = words::counts(&report.summary).into_iter();
    let verdicts: Vec<Verdict> = verdicts.map(|(verdict, _)| verdict).collect();
    if verdicts.is_empty() {
        writeln!(out, "Nothing was checked.\n")?;
        return Ok(out);
    }
    let names: Vec<&str> = verdicts.iter().map(|v| words::verdict_name(*v)).collect();
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

/// The requirements of the official kit, for the profile `tck`.
fn kit_table(report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "| acp-tck | tier | | ours |\n|---|---|---|---|")?;
    for result in &report.tck {
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            inline(&result.id),
            result.tier,
            words::kit_verdict(result.verdict),
            inline(&result.requirements.join(", "))
        )?;
    }
    writeln!(out)
}

fn finding(row: &CaseResult, out: &mut Vec<u8>) -> io::Result<()> {
    let known = if row.known { ", known" } else { "" };
    let summary = format!(
        "<b>{}</b> ({}{known}): {}",
        in_html(&row.requirement),
        words::level(row),
        in_html(&row.statement)
    );
    let source = words::source(row);
    let facts = [
        ("Observed", Some(row.message.as_str())),
        ("Fix", row.hint.as_deref()),
        ("Source", Some(source.as_str())),
        ("Case", Some(&row.subject())),
    ];
    let main_evidence = row.evidence.iter().take(MAX_EVIDENCE).map(|e| {
        let arrow = match e.direction.as_str() {
            "to-agent" => "→",
            "from-agent" => "←",
            "stderr" => "stderr",
            _ => "process",
        };
        let text = escape_line(&e.text);
        format!("{arrow} {} {}", e.line, clip(&text, page::MAX_CHARACTERS))
    });
    page::details(&summary, &facts, &main_evidence.collect::<Vec<_>>(), out)
}

fn without_verdict(report: &Report, options: &RenderOptions) -> io::Result<Vec<u8>> {
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
            words::verdict_name(verdict),
            words::meaning(verdict)
        );
        let reasons = reasons.iter();
        let reasons = reasons.map(|r| (r.message, id_list(&words::ids(&r.rows))));
        let mut more = String::new();
        if let Some(advice) = words::advice(report, verdict) {
            more.push_str(&format!("\n{}\n", inline(advice)));
        }
        if let Some(prompting) = prompting {
            let before = prompting.before(options.prompts.as_deref());
            let before = inline(&format!("{} {before}", prompting.headline()));
            let after = inline(prompting::ALTERNATIVE);
            let yaml = &prompting.yaml;
            more.push_str(&format!("\n{before}\n\n```yaml\n{yaml}```\n\n{after}\n"));
        }
        page::without_verdict(&summary, reasons, &more, &mut out)?;
    }
    Ok(out)
}

fn id_list(ids: &[&str]) -> String {
    row::join_first(ids, MAX_IDS, inline)
}
