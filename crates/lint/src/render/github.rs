//! GitHub workflow commands, which GitHub shows as annotations on a pull request.

use std::io::{self, Write};

use crate::render::{Meta, active_findings, citation, message};
use crate::{Report, Severity};
use agentproto_text::{escape_char, is_hidden};

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    for finding in active_findings(report) {
        let command = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        let (start, end) = (finding.start, finding.end);
        let mut place = format!(
            "file={},line={}",
            property(&meta.path(&finding.file)),
            start.line.max(1)
        );
        // GitHub drops annotations that have columns and span several lines.
        if start.line == end.line {
            place.push_str(&format!(
                ",col={},endLine={},endColumn={}",
                start.column.max(1),
                end.line.max(1),
                end.column.max(1)
            ));
        } else {
            place.push_str(&format!(",endLine={}", end.line.max(1)));
        }
        let title = format!(
            "{}: {}",
            finding.rule.slug,
            citation(finding.source, finding.rule.level)
        );
        let mut body = message(finding).to_owned();
        if let Some(help) = &finding.help {
            body.push_str("\nhelp: ");
            body.push_str(help);
        }
        writeln!(
            out,
            "::{command} {place},title={}::{}",
            property(&title),
            data(&body)
        )?;
    }
    Ok(())
}

/// Escapes the text after `::`.
fn data(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => out.push_str("%25"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            c if is_hidden(c) => out.extend(escape_char(c)),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a property value between `::error ` and `::`, where `:` and `,` are separators.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_escapes_percent_and_line_breaks() {
        assert_eq!(data("50% a\r\nb: c, d"), "50%25 a%0D%0Ab: c, d");
        assert_eq!(data("%0A"), "%250A");
        assert_eq!(data("\u{1b}[2J\t::error::x"), r"\u{1b}[2J\t::error::x");
    }

    #[test]
    fn properties_also_escape_colon_and_comma() {
        assert_eq!(property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }
}
