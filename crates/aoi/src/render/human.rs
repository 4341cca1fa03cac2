//! The report for terminals: the matrix, then each failure with everything needed to reproduce and
//! fix it.

use std::io::{self, Write};

use super::{RenderOptions, wording};
use crate::isolation;
use crate::model::{Characteristic, Finding, PairState, Report, Verdict};
use agentproto_report::row;
use agentproto_report::terminal::TerminalStyle;
use agentproto_report::words::verdict_name;
use agentproto_text::{clip, count, escape_line};

/// Maximum number of findings named per reason before "and N more".
const MAX_NAMED: usize = 6;
/// Maximum number of reasons shown per verdict.
const MAX_REASONS: usize = 12;
/// Maximum number of output lines shown.
const MAX_LINES: usize = 6;
/// Maximum length of a command name in the matrix.
const MAX_NAME_CHARS: usize = 24;

/// Column headings for narrow terminals.
const SHORT: [&str; 10] = [
    "Typed", "Disc", "Strm", "Bound", "Safe", "Idem", "Audit", "Verif", "Comp", "Vers",
];

pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let style = TerminalStyle::new(options.color, options.unicode, options.width);
    let name = style.one_line(&wording::target(report), 14);
    writeln!(out, "{}  {}\n", style.bold(&name), style.dim(wording::SPEC))?;
    if report.partial {
        writeln!(
            out,
            "The run was interrupted. The results below are incomplete, and no cell of the matrix is proven.\n"
        )?;
    }
    matrix(report, options, &style, out)?;
    for (verdict, _) in row::HEADINGS {
        for row in row::new_first(&report.checks, verdict) {
            finding(row, &style, out)?;
        }
    }
    let first = report.checks.iter().find(|r| r.verdict == Verdict::Fail);
    if let Some(first) = first {
        let text = format!(
            "`agentproto explain {}` explains this rule, with advice for Python, Node, Go, Rust and \
             shell.",
            first.rule
        );
        style.wrapped("", &escape_line(&text), out)?;
        writeln!(out)?;
    }
    without_verdict(report, &style, out)?;
    compat(report, &style, out)?;
    if !options.fixed.is_empty() {
        let fixed = options.fixed.iter();
        let fixed: Vec<String> = fixed.map(|f| format!("{} ({})", f.id, f.subject)).collect();
        style.wrapped("Fixed since the baseline: ", &named(&fixed), out)?;
        writeln!(out)?;
    }
    let (blocked, rest) = isolation::summarize(&report.isolation);
    if !blocked.is_empty() {
        let blocked = blocked.join(", ");
        style.wrapped(
            "",
            &format!("`schema`, `capabilities` and `--help` ran without {blocked}."),
            out,
        )?;
    }
    for line in rest {
        style.wrapped("discovery: ", &escape_line(line), out)?;
    }
    if report.target.probe_file.is_none() {
        let tool = agentproto_text::shell(report.target.argv.get(..1).unwrap_or_default());
        let text = format!(
            "Without a probe file, aoi-lint runs only the given command and the commands that \
             describe the tool (`schema`, `capabilities`, `--help`, `--version`), all with a minimal \
             environment. `agentproto aoi-lint init -- {tool}` prints a probe file, to which you can \
             add other commands and environment variables."
        );
        style.wrapped("", &escape_line(&text), out)?;
    }
    let failed = report.checks.iter().filter(|r| r.verdict == Verdict::Fail);
    let failed = count(failed.count(), "rule", "rules");
    match wording::known(report) {
        Some(known) => writeln!(out, "{known}")?,
        None if failed.starts_with("0 ") => {}
        None => writeln!(out, "{failed} failed")?,
    }
    writeln!(out, "{}", style.bold(&wording::pairs(report)))?;
    writeln!(out, "{}", style.dim(&wording::timing(report)))
}

fn matrix(
    report: &Report,
    options: &RenderOptions,
    style: &TerminalStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = wording::rows(report);
    let shown: Vec<String> = rows
        .iter()
        .map(|(command, _)| {
            clip(&escape_line(wording::command(command)), MAX_NAME_CHARS).into_owned()
        })
        .collect();
    let longest = shown.iter().map(|name| name.chars().count()).max();
    let first = longest.unwrap_or(0);
    let full = Characteristic::ALL.map(Characteristic::as_str);
    let room = |heads: [&str; 10]| heads.iter().map(|head| head.len() + 2).sum::<usize>();
    let heads = match 2 + first + room(full) <= style.width {
        true => full,
        false => SHORT,
    };
    writeln!(out, "  {}  {}", " ".repeat(first), heads.join("  "))?;
    for (name, (_, cells)) in shown.iter().zip(&rows) {
        let pad = " ".repeat(first.saturating_sub(name.chars().count()));
        let mut line = format!("  {name}{pad}");
        for ((head, pair), characteristic) in heads.iter().zip(cells).zip(Characteristic::ALL) {
            line.push_str("  ");
            line.push_str(&match is_left_out(options, characteristic, *pair) {
                true => style.dim(not_checked(style)),
                false => mark(style, *pair),
            });
            line.push_str(&" ".repeat(head.len().saturating_sub(1)));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    let legend = [
        (PairState::Pass, "proven"),
        (PairState::Fail, "failing"),
        (PairState::Unproven, "not verified"),
        (PairState::NotApplicable, "not applicable"),
    ];
    let mut legend = legend
        .map(|(pair, word)| format!("{} {word}", mark(style, pair)))
        .to_vec();
    if !options.only.is_empty() {
        let left_out = style.dim(not_checked(style));
        legend.push(format!("{left_out} left out by --check"));
    }
    writeln!(out, "\n  {}", legend.join("   "))?;
    if heads == SHORT {
        let names = SHORT
            .iter()
            .zip(full)
            .filter(|(short, full)| *short != full);
        let names = names.map(|(short, full)| format!("{short}: {full}"));
        let names = names.collect::<Vec<_>>().join(", ");
        style.wrapped("", &names, out)?;
    }
    writeln!(out)
}

/// Whether the cell is empty because no selected check decides its characteristic.
fn is_left_out(options: &RenderOptions, characteristic: Characteristic, pair: PairState) -> bool {
    pair == PairState::NotApplicable && !options.is_checked(characteristic)
}

/// The mark of a cell that `--check` leaves out.
fn not_checked(style: &TerminalStyle) -> &'static str {
    if style.unicode { "·" } else { "." }
}

fn mark(style: &TerminalStyle, pair: PairState) -> String {
    let (verdict, fancy, simple) = match pair {
        PairState::Pass => (Verdict::Pass, "✓", "+"),
        PairState::Fail => (Verdict::Fail, "✗", "x"),
        PairState::Unproven => (Verdict::Warn, "~", "~"),
        PairState::NotApplicable => (Verdict::NotApplicable, "–", "-"),
    };
    style.paint_verdict(verdict, if style.unicode { fancy } else { simple })
}

/// One finding. A failure that the baseline contains is not called FAIL, because it does not count.
fn finding(row: &Finding, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    let rule = wording::rule(row);
    let is_failure = matches!(row.verdict, Verdict::Fail | Verdict::Error);
    let (word, known) = match (row.known, verdict_name(row.verdict).to_uppercase()) {
        (true, _) if is_failure => ("KNOWN".to_owned(), ""),
        (true, word) => (word, ", known"),
        (false, word) => (word, ""),
    };
    let level = rule.map_or_else(String::new, |rule| {
        format!(", {}", wording::level(rule.level))
    });
    writeln!(
        out,
        "{} {} {}  {}",
        style.paint_verdict(row.verdict, &word),
        style.bold(&escape_line(&row.rule)),
        escape_line(wording::command(&row.command)),
        style.dim(&format!(
            "({}, {}{level}{known})",
            wording::check(row.check),
            escape_line(&row.section)
        ))
    )?;
    if let Some(rule) = rule {
        paragraph(style, "expected", rule.requirement, out)?;
        if row.verdict == Verdict::Fail {
            paragraph(style, "why", rule.why, out)?;
        }
    }
    paragraph(style, "observed", &wording::message(row), out)?;
    reproduction(row, style, out)?;
    if let Some(rule) = rule {
        paragraph(style, "fix", rule.hint, out)?;
    }
    writeln!(out)
}

fn reproduction(row: &Finding, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    if row.repro.is_empty() {
        return Ok(());
    }
    // Not wrapped, so that it can be copied.
    writeln!(
        out,
        "  run      {}",
        escape_line(&agentproto_text::shell(&row.repro))
    )?;
    let variables = wording::variables(row);
    if !variables.is_empty() {
        paragraph(
            style,
            "",
            &format!("with {} set", variables.join(", ")),
            out,
        )?;
    }
    // Not what the message already says.
    let is_new = |text: &str| !row.message.contains(text.trim());
    let end = wording::evidence(row, "end").unwrap_or_default();
    if let Some(observed) = wording::observed(row).filter(|_| is_new(end)) {
        paragraph(style, "", &observed, out)?;
    }
    for key in ["stdout", "stderr"] {
        let Some(text) = wording::evidence(row, key).filter(|text| is_new(text)) else {
            continue;
        };
        let room = style.width.saturating_sub(11).max(20);
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().take(MAX_LINES).enumerate() {
            let label = if number == 0 { key } else { "" };
            writeln!(
                out,
                "  {}{}",
                style.dim(&format!("{label:<9}")),
                clip(&escape_line(line), room)
            )?;
        }
        if lines.len() > MAX_LINES {
            let rest = lines.len() - MAX_LINES;
            writeln!(
                out,
                "           {}",
                style.dim(&format!("and {rest} more lines"))
            )?;
        }
    }
    Ok(())
}

/// Findings without a result, grouped by reason.
fn without_verdict(report: &Report, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    for verdict in [Verdict::Skip, Verdict::NotVerified] {
        let reasons = wording::reasons(report, verdict);
        if reasons.is_empty() {
            continue;
        }
        let total: usize = reasons.iter().map(|reason| reason.rows.len()).sum();
        writeln!(
            out,
            "{} {total} ({})",
            style.bold(&verdict_name(verdict).to_uppercase()),
            wording::meaning(verdict)
        )?;
        for reason in reasons.iter().take(MAX_REASONS) {
            let rows: Vec<String> = reason.rows.iter().map(|row| wording::named(row)).collect();
            let text = format!("{}: {}", named(&rows), escape_line(reason.message));
            style.wrapped("- ", &text, out)?;
        }
        if reasons.len() > MAX_REASONS {
            let rest = reasons.iter().skip(MAX_REASONS);
            let rest: usize = rest.map(|reason| reason.rows.len()).sum();
            writeln!(out, "  {rest} for other reasons")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn compat(report: &Report, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    if report.compat.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{}",
        style.bold("Assertions of the reference aoi-lint")
    )?;
    for assertion in &report.compat {
        let pair = if assertion.ok {
            PairState::Pass
        } else {
            PairState::Fail
        };
        let text = format!(
            "{} ({}): {}",
            assertion.name, assertion.command, assertion.detail
        );
        writeln!(out, "  {} {}", mark(style, pair), style.one_line(&text, 4))?;
    }
    writeln!(out)
}

/// A labeled paragraph of a finding. Prints nothing if the text is blank.
fn paragraph(
    style: &TerminalStyle,
    label: &str,
    text: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    match text.trim() {
        "" => Ok(()),
        text => style.wrapped(&format!("{label:<9}"), &escape_line(text), out),
    }
}

fn named(rows: &[String]) -> String {
    row::join_first(rows, MAX_NAMED, |row| escape_line(row).into_owned())
}
