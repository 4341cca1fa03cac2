//! JUnit XML: a suite per command, a case per rule.

use std::io::{self, Write};
use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{Options, words};
use crate::model::{Finding, Report, Verdict};
use agentproto_report::junit::without_skipped_total;
use agentproto_report::words::word;
use agentproto_text::{clip, plain, plain_lines};

const SHOWN: usize = 2000;

pub fn render(report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let name = format!("agentproto aoi-lint {}", plain(&report.target.name));
    let mut document = quick_junit::Report::new(&*name);
    document.set_time(Duration::from_millis(report.timing.wall_ms));
    for (command, _) in words::rows(report) {
        let title = plain(command);
        let mut suite = TestSuite::new(&*title);
        for row in report.checks.iter().filter(|row| row.command == command) {
            let mut case = case(row);
            case.set_classname(&*title);
            suite.add_test_case(case);
        }
        document.add_test_suite(suite);
    }
    let xml = document.to_string().map_err(io::Error::other)?;
    let xml = without_skipped_total(xml);
    out.write_all(xml.trim_end().as_bytes())?;
    writeln!(out)
}

fn case(row: &Finding) -> TestCase {
    let name = plain(&row.rule).into_owned();
    let message = plain(&row.message).into_owned();
    let bad = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(&*name);
        status.set_message(&*message);
        status.set_description(detail(row));
        TestCase::new(name.as_str(), status)
    };
    let skipped = |why: String| {
        let mut status = TestCaseStatus::skipped();
        status.set_message(why);
        TestCase::new(name.as_str(), status)
    };
    match row.verdict {
        Verdict::Fail | Verdict::Error if row.known => {
            skipped(format!("known from the baseline: {message}"))
        }
        Verdict::Fail => bad(NonSuccessKind::Failure),
        Verdict::Error => bad(NonSuccessKind::Error),
        Verdict::Pass => TestCase::new(name.as_str(), TestCaseStatus::success()),
        Verdict::Warn => {
            let mut case = TestCase::new(name.as_str(), TestCaseStatus::success());
            case.set_system_out(detail(row));
            case
        }
        Verdict::Skip | Verdict::NotApplicable | Verdict::NotVerified => {
            skipped(format!("{}: {message}", word(row.verdict)))
        }
    }
}

/// All that is known of a row, line by line.
fn detail(row: &Finding) -> String {
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
