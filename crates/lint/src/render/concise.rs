//! One line per finding, for editors and grep: `file:line:col: severity[rule] message`.

use std::io::{self, Write};

use crate::render::{Meta, active_findings, message};
use crate::{Finding, Report};
use agentproto_text::escape_line;

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    for finding in active_findings(report) {
        line(finding, meta, out)?;
    }
    Ok(())
}

pub(super) fn line(finding: &Finding, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}:{}:{}: {}[{}] {}",
        escape_line(&meta.path(&finding.file)),
        finding.start.line,
        finding.start.column,
        finding.severity.as_str(),
        finding.rule.slug,
        escape_line(message(finding)),
    )
}
