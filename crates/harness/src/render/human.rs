//! The report for the terminal: the verdict first, then each failure with its evidence.

use std::io::{self, Write};

use super::{Options, next, prompting, words};
use crate::model::{CaseResult, Evidence, Report, Verdict};
use agentproto_report::pen::{Pen, chunks};
use agentproto_report::{Row, row};
use agentproto_text::excerpt::shorten;
use agentproto_text::{clip, count, plain};

/// Maximum number of ids that are listed before "and N more".
const MOST_IDS: usize = 8;
/// Maximum number of reasons that are listed per verdict.
const MOST_REASONS: usize = 12;
/// Maximum number of evidence lines per row.
const MOST_EVIDENCE: usize = 12;
/// Maximum number of screen lines per evidence line.
const EVIDENCE_LINES: usize = 3;

pub fn render(report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let pen = Pen::new(options.color, options.unicode, options.width);
    header(report, &pen, out)?;
    section_lines(report, &pen, out)?;
    for (verdict, _) in row::ATTENTION {
        for row in row::new_first(&report.results, verdict) {
            finding(row, options, &pen, out)?;
        }
    }
    unjudged(report, options, &pen, out)?;
    if !options.fixed.is_empty() {
        let ids = options.fixed.iter().map(|f| f.id.as_str());
        let ids: Vec<&str> = ids.collect();
        writeln!(out, "Fixed since the baseline: {}\n", id_list(&ids))?;
    }
    next(report, options, &pen, out)?;
    writeln!(out, "{}", words::timing(report))
}

fn header(report: &Report, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    let certified = report.summary.certified;
    let mark = match certified {
        true => pen.good("CERTIFIED"),
        // A selection or a shard without failures: NOT CERTIFIED would read like a failure.
        false if words::is_part_that_holds(report) => pen.good("NOTHING FAILED"),
        false => pen.bad("NOT CERTIFIED"),
    };
    let why = match (&report.summary.reason, certified) {
        (Some(reason), false) if words::is_part_that_holds(report) => {
            format!("; not a certificate: {}", plain(reason))
        }
        (Some(reason), false) => format!(": {}", plain(reason)),
        (_, true) => words::untested(report).map_or_else(String::new, |u| format!(" ({u})")),
        _ => String::new(),
    };
    writeln!(
        out,
        "{mark}{why}\n\n  target   {}",
        pen.one_line(&report.target.name, 11)
    )?;
    writeln!(
        out,
        "  agent    {}",
        pen.one_line(&words::agent(report), 11)
    )?;
    let suites: Vec<String> = report
        .suites
        .iter()
        .map(|s| {
            let requirements = count(s.requirements, "requirement", "requirements");
            format!(
                "{} ({requirements}, {})",
                s.name,
                count(s.cases, "case", "cases")
            )
        })
        .collect();
    writeln!(out, "  suites   {}", pen.one_line(&suites.join(", "), 11))?;
    if let Some(shard) = &report.shard {
        writeln!(out, "  shard    {}", pen.one_line(shard, 11))?;
    }
    if report.partial {
        writeln!(
            out,
            "  partial  the run was interrupted; these are the results until then"
        )?;
    }
    let counts: Vec<String> = words::counts(&report.summary)
        .into_iter()
        .map(|(verdict, n)| pen.tone(verdict, &format!("{n} {}", words::word(verdict))))
        .collect();
    let known = match words::known(report) {
        0 => String::new(),
        n => format!(" ({n} known from the baseline)"),
    };
    let counts = match counts.is_empty() {
        true => "nothing was checked".to_owned(),
        false => counts.join(", "),
    };
    let all = count(report.results.len(), "result", "results");
    writeln!(
        out,
        "  results  {all}, one per requirement and case: {counts}{known}\n"
    )
}

fn section_lines(report: &Report, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    let sections = words::sections(report);
    let several = report.suites.len() > 1;
    let titles: Vec<String> = sections
        .iter()
        .map(|s| match several {
            true => format!("{}: {}", s.suite, s.title()),
            false => s.title().to_owned(),
        })
        .map(|title| clip(&plain(&title), 48).into_owned())
        .collect();
    let width = titles.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    for (section, title) in sections.iter().zip(&titles) {
        let counts: Vec<String> = words::tally(section.rows.iter().copied())
            .into_iter()
            .map(|(verdict, n)| pen.tone(verdict, &format!("{n} {}", words::word(verdict))))
            .collect();
        let pad = width - title.chars().count().min(width);
        writeln!(
            out,
            "  {} {title}{}  {}",
            pen.mark(section.worst()),
            " ".repeat(pad),
            counts.join(", ")
        )?;
    }
    if !sections.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// One row with everything that is needed to fix it.
fn finding(row: &CaseResult, options: &Options, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    let known = if row.known { ", known" } else { "" };
    let word = words::word(row.verdict).to_uppercase();
    writeln!(
        out,
        "{} {} ({}{known})  {}",
        pen.tone(row.verdict, &word),
        pen.bold(&plain(&row.requirement)),
        row.level.as_str(),
        pen.dim(&plain(&row.place()))
    )?;
    pen.paragraph("spec", &row.statement, out)?;
    pen.paragraph("source", &row.source, out)?;
    pen.paragraph("seen", &row.message, out)?;
    for evidence in row.evidence.iter().take(MOST_EVIDENCE) {
        self::evidence(pen, evidence, out)?;
    }
    if row.evidence.len() > MOST_EVIDENCE {
        let rest = row.evidence.len() - MOST_EVIDENCE;
        writeln!(
            out,
            "           {}",
            pen.dim(&format!("and {rest} more lines"))
        )?;
    }
    match (&row.hint, row.verdict) {
        (Some(hint), _) => pen.paragraph("do", hint, out)?,
        (None, Verdict::Error) => pen.paragraph("do", words::HARNESS_AT_FAULT, out)?,
        _ => {}
    }
    if let Some(transcript) = &row.transcript {
        let path = match &options.report_dir {
            Some(dir) => dir.join(transcript).to_string_lossy().into_owned(),
            None => transcript.clone(),
        };
        let line = words::proof(row).map_or(1, |e| e.line);
        pen.paragraph("wire", &format!("{path}:{line}"), out)?;
    }
    writeln!(out)
}

/// What was not checked, grouped by reason, and what would change that.
fn unjudged(report: &Report, options: &Options, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
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
            pen.bold(&words::word(verdict).to_uppercase()),
            words::meaning(verdict)
        )?;
        for reason in reasons.iter().take(MOST_REASONS) {
            let ids = id_list(&words::ids(&reason.rows));
            pen.wrapped(
                &format!("{} ", reason.rows.len()),
                &format!("{}: {ids}", plain(reason.message)),
                out,
            )?;
            if let Some(hint) = reason.rows.first().and_then(|row| row.hint.as_ref()) {
                pen.wrapped("  ", &plain(hint), out)?;
            }
        }
        if reasons.len() > MOST_REASONS {
            let rest: usize = reasons
                .iter()
                .skip(MOST_REASONS)
                .map(|r| r.rows.len())
                .sum();
            let rows = reasons.iter().skip(MOST_REASONS).flat_map(|r| &r.rows);
            let rows: Vec<&CaseResult> = rows.copied().collect();
            let ids = id_list(&words::ids(&rows));
            pen.wrapped("", &format!("{rest} more for other reasons: {ids}"), out)?;
        }
        if let Some(advice) = words::advice(verdict) {
            pen.wrapped("", advice, out)?;
        }
        if let Some(prompting) = prompting {
            let before = prompting.before(options.prompts.as_deref());
            let before = format!("{} {before}", prompting.headline());
            pen.wrapped("", &before, out)?;
            writeln!(out)?;
            // Do not wrap these lines: they are meant to be copied.
            for line in prompting.yaml.lines() {
                writeln!(out, "    {line}")?;
            }
            writeln!(out)?;
            pen.wrapped("", prompting::AFTER, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What to do next.
fn next(report: &Report, options: &Options, pen: &Pen, out: &mut dyn Write) -> io::Result<()> {
    let steps = next::steps(report, options);
    if steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", pen.bold("NEXT"))?;
    for step in steps {
        pen.wrapped("- ", &plain(&step), out)?;
    }
    writeln!(out)
}

fn id_list(ids: &[&str]) -> String {
    row::first(ids, MOST_IDS, |id| plain(id).into_owned())
}

fn evidence(pen: &Pen, evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let (fancy, simple) = match evidence.direction.as_str() {
        "to-agent" => ("→", "> "),
        "from-agent" => ("←", "< "),
        "stderr" => ("stderr", "stderr"),
        _ => ("process", "process"),
    };
    let arrow = if pen.unicode { fancy } else { simple.trim() };
    let label = format!("         {arrow} {:<4} ", evidence.line);
    let room = pen.width.saturating_sub(label.chars().count()).max(20);
    let mark = evidence.mark.map(|(from, to)| from..to);
    let (text, mark) = shorten(&plain(&evidence.text), mark, room * EVIDENCE_LINES);
    let indent = " ".repeat(label.chars().count());
    for (i, line) in chunks(&text, room).into_iter().enumerate() {
        let lead = if i == 0 { &label } else { &indent };
        let line = pen.marked(&line, i * room, mark.as_ref());
        writeln!(out, "{}{line}", pen.dim(lead))?;
    }
    if let Some(pointer) = &evidence.pointer {
        let place = pen.one_line(&format!("at {pointer}"), indent.len());
        writeln!(out, "{indent}{}", pen.dim(&place))?;
    }
    Ok(())
}
