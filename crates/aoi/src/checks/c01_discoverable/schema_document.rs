//! Checks the document that `schema` prints.

use serde_json::Value;

use super::document::Document;
use super::ways::{Answer, Kind};
use super::{SCHEMA, answered, document, forms, ways};
use crate::capture::Capture;
use crate::model::{Check, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::run::World;
use crate::schema;
use crate::schema::{EventSchema, Form, Wrong};
use crate::session::{How, Judge, Session};

pub(super) static SCHEMA_NAME: Rule = Rule {
    id: "AOI-01.schema-name",
    check: Check::Number(1),
    level: Level::Should,
    section: "§3, §16.4",
    demands: "The schema is available as `schema --output json`, or as `aoi-schema` if `schema` \
              has another meaning",
    why: "Callers try the names that the convention defines.",
    hint: "Add a subcommand `schema`. You can keep the flag `--schema`.",
    topic: Topic::Discovery,
    register: &["AOI-3-03", "AOI-3-04", "AOI-16.4-02", "AOI-16.4-04"],
};

pub(super) static SCHEMA_NOT_JSON: Rule = Rule {
    id: "AOI-01.schema-not-json",
    check: Check::Number(1),
    level: Level::Must,
    section: "§10.1",
    demands: "`schema --output json` prints one JSON document and nothing else",
    why: "Callers parse all of stdout.",
    hint: "Print only the document to stdout, and everything else to stderr.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

pub(super) static SCHEMA_IS_STREAM: Rule = Rule {
    id: "AOI-01.schema-is-stream",
    check: Check::Number(1),
    level: Level::Must,
    section: "§10.1",
    demands: "`schema --output json` prints a schema, not a stream of events",
    why: "With `json`, a caller expects one document. A stream must be unpacked first.",
    hint: "Print the schema itself, without events around it.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

pub(super) static SCHEMA_ANSI: Rule = Rule {
    id: "AOI-01.schema-ansi",
    check: Check::Number(1),
    level: Level::Must,
    section: "§2",
    demands: "The schema is printed without color codes",
    why: "Escape sequences are not valid JSON.",
    hint: "Disable color in machine-readable output.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

pub(super) async fn judge_schema(session: &Session, answer: Option<&Answer>) {
    let Some(answer) = answer else {
        return;
    };
    let judge = session.judge(TOOL);
    if !answer.capture.end.is_success() {
        return ways::diagnose(session, &SCHEMA, answer).await;
    }
    answered(session, &SCHEMA, answer);
    let run = &answer.capture;
    let coloured = answer
        .coloured
        .then(|| "the output contains escape sequences".to_owned());
    judge.held(
        &SCHEMA_ANSI,
        "no escape sequences in the output",
        coloured,
        run,
    );
    match &answer.document {
        Document::Json(_) => {
            judge.pass(&SCHEMA_NOT_JSON, "stdout is one JSON document");
            judge.pass(&SCHEMA_IS_STREAM, "stdout is not an event stream");
        }
        Document::Stream(events) => {
            let message = format!("stdout is a stream of {events} events");
            return judge.broken(&SCHEMA_IS_STREAM, message, run);
        }
        Document::Empty => return judge.broken(&SCHEMA_NOT_JSON, "stdout is empty", run),
        Document::Other(line) => {
            let message = format!("stdout is not one JSON document; it starts with `{line}`");
            return judge.broken(&SCHEMA_NOT_JSON, message, run);
        }
    }
    let Some(document) = answer.json() else {
        return;
    };
    let line = answer.words.join(" ");
    let odd_name = (answer.kind == Kind::Flag)
        .then(|| format!("only the flag `{line}` works; add the subcommand"));
    judge.held(&SCHEMA_NAME, &format!("`{line}` works"), odd_name, run);
    content(session, judge, document, run);
    tokio::join!(
        elsewhere(session, answer, document),
        forms(session, &SCHEMA, answer)
    );
}

pub(super) static SCHEMA_INVALID: Rule = Rule {
    id: "AOI-01.schema-invalid",
    check: Check::Number(1),
    level: Level::Must,
    section: "§18.2",
    demands: "The schema is valid according to the meta-schema of its `$schema` (default: 2020-12)",
    why: "A schema that validators reject cannot be used.",
    hint: "Validate it against the meta-schema in your tests.",
    topic: Topic::Discovery,
    register: &["AOI-18.2-01", "AOI-10.1-01"],
};

pub(super) static SCHEMA_REFERENCE: Rule = Rule {
    id: "AOI-01.schema-reference",
    check: Check::Number(1),
    level: Level::Must,
    section: "§18.2",
    demands: "Every reference within the schema can be resolved",
    why: "A validator stops at a reference that it cannot resolve.",
    hint: "Correct the `$ref`, or add the definition.",
    topic: Topic::Discovery,
    register: &["AOI-18.2-01"],
};

pub(super) static SCHEMA_REMOTE: Rule = Rule {
    id: "AOI-01.schema-remote-reference",
    check: Check::Number(1),
    level: Level::Must,
    section: "§3",
    demands: "The schema contains everything that it refers to",
    why: "Discovery works offline, so a part that must be fetched is missing.",
    hint: "Move the referenced part into `$defs`.",
    topic: Topic::Discovery,
    register: &["AOI-3-01", "AOI-3.1-02"],
};

pub(super) static SCHEMA_FILE_ID: Rule = Rule {
    id: "AOI-01.schema-file-id",
    check: Check::Number(1),
    level: Level::Must,
    section: "§10.2",
    demands: "`$id` is not a `file:` URL, unless the schema is declared local",
    why: "A local path has no meaning on another machine.",
    hint: "Use an https URL that contains the version, or set `local_only_schema: true` in the \
           probe file.",
    topic: Topic::Discovery,
    register: &["AOI-10.2-01"],
};

pub(super) static SCHEMA_MAP: Rule = Rule {
    id: "AOI-01.schema-map",
    check: Check::Number(1),
    level: Level::Open,
    section: "§10.1, §23",
    demands: "`schema` prints one schema that applies to every event",
    why: "With a list or a map of schemas, a caller must know which one applies.",
    hint: "Put the parts into `$defs` of one schema and select by `type`.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

/// Checks the content of the schema.
fn content(session: &Session, judge: Judge, document: &Value, run: &Capture) {
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
            judge.not_applicable(&SCHEMA_FILE_ID, "the schema is declared local");
        }
        file => {
            let wrong =
                file.map(|id| format!("`$id` is the local path `{}`", schema::shortened(&id)));
            judge.held(&SCHEMA_FILE_ID, "no `$id` is a `file:` URL", wrong, run);
        }
    }
    let read = EventSchema::read(document);
    let (mut invalid, mut dangling, mut remote) = (None, None, None);
    let mut unread = None;
    match &read {
        Ok(_) => {}
        Err(Wrong::NoSchema(why)) => invalid = Some(format!("not a JSON Schema: {why}")),
        Err(Wrong::Invalid(why)) => invalid = Some(format!("not a valid JSON Schema: {why}")),
        Err(Wrong::Dangling(what)) => {
            dangling = Some(format!("cannot resolve the reference: {what}"))
        }
        Err(Wrong::Remote(uri)) => remote = Some(format!("`{uri}` is a remote reference")),
        Err(Wrong::Dialect(why)) => unread = Some(format!("unknown dialect in `$schema`: {why}")),
    }
    if let Some(why) = unread {
        for rule in [&SCHEMA_INVALID, &SCHEMA_REFERENCE, &SCHEMA_REMOTE] {
            judge.not_verified(rule, why.clone());
        }
        return;
    }
    // An earlier problem hides later ones.
    let known = [invalid.is_none(), dangling.is_none()];
    judge.held(
        &SCHEMA_INVALID,
        "valid according to its meta-schema",
        invalid,
        run,
    );
    if known != [true, true] || remote.is_none() {
        match known {
            [false, _] => judge.not_verified(&SCHEMA_REFERENCE, "the schema is not valid"),
            _ => judge.held(
                &SCHEMA_REFERENCE,
                "every reference within the schema can be resolved",
                dangling,
                run,
            ),
        }
    } else {
        judge.not_verified(&SCHEMA_REFERENCE, "a remote reference is missing");
    }
    match known {
        [true, true] => judge.held(
            &SCHEMA_REMOTE,
            "the schema has no remote references",
            remote,
            run,
        ),
        _ => judge.not_verified(&SCHEMA_REMOTE, "the schema is not valid"),
    }
    if let Ok(schema) = read {
        let several = (schema.form == Form::Several)
            .then(|| "it is a list or map of schemas, one per event type".to_owned());
        judge.held(&SCHEMA_MAP, "it is one schema", several, run);
    }
}

pub(super) static SCHEMA_UNSTABLE: Rule = Rule {
    id: "AOI-01.schema-unstable",
    check: Check::Number(1),
    level: Level::Must,
    section: "§3.2",
    demands: "The schema does not depend on the working directory",
    why: "A schema that depends on the directory is not a contract of the tool.",
    hint: "Do not read files from the working directory.",
    topic: Topic::Discovery,
    register: &["AOI-3.2-02"],
};

/// Runs discovery in another working directory with the same home directory.
async fn elsewhere(session: &Session, answer: &Answer, document: &Value) {
    let judge = session.judge(TOOL);
    let (Ok(home), Ok(other)) = (session.world(), session.world()) else {
        return judge.not_verified(&SCHEMA_UNSTABLE, "another directory could not be created");
    };
    let there = in_directory(session, answer, &home, Some(&other)).await;
    let Some(there) = there else {
        let message = "it prints no schema in another working directory";
        return judge.broken(&SCHEMA_UNSTABLE, message, &answer.capture);
    };
    if there == *document {
        return judge.pass(
            &SCHEMA_UNSTABLE,
            "it is the same in another working directory",
        );
    }
    // The document may contain the home directory or the time, which the working directory does not
    // affect.
    let here = in_directory(session, answer, &home, None).await;
    if here == Some(there) {
        return judge.pass(
            &SCHEMA_UNSTABLE,
            "it is the same in another working directory",
        );
    }
    let again = in_directory(session, answer, &home, None).await;
    if here != again {
        let why = "it differs in every run, in any directory";
        return judge.not_verified(&SCHEMA_UNSTABLE, why);
    }
    let message = "it is different in another working directory";
    judge.broken(&SCHEMA_UNSTABLE, message, &answer.capture);
}

async fn in_directory(
    session: &Session,
    answer: &Answer,
    home: &World,
    elsewhere: Option<&World>,
) -> Option<Value> {
    let mut env = Vec::new();
    if elsewhere.is_some() {
        env = home.environment();
        let root = home.root.to_string_lossy();
        let own = session.probe.env.iter();
        let own = own.filter(|(name, _)| !session.probe.credentials.env.contains(name));
        env.extend(own.map(|(name, value)| (name.clone(), value.replace("{world}", &root))));
    }
    let how = How {
        isolated: true,
        human: true,
        limit: Some(session.options.discovery_limit),
        world: Some(elsewhere.unwrap_or(home).clone()),
        env,
        ..How::default()
    };
    let run = session
        .run(TOOL, "discovery in another directory", &answer.words, how)
        .await;
    match document::read(&run.stdout).0 {
        Document::Json(value) if run.end.is_success() => Some(value),
        _ => None,
    }
}
