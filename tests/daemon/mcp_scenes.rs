//! Scenes that must pass over every transport to the tools (A46-MCP-01 to 07, A46-TURN-01 to 06).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::mcp_client::{Door, Place};

pub const TOOLS: [&str; 8] = [
    "start_agent_session",
    "prompt_agent_session",
    "list_agent_sessions",
    "get_agent_session_output",
    "kill_agent_session",
    "list_agent_questions",
    "answer_agent_question",
    "interrupt_agent_session",
];

pub const ALIASES: [&str; 5] = [
    "agent_start",
    "agent_prompt",
    "agent_sessions_list",
    "agent_output",
    "agent_kill",
];

/// All tools, by name.
pub fn listed(door: &mut impl Door) -> BTreeMap<String, Value> {
    let answer = door.request("tools/list", json!({}));
    let tools = answer["result"]["tools"]
        .as_array()
        .expect("a list")
        .clone();
    let named = tools.into_iter().map(|tool| {
        let name = tool["name"].as_str().expect("a name").to_owned();
        (name, tool)
    });
    named.collect()
}

/// A46-MCP-01 to 06: names and parameters of the tools.
pub fn the_tools(door: &mut impl Door) {
    let tools = listed(door);
    let mut names: Vec<&str> = tools.keys().map(String::as_str).collect();
    let mut wanted = TOOLS;
    wanted.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, wanted);
    let inputs: [(&str, &[&str], &[&str]); 8] = [
        (
            "start_agent_session",
            &[
                "adapter",
                "cwd",
                "label",
                "permissions",
                "prompt",
                "workspaceSlug",
            ],
            &["adapter"],
        ),
        (
            "prompt_agent_session",
            &["prompt", "sessionId"],
            &["sessionId", "prompt"],
        ),
        ("list_agent_sessions", &["onlyAlive"], &[]),
        (
            "get_agent_session_output",
            &["lastN", "sessionId"],
            &["sessionId"],
        ),
        ("kill_agent_session", &["sessionId"], &["sessionId"]),
        ("list_agent_questions", &["sessionId"], &[]),
        (
            "answer_agent_question",
            &[
                "cancelled",
                "content",
                "optionId",
                "questionId",
                "sessionId",
            ],
            &["sessionId", "questionId"],
        ),
        ("interrupt_agent_session", &["sessionId"], &["sessionId"]),
    ];
    for (name, all, required) in inputs {
        let tool = &tools[name];
        let schema = &tool["inputSchema"];
        let properties = schema["properties"].as_object().expect("properties");
        let mut given: Vec<&str> = properties.keys().map(String::as_str).collect();
        given.sort_unstable();
        assert_eq!(given, all, "{name}");
        let needed = schema["required"].as_array().cloned().unwrap_or_default();
        assert_eq!(needed, required, "{name}");
        for schema in [schema, &tool["outputSchema"]] {
            assert_eq!(schema["type"], "object", "{name}");
            jsonschema::validator_for(schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let hints = &tool["annotations"];
        let reads = matches!(
            name,
            "list_agent_sessions" | "get_agent_session_output" | "list_agent_questions"
        );
        assert_eq!(hints["readOnlyHint"], reads, "{name}");
        assert_eq!(hints["destructiveHint"], !reads, "{name}");
        assert!(tool["description"].as_str().is_some_and(|d| d.len() > 40));
    }
}

/// Checks a result against the output schema of its tool.
fn fits(tools: &BTreeMap<String, Value>, tool: &str, result: &Value) {
    let schema = jsonschema::validator_for(&tools[tool]["outputSchema"]).expect("a schema");
    let wrong: Vec<String> = schema.iter_errors(result).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{tool}: {wrong:?} in {result}");
}

/// A46-MCP-02 to 06, A46-TURN-01, 02, 03, 05, 06: a session from start to end. Returns its id.
pub fn a_life(door: &mut impl Door, place: &Place) -> String {
    let tools = listed(door);
    let started = door.done(
        "start_agent_session",
        json!({
            "adapter": "mock-acp", "cwd": place.work(), "label": "a label",
            "prompt": "apple", "later": ["unknown", "is", "ignored"], "workspaceSlug": null,
        }),
    );
    fits(&tools, "start_agent_session", &started);
    assert_eq!(started["status"], "starting");
    assert_eq!(started["adapterSlug"], "mock-acp");
    assert_eq!(started["workspaceSlug"], "default");
    assert_eq!(started["cwd"], place.work().as_str());
    assert_eq!(started["label"], "a label");
    let id = started["id"].as_str().expect("an id").to_owned();
    let lines = door.turns(&id, 1);
    assert!(lines.iter().any(|l| l.contains("apple")), "{lines:?}");
    // The session stays alive, and the same agent remembers the first turn.
    let alive = door.done("list_agent_sessions", json!({ "onlyAlive": true }));
    fits(&tools, "list_agent_sessions", &alive);
    assert!(has(&alive, &id), "{alive}");
    let taken = door.done(
        "prompt_agent_session",
        json!({ "sessionId": id, "prompt": "what did I say before?" }),
    );
    fits(&tools, "prompt_agent_session", &taken);
    assert_eq!(taken, json!({ "ok": true, "sessionId": id }));
    let lines = door.turns(&id, 2);
    let second = lines.iter().skip_while(|l| !l.starts_with("── turn-end"));
    assert!(
        second.skip(1).any(|l| l.contains("apple")),
        "the agent forgot the first turn: {lines:?}"
    );
    // Only one turn can run at a time.
    door.done(
        "prompt_agent_session",
        json!({ "sessionId": id, "prompt": "be slow" }),
    );
    let busy = door.refused(
        "prompt_agent_session",
        json!({ "sessionId": id, "prompt": "and now?" }),
    );
    assert_eq!(busy["code"], "session_busy");
    assert!(busy["message"].as_str().is_some_and(|m| m.contains(&id)));
    assert!(busy["hint"].is_string());
    // Only the last lines.
    let output = door.done(
        "get_agent_session_output",
        json!({ "sessionId": id, "lastN": 2 }),
    );
    fits(&tools, "get_agent_session_output", &output);
    assert_eq!(output["sessionId"], id.as_str());
    assert_eq!(output["status"], "running");
    assert_eq!(output["lines"].as_array().map(Vec::len), Some(2));
    // The kill happens during the turn.
    let killed = door.done("kill_agent_session", json!({ "sessionId": id }));
    fits(&tools, "kill_agent_session", &killed);
    assert_eq!(killed, json!({ "ok": true, "sessionId": id }));
    let again = door.done("kill_agent_session", json!({ "sessionId": id }));
    assert_eq!(again, json!({ "ok": false, "sessionId": id }));
    let late = door.refused(
        "prompt_agent_session",
        json!({ "sessionId": id, "prompt": "hello?" }),
    );
    assert_eq!(late["code"], "session_ended");
    let alive = door.done("list_agent_sessions", json!({ "onlyAlive": true }));
    assert!(!has(&alive, &id), "{alive}");
    let all = door.done("list_agent_sessions", json!({}));
    fits(&tools, "list_agent_sessions", &all);
    assert!(has(&all, &id), "{all}");
    let output = door.done("get_agent_session_output", json!({ "sessionId": id }));
    assert_eq!(output["status"], "killed");
    let ends = output["lines"].as_array().expect("lines").iter();
    let ends = ends.filter(|l| l.as_str().is_some_and(|l| l.starts_with("── turn-end")));
    assert_eq!(ends.count(), 3, "{output}");
    id
}

/// An MCP client answers a permission request and a form of an agent.
pub fn questions(door: &mut impl Door, place: &Place) {
    let tools = listed(door);
    let started = door.done(
        "start_agent_session",
        json!({ "adapter": "mock-acp", "cwd": place.work(), "prompt": "ask for permission" }),
    );
    let id = started["id"].as_str().expect("an id").to_owned();
    let open = |door: &mut dyn FnMut() -> Value| {
        for _ in 0..600 {
            let listed = door();
            if let Some(question) = listed["questions"].get(0) {
                return question.clone();
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("no question");
    };
    let question = open(&mut || {
        let listed = door.done("list_agent_questions", json!({}));
        fits(&tools, "list_agent_questions", &listed);
        listed
    });
    assert_eq!(question["sessionId"], id.as_str());
    // What the tool call would do.
    let tool = &question["tool"];
    assert_eq!(tool["input"]["path"], "notes.txt", "{question}");
    assert_eq!(tool["content"][0]["newText"], "one\nthree\n", "{question}");
    let path = format!("{}/notes.txt", place.work());
    assert_eq!(tool["locations"][0]["path"], path.as_str(), "{question}");
    let output = door.done("get_agent_session_output", json!({ "sessionId": id }));
    fits(&tools, "get_agent_session_output", &output);
    assert_eq!(output["openQuestions"], 1);
    let options = question["options"].as_array().expect("options");
    let allow = options.iter().find(|option| option["kind"] == "allow_once");
    let answer = json!({ "sessionId": id, "questionId": question["id"], "optionId": allow.expect("offered")["id"] });
    let done = door.done("answer_agent_question", answer.clone());
    fits(&tools, "answer_agent_question", &done);
    let lines = door.turns(&id, 1);
    assert!(
        lines.iter().any(|line| line == "You allowed it."),
        "{lines:?}"
    );
    assert_eq!(
        door.refused("answer_agent_question", answer)["code"],
        "permission_not_found"
    );
    door.done(
        "prompt_agent_session",
        json!({ "sessionId": id, "prompt": "ask a question" }),
    );
    let question = open(&mut || door.done("list_agent_questions", json!({ "sessionId": id })));
    assert_eq!(question["schema"]["properties"]["color"]["type"], "string");
    let wrong = json!({ "sessionId": id, "questionId": question["id"], "content": { "color": 7 } });
    assert_eq!(
        door.refused("answer_agent_question", wrong)["code"],
        "answer_invalid"
    );
    let right =
        json!({ "sessionId": id, "questionId": question["id"], "content": { "color": "blue" } });
    door.done("answer_agent_question", right);
    let lines = door.turns(&id, 2);
    assert!(
        lines.iter().any(|line| line == "You like blue."),
        "{lines:?}"
    );
    door.done("kill_agent_session", json!({ "sessionId": id }));
}

/// An MCP client that leaves a question unanswered does not wait for ever: it ends the turn, or lets
/// the host answer.
pub fn unattended(door: &mut impl Door, place: &Place) {
    let tools = listed(door);
    let start = |permissions: Value| {
        json!({
            "adapter": "mock-acp", "cwd": place.work(), "prompt": "ask for permission",
            "permissions": permissions,
        })
    };
    let started = door.done("start_agent_session", start(Value::Null));
    assert!(started.get("permissions").is_none(), "{started}");
    let id = started["id"].as_str().expect("an id").to_owned();
    let read = json!({ "sessionId": id });
    while door.done("get_agent_session_output", read.clone())["openQuestions"] != 1 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let done = door.done("interrupt_agent_session", read.clone());
    fits(&tools, "interrupt_agent_session", &done);
    assert_eq!(
        done,
        json!({ "ok": true, "sessionId": id, "wasBusy": true })
    );
    let lines = door.turns(&id, 1);
    assert!(
        lines.iter().any(|line| line.contains("(cancelled)")),
        "{lines:?}"
    );
    let again = door.done("interrupt_agent_session", read.clone());
    assert_eq!(again["wasBusy"], false);
    let output = door.done("get_agent_session_output", read.clone());
    assert_eq!(
        (&output["openQuestions"], &output["status"]),
        (&json!(0), &json!("running"))
    );
    door.done("kill_agent_session", read);
    for (policy, said) in [
        ("allow", "You allowed it."),
        ("deny", "You did not allow it."),
    ] {
        let started = door.done("start_agent_session", start(json!(policy)));
        fits(&tools, "start_agent_session", &started);
        assert_eq!(started["permissions"], policy);
        let id = started["id"].as_str().expect("an id").to_owned();
        let lines = door.turns(&id, 1);
        assert!(lines.iter().any(|line| line == said), "{lines:?}");
        let asked = format!("(decided by the host: {policy})");
        assert!(lines.iter().any(|line| line.ends_with(&asked)), "{lines:?}");
        door.done("kill_agent_session", json!({ "sessionId": id }));
    }
}

fn has(list: &Value, id: &str) -> bool {
    let sessions = list["sessions"].as_array().expect("a list");
    sessions.iter().any(|session| session["id"] == id)
}

/// Invalid arguments are reported by name. Requests that cannot be carried out are refused as over
/// HTTP.
pub fn wrong_calls(door: &mut impl Door, place: &Place) {
    let wrong = [
        ("start_agent_session", json!({}), "adapter"),
        ("start_agent_session", json!({ "adapter": 5 }), "adapter"),
        ("start_agent_session", json!({ "adapter": null }), "adapter"),
        (
            "start_agent_session",
            json!({ "adapter": "mock-acp", "cwd": [] }),
            "cwd",
        ),
        (
            "start_agent_session",
            json!({ "adapter": "mock-acp", "workspaceSlug": {} }),
            "workspaceSlug",
        ),
        (
            "start_agent_session",
            json!({ "adapter": "mock-acp", "prompt": true }),
            "prompt",
        ),
        (
            "start_agent_session",
            json!({ "adapter": "mock-acp", "label": 1 }),
            "label",
        ),
        (
            "prompt_agent_session",
            json!({ "prompt": "x" }),
            "sessionId",
        ),
        (
            "prompt_agent_session",
            json!({ "sessionId": "x" }),
            "prompt",
        ),
        (
            "prompt_agent_session",
            json!({ "sessionId": "x", "prompt": 7 }),
            "prompt",
        ),
        (
            "list_agent_sessions",
            json!({ "onlyAlive": "true" }),
            "onlyAlive",
        ),
        ("get_agent_session_output", json!({}), "sessionId"),
        (
            "get_agent_session_output",
            json!({ "sessionId": "x", "lastN": "5" }),
            "lastN",
        ),
        (
            "get_agent_session_output",
            json!({ "sessionId": "x", "lastN": 0 }),
            "lastN",
        ),
        (
            "get_agent_session_output",
            json!({ "sessionId": "x", "lastN": -1 }),
            "lastN",
        ),
        (
            "get_agent_session_output",
            json!({ "sessionId": "x", "lastN": 1.5 }),
            "lastN",
        ),
        (
            "get_agent_session_output",
            json!({ "sessionId": "x", "lastN": 1e300 }),
            "lastN",
        ),
        (
            "kill_agent_session",
            json!({ "sessionId": ["x"] }),
            "sessionId",
        ),
        ("interrupt_agent_session", json!({}), "sessionId"),
        (
            "start_agent_session",
            json!({ "adapter": "mock-acp", "permissions": "maybe" }),
            "permissions",
        ),
    ];
    let tools = listed(door);
    for (tool, arguments, field) in wrong {
        let told = door.refused(tool, arguments.clone());
        assert_eq!(told["code"], "bad_request", "{tool} {arguments}");
        assert_eq!(told["details"]["field"], field, "{tool} {arguments}");
        let message = told["message"].as_str().expect("a message");
        assert!(message.contains(&format!("`{field}`")), "{message}");
        // The input schema refuses them as well. Unlike it, the tools treat null as missing.
        let schema = jsonschema::validator_for(&tools[tool]["inputSchema"]).expect("a schema");
        assert!(!schema.is_valid(&arguments), "{tool} {arguments}");
    }
    let unknown = json!({ "sessionId": "ses_0" });
    for (tool, arguments) in [
        (
            "prompt_agent_session",
            json!({ "sessionId": "ses_0", "prompt": "x" }),
        ),
        ("get_agent_session_output", unknown.clone()),
        ("kill_agent_session", unknown.clone()),
        ("interrupt_agent_session", unknown),
    ] {
        let told = door.refused(tool, arguments);
        assert_eq!(told["code"], "session_not_found", "{tool}");
    }
    let start = |change: (&str, Value)| {
        let mut whole = json!({ "adapter": "mock-acp", "cwd": place.work() });
        whole[change.0] = change.1;
        whole
    };
    for (change, code) in [
        (("adapter", json!("mock-acq")), "adapter_not_found"),
        (("adapter", json!("../mock-acp")), "bad_request"),
        (("cwd", json!("work")), "bad_request"),
        (("cwd", json!("/nowhere/at/all")), "cwd_missing"),
        (("label", json!("x".repeat(2000))), "bad_request"),
    ] {
        let told = door.refused("start_agent_session", start(change.clone()));
        assert_eq!(told["code"], code, "{change:?}");
        assert!(told["message"].is_string(), "{told}");
    }
    // Requests that are not tool calls.
    let code = |answer: Value| {
        let hint = answer["error"]["data"]["hint"].as_str();
        assert!(hint.is_some_and(|hint| !hint.is_empty()), "{answer}");
        answer["error"]["code"].as_i64().expect("an error")
    };
    assert_eq!(code(door.call("agent_start", json!({}))), -32602);
    assert_eq!(code(door.call("no_such_tool", json!({}))), -32602);
    let call = |params: Value| ("tools/call", params);
    for (method, params) in [
        call(json!({})),
        call(json!({ "name": 5 })),
        call(json!({ "name": "list_agent_sessions", "arguments": [] })),
        call(json!({ "name": "list_agent_sessions", "arguments": "x" })),
        ("tools/list", json!({ "cursor": "none of ours" })),
    ] {
        let answer = door.request(method, params.clone());
        assert_eq!(code(answer), -32602, "{method} {params}");
    }
    for method in ["sessions/list", "tools/odd"] {
        assert_eq!(code(door.request(method, json!({}))), -32601, "{method}");
    }
    let nothing = door.done("list_agent_sessions", json!({}));
    assert_eq!(nothing["sessions"], json!([]), "no session was started");
}
