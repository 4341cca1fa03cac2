//! JUnit XML: a suite per file, a case per finding, a passing case for a clean file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::render::{Meta, citation, message};
use crate::{Finding, Report};
use agentproto_report::junit::without_skipped_total;
use agentproto_text::{plain, plain_lines};

pub fn render(report: &Report, meta: &Meta, out: &mut dyn Write) -> io::Result<()> {
    let mut files: BTreeMap<&Path, Vec<&Finding>> = BTreeMap::new();
    for file in &report.files {
        files.entry(file).or_default();
    }
    for finding in &report.findings {
        files.entry(&finding.file).or_default().push(finding);
    }
    let mut document = quick_junit::Report::new("agentproto lint");
    document.set_time(meta.elapsed);
    for (file, findings) in files {
        let path = plain(&meta.path(file)).into_owned();
        let mut suite = TestSuite::new(&path);
        if !findings.iter().any(|f| f.counts()) {
            let mut case = TestCase::new("no findings", TestCaseStatus::success());
            case.set_classname(&path);
            suite.add_test_case(case);
        }
        for finding in findings {
            suite.add_test_case(case(finding, &path, report, meta));
        }
        document.add_test_suite(suite);
    }
    // One write: the serializer's own are many and small.
    let xml = document.to_string().map_err(io::Error::other)?;
    let xml = without_skipped_total(xml);
    out.write_all(xml.as_bytes())?;
    if xml.ends_with('\n') {
        Ok(())
    } else {
        writeln!(out)
    }
}

fn case(finding: &Finding, path: &str, report: &Report, meta: &Meta) -> TestCase {
    let place = format!("{}:{}", finding.start.line, finding.start.column);
    let text = plain(message(finding));
    let mut detail = format!(
        "{path}:{place}: {}[{}] {text}\n{}",
        finding.severity.as_str(),
        finding.rule.slug,
        citation(finding.source, finding.rule.level),
    );
    if let Some(help) = &finding.help {
        detail.push_str("\nhelp: ");
        detail.push_str(&plain_lines(help));
    }
    let name = format!("{} at {place}", finding.rule.slug);
    let mut case = if let Some(reason) = &finding.suppressed {
        let mut status = TestCaseStatus::skipped();
        status.set_message(&*plain(reason));
        TestCase::new(name, status)
    } else if meta.is_failure(finding) {
        // JUnit keeps "could not be tested" apart from "tested and bad".
        let kind = match report.source(&finding.file) {
            Some(_) => NonSuccessKind::Failure,
            None => NonSuccessKind::Error,
        };
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(finding.rule.slug);
        status.set_message(&*text);
        status.set_description(&detail);
        TestCase::new(name, status)
    } else {
        // Below the threshold: told, but the build stays green as the run does.
        let mut case = TestCase::new(name, TestCaseStatus::success());
        case.set_system_out(&detail);
        case
    };
    case.set_classname(path);
    case
}
