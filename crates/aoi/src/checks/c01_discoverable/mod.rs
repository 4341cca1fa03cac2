//! Check 1: schema and capabilities without credentials and without a network.

mod document;
mod rules;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use super::{c13_versioned, when};
use crate::capture::Capture;
use crate::model::TOOL;
use crate::rules::Rule;
use crate::run::World;
use crate::schema::{self, EventSchema, Form, Wrong};
use crate::session::{Declared, How, Judge, Session};
use document::Document;
use rules::*;
use ways::{Answer, Kind, Topic};

pub const RULES: &[&Rule] = rules::ALL;

const SCHEMA: Topic = Topic {
    word: "schema",
    fails: &SCHEMA_FAILS,
    hangs: &SCHEMA_HANGS,
    network: &SCHEMA_NETWORK,
    credentials: &SCHEMA_CREDENTIALS,
    forms: &SCHEMA_FORMS,
};
const CAPABILITIES: Topic = Topic {
    word: "capabilities",
    fails: &CAPABILITIES_FAIL,
    hangs: &CAPABILITIES_HANG,
    network: &CAPABILITIES_NETWORK,
    credentials: &CAPABILITIES_CREDENTIALS,
    forms: &CAPABILITIES_FORMS,
};

/// Asks the tool about itself; what it said is what the other checks build on.
pub async fn check(session: &Session) {
    let (schema, capabilities) = tokio::join!(
        ways::find(session, &SCHEMA),
        ways::find(session, &CAPABILITIES)
    );
    let manifest = capabilities.as_ref().and_then(Answer::json).cloned();
    // Others need the answers, but not what is thought of them.
    let is_judged = session.wants(1) || session.wants_advisory();
    let by_version = async {
        match is_judged || session.wants(4) || session.wants(13) {
            true => by_version(session, schema.as_ref(), manifest.as_ref()).await,
            false => BTreeMap::new(),
        }
    };
    let (by_version, (), ()) = tokio::join!(
        by_version,
        when(is_judged, judge_schema(session, schema.as_ref())),
        when(
            is_judged,
            judge_capabilities(session, capabilities.as_ref(), schema.as_ref())
        ),
    );
    let mut declared = Declared {
        capabilities: manifest.filter(Value::is_object),
        schemas: by_version,
    };
    if let Some(document) = schema.as_ref().and_then(Answer::json) {
        declared.schemas.insert(String::new(), document.clone());
    }
    let _ = session.declared.set(declared);
}

/// The schema of each version that can be asked for.
async fn by_version(
    session: &Session,
    schema: Option<&Answer>,
    manifest: Option<&Value>,
) -> BTreeMap<String, Value> {
    let Some(way) = schema.filter(|answer| answer.json().is_some()) else {
        return BTreeMap::new();
    };
    let flag = c13_versioned::flag(&session.probe);
    let versions = c13_versioned::versions(&session.probe, manifest);
    let runs = versions.into_iter().map(|version| {
        let words = [way.words.clone(), vec![flag.clone(), version.clone()]].concat();
        async move {
            let run = ways::ask(session, &words, None).await;
            match document::read(&run.stdout).0 {
                Document::Json(value) if run.end.is_success() => Some((version, value)),
                _ => None,
            }
        }
    });
    join_all(runs).await.into_iter().flatten().collect()
}

/// It answered behind the walls; which of them stood is another matter.
fn answered(session: &Session, topic: &Topic, answer: &Answer) {
    let judge = session.judge(TOOL);
    let line = answer.words.join(" ");
    judge.pass(topic.fails, format!("`{line}` exits 0"));
    judge.pass(topic.hangs, "it ends");
    if answer.json().is_none() {
        let why = "nothing that could have come over a network was printed";
        judge.not_verified(topic.network, why);
        return judge.not_verified(topic.credentials, why);
    }
    match &session.isolation.no_network_walls {
        Some(why) => judge.not_verified(topic.network, format!("no walls: {why}")),
        None => judge.pass(topic.network, "it works without a network"),
    }
    let sockets = session.isolation.no_socket_walls.as_ref();
    match session.isolation.no_credential_walls.as_ref().or(sockets) {
        Some(why) => judge.not_verified(topic.credentials, format!("no walls: {why}")),
        None => judge.pass(topic.credentials, "it works without credentials"),
    }
}

async fn judge_schema(session: &Session, answer: Option<&Answer>) {
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

/// The flag and the subcommand, where there are both.
async fn forms(session: &Session, topic: &Topic, answer: &Answer) {
    let judge = session.judge(TOOL);
    if answer.kind == Kind::Flag {
        if let Some(run) = ways::failing_command(session, topic).await {
            let message = format!(
                "`{}` works, and the subcommand does not: {}",
                answer.words.join(" "),
                run.end.told()
            );
            return judge.broken(topic.forms, message, &run);
        }
        return judge.not_applicable(topic.forms, "there is only the flag");
    }
    let Some(flag) = ways::by_flag(session, topic).await else {
        let why = format!("there is no flag `--{}`", topic.word);
        return judge.not_applicable(topic.forms, why);
    };
    if flag.json() == answer.json() {
        return judge.pass(topic.forms, "the flag and the subcommand print the same");
    }
    if ways::ignores_flags(session, &flag).await {
        let why = format!("`--{}` is answered as any unknown flag is", topic.word);
        return judge.not_applicable(topic.forms, why);
    }
    let (one, other) = (answer.words.join(" "), flag.words.join(" "));
    let message = format!("`{one}` and `{other}` print different documents");
    judge.broken(topic.forms, message, &flag.capture);
}

async fn judge_capabilities(session: &Session, answer: Option<&Answer>, schema: Option<&Answer>) {
    let Some(answer) = answer else {
        return;
    };
    let judge = session.judge(TOOL);
    if answer.json().is_none() && !is_advertised(session).await {
        let why = "the tool does not say that it has `capabilities`";
        return judge.not_applicable(&CAPABILITIES_FAIL, why);
    }
    if !answer.capture.end.is_success() {
        return ways::diagnose(session, &CAPABILITIES, answer).await;
    }
    answered(session, &CAPABILITIES, answer);
    let run = &answer.capture;
    let begins = match &answer.document {
        Document::Empty => Some("nothing was printed".to_owned()),
        Document::Other(line) => Some(format!(
            "stdout is not one JSON document; it begins with `{line}`"
        )),
        _ if answer.coloured => Some("there are escape sequences in it".to_owned()),
        _ => None,
    };
    let is_json = begins.is_none();
    judge.held(
        &CAPABILITIES_NOT_JSON,
        "it is one JSON document",
        begins,
        run,
    );
    if !is_json {
        return;
    }
    let same = answer.json().is_some() && schema.and_then(Answer::json) == answer.json();
    let odd = match &answer.document {
        Document::Stream(events) => Some(format!("it is a stream of {events} events")),
        _ if same => Some("it is the same document as the schema".to_owned()),
        Document::Json(value) if !value.is_object() => Some("it is no object".to_owned()),
        _ => None,
    };
    let is_object = odd.is_none();
    judge.held(&CAPABILITIES_NOT_OBJECT, "it is one object", odd, run);
    if let (true, Some(manifest)) = (is_object, answer.json()) {
        let odd = document::odd_shape(manifest);
        let wrong = (!odd.is_empty()).then(|| schema::shortened(&odd.join("; ")));
        judge.held(&CAPABILITIES_SHAPE, "its fields are as in §17", wrong, run);
    }
    forms(session, &CAPABILITIES, answer).await;
}

/// Whether the tool speaks of its capabilities anywhere.
async fn is_advertised(session: &Session) -> bool {
    let run: Arc<Capture> = ways::ask(session, &["--help".to_owned()], None).await;
    let text = [run.stdout.as_slice(), run.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).contains("capabilities")
}
