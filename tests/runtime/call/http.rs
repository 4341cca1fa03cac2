//! `agentproto serve --bundle`: the tools of a bundle at `/mcp` of the daemon.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Aviary, LOGIN};
use agentproto_suites::proves;

/// Time limit that only a hang reaches.
const HANG: Duration = Duration::from_secs(60);

/// `agentproto serve --bundle ../bird`, stopped on drop.
struct Daemon {
    child: Child,
    url: String,
    token: String,
}

impl Daemon {
    fn start(aviary: &Aviary) -> Daemon {
        let mut command =
            aviary.agentproto(&["serve", "--port", "0", "--quiet", "--bundle", "../bird"]);
        let child = command.stdout(Stdio::null()).spawn().expect("started");
        let mut daemon = Daemon {
            child,
            url: String::new(),
            token: String::new(),
        };
        let started = Instant::now();
        loop {
            let text = std::fs::read(aviary.at("home/runtime.json")).unwrap_or_default();
            if let Ok(state) = serde_json::from_slice::<Value>(&text) {
                let text = |key: &str| state[key].as_str().expect("text").to_owned();
                (daemon.url, daemon.token) = (text("url"), text("token"));
                return daemon;
            }
            let ended = daemon.child.try_wait().expect("a status");
            assert!(ended.is_none() && started.elapsed() < HANG, "{ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// A client over streamable HTTP that accepts every question.
struct Client<'d> {
    daemon: &'d Daemon,
    agent: ureq::Agent,
    session: Option<String>,
    next: u64,
    /// Requests of the server.
    asked: Vec<Value>,
}

impl<'d> Client<'d> {
    /// A client with an MCP session.
    fn new(daemon: &'d Daemon, capabilities: Value) -> Client<'d> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(HANG));
        let mut client = Client {
            daemon,
            agent: config.build().into(),
            session: None,
            next: 0,
            asked: Vec::new(),
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        client.request("initialize", hello);
        assert!(client.session.is_some(), "no session");
        client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn post(&mut self, message: &Value) -> ureq::http::Response<ureq::Body> {
        let mut request = self
            .agent
            .post(format!("{}/mcp", self.daemon.url))
            .header("authorization", format!("Bearer {}", self.daemon.token))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        let answer = request.send(message.to_string()).expect("an answer");
        let session = answer.headers().get("mcp-session-id");
        if let Some(session) = session.and_then(|value| value.to_str().ok()) {
            self.session = Some(session.to_owned());
        }
        answer
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let answer = self.post(&request);
        let lines = BufReader::new(answer.into_body().into_reader()).lines();
        for line in lines {
            let line = line.expect("a line");
            let text = line.strip_prefix("data:").unwrap_or(&line).trim();
            let Ok(message) = serde_json::from_str::<Value>(text) else {
                continue;
            };
            if message.get("method").is_none() && message["id"] == id {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
            if message.get("method").is_some() && message.get("id").is_some() {
                let result = json!({ "action": "accept", "content": {} });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                self.asked.push(message);
                assert_eq!(self.post(&answer).status(), 202);
            }
        }
        panic!("no answer to {method}");
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        let call = json!({ "name": name, "arguments": arguments });
        self.request("tools/call", call)
    }
}

#[test]
fn the_daemon_lists_and_calls_the_tools_of_a_bundle() {
    let aviary = Aviary::new("output: { default_format: json, exit_codes: { 3: rate_limited } }");
    let daemon = Daemon::start(&aviary);
    let mut client = Client::new(&daemon, json!({}));
    let tools = client.request("tools/list", json!({}))["tools"].clone();
    let names = tools.as_array().expect("tools").iter();
    let names: Vec<&str> = names.filter_map(|tool| tool["name"].as_str()).collect();
    // The tools for sessions are still there.
    for name in ["bird_show_args", "bird_run_exit", "start_agent_session"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let result = client.call("bird_run_any", json!({ "verb": "json" }));
    assert_eq!(result["structuredContent"]["items"], json!([1, 2]));
    let failed = client.call("bird_run_exit", json!({ "code": 3 }));
    assert_eq!(failed["isError"], true);
    let text = failed["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("rate_limited"), "{text}");
    let refused = client.call("bird_show_args", json!({ "limit": "x" }));
    assert_eq!(refused["isError"], true);
    // Each call is in the audit log, with its command.
    let commands = |event: &str| -> Vec<Value> {
        let entries = aviary.audited(event);
        entries.iter().map(|e| e["command"].clone()).collect()
    };
    assert_eq!(commands("tool.invoke"), ["run any", "run exit"]);
    assert_eq!(commands("tool.exit"), ["run any", "run exit"]);
    assert_eq!(commands("tool.refused"), ["show args"]);
}

#[test]
fn a_login_is_asked_for_over_http_where_the_client_can() {
    proves!("A29-LOGIN-05", "A29-LOGIN-06", "A29-LOGIN-08");
    let aviary = Aviary::new(LOGIN);
    let daemon = Daemon::start(&aviary);
    let mut client = Client::new(&daemon, json!({}));
    let failed = client.call("bird_show_args", json!({}));
    let text = failed["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("auth_required"), "{text}");
    assert!(client.asked.is_empty());
    let mut client = Client::new(&daemon, json!({ "elicitation": {} }));
    let result = client.call("bird_show_args", json!({}));
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(client.asked.len(), 1);
    assert_eq!(client.asked[0]["method"], "elicitation/create");
    let message = client.asked[0]["params"]["message"].as_str().expect("text");
    assert!(message.contains("bird login"), "{message}");
}
