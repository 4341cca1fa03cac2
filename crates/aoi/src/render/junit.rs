//! JUnit XML: one test suite per command, one test case per rule.

use std::time::Duration;

use super::wording;
use crate::model::{Finding, Report};
use agentproto_report::junit::{JunitReport, JunitSuite};
use agentproto_report::words::verdict_name;
use agentproto_text::{clip, escape_line, escape_lines};

const MAX_EVIDENCE_CHARS: usize = 2000;

impl JunitReport for Report {
    fn name(&self) -> String {
        format!("agentproto aoi-lint {}", escape_line(&self.target.name))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.timing.wall_ms)
    }

    fn suites(&self) -> Vec<JunitSuite<'_, Finding>> {
        let commands = wording::rows(self).into_iter();
        let suites = commands.map(|(command, _)| {
            let rows = self.checks.iter();
            JunitSuite {
                title: escape_line(command).into_owned(),
                rows: rows.filter(|row| row.command == command).collect(),
                is_clean: false,
            }
        });
        suites.collect()
    }

    fn case(&self, row: &Finding) -> String {
        escape_line(&row.rule).into_owned()
    }

    fn detail(&self, row: &Finding) -> String {
        let mut lines = vec![format!(
            "{} {} ({}, {}): {}",
            verdict_name(row.verdict),
            escape_line(&row.rule),
            wording::check(row.check),
            escape_line(&row.section),
            escape_lines(&row.message)
        )];
        let rule = wording::rule(row);
        if let Some(rule) = rule {
            lines.push(format!("expected: {}", rule.requirement));
        }
        if let Some(observed) = wording::observed(row) {
            lines.push(format!("observed: {}", escape_line(&observed)));
        }
        if !row.repro.is_empty() {
            lines.push(format!(
                "run: {}",
                escape_line(&agentproto_text::shell(&row.repro))
            ));
        }
        for key in ["stdout", "stderr"] {
            if let Some(text) = wording::evidence(row, key) {
                lines.push(format!(
                    "{key}: {}",
                    clip(&escape_line(text), MAX_EVIDENCE_CHARS)
                ));
            }
        }
        if let Some(rule) = rule {
            lines.push(format!("do: {}", rule.hint));
        }
        lines.join("\n")
    }
}
