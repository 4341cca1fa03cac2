//! A report as Markdown, for a README or a comment on a pull request: what every one has.

use std::io::{self, Write};

use agentproto_text::{self as text, clip};

use crate::badge::Badge;
use crate::markdown::{address_of, block, inline};
use crate::row::{ATTENTION, new_first};
use crate::words::date;
use crate::{Report, Row};

/// Comments of the large hosts end at 65,536 characters.
const MOST_BYTES: usize = 50_000;
/// Of a line that others wrote.
pub const MOST_CHARACTERS: usize = 400;
const MOST_REASONS: usize = 20;

/// The parts that differ.
pub struct Page<R> {
    pub head: Vec<u8>,
    /// One row, folded.
    pub finding: fn(&R, &mut Vec<u8>) -> io::Result<()>,
    /// Where rows are that found no room: "the JSON report".
    pub elsewhere: &'static str,
    /// What was not judged.
    pub unjudged: Vec<u8>,
    /// Seconds since 1970.
    pub started: u64,
    pub timing: String,
}

impl<R: Row> Page<R> {
    pub fn write(self, report: &impl Report<Row = R>, out: &mut dyn Write) -> io::Result<()> {
        let mut page = self.head;
        let mut left_out = 0;
        for (verdict, title) in ATTENTION {
            let rows = new_first(report.rows(), verdict);
            if !rows.is_empty() {
                writeln!(page, "### {title} ({})\n", rows.len())?;
            }
            for row in rows {
                if page.len() > MOST_BYTES {
                    left_out += 1;
                } else {
                    (self.finding)(row, &mut page)?;
                }
            }
        }
        if left_out > 0 {
            let rows = text::count(left_out, "row", "rows");
            writeln!(
                page,
                "And {rows} more, which stand in {}.\n",
                self.elsewhere
            )?;
        }
        page.extend(self.unjudged);
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

/// The badge as a picture, and what it says for those who see none.
pub fn picture(badge: &Badge, address: &str, out: &mut Vec<u8>) -> io::Result<()> {
    let words = inline(&badge.words());
    writeln!(out, "![{words}]({})\n", address_of(address))
}

/// A folded row: a line that is always there, facts, and what proves them.
pub fn details(
    summary: &str,
    facts: &[(&str, Option<&str>)],
    proof: &[String],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    writeln!(out, "<details><summary>{summary}</summary>\n")?;
    for (label, fact) in facts {
        if let Some(fact) = fact {
            writeln!(out, "- {label}: {}", inline(fact))?;
        }
    }
    if !proof.is_empty() {
        writeln!(out, "\n{}", block("text", &proof.join("\n")))?;
    }
    writeln!(out, "\n</details>\n")
}

/// Why rows were not judged, folded: each reason with its rows, and what else there is to say.
pub fn unjudged<'m>(
    summary: &str,
    reasons: impl Iterator<Item = (&'m str, String)>,
    more: &str,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    writeln!(out, "<details><summary>{summary}</summary>\n")?;
    for (message, rows) in reasons.take(MOST_REASONS) {
        let message = clip(message, MOST_CHARACTERS);
        writeln!(out, "- {}: {rows}", inline(&message))?;
    }
    writeln!(out, "{more}\n</details>\n")
}
