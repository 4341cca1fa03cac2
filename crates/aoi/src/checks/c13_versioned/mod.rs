//! Check 13: aoi:meta reports the schema version, and a requested version is honored.

mod declared;
mod reported;

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::Capture;
use crate::model::{CheckId, TOOL};
use crate::probe::{ProbeCommand, ProbeSpec};
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, Validity};
use crate::session::{Declarations, LintSession, RunOptions, with_options};
use crate::stream::EventStream;
use declared::{declared_schemas, major, matches_version};
pub use declared::{document, flag, versions};
use reported::{CONFLATED, DEFAULT, FORM, INCOMPLETE, MISSING, TYPE, UNDECLARED};
pub use reported::{check as reported, is_legacy};

pub const RULES: &[&Rule] = &[
    &MISSING,
    &TYPE,
    &FORM,
    &UNDECLARED,
    &DEFAULT,
    &CONFLATED,
    &INCOMPLETE,
    &HONORED,
    &EVENTS,
    &IDENTICAL,
    &NAME,
    &UNSUPPORTED_SERVED,
    &UNSUPPORTED_EXIT,
    &UNSUPPORTED_WITHOUT_ERROR,
    &UNSUPPORTED_LATE,
];

const SINGLE_SOURCE: &str =
    "Use a single source for the version in meta, `capabilities` and `schema`.";

const WHY_VERSIONS: &str = "Callers use the schema version to decide how to read a stream (§5.2).";

/// One way to request one version.
struct VersionRequest {
    words: Vec<String>,
    version: String,
    /// Whether a rejection alone is a violation, even if another form of the version is accepted.
    strict: bool,
    /// Whether the request uses `accept_flag`.
    accept: bool,
}

fn requests(probe: &ProbeSpec, declared: &Declarations, thorough: bool) -> Vec<VersionRequest> {
    let manifest = declared.capabilities.as_ref();
    let flag = flag(probe);
    let all = versions(probe, manifest);
    let mut requests: Vec<VersionRequest> = Vec::new();
    let by_flag = probe.schema.flag.is_some() || probe.schema.accept_flag.is_none();
    for version in all.iter().filter(|_| by_flag) {
        let strict = probe.schema.ok.contains(version) && probe.schema.flag.is_some();
        if thorough || strict {
            requests.push(VersionRequest {
                words: vec![flag.clone(), version.clone()],
                version: version.clone(),
                strict,
                accept: false,
            });
        }
    }
    let name = declared_schemas(manifest)
        .into_iter()
        .find_map(|offer| offer.name);
    if let (Some(accept), Some(name), true) = (&probe.schema.accept_flag, name, thorough) {
        for version in &all {
            requests.push(VersionRequest {
                words: vec![accept.clone(), format!("{name}@{version}")],
                version: version.clone(),
                strict: probe.schema.ok.contains(version),
                accept: true,
            });
        }
    }
    requests
}

/// Requests each version from every command that changes nothing, and an unsupported one.
pub async fn check(session: &LintSession) {
    let Some(declared) = session.declared.get() else {
        return;
    };
    identical(session, declared);
    let harmless = session.commands().iter().filter(|command| {
        !command.unbounded
            && !command.mutating
            && !command.needs_auth
            && command.input.is_none()
            && !command.ok.is_empty()
    });
    let runs = harmless
        .enumerate()
        .map(|(number, command)| negotiate(session, declared, command, number == 0));
    join_all(runs).await;
}

async fn request(
    session: &LintSession,
    command: &ProbeCommand,
    words: &[String],
    how: RunOptions,
) -> Arc<Capture> {
    let line = session.fill_shared(command, &command.ok);
    let line = with_options(&line, words);
    session
        .run(&command.name, "schema version", &line, how)
        .await
}

async fn negotiate(
    session: &LintSession,
    declared: &Declarations,
    command: &ProbeCommand,
    thorough: bool,
) {
    let reporter = session.reporter(&command.name);
    let requests = requests(&session.probe, declared, thorough);
    if requests.is_empty() && session.probe.schema.unsupported.is_none() {
        let why = "there is only one version, and no option to request another";
        return reporter.not_applicable(&HONORED, why);
    }
    let runs = join_all(requests.iter().map(|one| {
        let how = RunOptions {
            version: Some(one.version.clone()),
            ..RunOptions::default()
        };
        request(session, command, &one.words, how)
    }))
    .await;
    check_honored(session, command, &requests, &runs);
    let usual = request(session, command, &[], RunOptions::default()).await;
    let both: Vec<_> = requests.iter().zip(&runs).collect();
    events(session, declared, command, &usual, &both);
    unsupported(session, command).await;
    if thorough {
        other_name(session, command, &requests, &runs).await;
    }
}

/// `schema_version` in aoi:meta.
fn reported_version(run: &Capture) -> Option<String> {
    let stream = EventStream::parse(&run.stdout);
    let version = stream.meta()?.get("schema_version")?;
    version.as_str().map(str::to_owned)
}

static HONORED: Rule = Rule {
    id: "AOI-13.not-honoured",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5.1",
    requirement: "aoi:meta reports the requested version",
    why: WHY_VERSIONS,
    hint: "Let the option select the version, or reject it.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-5.1-02", "AOI-16.1-04", "AOI-18.2-13"],
};

fn check_honored(
    session: &LintSession,
    command: &ProbeCommand,
    requests: &[VersionRequest],
    runs: &[Arc<Capture>],
) {
    let reporter = session.reporter(&command.name);
    let sure = session.probe.schema.flag.is_some() || session.probe.schema.accept_flag.is_some();
    let mut kept = 0;
    for (ask, run) in requests.iter().zip(runs) {
        let line = ask.words.join(" ");
        if super::lacks_target(run) {
            continue;
        }
        if !run.end.is_success() {
            let others = requests.iter().zip(runs).filter(|(other, _)| {
                other.accept == ask.accept && major(&other.version) == major(&ask.version)
            });
            let mut others = others.map(|(_, run)| run.end.is_success());
            if (ask.strict || !others.any(|well| well)) && sure {
                let message = format!("`{line}` is rejected: {}", run.end.describe());
                return reporter.violation(&HONORED, message, run);
            }
            continue;
        }
        match reported_version(run) {
            Some(version) if matches_version(&ask.version, &version) => kept += 1,
            Some(version) => {
                let message = format!("with `{line}`, schema_version is `{version}`");
                return reporter.violation(&HONORED, message, run);
            }
            None => {
                let message = format!("with `{line}`, aoi:meta has no schema_version");
                return reporter.violation(&HONORED, message, run);
            }
        }
    }
    match kept {
        0 => reporter.not_verified(&HONORED, "no version could be requested"),
        _ => reporter.pass(
            &HONORED,
            format!("{kept} requests returned the requested version"),
        ),
    }
}

/// Every valid schema, with its version.
fn schemas(declared: &Declarations) -> Vec<(&str, EventSchema)> {
    let all = declared.schemas.iter();
    all.filter_map(|(version, document)| {
        Some((version.as_str(), EventSchema::read(document).ok()?))
    })
    .collect()
}

/// The first event that a schema rejects: its line number, and why.
fn first_invalid_event(schema: &EventSchema, stream: &EventStream) -> Option<(usize, String)> {
    stream.lines.iter().find_map(|line| {
        let event = line.json.as_ref()?;
        let kind = line.kind().unwrap_or("event without type");
        match schema.validate(event) {
            Validity::Valid => None,
            Validity::Invalid(why) => Some((line.number, format!("{kind}: {why}"))),
            Validity::Undefined => Some((
                line.number,
                format!("the schema has no definition for `{kind}`"),
            )),
        }
    })
}

static EVENTS: Rule = Rule {
    id: "AOI-13.events-differ",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5.1",
    requirement: "The events of a version are valid according to the schema of that version",
    why: "A version that is reported, but not implemented, breaks callers that rely on it.",
    hint: "Test each version against `schema --schema-version N`.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-5.1-02", "AOI-10.1-02", "AOI-19-02"],
};

/// Validates the events of each version against its schema. A schema that accepts everything proves
/// nothing. Check 4 reports events that are invalid in every version.
fn events(
    session: &LintSession,
    declared: &Declarations,
    command: &ProbeCommand,
    usual: &Capture,
    runs: &[(&VersionRequest, &Arc<Capture>)],
) {
    let reporter = session.reporter(&command.name);
    let schemas = schemas(declared);
    let usual = EventStream::parse(&usual.stdout);
    let plain = schemas.iter().find(|(version, _)| version.is_empty());
    let is_sound = plain.is_some_and(|(_, schema)| first_invalid_event(schema, &usual).is_none());
    let (mut proven, mut broken) = (0, 0);
    for (ask, run) in runs.iter().filter(|(_, run)| run.end.is_success()) {
        let Some(document) = document(declared, &ask.version) else {
            continue;
        };
        let Ok(schema) = EventSchema::read(document) else {
            continue;
        };
        let stream = EventStream::parse(&run.stdout);
        if let Some((line, why)) = first_invalid_event(&schema, &stream) {
            broken += 1;
            let fits_another = schemas
                .iter()
                .any(|(_, other)| first_invalid_event(other, &stream).is_none());
            if is_sound || fits_another {
                let requested = ask.words.join(" ");
                let message = format!(
                    "line {line} with `{requested}` is not valid according to the schema of that \
                     version: {why}"
                );
                return reporter.violation(&EVENTS, message, run);
            }
            continue;
        }
        let tells = stream.domain().chain(stream.summary());
        let mut tells = tells.filter_map(|line| line.json.as_ref()).take(3);
        if tells.any(|event| schema.discriminates(event)) {
            proven += 1;
        }
    }
    match (proven, broken) {
        (_, 1..) => {
            reporter.not_verified(&EVENTS, "the events are not valid in any version (check 4)")
        }
        (0, 0) => {
            let why = "no run of a version could be validated against the schema of that version";
            reporter.not_verified(&EVENTS, why);
        }
        _ => reporter.pass(
            &EVENTS,
            format!("{proven} runs are valid according to the schema of their version"),
        ),
    }
}

static UNSUPPORTED_SERVED: Rule = Rule {
    id: "AOI-13.unsupported-served",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5.1",
    requirement: "An unsupported version is rejected, not replaced by the default",
    why: "Otherwise a caller reads the default version, which it may not understand.",
    hint: "Exit with a usage error.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-16.1-04", "AOI-18.2-13"],
};

static UNSUPPORTED_EXIT: Rule = Rule {
    id: "AOI-13.unsupported-exit",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5.1, §6",
    requirement: "An unsupported version results in a non-zero exit code",
    why: "Shells check the exit code.",
    hint: "Exit 64.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-16.1-04"],
};

static UNSUPPORTED_WITHOUT_ERROR: Rule = Rule {
    id: "AOI-13.unsupported-unstructured",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§2, §5.1",
    requirement: "After the start of the stream, an unsupported version is rejected with an aoi:error",
    why: "Prose on stderr is allowed only before the stream starts.",
    hint: "Reject the version before aoi:meta, or with an aoi:error.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-16.1-04"],
};

static UNSUPPORTED_LATE: Rule = Rule {
    id: "AOI-13.unsupported-after-data",
    check: CheckId::Number(13),
    level: Level::Must,
    section: "§5.1",
    requirement: "An unsupported version is rejected before any data",
    why: "Otherwise the caller has already read data in a version that it did not request.",
    hint: "Check the option before doing any work.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-16.1-04"],
};

async fn unsupported(session: &LintSession, command: &ProbeCommand) {
    let reporter = session.reporter(&command.name);
    let schema = &session.probe.schema;
    let Some(flag) = &schema.flag else {
        return;
    };
    let version = schema.unsupported.clone().unwrap_or("9999".to_owned());
    let words = [flag.clone(), version];
    let run = request(session, command, &words, RunOptions::default()).await;
    let line = words.join(" ");
    let stream = EventStream::parse(&run.stdout);
    let served = stream.ok() == Some(true);
    let message = format!("`{line}` is accepted, although the version is not supported");
    let violation = served.then_some(message);
    reporter.decide(
        &UNSUPPORTED_SERVED,
        &format!("`{line}` is rejected"),
        violation,
        &run,
    );
    let violation = run.end.is_success().then(|| format!("`{line}` exits 0"));
    reporter.decide(&UNSUPPORTED_EXIT, &run.end.describe(), violation, &run);
    if served {
        return;
    }
    let data = stream.domain().next().map(|line| line.number);
    let violation = data.map(|number| format!("with `{line}`, line {number} is data"));
    reporter.decide(
        &UNSUPPORTED_LATE,
        "no data precedes the error",
        violation,
        &run,
    );
    let has_no_error = !stream.lines.is_empty() && stream.errors().next().is_none();
    let violation =
        has_no_error.then(|| format!("with `{line}`, the stream starts, but has no aoi:error"));
    let proof = match stream.lines.is_empty() {
        true => "the version is rejected before the stream starts",
        false => "the version is rejected with an aoi:error",
    };
    reporter.decide(&UNSUPPORTED_WITHOUT_ERROR, proof, violation, &run);
}

static NAME: Rule = Rule {
    id: "AOI-13.name-ignored",
    check: CheckId::Number(13),
    level: Level::Should,
    section: "§5.1",
    requirement: "A request for a schema with another name is rejected",
    why: "A caller that requests another schema cannot read this one.",
    hint: "Compare the name before the `@`.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-5.1-02"],
};

/// Requests a schema with another name through `accept_flag`.
async fn other_name(
    session: &LintSession,
    command: &ProbeCommand,
    requests: &[VersionRequest],
    runs: &[Arc<Capture>],
) {
    let Some(accept) = &session.probe.schema.accept_flag else {
        return;
    };
    let reporter = session.reporter(&command.name);
    let mut good = requests.iter().zip(runs);
    let good = good.find(|(ask, run)| ask.accept && run.end.is_success());
    let Some((ask_well, _)) = good else {
        let why = format!("no request with `{accept}` was accepted");
        return reporter.not_verified(&NAME, why);
    };
    let other = format!("org.example.another@{}", ask_well.version);
    let words = [accept.clone(), other];
    let how = RunOptions {
        version: Some(ask_well.version.clone()),
        ..RunOptions::default()
    };
    let run = request(session, command, &words, how).await;
    let violation = run
        .end
        .is_success()
        .then(|| format!("`{}` is accepted", words.join(" ")));
    reporter.decide(&NAME, "another name is rejected", violation, &run);
}

static IDENTICAL: Rule = Rule {
    id: "AOI-13.schemas-identical",
    check: CheckId::Number(13),
    level: Level::Should,
    section: "§5.1",
    requirement: "`schema --schema-version N` prints a different schema for each major version",
    why: "Versions with the same schema are one version, or the option is ignored.",
    hint: "Make `schema` honor the option.",
    topic: Topic::Versions,
    requirement_ids: &["AOI-10.1-02", "AOI-19-02"],
};

/// Compares the schemas of different major versions.
fn identical(session: &LintSession, declared: &Declarations) {
    let reporter = session.reporter(TOOL);
    let mut observed: Vec<(&String, &Value)> = Vec::new();
    for (version, document) in &declared.schemas {
        if !version.is_empty()
            && !observed
                .iter()
                .any(|(known, _)| major(known) == major(version))
        {
            observed.push((version, document));
        }
    }
    if observed.len() < 2 {
        return reporter.not_applicable(&IDENTICAL, "the schema has only one version");
    }
    for (index, (version, document)) in observed.iter().enumerate() {
        let same = observed
            .iter()
            .take(index)
            .find(|(_, other)| other == document);
        if let Some((other, _)) = same {
            let message = format!("versions {other} and {version} have the same schema");
            let runs = session.captures();
            let run = runs.iter().find(|run| run.command == TOOL);
            return match run {
                Some(run) => reporter.violation(&IDENTICAL, message, run),
                None => reporter.not_verified(&IDENTICAL, message),
            };
        }
    }
    reporter.pass(
        &IDENTICAL,
        format!("{} versions have different schemas", observed.len()),
    );
}
