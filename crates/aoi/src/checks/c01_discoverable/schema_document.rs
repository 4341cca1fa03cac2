//! Checks the document that `schema` prints.

use serde_json::Value;

use super::document::DiscoveryOutput;
use super::invocations::{DiscoveryRun, InvocationKind};
use super::{SCHEMA, compare_forms, document, invocations, report_success};
use crate::capture::Capture;
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::run::RunDirs;
use crate::schema;
use crate::schema::{EventSchema, SchemaError, SchemaForm};
use crate::session::{LintSession, Reporter, RunOptions};

pub(super) static SCHEMA_NAME: Rule = Rule {
    id: "AOI-01.schema-name",
    check: CheckId::Number(1),
    level: Level::Should,
    section: "§3, §16.4",
    requirement: "The schema is available as `schema --output json`, or as `aoi-schema` if `schema` \
              has another meaning",
    why: "Callers try the names that the convention defines.",
    hint: "Add a subcommand `schema`. You can keep the flag `--schema`.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-03", "AOI-3-04", "AOI-16.4-02", "AOI-16.4-04"],
};

pub(super) static SCHEMA_NOT_JSON: Rule = Rule {
    id: "AOI-01.schema-not-json",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§10.1",
    requirement: "`schema --output json` prints one JSON document and nothing else",
    why: "Callers parse all of stdout.",
    hint: "Print only the document to stdout, and everything else to stderr.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.1-01"],
};

pub(super) static SCHEMA_IS_STREAM: Rule = Rule {
    id: "AOI-01.schema-is-stream",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§10.1",
    requirement: "`schema --output json` prints a schema, not a stream of events",
    why: "With `json`, a caller expects one document. A stream must be unpacked first.",
    hint: "Print the schema itself, without events around it.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.1-01"],
};

pub(super) static SCHEMA_ANSI: Rule = Rule {
    id: "AOI-01.schema-ansi",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§2",
    requirement: "The schema is printed without color codes",
    why: "Escape sequences are not valid JSON.",
    hint: "Disable color in machine-readable output.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.1-01"],
};

pub(super) async fn check_schema(session: &LintSession, answer: Option<&DiscoveryRun>) {
    let Some(answer) = answer else {
        return;
    };
    let reporter = session.reporter(TOOL);
    if !answer.capture.end.is_success() {
        return invocations::diagnose(session, &SCHEMA, answer).await;
    }
    report_success(session, &SCHEMA, answer);
    let run = &answer.capture;
    let has_escapes = answer
        .has_escapes
        .then(|| "the output contains escape sequences".to_owned());
    reporter.decide(
        &SCHEMA_ANSI,
        "no escape sequences in the output",
        has_escapes,
        run,
    );
    match &answer.document {
        DiscoveryOutput::Json(_) => {
            reporter.pass(&SCHEMA_NOT_JSON, "stdout is one JSON document");
            reporter.pass(&SCHEMA_IS_STREAM, "stdout is not an event stream");
        }
        DiscoveryOutput::Stream(events) => {
            let message = format!("stdout is a stream of {events} events");
            return reporter.violation(&SCHEMA_IS_STREAM, message, run);
        }
        DiscoveryOutput::Empty => {
            return reporter.violation(&SCHEMA_NOT_JSON, "stdout is empty", run);
        }
        DiscoveryOutput::Other(line) => {
            let message = format!("stdout is not one JSON document; it starts with `{line}`");
            return reporter.violation(&SCHEMA_NOT_JSON, message, run);
        }
    }
    let Some(document) = answer.json() else {
        return;
    };
    let line = answer.words.join(" ");
    let unusual_name = (answer.kind == InvocationKind::Flag)
        .then(|| format!("only the flag `{line}` works; add the subcommand"));
    reporter.decide(&SCHEMA_NAME, &format!("`{line}` works"), unusual_name, run);
    check_content(session, reporter, document, run);
    tokio::join!(
        check_other_directory(session, answer, document),
        compare_forms(session, &SCHEMA, answer)
    );
}

pub(super) static SCHEMA_INVALID: Rule = Rule {
    id: "AOI-01.schema-invalid",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§18.2",
    requirement: "The schema is valid according to the meta-schema of its `$schema` (default: 2020-12)",
    why: "A schema that validators reject cannot be used.",
    hint: "Validate it against the meta-schema in your tests.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-18.2-01", "AOI-10.1-01"],
};

pub(super) static SCHEMA_REFERENCE: Rule = Rule {
    id: "AOI-01.schema-reference",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§18.2",
    requirement: "Every reference within the schema can be resolved",
    why: "A validator stops at a reference that it cannot resolve.",
    hint: "Correct the `$ref`, or add the definition.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-18.2-01"],
};

pub(super) static SCHEMA_REMOTE: Rule = Rule {
    id: "AOI-01.schema-remote-reference",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3",
    requirement: "The schema contains everything that it refers to",
    why: "Discovery works offline, so a part that must be fetched is missing.",
    hint: "Move the referenced part into `$defs`.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-01", "AOI-3.1-02"],
};

pub(super) static SCHEMA_FILE_ID: Rule = Rule {
    id: "AOI-01.schema-file-id",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§10.2",
    requirement: "`$id` is not a `file:` URL, unless the schema is declared local",
    why: "A local path has no meaning on another machine.",
    hint: "Use an https URL that contains the version, or set `local_only_schema: true` in the \
           probe file.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.2-01"],
};

pub(super) static SCHEMA_MAP: Rule = Rule {
    id: "AOI-01.schema-map",
    check: CheckId::Number(1),
    level: Level::Open,
    section: "§10.1, §23",
    requirement: "`schema` prints one schema that applies to every event",
    why: "With a list or a map of schemas, a caller must know which one applies.",
    hint: "Put the parts into `$defs` of one schema and select by `type`.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-10.1-01"],
};

/// Checks the content of the schema.
fn check_content(session: &LintSession, reporter: Reporter, document: &Value, run: &Capture) {
    let mut file = None;
    schema::identifiers(document, &mut |id| {
        if id
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("file:"))
        {
            file.get_or_insert_with(|| id.to_owned());
        }
    });
    match file {
        Some(_) if session.probe.local_only_schema => {
            reporter.not_applicable(&SCHEMA_FILE_ID, "the schema is declared local");
        }
        file => {
            let violation =
                file.map(|id| format!("`$id` is the local path `{}`", schema::shorten(&id)));
            reporter.decide(&SCHEMA_FILE_ID, "no `$id` is a `file:` URL", violation, run);
        }
    }
    let read = EventSchema::read(document);
    let (mut invalid, mut dangling, mut remote) = (None, None, None);
    let mut unread = None;
    match &read {
        Ok(_) => {}
        Err(SchemaError::NotASchema(why)) => invalid = Some(format!("not a JSON Schema: {why}")),
        Err(SchemaError::Invalid(why)) => invalid = Some(format!("not a valid JSON Schema: {why}")),
        Err(SchemaError::Dangling(what)) => {
            dangling = Some(format!("cannot resolve the reference: {what}"))
        }
        Err(SchemaError::Remote(uri)) => remote = Some(format!("`{uri}` is a remote reference")),
        Err(SchemaError::Dialect(why)) => {
            unread = Some(format!("unknown dialect in `$schema`: {why}"))
        }
    }
    if let Some(why) = unread {
        for rule in [&SCHEMA_INVALID, &SCHEMA_REFERENCE, &SCHEMA_REMOTE] {
            reporter.not_verified(rule, why.clone());
        }
        return;
    }
    // An earlier problem hides later ones.
    let known = [invalid.is_none(), dangling.is_none()];
    reporter.decide(
        &SCHEMA_INVALID,
        "valid according to its meta-schema",
        invalid,
        run,
    );
    if known != [true, true] || remote.is_none() {
        match known {
            [false, _] => reporter.not_verified(&SCHEMA_REFERENCE, "the schema is not valid"),
            _ => reporter.decide(
                &SCHEMA_REFERENCE,
                "every reference within the schema can be resolved",
                dangling,
                run,
            ),
        }
    } else {
        reporter.not_verified(&SCHEMA_REFERENCE, "a remote reference is missing");
    }
    match known {
        [true, true] => reporter.decide(
            &SCHEMA_REMOTE,
            "the schema has no remote references",
            remote,
            run,
        ),
        _ => reporter.not_verified(&SCHEMA_REMOTE, "the schema is not valid"),
    }
    if let Ok(schema) = read {
        let several = (schema.form == SchemaForm::Several)
            .then(|| "it is a list or map of schemas, one per event type".to_owned());
        reporter.decide(&SCHEMA_MAP, "it is one schema", several, run);
    }
}

pub(super) static SCHEMA_UNSTABLE: Rule = Rule {
    id: "AOI-01.schema-unstable",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3.2",
    requirement: "The schema does not depend on the working directory",
    why: "A schema that depends on the directory is not a contract of the tool.",
    hint: "Do not read files from the working directory.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3.2-02"],
};

/// Runs discovery in another working directory with the same home directory.
async fn check_other_directory(session: &LintSession, answer: &DiscoveryRun, document: &Value) {
    let reporter = session.reporter(TOOL);
    let (Ok(home), Ok(other)) = (session.new_dirs(), session.new_dirs()) else {
        return reporter.not_verified(&SCHEMA_UNSTABLE, "another directory could not be created");
    };
    let there = run_in_directory(session, answer, &home, Some(&other)).await;
    let Some(there) = there else {
        let message = "it prints no schema in another working directory";
        return reporter.violation(&SCHEMA_UNSTABLE, message, &answer.capture);
    };
    if there == *document {
        return reporter.pass(
            &SCHEMA_UNSTABLE,
            "it is the same in another working directory",
        );
    }
    // The document may contain the home directory or the time, which the working directory does not
    // affect.
    let here = run_in_directory(session, answer, &home, None).await;
    if here == Some(there) {
        return reporter.pass(
            &SCHEMA_UNSTABLE,
            "it is the same in another working directory",
        );
    }
    let again = run_in_directory(session, answer, &home, None).await;
    if here != again {
        let why = "it differs in every run, in any directory";
        return reporter.not_verified(&SCHEMA_UNSTABLE, why);
    }
    let message = "it is different in another working directory";
    reporter.violation(&SCHEMA_UNSTABLE, message, &answer.capture);
}

async fn run_in_directory(
    session: &LintSession,
    answer: &DiscoveryRun,
    home: &RunDirs,
    elsewhere: Option<&RunDirs>,
) -> Option<Value> {
    let mut env = Vec::new();
    if elsewhere.is_some() {
        env = home.environment();
        let root = home.root.to_string_lossy();
        let own = session.probe.env.iter();
        let own = own.filter(|(name, _)| !session.probe.credentials.env.contains(name));
        env.extend(own.map(|(name, value)| (name.clone(), value.replace("{world}", &root))));
    }
    let how = RunOptions {
        isolated: true,
        no_machine_args: true,
        limit: Some(session.options.discovery_limit),
        dirs: Some(elsewhere.unwrap_or(home).clone()),
        env,
        ..RunOptions::default()
    };
    let run = session
        .run(TOOL, "discovery in another directory", &answer.words, how)
        .await;
    match document::read(&run.stdout).0 {
        DiscoveryOutput::Json(value) if run.end.is_success() => Some(value),
        _ => None,
    }
}
