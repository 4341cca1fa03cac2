//! The report for the terminal: the verdict first, then each failure with its evidence.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use super::words::RunState;
use super::{RenderOptions, next, prompting, words};
use crate::model::{
    CaseResult, Evidence, Level, NO_INITIALIZE, Report, STDERR_LABEL, STDERR_SEPARATOR, Verdict,
};
use crate::run::NOT_EXERCISED;
use agentproto_report::terminal::{TerminalStyle, chunks};
use agentproto_report::{Row, row};
use agentproto_text::excerpt::shorten;
use agentproto_text::{clip, count, escape_line};

/// Maximum number of ids that are listed before "and N more".
const MAX_IDS: usize = 8;
/// Maximum number of reasons that are listed per verdict.
const MAX_REASONS: usize = 12;
/// Maximum number of evidence lines per row.
const MAX_EVIDENCE: usize = 12;
/// Maximum number of screen lines per evidence line.
const EVIDENCE_LINES: usize = 3;

pub fn render(report: &Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let style = TerminalStyle::new(options.color, options.unicode, options.width);
    header(report, &style, out)?;
    section_lines(report, &style, out)?;
    kit(report, &style, out)?;
    let mut shown = HashSet::new();
    for (verdict, _) in row::HEADINGS {
        for row in row::new_first(&report.results, verdict) {
            finding(row, options, &style, &mut shown, out)?;
        }
    }
    without_verdict(report, options, &style, &mut shown, out)?;
    if !options.fixed.is_empty() {
        let ids = options.fixed.iter().map(|f| f.id.as_str());
        let ids: Vec<&str> = ids.collect();
        writeln!(out, "Fixed since the baseline: {}\n", id_list(&ids))?;
    }
    next(report, options, &style, out)?;
    writeln!(out, "{}", words::timing(report))
}

fn header(report: &Report, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    let state = RunState::of(report);
    let name = state.name().to_uppercase();
    let mark = match state {
        RunState::Certified | RunState::Passed => style.success(&name),
        RunState::NothingTested => style.bold(&name),
        RunState::NotCertified => style.error(&name),
    };
    let details = words::state_details(report);
    let (details, stderr) = match details.split_once(STDERR_LABEL) {
        Some((details, stderr)) => (details, Some(stderr)),
        None => (details.as_str(), None),
    };
    let details = match (state, escape_line(details)) {
        (_, details) if details.is_empty() => String::new(),
        (RunState::Certified, details) => format!(", {details}"),
        (RunState::NothingTested, details) => format!(" ({details})"),
        (_, details) => format!(": {details}"),
    };
    writeln!(out, "{mark}{details}")?;
    if let Some(stderr) = stderr {
        writeln!(out, "  end of its stderr:")?;
        for line in stderr.split(STDERR_SEPARATOR) {
            writeln!(out, "    {}", style.one_line(line, 4))?;
        }
    }
    writeln!(
        out,
        "\n  target   {}",
        style.one_line(&report.target.name, 11)
    )?;
    writeln!(
        out,
        "  agent    {}",
        style.one_line(&words::agent(report), 11)
    )?;
    let suites: Vec<String> = report
        .suites
        .iter()
        .map(|s| {
            let requirements = count(s.requirements, "requirement", "requirements");
            let cases = count(s.cases, "case", "cases");
            match report.selection {
                true => format!("{} (only a part of its {requirements}, {cases})", s.name),
                false => format!("{} ({requirements}, {cases})", s.name),
            }
        })
        .collect();
    writeln!(out, "  suites   {}", style.one_line(&suites.join(", "), 11))?;
    if let Some(profile) = words::profile(report) {
        style.wrapped("profile  ", &escape_line(&profile), out)?;
    }
    if let Some(kit) = words::kit(report) {
        writeln!(out, "  acp-tck  {}", style.one_line(&kit, 11))?;
    }
    if let Some(shard) = &report.shard {
        writeln!(out, "  shard    {}", style.one_line(shard, 11))?;
    }
    if report.partial {
        writeln!(
            out,
            "  partial  the run was interrupted; these are the results until then"
        )?;
    }
    let counts: Vec<String> = words::counts(&report.summary)
        .into_iter()
        .map(|(verdict, n)| {
            style.paint_verdict(verdict, &format!("{n} {}", words::verdict_name(verdict)))
        })
        .collect();
    let known = match words::known_failures(report) {
        0 => String::new(),
        n => format!(" ({n} known from the baseline)"),
    };
    let counts = match counts.is_empty() {
        true => "nothing was checked".to_owned(),
        false => counts.join(", "),
    };
    writeln!(
        out,
        "  rows     {} for {} (a row is one requirement in one case): {counts}{known}\n",
        report.results.len(),
        count(words::requirements(report), "requirement", "requirements")
    )
}

fn section_lines(report: &Report, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    let sections = words::sections(report);
    let several = report.suites.len() > 1;
    let titles: Vec<String> = sections
        .iter()
        .map(|s| match several {
            true => format!("{}: {}", s.suite, s.title()),
            false => s.title().to_owned(),
        })
        .map(|title| clip(&escape_line(&title), 48).into_owned())
        .collect();
    let width = titles.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    for (section, title) in sections.iter().zip(&titles) {
        let counts: Vec<String> = words::tally(section.rows.iter().copied())
            .into_iter()
            .map(|(verdict, n)| {
                style.paint_verdict(verdict, &format!("{n} {}", words::verdict_name(verdict)))
            })
            .collect();
        let pad = width - title.chars().count().min(width);
        writeln!(
            out,
            "  {} {title}{}  {}",
            style.verdict_symbol(section.worst()),
            " ".repeat(pad),
            counts.join(", ")
        )?;
    }
    if !sections.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// The requirements of the official kit, for the profile `tck`.
fn kit(report: &Report, style: &TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    for result in &report.tck {
        let word = words::kit_verdict(result.verdict).to_uppercase();
        let ours = match result.requirements.as_slice() {
            [] => String::new(),
            ids => format!("  {}", ids.join(", ")),
        };
        let line = format!("{} ({}){ours}", result.id, result.tier);
        writeln!(
            out,
            "{} {}",
            style.paint_verdict(result.verdict, &word),
            style.one_line(&line, word.len() + 1)
        )?;
        // Explain only what the reader might take for an error of this report.
        let is_explained = matches!(result.verdict, Verdict::Fail | Verdict::NotVerified);
        if let (true, Some(note)) = (is_explained, &result.note) {
            style.paragraph("note", note, out)?;
        }
    }
    match report.tck.is_empty() {
        true => Ok(()),
        false => writeln!(out),
    }
}

/// A message, without the agent's stderr if an earlier one has shown the same.
fn observed<'r>(message: &'r str, shown: &mut HashSet<&'r str>) -> Cow<'r, str> {
    match message.split_once(STDERR_LABEL) {
        Some((message, stderr)) if !shown.insert(stderr.trim_end_matches(')')) => {
            let end = if stderr.ends_with(')') { ")" } else { "" };
            format!("{message}{end}").into()
        }
        _ => message.into(),
    }
}

/// One row with everything that is needed to fix it.
fn finding<'r>(
    row: &'r CaseResult,
    options: &RenderOptions,
    style: &TerminalStyle,
    shown: &mut HashSet<&'r str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    // A failure that the baseline contains is not called FAIL, because it does not count.
    let is_failure = matches!(row.verdict, Verdict::Fail | Verdict::Error);
    let (word, known) = match (row.known, words::verdict_name(row.verdict).to_uppercase()) {
        (true, _) if is_failure => ("KNOWN".to_owned(), ""),
        (true, word) => (word, ", known"),
        (false, word) => (word, ""),
    };
    let subject = match row.case.as_str() {
        "monitor" => format!("{} (checks every case)", row.subject()),
        _ => row.subject().into_owned(),
    };
    let level = match row.level {
        Level::Info => "agentproto's own check, not in the spec".to_owned(),
        _ => words::level(row),
    };
    writeln!(
        out,
        "{} {} ({}{known})  {}",
        style.paint_verdict(row.verdict, &word),
        style.bold(&escape_line(&row.requirement)),
        level,
        style.dim(&escape_line(&subject))
    )?;
    let (requires, source) = match row.level {
        Level::Info => ("expects", "about"),
        _ => ("requires", "source"),
    };
    style.paragraph(requires, &row.statement, out)?;
    style.paragraph(source, &words::source(row), out)?;
    style.paragraph("observed", &observed(&row.message, shown), out)?;
    for evidence in row.evidence.iter().take(MAX_EVIDENCE) {
        self::evidence(style, evidence, out)?;
    }
    if row.evidence.len() > MAX_EVIDENCE {
        let rest = row.evidence.len() - MAX_EVIDENCE;
        writeln!(
            out,
            "             {}",
            style.dim(&format!("and {rest} more lines"))
        )?;
    }
    match (&row.hint, row.verdict) {
        (Some(hint), _) => style.paragraph("fix", hint, out)?,
        (None, Verdict::Error) => style.paragraph("fix", words::ERROR_HINT, out)?,
        _ => {}
    }
    if let Some(transcript) = &row.transcript {
        let path = match &options.report_dir {
            Some(dir) => dir.join(transcript).to_string_lossy().into_owned(),
            None => transcript.clone(),
        };
        let line = words::main_evidence(row).map_or(1, |e| e.line);
        style.paragraph("messages", &format!("{path}:{line}"), out)?;
    }
    writeln!(out)
}

/// What was not checked, grouped by reason, and what would change that.
fn without_verdict<'r>(
    report: &'r Report,
    options: &RenderOptions,
    style: &TerminalStyle,
    shown: &mut HashSet<&'r str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for verdict in [Verdict::Skip, Verdict::NotVerified, Verdict::NotApplicable] {
        let reasons = words::reasons(report, verdict);
        let prompting = prompting::of(report).filter(|_| verdict == Verdict::Skip);
        if reasons.is_empty() && prompting.is_none() {
            continue;
        }
        let total = words::total(report, verdict);
        writeln!(
            out,
            "{} {total} ({})",
            style.bold(&words::verdict_name(verdict).to_uppercase()),
            words::meaning(verdict)
        )?;
        for reason in reasons.iter().take(MAX_REASONS) {
            if reason.message == NOT_EXERCISED {
                not_exercised(&reason.rows, style, out)?;
                continue;
            }
            let ids = id_list(&words::ids(&reason.rows));
            style.wrapped(
                "- ",
                &format!("{ids}: {}", escape_line(&observed(reason.message, shown))),
                out,
            )?;
            if let Some(hint) = reason.rows.first().and_then(|row| row.hint.as_ref()) {
                style.wrapped("  ", &escape_line(hint), out)?;
            }
            // What the agent answered instead.
            let first = reason
                .rows
                .first()
                .filter(|_| reason.message == NO_INITIALIZE);
            for line in first.iter().flat_map(|row| &row.evidence) {
                evidence(style, line, out)?;
            }
        }
        if reasons.len() > MAX_REASONS {
            let rest: usize = reasons.iter().skip(MAX_REASONS).map(|r| r.rows.len()).sum();
            let rows = reasons.iter().skip(MAX_REASONS).flat_map(|r| &r.rows);
            let rows: Vec<&CaseResult> = rows.copied().collect();
            let ids = id_list(&words::ids(&rows));
            style.wrapped("", &format!("{rest} more for other reasons: {ids}"), out)?;
        }
        if let Some(advice) = words::advice(report, verdict) {
            style.wrapped("", advice, out)?;
        }
        if let Some(prompting) = prompting {
            let before = prompting.before(options.prompts.as_deref());
            let before = format!("{} {before}", prompting.headline());
            style.wrapped("", &before, out)?;
            writeln!(out)?;
            // Do not wrap these lines: they are meant to be copied.
            for line in prompting.yaml.lines() {
                writeln!(out, "    {line}")?;
            }
            writeln!(out)?;
            style.wrapped("", prompting::ALTERNATIVE, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Requirements that monitors check, but that no message of the run was about. The statement says
/// what was missing.
fn not_exercised(
    rows: &[&CaseResult],
    style: &TerminalStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    style.wrapped("- ", &format!("{NOT_EXERCISED}:"), out)?;
    for row in rows.iter().take(MAX_IDS) {
        let label = format!("    {}  ", escape_line(&row.requirement));
        style.wrapped(&label, &escape_line(&row.statement), out)?;
    }
    let rest: Vec<&CaseResult> = rows.iter().skip(MAX_IDS).copied().collect();
    match rest.is_empty() {
        true => Ok(()),
        false => {
            let ids = id_list(&words::ids(&rest));
            style.wrapped("    ", &format!("and {ids}"), out)
        }
    }
}

/// What to do next.
fn next(
    report: &Report,
    options: &RenderOptions,
    style: &TerminalStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let steps = next::steps(report, options);
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", style.bold("NEXT"))?;
    for step in steps {
        style.wrapped("- ", &escape_line(&step), out)?;
    }
    writeln!(out)
}

fn id_list(ids: &[&str]) -> String {
    row::join_first(ids, MAX_IDS, |id| escape_line(id).into_owned())
}

fn evidence(style: &TerminalStyle, evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let (fancy, simple) = match evidence.direction.as_str() {
        "to-agent" => ("→", "> "),
        "from-agent" => ("←", "< "),
        "stderr" => ("stderr", "stderr"),
        _ => ("process", "process"),
    };
    let arrow = if style.unicode { fancy } else { simple.trim() };
    let label = format!("           {arrow} {:<4} ", evidence.line);
    let room = style.width.saturating_sub(label.chars().count()).max(20);
    let mark = evidence.mark.map(|(from, to)| from..to);
    let text = match evidence.text.trim() {
        "" => "(blank line)".into(),
        _ => escape_line(&evidence.text),
    };
    let (text, mark) = shorten(&text, mark, room * EVIDENCE_LINES);
    let indent = " ".repeat(label.chars().count());
    for (i, line) in chunks(&text, room).into_iter().enumerate() {
        let lead = if i == 0 { &label } else { &indent };
        let line = style.marked(&line, i * room, mark.as_ref());
        writeln!(out, "{}{line}", style.dim(lead))?;
    }
    if let Some(pointer) = &evidence.pointer {
        let place = style.one_line(&format!("at {pointer}"), indent.len());
        writeln!(out, "{indent}{}", style.dim(&place))?;
    }
    Ok(())
}
