//! JUnit XML: one suite per file, one case per finding, and a passing case for a clean file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{RenderedReport, citation, message};
use crate::Finding;
use agentproto_report::junit::{JunitReport, JunitSuite};
use agentproto_report::{Row, Verdict};
use agentproto_text::{escape_line, escape_lines};

impl JunitReport for RenderedReport<'_> {
    fn name(&self) -> String {
        "agentproto lint".to_owned()
    }

    fn elapsed(&self) -> Duration {
        self.meta.elapsed
    }

    fn suites(&self) -> Vec<JunitSuite<'_, Finding>> {
        let mut files: BTreeMap<&Path, Vec<&Finding>> = BTreeMap::new();
        for file in &self.report.files {
            files.entry(file).or_default();
        }
        for finding in &self.report.findings {
            files.entry(&finding.file).or_default().push(finding);
        }
        let files = files.into_iter().map(|(file, rows)| JunitSuite {
            title: escape_line(&self.meta.path(file)).into_owned(),
            is_clean: !rows.iter().any(|f| f.counts()),
            rows,
        });
        files.collect()
    }

    fn case(&self, finding: &Finding) -> String {
        format!("{} at {}", finding.rule.slug, place(finding))
    }

    fn detail(&self, finding: &Finding) -> String {
        let mut detail = format!(
            "{}:{}: {}[{}] {}\n{}",
            escape_line(&self.meta.path(&finding.file)),
            place(finding),
            finding.severity.as_str(),
            finding.rule.slug,
            escape_line(message(finding)),
            citation(finding.source, finding.rule.level),
        );
        if let Some(help) = &finding.help {
            detail.push_str("\nhelp: ");
            detail.push_str(&escape_lines(help));
        }
        detail
    }

    fn verdict(&self, finding: &Finding) -> Verdict {
        match (
            self.meta.is_failure(finding),
            self.report.source(&finding.file),
        ) {
            (true, Some(_)) => Verdict::Fail,
            // JUnit distinguishes tests that could not run (error) from tests that failed.
            (true, None) => Verdict::Error,
            // Below `fail_on`: reported, but it does not fail the build.
            (false, _) => Verdict::Warn,
        }
    }

    fn skipped(&self, finding: &Finding) -> Option<String> {
        finding
            .suppressed()
            .map(|reason| escape_line(reason).into_owned())
    }
}

fn place(finding: &Finding) -> String {
    format!("{}:{}", finding.start.line, finding.start.column)
}
