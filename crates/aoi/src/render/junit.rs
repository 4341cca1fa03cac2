//! JUnit XML: one test suite per command, one test case per rule.

use std::time::Duration;

use super::words;
use crate::model::{Finding, Report};
use agentproto_report::junit::{Suite, Tests};
use agentproto_report::words::word;
use agentproto_text::{clip, plain, plain_lines};

const SHOWN: usize = 2000;

impl Tests for Report {
    fn name(&self) -> String {
        format!("agentproto aoi-lint {}", plain(&self.target.name))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.timing.wall_ms)
    }

    fn suites(&self) -> Vec<Suite<'_, Finding>> {
        let commands = words::rows(self).into_iter();
        let suites = commands.map(|(command, _)| {
            let rows = self.checks.iter();
            Suite {
                title: plain(command).into_owned(),
                rows: rows.filter(|row| row.command == command).collect(),
                is_clean: false,
            }
        });
        suites.collect()
    }

    fn case(&self, row: &Finding) -> String {
        plain(&row.rule).into_owned()
    }

    fn detail(&self, row: &Finding) -> String {
        let mut lines = vec![format!(
            "{} {} ({}, {}): {}",
            word(row.verdict),
            plain(&row.rule),
            words::check(row.check),
            plain(&row.section),
            plain_lines(&row.message)
        )];
        let rule = words::rule(row);
        if let Some(rule) = rule {
            lines.push(format!("expected: {}", rule.demands));
        }
        if let Some(observed) = words::observed(row) {
            lines.push(format!("observed: {}", plain(&observed)));
        }
        if !row.repro.is_empty() {
            lines.push(format!("run: {}", plain(&words::shell(&row.repro))));
        }
        for key in ["stdout", "stderr"] {
            if let Some(text) = words::evidence(row, key) {
                lines.push(format!("{key}: {}", clip(&plain(text), SHOWN)));
            }
        }
        if let Some(rule) = rule {
            lines.push(format!("do: {}", rule.hint));
        }
        lines.join("\n")
    }
}
