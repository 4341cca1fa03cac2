//! Compares the counts of a summary with the stream.

use std::sync::Arc;

use serde_json::Value;

use crate::capture::Capture;
use crate::checks::tally::Tally;
use crate::model::Check;
use crate::probe::Command;
use crate::rules::{Level, Rule, Topic};
use crate::session::Judge;
use crate::stream::Stream;

/// What a `count` counts.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// Domain events and checks, as in the examples of the spec.
    Results,
    /// Every event, as an SDK does.
    Everything,
    /// Neither of them.
    None,
}

pub(super) static COUNT: Rule = Rule {
    id: "AOI-03.count",
    check: Check::Number(3),
    level: Level::Must,
    section: "§19",
    demands: "`count` is the number of results, that is, domain events and checks",
    why: "A caller compares it with what it received, to detect losses.",
    hint: "Count each domain event and aoi:check when it is written. Do not count meta, summary, \
           warnings and errors.",
    topic: Topic::Summary,
    register: &["AOI-8.3-13", "AOI-19-01", "AOI-19-03"],
};

pub(super) static COUNT_ALL: Rule = Rule {
    id: "AOI-03.count-all-events",
    check: Check::Number(3),
    level: Level::Open,
    section: "§19",
    demands: "`count` does not include framework events",
    why: "The examples of the spec count results only. A public SDK counts every event, so \
          callers see both.",
    hint: "If an SDK maintains the count, check whether it includes meta and summary.",
    topic: Topic::Summary,
    register: &["AOI-19-01"],
};

pub(super) static ERRORS: Rule = Rule {
    id: "AOI-03.error-count",
    check: Check::Number(3),
    level: Level::Must,
    section: "§8.3",
    demands: "`error_count` and `warning_count` match the emitted events. A failed check may \
              count as an error",
    why: "A caller that reads only the summary must see that something went wrong.",
    hint: "Count each aoi:error and aoi:warning when it is written.",
    topic: Topic::Summary,
    register: &["AOI-8.3-13", "AOI-19-03"],
};

pub fn judge(judge: Judge, command: &Command, all: &[(&Arc<Capture>, Stream)]) {
    let (mut count, mut narrow, mut errors) =
        (Tally::default(), Tally::default(), Tally::default());
    for (run, stream) in all {
        let Some(summary) = stream.summary() else {
            continue;
        };
        // Streams with other defects are left out, because every count would be wrong.
        if stream.lines.iter().any(|line| line.kind().is_none())
            || stream.of("aoi:summary").count() > 1
        {
            continue;
        }
        let at = |what: String| format!("`{}`: {what}", run.probe);
        match (
            summary.get("count"),
            summary.get("count").and_then(Value::as_u64),
        ) {
            (None | Some(Value::Null), _) => {}
            (Some(other), None) => count.wrong(run, || {
                at(format!(
                    "`count` must be a non-negative integer, found {other}"
                ))
            }),
            (_, Some(said)) => match reading(stream, said) {
                Reading::Results => {
                    count.held(format!("`count` is {said}, which matches the results"));
                    narrow.held("`count` does not include framework events");
                }
                Reading::Everything => {
                    count.held(format!("`count` is {said}, including framework events"));
                    narrow.wrong(run, || {
                        at(format!(
                            "`count` is {said} and includes framework events; expected {}, \
                             the number of results",
                            results(stream)
                        ))
                    });
                }
                // With input, `count` may be the number of accepted lines.
                Reading::None if command.input.is_some() => {}
                Reading::None => count.wrong(run, || {
                    at(format!(
                        "`count` is {said}, but the stream has {} results",
                        results(stream)
                    ))
                }),
            },
        }
        match problems(
            stream,
            summary.get("error_count"),
            summary.get("warning_count"),
        ) {
            Problems::Unsaid => {}
            Problems::Fit => errors.held("the counts match the errors and warnings"),
            Problems::Wrong(what) => errors.wrong(run, || at(what)),
        }
    }
    for (tally, rule) in [(count, &COUNT), (narrow, &COUNT_ALL)] {
        tally.settle(judge, rule, |judge, rule| {
            judge.not_applicable(rule, "no summary has a `count`");
        });
    }
    errors.settle(judge, &ERRORS, |judge, rule| {
        judge.not_applicable(rule, "no summary counts errors or warnings");
    });
}

fn number(stream: &Stream, kind: &str) -> u64 {
    stream.of(kind).count() as u64
}

fn results(stream: &Stream) -> u64 {
    stream.domain().count() as u64 + number(stream, "aoi:check")
}

fn reading(stream: &Stream, said: u64) -> Reading {
    let results = results(stream);
    let plans = number(stream, "aoi:plan");
    if said == results || said == results + plans {
        return Reading::Results;
    }
    let signs = number(stream, "aoi:progress") + number(stream, "aoi:heartbeat");
    let every = stream.lines.len() as u64;
    let known = [every, every.saturating_sub(1)];
    let known = known
        .iter()
        .flat_map(|all| [*all, all.saturating_sub(signs)]);
    match known.into_iter().any(|all| all == said) {
        true => Reading::Everything,
        false => Reading::None,
    }
}

enum Problems {
    Unsaid,
    Fit,
    Wrong(String),
}

/// Compares both counts. A failed check may count as an error or as a warning, whatever its
/// severity.
fn problems(stream: &Stream, errors: Option<&Value>, warnings: Option<&Value>) -> Problems {
    let failed = stream.of("aoi:check").filter(|line| {
        let is_bad = line.get("ok") == Some(&Value::Bool(false));
        is_bad || line.get("severity").and_then(Value::as_str) == Some("warning")
    });
    let failed = failed.count() as u64;
    let mut seen = Problems::Unsaid;
    for (name, said, kind) in [
        ("error_count", errors, "aoi:error"),
        ("warning_count", warnings, "aoi:warning"),
    ] {
        let Some(said) = said.filter(|said| !said.is_null()) else {
            continue;
        };
        let came = number(stream, kind);
        match said.as_u64() {
            Some(said) if (came..=came + failed).contains(&said) => seen = Problems::Fit,
            _ => {
                return Problems::Wrong(format!(
                    "`{name}` is {said}, but the stream has {came} {kind} events"
                ));
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(kinds: &[&str]) -> Stream {
        let lines = kinds
            .iter()
            .map(|kind| format!("{{\"type\":\"{kind}\"}}\n"));
        Stream::read(lines.collect::<String>().as_bytes())
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
        assert_eq!(reading(&plain, 3), Reading::Results);
        assert_eq!(reading(&plain, 6), Reading::Everything);
        assert_eq!(reading(&plain, 5), Reading::Everything);
        assert_eq!(reading(&plain, 4), Reading::None);
        assert_eq!(reading(&plain, 0), Reading::None);
        let planned = stream(&["aoi:meta", "aoi:plan", "aoi:plan", "aoi:summary"]);
        assert_eq!(reading(&planned, 0), Reading::Results);
        assert_eq!(reading(&planned, 2), Reading::Results);
    }

    #[test]
    fn a_truncated_stream_has_no_summary() {
        let whole = "{\"type\":\"aoi:meta\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";
        assert_eq!(Stream::read(whole.as_bytes()).ok(), Some(true));
        for cut in 1..whole.len() - 2 {
            assert_eq!(Stream::read(&whole.as_bytes()[..cut]).ok(), None, "{cut}");
        }
    }
}
