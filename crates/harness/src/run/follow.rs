//! One fault, one row. If an agent does not answer a basic request at all, such as
//! `session/prompt`, many rows would fail for this one cause. Only the row about the request itself
//! fails, and the others name it.

use serde_json::Value;

use super::case::Unanswered;
use crate::model::{CaseResult, Evidence, Verdict};
use crate::render::severity_rank;
use crate::suite::Suite;

/// A row that is violated because a request was not answered.
pub struct UnansweredRow {
    pub suite: usize,
    pub case: String,
    pub requirement: String,
    pub request: Unanswered,
}

/// Turns rows that fail for the cause of another requirement into rows without a verdict. `rows`
/// are the rows of the cases, with the index of the suite and the position of the case.
pub fn name_causes(
    rows: &mut [(usize, usize, CaseResult)],
    unanswered: &[UnansweredRow],
    suites: &[Suite],
) {
    let verdict = |rows: &[(usize, usize, CaseResult)], of: &UnansweredRow| {
        let mut rows = rows.iter();
        let row = rows.find(|(suite, _, row)| {
            *suite == of.suite && row.case == of.case && row.requirement == of.requirement
        });
        row.map(|(_, _, row)| row.verdict)
    };
    for root in unanswered {
        let requirement = suites
            .get(root.suite)
            .and_then(|suite| suite.requirement(&root.requirement));
        let covers = requirement.and_then(|requirement| requirement.covers.as_ref());
        let Some(root_verdict) = verdict(rows, root) else {
            continue;
        };
        let is_violated = matches!(root_verdict, Verdict::Fail | Verdict::Warn);
        if covers != Some(&root.request.method) || !is_violated {
            continue;
        }
        for other in unanswered {
            let same = other.suite == root.suite && other.request == root.request;
            if !same || other.requirement == root.requirement {
                continue;
            }
            let row = rows.iter_mut().find(|(suite, _, row)| {
                *suite == other.suite
                    && row.case == other.case
                    && row.requirement == other.requirement
            });
            // A failure never hides behind a warning.
            if let Some((_, _, row)) = row
                && matches!(row.verdict, Verdict::Fail | Verdict::Warn)
                && severity_rank(row.verdict) >= severity_rank(root_verdict)
            {
                follow(row, &root.requirement);
            }
        }
    }
}

/// The requirement of a failed row about the same request that was not answered, for a violation
/// that a monitor found in a case.
pub fn cause_of<'r>(
    case: &str,
    evidence: &[Evidence],
    rows: impl Iterator<Item = &'r CaseResult>,
) -> Option<String> {
    // A line of the agent would be a fault of its own.
    if evidence.is_empty() || evidence.iter().any(|line| line.direction != "to-agent") {
        return None;
    }
    let mut rows = rows.filter(|row| row.case == case);
    let row = rows.find(|row| {
        let has_cause = row.verdict == Verdict::Fail || row.follows.is_some();
        let is_agent = |line: &Evidence| line.direction == "from-agent";
        let quotes = |line: &Evidence| row.evidence.iter().any(|other| other.line == line.line);
        has_cause && !row.evidence.iter().any(is_agent) && evidence.iter().all(quotes)
    })?;
    Some(
        row.follows
            .clone()
            .unwrap_or_else(|| row.requirement.clone()),
    )
}

/// A requirement that failed because its basic request was not answered.
pub struct Root {
    suite: usize,
    method: String,
    requirement: String,
}

/// The basic requests that were not answered.
pub fn roots(
    rows: &[(usize, usize, CaseResult)],
    unanswered: &[UnansweredRow],
    suites: &[Suite],
) -> Vec<Root> {
    let is_failed = |of: &UnansweredRow| {
        rows.iter().any(|(suite, _, row)| {
            let is_same = row.case == of.case && row.requirement == of.requirement;
            *suite == of.suite && is_same && row.verdict == Verdict::Fail
        })
    };
    let covers = |of: &UnansweredRow| {
        let suite = suites.get(of.suite)?;
        suite.requirement(&of.requirement)?.covers.clone()
    };
    let all = unanswered.iter().filter(|of| is_failed(of));
    let all = all.filter(|of| covers(of).as_ref() == Some(&of.request.method));
    let root = |of: &UnansweredRow| Root {
        suite: of.suite,
        method: of.request.method.clone(),
        requirement: of.requirement.clone(),
    };
    all.map(root).collect()
}

/// The requirement about a basic request, for a violation that quotes only such a request.
pub fn root_of(suite: usize, evidence: &[Evidence], roots: &[Root]) -> Option<String> {
    let [line] = evidence else {
        return None;
    };
    let message: Value = serde_json::from_str(&line.text).ok()?;
    let method = message.get("method")?.as_str()?;
    let mut roots = roots.iter().filter(|root| root.suite == suite);
    let root = roots.find(|root| line.direction == "to-agent" && root.method == method)?;
    Some(root.requirement.clone())
}

/// Takes the verdict from a row that has the same cause as `requirement`.
pub fn follow(row: &mut CaseResult, requirement: &str) {
    row.verdict = Verdict::NotVerified;
    row.message = format!("follows from {requirement}: {}", row.message);
    row.hint = None;
    row.follows = Some(requirement.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(direction: &str, text: &str) -> Evidence {
        Evidence {
            direction: direction.to_owned(),
            line: 7,
            text: text.to_owned(),
            pointer: None,
            mark: None,
            at_ms: 0.0,
        }
    }

    #[test]
    fn only_the_request_itself_follows_from_its_requirement() {
        let roots = [Root {
            suite: 1,
            method: "session/prompt".to_owned(),
            requirement: "PT-01".to_owned(),
        }];
        let prompt = sent("to-agent", r#"{"id":3,"method":"session/prompt"}"#);
        let other = sent("to-agent", r#"{"id":3,"method":"session/list"}"#);
        let from_agent = sent("from-agent", r#"{"id":3,"method":"session/prompt"}"#);
        let of = |suite, lines: &[&Evidence]| {
            let lines: Vec<Evidence> = lines.iter().map(|line| (*line).clone()).collect();
            root_of(suite, &lines, &roots)
        };
        assert_eq!(of(1, &[&prompt]).as_deref(), Some("PT-01"));
        assert_eq!(of(0, &[&prompt]), None);
        assert_eq!(of(1, &[&other]), None);
        assert_eq!(of(1, &[&from_agent]), None);
        assert_eq!(of(1, &[&prompt, &prompt]), None);
        assert_eq!(of(1, &[]), None);
    }
}
