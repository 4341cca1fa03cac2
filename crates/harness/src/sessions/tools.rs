//! Probes for the five MCP tools, which give access to the same sessions.

use serde_json::{Value, json};

use super::follow::{Follow, is_said_by_agent, uncoloured};
use super::life::acknowledgement;
use super::mcp::{Given, Mcp, lines_of};
use super::record::{self, Known, is_alive, same_place};
use super::stand::Stand;
use crate::run::case::Blocked;

const TOOLS: [&str; 5] = [
    "start_agent_session",
    "prompt_agent_session",
    "list_agent_sessions",
    "get_agent_session_output",
    "kill_agent_session",
];

pub async fn tools(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let mcp = Mcp::open(stand).await?;
    let missing = TOOLS.into_iter().filter(|name| mcp.tool(name).is_none());
    let missing: Vec<&str> = missing.collect();
    let against = (!missing.is_empty()).then(|| format!("missing tools: {}", missing.join(", ")));
    stand.verdict("A46-MCP-01", against, &mcp.lines);
    Ok(())
}

/// Connects to the MCP server, and checks that it has the tool and that the tool has these inputs.
async fn with_tool(
    stand: &mut Stand<'_>,
    id: &str,
    name: &str,
    inputs: &[&str],
) -> Result<Mcp, Blocked> {
    let mcp = Mcp::open(stand).await?;
    let Some(tool) = mcp.tool(name) else {
        return Err(Blocked::NotVerified(format!("missing tool `{name}`")));
    };
    // A schema without properties accepts any input.
    if let Some(known) = tool["inputSchema"]["properties"]
        .as_object()
        .filter(|p| !p.is_empty())
    {
        let missing: Vec<&str> = inputs
            .iter()
            .copied()
            .filter(|i| !known.contains_key(*i))
            .collect();
        if !missing.is_empty() {
            let why = format!("`{name}` does not have the input {}", missing.join(", "));
            stand.broken(id, why, &mcp.lines);
        }
    }
    Ok(mcp)
}

/// Checks that the result of a tool is not an error.
fn succeeded(stand: &mut Stand<'_>, id: &str, given: &Given) -> Result<(), Blocked> {
    match &given.error {
        None => Ok(()),
        Some(error) => {
            let error: String = error.chars().take(200).collect();
            if !id.is_empty() {
                stand.broken(id, format!("answered with an error: {error}"), &given.lines);
            }
            Err(Blocked::NotVerified(error))
        }
    }
}

/// Starts a session with the tool.
async fn started(
    stand: &mut Stand<'_>,
    mcp: &mut Mcp,
    id: &str,
    more: Value,
) -> Result<Given, Blocked> {
    // If the host also refuses over HTTP, that says nothing about the tool.
    let body = stand.spawn_request(more)?;
    let given = mcp.give(stand, "start_agent_session", body).await?;
    if given.error.is_some() {
        stand.spawn(json!({})).await?;
    }
    succeeded(stand, id, &given)?;
    if let Some(id) = given.value["id"].as_str() {
        stand.keep(id);
    }
    Ok(given)
}

pub async fn start(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-MCP-02";
    let inputs = ["adapter", "workspaceSlug", "cwd", "prompt", "label"];
    let mut mcp = with_tool(stand, about, "start_agent_session", &inputs).await?;
    let given = started(stand, &mut mcp, about, json!({"label": "by tool"})).await?;
    let adapter = stand.subject.host.adapter().to_owned();
    let known = Known {
        adapter: Some(&adapter),
        label: Some("by tool"),
        between: None,
    };
    let against = match given.value.is_object() {
        false => Some("the result is not a Session as JSON".to_owned()),
        true => {
            let flaws = record::flaws(&given.value, &known);
            (!flaws.is_empty())
                .then(|| format!("the result is not a valid Session: {}", flaws.join("; ")))
        }
    };
    let against = match against {
        None => elsewhere(stand, &given.value)?,
        some => some,
    };
    stand.verdict(about, against, &given.lines);
    started_with_a_prompt(stand, &mut mcp, about).await
}

/// Checks that the session runs in the requested directory.
fn elsewhere(stand: &Stand<'_>, record: &Value) -> Result<Option<String>, Blocked> {
    let found = record["cwd"].as_str().unwrap_or_default();
    let wanted = stand.cwd("work")?;
    let wanted = wanted.filter(|wanted| !same_place(found, wanted));
    Ok(wanted.map(|wanted| format!("`cwd` was {wanted}, but the session is in {found}")))
}

/// Checks that the agent gets the `prompt` of the tool, if there is a prompt that it answers.
async fn started_with_a_prompt(
    stand: &mut Stand<'_>,
    mcp: &mut Mcp,
    about: &str,
) -> Result<(), Blocked> {
    let Ok(text) = stand.need_prompt("text") else {
        return Ok(());
    };
    let given = started(stand, mcp, about, json!({"prompt": text})).await?;
    let Some(id) = given.value["id"].as_str() else {
        return Ok(());
    };
    let mut follow = stand.following(id).await?;
    if !has_spoken(stand, &mut follow).await {
        let why = "a session that was started with a `prompt` produces no output";
        stand.broken(about, why, &given.lines);
    }
    Ok(())
}

/// Whether a turn has ended, or the agent has at least produced output.
async fn has_spoken(stand: &Stand<'_>, follow: &mut Follow) -> bool {
    let patience = stand.patience();
    follow.turns(1, patience).await || follow.events().iter().any(is_said_by_agent)
}

pub async fn prompt(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-MCP-03";
    let slow = stand.need_prompt("slow")?;
    let inputs = ["sessionId", "prompt"];
    let mut mcp = with_tool(stand, about, "prompt_agent_session", &inputs).await?;
    let session = stand.running(json!({})).await?;
    let follow = stand.following(&session.id).await?;
    let arguments = json!({"sessionId": session.id, "prompt": slow});
    let given = mcp.give(stand, "prompt_agent_session", arguments).await;
    let given = match given {
        Err(Blocked::NotVerified(why)) => {
            let why = format!("the tool did not answer before the end of a slow turn: {why}");
            stand.broken(about, why, &follow.lines);
            return Ok(());
        }
        given => given?,
    };
    let ends = follow.turn_ends();
    succeeded(stand, about, &given)?;
    let against =
        (!ends.is_empty()).then(|| "the tool answered only after the turn had ended".to_owned());
    stand.verdict(about, against, &given.lines);
    is_said(stand, &mut mcp, about).await
}

/// Checks that a prompt of the tool reaches the agent, if there is a prompt that it answers.
async fn is_said(stand: &mut Stand<'_>, mcp: &mut Mcp, about: &str) -> Result<(), Blocked> {
    let Ok(text) = stand.need_prompt("text") else {
        return Ok(());
    };
    let session = stand.running(json!({})).await?;
    let mut follow = stand.following(&session.id).await?;
    let arguments = json!({"sessionId": session.id, "prompt": text});
    let given = mcp.give(stand, "prompt_agent_session", arguments).await?;
    succeeded(stand, about, &given)?;
    if !has_spoken(stand, &mut follow).await {
        let why = "a prompt that the tool accepted does not start a turn";
        stand.broken(about, why, &given.lines);
    }
    Ok(())
}

pub async fn overlap(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-TURN-05";
    let slow = stand.need_prompt("slow")?;
    let text = stand.need_prompt("text")?;
    let mut mcp = with_tool(stand, about, "prompt_agent_session", &[]).await?;
    let session = stand.running(json!({})).await?;
    let follow = stand.following(&session.id).await?;
    stand.prompted(&session.id, &slow).await?;
    let arguments = json!({"sessionId": session.id, "prompt": text});
    let given = mcp.give(stand, "prompt_agent_session", arguments).await?;
    match (&given.error, follow.turn_ends().is_empty()) {
        (Some(_), _) => stand.met(about, &given.lines),
        (None, true) => {
            let why = "a prompt during a turn is accepted";
            stand.broken(about, why, &given.lines);
        }
        (None, false) => {
            let why = "the turn ended before the second prompt: the `slow` prompt is too fast";
            stand.not_verified(about, why);
        }
    }
    Ok(())
}

/// The sessions that the tool lists, and the transcript lines of the response.
async fn listed(
    stand: &mut Stand<'_>,
    mcp: &mut Mcp,
    about: &str,
    arguments: Value,
) -> Result<(Vec<Value>, Vec<u64>), Blocked> {
    let given = mcp.give(stand, "list_agent_sessions", arguments).await?;
    succeeded(stand, about, &given)?;
    match given.value.get("sessions").and_then(Value::as_array) {
        Some(sessions) => Ok((sessions.clone(), given.lines)),
        None => {
            let why = "the result has no list `sessions`";
            stand.broken(about, why, &given.lines);
            Err(Blocked::NotVerified(why.to_owned()))
        }
    }
}

pub async fn list(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-MCP-04";
    let mut mcp = with_tool(stand, about, "list_agent_sessions", &["onlyAlive"]).await?;
    let alive = stand.running(json!({})).await?;
    let dead = stand.running(json!({})).await?;
    let path = stand.route(&dead.id, "/kill");
    stand.ask("", "POST", &path, None).await?;
    let over = |record: &Value| !is_alive(record["status"].as_str().unwrap_or("starting"));
    if !stand.until(&dead.id, over).await?.0 {
        return Err(Blocked::NotVerified(
            "a session could not be ended".to_owned(),
        ));
    }
    let has = |all: &[Value], id: &str| all.iter().any(|entry| entry["id"] == *id);
    let (all, lines) = listed(stand, &mut mcp, about, json!({})).await?;
    let mut against = match (has(&all, &alive.id), has(&all, &dead.id)) {
        (true, true) => None,
        (false, _) => Some("a live session is not in the list".to_owned()),
        (_, false) => Some("without `onlyAlive`, an ended session is not in the list".to_owned()),
    };
    let mut shown = lines;
    if against.is_none() {
        let (some, lines) = listed(stand, &mut mcp, about, json!({"onlyAlive": true})).await?;
        shown = lines;
        if !has(&some, &alive.id) {
            against = Some("with `onlyAlive`, a live session is not in the list".to_owned());
        } else if has(&some, &dead.id) {
            against = Some("with `onlyAlive`, an ended session is in the list".to_owned());
        }
    }
    stand.verdict(about, against, &shown);
    Ok(())
}

/// The output lines that the tool returns.
async fn lines(
    stand: &mut Stand<'_>,
    mcp: &mut Mcp,
    about: &str,
    arguments: Value,
) -> Result<(Vec<String>, Vec<u64>), Blocked> {
    let given = mcp
        .give(stand, "get_agent_session_output", arguments)
        .await?;
    succeeded(stand, about, &given)?;
    match lines_of(&given) {
        Some(lines) => Ok((lines.iter().map(|l| uncoloured(l)).collect(), given.lines)),
        None => {
            let why = "the result contains no lines";
            stand.broken(about, why, &given.lines);
            Err(Blocked::NotVerified(why.to_owned()))
        }
    }
}

/// Starts a session in which the agent has produced output.
async fn after_a_turn(stand: &mut Stand<'_>) -> Result<String, Blocked> {
    let prompt = stand.need_prompt("text")?;
    let session = stand.running(json!({})).await?;
    let mut follow = stand.following(&session.id).await?;
    stand.prompted(&session.id, &prompt).await?;
    if !has_spoken(stand, &mut follow).await {
        return Err(Blocked::NotVerified(
            "the turn produced no output".to_owned(),
        ));
    }
    Ok(session.id)
}

pub async fn output(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-MCP-05";
    let inputs = ["sessionId", "lastN"];
    let mut mcp = with_tool(stand, about, "get_agent_session_output", &inputs).await?;
    let id = after_a_turn(stand).await?;
    let (all, shown) = lines(stand, &mut mcp, about, json!({"sessionId": id})).await?;
    if all.is_empty() {
        let why = "after a turn, the tool returns no lines";
        stand.broken(about, why, &shown);
        return Ok(());
    }
    for count in [1, 2] {
        let arguments = json!({"sessionId": id, "lastN": count});
        let (last, shown) = lines(stand, &mut mcp, about, arguments).await?;
        let wanted = all
            .get(all.len().saturating_sub(count)..)
            .unwrap_or_default();
        if last != wanted {
            let why = format!(
                "with lastN {count}, the tool returns {last:?}, but the last lines are {wanted:?}"
            );
            stand.broken(about, why, &shown);
            return Ok(());
        }
    }
    stand.met(about, &shown);
    Ok(())
}

pub async fn kill(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-MCP-06";
    let mut mcp = with_tool(stand, about, "kill_agent_session", &["sessionId"]).await?;
    let session = stand.running(json!({})).await?;
    let arguments = json!({"sessionId": session.id});
    let given = mcp.give(stand, "kill_agent_session", arguments).await?;
    succeeded(stand, about, &given)?;
    if let Some(why) = acknowledgement(&given.value, &session.id, "sessionId") {
        stand.broken(about, why, &given.lines);
        return Ok(());
    }
    let over = |record: &Value| !is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, last) = stand.until(&session.id, over).await?;
    let against = (!is_over || last.value()["status"] != "killed")
        .then(|| format!("a killed session has the status {}", last.value()["status"]));
    let lines: Vec<u64> = given.lines.into_iter().chain([last.lines[1]]).collect();
    stand.verdict(about, against, &lines);
    Ok(())
}

/// Checks that changes through MCP are visible over HTTP, and vice versa.
pub async fn registry(stand: &mut Stand<'_>) -> Result<(), Blocked> {
    let about = "A46-MCP-07";
    let mut mcp = Mcp::open(stand).await?;
    let missing = TOOLS.into_iter().find(|name| mcp.tool(name).is_none());
    if let Some(name) = missing {
        return Err(Blocked::NotVerified(format!("missing tool `{name}`")));
    }
    // Started with the tool, read over HTTP.
    let given = started(stand, &mut mcp, "", json!({"label": "two doors"})).await?;
    let id = given.value["id"].as_str().unwrap_or_default().to_owned();
    let seen = stand.get(&id).await?;
    if !seen.is_ok() {
        let why = format!(
            "a session that the tool started is answered with {} over HTTP",
            seen.told()
        );
        stand.broken(about, why, &seen.lines);
        return Ok(());
    }
    if let Some(name) = differs(&given.value, seen.value()) {
        let why = format!("`{name}` differs between the tool and HTTP");
        let lines: Vec<u64> = given.lines.iter().copied().chain([seen.lines[1]]).collect();
        stand.broken(about, why, &lines);
        return Ok(());
    }
    // Started over HTTP, read with the tool.
    let said = after_a_turn(stand).await?;
    let (all, shown) = listed(stand, &mut mcp, about, json!({})).await?;
    let entry = all.iter().find(|entry| entry["id"] == *said);
    let record = stand.get(&said).await?;
    let against = match entry {
        None => {
            Some("a session that was started over HTTP is not in the list of the tool".to_owned())
        }
        Some(entry) => differs(entry, record.value())
            .map(|name| format!("`{name}` differs between the tool and HTTP")),
    };
    if against.is_some() {
        stand.verdict(about, against, &shown);
        return Ok(());
    }
    let (lines, shown) = lines(stand, &mut mcp, about, json!({"sessionId": said})).await?;
    let against = lines
        .is_empty()
        .then(|| "the output of a turn over HTTP is not in the output of the tool".to_owned());
    if against.is_some() {
        stand.verdict(about, against, &shown);
        return Ok(());
    }
    ended_for_both(stand, &mut mcp, about, &said).await
}

/// Checks that a session that was killed over HTTP is also ended for the tool.
async fn ended_for_both(
    stand: &mut Stand<'_>,
    mcp: &mut Mcp,
    about: &str,
    id: &str,
) -> Result<(), Blocked> {
    let path = stand.route(id, "/kill");
    stand.ask("", "POST", &path, None).await?;
    let over = |record: &Value| !is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, record) = stand.until(id, over).await?;
    if !is_over {
        let why = "a session could not be ended".to_owned();
        return Err(Blocked::NotVerified(why));
    }
    let (all, shown) = listed(stand, mcp, about, json!({})).await?;
    let entry = all.iter().find(|entry| entry["id"] == *id);
    let by_tool = entry.map_or(&Value::Null, |entry| &entry["status"]);
    let over_http = &record.value()["status"];
    let against = (by_tool != over_http).then(|| {
        format!(
            "after a kill over HTTP, the status is {over_http} over HTTP, but {by_tool} in the \
             tool"
        )
    });
    stand.verdict(about, against, &shown);
    Ok(())
}

/// The first constant member that differs.
fn differs(a: &Value, b: &Value) -> Option<&'static str> {
    let members = record::MEMBERS.iter().filter(|member| member.is_constant);
    let names = members.map(|member| member.name);
    let mut names = names.filter(|name| a.get(*name) != b.get(*name));
    names.next()
}
