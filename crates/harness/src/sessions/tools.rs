//! Probes for the five MCP tools, which give access to the same sessions.

use serde_json::{Value, json};

use super::context::ProbeContext;
use super::event_stream::{EventStream, is_agent_output, without_colors};
use super::life::acknowledgement;
use super::mcp::{Mcp, ToolResult, lines_of};
use super::record::{self, ExpectedRecord, is_alive, same_place};
use crate::run::case::NoVerdict;

const TOOLS: [&str; 5] = [
    "start_agent_session",
    "prompt_agent_session",
    "list_agent_sessions",
    "get_agent_session_output",
    "kill_agent_session",
];

pub async fn tools(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let mcp = Mcp::open(probe).await?;
    let missing = TOOLS.into_iter().filter(|name| mcp.tool(name).is_none());
    let missing: Vec<&str> = missing.collect();
    let against = (!missing.is_empty()).then(|| format!("missing tools: {}", missing.join(", ")));
    probe.verdict("A46-MCP-01", against, &mcp.lines);
    Ok(())
}

/// Connects to the MCP server, and checks that it has the tool and that the tool has these inputs.
async fn with_tool(
    probe: &mut ProbeContext<'_>,
    id: &str,
    name: &str,
    inputs: &[&str],
) -> Result<Mcp, NoVerdict> {
    let mcp = Mcp::open(probe).await?;
    let Some(tool) = mcp.tool(name) else {
        return Err(NoVerdict::NotVerified(format!("missing tool `{name}`")));
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
            probe.violation(id, why, &mcp.lines);
        }
    }
    Ok(mcp)
}

/// Checks that the result of a tool is not an error.
fn succeeded(
    probe: &mut ProbeContext<'_>,
    id: &str,
    tool_result: &ToolResult,
) -> Result<(), NoVerdict> {
    match &tool_result.error {
        None => Ok(()),
        Some(error) => {
            let error: String = error.chars().take(200).collect();
            if !id.is_empty() {
                probe.violation(
                    id,
                    format!("answered with an error: {error}"),
                    &tool_result.lines,
                );
            }
            Err(NoVerdict::NotVerified(error))
        }
    }
}

/// Starts a session with the tool.
async fn started(
    probe: &mut ProbeContext<'_>,
    mcp: &mut Mcp,
    id: &str,
    more: Value,
) -> Result<ToolResult, NoVerdict> {
    // If the host also refuses over HTTP, that says nothing about the tool.
    let body = probe.spawn_request(more)?;
    let tool_result = mcp.call_tool(probe, "start_agent_session", body).await?;
    if tool_result.error.is_some() {
        probe.spawn(json!({})).await?;
    }
    succeeded(probe, id, &tool_result)?;
    if let Some(id) = tool_result.value["id"].as_str() {
        probe.end_with_case(id);
    }
    Ok(tool_result)
}

pub async fn start(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-MCP-02";
    let inputs = ["adapter", "workspaceSlug", "cwd", "prompt", "label"];
    let mut mcp = with_tool(probe, about, "start_agent_session", &inputs).await?;
    let tool_result = started(probe, &mut mcp, about, json!({"label": "by tool"})).await?;
    let adapter = probe.subject.host.adapter().to_owned();
    let known = ExpectedRecord {
        adapter: Some(&adapter),
        label: Some("by tool"),
        between: None,
    };
    let against = match tool_result.value.is_object() {
        false => Some("the result is not a Session as JSON".to_owned()),
        true => {
            let problems = record::problems(&tool_result.value, &known);
            (!problems.is_empty())
                .then(|| format!("the result is not a valid Session: {}", problems.join("; ")))
        }
    };
    let against = match against {
        None => wrong_directory(probe, &tool_result.value)?,
        some => some,
    };
    probe.verdict(about, against, &tool_result.lines);
    started_with_a_prompt(probe, &mut mcp, about).await
}

/// Checks that the session runs in the requested directory.
fn wrong_directory(probe: &ProbeContext<'_>, record: &Value) -> Result<Option<String>, NoVerdict> {
    let found = record["cwd"].as_str().unwrap_or_default();
    let wanted = probe.cwd("work")?;
    let wanted = wanted.filter(|wanted| !same_place(found, wanted));
    Ok(wanted.map(|wanted| format!("`cwd` was {wanted}, but the session is in {found}")))
}

/// Checks that the agent gets the `prompt` of the tool, if there is a prompt that it answers.
async fn started_with_a_prompt(
    probe: &mut ProbeContext<'_>,
    mcp: &mut Mcp,
    about: &str,
) -> Result<(), NoVerdict> {
    let Ok(text) = probe.need_prompt("text") else {
        return Ok(());
    };
    let tool_result = started(probe, mcp, about, json!({"prompt": text})).await?;
    let Some(id) = tool_result.value["id"].as_str() else {
        return Ok(());
    };
    let mut stream = probe.follow_session(id).await?;
    if !has_output(probe, &mut stream).await {
        let why = "a session that was started with a `prompt` produces no output";
        probe.violation(about, why, &tool_result.lines);
    }
    Ok(())
}

/// Whether a turn has ended, or the agent has at least produced output.
async fn has_output(probe: &ProbeContext<'_>, stream: &mut EventStream) -> bool {
    let response_limit = probe.response_limit();
    stream.turns(1, response_limit).await || stream.events().iter().any(is_agent_output)
}

pub async fn prompt(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-MCP-03";
    let slow = probe.need_prompt("slow")?;
    let inputs = ["sessionId", "prompt"];
    let mut mcp = with_tool(probe, about, "prompt_agent_session", &inputs).await?;
    let session = probe.running(json!({})).await?;
    let stream = probe.follow_session(&session.id).await?;
    let arguments = json!({"sessionId": session.id, "prompt": slow});
    let tool_result = mcp
        .call_tool(probe, "prompt_agent_session", arguments)
        .await;
    let tool_result = match tool_result {
        Err(NoVerdict::NotVerified(why)) => {
            let why = format!("the tool did not answer before the end of a slow turn: {why}");
            probe.violation(about, why, &stream.lines);
            return Ok(());
        }
        tool_result => tool_result?,
    };
    let ends = stream.turn_ends();
    succeeded(probe, about, &tool_result)?;
    let against =
        (!ends.is_empty()).then(|| "the tool answered only after the turn had ended".to_owned());
    probe.verdict(about, against, &tool_result.lines);
    prompt_is_answered(probe, &mut mcp, about).await
}

/// Checks that a prompt of the tool reaches the agent, if there is a prompt that it answers.
async fn prompt_is_answered(
    probe: &mut ProbeContext<'_>,
    mcp: &mut Mcp,
    about: &str,
) -> Result<(), NoVerdict> {
    let Ok(text) = probe.need_prompt("text") else {
        return Ok(());
    };
    let session = probe.running(json!({})).await?;
    let mut stream = probe.follow_session(&session.id).await?;
    let arguments = json!({"sessionId": session.id, "prompt": text});
    let tool_result = mcp
        .call_tool(probe, "prompt_agent_session", arguments)
        .await?;
    succeeded(probe, about, &tool_result)?;
    if !has_output(probe, &mut stream).await {
        let why = "a prompt that the tool accepted does not start a turn";
        probe.violation(about, why, &tool_result.lines);
    }
    Ok(())
}

pub async fn overlap(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-TURN-05";
    let slow = probe.need_prompt("slow")?;
    let text = probe.need_prompt("text")?;
    let mut mcp = with_tool(probe, about, "prompt_agent_session", &[]).await?;
    let session = probe.running(json!({})).await?;
    let stream = probe.follow_session(&session.id).await?;
    probe.send_prompt(&session.id, &slow).await?;
    let arguments = json!({"sessionId": session.id, "prompt": text});
    let tool_result = mcp
        .call_tool(probe, "prompt_agent_session", arguments)
        .await?;
    match (&tool_result.error, stream.turn_ends().is_empty()) {
        (Some(_), _) => probe.pass(about, &tool_result.lines),
        (None, true) => {
            let why = "a prompt during a turn is accepted";
            probe.violation(about, why, &tool_result.lines);
        }
        (None, false) => {
            let why = "the turn ended before the second prompt: the `slow` prompt is too fast";
            probe.not_verified(about, why);
        }
    }
    Ok(())
}

/// The sessions that the tool lists, and the transcript lines of the response.
async fn listed(
    probe: &mut ProbeContext<'_>,
    mcp: &mut Mcp,
    about: &str,
    arguments: Value,
) -> Result<(Vec<Value>, Vec<u64>), NoVerdict> {
    let tool_result = mcp
        .call_tool(probe, "list_agent_sessions", arguments)
        .await?;
    succeeded(probe, about, &tool_result)?;
    match tool_result.value.get("sessions").and_then(Value::as_array) {
        Some(sessions) => Ok((sessions.clone(), tool_result.lines)),
        None => {
            let why = "the result has no list `sessions`";
            probe.violation(about, why, &tool_result.lines);
            Err(NoVerdict::NotVerified(why.to_owned()))
        }
    }
}

pub async fn list(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-MCP-04";
    let mut mcp = with_tool(probe, about, "list_agent_sessions", &["onlyAlive"]).await?;
    let alive = probe.running(json!({})).await?;
    let dead = probe.running(json!({})).await?;
    let path = probe.route(&dead.id, "/kill");
    probe.ask("", "POST", &path, None).await?;
    let over = |record: &Value| !is_alive(record["status"].as_str().unwrap_or("starting"));
    if !probe.until(&dead.id, over).await?.0 {
        return Err(NoVerdict::NotVerified(
            "a session could not be ended".to_owned(),
        ));
    }
    let has = |all: &[Value], id: &str| all.iter().any(|entry| entry["id"] == *id);
    let (all, lines) = listed(probe, &mut mcp, about, json!({})).await?;
    let mut against = match (has(&all, &alive.id), has(&all, &dead.id)) {
        (true, true) => None,
        (false, _) => Some("a live session is not in the list".to_owned()),
        (_, false) => Some("without `onlyAlive`, an ended session is not in the list".to_owned()),
    };
    let mut shown = lines;
    if against.is_none() {
        let (some, lines) = listed(probe, &mut mcp, about, json!({"onlyAlive": true})).await?;
        shown = lines;
        if !has(&some, &alive.id) {
            against = Some("with `onlyAlive`, a live session is not in the list".to_owned());
        } else if has(&some, &dead.id) {
            against = Some("with `onlyAlive`, an ended session is in the list".to_owned());
        }
    }
    probe.verdict(about, against, &shown);
    Ok(())
}

/// The output lines that the tool returns.
async fn lines(
    probe: &mut ProbeContext<'_>,
    mcp: &mut Mcp,
    about: &str,
    arguments: Value,
) -> Result<(Vec<String>, Vec<u64>), NoVerdict> {
    let tool_result = mcp
        .call_tool(probe, "get_agent_session_output", arguments)
        .await?;
    succeeded(probe, about, &tool_result)?;
    match lines_of(&tool_result) {
        Some(lines) => Ok((
            lines.iter().map(|l| without_colors(l)).collect(),
            tool_result.lines,
        )),
        None => {
            let why = "the result contains no lines";
            probe.violation(about, why, &tool_result.lines);
            Err(NoVerdict::NotVerified(why.to_owned()))
        }
    }
}

/// Starts a session in which the agent has produced output.
async fn after_a_turn(probe: &mut ProbeContext<'_>) -> Result<String, NoVerdict> {
    let prompt = probe.need_prompt("text")?;
    let session = probe.running(json!({})).await?;
    let mut stream = probe.follow_session(&session.id).await?;
    probe.send_prompt(&session.id, &prompt).await?;
    if !has_output(probe, &mut stream).await {
        return Err(NoVerdict::NotVerified(
            "the turn produced no output".to_owned(),
        ));
    }
    Ok(session.id)
}

pub async fn output(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-MCP-05";
    let inputs = ["sessionId", "lastN"];
    let mut mcp = with_tool(probe, about, "get_agent_session_output", &inputs).await?;
    let id = after_a_turn(probe).await?;
    let (all, shown) = lines(probe, &mut mcp, about, json!({"sessionId": id})).await?;
    if all.is_empty() {
        let why = "after a turn, the tool returns no lines";
        probe.violation(about, why, &shown);
        return Ok(());
    }
    for count in [1, 2] {
        let arguments = json!({"sessionId": id, "lastN": count});
        let (last, shown) = lines(probe, &mut mcp, about, arguments).await?;
        let wanted = all
            .get(all.len().saturating_sub(count)..)
            .unwrap_or_default();
        if last != wanted {
            let why = format!(
                "with lastN {count}, the tool returns {last:?}, but the last lines are {wanted:?}"
            );
            probe.violation(about, why, &shown);
            return Ok(());
        }
    }
    probe.pass(about, &shown);
    Ok(())
}

pub async fn kill(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-MCP-06";
    let mut mcp = with_tool(probe, about, "kill_agent_session", &["sessionId"]).await?;
    let session = probe.running(json!({})).await?;
    let arguments = json!({"sessionId": session.id});
    let tool_result = mcp
        .call_tool(probe, "kill_agent_session", arguments)
        .await?;
    succeeded(probe, about, &tool_result)?;
    if let Some(why) = acknowledgement(&tool_result.value, &session.id, "sessionId") {
        probe.violation(about, why, &tool_result.lines);
        return Ok(());
    }
    let over = |record: &Value| !is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, last) = probe.until(&session.id, over).await?;
    let against = (!is_over || last.value()["status"] != "killed")
        .then(|| format!("a killed session has the status {}", last.value()["status"]));
    let lines: Vec<u64> = tool_result
        .lines
        .into_iter()
        .chain([last.lines[1]])
        .collect();
    probe.verdict(about, against, &lines);
    Ok(())
}

/// Checks that changes through MCP are visible over HTTP, and vice versa.
pub async fn registry(probe: &mut ProbeContext<'_>) -> Result<(), NoVerdict> {
    let about = "A46-MCP-07";
    let mut mcp = Mcp::open(probe).await?;
    let missing = TOOLS.into_iter().find(|name| mcp.tool(name).is_none());
    if let Some(name) = missing {
        return Err(NoVerdict::NotVerified(format!("missing tool `{name}`")));
    }
    // Started with the tool, read over HTTP.
    let tool_result = started(probe, &mut mcp, "", json!({"label": "two doors"})).await?;
    let id = tool_result.value["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let seen = probe.get(&id).await?;
    if !seen.is_ok() {
        let why = format!(
            "a session that the tool started is answered with {} over HTTP",
            seen.describe()
        );
        probe.violation(about, why, &seen.lines);
        return Ok(());
    }
    if let Some(name) = differs(&tool_result.value, seen.value()) {
        let why = format!("`{name}` differs between the tool and HTTP");
        let lines: Vec<u64> = tool_result
            .lines
            .iter()
            .copied()
            .chain([seen.lines[1]])
            .collect();
        probe.violation(about, why, &lines);
        return Ok(());
    }
    // Started over HTTP, read with the tool.
    let session_id = after_a_turn(probe).await?;
    let (all, shown) = listed(probe, &mut mcp, about, json!({})).await?;
    let entry = all.iter().find(|entry| entry["id"] == *session_id);
    let record = probe.get(&session_id).await?;
    let against = match entry {
        None => {
            Some("a session that was started over HTTP is not in the list of the tool".to_owned())
        }
        Some(entry) => differs(entry, record.value())
            .map(|name| format!("`{name}` differs between the tool and HTTP")),
    };
    if against.is_some() {
        probe.verdict(about, against, &shown);
        return Ok(());
    }
    let (lines, shown) = lines(probe, &mut mcp, about, json!({"sessionId": session_id})).await?;
    let against = lines
        .is_empty()
        .then(|| "the output of a turn over HTTP is not in the output of the tool".to_owned());
    if against.is_some() {
        probe.verdict(about, against, &shown);
        return Ok(());
    }
    ended_for_both(probe, &mut mcp, about, &session_id).await
}

/// Checks that a session that was killed over HTTP is also ended for the tool.
async fn ended_for_both(
    probe: &mut ProbeContext<'_>,
    mcp: &mut Mcp,
    about: &str,
    id: &str,
) -> Result<(), NoVerdict> {
    let path = probe.route(id, "/kill");
    probe.ask("", "POST", &path, None).await?;
    let over = |record: &Value| !is_alive(record["status"].as_str().unwrap_or("starting"));
    let (is_over, record) = probe.until(id, over).await?;
    if !is_over {
        let why = "a session could not be ended".to_owned();
        return Err(NoVerdict::NotVerified(why));
    }
    let (all, shown) = listed(probe, mcp, about, json!({})).await?;
    let entry = all.iter().find(|entry| entry["id"] == *id);
    let by_tool = entry.map_or(&Value::Null, |entry| &entry["status"]);
    let over_http = &record.value()["status"];
    let against = (by_tool != over_http).then(|| {
        format!(
            "after a kill over HTTP, the status is {over_http} over HTTP, but {by_tool} in the \
             tool"
        )
    });
    probe.verdict(about, against, &shown);
    Ok(())
}

/// The first constant member that differs.
fn differs(a: &Value, b: &Value) -> Option<&'static str> {
    let members = record::MEMBERS.iter().filter(|member| member.is_constant);
    let names = members.map(|member| member.name);
    let mut names = names.filter(|name| a.get(*name) != b.get(*name));
    names.next()
}
