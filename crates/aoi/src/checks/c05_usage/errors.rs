//! Checks the aoi:error events of every run.

use std::sync::Arc;

use serde_json::Value;

use crate::capture::{Capture, ExitKind};
use crate::checks::tally::RuleTally;
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::session::Reporter;
use crate::stream::{EventLine, EventStream};

/// The categories, and their `retryable`. `None` if it depends.
const CATEGORIES: [(&str, Option<bool>); 14] = [
    ("usage", Some(false)),
    ("validation", Some(false)),
    ("authn", None),
    ("authz", Some(false)),
    ("not_found", Some(false)),
    ("conflict", None),
    ("rate_limited", Some(true)),
    ("temporary", Some(true)),
    ("timeout", Some(true)),
    ("cancelled", None),
    ("partial", None),
    ("internal", None),
    ("config", Some(false)),
    ("io", None),
];

pub(super) static FIELDS: Rule = Rule {
    id: "AOI-05.error-fields",
    check: CheckId::Number(5),
    level: Level::Must,
    section: "§9",
    requirement: "Every aoi:error has the strings category, code and message, and the boolean \
              retryable",
    why: "A caller uses them to decide whether to retry, to ask a human or to give up.",
    hint: "Create every aoi:error with one function that requires all four fields.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-8.3-11", "AOI-9-03", "AOI-18.2-05"],
};

pub(super) static CATEGORY: Rule = Rule {
    id: "AOI-05.category-unknown",
    check: CheckId::Number(5),
    level: Level::Should,
    section: "§9.1",
    requirement: "The category of an error is one of the 14 in the spec",
    why: "Callers branch on the category, and do not know your own.",
    hint: "Map your own codes to usage, validation, authn, authz, not_found, conflict, \
           rate_limited, temporary, timeout, cancelled, partial, internal, config or io.",
    topic: Topic::Errors,
    requirement_ids: &[
        "AOI-9-02",
        "AOI-9.1-01",
        "AOI-9.1-02",
        "AOI-9.1-03",
        "AOI-9.1-04",
        "AOI-9.1-05",
        "AOI-9.1-06",
        "AOI-9.1-07",
        "AOI-9.1-09",
        "AOI-9.1-10",
        "AOI-9.1-11",
        "AOI-9.1-12",
        "AOI-9.1-13",
        "AOI-9.1-14",
        "AOI-9.1-15",
    ],
};

/// Words in a code that name a cause, and the categories of that cause.
const CAUSES: [(&[&str], &[&str]); 7] = [
    (
        &["NOT_FOUND", "NO_SUCH", "DOES_NOT_EXIST"],
        &["not_found", "usage", "validation", "config", "io"],
    ),
    (
        &[
            "UNKNOWN_FLAG",
            "UNKNOWN_OPTION",
            "UNKNOWN_COMMAND",
            "MISSING_OPERAND",
        ],
        &["usage", "validation"],
    ),
    (
        &["TIMED_OUT", "DEADLINE_EXCEEDED"],
        &["timeout", "temporary"],
    ),
    (
        &["RATE_LIMIT", "TOO_MANY_REQUESTS", "THROTTLED"],
        &["rate_limited", "temporary"],
    ),
    (
        &["UNAUTHENTICATED", "LOGIN_REQUIRED", "NOT_LOGGED_IN"],
        &["authn", "authz", "config"],
    ),
    (
        &["FORBIDDEN", "PERMISSION_DENIED", "ACCESS_DENIED"],
        &["authz", "authn", "io"],
    ),
    (
        &["CONFLICT", "ALREADY_EXISTS"],
        &["conflict", "validation", "usage", "io"],
    ),
];

/// The categories that fit a code whose words name a cause.
fn fitting_categories(code: &str) -> Option<&'static [&'static str]> {
    let names = |words: &[&str]| words.iter().any(|word| code.contains(word));
    let cause = CAUSES.iter().find(|(words, _)| names(words));
    cause.map(|(_, categories)| *categories)
}

pub(super) static CATEGORY_CODE: Rule = Rule {
    id: "AOI-05.category-code",
    check: CheckId::Number(5),
    level: Level::Open,
    section: "§9",
    requirement: "The category of an error fits its code, if the code names a common cause",
    why: "Callers branch on the category first, and read the code only to know more.",
    hint: "Choose the category of the cause: not_found for a code such as NO_SUCH_ITEM, timeout for \
           TIMED_OUT, authz for PERMISSION_DENIED.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-9-02", "AOI-9.1-05"],
};

pub(super) static CODE: Rule = Rule {
    id: "AOI-05.code-form",
    check: CheckId::Number(5),
    level: Level::Should,
    section: "§9.1",
    requirement: "The code of an error is in UPPER_SNAKE_CASE",
    why: "Codes are compared as strings, so they need one form.",
    hint: "Use codes such as FILE_NOT_FOUND.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-9.1-16"],
};

pub(super) static RETRY: Rule = Rule {
    id: "AOI-05.retryable-contradicts",
    check: CheckId::Number(5),
    level: Level::Should,
    section: "§9.1",
    requirement: "`retryable` agrees with the category",
    why: "A caller that retries a usage error retries it forever.",
    hint: "Use false for usage, validation, authz, not_found and config, and true for \
           rate_limited, temporary and timeout.",
    topic: Topic::Errors,
    requirement_ids: &[
        "AOI-9.1-01",
        "AOI-9.1-02",
        "AOI-9.1-04",
        "AOI-9.1-05",
        "AOI-9.1-07",
        "AOI-9.1-09",
        "AOI-9.1-10",
        "AOI-9.1-14",
    ],
};

pub(super) static STRUCTURED: Rule = Rule {
    id: "AOI-05.unstructured",
    check: CheckId::Number(5),
    level: Level::Should,
    section: "§2",
    requirement: "A failure after the start of the stream is reported in an aoi:error",
    why: "An exit code alone does not tell what is wrong.",
    hint: "Write an aoi:error before the summary of a failure.",
    topic: Topic::Errors,
    requirement_ids: &["AOI-2-12"],
};

pub fn check(reporter: Reporter, runs: &[&Arc<Capture>]) {
    let [
        mut fields,
        mut category,
        mut code,
        mut fit,
        mut retry,
        mut structured,
    ] = std::array::from_fn::<RuleTally, 6, _>(|_| RuleTally::default());
    for run in runs.iter().filter(|run| run.is_machine) {
        let stream = EventStream::parse(&run.stdout);
        for error in stream.errors() {
            let at = |what: String| format!("`{}`, line {}: {what}", run.probe, error.number);
            fields.record(
                run,
                missing(error).map(at),
                "every aoi:error has its four fields",
            );
            if let Some(value) = text(error, "category") {
                let known = CATEGORIES.iter().find(|(name, _)| *name == value);
                let violation = known
                    .is_none()
                    .then(|| at(format!("unknown category {value:?}")));
                category.record(run, violation, "known category");
                let expected = known.and_then(|(_, retryable)| *retryable);
                let retryable = error.get("retryable").and_then(Value::as_bool);
                if let (Some(expected), Some(retryable)) = (expected, retryable) {
                    let violation = (retryable != expected).then(|| {
                        at(format!(
                            "`retryable` is {retryable} for category {value:?}; expected {expected}"
                        ))
                    });
                    retry.record(run, violation, "`retryable` agrees with the category");
                }
            }
            if let Some(value) = text(error, "code") {
                let violation = (!is_upper_snake(value))
                    .then(|| at(format!("the code {value:?} is not in UPPER_SNAKE_CASE")));
                code.record(run, violation, "the code is in UPPER_SNAKE_CASE");
                let category = text(error, "category").unwrap_or_default();
                if let Some(fitting) = fitting_categories(value) {
                    let violation = (!fitting.contains(&category)).then(|| {
                        at(format!(
                            "category {category:?} does not fit the code {value:?}; expected {}",
                            fitting.first().unwrap_or(&"another one")
                        ))
                    });
                    fit.record(run, violation, "the category fits the code");
                }
            }
        }
        let failed =
            matches!(run.end, ExitKind::Code(1..)) && !run.is_incomplete() && run.was_read();
        if failed && stream.meta().is_some() {
            let bad_check = stream
                .of_type("aoi:check")
                .any(|line| line.get("ok") == Some(&false.into()));
            let is_reported = stream.errors().next().is_some() || bad_check;
            let violation = (!is_reported).then(|| {
                format!(
                    "`{}`: {} without an aoi:error that says why",
                    run.probe,
                    run.end.describe()
                )
            });
            structured.record(run, violation, "the failure has an aoi:error");
        }
    }
    for (tally, rule) in [
        (fields, &FIELDS),
        (category, &CATEGORY),
        (code, &CODE),
        (fit, &CATEGORY_CODE),
        (retry, &RETRY),
    ] {
        tally.report(reporter, rule, |reporter, rule| {
            reporter.not_applicable(
                rule,
                "no run of the command has an aoi:error with this field",
            );
        });
    }
    structured.report(reporter, &STRUCTURED, |reporter, rule| {
        reporter.not_applicable(
            rule,
            "no run of the command failed after its stream had started",
        );
    });
}

fn text<'l>(error: &'l EventLine, key: &str) -> Option<&'l str> {
    error.get(key)?.as_str()
}

/// The first missing or invalid field of an error.
fn missing(error: &EventLine) -> Option<String> {
    for key in ["category", "code", "message"] {
        match error.get(key) {
            Some(Value::String(_)) => {}
            Some(other) => return Some(format!("`{key}` must be a string, found {other}")),
            None => return Some(format!("the aoi:error has no `{key}`")),
        }
    }
    match error.get("retryable") {
        Some(Value::Bool(_)) => None,
        Some(other) => Some(format!("`retryable` must be a boolean, found {other}")),
        None => Some("the aoi:error has no `retryable`".to_owned()),
    }
}

fn is_upper_snake(code: &str) -> bool {
    let mut parts = code.split('_');
    code.starts_with(|c: char| c.is_ascii_uppercase())
        && parts.all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> EventLine {
        EventStream::parse(text.as_bytes()).lines.remove(0)
    }

    #[test]
    fn an_error_has_four_fields() {
        let whole = r#"{"type":"aoi:error","category":"usage","code":"A_1","message":"m","retryable":false}"#;
        assert_eq!(missing(&error(whole)), None);
        for (part, other) in [
            (r#""category":"usage","#, ""),
            (r#""category":"usage""#, r#""category":7"#),
            (r#""code":"A_1""#, r#""code":64"#),
            (r#""message":"m""#, r#""message":{}"#),
            (r#""retryable":false"#, r#""retryable":"false""#),
            (r#","retryable":false"#, ""),
        ] {
            let changed = whole.replace(part, other);
            assert!(missing(&error(&changed)).is_some(), "{changed}");
        }
    }

    #[test]
    fn a_code_that_names_its_cause_has_few_categories() {
        let fits = |code: &str, category: &str| {
            fitting_categories(code).is_none_or(|fitting| fitting.contains(&category))
        };
        for (code, category) in [
            ("NO_SUCH_ITEM", "not_found"),
            ("CONFIG_FILE_NOT_FOUND", "config"),
            ("TIMEOUT_INVALID", "usage"),
            ("TIMED_OUT", "timeout"),
            ("COUNT_DIFFERS", "conflict"),
            ("ANYTHING_ELSE", "internal"),
        ] {
            assert!(fits(code, category), "{code} {category}");
        }
        for (code, category) in [
            ("NO_SUCH_ITEM", "conflict"),
            ("FILE_NOT_FOUND", "internal"),
            ("TIMED_OUT", "internal"),
            ("PERMISSION_DENIED", "not_found"),
        ] {
            assert!(!fits(code, category), "{code} {category}");
        }
    }

    #[test]
    fn codes_are_upper_snake_case() {
        for good in ["A", "FILE_NOT_FOUND", "E2BIG", "HTTP_404"] {
            assert!(is_upper_snake(good), "{good}");
        }
        for bad in ["", "file", "File_Not", "_A", "A_", "A__B", "4XX", "A-B"] {
            assert!(!is_upper_snake(bad), "{bad}");
        }
    }
}
