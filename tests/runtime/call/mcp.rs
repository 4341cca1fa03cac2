//! `agentproto mcp --bundle`: the tools of a bundle for an MCP client on stdin and stdout.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Aviary, LOGIN};
use agentproto_suites::proves;

struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// Notifications that arrived before a response.
    notified: Vec<Value>,
    /// Requests of the server, which are accepted.
    asked: Vec<Value>,
}

impl Client {
    fn new(aviary: &Aviary, capabilities: Value) -> Client {
        let mut command = aviary.agentproto(&["mcp", "--bundle", "../bird"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut client = Client {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("stdout")),
            child,
            next: 0,
            notified: Vec::new(),
            asked: Vec::new(),
        };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" },
        });
        client.request("initialize", hello);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{message}").expect("written");
    }

    fn start(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).expect("a line");
        assert_ne!(read, 0, "the server ended");
        serde_json::from_str(&line).expect("JSON")
    }

    fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let message = self.read();
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            if message.get("id").is_none() {
                self.notified.push(message);
                continue;
            }
            let result = json!({ "action": "accept", "content": {} });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            self.asked.push(message);
            self.send(&answer);
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params);
        let answer = self.answer_to(id);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.request(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        )
    }

    fn end(mut self) {
        self.stdin = None;
        let started = Instant::now();
        let status = self.child.wait().expect("an end");
        assert!(status.success() && started.elapsed() < Duration::from_secs(20));
    }
}

/// The JSON text of an error.
fn error(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().expect("text");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn every_tool_is_offered_with_schema_and_annotations() {
    let aviary = Aviary::new("output: { default_format: json }");
    let more = "mutates: ['fs:x']\napproval: always\nrisk_level: 3";
    aviary.tool(
        "exit",
        "{ code: { type: integer } }",
        r#"[exit, "${input.code}"]"#,
        more,
    );
    aviary.replace(
        "bird/tools/say/TOOL.md",
        "outputs: { }",
        "outputs: { type: object }",
    );
    let mut client = Client::new(&aviary, json!({}));
    let tools = client.request("tools/list", json!({}))["tools"].clone();
    let tool = |name: &str| {
        let found = tools
            .as_array()
            .expect("tools")
            .iter()
            .find(|t| t["name"] == name);
        found
            .unwrap_or_else(|| panic!("no {name}: {tools}"))
            .clone()
    };
    assert_eq!(tools.as_array().map(Vec::len), Some(6));
    let args = tool("bird_show_args");
    assert_eq!(args["description"], "Does args.");
    assert_eq!(
        args["inputSchema"]["properties"]["limit"]["type"],
        "integer"
    );
    assert_eq!(args["annotations"]["readOnlyHint"], true);
    assert_eq!(args["annotations"]["idempotentHint"], true);
    let exit = tool("bird_run_exit");
    assert_eq!(exit["annotations"]["destructiveHint"], true);
    assert_eq!(exit["annotations"]["readOnlyHint"], false);
    assert_eq!(tool("bird_run_say")["outputSchema"]["type"], "object");
    client.end();
}

#[test]
fn results_are_structured_and_errors_say_what_to_do() {
    let aviary = Aviary::new("output: { default_format: json, exit_codes: { 3: rate_limited } }");
    let mut client = Client::new(&aviary, json!({}));
    let result = client.call("bird_run_any", json!({ "verb": "json" }));
    assert_eq!(result["structuredContent"]["items"], json!([1, 2]));
    let result = client.call("bird_run_say", json!({ "text": "[1]" }));
    assert_eq!(result["structuredContent"], json!({ "value": [1] }));
    let failed = error(&client.call("bird_run_exit", json!({ "code": 3 })));
    assert_eq!(
        (&failed["meaning"], &failed["exit_code"]),
        (&json!("rate_limited"), &json!(3))
    );
    assert_eq!(failed["stderr"], "it broke\n");
    let failed = error(&client.call("bird_show_args", json!({ "limit": "x" })));
    assert_eq!(failed["error"]["code"], "input_invalid");
    assert_eq!(failed["error"]["details"]["pointer"], "/limit");
    let failed = error(&client.call("bird_run_say", json!({ "text": "no json" })));
    assert_eq!(failed["error"]["code"], "output_invalid");
    assert!(
        failed["error"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("do not repeat"))
    );
    let id = client.start(
        "tools/call",
        json!({ "name": "bird_nothing", "arguments": {} }),
    );
    assert!(client.answer_to(id)["error"].is_object());
    client.end();
    assert_eq!(aviary.audited("tool.exit").len(), 4);
}

#[test]
fn progress_is_reported_and_a_canceled_call_kills_the_tool() {
    let aviary = Aviary::new("");
    let mut client = Client::new(&aviary, json!({}));
    let call = json!({
        "name": "bird_run_any",
        "arguments": { "verb": "sleep" },
        "_meta": { "progressToken": 5 },
    });
    let id = client.start("tools/call", call);
    let progress = loop {
        let message = client.read();
        if message["method"] == "notifications/progress" {
            break message;
        }
    };
    assert_eq!(progress["params"]["progressToken"], 5);
    assert_eq!(progress["params"]["message"], "started");
    assert!(aviary.is_running("sleep"), "the tool is not found");
    let canceled = json!({ "requestId": id, "reason": "test" });
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": canceled }),
    );
    // The server still answers, and the tool is gone.
    let result = client.call("bird_show_args", json!({}));
    assert_eq!(result["isError"], false);
    let deadline = Instant::now() + Duration::from_secs(10);
    while aviary.is_running("sleep") {
        assert!(Instant::now() < deadline, "the tool still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
    client.end();
    // The end of the canceled call is in the audit log.
    let (started, ended) = (aviary.audited("tool.invoke"), aviary.audited("tool.exit"));
    assert_eq!((started.len(), ended.len()), (2, 2));
    let canceled = ended.iter().find(|e| e["meaning"] == "canceled");
    let canceled = canceled.unwrap_or_else(|| panic!("{ended:?}"));
    assert_eq!(canceled["id"], started[0]["id"]);
}

#[test]
fn a_login_is_asked_for_where_the_client_can() {
    proves!("A29-LOGIN-05", "A29-LOGIN-06", "A29-LOGIN-08");
    let aviary = Aviary::new(LOGIN);
    let mut client = Client::new(&aviary, json!({}));
    let failed = error(&client.call("bird_show_args", json!({})));
    assert_eq!(failed["error"]["code"], "auth_required");
    assert_eq!(failed["error"]["details"]["login"], "bird login");
    client.end();
    let mut client = Client::new(&aviary, json!({ "elicitation": {} }));
    let result = client.call("bird_show_args", json!({}));
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(client.asked.len(), 1);
    assert_eq!(client.asked[0]["method"], "elicitation/create");
    let message = client.asked[0]["params"]["message"].as_str().expect("text");
    assert!(message.contains("bird login"), "{message}");
    client.end();
}
