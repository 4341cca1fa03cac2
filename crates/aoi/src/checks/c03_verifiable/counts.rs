//! Compares the counts of a summary with the stream.

use std::sync::Arc;

use serde_json::Value;

use crate::capture::Capture;
use crate::checks::tally::RuleTally;
use crate::model::CheckId;
use crate::probe::ProbeCommand;
use crate::rules::{Level, Rule, Topic};
use crate::session::Reporter;
use crate::stream::{EventLine, EventStream};

/// What a `count` counts.
#[derive(Debug, PartialEq, Eq)]
enum CountBasis {
    /// Domain events and checks, as in the examples of the spec.
    Results,
    /// Every event, as an SDK does.
    Everything,
    /// Neither of them.
    None,
}

pub(super) static COUNT: Rule = Rule {
    id: "AOI-03.count",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§19",
    requirement: "`count` is the number of results, that is, domain events and checks",
    why: "A caller compares it with what it received, to detect losses.",
    hint: "Count each domain event and aoi:check when it is written. Do not count meta, summary, \
           warnings and errors.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-8.3-13", "AOI-19-01", "AOI-19-03"],
};

pub(super) static COUNT_ALL: Rule = Rule {
    id: "AOI-03.count-all-events",
    check: CheckId::Number(3),
    level: Level::Open,
    section: "§19",
    requirement: "`count` does not include framework events",
    why: "The examples of the spec count results only. A public SDK counts every event, so \
          callers see both.",
    hint: "If an SDK maintains the count, check whether it includes meta and summary.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-19-01"],
};

pub(super) static ERRORS: Rule = Rule {
    id: "AOI-03.error-count",
    check: CheckId::Number(3),
    level: Level::Must,
    section: "§8.3",
    requirement: "`error_count` and `warning_count` match the emitted events. A failed check may \
              count as an error",
    why: "A caller that reads only the summary must see that something went wrong.",
    hint: "Count each aoi:error and aoi:warning when it is written.",
    topic: Topic::Summary,
    requirement_ids: &["AOI-8.3-13", "AOI-19-03"],
};

pub fn check(reporter: Reporter, command: &ProbeCommand, all: &[(&Arc<Capture>, EventStream)]) {
    let (mut count, mut narrow, mut errors) = (
        RuleTally::default(),
        RuleTally::default(),
        RuleTally::default(),
    );
    for (run, stream) in all {
        let Some(summary) = stream.summary() else {
            continue;
        };
        // Streams with other defects are left out, because every count would be wrong.
        if stream.lines.iter().any(|line| line.kind().is_none())
            || stream.of_type("aoi:summary").count() > 1
        {
            continue;
        }
        let at = |what: String| format!("`{}`: {what}", run.probe);
        let reported = summary.get("count").filter(|_| !was_cut_short(stream));
        match (reported, reported.and_then(Value::as_u64)) {
            (None | Some(Value::Null), _) => {}
            (Some(other), None) => count.violation(run, || {
                at(format!(
                    "`count` must be a non-negative integer, found {other}"
                ))
            }),
            (_, Some(reported)) => match count_basis(stream, reported) {
                CountBasis::Results => {
                    count.pass(format!("`count` is {reported}, which matches the results"));
                    narrow.pass("`count` does not include framework events");
                }
                CountBasis::Everything => {
                    count.pass(format!("`count` is {reported}, including framework events"));
                    narrow.violation(run, || {
                        at(format!(
                            "`count` is {reported} and includes framework events; expected {}, \
                             the number of results",
                            results(stream)
                        ))
                    });
                }
                // With input, `count` may be the number of accepted lines.
                CountBasis::None if command.input.is_some() => {}
                CountBasis::None => count.violation(run, || {
                    at(format!(
                        "`count` is {reported}, but the stream has {} results",
                        results(stream)
                    ))
                }),
            },
        }
        match compare_problem_counts(
            stream,
            summary.get("error_count"),
            summary.get("warning_count"),
        ) {
            ProblemCounts::Missing => {}
            ProblemCounts::Match => errors.pass("the counts match the errors and warnings"),
            ProblemCounts::Mismatch(what) => errors.violation(run, || at(what)),
        }
    }
    for (tally, rule) in [(count, &COUNT), (narrow, &COUNT_ALL)] {
        tally.report(reporter, rule, |reporter, rule| {
            reporter.not_applicable(rule, "no summary has a `count`");
        });
    }
    errors.report(reporter, &ERRORS, |reporter, rule| {
        reporter.not_applicable(rule, "no summary counts errors or warnings");
    });
}

/// Whether the run was cut short by its own time limit or by a signal. It may have ended between an
/// event and its count.
fn was_cut_short(stream: &EventStream) -> bool {
    let text = |line: &EventLine, key: &str| line.get(key)?.as_str().map(str::to_owned);
    let is_stop = |error: &EventLine| {
        let category = text(error, "category");
        matches!(category.as_deref(), Some("timeout" | "cancelled"))
    };
    let has_reason = stream
        .summary()
        .is_some_and(|summary| text(summary, "reason").is_some());
    has_reason || stream.errors().any(is_stop)
}

fn number(stream: &EventStream, kind: &str) -> u64 {
    stream.of_type(kind).count() as u64
}

fn results(stream: &EventStream) -> u64 {
    stream.domain().count() as u64 + number(stream, "aoi:check")
}

fn count_basis(stream: &EventStream, reported: u64) -> CountBasis {
    let results = results(stream);
    let plans = number(stream, "aoi:plan");
    if reported == results || reported == results + plans {
        return CountBasis::Results;
    }
    let signs = number(stream, "aoi:progress") + number(stream, "aoi:heartbeat");
    let every = stream.lines.len() as u64;
    let known = [every, every.saturating_sub(1)];
    let known = known
        .iter()
        .flat_map(|all| [*all, all.saturating_sub(signs)]);
    match known.into_iter().any(|all| all == reported) {
        true => CountBasis::Everything,
        false => CountBasis::None,
    }
}

enum ProblemCounts {
    Missing,
    Match,
    Mismatch(String),
}

/// Compares both counts. A failed check may count as an error or as a warning, whatever its
/// severity. A check that is ok may count as a warning if that is its severity.
fn compare_problem_counts(
    stream: &EventStream,
    errors: Option<&Value>,
    warnings: Option<&Value>,
) -> ProblemCounts {
    let is_bad = |line: &&EventLine| line.get("ok") == Some(&Value::Bool(false));
    let warns = |line: &&EventLine| {
        is_bad(line) || line.get("severity").and_then(Value::as_str) == Some("warning")
    };
    let checks = || stream.of_type("aoi:check");
    let failed = checks().filter(is_bad).count() as u64;
    let doubtful = checks().filter(warns).count() as u64;
    let mut result = ProblemCounts::Missing;
    for (name, reported, kind, failed) in [
        ("error_count", errors, "aoi:error", failed),
        ("warning_count", warnings, "aoi:warning", doubtful),
    ] {
        let Some(reported) = reported.filter(|reported| !reported.is_null()) else {
            continue;
        };
        let received = number(stream, kind);
        match reported.as_u64() {
            Some(reported) if (received..=received + failed).contains(&reported) => {
                result = ProblemCounts::Match
            }
            _ => {
                return ProblemCounts::Mismatch(format!(
                    "`{name}` is {reported}, but the stream has {received} {kind} events"
                ));
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(kinds: &[&str]) -> EventStream {
        let lines = kinds
            .iter()
            .map(|kind| format!("{{\"type\":\"{kind}\"}}\n"));
        EventStream::parse(lines.collect::<String>().as_bytes())
    }

    #[test]
    fn count_is_read_in_three_ways() {
        let plain = stream(&[
            "aoi:meta",
            "hit",
            "hit",
            "aoi:warning",
            "aoi:check",
            "aoi:summary",
        ]);
        assert_eq!(count_basis(&plain, 3), CountBasis::Results);
        assert_eq!(count_basis(&plain, 6), CountBasis::Everything);
        assert_eq!(count_basis(&plain, 5), CountBasis::Everything);
        assert_eq!(count_basis(&plain, 4), CountBasis::None);
        assert_eq!(count_basis(&plain, 0), CountBasis::None);
        let planned = stream(&["aoi:meta", "aoi:plan", "aoi:plan", "aoi:summary"]);
        assert_eq!(count_basis(&planned, 0), CountBasis::Results);
        assert_eq!(count_basis(&planned, 2), CountBasis::Results);
    }

    #[test]
    fn a_warning_is_not_an_error() {
        let check = |ok: bool, severity: &str| {
            let line = format!(r#"{{"type":"aoi:check","ok":{ok},"severity":"{severity}"}}"#);
            EventStream::parse(line.as_bytes())
        };
        let fits = |stream: &EventStream, errors: u64, warnings: u64| {
            let (errors, warnings) = (errors.into(), warnings.into());
            let result = compare_problem_counts(stream, Some(&errors), Some(&warnings));
            matches!(result, ProblemCounts::Match)
        };
        let warned = check(true, "warning");
        assert!(fits(&warned, 0, 0) && fits(&warned, 0, 1) && !fits(&warned, 1, 0));
        let failed = check(false, "error");
        assert!(fits(&failed, 1, 0) && fits(&failed, 0, 1) && !fits(&failed, 2, 0));
    }

    #[test]
    fn a_truncated_stream_has_no_summary() {
        let whole = "{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";
        assert_eq!(EventStream::parse(whole.as_bytes()).ok(), Some(true));
        for cut in 1..whole.len() - 2 {
            assert_eq!(
                EventStream::parse(&whole.as_bytes()[..cut]).ok(),
                None,
                "{cut}"
            );
        }
    }
}
