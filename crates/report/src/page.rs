//! Markdown reports for a README or a comment on a pull request: the parts that all reports share.

use std::io::{self, Write};

use agentproto_text::{self as text, clip};

use crate::badge::Badge;
use crate::markdown::{address_of, block, inline};
use crate::row::{HEADINGS, new_first};
use crate::words::date;
use crate::{Row, RowReport};

/// Size in bytes after which no more rows are written. The large code hosts limit comments to
/// 65,536 characters.
const MAX_BYTES: usize = 50_000;
/// Maximum length of a line of untrusted text.
pub const MAX_CHARACTERS: usize = 400;
/// Maximum number of reasons that are listed.
const MAX_REASONS: usize = 20;

/// The parts of a page that differ between reports.
pub struct MarkdownPage<R> {
    /// Markdown before the rows.
    pub head: Vec<u8>,
    /// Writes one row, folded.
    pub finding: fn(&R, &mut Vec<u8>) -> io::Result<()>,
    /// Where to find the rows that are not shown, such as "the JSON report".
    pub see_also: &'static str,
    /// Markdown about rows without a verdict.
    pub without_verdict: Vec<u8>,
    /// Start of the run, in seconds since 1970.
    pub started: u64,
    /// Duration of the run, as text.
    pub timing: String,
}

impl<R: Row> MarkdownPage<R> {
    /// Writes the page.
    pub fn write(self, report: &impl RowReport<Row = R>, out: &mut dyn Write) -> io::Result<()> {
        let mut page = self.head;
        let mut left_out = 0;
        for (verdict, title) in HEADINGS {
            let rows = new_first(report.rows(), verdict);
            if !rows.is_empty() {
                writeln!(page, "### {title} ({})\n", rows.len())?;
            }
            for row in rows {
                if page.len() > MAX_BYTES {
                    left_out += 1;
                } else {
                    (self.finding)(row, &mut page)?;
                }
            }
        }
        if left_out > 0 {
            let rows = text::count(left_out, "row", "rows");
            writeln!(page, "{rows} not shown here. See {}.\n", self.see_also)?;
        }
        page.extend(self.without_verdict);
        let (name, version) = report.tool();
        writeln!(
            page,
            "<sub>{} {}, {}: {}</sub>",
            inline(name),
            inline(version),
            date(self.started),
            inline(&self.timing)
        )?;
        out.write_all(&page)
    }
}

/// Writes the badge as an image with an alternative text.
pub fn badge_image(badge: &Badge, address: &str, out: &mut Vec<u8>) -> io::Result<()> {
    let words = inline(&badge.text());
    writeln!(out, "![{words}]({})\n", address_of(address))
}

/// Writes a folded row: a summary line that is always visible, facts, and evidence.
pub fn details(
    summary: &str,
    facts: &[(&str, Option<&str>)],
    evidence: &[String],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    writeln!(out, "<details><summary>{summary}</summary>\n")?;
    for (label, fact) in facts {
        if let Some(fact) = fact {
            writeln!(out, "- {label}: {}", inline(fact))?;
        }
    }
    if !evidence.is_empty() {
        writeln!(out, "\n{}", block("text", &evidence.join("\n")))?;
    }
    writeln!(out, "\n</details>\n")
}

/// Writes a folded list of the reasons why rows have no verdict, each with its rows. `more` is
/// added at the end.
pub fn without_verdict<'m>(
    summary: &str,
    reasons: impl Iterator<Item = (&'m str, String)>,
    more: &str,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    writeln!(out, "<details><summary>{summary}</summary>\n")?;
    for (message, rows) in reasons.take(MAX_REASONS) {
        let message = clip(message, MAX_CHARACTERS);
        writeln!(out, "- {}: {rows}", inline(&message))?;
    }
    writeln!(out, "{more}\n</details>\n")
}
