//! Compares what the manifest declares with what the live agent negotiates, on raw JSON. Declaring
//! more than the agent negotiates is a violation. Declaring less is a warning.

use serde_json::{Value, json};

use super::context::{MARKER, ProbeContext};
use crate::monitor::MonitorRunner;
use crate::run::case::NoVerdict;
use crate::run::connection::{Connection, ReceivedMessage};
use crate::suite::ClientBehavior;
use agentproto_manifest::views::View;
use agentproto_manifest::{Disk, Document, RefRole, Workspace, to_json};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::error::Code;

/// Capabilities that AIP-44 names. Others need not be declared.
const FAMILIES: [&str; 3] = ["/loadSession", "/promptCapabilities/", "/mcpCapabilities/"];

pub async fn capabilities(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    match probe.subject.target.ready().await {
        Ok(_) if probe.subject.target.protocol() == "acp" => probe.pass("A45-CAP-09", &[]),
        Ok(_) => {}
        Err(error) if error.code == Code::CapabilityMismatch => {
            let line = probe.note_error(&error);
            let what = format!("capability_mismatch: {}", error.message);
            let by_mode = error.details.get("declared") == Some(&json!("/session/mode"));
            let id = if by_mode { "A45-SESS-08" } else { "A45-CAP-09" };
            probe.violation(id, what.clone(), &[line]);
            return Err(NoVerdict::NotVerified(what));
        }
        Err(error) => return Err(probe.no_verdict_for(&error)),
    }
    match probe.subject.target.protocol() {
        "acp" => acp(probe).await,
        "mcp" => mcp(probe).await,
        _ => {
            let why = "proprietary protocols do not negotiate capabilities";
            Err(NoVerdict::NotApplicable(why.to_owned()))
        }
    }
}

async fn connect(probe: &ProbeContext<'_>) -> Result<Connection, NoVerdict> {
    let cwd = probe.work();
    std::fs::create_dir_all(&cwd)
        .map_err(|error| NoVerdict::Error(format!("cannot create a directory: {error}")))?;
    let env = [(MARKER.to_owned(), probe.subject.marker.clone())];
    let so_far = (probe.log.take(), probe.log.started);
    let launcher = &probe.config.launcher;
    let watch = MonitorRunner::new(Vec::new());
    let answers = ClientBehavior::default();
    let root = &probe.root;
    let started = Connection::start(launcher, &cwd, &env, watch, &answers, root, so_far).await;
    started.map_err(|(error, transcript)| {
        probe.log.put_back(transcript);
        NoVerdict::NotVerified(error.to_string())
    })
}

async fn ask(
    probe: &mut ProbeContext<'_>,
    connection: &mut Connection,
    method: &str,
    params: Value,
) -> Result<ReceivedMessage, NoVerdict> {
    let timeout = probe.config.timeout;
    let asked = connection
        .request(method, Some(params), None, timeout)
        .await;
    let answer = match asked {
        Ok((id, _)) => connection.answer(&id, timeout).await,
        Err(no_response) => Err(no_response),
    };
    answer.map_err(|no_response| {
        NoVerdict::NotVerified(format!("`{method}` was not answered: {no_response}"))
    })
}

/// Ends the connection, whatever the result.
async fn end_process(probe: &mut ProbeContext<'_>, connection: Connection) {
    probe.outcome.agent += connection.waited;
    let (transcript, notes) = connection.finish(probe.config.grace).await;
    probe.log.put_back(transcript);
    probe.outcome.notes.push(notes);
}

async fn acp(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let mut connection = connect(probe).await?;
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": {"name": "agentproto", "version": env!("CARGO_PKG_VERSION")},
    });
    let answer = ask(probe, &mut connection, "initialize", params).await;
    end_process(probe, connection).await;
    let answer = answer?;
    let lines = [answer.line];
    let Some(result) = answer.json.get("result") else {
        let why = crate::model::NO_INITIALIZE.to_owned();
        return Err(NoVerdict::NotVerified(why));
    };
    probe.outcome.initialize = result.clone();
    let live = result
        .get("agentCapabilities")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let bundle = probe.subject.target.bundle.clone();
    against_acp_md(probe, &bundle, &live, &lines);
    against_manifest(probe, &bundle, &live, &lines);
    Ok(())
}

fn against_acp_md(probe: &mut ProbeContext<'_>, bundle: &Bundle, live: &Value, lines: &[u64]) {
    let reference = bundle.agent().and_then(|agent| agent.acp());
    let workspace = Workspace::new(&Disk, "/");
    let found = reference.map(|r| workspace.resolve(&bundle.manifest, RefRole::Acp, r));
    let Some(doc) = found.as_ref().and_then(|found| found.document()) else {
        let why = "ACP.md is missing or unreadable".to_owned();
        for id in ["A44-CONF-05", "A44-TRANS-03"] {
            probe.undecided(id, NoVerdict::NotApplicable(why.clone()));
        }
        return;
    };
    let (declared, transports) = declared(doc);
    let (more, less) = compare(&declared, live);
    let shown = probe.note(&json!({"declared": declared, "negotiated": live}));
    let lines: Vec<u64> = lines.iter().copied().chain([shown]).collect();
    if more.is_empty() && less.is_empty() {
        probe.pass("A44-CONF-05", &lines);
    }
    if !more.is_empty() {
        let what = format!(
            "ACP.md declares capabilities that the agent does not negotiate: {}",
            more.join(", ")
        );
        probe.violation("A44-CONF-05", what, &lines);
    }
    if !less.is_empty() {
        let what = format!(
            "the agent negotiates capabilities that ACP.md does not declare: {}",
            less.join(", ")
        );
        probe.suspicion("A44-CONF-05", what, &lines);
    }
    let against = (!transports.iter().any(|t| t == "stdio")).then(|| {
        format!(
            "ACP.md declares the transports {}, but not stdio, which the agent uses",
            transports.join(", ")
        )
    });
    probe.verdict("A44-TRANS-03", against, &lines);
}

/// The declared capabilities, including those that the tier implies, and the transports.
fn declared(doc: &Document) -> (Value, Vec<String>) {
    let Some(View::Acp(acp)) = doc.view() else {
        return (json!({}), Vec::new());
    };
    let profile = acp.profile();
    let map = profile.and_then(|p| p.node().at(&["capabilities", "agent"]));
    let mut map = map.map_or_else(|| json!({}), to_json);
    let tier = profile.and_then(|p| p.node().str_at(&["tier"]));
    if let (Some(members), Some("governance-aware" | "sandboxed")) = (map.as_object_mut(), tier) {
        members.entry("loadSession").or_insert(json!(true));
    }
    let transports = match acp.transport() {
        Some(node) if node.is_seq() => node
            .items()
            .iter()
            .filter_map(|item| Some(item.as_str()?.to_owned()))
            .collect(),
        Some(node) => node.as_str().map(str::to_owned).into_iter().collect(),
        None => Vec::new(),
    };
    (map, transports)
}

/// Capabilities that are declared but not negotiated, and capabilities of the known families that
/// are negotiated but not declared.
fn compare(declared: &Value, live: &Value) -> (Vec<String>, Vec<String>) {
    let of = |value: &Value| -> Vec<String> {
        let mut leaves = Vec::new();
        offered(value, String::new(), &mut leaves);
        leaves
    };
    let name = |path: &String| path.trim_start_matches('/').replace('/', ".");
    let (declared, live) = (of(declared), of(live));
    let more = declared.iter().filter(|path| !live.contains(path));
    let known = |path: &&String| FAMILIES.iter().any(|family| path.starts_with(family));
    let less = live
        .iter()
        .filter(|path| !declared.contains(path))
        .filter(known);
    (more.map(name).collect(), less.map(name).collect())
}

/// Paths of all capabilities that are offered: `true`, or an empty object.
fn offered(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Bool(true) => out.push(path),
        Value::Object(members) if members.is_empty() && !path.is_empty() => out.push(path),
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "_meta") {
                offered(value, format!("{path}/{key}"), out);
            }
        }
        _ => {}
    }
}

fn against_manifest(probe: &mut ProbeContext<'_>, bundle: &Bundle, live: &Value, lines: &[u64]) {
    let declared = bundle.agent().and_then(|agent| agent.capabilities());
    let is = |pointer: &str| {
        matches!(
            live.pointer(pointer),
            Some(Value::Bool(true) | Value::Object(_))
        )
    };
    let resumable = is("/loadSession") || is("/sessionCapabilities/resume");
    let is_declared = declared.and_then(|c| c.resumable()) == Some(true);
    promise(
        probe,
        "A45-CAP-07",
        "resumable",
        "neither session/load nor session/resume",
        (is_declared, resumable),
        lines,
    );
    let lacks = "neither session/load nor session/resume";
    session_mode(probe, bundle, resumable.then_some(()).ok_or(lacks), lines);
    let images = is("/promptCapabilities/image") || is("/promptCapabilities/audio");
    let is_declared = declared.and_then(|c| c.multimodal()) == Some(true);
    promise(
        probe,
        "A45-CAP-06",
        "multimodal",
        "neither images nor audio",
        (is_declared, images),
        lines,
    );
}

/// A45-SESS-08: the session mode `resumable` needs an agent that can resume. `offers` is what it
/// offers instead, if it cannot.
fn session_mode(
    probe: &mut ProbeContext<'_>,
    bundle: &Bundle,
    offers: Result<(), &str>,
    lines: &[u64],
) {
    let session = bundle.agent().and_then(|agent| agent.session());
    if session.and_then(|session| session.mode()) != Some("resumable") {
        let why = "the session mode is not `resumable`".to_owned();
        probe.undecided("A45-SESS-08", NoVerdict::NotApplicable(why));
        return;
    }
    let against = offers
        .err()
        .map(|offers| format!("`session.mode` is `resumable`, but the agent offers {offers}"));
    probe.verdict("A45-SESS-08", against, lines);
}

fn promise(
    probe: &mut ProbeContext<'_>,
    id: &str,
    flag: &str,
    lacks: &str,
    (declared, live): (bool, bool),
    lines: &[u64],
) {
    match (declared, live) {
        (true, false) => {
            let what = format!("the manifest declares `{flag}`, but the agent offers {lacks}");
            probe.violation(id, what, lines);
        }
        (false, true) => {
            let what = format!("the agent offers more than the manifest: `{flag}` is not declared");
            probe.suspicion(id, what, lines);
        }
        _ => probe.pass(id, lines),
    }
}

async fn mcp(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let acp_only = NoVerdict::NotApplicable("the protocol is mcp".to_owned());
    for id in ["A44-CONF-05", "A44-TRANS-03", "A45-CAP-06", "A45-CAP-09"] {
        probe.undecided(id, acp_only.clone());
    }
    let bundle = probe.subject.target.bundle.clone();
    let agent = bundle.agent();
    let declared = agent.and_then(|agent| agent.capabilities()?.resumable()) == Some(true);
    let by_mode = agent.and_then(|agent| agent.session()?.mode()) == Some("resumable");
    if !declared {
        let why = "the manifest does not declare `resumable`".to_owned();
        probe.undecided("A45-CAP-07", NoVerdict::NotApplicable(why));
    }
    if !by_mode {
        session_mode(probe, &bundle, Ok(()), &[]);
    }
    if !declared && !by_mode {
        return Ok(());
    }
    let mut connection = connect(probe).await?;
    let tools = list_tools(probe, &mut connection).await;
    end_process(probe, connection).await;
    let tools = tools?;
    let names: Vec<&str> = tools
        .json
        .pointer("/result/tools")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|tool| tool.get("name")?.as_str())
        .collect();
    let turn = ["metadata", "agentproto", "mcp_turn", "reply_tool"];
    let reply = bundle.root().str_at(&turn);
    let against = match reply {
        None => Some("`resumable` is declared, but `mcp_turn.reply_tool` is missing".to_owned()),
        Some(reply) if !names.contains(&reply) => Some(format!(
            "the manifest continues turns with the tool `{reply}`, but the server only offers {}",
            names.join(", ")
        )),
        Some(_) => None,
    };
    if by_mode {
        let offers = against
            .as_deref()
            .map(|_| "no tool that continues a conversation");
        session_mode(probe, &bundle, offers.map_or(Ok(()), Err), &[tools.line]);
    }
    if declared {
        probe.verdict("A45-CAP-07", against, &[tools.line]);
    }
    Ok(())
}

async fn list_tools(
    probe: &mut ProbeContext<'_>,
    connection: &mut Connection,
) -> Result<ReceivedMessage, NoVerdict> {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "agentproto", "version": env!("CARGO_PKG_VERSION")},
    });
    let answer = ask(probe, connection, "initialize", params).await?;
    if let Some(result) = answer.json.get("result") {
        probe.outcome.initialize = result.clone();
    }
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    // If the server has exited, the next request reports it.
    let _ = connection.send_message(&ready, probe.config.timeout).await;
    ask(probe, connection, "tools/list", json!({})).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_and_missing_capabilities_are_found() {
        let declared =
            json!({"loadSession": true, "promptCapabilities": {"image": true, "audio": false}});
        let live = json!({"promptCapabilities": {"audio": true, "image": false}, "sessionCapabilities": {"list": {}}});
        let (more, less) = compare(&declared, &live);
        assert_eq!(more, ["loadSession", "promptCapabilities.image"]);
        assert_eq!(less, ["promptCapabilities.audio"]);
        let same = json!({"loadSession": true, "mcpCapabilities": {"http": {}}});
        assert_eq!(compare(&same, &same), (Vec::new(), Vec::new()));
    }
}
