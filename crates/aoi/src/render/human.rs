//! The report for terminals: the matrix, then each failure with everything needed to reproduce and
//! fix it.

use std::collections::HashSet;
use std::io::{self, Write};

use super::{Options, words};
use crate::hints;
use crate::model::{Characteristic, Finding, Pair, Report, Verdict};
use crate::rules::Topic;
use agentproto_report::pen::Pen;
use agentproto_report::row;
use agentproto_report::words::word;
use agentproto_text::{clip, plain};

/// Maximum number of findings named per reason before "and N more".
const MOST_NAMED: usize = 6;
/// Maximum number of reasons shown per verdict.
const MOST_REASONS: usize = 12;
/// Maximum number of output lines shown.
const MOST_LINES: usize = 6;
/// Maximum length of a command name in the matrix.
const MOST_NAME: usize = 24;

/// Column headings for narrow terminals.
const SHORT: [&str; 10] = [
    "Typed", "Disc", "Strm", "Bound", "Safe", "Idem", "Audit", "Verif", "Comp", "Vers",
];

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let pen = Pen::new(options.color, options.unicode, options.width);
    let name = pen.one_line(&words::target(report), 14);
    writeln!(out, "{}  {}\n", pen.bold(&name), pen.dim(words::SPEC))?;
    if report.partial {
        writeln!(
            out,
            "The run was interrupted. The results below are incomplete, and no pair is proven.\n"
        )?;
    }
    matrix(report, &pen, out)?;
    let mut told = HashSet::new();
    for (verdict, _) in row::ATTENTION {
        for row in row::new_first(&report.checks, verdict) {
            finding(row, &mut told, &pen, out)?;
        }
    }
    unjudged(report, &pen, out)?;
    compat(report, &pen, out)?;
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter();
        let fixed: Vec<String> = fixed.map(|f| format!("{} ({})", f.id, f.place)).collect();
        pen.wrapped("Fixed since the baseline: ", &named(&fixed), out)?;
        writeln!(out)?;
    }
    for line in &report.isolation {
        pen.wrapped("discovery: ", &plain(line), out)?;
    }
    if report.target.probe_file.is_none() {
        let tool = words::shell(report.target.argv.get(..1).unwrap_or_default());
        let text = format!(
            "only this command was run, with a minimal environment; `agentproto aoi-lint init -- \
             {tool}` writes a probe file in which you can add environment variables and other \
             commands"
        );
        pen.wrapped("no probe file: ", &plain(&text), out)?;
    }
    if let Some(known) = words::known(report) {
        writeln!(out, "{known}")?;
    }
    writeln!(out, "{}", pen.bold(&words::pairs(report)))?;
    writeln!(out, "{}", pen.dim(&words::timing(report)))
}

fn matrix(report: &Report, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    let rows = words::rows(report);
    let shown: Vec<String> = rows
        .iter()
        .map(|(command, _)| clip(&plain(command), MOST_NAME).into_owned())
        .collect();
    let longest = shown.iter().map(|name| name.chars().count()).max();
    let first = longest.unwrap_or(0);
    let full = Characteristic::ALL.map(Characteristic::as_str);
    let room = |heads: [&str; 10]| heads.iter().map(|head| head.len() + 2).sum::<usize>();
    let heads = match 2 + first + room(full) <= pen.width {
        true => full,
        false => SHORT,
    };
    writeln!(out, "  {}  {}", " ".repeat(first), heads.join("  "))?;
    for (name, (_, cells)) in shown.iter().zip(&rows) {
        let pad = " ".repeat(first.saturating_sub(name.chars().count()));
        let mut line = format!("  {name}{pad}");
        for (head, pair) in heads.iter().zip(cells) {
            line.push_str("  ");
            line.push_str(&mark(pen, *pair));
            line.push_str(&" ".repeat(head.len().saturating_sub(1)));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    let legend = [
        (Pair::Pass, "proven"),
        (Pair::Fail, "failing"),
        (Pair::Unproven, "unproven"),
        (Pair::NotApplicable, "not applicable"),
    ];
    let legend = legend.map(|(pair, word)| format!("{} {word}", mark(pen, pair)));
    writeln!(out, "\n  {}\n", legend.join("   "))
}

fn mark(pen: &Pen, pair: Pair) -> String {
    let (verdict, fancy, simple) = match pair {
        Pair::Pass => (Verdict::Pass, "✓", "+"),
        Pair::Fail => (Verdict::Fail, "✗", "x"),
        Pair::Unproven => (Verdict::Warn, "~", "~"),
        Pair::NotApplicable => (Verdict::NotApplicable, "–", "-"),
    };
    pen.tone(verdict, if pen.unicode { fancy } else { simple })
}

/// One finding. Advice per language is printed once per topic.
fn finding(
    row: &Finding,
    told: &mut HashSet<Topic>,
    pen: &Pen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rule = words::rule(row);
    let known = if row.known { ", known" } else { "" };
    let level = rule.map_or_else(String::new, |rule| {
        format!(", {}", words::level(rule.level))
    });
    writeln!(
        out,
        "{} {} {}  {}",
        pen.tone(row.verdict, &word(row.verdict).to_uppercase()),
        pen.bold(&plain(&row.rule)),
        plain(&row.command),
        pen.dim(&format!(
            "({}, {}{level}{known})",
            words::check(row.check),
            plain(&row.section)
        ))
    )?;
    if let Some(rule) = rule {
        paragraph(pen, "expected", rule.demands, out)?;
        if row.verdict == Verdict::Fail {
            paragraph(pen, "why", rule.why, out)?;
        }
    }
    paragraph(pen, "observed", &row.message, out)?;
    reproduction(row, pen, out)?;
    if let Some(rule) = rule {
        paragraph(pen, "do", rule.hint, out)?;
        if row.verdict == Verdict::Fail && told.insert(rule.topic) {
            for (language, advice) in hints::of(rule.topic) {
                pen.wrapped(&format!("         {:<7}", language.as_str()), advice, out)?;
            }
        }
    }
    writeln!(out)
}

fn reproduction(row: &Finding, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    if row.repro.is_empty() {
        return Ok(());
    }
    // Not wrapped, so that it can be copied.
    writeln!(out, "  run      {}", plain(&words::shell(&row.repro)))?;
    let variables = words::variables(row);
    if !variables.is_empty() {
        paragraph(pen, "", &format!("with {} set", variables.join(", ")), out)?;
    }
    if let Some(observed) = words::observed(row) {
        paragraph(pen, "", &observed, out)?;
    }
    for key in ["stdout", "stderr"] {
        let Some(text) = words::evidence(row, key) else {
            continue;
        };
        let room = pen.width.saturating_sub(11).max(20);
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().take(MOST_LINES).enumerate() {
            let label = if number == 0 { key } else { "" };
            writeln!(
                out,
                "  {}{}",
                pen.dim(&format!("{label:<9}")),
                clip(&plain(line), room)
            )?;
        }
        if lines.len() > MOST_LINES {
            let rest = lines.len() - MOST_LINES;
            writeln!(
                out,
                "           {}",
                pen.dim(&format!("and {rest} more lines"))
            )?;
        }
    }
    Ok(())
}

/// Findings without a result, grouped by reason.
fn unjudged(report: &Report, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    for verdict in [Verdict::Skip, Verdict::NotVerified] {
        let reasons = words::reasons(report, verdict);
        if reasons.is_empty() {
            continue;
        }
        let total: usize = reasons.iter().map(|reason| reason.rows.len()).sum();
        writeln!(
            out,
            "{} {total} ({})",
            pen.bold(&word(verdict).to_uppercase()),
            words::meaning(verdict)
        )?;
        for reason in reasons.iter().take(MOST_REASONS) {
            let rows: Vec<String> = reason.rows.iter().map(|row| words::named(row)).collect();
            let text = format!("{}: {}", plain(reason.message), named(&rows));
            pen.wrapped("- ", &text, out)?;
        }
        if reasons.len() > MOST_REASONS {
            let rest = reasons.iter().skip(MOST_REASONS);
            let rest: usize = rest.map(|reason| reason.rows.len()).sum();
            writeln!(out, "  {rest} for other reasons")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn compat(report: &Report, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    if report.compat.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", pen.bold("Assertions of the reference aoi-lint"))?;
    for assertion in &report.compat {
        let pair = if assertion.ok { Pair::Pass } else { Pair::Fail };
        let text = format!(
            "{} ({}): {}",
            assertion.name, assertion.command, assertion.detail
        );
        writeln!(out, "  {} {}", mark(pen, pair), pen.one_line(&text, 4))?;
    }
    writeln!(out)
}

/// A labeled paragraph of a finding. Prints nothing if the text is blank.
fn paragraph(pen: &Pen, label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    match text.trim() {
        "" => Ok(()),
        text => pen.wrapped(&format!("{label:<9}"), &plain(text), out),
    }
}

fn named(rows: &[String]) -> String {
    row::first(rows, MOST_NAMED, |row| plain(row).into_owned())
}
