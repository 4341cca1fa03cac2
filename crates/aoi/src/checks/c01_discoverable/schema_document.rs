//! The document that `schema` gives.

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
    demands: "The schema is had by `schema --output json`, or by `aoi-schema` where `schema` is taken",
    why: "Callers try the names that the convention has.",
    hint: "Add a subcommand `schema`; a flag `--schema` may stay beside it.",
    topic: Topic::Discovery,
    register: &["AOI-3-03", "AOI-3-04", "AOI-16.4-02", "AOI-16.4-04"],
};

pub(super) static SCHEMA_NOT_JSON: Rule = Rule {
    id: "AOI-01.schema-not-json",
    check: Check::Number(1),
    level: Level::Must,
    section: "§10.1",
    demands: "`schema --output json` prints one JSON document and nothing else",
    why: "A caller parses the whole of stdout.",
    hint: "Print the document only; greetings and notes go to stderr.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

pub(super) static SCHEMA_IS_STREAM: Rule = Rule {
    id: "AOI-01.schema-is-stream",
    check: Check::Number(1),
    level: Level::Must,
    section: "§10.1",
    demands: "`schema --output json` prints a schema, not a stream of events",
    why: "With `json` a caller expects one document; a stream has to be unpacked first.",
    hint: "Wrap nothing: print the schema itself.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

pub(super) static SCHEMA_ANSI: Rule = Rule {
    id: "AOI-01.schema-ansi",
    check: Check::Number(1),
    level: Level::Must,
    section: "§2",
    demands: "The schema is printed without colours",
    why: "Escape sequences make it no JSON.",
    hint: "Colour nothing where machines read.",
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
        .then(|| "there are escape sequences in it".to_owned());
    judge.held(
        &SCHEMA_ANSI,
        "there is no escape sequence in it",
        coloured,
        run,
    );
    match &answer.document {
        Document::Json(_) => {
            judge.pass(&SCHEMA_NOT_JSON, "it is one JSON document");
            judge.pass(&SCHEMA_IS_STREAM, "it is no stream");
        }
        Document::Stream(events) => {
            let message = format!("it is a stream of {events} events");
            return judge.broken(&SCHEMA_IS_STREAM, message, run);
        }
        Document::Empty => return judge.broken(&SCHEMA_NOT_JSON, "nothing was printed", run),
        Document::Other(line) => {
            let message = format!("stdout is not one JSON document; it begins with `{line}`");
            return judge.broken(&SCHEMA_NOT_JSON, message, run);
        }
    }
    let Some(document) = answer.json() else {
        return;
    };
    let line = answer.words.join(" ");
    let odd_name = (answer.kind == Kind::Flag)
        .then(|| format!("only the flag works: `{line}`; there is no subcommand"));
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
    demands: "The schema is valid by the meta-schema of its `$schema` (2020-12 where it names none)",
    why: "A schema that no validator takes protects nobody.",
    hint: "Run a validator with the meta-schema over it in your tests.",
    topic: Topic::Discovery,
    register: &["AOI-18.2-01", "AOI-10.1-01"],
};

pub(super) static SCHEMA_REFERENCE: Rule = Rule {
    id: "AOI-01.schema-reference",
    check: Check::Number(1),
    level: Level::Must,
    section: "§18.2",
    demands: "Every reference inside the schema leads somewhere",
    why: "A validator stops at a reference to nothing.",
    hint: "Correct the `$ref`, or add the definition.",
    topic: Topic::Discovery,
    register: &["AOI-18.2-01"],
};

pub(super) static SCHEMA_REMOTE: Rule = Rule {
    id: "AOI-01.schema-remote-reference",
    check: Check::Number(1),
    level: Level::Must,
    section: "§3",
    demands: "The schema holds all that it refers to",
    why: "Discovery works offline; a part that must be fetched is missing then.",
    hint: "Put the part into `$defs`.",
    topic: Topic::Discovery,
    register: &["AOI-3-01", "AOI-3.1-02"],
};

pub(super) static SCHEMA_FILE_ID: Rule = Rule {
    id: "AOI-01.schema-file-id",
    check: Check::Number(1),
    level: Level::Must,
    section: "§10.2",
    demands: "`$id` is no `file:` address, unless the schema is declared local",
    why: "A path of one machine names nothing on another.",
    hint: "Use an https address with the version in it, or `local_only_schema: true` in the probe file.",
    topic: Topic::Discovery,
    register: &["AOI-10.2-01"],
};

pub(super) static SCHEMA_MAP: Rule = Rule {
    id: "AOI-01.schema-map",
    check: Check::Number(1),
    level: Level::Open,
    section: "§10.1, §23",
    demands: "`schema` prints one schema that any event can be held against",
    why: "With a list or a map a caller has to know which part is meant.",
    hint: "Put the parts into `$defs` of one schema and select by `type`.",
    topic: Topic::Discovery,
    register: &["AOI-10.1-01"],
};

/// The schema itself.
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
            let wrong = file.map(|id| format!("`$id` is `{}`", schema::shortened(&id)));
            judge.held(&SCHEMA_FILE_ID, "no `$id` is a `file:` address", wrong, run);
        }
    }
    let read = EventSchema::read(document);
    let (mut invalid, mut dangling, mut remote) = (None, None, None);
    let mut unread = None;
    match &read {
        Ok(_) => {}
        Err(Wrong::NoSchema(why)) => invalid = Some(format!("it is no JSON Schema: {why}")),
        Err(Wrong::Invalid(why)) => invalid = Some(format!("it is no valid JSON Schema: {why}")),
        Err(Wrong::Dangling(what)) => dangling = Some(format!("there is no such part: {what}")),
        Err(Wrong::Remote(uri)) => remote = Some(format!("`{uri}` would have to be fetched")),
        Err(Wrong::Dialect(why)) => unread = Some(format!("its dialect is not known here: {why}")),
    }
    if let Some(why) = unread {
        for rule in [&SCHEMA_INVALID, &SCHEMA_REFERENCE, &SCHEMA_REMOTE] {
            judge.not_verified(rule, why.clone());
        }
        return;
    }
    // What comes later cannot be seen where something earlier is wrong.
    let known = [invalid.is_none(), dangling.is_none()];
    judge.held(
        &SCHEMA_INVALID,
        "it is valid by its meta-schema",
        invalid,
        run,
    );
    if known != [true, true] || remote.is_none() {
        match known {
            [false, _] => judge.not_verified(&SCHEMA_REFERENCE, "it is no valid schema"),
            _ => judge.held(
                &SCHEMA_REFERENCE,
                "every reference inside resolves",
                dangling,
                run,
            ),
        }
    } else {
        judge.not_verified(&SCHEMA_REFERENCE, "a part is missing");
    }
    match known {
        [true, true] => judge.held(&SCHEMA_REMOTE, "it holds all its parts", remote, run),
        _ => judge.not_verified(&SCHEMA_REMOTE, "it is no valid schema"),
    }
    if let Ok(schema) = read {
        let several = (schema.form == Form::Several)
            .then(|| "it is a collection of schemas, one per event type".to_owned());
        judge.held(&SCHEMA_MAP, "it is one schema", several, run);
    }
}

pub(super) static SCHEMA_UNSTABLE: Rule = Rule {
    id: "AOI-01.schema-unstable",
    check: Check::Number(1),
    level: Level::Must,
    section: "§3.2",
    demands: "The schema is the same wherever it is asked for",
    why: "What depends on the directory is not a contract of the tool.",
    hint: "Read nothing from the working directory.",
    topic: Topic::Discovery,
    register: &["AOI-3.2-02"],
};

/// The same in another directory, with the same home.
async fn elsewhere(session: &Session, answer: &Answer, document: &Value) {
    let judge = session.judge(TOOL);
    let (Ok(home), Ok(other)) = (session.world(), session.world()) else {
        return judge.not_verified(&SCHEMA_UNSTABLE, "no other directory could be made");
    };
    let there = in_directory(session, answer, &home, Some(&other)).await;
    let Some(there) = there else {
        let message = "in another directory it prints no schema";
        return judge.broken(&SCHEMA_UNSTABLE, message, &answer.capture);
    };
    if there == *document {
        return judge.pass(&SCHEMA_UNSTABLE, "in another directory it is the same");
    }
    // It may name the home, or the time: then directories have nothing to do with it.
    let here = in_directory(session, answer, &home, None).await;
    if here == Some(there) {
        return judge.pass(&SCHEMA_UNSTABLE, "in another directory it is the same");
    }
    let again = in_directory(session, answer, &home, None).await;
    if here != again {
        let why = "it is another one each time, wherever it is asked for";
        return judge.not_verified(&SCHEMA_UNSTABLE, why);
    }
    let message = "in another directory it is another schema";
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
        .run(TOOL, "discovery elsewhere", &answer.words, how)
        .await;
    match document::read(&run.stdout).0 {
        Document::Json(value) if run.end.is_success() => Some(value),
        _ => None,
    }
}
