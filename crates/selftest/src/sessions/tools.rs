//! Defects in the MCP tools.

use serde_json::{Value, json};

use super::changes::{ClientRequest, Route};
use super::{HostChanges, Mutant, each_record, mutant, of_tool, remove};

const START: &str = "start_agent_session";
const PROMPT: &str = "prompt_agent_session";
const LIST: &str = "list_agent_sessions";
const OUTPUT: &str = "get_agent_session_output";
const KILL: &str = "kill_agent_session";

/// Changes the list of tools.
fn listed(change: fn(&mut Vec<Value>)) -> HostChanges {
    HostChanges::after(move |incoming, reply, _| {
        if incoming.body["method"] == "tools/list"
            && let Some(tools) = reply.body["result"]["tools"].as_array_mut()
        {
            change(tools);
        }
    })
}

/// Changes the inputs that one tool declares.
fn inputs(name: &'static str, change: fn(&mut Value)) -> HostChanges {
    HostChanges::after(move |incoming, reply, _| {
        if incoming.body["method"] != "tools/list" {
            return;
        }
        let tools = reply.body["result"]["tools"].as_array_mut();
        for tool in tools.into_iter().flatten() {
            if tool["name"] == name {
                change(&mut tool["inputSchema"]["properties"]);
            }
        }
    })
}

/// Removes an argument from the calls of one tool.
fn drop_argument(tool: &'static str, argument: &'static str) -> HostChanges {
    HostChanges::before(move |incoming, _, _| {
        if incoming.tool() == tool {
            remove(&mut incoming.body["params"]["arguments"], argument);
        }
        None
    })
}

/// Responds with `value` as the tool's result, without calling the tool.
fn fake_result(incoming: &ClientRequest, name: &str, value: Value) -> Option<super::HostResponse> {
    (incoming.tool() == name).then(|| {
        let result = json!({
            "content": [{"type": "text", "text": value.to_string()}],
            "structuredContent": value,
        });
        let message = json!({"jsonrpc": "2.0", "id": incoming.body["id"], "result": result});
        super::HostResponse::new(200, message)
    })
}

pub fn mutants() -> Vec<Mutant> {
    let mut all = calls();
    all.extend(inputs_and_effects());
    all
}

/// Defects in the declared inputs and in their effects.
fn inputs_and_effects() -> Vec<Mutant> {
    vec![
        mutant(
            "se-tool-start-label",
            "A46-MCP-02",
            "The tool ignores `label`.",
            || drop_argument(START, "label"),
        ),
        mutant(
            "se-tool-start-cwd",
            "A46-MCP-02",
            "The tool ignores `cwd`.",
            || drop_argument(START, "cwd"),
        ),
        mutant(
            "se-tool-start-prompt",
            "A46-MCP-02",
            "The tool ignores `prompt` when it starts a session.",
            || drop_argument(START, "prompt"),
        ),
        mutant(
            "se-tool-prompt-lost",
            "A46-MCP-03",
            "The tool accepts a prompt but does not send it to the agent.",
            || {
                HostChanges::before(|incoming, _, registry| {
                    let id = incoming.arguments()["sessionId"].clone();
                    let is_busy = registry.get(id.as_str()?).is_ok_and(|session| session.busy);
                    match is_busy {
                        true => None,
                        false => {
                            fake_result(incoming, PROMPT, json!({"ok": true, "sessionId": id}))
                        }
                    }
                })
            },
        ),
        mutant(
            "se-tool-prompt-inputs",
            "A46-MCP-03",
            "The tool names its input `text`.",
            || {
                inputs(PROMPT, |known| {
                    known["text"] = known["prompt"].take();
                    remove(known, "prompt");
                })
            },
        ),
        mutant(
            "se-tool-overlap-mild",
            "A46-TURN-05",
            "The tool rejects a prompt during a turn with a result that is not an error.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if reply.body["result"]["isError"] == true
                        && let Some(mild) = fake_result(incoming, PROMPT, json!({"ok": false}))
                    {
                        reply.body = mild.body;
                    }
                })
            },
        ),
        mutant(
            "se-tool-list-inputs",
            "A46-MCP-04",
            "The tool names its input `alive`.",
            || {
                inputs(LIST, |known| {
                    known["alive"] = known["onlyAlive"].take();
                    remove(known, "onlyAlive");
                })
            },
        ),
        mutant(
            "se-tool-output-inputs",
            "A46-MCP-05",
            "The tool does not declare `lastN`.",
            || inputs(OUTPUT, |known| remove(known, "lastN")),
        ),
        mutant(
            "se-tool-output-reversed",
            "A46-MCP-05",
            "The tool returns the newest line first.",
            || {
                HostChanges::tool(OUTPUT, |_, value| {
                    if let Some(lines) = value["lines"].as_array_mut() {
                        lines.reverse();
                    }
                })
            },
        ),
        mutant(
            "se-tool-output-more",
            "A46-MCP-05",
            "`lastN` returns one line too many.",
            || {
                HostChanges::before(|incoming, _, _| {
                    let count = incoming.arguments()["lastN"].as_u64();
                    if let Some(count) = count.filter(|_| incoming.tool() == OUTPUT) {
                        incoming.body["params"]["arguments"]["lastN"] = json!(count + 1);
                    }
                    None
                })
            },
        ),
        mutant(
            "se-tool-kill-inputs",
            "A46-MCP-06",
            "The tool names its input `id`.",
            || {
                inputs(KILL, |known| {
                    known["id"] = known["sessionId"].take();
                    remove(known, "sessionId");
                })
            },
        ),
        mutant(
            "se-tool-kill-thin",
            "A46-MCP-06",
            "The result of the tool has no `ok`.",
            || HostChanges::tool(KILL, |_, value| remove(value, "ok")),
        ),
        mutant(
            "se-doors-stale",
            "A46-MCP-07",
            "The list of the tool shows ended sessions as running.",
            || {
                HostChanges::tool(LIST, |_, value| {
                    for record in value["sessions"].as_array_mut().into_iter().flatten() {
                        record["status"] = json!("running");
                        remove(record, "endedAt");
                    }
                })
            },
        ),
    ]
}

fn calls() -> Vec<Mutant> {
    vec![
        mutant(
            "se-tool-missing",
            "A46-MCP-01",
            "One of the five tools is missing.",
            || listed(|tools| tools.retain(|tool| tool["name"] != KILL)),
        ),
        mutant(
            "se-tool-renamed",
            "A46-MCP-01",
            "A tool has another name.",
            || {
                listed(|tools| {
                    for tool in tools.iter_mut().filter(|tool| tool["name"] == OUTPUT) {
                        tool["name"] = json!("get_output");
                    }
                })
            },
        ),
        mutant(
            "se-tool-start-thin",
            "A46-MCP-02",
            "The tool returns only the id.",
            || {
                HostChanges::tool("start_agent_session", |_, value| {
                    *value = json!({"id": value["id"]})
                })
            },
        ),
        mutant(
            "se-tool-start-words",
            "A46-MCP-02",
            "The tool returns a sentence, not a record.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.tool() == "start_agent_session" {
                        let result = &mut reply.body["result"];
                        remove(result, "structuredContent");
                        result["content"] = json!([{"type": "text", "text": "Started."}]);
                    }
                })
            },
        ),
        mutant(
            "se-tool-start-inputs",
            "A46-MCP-02",
            "The tool does not declare `label`.",
            || {
                listed(|tools| {
                    for tool in tools.iter_mut() {
                        remove(&mut tool["inputSchema"]["properties"], "label");
                    }
                })
            },
        ),
        mutant(
            "se-tool-prompt-waits",
            "A46-MCP-03",
            "The tool waits for the end of the turn.",
            || HostChanges {
                delayed_until_turn_end: Some(|incoming| incoming.tool() == PROMPT),
                ..HostChanges::default()
            },
        ),
        mutant(
            "se-tool-overlap",
            "A46-TURN-05",
            "The tool accepts a prompt during a turn and drops it.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.tool() == PROMPT {
                        let id = incoming.arguments()["sessionId"].clone();
                        let value = json!({"ok": true, "sessionId": id});
                        if let Some(good) = fake_result(incoming, PROMPT, value) {
                            reply.body = good.body;
                        }
                    }
                })
            },
        ),
        mutant(
            "se-tool-list-all",
            "A46-MCP-04",
            "`onlyAlive` is ignored.",
            || {
                HostChanges::before(|incoming, _, _| {
                    if incoming.tool() == LIST {
                        incoming.body["params"]["arguments"] = json!({});
                    }
                    None
                })
            },
        ),
        mutant(
            "se-tool-list-alive",
            "A46-MCP-04",
            "The tool never lists ended sessions.",
            || {
                HostChanges::before(|incoming, _, _| {
                    if incoming.tool() == LIST {
                        incoming.body["params"]["arguments"] = json!({"onlyAlive": true});
                    }
                    None
                })
            },
        ),
        mutant(
            "se-tool-list-member",
            "A46-MCP-04",
            "The list is named `items`.",
            || {
                HostChanges::tool(LIST, |_, value| {
                    *value = json!({"items": value["sessions"]})
                })
            },
        ),
        mutant(
            "se-tool-output-all",
            "A46-MCP-05",
            "`lastN` is ignored.",
            || {
                HostChanges::before(|incoming, _, _| {
                    if incoming.tool() == OUTPUT {
                        remove(&mut incoming.body["params"]["arguments"], "lastN");
                    }
                    None
                })
            },
        ),
        mutant(
            "se-tool-output-first",
            "A46-MCP-05",
            "`lastN` returns the first lines.",
            || {
                HostChanges::after(|incoming, reply, state| {
                    if incoming.tool() != OUTPUT {
                        return;
                    }
                    state.count("asked", "");
                    let count = incoming.arguments()["lastN"].as_u64();
                    of_tool(reply, |value| {
                        let Some(lines) = value["lines"].as_array_mut() else {
                            return;
                        };
                        if count.is_some() {
                            for line in lines.iter_mut() {
                                *line = json!("the first line");
                            }
                        }
                    });
                })
            },
        ),
        mutant(
            "se-tool-output-empty",
            "A46-MCP-05",
            "The output is empty.",
            || HostChanges::tool(OUTPUT, |_, value| value["lines"] = json!([])),
        ),
        mutant(
            "se-tool-kill-id",
            "A46-MCP-06",
            "The tool returns `id`, not `sessionId`.",
            || {
                HostChanges::tool(KILL, |incoming, value| {
                    *value = json!({"ok": true, "id": incoming.arguments()["sessionId"]});
                })
            },
        ),
        mutant(
            "se-tool-kill-mild",
            "A46-MCP-06",
            "The tool confirms a kill, but the session continues.",
            || {
                HostChanges::before(|incoming, _, _| {
                    let id = incoming.arguments()["sessionId"].clone();
                    fake_result(incoming, KILL, json!({"ok": true, "sessionId": id}))
                })
            },
        ),
        mutant(
            "se-doors-apart",
            "A46-MCP-07",
            "Sessions that a tool starts are unknown over HTTP.",
            || {
                HostChanges::after(|incoming, reply, state| {
                    if incoming.tool() == "start_agent_session" {
                        let id = &reply.body["result"]["structuredContent"]["id"];
                        state.count("by tool", id.as_str().unwrap_or_default());
                    }
                    if incoming.route == Route::Show && state.has("by tool", &incoming.id) {
                        *reply = super::HostResponse::error(404, "no such session");
                    }
                })
            },
        ),
        mutant(
            "se-doors-hidden",
            "A46-MCP-07",
            "Sessions that are started over HTTP are not in the list of the tool.",
            || HostChanges::tool(LIST, |_, value| value["sessions"] = json!([])),
        ),
        mutant(
            "se-doors-differ",
            "A46-MCP-07",
            "The tools report another `cwd`.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Mcp {
                        each_record(incoming, reply, &|s| s["cwd"] = json!("/elsewhere"));
                    }
                })
            },
        ),
        mutant(
            "se-doors-silent",
            "A46-MCP-07",
            "The tools do not return the output of turns over HTTP.",
            || HostChanges::tool(OUTPUT, |_, value| value["lines"] = json!([])),
        ),
    ]
}
