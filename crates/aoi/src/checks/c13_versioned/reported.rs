//! Checks the versions in aoi:meta, over every run of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::declared::{DeclaredSchema, declared_schemas, matches_version};
use super::{SINGLE_SOURCE, WHY_VERSIONS};
use crate::canary;
use crate::capture::Capture;
use crate::model::CheckId;
use crate::rules::{Level, Rule, Topic};
use crate::schema::shorten;
use crate::session::LintSession;
use crate::stream::EventStream;

/// One aoi:meta, and its run.
struct Meta {
    run: Arc<Capture>,
    event: Option<Value>,
    ok: bool,
}

/// Evaluates all runs. Call it after the last one.
pub fn check(session: &LintSession) {
    let mut by_command: BTreeMap<String, Vec<Meta>> = BTreeMap::new();
    for run in session.captures() {
        let stream = EventStream::parse(&run.stdout);
        if !run.is_machine || is_legacy(&stream) {
            continue;
        }
        let event = stream.meta().and_then(|line| line.json.clone());
        let ok = run.end.is_success() && stream.ok() == Some(true);
        if event.is_some() || ok {
            let metas = by_command.entry(run.command.clone()).or_default();
            metas.push(Meta { run, event, ok });
        }
    }
    let manifest = session.declared.get();
    let manifest = manifest.and_then(|declared| declared.capabilities.as_ref());
    let schemas = declared_schemas(manifest);
    for (command, metas) in &by_command {
        check_command(session, command, metas, &schemas);
    }
}

/// Whether the stream uses the syntax without prefixes, which check 2 reports once.
pub fn is_legacy(stream: &EventStream) -> bool {
    let first = stream.lines.first();
    first.is_some_and(|line| line.kind() == Some("meta") && line.get("aoi_version").is_some())
}

type FirstViolation<'m> = Option<(String, &'m Capture)>;

pub(super) static MISSING: Rule = Rule {
    id: "AOI-13.version-missing",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5, §18.2",
    requirement: "aoi:meta has a `schema_version`",
    why: WHY_VERSIONS,
    hint: "Put `schema_version` into aoi:meta.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-5-02", "AOI-8.1-03", "AOI-18.2-13"],
};

pub(super) static TYPE: Rule = Rule {
    id: "AOI-13.version-type",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5",
    requirement: "`schema_version` is a string",
    why: "The number 1.10 equals 1.1.",
    hint: "Write it in quotes.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-8.1-03"],
};

pub(super) static FORM: Rule = Rule {
    id: "AOI-13.version-form",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5.1",
    requirement: "`schema_version` starts with a major version number, such as 1.0.0",
    why: "The major version number indicates breaking changes.",
    hint: "Use major.minor.patch.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-8.1-03"],
};

pub(super) static UNDECLARED: Rule = Rule {
    id: "AOI-13.version-undeclared",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§17",
    requirement: "The schema name and version in aoi:meta are listed in `capabilities`",
    why: "A caller is prepared for the declared versions.",
    hint: SINGLE_SOURCE,
    topic: Topic::Versions,
    requirement_ids: &["AOI-17-03", "AOI-8.1-02"],
};

pub(super) static DEFAULT: Rule = Rule {
    id: "AOI-13.default-differs",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§17",
    requirement: "Without a requested version, the version is the `default` in `capabilities`",
    why: "Callers that request no version rely on the default.",
    hint: SINGLE_SOURCE,
    topic: Topic::Versions,
    requirement_ids: &["AOI-17-03"],
};

pub(super) static CONFLATED: Rule = Rule {
    id: "AOI-13.conflated",
    check: CheckId::Number(13),
    level: Level::Open,
    section: "§5",
    requirement: "The schema version differs from the tool version and the AOI version",
    why: "If they change together, every release looks like a schema change, or none does.",
    hint: "Give the schema its own version. A single release only shows that the versions are \
           equal.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-5-01"],
};

pub(super) static INCOMPLETE: Rule = Rule {
    id: "AOI-13.meta-incomplete",
    check: CheckId::Number(13),
    level: Level::Should,
    section: "§5",
    requirement: "aoi:meta has `tool_version`, `aoi_version` and `schema_name`",
    why: "The three versions are independent, and the name identifies the schema.",
    hint: "Add the missing fields to aoi:meta.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-5-02", "AOI-8.1-02", "AOI-8.1-05", "AOI-8.1-06"],
};

fn check_command(session: &LintSession, command: &str, metas: &[Meta], schemas: &[DeclaredSchema]) {
    let mut missing: FirstViolation = None;
    let mut kind: FirstViolation = None;
    let mut form: FirstViolation = None;
    let mut undeclared: FirstViolation = None;
    let mut default: FirstViolation = None;
    let mut conflated: FirstViolation = None;
    let mut incomplete: FirstViolation = None;
    let (mut versions, mut by_default) = (0, 0);
    for meta in metas {
        let run: &Capture = &meta.run;
        let Some(event) = &meta.event else {
            set(&mut missing, "the run has no aoi:meta".to_owned(), run);
            continue;
        };
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let absent: Vec<&str> = ["tool_version", "aoi_version", "schema_name"]
            .into_iter()
            .filter(|key| text(key).is_none_or(str::is_empty))
            .collect();
        if !absent.is_empty() {
            set(
                &mut incomplete,
                format!("aoi:meta has no {}", absent.join(", ")),
                run,
            );
        }
        let version = match event.get("schema_version") {
            None | Some(Value::Null) => {
                set(
                    &mut missing,
                    "aoi:meta has no schema_version".to_owned(),
                    run,
                );
                continue;
            }
            Some(Value::String(version)) => version,
            Some(other) => {
                set(
                    &mut kind,
                    format!("schema_version must be a string, found {other}"),
                    run,
                );
                continue;
            }
        };
        versions += 1;
        if !is_version(version) {
            set(
                &mut form,
                format!("schema_version `{version}` has no major version number"),
                run,
            );
            continue;
        }
        let own: Vec<&DeclaredSchema> = schemas
            .iter()
            .filter(|offer| match (offer.name.as_deref(), text("schema_name")) {
                (Some(declared), Some(reported)) => declared == reported,
                _ => true,
            })
            .collect();
        let listed = own.iter().flat_map(|offer| &offer.versions);
        if !schemas.is_empty()
            && !listed
                .clone()
                .any(|listed| matches_version(listed, version))
        {
            let name = text("schema_name").unwrap_or("(no name)");
            let message = format!("schema `{name}` {version} is not in `capabilities`");
            set(&mut undeclared, message, run);
        }
        let is_default = meta.ok && run.version.is_none();
        if let (true, Some(default_version)) =
            (is_default, own.iter().find_map(|o| o.default.as_ref()))
        {
            by_default += 1;
            if !matches_version(default_version, version) {
                let message = format!(
                    "without a requested version, the version is {version}, but the declared \
                     default is {default_version}"
                );
                set(&mut default, message, run);
            }
        }
        if is_default && [text("tool_version"), text("aoi_version")].contains(&Some(version)) {
            let message = format!("schema_version {version} equals another version in aoi:meta");
            set(&mut conflated, message, run);
        }
    }
    let reporter = session.reporter(command);
    let row =
        |rule: &'static Rule, proof: &str, violation: FirstViolation, looked: usize, why: &str| {
            match violation {
                Some((message, run)) => reporter.violation(rule, message, run),
                None if looked == 0 => reporter.not_applicable(rule, why),
                None => reporter.pass(rule, proof),
            }
        };
    row(
        &MISSING,
        "every aoi:meta has a schema_version",
        missing,
        metas.len(),
        "",
    );
    let none = "no aoi:meta has a schema_version";
    row(&TYPE, "schema_version is a string", kind, versions, none);
    row(&FORM, "schema_version is a version", form, versions, none);
    let listed = versions * usize::from(!schemas.is_empty());
    row(
        &UNDECLARED,
        "schema_version is declared",
        undeclared,
        listed,
        "`capabilities` declares no schemas",
    );
    row(
        &DEFAULT,
        "the version is the declared default",
        default,
        by_default,
        "`capabilities` declares no default",
    );
    row(
        &CONFLATED,
        "schema_version differs from the other versions",
        conflated,
        versions,
        none,
    );
    row(
        &INCOMPLETE,
        "aoi:meta has the versions of the tool and AOI, and the schema name",
        incomplete,
        metas.len(),
        "",
    );
}

fn set<'m>(slot: &mut FirstViolation<'m>, message: String, run: &'m Capture) {
    if slot.is_none() {
        *slot = Some((shorten(&canary::masked(&message)), run));
    }
}

/// A major version number, optionally with the other parts of a semantic version.
fn is_version(text: &str) -> bool {
    let whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('.').collect();
    (parts.len() <= 2 && parts.iter().all(|part| whole(part)))
        || semver::Version::parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_major_number() {
        for good in ["1", "1.0", "1.0.0", "2.1.0-rc.1", "10.2.3+build"] {
            assert!(is_version(good), "{good}");
        }
        for bad in [
            "",
            "v2",
            "latest",
            "1.",
            ".1",
            "1.x.0",
            "2024-01-01",
            "1.2.3.4",
        ] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
