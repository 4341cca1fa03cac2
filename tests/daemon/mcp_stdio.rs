//! `agentproto mcp` with its own sessions (A46-MCP-01 to 07).

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::mcp_client::{Client, Door, HANG, Place};
use super::mcp_scenes::{
    ALIASES, TOOLS, a_life, listed, questions, the_tools, unattended, wrong_calls,
};

#[test]
fn tools_and_a_whole_session() {
    let place = Place::new();
    let mut client = place.client(&[]);
    the_tools(&mut client);
    a_life(&mut client, &place);
    questions(&mut client, &place);
    unattended(&mut client, &place);
    let ended = client.close();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.rest.is_empty(), "{:?}", ended.rest);
    assert!(
        ended.stderr.contains("hosts its own sessions"),
        "{}",
        ended.stderr
    );
    // No state of the sessions is left behind.
    let left = std::fs::read_dir(place.path("home/stdio")).expect("there");
    assert_eq!(left.count(), 0);
    assert!(!place.path("home/sessions.db").exists());
}

#[test]
fn invalid_calls_are_reported_by_name() {
    let place = Place::new();
    let mut client = place.client(&[]);
    wrong_calls(&mut client, &place);
}

/// The alias names exist only with `--aliases`, next to the normal names.
#[test]
fn aliases() {
    let place = Place::new();
    let mut client = place.client(&["--aliases"]);
    let tools = listed(&mut client);
    assert_eq!(tools.len(), 13);
    for (tool, alias) in TOOLS.iter().zip(ALIASES) {
        for part in ["inputSchema", "outputSchema", "annotations"] {
            assert_eq!(tools[*tool][part], tools[alias][part], "{alias}");
        }
    }
    let started = client.done(
        "agent_start",
        json!({ "adapter": "mock-acp", "cwd": place.work(), "prompt": "pear" }),
    );
    let id = started["id"].as_str().expect("an id").to_owned();
    let lines = client.turns(&id, 1);
    assert!(lines.iter().any(|l| l.contains("pear")), "{lines:?}");
    client.done(
        "agent_prompt",
        json!({ "sessionId": id, "prompt": "again" }),
    );
    client.turns(&id, 2);
    let output = client.done("agent_output", json!({ "sessionId": id, "lastN": 1 }));
    assert_eq!(output["lines"], json!(["── turn-end (end_turn) ──"]));
    assert_eq!(
        client.done("agent_kill", json!({ "sessionId": id }))["ok"],
        true
    );
    let all = client.done("agent_sessions_list", json!({}));
    assert_eq!(all["sessions"][0]["status"], "killed");
    // Arguments that only the later spec version has are refused. Ignoring them would run the agent
    // in the wrong place.
    for field in ["ground", "agent"] {
        let mut arguments = json!({ "adapter": "mock-acp", "cwd": place.work() });
        arguments[field] = json!("x");
        let told = client.refused("agent_start", arguments);
        assert_eq!(told["code"], "unsupported_argument", "{field}");
        assert!(told["message"].as_str().is_some_and(|m| m.contains(field)));
    }
}

/// Starts a slow turn and waits until the mock agent has begun to respond and its process is
/// visible.
fn slow_turn(client: &mut Client, place: &Place) -> String {
    let started = client.done(
        "start_agent_session",
        json!({ "adapter": "mock-acp", "cwd": place.work(), "prompt": "be slow" }),
    );
    let id = started["id"].as_str().expect("an id").to_owned();
    let begun = Instant::now();
    loop {
        let all = client.done("list_agent_sessions", json!({}));
        if all["sessions"][0]["turns"] == 1 && !place.agents().is_empty() {
            return id;
        }
        assert!(begun.elapsed() < HANG, "{all}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn end_of_input_during_a_turn_ends_the_agents() {
    let place = Place::new();
    let mut client = place.client(&[]);
    slow_turn(&mut client, &place);
    let ended = client.close();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(place.agents(), Vec::<String>::new());
}

#[test]
fn signals_end_the_server_and_its_agents() {
    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGINT, 130)] {
        let place = Place::new();
        let mut client = place.client(&[]);
        slow_turn(&mut client, &place);
        let ended = client.signal(signal);
        assert_eq!(ended.status.code(), Some(code), "{}", ended.stderr);
        assert_eq!(place.agents(), Vec::<String>::new());
    }
}

#[test]
fn a_killed_server_leaves_no_agent_and_the_next_one_cleans_up() {
    let place = Place::new();
    let mut client = place.client(&[]);
    slow_turn(&mut client, &place);
    client.signal(libc::SIGKILL);
    let begun = Instant::now();
    while !place.agents().is_empty() {
        assert!(begun.elapsed() < HANG, "{:?}", place.agents());
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = || {
        std::fs::read_dir(place.path("home/stdio"))
            .expect("there")
            .count()
    };
    assert_eq!(left(), 1);
    let mut next = place.client(&[]);
    assert_eq!(
        next.done("list_agent_sessions", json!({}))["sessions"],
        json!([])
    );
    assert_eq!(left(), 1, "only its own directory");
    assert_eq!(next.close().status.code(), Some(0));
    assert_eq!(left(), 0);
}

/// Several clients of one user, each with its own server.
#[test]
fn two_servers_do_not_share_sessions() {
    let place = Place::new();
    let (mut one, mut two) = (place.client(&[]), place.client(&[]));
    let first = slow_turn(&mut one, &place);
    assert_eq!(
        two.done("list_agent_sessions", json!({}))["sessions"],
        json!([])
    );
    let told = two.refused("kill_agent_session", json!({ "sessionId": first }));
    assert_eq!(told["code"], "session_not_found");
    assert_eq!(two.close().status.code(), Some(0));
    let output = one.done("get_agent_session_output", json!({ "sessionId": first }));
    assert_eq!(output["status"], "running");
}

/// MCP lifecycle: the server accepts the client's version if it supports it, else it offers the
/// newest version with a handshake.
#[test]
fn versions_are_negotiated() {
    let place = Place::new();
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = place.stranger(&[]);
        let answer = client.ask(
            "initialize",
            json!({
                "protocolVersion": asked, "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        );
        assert_eq!(answer["result"]["protocolVersion"], given, "{answer}");
        let info = &answer["result"]["serverInfo"];
        assert_eq!(info["name"], "agentproto", "{answer}");
        client.done("list_agent_sessions", json!({}));
    }
    // Without a handshake, each request states its version.
    let meta = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    };
    let mut client = place.stranger(&[]);
    let list = |version: &str| json!({ "name": "list_agent_sessions", "_meta": meta(version) });
    let odd = client.ask("tools/call", list("2099-01-01"));
    let supported = odd["error"]["data"]["supported"]
        .as_array()
        .expect("a list");
    assert!(supported.contains(&json!("2026-07-28")), "{odd}");
    let answer = client.ask("tools/call", list("2026-07-28"));
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({ "sessions": [] })
    );
    assert_eq!(answer["result"]["resultType"], "complete");
    let without = client.ask("tools/call", json!({ "name": "list_agent_sessions" }));
    assert_eq!(without["error"]["code"], -32602, "{without}");
}

/// No input ends the server, and every request gets a response.
#[test]
fn invalid_lines() {
    let place = Place::new();
    let mut client = place.stranger(&[]);
    let code = |answer: &Value| answer["error"]["code"].as_i64().unwrap_or(0);
    // Also before the handshake.
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.say(&json!({ "jsonrpc": "2.0", "id": 900, "result": {} }));
    let early = client.ask("tools/list", json!({}));
    assert!(code(&early) < 0, "{early}");
    client.raw(b"\n   \r\n");
    client.introduce();
    for (line, wanted) in [
        (&b"garbage"[..], -32700),
        (b"{\"jsonrpc\":\"2.0\",", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[]", -32600),
        (
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            -32600,
        ),
        (b"5", -32600),
        (b"{}", -32600),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            -32600,
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
            -32600,
        ),
    ] {
        client.raw(line);
        client.raw(b"\n");
        let answer = client.wait_for(&Value::Null);
        assert_eq!(code(&answer), wanted, "{}", String::from_utf8_lossy(line));
        assert!(answer["error"]["data"]["hint"].is_string(), "{answer}");
    }
    // With an id, the error response carries that id.
    client.raw(b"{\"jsonrpc\":\"1.0\",\"id\":\"odd\",\"method\":\"ping\"}\n");
    assert_eq!(code(&client.wait_for(&json!("odd"))), -32600);
    let deep = format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    client.raw(deep.as_bytes());
    assert!(code(&client.wait_for(&Value::Null)) <= -32600);
    // A notification never gets a response, even if it is invalid.
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/odd", "params": 5 }));
    client.raw(b"\xef\xbb\xbf");
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    assert!(client.others.is_empty(), "{:?}", client.others);
}

#[test]
fn an_oversized_message_is_refused_and_the_next_one_accepted() {
    let place = Place::new();
    let mut client = place.client(&[]);
    let mut huge = br#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":""#.to_vec();
    huge.resize(9 << 20, b'x');
    huge.extend_from_slice(b"\"}}\n");
    client.raw(&huge);
    let answer = client.wait_for(&Value::Null);
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("4 MiB"))
    );
    // A large message within the limit.
    let started = client.done(
        "start_agent_session",
        json!({ "adapter": "mock-acp", "cwd": place.work() }),
    );
    let id = started["id"].as_str().expect("an id").to_owned();
    let prompt = format!("echo {}", "y".repeat(1 << 20));
    client.done(
        "prompt_agent_session",
        json!({ "sessionId": id, "prompt": prompt }),
    );
    client.turns(&id, 1);
}

/// A slow start that is canceled gets no response and creates no session.
#[test]
fn a_canceled_call_gets_no_response_and_has_no_effect() {
    let place = Place::new();
    let host_dir = place.dir.path();
    super::host::adapter(host_dir, "sluggish", |text| {
        text.replace("cmd: agentproto --version", "cmd: cat hold")
    });
    // The version check blocks until something is written to the pipe.
    let hold = place.path("work/hold");
    let made = Command::new("mkfifo").arg(&hold).status().expect("mkfifo");
    assert!(made.success());
    let mut client = place.client(&[]);
    let start = json!({
        "name": "start_agent_session",
        "arguments": { "adapter": "sluggish", "cwd": place.work() },
    });
    let id = client.send("tools/call", start);
    client.say(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    }));
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    let all = client.done("list_agent_sessions", json!({}));
    assert_eq!(all["sessions"], json!([]));
    assert!(
        client.others.iter().all(|m| m["id"] != id),
        "{:?}",
        client.others
    );
    let ended = client.close();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.rest.iter().all(|m| m["id"] != id), "{:?}", ended.rest);
}

/// If a client sends requests without reading, the server stops reading but can still be ended.
#[test]
fn a_client_that_does_not_read() {
    let place = Place::new();
    let mut command = place.command(&["mcp"]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("piped");
    // Writes until the pipe is full. The writer blocks once the server no longer reads.
    let (told, stuck) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } } });
        let _ = writeln!(input, "{ask}");
        for id in 2..u64::MAX {
            let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
            if writeln!(input, "{ask}").is_err() {
                return;
            }
            let _ = told.send(id);
        }
    });
    let mut last = 0;
    while let Ok(id) = stuck.recv_timeout(Duration::from_secs(3)) {
        last = id;
        assert!(last < 100_000, "the server never stops reading");
    }
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(i32::try_from(child.id()).expect("a pid"), libc::SIGTERM) };
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), Some(143), "after {last} requests");
    drop(child.stdout.take());
    writer.join().expect("no panic");
}

/// Runs our MCP suite against our own server.
#[test]
fn our_mcp_suite_passes() {
    let place = Place::new();
    let prompts = place.path("prompts.yaml");
    std::fs::write(
        &prompts,
        "text: {name: list_agent_sessions, arguments: {}}\n",
    )
    .expect("written");
    let binary = env!("CARGO_BIN_EXE_agentproto");
    let mut command = place.command(&["certify", "--suite", "mcp", "-o", "json", "--jobs", "2"]);
    let home = format!("AGENTPROTO_HOME={}", place.path("home").display());
    let out = command
        .args(["--env", &home, "--prompts"])
        .arg(&prompts)
        .args(["--", binary, "mcp"])
        .output()
        .expect("runs");
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let rows = report["results"].as_array().expect("rows");
    let wrong: Vec<&Value> = rows
        .iter()
        .filter(|row| matches!(row["verdict"].as_str(), Some("fail" | "warn" | "error")))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        report["summary"]["certified"], true,
        "{}",
        report["summary"]
    );
    // Every case that applies to a server with tools has a verdict.
    for id in [
        "MCP-STDIO-03",
        "MCP-BASE-10",
        "MCP-BASE-11",
        "MCP-LIFE-01",
        "MCP-TOOL-05",
        "MCP-TOOL-11",
        "MCP-TOOL-14",
    ] {
        let passed = |row: &&Value| row["requirement"] == id && row["verdict"] == "pass";
        assert!(rows.iter().any(|row| passed(&row)), "{id}");
    }
}
