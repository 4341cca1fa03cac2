//! Check 1: `schema` and `capabilities` work without credentials and without a network.

mod capabilities;
mod document;
mod invocations;
mod listed;
mod schema_document;
mod side_effects;

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::Value;

use super::{c13_versioned, run_if};
use crate::mismatch;
use crate::model::{CheckId, TOOL};
use crate::rules::{Level, Rule, Topic};
use crate::session::{Declarations, LintSession};
use capabilities::{
    CAPABILITIES_FAIL, CAPABILITIES_NOT_JSON, CAPABILITIES_NOT_OBJECT, CAPABILITIES_SHAPE,
    check_capabilities,
};
use document::DiscoveryOutput;
use invocations::{DiscoveryRules, DiscoveryRun, InvocationKind};
use schema_document::{
    SCHEMA_ANSI, SCHEMA_FILE_ID, SCHEMA_INVALID, SCHEMA_IS_STREAM, SCHEMA_MAP, SCHEMA_NAME,
    SCHEMA_NOT_JSON, SCHEMA_REFERENCE, SCHEMA_REMOTE, SCHEMA_UNSTABLE, check_schema,
};

pub const RULES: &[&Rule] = &[
    &SCHEMA_FAILS,
    &SCHEMA_HANGS,
    &SCHEMA_NETWORK,
    &SCHEMA_CREDENTIALS,
    &SCHEMA_NAME,
    &SCHEMA_NOT_JSON,
    &SCHEMA_IS_STREAM,
    &SCHEMA_ANSI,
    &SCHEMA_INVALID,
    &SCHEMA_REFERENCE,
    &SCHEMA_REMOTE,
    &SCHEMA_FILE_ID,
    &SCHEMA_MAP,
    &SCHEMA_UNSTABLE,
    &SCHEMA_FORMS,
    &CAPABILITIES_FAIL,
    &CAPABILITIES_HANG,
    &CAPABILITIES_NETWORK,
    &CAPABILITIES_CREDENTIALS,
    &CAPABILITIES_NOT_JSON,
    &CAPABILITIES_NOT_OBJECT,
    &CAPABILITIES_SHAPE,
    &CAPABILITIES_FORMS,
    &listed::MISSING,
    &side_effects::WRITES,
    &side_effects::ATTEMPTS,
    &mismatch::UNPROBED,
];

const EMBED: &str = "Embed the document in the program, or read it from the installation \
                     directory.";

const ALONE: &str = "An agent calls discovery before it has logged in, and often without a \
                     network.";

static SCHEMA_FAILS: Rule = Rule {
    id: "AOI-01.schema-fails",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3.2",
    requirement: "`schema --output json` exits 0 without arguments, configuration or a separate schema file",
    why: "Callers start here to learn what the tool prints.",
    hint: "Add a command `schema` that prints the JSON Schema of the events. Embed the schema in \
           the program, or read it from the installation directory.",
    topic: Topic::Discovery,
    requirement_ids: &[
        "AOI-3-01",
        "AOI-3.1-02",
        "AOI-3.1-03",
        "AOI-3.2-02",
        "AOI-3.2-05",
        "AOI-16.2-01",
        "AOI-18.2-01",
        "AOI-19-02",
    ],
};

static SCHEMA_HANGS: Rule = Rule {
    id: "AOI-01.schema-hangs",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3.2",
    requirement: "`schema --output json` terminates",
    why: "A caller that waits forever learns nothing.",
    hint: "Print the schema without waiting for a terminal, a network or a lock.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-01"],
};

static SCHEMA_NETWORK: Rule = Rule {
    id: "AOI-01.schema-network",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3.2",
    requirement: "`schema` works without a network",
    why: ALONE,
    hint: EMBED,
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-01", "AOI-3.2-03"],
};

static SCHEMA_CREDENTIALS: Rule = Rule {
    id: "AOI-01.schema-credentials",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3.2",
    requirement: "`schema` works without a login, without secrets in the environment and without \
              credential files",
    why: ALONE,
    hint: "Handle `schema` before looking for credentials.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-01", "AOI-3.2-01", "AOI-3.2-04"],
};

static SCHEMA_FORMS: Rule = Rule {
    id: "AOI-01.schema-forms-differ",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3",
    requirement: "If `schema` and `--schema` both exist, they print the same document",
    why: "With two different documents, a caller cannot know which one is valid.",
    hint: "Use the same code for both.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-05", "AOI-3-04"],
};

const SCHEMA: DiscoveryRules = DiscoveryRules {
    word: "schema",
    fails: &SCHEMA_FAILS,
    hangs: &SCHEMA_HANGS,
    network: &SCHEMA_NETWORK,
    credentials: &SCHEMA_CREDENTIALS,
    forms: &SCHEMA_FORMS,
};

static CAPABILITIES_HANG: Rule = Rule {
    id: "AOI-01.capabilities-hangs",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3",
    requirement: "`capabilities --output json` terminates",
    why: "A caller that waits forever learns nothing.",
    hint: "Print the capabilities without waiting for a terminal, a network or a lock.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-02"],
};

static CAPABILITIES_NETWORK: Rule = Rule {
    id: "AOI-01.capabilities-network",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3",
    requirement: "`capabilities` works without a network",
    why: ALONE,
    hint: EMBED,
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-02"],
};

static CAPABILITIES_CREDENTIALS: Rule = Rule {
    id: "AOI-01.capabilities-credentials",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3",
    requirement: "`capabilities` works without a login, without secrets in the environment and \
              without credential files",
    why: ALONE,
    hint: "Handle `capabilities` before looking for credentials.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-02"],
};

static CAPABILITIES_FORMS: Rule = Rule {
    id: "AOI-01.capabilities-forms-differ",
    check: CheckId::Number(1),
    level: Level::Must,
    section: "§3",
    requirement: "If `capabilities` and `--capabilities` both exist, they print the same document",
    why: "With two different documents, a caller cannot know which one is valid.",
    hint: "Use the same code for both.",
    topic: Topic::Discovery,
    requirement_ids: &["AOI-3-05", "AOI-3-04"],
};

const CAPABILITIES: DiscoveryRules = DiscoveryRules {
    word: "capabilities",
    fails: &CAPABILITIES_FAIL,
    hangs: &CAPABILITIES_HANG,
    network: &CAPABILITIES_NETWORK,
    credentials: &CAPABILITIES_CREDENTIALS,
    forms: &CAPABILITIES_FORMS,
};

/// Runs discovery. The other checks use the documents that it returns.
pub async fn check(session: &LintSession) {
    let (schema, capabilities) = tokio::join!(
        invocations::discover(session, &SCHEMA),
        invocations::discover(session, &CAPABILITIES)
    );
    let manifest = capabilities.as_ref().and_then(DiscoveryRun::json).cloned();
    // Other checks need the documents, but not the verdicts on them.
    let is_checked = session.is_selected(1) || session.is_advisory_selected();
    let by_version = async {
        match is_checked || session.is_selected(4) || session.is_selected(13) {
            true => by_version(session, schema.as_ref(), manifest.as_ref()).await,
            false => BTreeMap::new(),
        }
    };
    let (by_version, (), (), ()) = tokio::join!(
        by_version,
        run_if(is_checked, check_schema(session, schema.as_ref())),
        run_if(
            is_checked,
            check_capabilities(session, capabilities.as_ref(), schema.as_ref())
        ),
        run_if(
            is_checked,
            side_effects::check(session, schema.as_ref(), capabilities.as_ref())
        ),
    );
    let mut declared = Declarations {
        capabilities: manifest.filter(Value::is_object),
        schemas: by_version,
    };
    if let Some(document) = schema.as_ref().and_then(DiscoveryRun::json) {
        declared.schemas.insert(String::new(), document.clone());
    }
    let _ = session.declared.set(declared);
}

/// The schema of each version that can be requested.
async fn by_version(
    session: &LintSession,
    schema: Option<&DiscoveryRun>,
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
            let run = invocations::run_isolated(session, &words, None).await;
            match document::read(&run.stdout).0 {
                DiscoveryOutput::Json(value) if run.end.is_success() => Some((version, value)),
                _ => None,
            }
        }
    });
    join_all(runs).await.into_iter().flatten().collect()
}

/// Reports a discovery run that exited 0, depending on which parts of the isolation work.
fn report_success(session: &LintSession, topic: &DiscoveryRules, answer: &DiscoveryRun) {
    let reporter = session.reporter(TOOL);
    let line = answer.words.join(" ");
    reporter.pass(topic.fails, format!("`{line}` exits 0"));
    reporter.pass(topic.hangs, "it terminates");
    if answer.json().is_none() {
        let why = "stdout has no JSON document that could have come from a network";
        reporter.not_verified(topic.network, why);
        return reporter.not_verified(topic.credentials, why);
    }
    match &session.isolation.no_network_isolation {
        Some(why) => reporter.not_verified(topic.network, format!("no isolation: {why}")),
        None => reporter.pass(topic.network, "it works without a network"),
    }
    let sockets = session.isolation.no_socket_isolation.as_ref();
    match session
        .isolation
        .no_credential_isolation
        .as_ref()
        .or(sockets)
    {
        Some(why) => reporter.not_verified(topic.credentials, format!("no isolation: {why}")),
        None => reporter.pass(topic.credentials, "it works without credentials"),
    }
}

/// Compares the flag and the subcommand, if both exist.
async fn compare_forms(session: &LintSession, topic: &DiscoveryRules, answer: &DiscoveryRun) {
    let reporter = session.reporter(TOOL);
    if answer.kind == InvocationKind::Flag {
        if let Some(run) = invocations::failing_command(session, topic).await {
            let message = format!(
                "`{}` works, but the subcommand does not: {}",
                answer.words.join(" "),
                run.end.describe()
            );
            return reporter.violation(topic.forms, message, &run);
        }
        return reporter.not_applicable(topic.forms, "only the flag exists");
    }
    let Some(flag) = invocations::by_flag(session, topic).await else {
        let why = format!("the flag `--{}` does not exist", topic.word);
        return reporter.not_applicable(topic.forms, why);
    };
    if flag.json() == answer.json() {
        return reporter.pass(
            topic.forms,
            "the flag and the subcommand print the same document",
        );
    }
    if invocations::ignores_flags(session, &flag).await {
        let why = format!("`--{}` is treated like an unknown flag", topic.word);
        return reporter.not_applicable(topic.forms, why);
    }
    let (one, other) = (answer.words.join(" "), flag.words.join(" "));
    let message = format!("`{one}` and `{other}` print different documents");
    reporter.violation(topic.forms, message, &flag.capture);
}
