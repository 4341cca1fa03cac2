//! Defects in the MCP tools.

use serde_json::{Value, json};

use super::tamper::{Asked, Route};
use super::{Mutant, Tamper, each_record, of_tool, remove, wrong};

const START: &str = "start_agent_session";
const PROMPT: &str = "prompt_agent_session";
const LIST: &str = "list_agent_sessions";
const OUTPUT: &str = "get_agent_session_output";
const KILL: &str = "kill_agent_session";

/// Changes the list of tools.
fn listed(change: fn(&mut Vec<Value>)) -> Tamper {
    Tamper::after(move |asked, reply, _| {
        if asked.body["method"] == "tools/list"
            && let Some(tools) = reply.body["result"]["tools"].as_array_mut()
        {
            change(tools);
        }
    })
}

/// Changes the inputs that one tool declares.
fn inputs(name: &'static str, change: fn(&mut Value)) -> Tamper {
    Tamper::after(move |asked, reply, _| {
        if asked.body["method"] != "tools/list" {
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
fn deaf(tool: &'static str, argument: &'static str) -> Tamper {
    Tamper::before(move |asked, _, _| {
        if asked.tool() == tool {
            remove(&mut asked.body["params"]["arguments"], argument);
        }
        None
    })
}

/// Responds with `value` as the tool's result, without calling the tool.
fn given(asked: &Asked, name: &str, value: Value) -> Option<super::Reply> {
    (asked.tool() == name).then(|| {
        let result = json!({
            "content": [{"type": "text", "text": value.to_string()}],
            "structuredContent": value,
        });
        let message = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result": result});
        super::Reply::new(200, message)
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
        wrong(
            "se-tool-start-label",
            "A46-MCP-02",
            "The tool ignores `label`.",
            || deaf(START, "label"),
        ),
        wrong(
            "se-tool-start-cwd",
            "A46-MCP-02",
            "The tool ignores `cwd`.",
            || deaf(START, "cwd"),
        ),
        wrong(
            "se-tool-start-prompt",
            "A46-MCP-02",
            "The tool ignores `prompt` when it starts a session.",
            || deaf(START, "prompt"),
        ),
        wrong(
            "se-tool-prompt-lost",
            "A46-MCP-03",
            "The tool accepts a prompt but does not send it to the agent.",
            || {
                Tamper::before(|asked, _, registry| {
                    let id = asked.arguments()["sessionId"].clone();
                    let is_busy = registry.get(id.as_str()?).is_ok_and(|session| session.busy);
                    match is_busy {
                        true => None,
                        false => given(asked, PROMPT, json!({"ok": true, "sessionId": id})),
                    }
                })
            },
        ),
        wrong(
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
        wrong(
            "se-tool-overlap-mild",
            "A46-TURN-05",
            "The tool rejects a prompt during a turn with a result that is not an error.",
            || {
                Tamper::after(|asked, reply, _| {
                    if reply.body["result"]["isError"] == true
                        && let Some(mild) = given(asked, PROMPT, json!({"ok": false}))
                    {
                        reply.body = mild.body;
                    }
                })
            },
        ),
        wrong(
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
        wrong(
            "se-tool-output-inputs",
            "A46-MCP-05",
            "The tool does not declare `lastN`.",
            || inputs(OUTPUT, |known| remove(known, "lastN")),
        ),
        wrong(
            "se-tool-output-reversed",
            "A46-MCP-05",
            "The tool returns the newest line first.",
            || {
                Tamper::tool(OUTPUT, |_, value| {
                    if let Some(lines) = value["lines"].as_array_mut() {
                        lines.reverse();
                    }
                })
            },
        ),
        wrong(
            "se-tool-output-more",
            "A46-MCP-05",
            "`lastN` returns one line too many.",
            || {
                Tamper::before(|asked, _, _| {
                    let count = asked.arguments()["lastN"].as_u64();
                    if let Some(count) = count.filter(|_| asked.tool() == OUTPUT) {
                        asked.body["params"]["arguments"]["lastN"] = json!(count + 1);
                    }
                    None
                })
            },
        ),
        wrong(
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
        wrong(
            "se-tool-kill-thin",
            "A46-MCP-06",
            "The result of the tool has no `ok`.",
            || Tamper::tool(KILL, |_, value| remove(value, "ok")),
        ),
        wrong(
            "se-doors-stale",
            "A46-MCP-07",
            "The list of the tool shows ended sessions as running.",
            || {
                Tamper::tool(LIST, |_, value| {
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
        wrong(
            "se-tool-missing",
            "A46-MCP-01",
            "One of the five tools is missing.",
            || listed(|tools| tools.retain(|tool| tool["name"] != KILL)),
        ),
        wrong(
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
        wrong(
            "se-tool-start-thin",
            "A46-MCP-02",
            "The tool returns only the id.",
            || {
                Tamper::tool("start_agent_session", |_, value| {
                    *value = json!({"id": value["id"]})
                })
            },
        ),
        wrong(
            "se-tool-start-words",
            "A46-MCP-02",
            "The tool returns a sentence, not a record.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.tool() == "start_agent_session" {
                        let result = &mut reply.body["result"];
                        remove(result, "structuredContent");
                        result["content"] = json!([{"type": "text", "text": "Started."}]);
                    }
                })
            },
        ),
        wrong(
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
        wrong(
            "se-tool-prompt-waits",
            "A46-MCP-03",
            "The tool waits for the end of the turn.",
            || Tamper {
                waits: Some(|asked| asked.tool() == PROMPT),
                ..Tamper::default()
            },
        ),
        wrong(
            "se-tool-overlap",
            "A46-TURN-05",
            "The tool accepts a prompt during a turn and drops it.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.tool() == PROMPT {
                        let id = asked.arguments()["sessionId"].clone();
                        let value = json!({"ok": true, "sessionId": id});
                        if let Some(good) = given(asked, PROMPT, value) {
                            reply.body = good.body;
                        }
                    }
                })
            },
        ),
        wrong(
            "se-tool-list-all",
            "A46-MCP-04",
            "`onlyAlive` is ignored.",
            || {
                Tamper::before(|asked, _, _| {
                    if asked.tool() == LIST {
                        asked.body["params"]["arguments"] = json!({});
                    }
                    None
                })
            },
        ),
        wrong(
            "se-tool-list-alive",
            "A46-MCP-04",
            "The tool never lists ended sessions.",
            || {
                Tamper::before(|asked, _, _| {
                    if asked.tool() == LIST {
                        asked.body["params"]["arguments"] = json!({"onlyAlive": true});
                    }
                    None
                })
            },
        ),
        wrong(
            "se-tool-list-member",
            "A46-MCP-04",
            "The list is named `items`.",
            || {
                Tamper::tool(LIST, |_, value| {
                    *value = json!({"items": value["sessions"]})
                })
            },
        ),
        wrong(
            "se-tool-output-all",
            "A46-MCP-05",
            "`lastN` is ignored.",
            || {
                Tamper::before(|asked, _, _| {
                    if asked.tool() == OUTPUT {
                        remove(&mut asked.body["params"]["arguments"], "lastN");
                    }
                    None
                })
            },
        ),
        wrong(
            "se-tool-output-first",
            "A46-MCP-05",
            "`lastN` returns the first lines.",
            || {
                Tamper::after(|asked, reply, memory| {
                    if asked.tool() != OUTPUT {
                        return;
                    }
                    memory.count("asked", "");
                    let count = asked.arguments()["lastN"].as_u64();
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
        wrong(
            "se-tool-output-empty",
            "A46-MCP-05",
            "The output is empty.",
            || Tamper::tool(OUTPUT, |_, value| value["lines"] = json!([])),
        ),
        wrong(
            "se-tool-kill-id",
            "A46-MCP-06",
            "The tool returns `id`, not `sessionId`.",
            || {
                Tamper::tool(KILL, |asked, value| {
                    *value = json!({"ok": true, "id": asked.arguments()["sessionId"]});
                })
            },
        ),
        wrong(
            "se-tool-kill-mild",
            "A46-MCP-06",
            "The tool confirms a kill, but the session continues.",
            || {
                Tamper::before(|asked, _, _| {
                    let id = asked.arguments()["sessionId"].clone();
                    given(asked, KILL, json!({"ok": true, "sessionId": id}))
                })
            },
        ),
        wrong(
            "se-doors-apart",
            "A46-MCP-07",
            "Sessions that a tool starts are unknown over HTTP.",
            || {
                Tamper::after(|asked, reply, memory| {
                    if asked.tool() == "start_agent_session" {
                        let id = &reply.body["result"]["structuredContent"]["id"];
                        memory.count("by tool", id.as_str().unwrap_or_default());
                    }
                    if asked.route == Route::Show && memory.has("by tool", &asked.id) {
                        *reply = super::Reply::error(404, "no such session");
                    }
                })
            },
        ),
        wrong(
            "se-doors-hidden",
            "A46-MCP-07",
            "Sessions that are started over HTTP are not in the list of the tool.",
            || Tamper::tool(LIST, |_, value| value["sessions"] = json!([])),
        ),
        wrong(
            "se-doors-differ",
            "A46-MCP-07",
            "The tools report another `cwd`.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Mcp {
                        each_record(asked, reply, &|s| s["cwd"] = json!("/elsewhere"));
                    }
                })
            },
        ),
        wrong(
            "se-doors-silent",
            "A46-MCP-07",
            "The tools do not return the output of turns over HTTP.",
            || Tamper::tool(OUTPUT, |_, value| value["lines"] = json!([])),
        ),
    ]
}
