//! The conforming ACP mock agent, method by method. Comments name the requirements of the ACP
//! suite.

use serde_json::{Value, json};

use crate::client::{Client, start, start_with};

pub fn ready(args: &[&str]) -> Client {
    let mut client = start(args);
    client.initialize_fully();
    client.new_session(1002);
    client
}

#[test]
fn versions_are_negotiated() {
    // IN-01 … IN-05, IN-09, IN-12, IN-14
    let cases = [
        (json!({ "protocolVersion": 1 }), Some(1)),
        (json!({ "protocolVersion": 999 }), Some(1)),
        (json!({ "protocolVersion": 0 }), Some(1)),
        (
            json!({ "protocolVersion": 2, "info": {}, "capabilities": {} }),
            Some(1),
        ),
        (
            json!({ "protocolVersion": 1, "clientCapabilities": { "odd": 1, "fs": 3 }, "_meta": {} }),
            Some(1),
        ),
        (json!({ "protocolVersion": "1" }), None),
        (json!({ "protocolVersion": null }), None),
        (json!({ "protocolVersion": 1.5 }), None),
        (json!({ "protocolVersion": -1 }), None),
        (json!({ "protocolVersion": 70000 }), None),
        (json!({}), None),
        (json!([]), None),
        (Value::Null, None),
    ];
    let mut client = start(&["acp"]);
    for (id, (params, version)) in (1001..).zip(cases) {
        let answer = client.ask(id, "initialize", params.clone());
        match version {
            Some(version) => {
                assert_eq!(answer["result"]["protocolVersion"], version, "{params}");
                assert!(answer["result"]["agentInfo"]["name"].is_string());
            }
            None => assert_eq!(answer["error"]["code"], -32602, "{params}"),
        }
    }
    assert!(client.finish().status.is_some_and(|s| s.success()));
}

#[test]
fn requests_before_initialize_are_refused() {
    // IN-13
    let mut client = start(&["acp"]);
    assert_eq!(client.new_session(1002)["error"]["code"], -32600);
    assert_eq!(
        client.ask(1003, "no/such", json!({}))["error"]["code"],
        -32601
    );
    client.initialize(json!({}));
    assert!(client.new_session(1004)["result"]["sessionId"].is_string());
    client.finish();
}

#[test]
fn invalid_envelopes_get_json_rpc_errors() {
    // TR-08 … TR-15, TR-20, EX-03 … EX-05
    let mut client = ready(&["acp"]);
    let lines: [&[u8]; 14] = [
        b"\n",
        b"   \r\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"text\",\"method\":\"session/list\"}\r\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"session/list\",\"params\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"session/list\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":-3,\"method\":\"_x/y\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"unknown\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{\"requestId\":5}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n",
        b"{nonsense\n",
        b"\xff\xfe\n",
        b"[1,2]\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":5}\n",
    ];
    for line in lines {
        client.raw(line);
    }
    // One message, written byte by byte.
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":1003,\"method\":\"session/list\"}\n" {
        client.raw(&[*byte]);
    }
    client.wait_for(1003);
    let tape = client.finish();
    let answers: Vec<(Value, Option<i64>)> = tape
        .messages()
        .into_iter()
        .skip(3)
        .map(|m| (m["id"].clone(), m["error"]["code"].as_i64()))
        .collect();
    let expected = [
        (json!("text"), None),
        (json!(0), None),
        (json!(9_007_199_254_740_993_u64), None),
        (json!(-3), Some(-32601)),
        (Value::Null, Some(-32700)),
        (Value::Null, Some(-32700)),
        (Value::Null, Some(-32600)),
        (Value::Null, Some(-32600)),
        (json!(1003), None),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn parameters_are_checked() {
    // TR-12, SE-06, AD-02, LI-05, MO-03, CO-05, PT-06, PT-07
    let mut client = ready(&["acp"]);
    let session = client.session.clone();
    let here = client.dir.clone();
    let wrong = [
        ("session/new", json!({}), -32602),
        ("session/new", json!({ "cwd": here }), -32602),
        (
            "session/new",
            json!({ "cwd": "relative", "mcpServers": [] }),
            -32602,
        ),
        (
            "session/new",
            json!({ "cwd": here, "mcpServers": {} }),
            -32602,
        ),
        (
            "session/new",
            json!({ "cwd": here, "mcpServers": [], "additionalDirectories": ["a"] }),
            -32602,
        ),
        (
            "session/load",
            json!({ "sessionId": "x", "cwd": here, "mcpServers": [] }),
            -32002,
        ),
        (
            "session/resume",
            json!({ "sessionId": "x", "cwd": here }),
            -32002,
        ),
        ("session/resume", json!({ "cwd": here }), -32602),
        ("session/prompt", json!({ "sessionId": session }), -32602),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": "hi" }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{}] }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "odd" }] }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": session,
                "prompt": [{ "type": "image", "data": "", "mimeType": "image/png" }] }),
            -32602,
        ),
        (
            "session/prompt",
            json!({ "sessionId": "x", "prompt": [] }),
            -32002,
        ),
        ("session/list", json!({ "cwd": 5 }), -32602),
        ("session/list", json!({ "cursor": "from-99" }), -32602),
        ("session/close", json!({ "sessionId": "x" }), -32002),
        (
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "odd" }),
            -32602,
        ),
        ("session/set_mode", json!({ "sessionId": session }), -32602),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "odd", "value": "a" }),
            -32602,
        ),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "model", "value": true }),
            -32602,
        ),
        ("authenticate", json!({ "methodId": "x" }), -32601),
        ("logout", json!({}), -32601),
    ];
    for (id, (method, params, code)) in (1010..).zip(wrong) {
        let answer = client.ask(id, method, params.clone());
        assert_eq!(answer["error"]["code"], code, "{method} {params}");
    }
    assert_eq!(
        client.prompt(1003, "hello")["result"]["stopReason"],
        "end_turn"
    );
    client.finish();
}

#[test]
fn unadvertised_methods_are_refused() {
    // IN-17
    let mut client = start(&["acp", "--scenario", "bare"]);
    let answer = client.initialize(json!({}));
    assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], false);
    assert_eq!(
        answer["result"]["agentCapabilities"]["sessionCapabilities"],
        json!({})
    );
    client.new_session(1002);
    let about = client.about_session();
    let methods = [
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/set_mode",
        "session/set_config_option",
    ];
    for (id, method) in (1003..).zip(methods) {
        let answer = client.ask(id, method, about.clone());
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    client.finish();
}

#[test]
fn sessions_require_a_login() {
    // AU-01 … AU-09
    let mut client = start(&["acp", "--scenario", "auth"]);
    let plain = client.initialize(json!({}));
    assert_eq!(
        plain["result"]["authMethods"].as_array().map(Vec::len),
        Some(1)
    );
    let full = client.initialize_fully();
    let shell = &full["result"]["authMethods"][1];
    assert_eq!(shell["type"], "terminal");
    assert_eq!(
        (&shell["args"], &shell["env"]),
        (&json!(["login"]), &json!({ "MOCK_LOGIN": "1" }))
    );
    assert_eq!(client.new_session(1002)["error"]["code"], -32000);
    let odd = client.ask(1003, "authenticate", json!({ "methodId": "odd" }));
    assert_eq!(odd["error"]["code"], -32602);
    let shell = client.ask(1004, "authenticate", json!({ "methodId": "shell" }));
    assert_eq!(shell["error"]["code"], -32602);
    let key = client.ask(1005, "authenticate", json!({ "methodId": "key" }));
    assert_eq!(key["result"], json!({}));
    assert!(client.new_session(1006)["result"].is_object());
    assert_eq!(client.ask(1007, "logout", json!({}))["result"], json!({}));
    assert_eq!(client.new_session(1008)["error"]["code"], -32000);
    client.finish();
}

#[test]
fn modes_and_options_stay_in_sync() {
    // MO-01, MO-02, MO-04, CO-01 … CO-08, SL-01
    let mut client = ready(&["acp", "--scenario", "modes"]);
    let session = client.session.clone();
    let set =
        |id: &str, value: Value| json!({ "sessionId": session, "configId": id, "value": value });
    let mode = json!({ "sessionId": session, "modeId": "plan" });
    assert_eq!(
        client.ask(1003, "session/set_mode", mode)["result"],
        json!({})
    );
    let answer = client.ask(1004, "session/set_config_option", set("mode", json!("act")));
    assert_eq!(answer["result"]["configOptions"][0]["currentValue"], "act");
    client.ask(
        1005,
        "session/set_config_option",
        set("model", json!("large")),
    );
    let answer = client.ask(
        1006,
        "session/set_config_option",
        set("verbose", json!(false)),
    );
    let values: Vec<&Value> = answer["result"]["configOptions"]
        .as_array()
        .expect("the full list")
        .iter()
        .map(|option| &option["currentValue"])
        .collect();
    assert_eq!(
        values,
        [&json!("act"), &json!("large"), &json!("low"), &json!(false)]
    );
    client.prompt(1007, "say");
    client.prompt(1008, "switch");
    let tape = client.finish();
    assert!(
        tape.said()
            .starts_with("mode act, model large, effort low, verbose false")
    );
    assert_eq!(tape.updates("current_mode_update").len(), 2);
    let updates = tape.updates("config_option_update");
    assert_eq!(updates[0]["configOptions"][0]["currentValue"], "plan");
    assert!(
        updates
            .iter()
            .all(|u| u["configOptions"].as_array().is_some_and(|o| o.len() == 4))
    );
    let commands = &tape.updates("available_commands_update")[0]["availableCommands"];
    assert_eq!(commands[0]["input"]["hint"], "what to review");
}

#[test]
fn sessions_are_listed_in_pages() {
    // SE-02, LI-01 … LI-07, DE-01, DE-02
    let mut client = start(&["acp", "--scenario", "rich"]);
    client.initialize(json!({}));
    let elsewhere = client.dir.join("elsewhere");
    for id in 1002..1006 {
        client.new_session(id);
    }
    client.new_session_in(1006, &elsewhere);
    let last = client.about_session();
    let mut seen = Vec::new();
    let mut params = json!({});
    for id in 1010..1020 {
        let answer = client.ask(id, "session/list", params);
        let sessions = answer["result"]["sessions"].as_array().expect("a list");
        seen.extend(sessions.iter().map(|s| s["sessionId"].to_string()));
        match answer["result"].get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => break,
        }
    }
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((all, seen.len()), (5, 5));
    let here = client.ask(1020, "session/list", json!({ "cwd": elsewhere }));
    assert_eq!(
        here["result"]["sessions"][0]["sessionId"],
        last["sessionId"]
    );
    for id in [1021, 1022] {
        assert_eq!(
            client.ask(id, "session/delete", last.clone())["result"],
            json!({})
        );
    }
    let none = client.ask(1023, "session/list", json!({ "cwd": elsewhere }));
    assert_eq!(none["result"]["sessions"], json!([]));
    client.finish();
}

#[test]
fn sessions_survive_the_process() {
    // LD-01, LD-02, LD-04, RS-01, RS-02, AD-01, AD-03
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path().join("deep/down");
    let begin = || {
        let mut client = start_with(&["acp", "--scenario", "resume"], |command| {
            command.env("MOCK_STATE_DIR", &state);
        });
        client.initialize(json!({}));
        client
    };
    let mut client = begin();
    let cwd = client.dir.clone();
    let more = json!({ "cwd": cwd, "mcpServers": [], "additionalDirectories": ["/"] });
    let answer = client.ask(1002, "session/new", more);
    client.session = answer["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    client.prompt(1003, "one");
    let session = client.session.clone();
    client.finish();

    let again = json!({ "sessionId": session, "cwd": "/", "mcpServers": [] });
    let mut client = begin();
    let answer = client.ask(1002, "session/load", again.clone());
    assert!(answer["result"].is_object(), "{answer}");
    client.session = session.clone();
    client.prompt(1003, "two");
    let list = client.ask(1004, "session/list", json!({}));
    assert_eq!(
        list["result"]["sessions"][0].get("additionalDirectories"),
        None
    );
    let tape = client.finish();
    let user = |m: &Value| m["params"]["update"]["sessionUpdate"] == "user_message_chunk";
    assert!(tape.place(user) < tape.place(|m| m["id"] == 1002));
    assert_eq!(
        tape.said(),
        "Turn 1. Before: . Now: oneTurn 2. Before: one. Now: two"
    );

    let mut client = begin();
    client.ask(1002, "session/resume", again);
    client.session = session;
    client.prompt(1003, "three");
    let tape = client.finish();
    assert!(tape.updates("user_message_chunk").is_empty());
    assert_eq!(tape.said(), "Turn 3. Before: one | two. Now: three");
}

#[test]
fn sessions_are_independent() {
    // SE-13, TR-16, PT-20
    let mut client = start(&["acp"]);
    client.initialize(json!({}));
    client.new_session(1002);
    let slow = client.prompt_params("be slow");
    let first = client.session.clone();
    client.tell(1003, "session/prompt", slow.clone());
    // The session sends other updates first.
    let ticks = client.until(|line| String::from_utf8_lossy(line).contains("tick 1 "));
    assert!(ticks.is_some());
    let busy = client.ask(1004, "session/prompt", slow);
    assert_eq!(busy["error"]["code"], -32600);
    client.new_session(1005);
    let second = client.session.clone();
    client.prompt(1006, "hello");
    client.notify("session/cancel", json!({ "sessionId": first }));
    assert_eq!(client.wait_for(1003)["result"]["stopReason"], "cancelled");
    let tape = client.finish();
    let of = |session: &str| -> String {
        let calls = tape.calls("session/update").into_iter();
        let own = calls.filter(|m| m["params"]["sessionId"] == session);
        own.map(|m| {
            m["params"]["update"]["content"]["text"]
                .as_str()
                .unwrap_or("")
                .to_owned()
        })
        .collect()
    };
    assert_eq!(of(&second), "You said: hello");
    assert!(of(&first).starts_with("tick 1 "));
}

#[test]
fn arguments_environment_and_directory_are_shown() {
    let mut client = start_with(&["acp", "--", "--careful", "--model", "large"], |command| {
        command.env("MOCK_WORD", "blue");
    });
    client.initialize(json!({}));
    client.new_session_in(1002, std::path::Path::new("/"));
    for (id, prompt) in (1003..).zip([
        "show argv",
        "show env MOCK_WORD",
        "show env NO_SUCH",
        "show cwd",
    ]) {
        client.prompt(id, prompt);
    }
    let tape = client.finish();
    let said = tape.said();
    assert_eq!(
        said,
        "[\"--careful\",\"--model\",\"large\"]MOCK_WORD=blueNO_SUCH is not set/"
    );
}
