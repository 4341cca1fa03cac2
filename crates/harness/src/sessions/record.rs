//! Checks the session record, member by member (AIP-46, Session data model).

use std::path::Path;

pub use agentproto_text::strict_json::type_name as kind;
use agentproto_text::time;
use serde_json::Value;

/// What is wrong with a member: a violation, or only a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordProblem {
    Violation(String),
    Warning(String),
}

/// What the probe already knows about the session.
#[derive(Clone, Debug, Default)]
pub struct ExpectedRecord<'a> {
    pub adapter: Option<&'a str>,
    pub label: Option<&'a str>,
    /// Time range of the start in seconds since 1970. Only set if the host uses the same clock.
    pub between: Option<(f64, f64)>,
}

/// A member, and the requirement for it.
pub struct RecordMember {
    pub name: &'static str,
    pub requirement: &'static str,
    /// Whether it must be the same in every response.
    pub is_constant: bool,
}

const fn member(name: &'static str, requirement: &'static str, is_constant: bool) -> RecordMember {
    RecordMember {
        name,
        requirement,
        is_constant,
    }
}

pub const MEMBERS: [RecordMember; 10] = [
    member("id", "A46-MODEL-01", true),
    member("adapterSlug", "A46-MODEL-02", true),
    member("workspaceSlug", "A46-MODEL-03", true),
    member("cwd", "A46-MODEL-04", true),
    member("status", "A46-MODEL-05", false),
    member("startedAt", "A46-MODEL-06", true),
    member("endedAt", "A46-MODEL-07", false),
    member("lastOutputAt", "A46-MODEL-08", false),
    member("exitCode", "A46-MODEL-09", false),
    member("label", "A46-MODEL-10", true),
];

pub const STATUSES: [&str; 5] = ["starting", "running", "exited", "killed", "error"];

pub fn is_alive(status: &str) -> bool {
    matches!(status, "starting" | "running")
}

/// Whether a status may be observed after another, possibly with others in between.
pub fn may_follow(before: &str, after: &str) -> bool {
    match before {
        _ if before == after => true,
        "starting" => true,
        "running" => after != "starting",
        _ => false,
    }
}

/// What is wrong with one member of a record.
pub fn problem(name: &str, record: &Value, known: &ExpectedRecord<'_>) -> Option<RecordProblem> {
    let wrong = |why: String| Some(RecordProblem::Violation(why));
    let value = record.get(name);
    if matches!(name, "endedAt" | "lastOutputAt" | "exitCode" | "label") {
        return optional(name, value, record, known);
    }
    let Some(value) = value else {
        return wrong(format!("`{name}` is missing"));
    };
    let Some(text) = value.as_str() else {
        return wrong(format!("`{name}` is {}, not a string", kind(value)));
    };
    if text.is_empty() {
        return wrong(format!("`{name}` is empty"));
    }
    match name {
        "adapterSlug" => match known.adapter {
            Some(asked) if asked != text => wrong(format!(
                "`adapterSlug` is `{text}`, but `{asked}` was requested"
            )),
            _ => None,
        },
        "cwd" if !is_absolute(text) => {
            wrong(format!("`cwd` is `{text}`, which is not an absolute path"))
        }
        "status" if !STATUSES.contains(&text) => wrong(format!(
            "`status` is `{text}`, which is not one of the five statuses"
        )),
        "startedAt" => started(text, known),
        _ => None,
    }
}

fn started(text: &str, known: &ExpectedRecord<'_>) -> Option<RecordProblem> {
    let Some(at) = time::parse_time(text) else {
        return Some(RecordProblem::Violation(format!(
            "`startedAt` is `{text}`, which is not ISO 8601"
        )));
    };
    let (from, to) = known.between?;
    // Allow for clocks with a resolution of one second.
    let is_then = (from - 2.0..=to + 2.0).contains(&at);
    (!is_then).then(|| {
        RecordProblem::Violation(format!(
            "`startedAt` is `{text}`, which is not the time of the start"
        ))
    })
}

fn optional(
    name: &str,
    value: Option<&Value>,
    record: &Value,
    known: &ExpectedRecord<'_>,
) -> Option<RecordProblem> {
    let wrong = |why: String| Some(RecordProblem::Violation(why));
    let status = record["status"].as_str().unwrap_or_default();
    let is_over = STATUSES.contains(&status) && !is_alive(status);
    let Some(value) = value.filter(|value| !value.is_null()) else {
        let is_null = value.is_some();
        return match name {
            "endedAt" if is_over => wrong(format!(
                "`endedAt` is missing, but the session is `{status}`"
            )),
            "label" if known.label.is_some() => wrong("`label` is missing".to_owned()),
            _ if is_null => Some(RecordProblem::Warning(format!(
                "`{name}` is null; leave it out instead"
            ))),
            _ => None,
        };
    };
    match name {
        "exitCode" => match value.as_i64() {
            None => wrong(format!("`exitCode` is {value}, not an integer")),
            Some(code) if is_alive(status) && code != -1 => wrong(format!(
                "`exitCode` is {code}, but the session is `{status}`"
            )),
            Some(_) => None,
        },
        "label" if !value.is_string() => wrong(format!("`label` is {}, not a string", kind(value))),
        "label" => None,
        _ => time(name, value, record, status),
    }
}

fn time(name: &str, value: &Value, record: &Value, status: &str) -> Option<RecordProblem> {
    let wrong = |why: String| Some(RecordProblem::Violation(why));
    let Some(text) = value.as_str() else {
        return wrong(format!("`{name}` is {}, not a string", kind(value)));
    };
    let Some(at) = time::parse_time(text) else {
        return wrong(format!("`{name}` is `{text}`, which is not ISO 8601"));
    };
    if name == "endedAt" && is_alive(status) {
        return wrong(format!("`endedAt` is set, but the session is `{status}`"));
    }
    let started = record["startedAt"].as_str();
    match started.and_then(time::parse_time) {
        // Allow for clocks with a resolution of one second.
        Some(started) if at + 1.0 < started => {
            wrong(format!("`{name}` is `{text}`, which is before `startedAt`"))
        }
        _ => None,
    }
}

/// Members that the spec does not define.
pub fn added(record: &Value) -> Vec<&str> {
    let members = record.as_object().into_iter().flatten();
    let names = members.map(|(name, _)| name.as_str());
    names
        .filter(|name| !MEMBERS.iter().any(|member| member.name == *name))
        .collect()
}

/// All violations in a whole record.
pub fn problems(record: &Value, known: &ExpectedRecord<'_>) -> Vec<String> {
    let all = MEMBERS
        .iter()
        .filter_map(|m| problem(m.name, record, known));
    all.filter_map(|problem| match problem {
        RecordProblem::Violation(why) => Some(why),
        RecordProblem::Warning(_) => None,
    })
    .collect()
}

fn is_absolute(path: &str) -> bool {
    let mut bytes = path.bytes();
    let is_drive = bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.next() == Some(b':')
        && matches!(bytes.next(), Some(b'\\' | b'/'));
    path.starts_with('/') || path.starts_with("\\\\") || is_drive
}

/// Whether two paths refer to the same place, as far as this machine can tell.
pub fn same_place(a: &str, b: &str) -> bool {
    let bare = |path: &str| path.trim_end_matches('/').to_owned();
    let real = |path: &str| Path::new(path).canonicalize().ok();
    bare(a) == bare(b) || real(a).is_some_and(|a| real(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "id": "s1", "adapterSlug": "x", "workspaceSlug": "default", "cwd": "/w",
            "status": "running", "startedAt": "2026-05-10T15:31:56.664Z",
        })
    }

    // A46-MODEL-01 to 10.
    #[test]
    fn invalid_members_are_found() {
        let known = ExpectedRecord {
            adapter: Some("x"),
            ..ExpectedRecord::default()
        };
        assert_eq!(problems(&good(), &known), Vec::<String>::new());
        for (name, value) in [
            ("id", json!(5)),
            ("id", json!("")),
            ("adapterSlug", json!("y")),
            ("workspaceSlug", Value::Null),
            ("cwd", json!("w/x")),
            ("status", json!("idle")),
            ("startedAt", json!(1_778_000_000)),
            ("startedAt", json!("yesterday")),
            ("endedAt", json!("2026-05-10T15:31:57Z")),
            ("lastOutputAt", json!("2026-05-10T15:31:50Z")),
            ("lastOutputAt", json!(true)),
            ("exitCode", json!(0)),
            ("exitCode", json!("0")),
            ("label", json!(["a"])),
        ] {
            let mut record = good();
            record[name] = value.clone();
            let found = problem(name, &record, &known);
            assert!(
                matches!(found, Some(RecordProblem::Violation(_))),
                "{name} {value}: {found:?}"
            );
        }
        let mut ended = good();
        ended["status"] = json!("killed");
        assert!(matches!(
            problem("endedAt", &ended, &known),
            Some(RecordProblem::Violation(_))
        ));
        ended["endedAt"] = json!("2026-05-10T17:31:57+02:00");
        ended["exitCode"] = json!(137);
        assert_eq!(problems(&ended, &known), Vec::<String>::new());
        let mut odd = good();
        odd["endedAt"] = Value::Null;
        odd["exitCode"] = json!(-1);
        assert!(matches!(
            problem("endedAt", &odd, &known),
            Some(RecordProblem::Warning(_))
        ));
        assert_eq!(problems(&odd, &known), Vec::<String>::new());
        odd["pid"] = Value::Null;
        assert_eq!(added(&odd), ["pid"]);
    }

    // A46-STATUS-09.
    #[test]
    fn final_statuses_do_not_change() {
        for (before, after, may) in [
            ("starting", "killed", true),
            ("running", "running", true),
            ("running", "starting", false),
            ("killed", "exited", false),
            ("exited", "running", false),
            ("error", "error", true),
        ] {
            assert_eq!(may_follow(before, after), may, "{before} {after}");
        }
    }

    #[test]
    fn paths_are_compared_without_trailing_slashes() {
        assert!(is_absolute("/a") && is_absolute("C:\\a") && is_absolute("\\\\host\\a"));
        assert!(!is_absolute("a/b") && !is_absolute("C:a") && !is_absolute("~/a"));
        assert!(same_place("/no/such/", "/no/such"));
        assert!(!same_place("/no/such", "/no/other"));
    }
}
