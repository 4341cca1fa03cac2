//! Rules about the events of any run.

use std::sync::Arc;

use serde_json::Value;

use crate::capture::{Capture, ExitKind};
use crate::checks::c10_pipes::WATCHED;
use crate::checks::tally::RuleTally;
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::run::ReadMode;
use crate::session::LintSession;
use crate::stream::{EventLine, EventStream};

pub(super) static TIMESTAMP: Rule = Rule {
    id: "AOI-adv.timestamp",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§8.1",
    requirement: "A `timestamp` is in ISO 8601 format",
    why: "Other formats are ambiguous.",
    hint: "Use the format 2026-01-31T12:00:00Z.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.1-07"],
};

pub(super) static TRACE_ID: Rule = Rule {
    id: "AOI-adv.trace-id",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§8.1",
    requirement: "All events of one run that have a `trace_id` have the same one",
    why: "The id links the events of one run.",
    hint: "Create it once, at the start of the run.",
    topic: Topic::Json,
    requirement_ids: &["AOI-8.1-08"],
};

pub(super) static EXIT: Rule = Rule {
    id: "AOI-adv.exit-category",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§6",
    requirement: "The exit code matches the category of the error, according to sysexits",
    why: "A shell script sees only the exit code.",
    hint: "Use 64 for usage, 65 for validation, 70 for internal, 74 for io, 77 for authz, 78 for \
           config, and 75 or 124 for timeout.",
    topic: Topic::Errors,
    requirement_ids: &[
        "AOI-6-03", "AOI-6-04", "AOI-6-05", "AOI-6-06", "AOI-6-07", "AOI-6-08", "AOI-6-09",
        "AOI-6-10", "AOI-6-11", "AOI-6-12",
    ],
};

pub(super) static RETRY: Rule = Rule {
    id: "AOI-adv.retry-hint",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§9.1",
    requirement: "An aoi:error of category rate_limited says when to retry",
    why: "Otherwise a caller guesses, and is throttled again.",
    hint: "Add retry_after_ms, from the header of the service if it sends one.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-9.1-08"],
};

pub(super) static HIT: Rule = Rule {
    id: "AOI-adv.hit-fields",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§8.3",
    requirement: "A `hit` has an id, path or URL, a rank or score, and a snippet or text. A `match` \
              has a path, a line number and its text",
    why: "A result that cannot be looked up or compared has to be searched for again.",
    hint: "Add the missing field. A `hit` needs `id`, `path` or `url`, `rank` or `score`, and \
           `snippet` or `text`. A `match` needs `path`, `line_number` and `text`.",
    topic: Topic::Ids,
    requirement_ids: &["AOI-8.3-04", "AOI-8.3-05"],
};

pub fn evaluate(session: &LintSession) {
    let captures = session.captures();
    let [mut timestamp, mut trace, mut exit, mut retry, mut hit] =
        std::array::from_fn::<RuleTally, 5, _>(|_| RuleTally::default());
    let read = captures
        .iter()
        .filter(|run| run.is_machine && run.was_read());
    for run in read {
        let stream = EventStream::parse(&run.stdout);
        for line in &stream.lines {
            timestamps(run, line, &mut timestamp);
            // Older versions may use other field names.
            if run.version.is_none() {
                hits(run, line, &mut hit);
            }
            retries(run, line, &mut retry);
        }
        traces(run, &stream, &mut trace);
        exits(run, &stream, &mut exit);
    }
    let reporter = session.reporter(TOOL);
    for (tally, rule, none) in [
        (timestamp, &TIMESTAMP, "no event has a timestamp"),
        (trace, &TRACE_ID, "no run has two events with a trace_id"),
        (
            exit,
            &EXIT,
            "no run failed with a single error of such a category",
        ),
        (retry, &RETRY, "no error was of category rate_limited"),
        (hit, &HIT, "no run printed hits or matches"),
    ] {
        tally.report(reporter, rule, |reporter, rule| {
            reporter.not_applicable(rule, none)
        });
    }
    heartbeats(session, &captures);
}

fn timestamps(run: &Arc<Capture>, line: &EventLine, tally: &mut RuleTally) {
    let Some(value) = line.get("timestamp") else {
        return;
    };
    let fits = value.as_str().is_some_and(is_iso_8601);
    let violation = (!fits).then(|| {
        format!(
            "`{}`, line {}: {value} is not in ISO 8601 format",
            run.probe, line.number
        )
    });
    tally.record(run, violation, "every timestamp is in ISO 8601 format");
}

/// A date, or a date and time: 2026-01-31, 2026-01-31T12:00:00.5+01:00, 20260131T120000Z.
fn is_iso_8601(text: &str) -> bool {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let digits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = date.split('-').collect();
    let dated = match parts.as_slice() {
        [whole] => digits(whole, 8),
        [year, month, day] => {
            let run_mutation = |text: &str, most: u8| {
                digits(text, 2) && text.parse().is_ok_and(|n: u8| (1..=most).contains(&n))
            };
            digits(year, 4) && run_mutation(month, 12) && run_mutation(day, 31)
        }
        _ => false,
    };
    dated && time.is_none_or(is_time)
}

fn is_time(text: &str) -> bool {
    let zone = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone);
    let whole = clock.split(['.', ',']).next().unwrap_or_default();
    let shaped = |text: &str| {
        let plain: String = text.chars().filter(|c| *c != ':').collect();
        matches!(plain.len(), 2 | 4 | 6) && plain.bytes().all(|byte| byte.is_ascii_digit())
    };
    let fraction = clock.get(whole.len()..).unwrap_or_default();
    let in_numbers = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let zoned = match zone {
        "" | "Z" | "z" => true,
        other => other.get(1..).is_some_and(shaped),
    };
    shaped(whole) && fraction.get(1..).is_none_or(in_numbers) && zoned
}

fn traces(run: &Arc<Capture>, stream: &EventStream, tally: &mut RuleTally) {
    let ids: Vec<&Value> = stream
        .lines
        .iter()
        .filter_map(|line| line.get("trace_id"))
        .collect();
    let Some((first, rest)) = ids.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return;
    };
    let other = rest.iter().find(|id| *id != first);
    let violation =
        other.map(|other| format!("`{}`: different trace ids {first} and {other}", run.probe));
    tally.record(run, violation, "the run has one trace_id");
}

/// The exit codes of `sysexits` for a category, if the spec names them.
fn statuses(category: &str) -> &'static [i32] {
    match category {
        "usage" => &[64],
        "validation" => &[65],
        "internal" => &[70],
        "io" => &[73, 74],
        "authz" => &[77],
        "config" => &[78],
        "timeout" => &[75, 124],
        "temporary" | "rate_limited" => &[69, 75],
        _ => &[],
    }
}

fn exits(run: &Arc<Capture>, stream: &EventStream, tally: &mut RuleTally) {
    let errors: Vec<&EventLine> = stream.errors().collect();
    let ([error], ExitKind::Code(code)) = (errors.as_slice(), run.end) else {
        return;
    };
    let category = error.get("category").and_then(Value::as_str);
    let fitting = category.map(statuses).unwrap_or_default();
    if fitting.is_empty() || code == 0 || run.is_incomplete() {
        return;
    }
    let violation = (!fitting.contains(&code)).then(|| {
        let category = category.unwrap_or_default();
        format!("`{}`: exit {code} for category {category}", run.probe)
    });
    tally.record(run, violation, "the exit code matches the category");
}

fn retries(run: &Arc<Capture>, line: &EventLine, tally: &mut RuleTally) {
    let is_one = line.kind() == Some("aoi:error")
        && line.get("category").and_then(Value::as_str) == Some("rate_limited");
    if !is_one {
        return;
    }
    let fields = line.json.as_ref().and_then(Value::as_object);
    let has_retry_field =
        fields.is_some_and(|fields| fields.keys().any(|name| name.contains("retry_")));
    let hinted = line.get("hint").is_some_and(Value::is_string);
    let violation = (!has_retry_field && !hinted).then(|| {
        format!(
            "`{}`: the error has neither retry_after_ms nor a hint",
            run.probe
        )
    });
    tally.record(run, violation, "the error says when to retry");
}

fn hits(run: &Arc<Capture>, line: &EventLine, tally: &mut RuleTally) {
    let groups: &[&[&str]] = match line.kind() {
        Some("hit") => &[
            &["id", "path", "url"],
            &["rank", "score"],
            &["snippet", "text"],
        ],
        Some("match") => &[&["path"], &["line_number"], &["text"]],
        _ => return,
    };
    let lacks = |names: &&&[&str]| !names.iter().any(|name| line.get(name).is_some());
    let violation = groups.iter().find(lacks).map(|names| {
        let kind = line.kind().unwrap_or_default();
        format!(
            "`{}`: `{kind}` has no `{}`",
            run.probe,
            names.join("` or `")
        )
    });
    tally.record(run, violation, "results have the required fields");
}

pub(super) static HEARTBEAT: Rule = Rule {
    id: "AOI-adv.heartbeat",
    check: CheckId::Advisory,
    level: Level::Open,
    section: "§4.2",
    requirement: "An unbounded stream that declares the interval of its heartbeats \
                  (`heartbeat_interval_ms`) keeps it",
    why: "A caller that waits for one assumes that the stream is dead. The spec leaves heartbeats \
          and their interval to the tool.",
    hint: "Emit heartbeats at the declared interval, or declare the real one.",
    topic: Topic::Signals,
    requirement_ids: &["AOI-4.2-02", "AOI-8.3-09"],
};

fn heartbeats(session: &LintSession, captures: &[Arc<Capture>]) {
    for command in session.commands().iter().filter(|c| c.unbounded) {
        let reporter = session.reporter(&command.name);
        let entry = session
            .declared
            .get()
            .and_then(|declared| declared.command(&command.name));
        let kinds = entry.and_then(|entry| entry.get("event_types")?.as_array());
        let is_declared =
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "aoi:heartbeat"));
        let interval = entry.and_then(|entry| entry.get("heartbeat_interval_ms")?.as_u64());
        if !is_declared && interval.is_none() {
            reporter.not_applicable(&HEARTBEAT, "the command does not declare aoi:heartbeat");
            continue;
        }
        // The last run counts, because the command is watched again if it printed nothing at first.
        let watched = captures
            .iter()
            .rfind(|run| run.command == command.name && is_watched(run));
        let Some(run) = watched else {
            reporter.not_verified(&HEARTBEAT, "the command was not watched for two seconds");
            continue;
        };
        let count = EventStream::parse(&run.stdout)
            .of_type("aoi:heartbeat")
            .count();
        match interval {
            _ if count > 0 => {
                let proof = format!("{count} heartbeats within two seconds");
                reporter.pass(&HEARTBEAT, proof);
            }
            None => reporter.not_applicable(
                &HEARTBEAT,
                "heartbeats are optional, and the command does not declare their interval",
            ),
            Some(ms) if u128::from(ms) >= WATCHED.as_millis() => {
                let why = format!("the declared interval of {ms} ms is longer than the test");
                reporter.not_verified(&HEARTBEAT, why);
            }
            Some(ms) => {
                let message =
                    format!("no heartbeat within two seconds; the declared interval is {ms} ms");
                reporter.violation(&HEARTBEAT, message, run);
            }
        }
    }
}

fn is_watched(run: &Capture) -> bool {
    matches!(run.reader, ReadMode::Watch { .. }) && run.action_done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_8601_dates_are_recognized() {
        for good in [
            "2026-01-31",
            "2026-01-31T12:00:00Z",
            "2026-01-31T12:00:00.123+01:00",
            "20260131T120000Z",
            "2026-01-31T12:00",
            "2026-01-31t12:00:00,5z",
        ] {
            assert!(is_iso_8601(good), "{good}");
        }
        for bad in [
            "last Tuesday",
            "31.01.2026",
            "1738324800",
            "2026-13-01",
            "2026-01-31Tnoon",
            "2026-01-31T12:00:00 CET",
            "",
            "Tue, 31 Jan 2026 12:00:00 GMT",
        ] {
            assert!(!is_iso_8601(bad), "{bad}");
        }
    }
}
