//! One line per finding, for editors and grep: `file:line:col: severity[rule] message`.

use std::io::{self, Write};

use crate::render::{Meta, counted, message};
use crate::{Finding, Report};
use agentproto_text::plain;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    for finding in counted(report) {
        line(finding, meta, out)?;
    }
    Ok(())
}

pub(super) fn line(finding: &Finding, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}:{}:{}: {}[{}] {}",
        plain(&meta.path(&finding.file)),
        finding.start.line,
        finding.start.column,
        finding.severity.as_str(),
        finding.rule.slug,
        plain(message(finding)),
    )
}
