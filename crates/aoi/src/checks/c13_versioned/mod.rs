//! Check 13: aoi:meta reports the schema version, and a requested version is honored.

mod offers;
mod reported;

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::probe::{Command, Probe};
use crate::rules::{Level, Rule, Topic};
use crate::schema::{EventSchema, Fit};
use crate::session::{Declared, How, Session, with_options};
use crate::stream::Stream;
use offers::{agrees, major, offers};
pub use offers::{document, flag, versions};
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
    &HONOURED,
    &EVENTS,
    &IDENTICAL,
    &NAME,
    &UNSUPPORTED_SERVED,
    &UNSUPPORTED_EXIT,
    &UNSUPPORTED_MUTE,
    &UNSUPPORTED_LATE,
];

const ONE_PLACE: &str = "Use a single source for the version in meta, `capabilities` and `schema`.";

const BRANCH: &str = "Callers use the schema version to decide how to read a stream (§5.2).";

/// One way to request one version.
struct Ask {
    words: Vec<String>,
    version: String,
    /// Whether a rejection alone is a violation, even if another form of the version is accepted.
    strict: bool,
    /// Whether the request uses `accept_flag`.
    accept: bool,
}

fn asks(probe: &Probe, declared: &Declared, thorough: bool) -> Vec<Ask> {
    let manifest = declared.capabilities.as_ref();
    let flag = flag(probe);
    let all = versions(probe, manifest);
    let mut asks: Vec<Ask> = Vec::new();
    let by_flag = probe.schema.flag.is_some() || probe.schema.accept_flag.is_none();
    for version in all.iter().filter(|_| by_flag) {
        let strict = probe.schema.ok.contains(version) && probe.schema.flag.is_some();
        if thorough || strict {
            asks.push(Ask {
                words: vec![flag.clone(), version.clone()],
                version: version.clone(),
                strict,
                accept: false,
            });
        }
    }
    let name = offers(manifest).into_iter().find_map(|offer| offer.name);
    if let (Some(accept), Some(name), true) = (&probe.schema.accept_flag, name, thorough) {
        for version in &all {
            asks.push(Ask {
                words: vec![accept.clone(), format!("{name}@{version}")],
                version: version.clone(),
                strict: probe.schema.ok.contains(version),
                accept: true,
            });
        }
    }
    asks
}

/// Requests each version from every command that changes nothing, and an unsupported one.
pub async fn check(session: &Session) {
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

async fn ask(session: &Session, command: &Command, words: &[String], how: How) -> Arc<Capture> {
    let line = session.fill(&command.ok, &[], session.common());
    let line = with_options(&line, words);
    session
        .run(&command.name, "schema version", &line, how)
        .await
}

async fn negotiate(session: &Session, declared: &Declared, command: &Command, thorough: bool) {
    let judge = session.judge(&command.name);
    let asks = asks(&session.probe, declared, thorough);
    if asks.is_empty() && session.probe.schema.unsupported.is_none() {
        let why = "there is only one version, and no option to request another";
        return judge.not_applicable(&HONOURED, why);
    }
    let runs = join_all(asks.iter().map(|one| {
        let how = How {
            version: Some(one.version.clone()),
            ..How::default()
        };
        ask(session, command, &one.words, how)
    }))
    .await;
    honoured(session, command, &asks, &runs);
    let usual = ask(session, command, &[], How::default()).await;
    let both: Vec<_> = asks.iter().zip(&runs).collect();
    events(session, declared, command, &usual, &both);
    unsupported(session, command).await;
    if thorough {
        other_name(session, command, &asks, &runs).await;
    }
}

/// `schema_version` in aoi:meta.
fn said(run: &Capture) -> Option<String> {
    let stream = Stream::read(&run.stdout);
    let version = stream.meta()?.get("schema_version")?;
    version.as_str().map(str::to_owned)
}

static HONOURED: Rule = Rule {
    id: "AOI-13.not-honoured",
    check: Check::Number(13),
    level: Level::Must,
    section: "§5.1",
    demands: "aoi:meta reports the requested version",
    why: BRANCH,
    hint: "Let the option select the version, or reject it.",
    topic: Topic::Versions,
    register: &["AOI-5.1-02", "AOI-16.1-04", "AOI-18.2-13"],
};

fn honoured(session: &Session, command: &Command, asks: &[Ask], runs: &[Arc<Capture>]) {
    let judge = session.judge(&command.name);
    let sure = session.probe.schema.flag.is_some() || session.probe.schema.accept_flag.is_some();
    let mut kept = 0;
    for (ask, run) in asks.iter().zip(runs) {
        let line = ask.words.join(" ");
        if !run.end.is_success() {
            let others = asks.iter().zip(runs).filter(|(other, _)| {
                other.accept == ask.accept && major(&other.version) == major(&ask.version)
            });
            let mut others = others.map(|(_, run)| run.end.is_success());
            if (ask.strict || !others.any(|well| well)) && sure {
                let message = format!("`{line}` is rejected: {}", run.end.told());
                return judge.broken(&HONOURED, message, run);
            }
            continue;
        }
        match said(run) {
            Some(version) if agrees(&ask.version, &version) => kept += 1,
            Some(version) => {
                let message = format!("with `{line}`, schema_version is `{version}`");
                return judge.broken(&HONOURED, message, run);
            }
            None => {
                let message = format!("with `{line}`, aoi:meta has no schema_version");
                return judge.broken(&HONOURED, message, run);
            }
        }
    }
    match kept {
        0 => judge.not_verified(&HONOURED, "no version could be requested"),
        _ => judge.pass(
            &HONOURED,
            format!("{kept} requests returned the requested version"),
        ),
    }
}

/// Every valid schema, with its version.
fn schemas(declared: &Declared) -> Vec<(&str, EventSchema)> {
    let all = declared.schemas.iter();
    all.filter_map(|(version, document)| {
        Some((version.as_str(), EventSchema::read(document).ok()?))
    })
    .collect()
}

/// The first event that a schema rejects: its line number, and why.
fn refused(schema: &EventSchema, stream: &Stream) -> Option<(usize, String)> {
    stream.lines.iter().find_map(|line| {
        let event = line.json.as_ref()?;
        let kind = line.kind().unwrap_or("event without type");
        match schema.judge(event) {
            Fit::Fits => None,
            Fit::Breaks(why) => Some((line.number, format!("{kind}: {why}"))),
            Fit::Undefined => Some((
                line.number,
                format!("the schema has no definition for `{kind}`"),
            )),
        }
    })
}

static EVENTS: Rule = Rule {
    id: "AOI-13.events-differ",
    check: Check::Number(13),
    level: Level::Must,
    section: "§5.1",
    demands: "The events of a version are valid according to the schema of that version",
    why: "A version that is reported, but not implemented, breaks callers that rely on it.",
    hint: "Test each version against `schema --schema-version N`.",
    topic: Topic::Versions,
    register: &["AOI-5.1-02", "AOI-10.1-02", "AOI-19-02"],
};

/// Validates the events of each version against its schema. A schema that accepts everything proves
/// nothing. Check 4 reports events that are invalid in every version.
fn events(
    session: &Session,
    declared: &Declared,
    command: &Command,
    usual: &Capture,
    runs: &[(&Ask, &Arc<Capture>)],
) {
    let judge = session.judge(&command.name);
    let schemas = schemas(declared);
    let usual = Stream::read(&usual.stdout);
    let plain = schemas.iter().find(|(version, _)| version.is_empty());
    let is_sound = plain.is_some_and(|(_, schema)| refused(schema, &usual).is_none());
    let (mut proven, mut broken) = (0, 0);
    for (ask, run) in runs.iter().filter(|(_, run)| run.end.is_success()) {
        let Some(document) = document(declared, &ask.version) else {
            continue;
        };
        let Ok(schema) = EventSchema::read(document) else {
            continue;
        };
        let stream = Stream::read(&run.stdout);
        if let Some((line, why)) = refused(&schema, &stream) {
            broken += 1;
            let fits_another = schemas
                .iter()
                .any(|(_, other)| refused(other, &stream).is_none());
            if is_sound || fits_another {
                let asked = ask.words.join(" ");
                let message = format!(
                    "line {line} with `{asked}` is not valid according to the schema of that \
                     version: {why}"
                );
                return judge.broken(&EVENTS, message, run);
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
            judge.not_verified(&EVENTS, "the events are not valid in any version (check 4)")
        }
        (0, 0) => {
            let why = "no run of a version could be validated against the schema of that version";
            judge.not_verified(&EVENTS, why);
        }
        _ => judge.pass(
            &EVENTS,
            format!("{proven} runs are valid according to the schema of their version"),
        ),
    }
}

static UNSUPPORTED_SERVED: Rule = Rule {
    id: "AOI-13.unsupported-served",
    check: Check::Number(13),
    level: Level::Must,
    section: "§5.1",
    demands: "An unsupported version is rejected, not replaced by the default",
    why: "Otherwise a caller reads the default version, which it may not understand.",
    hint: "Exit with a usage error.",
    topic: Topic::Versions,
    register: &["AOI-16.1-04", "AOI-18.2-13"],
};

static UNSUPPORTED_EXIT: Rule = Rule {
    id: "AOI-13.unsupported-exit",
    check: Check::Number(13),
    level: Level::Must,
    section: "§5.1, §6",
    demands: "An unsupported version results in a non-zero exit code",
    why: "Shells check the exit code.",
    hint: "Exit 64.",
    topic: Topic::Versions,
    register: &["AOI-16.1-04"],
};

static UNSUPPORTED_MUTE: Rule = Rule {
    id: "AOI-13.unsupported-unstructured",
    check: Check::Number(13),
    level: Level::Must,
    section: "§2, §5.1",
    demands: "After the start of the stream, an unsupported version is rejected with an aoi:error",
    why: "Prose on stderr is allowed only before the stream starts.",
    hint: "Reject the version before aoi:meta, or with an aoi:error.",
    topic: Topic::Versions,
    register: &["AOI-16.1-04"],
};

static UNSUPPORTED_LATE: Rule = Rule {
    id: "AOI-13.unsupported-after-data",
    check: Check::Number(13),
    level: Level::Must,
    section: "§5.1",
    demands: "An unsupported version is rejected before any data",
    why: "Otherwise the caller has already read data in a version that it did not request.",
    hint: "Check the option before doing any work.",
    topic: Topic::Versions,
    register: &["AOI-16.1-04"],
};

async fn unsupported(session: &Session, command: &Command) {
    let judge = session.judge(&command.name);
    let schema = &session.probe.schema;
    let Some(flag) = &schema.flag else {
        return;
    };
    let version = schema.unsupported.clone().unwrap_or("9999".to_owned());
    let words = [flag.clone(), version];
    let run = ask(session, command, &words, How::default()).await;
    let line = words.join(" ");
    let stream = Stream::read(&run.stdout);
    let served = stream.ok() == Some(true);
    let message = format!("`{line}` is accepted, although the version is not supported");
    let wrong = served.then_some(message);
    judge.held(
        &UNSUPPORTED_SERVED,
        &format!("`{line}` is rejected"),
        wrong,
        &run,
    );
    let wrong = run.end.is_success().then(|| format!("`{line}` exits 0"));
    judge.held(&UNSUPPORTED_EXIT, &run.end.told(), wrong, &run);
    if served {
        return;
    }
    let data = stream.domain().next().map(|line| line.number);
    let wrong = data.map(|number| format!("with `{line}`, line {number} is data"));
    judge.held(&UNSUPPORTED_LATE, "no data precedes the error", wrong, &run);
    let mute = !stream.lines.is_empty() && stream.errors().next().is_none();
    let wrong = mute.then(|| format!("with `{line}`, the stream starts, but has no aoi:error"));
    let proof = match stream.lines.is_empty() {
        true => "the version is rejected before the stream starts",
        false => "the version is rejected with an aoi:error",
    };
    judge.held(&UNSUPPORTED_MUTE, proof, wrong, &run);
}

static NAME: Rule = Rule {
    id: "AOI-13.name-ignored",
    check: Check::Number(13),
    level: Level::Should,
    section: "§5.1",
    demands: "A request for a schema with another name is rejected",
    why: "A caller that requests another schema cannot read this one.",
    hint: "Compare the name before the `@`.",
    topic: Topic::Versions,
    register: &["AOI-5.1-02"],
};

/// Requests a schema with another name through `accept_flag`.
async fn other_name(session: &Session, command: &Command, asks: &[Ask], runs: &[Arc<Capture>]) {
    let Some(accept) = &session.probe.schema.accept_flag else {
        return;
    };
    let judge = session.judge(&command.name);
    let mut good = asks.iter().zip(runs);
    let good = good.find(|(ask, run)| ask.accept && run.end.is_success());
    let Some((ask_well, _)) = good else {
        let why = format!("no request with `{accept}` was accepted");
        return judge.not_verified(&NAME, why);
    };
    let other = format!("org.example.another@{}", ask_well.version);
    let words = [accept.clone(), other];
    let how = How {
        version: Some(ask_well.version.clone()),
        ..How::default()
    };
    let run = ask(session, command, &words, how).await;
    let wrong = run
        .end
        .is_success()
        .then(|| format!("`{}` is accepted", words.join(" ")));
    judge.held(&NAME, "another name is rejected", wrong, &run);
}

static IDENTICAL: Rule = Rule {
    id: "AOI-13.schemas-identical",
    check: Check::Number(13),
    level: Level::Should,
    section: "§5.1",
    demands: "`schema --schema-version N` prints a different schema for each major version",
    why: "Versions with the same schema are one version, or the option is ignored.",
    hint: "Make `schema` honor the option.",
    topic: Topic::Versions,
    register: &["AOI-10.1-02", "AOI-19-02"],
};

/// Compares the schemas of different major versions.
fn identical(session: &Session, declared: &Declared) {
    let judge = session.judge(TOOL);
    let mut seen: Vec<(&String, &Value)> = Vec::new();
    for (version, document) in &declared.schemas {
        if !version.is_empty() && !seen.iter().any(|(known, _)| major(known) == major(version)) {
            seen.push((version, document));
        }
    }
    if seen.len() < 2 {
        return judge.not_applicable(&IDENTICAL, "the schema has only one version");
    }
    for (index, (version, document)) in seen.iter().enumerate() {
        let same = seen.iter().take(index).find(|(_, other)| other == document);
        if let Some((other, _)) = same {
            let message = format!("versions {other} and {version} have the same schema");
            let runs = session.captures();
            let run = runs.iter().find(|run| run.command == TOOL);
            return match run {
                Some(run) => judge.broken(&IDENTICAL, message, run),
                None => judge.not_verified(&IDENTICAL, message),
            };
        }
    }
    judge.pass(
        &IDENTICAL,
        format!("{} versions have different schemas", seen.len()),
    );
}
