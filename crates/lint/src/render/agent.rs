//! Short report for language models: what to change, where, and the exact replacement.

use std::io::{self, Write};

use crate::render::secrets::{MaskedSpans, overlaps_mask};
use crate::render::{FindingCounts, Meta, active_findings, by_file, message};
use crate::{Edit, Finding, Fix, Report};
use agentproto_manifest::{Document, Span};
use agentproto_text::{clip, count, escape_json, escape_line, upper_first};

/// Maximum number of characters of the old text that are quoted.
const QUOTE: usize = 160;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let findings = active_findings(report);
    let all = meta.counts(report);
    if all.total() == 0 {
        let files = count(report.files.len(), "file", "files");
        return writeln!(out, "No findings in {files}. Next: nothing to fix.");
    }
    let masks = MaskedSpans::of(report);
    for (file, findings) in by_file(&findings) {
        let counts = FindingCounts::of(findings.iter().copied());
        writeln!(
            out,
            "{}: {}",
            escape_line(&meta.path(file)),
            counts.describe()
        )?;
        let source = report.source(file).map(|doc| &**doc);
        for finding in findings {
            writeln!(out, "{}", line(finding, source, masks.in_file(file), meta))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", next_step(&all, &meta.arguments))
}

fn line(finding: &Finding, source: Option<&Document>, masks: &[Span], meta: &Meta) -> String {
    let mut line = format!(
        "- line {} {}[{}]: {}",
        finding.start.line,
        finding.severity.as_str(),
        finding.rule.slug,
        sentence(&escape_line(message(finding))),
    );
    let mut add = |part: String| {
        line.push(' ');
        line.push_str(&part);
    };
    if let Some(help) = finding.help.as_deref().filter(|help| !help.is_empty()) {
        let words: Vec<_> = help.split_whitespace().collect();
        add(upper_first(&sentence(&escape_line(&words.join(" ")))));
    }
    for place in &finding.related {
        let path = meta.path(&place.file);
        let at = format!("See {}:{}", escape_line(&path), place.start.line);
        add(match place.message.trim() {
            "" => format!("{at}."),
            message => sentence(&format!("{at}: {}", escape_line(message))),
        });
    }
    if let (Some(fix), Some(doc)) = (&finding.fix, source) {
        add(fix_words(fix, doc, masks));
    }
    line
}

fn fix_words(fix: &Fix, doc: &Document, masks: &[Span]) -> String {
    let edits: Vec<String> = fix
        .edits
        .iter()
        .map(|edit| edit_words(edit, doc, masks))
        .collect();
    format!("Fix ({}): {}.", fix.safety.as_str(), edits.join("; "))
}

/// Texts are written as JSON strings, so that spaces and line breaks are exact.
fn edit_words(edit: &Edit, doc: &Document, masks: &[Span]) -> String {
    let at = doc.position(edit.span.start);
    let place = format!("{}:{}", at.line, at.column);
    let old = doc.slice(edit.span);
    let old_words = if overlaps_mask(masks, edit.span) {
        format!("{} bytes", old.len())
    } else {
        quoted_old(old)
    };
    match (old, edit.text.as_str()) {
        ("", new) => format!("at {place} insert {}", quoted(new)),
        (_, "") => format!("at {place} delete {old_words}"),
        (_, new) => format!("at {place} replace {old_words} with {}", quoted(new)),
    }
}

fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    escape_json(&json).into_owned()
}

fn quoted_old(text: &str) -> String {
    let short = clip(text, QUOTE);
    if short.len() == text.len() {
        return quoted(text);
    }
    format!("{} ({} bytes in total)", quoted(&short), text.len())
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?', ':']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// The commands repeat the paths and options of this run, because a program runs them as they are.
fn next_step(counts: &FindingCounts, arguments: &str) -> String {
    let lint = match arguments {
        "" => "agentproto lint".to_owned(),
        arguments => format!("agentproto lint {}", escape_line(arguments)),
    };
    let fix = lint.replacen("lint", "lint --fix", 1);
    let again = format!("then run `{lint}` again");
    let rest = counts.total() - counts.safe_fixes;
    match (counts.safe_fixes, rest) {
        (0, _) => format!("Next: edit the files as described above, {again}."),
        (safe, 0) => format!(
            "Next: run `{fix}` ({}), {again}.",
            count(safe, "finding", "findings")
        ),
        (safe, rest) => format!(
            "Next: run `{fix}` ({}), fix the other {rest} by hand, {again}.",
            count(safe, "finding", "findings")
        ),
    }
}
