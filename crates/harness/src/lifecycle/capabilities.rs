//! Compares what the manifest declares with what the live agent negotiates, on raw JSON. Declaring
//! more than the agent negotiates is a violation. Declaring less is a warning.

use serde_json::{Value, json};

use super::stand::{MARKER, Stand};
use crate::monitor::Watch;
use crate::run::case::Blocked;
use crate::run::connection::{Connection, Received};
use crate::suite::Answers;
use agentproto_manifest::views::View;
use agentproto_manifest::{Disk, Document, RefRole, Workspace, to_json};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::fault::Code;

/// Capabilities that AIP-44 names. Others need not be declared.
const FAMILIES: [&str; 3] = ["/loadSession", "/promptCapabilities/", "/mcpCapabilities/"];

pub async fn capabilities(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    match stand.subject.target.ready().await {
        Ok(_) if stand.subject.target.protocol() == "acp" => stand.met("A45-CAP-09", &[]),
        Ok(_) => {}
        Err(fault) if fault.code == Code::CapabilityMismatch => {
            let line = stand.fault(&fault);
            let what = format!("capability_mismatch: {}", fault.message);
            stand.broken("A45-CAP-09", what.clone(), &[line]);
            return Err(Blocked::NotVerified(what));
        }
        Err(fault) => return Err(stand.refused(&fault)),
    }
    match stand.subject.target.protocol() {
        "acp" => acp(stand).await,
        "mcp" => mcp(stand).await,
        _ => {
            let why = "proprietary protocols do not negotiate capabilities";
            Err(Blocked::NotApplicable(why.to_owned()))
        }
    }
}

async fn connect(stand: &Stand<'_>) -> Result<Connection, Blocked> {
    let cwd = stand.work();
    std::fs::create_dir_all(&cwd)
        .map_err(|error| Blocked::Error(format!("cannot create a directory: {error}")))?;
    let env = [(MARKER.to_owned(), stand.subject.marker.clone())];
    let so_far = (stand.log.take(), stand.log.begun);
    let launcher = &stand.setting.launcher;
    let watch = Watch::new(Vec::new());
    let answers = Answers::default();
    let root = &stand.root;
    let started = Connection::start(launcher, &cwd, &env, watch, &answers, root, so_far).await;
    started.map_err(|(error, transcript)| {
        stand.log.put_back(transcript);
        Blocked::NotVerified(error.to_string())
    })
}

async fn ask(
    stand: &mut Stand<'_>,
    connection: &mut Connection,
    method: &str,
    params: Value,
) -> Result<Received, Blocked> {
    let timeout = stand.setting.timeout;
    let asked = connection
        .request(method, Some(params), None, timeout)
        .await;
    let answer = match asked {
        Ok((id, _)) => connection.answer(&id, timeout).await,
        Err(silence) => Err(silence),
    };
    answer
        .map_err(|silence| Blocked::NotVerified(format!("`{method}` was not answered: {silence}")))
}

/// Ends the connection, whatever the result.
async fn hang_up(stand: &mut Stand<'_>, connection: Connection) {
    stand.played.agent += connection.waited;
    let (transcript, notes) = connection.finish(stand.setting.grace).await;
    stand.log.put_back(transcript);
    stand.played.notes.push(notes);
}

async fn acp(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let mut connection = connect(stand).await?;
    let params = json!({
        "protocolVersion": 1,
        "clientCapabilities": {},
        "clientInfo": {"name": "agentproto", "version": env!("CARGO_PKG_VERSION")},
    });
    let answer = ask(stand, &mut connection, "initialize", params).await;
    hang_up(stand, connection).await;
    let answer = answer?;
    let lines = [answer.line];
    let Some(result) = answer.json.get("result") else {
        let why = "`initialize` was not answered with a result".to_owned();
        return Err(Blocked::NotVerified(why));
    };
    stand.played.initialize = result.clone();
    let live = result
        .get("agentCapabilities")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let bundle = stand.subject.target.bundle.clone();
    against_acp_md(stand, &bundle, &live, &lines);
    against_manifest(stand, &bundle, &live, &lines);
    Ok(())
}

fn against_acp_md(stand: &mut Stand<'_>, bundle: &Bundle, live: &Value, lines: &[u64]) {
    let reference = bundle.agent().and_then(|agent| agent.acp());
    let workspace = Workspace::new(&Disk, "/");
    let found = reference.map(|r| workspace.resolve(&bundle.manifest, RefRole::Acp, r));
    let Some(doc) = found.as_ref().and_then(|found| found.document()) else {
        let why = "ACP.md is missing or unreadable".to_owned();
        for id in ["A44-CONF-05", "A44-TRANS-03"] {
            stand.open(id, Blocked::NotApplicable(why.clone()));
        }
        return;
    };
    let (declared, transports) = declared(doc);
    let (more, less) = compare(&declared, live);
    let shown = stand.note(&json!({"declared": declared, "negotiated": live}));
    let lines: Vec<u64> = lines.iter().copied().chain([shown]).collect();
    if more.is_empty() && less.is_empty() {
        stand.met("A44-CONF-05", &lines);
    }
    if !more.is_empty() {
        let what = format!(
            "ACP.md declares capabilities that the agent does not negotiate: {}",
            more.join(", ")
        );
        stand.broken("A44-CONF-05", what, &lines);
    }
    if !less.is_empty() {
        let what = format!(
            "the agent negotiates capabilities that ACP.md does not declare: {}",
            less.join(", ")
        );
        stand.doubtful("A44-CONF-05", what, &lines);
    }
    let against = (!transports.iter().any(|t| t == "stdio")).then(|| {
        format!(
            "ACP.md declares the transports {}, but not stdio, which the agent uses",
            transports.join(", ")
        )
    });
    stand.verdict("A44-TRANS-03", against, &lines);
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

fn against_manifest(stand: &mut Stand<'_>, bundle: &Bundle, live: &Value, lines: &[u64]) {
    let declared = bundle.agent().and_then(|agent| agent.capabilities());
    let is = |pointer: &str| {
        matches!(
            live.pointer(pointer),
            Some(Value::Bool(true) | Value::Object(_))
        )
    };
    let resumable = is("/loadSession") || is("/sessionCapabilities/resume");
    let said = declared.and_then(|c| c.resumable()) == Some(true);
    promise(
        stand,
        "A45-CAP-07",
        "resumable",
        "neither session/load nor session/resume",
        (said, resumable),
        lines,
    );
    let images = is("/promptCapabilities/image") || is("/promptCapabilities/audio");
    let said = declared.and_then(|c| c.multimodal()) == Some(true);
    promise(
        stand,
        "A45-CAP-06",
        "multimodal",
        "neither images nor audio",
        (said, images),
        lines,
    );
}

fn promise(
    stand: &mut Stand<'_>,
    id: &str,
    flag: &str,
    lacks: &str,
    (declared, live): (bool, bool),
    lines: &[u64],
) {
    match (declared, live) {
        (true, false) => {
            let what = format!("the manifest declares `{flag}`, but the agent offers {lacks}");
            stand.broken(id, what, lines);
        }
        (false, true) => {
            let what = format!("the agent offers more than the manifest: `{flag}` is not declared");
            stand.doubtful(id, what, lines);
        }
        _ => stand.met(id, lines),
    }
}

async fn mcp(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let acp_only = Blocked::NotApplicable("the protocol is mcp".to_owned());
    for id in ["A44-CONF-05", "A44-TRANS-03", "A45-CAP-06", "A45-CAP-09"] {
        stand.open(id, acp_only.clone());
    }
    let bundle = stand.subject.target.bundle.clone();
    let declared = bundle.agent().and_then(|agent| agent.capabilities());
    if declared.and_then(|c| c.resumable()) != Some(true) {
        let why = "the manifest does not declare `resumable`".to_owned();
        stand.open("A45-CAP-07", Blocked::NotApplicable(why));
        return Ok(());
    }
    let mut connection = connect(stand).await?;
    let tools = list_tools(stand, &mut connection).await;
    hang_up(stand, connection).await;
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
    stand.verdict("A45-CAP-07", against, &[tools.line]);
    Ok(())
}

async fn list_tools(
    stand: &mut Stand<'_>,
    connection: &mut Connection,
) -> Result<Received, Blocked> {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "agentproto", "version": env!("CARGO_PKG_VERSION")},
    });
    let answer = ask(stand, connection, "initialize", params).await?;
    if let Some(result) = answer.json.get("result") {
        stand.played.initialize = result.clone();
    }
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    // If the server has exited, the next request reports it.
    let _ = connection.say(&ready, stand.setting.timeout).await;
    ask(stand, connection, "tools/list", json!({})).await
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
