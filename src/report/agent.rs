//! Short text for a model to act on: what to change, where, and the exact replacement.

use std::io::{self, Write};

use super::text::{clip, count, json_plain, plain};
use super::{Meta, Tally, by_file, counted, message};
use crate::lint::{Edit, Finding, Fix, Report};
use crate::manifest::Document;

/// Longest piece of the old text that is quoted; the range says the rest.
const QUOTE: usize = 160;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let findings = counted(report);
    if findings.is_empty() {
        let files = count(report.files.len(), "file", "files");
        return writeln!(out, "No findings in {files}. Next: nothing to mend.");
    }
    for (file, findings) in by_file(&findings) {
        let tally = Tally::of(findings.iter().copied());
        writeln!(out, "{}: {}", plain(&meta.path(file)), tally.words())?;
        let source = report.source(file).map(|doc| &**doc);
        for finding in findings {
            writeln!(out, "{}", line(finding, source, meta))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", next_step(&Tally::of(findings)))
}

fn line(finding: &Finding, source: Option<&Document>, meta: &Meta) -> String {
    let mut line = format!(
        "- line {} {}[{}]: {}",
        finding.start.line,
        finding.severity.as_str(),
        finding.rule.slug,
        sentence(&plain(message(finding))),
    );
    let mut add = |part: String| {
        line.push(' ');
        line.push_str(&part);
    };
    if let Some(help) = finding.help.as_deref().filter(|help| !help.is_empty()) {
        add(sentence(&plain(help)));
    }
    for place in &finding.related {
        let message = if place.message.is_empty() {
            "see"
        } else {
            &place.message
        };
        let path = meta.path(&place.file);
        add(format!(
            "({} at {}:{}.)",
            plain(message),
            plain(&path),
            place.start.line
        ));
    }
    if let (Some(fix), Some(doc)) = (&finding.fix, source) {
        add(fix_words(fix, doc));
    }
    line
}

fn fix_words(fix: &Fix, doc: &Document) -> String {
    let edits: Vec<String> = fix.edits.iter().map(|edit| edit_words(edit, doc)).collect();
    format!("Fix ({}): {}.", fix.safety.as_str(), edits.join("; "))
}

/// Texts are JSON strings, so that blanks and line breaks are exact.
fn edit_words(edit: &Edit, doc: &Document) -> String {
    let at = doc.position(edit.span.start);
    let place = format!("{}:{}", at.line, at.column);
    let old = doc.slice(edit.span);
    match (old, edit.text.as_str()) {
        ("", new) => format!("at {place} insert {}", quoted(new)),
        (old, "") => format!("at {place} delete {}", quoted_old(old)),
        (old, new) => format!(
            "at {place} replace {} with {}",
            quoted_old(old),
            quoted(new)
        ),
    }
}

fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json_plain(&json).into_owned()
}

fn quoted_old(text: &str) -> String {
    let short = clip(text, QUOTE);
    if short.len() == text.len() {
        return quoted(text);
    }
    format!("{} ({} bytes in all)", quoted(&short), text.len())
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?', ':']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

fn next_step(tally: &Tally) -> String {
    let again = "then run `agentproto lint` again";
    let rest = tally.total() - tally.safe_fixes;
    match (tally.safe_fixes, rest) {
        (0, _) => format!("Next: edit the files as said above, {again}."),
        (safe, 0) => format!(
            "Next: run `agentproto lint --fix` ({}), {again}.",
            count(safe, "finding", "findings")
        ),
        (safe, rest) => format!(
            "Next: run `agentproto lint --fix` ({}), mend the other {rest} by hand, {again}.",
            count(safe, "finding", "findings")
        ),
    }
}
