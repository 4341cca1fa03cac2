//! The runner as a host in Open Design's sense: what it sends to the agent, and what it does with
//! the responses (OD-08 to OD-17, OD-27, OD-28, OD-30, OD-38 to OD-42).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::place::{Place, Ran};
use agentproto_suites::proves;

/// Records every line in the workspace, and answers each method with the lines of a file.
const AGENT: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo 1.0.0; exit; fi
printenv > env
while IFS= read -r line; do
  printf '%s\n' "$line" >> wire
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  method=$(printf '%s' "$line" | sed -n 's/.*"method":"\([^"]*\)".*/\1/p' | tr / -)
  if [ "$method" = session-prompt ]; then prompt=$id; fi
  if [ -e "${0%/*}/$method" ]; then
    sed -e "s/ID/$id/" -e "s/PROMPT/$prompt/" "${0%/*}/$method"
  elif [ -n "$method" ]; then
    echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"unknown method"}}'
  fi
done
"#;

/// A bundle with a scripted agent.
struct Scripted {
    place: Place,
    dir: PathBuf,
}

impl Scripted {
    fn new(blocks: &str) -> Scripted {
        let place = Place::new();
        let dir = place.path("bundles/probe");
        std::fs::create_dir(&dir).expect("made");
        let scripted = Scripted { place, dir };
        scripted.write("agent", AGENT);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scripted.dir.join("agent"), mode).expect("executable");
        scripted.write(
            "ACP.md",
            "---\nname: probe\nid: probe-acp\ndescription: The server of the probe.\nversion: 1.0.0\nkind: server\ntransport: stdio\nmetadata: { aip44: { acp_rev: c9e4e99, tier: basic, operator: ./OPERATOR.md } }\n---\n",
        );
        scripted.write(
            "OPERATOR.md",
            include_str!("../../mock-agents/mock-acp/OPERATOR.md"),
        );
        scripted.write(
            "AGENT-CLI.md",
            &format!(
                "---\nname: probe\nid: probe\nversion: 1.0.0\ndescription: A scripted agent.\n\
                 bin: agent\nbin_args: [acp]\ninstall: [{{ method: vendored, path: ./agent }}]\n\
                 version_check: {{ cmd: agent --version, parse: '(\\S+)', range: '*' }}\n\
                 protocol: acp\nacp: ./ACP.md\nsandbox: {{ provider: local, config: {{}} }}\n{blocks}\n---\n"
            ),
        );
        scripted.answer("initialize", json!({ "protocolVersion": 1 }));
        scripted.answer("session/new", json!({ "sessionId": "s1" }));
        scripted.answer("session/prompt", json!({ "stopReason": "end_turn" }));
        scripted
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("written");
    }

    /// Answers a method with this result.
    fn answer(&self, method: &str, result: Value) {
        let line = json!({ "jsonrpc": "2.0", "id": "", "result": result });
        let line = line.to_string().replacen("\"id\":\"\"", "\"id\":ID", 1);
        self.write(&method.replace('/', "-"), &format!("{line}\n"));
    }

    fn run(&self, args: &[&str]) -> Ran {
        let target = self.dir.to_string_lossy().into_owned();
        self.place
            .run(&target, &[args, &["--prompt", "hello"]].concat())
    }

    /// The messages of this side with one method.
    fn sent(&self, method: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.place.path("work/wire")).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        lines
            .filter(|line: &Value| line["method"] == method)
            .collect()
    }

    fn methods(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.place.path("work/wire")).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines
            .filter_map(|line| Some(line["method"].as_str()?.to_owned()))
            .collect()
    }
}

#[test]
fn a_turn_has_the_requests_of_open_design() {
    proves!("OD-08", "OD-09", "OD-10", "OD-12", "OD-15", "OD-16");
    let agent = Scripted::new("");
    let ran = agent.run(&[]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    // Nothing else: no model is set, because the user chose none.
    assert_eq!(
        agent.methods(),
        ["initialize", "session/new", "session/prompt"]
    );
    let hello = &agent.sent("initialize")[0]["params"];
    assert_eq!(hello["clientInfo"]["name"], "agentproto");
    assert_eq!(hello["clientCapabilities"]["terminal"], true);
    assert_eq!(
        hello["clientCapabilities"]["elicitation"],
        json!({ "form": {}, "url": {} })
    );
    let new = &agent.sent("session/new")[0]["params"];
    let work = agent.place.path("work").canonicalize().expect("there");
    assert_eq!(new["cwd"], json!(work));
    assert_eq!(new["mcpServers"], json!([]));
    let prompt = &agent.sent("session/prompt")[0]["params"]["prompt"];
    assert_eq!(*prompt, json!([{ "type": "text", "text": "hello" }]));
    assert_eq!(ran.of("turn-end")[0]["reason"], "end_turn");
    assert_eq!(ran.of("turn-end")[0].get("usage"), None);
}

#[test]
fn mcp_servers_reach_the_agent_without_their_secrets_in_any_output() {
    proves!("OD-11");
    let agent = Scripted::new(
        "metadata: { agentproto: { mcp_servers: [{ name: files, command: /bin/files }, { name: web, command: /bin/old }] } }",
    );
    let text = "the key is sk-canary-77";
    let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s1",
        "update": { "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } } } });
    let end = r#"{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn"}}"#;
    agent.write("session-prompt", &format!("{update}\n{end}\n"));
    let file = agent.place.path("servers.json");
    let servers = json!({ "mcpServers": { "web": { "command": "/bin/web", "args": ["-v"], "env": { "API_KEY": "sk-canary-77" } } } });
    std::fs::write(&file, servers.to_string()).expect("written");
    let one = r#"{"name":"more","command":"/bin/more"}"#;
    let file = file.to_string_lossy().into_owned();
    let ran = agent.run(&["--mcp-server", &file, "--mcp-server", one]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let sent = &agent.sent("session/new")[0]["params"]["mcpServers"];
    assert_eq!(
        *sent,
        json!([
            { "name": "files", "command": "/bin/files", "args": [], "env": [] },
            { "name": "web", "command": "/bin/web", "args": ["-v"], "env": [{ "name": "API_KEY", "value": "sk-canary-77" }] },
            { "name": "more", "command": "/bin/more", "args": [], "env": [] },
        ])
    );
    assert!(
        !ran.stdout.contains("canary") && ran.stdout.contains("the key is"),
        "{}",
        ran.stdout
    );
    assert!(!agent.place.audit().contains("canary"));
}

#[test]
fn optional_mcp_transports_need_the_agents_support() {
    proves!("OD-11");
    let agent = Scripted::new("");
    let http = r#"{"type":"http","name":"web","url":"https://web.test/mcp"}"#;
    let ran = agent.run(&["--mcp-server", http]);
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (65, "CAPABILITY_MISMATCH")
    );
    assert!(agent.sent("session/new").is_empty());
    let capable = json!({ "protocolVersion": 1, "agentCapabilities": { "mcpCapabilities": { "http": true } } });
    agent.answer("initialize", capable);
    let ran = agent.run(&["--mcp-server", http]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(
        agent.sent("session/new")[0]["params"]["mcpServers"][0]["type"],
        "http"
    );
    let ran = agent.run(&["--mcp-server", r#"{"name":"x"}"#]);
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (64, "MCP_SERVER_INVALID")
    );
    let ran = agent
        .place
        .run("mock-repl", &["--mcp-server", http, "--prompt", "x"]);
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (65, "CAPABILITY_MISMATCH")
    );
}

#[test]
fn mcp_servers_are_offered_again_when_a_session_is_resumed() {
    proves!("OD-11");
    for (method, capability) in [
        ("session/load", json!({ "loadSession": true })),
        (
            "session/resume",
            json!({ "sessionCapabilities": { "resume": {} } }),
        ),
    ] {
        let agent = Scripted::new(
            "capabilities: { resumable: true }\ncontinuation: { default: native-resume, supported: [native-resume] }",
        );
        agent.write(
            "ACP.md",
            &std::fs::read_to_string(agent.dir.join("ACP.md"))
                .expect("text")
                .replace(
                    "tier: basic,",
                    "tier: basic, capabilities: { agent: { loadSession: true } },",
                ),
        );
        agent.answer(
            "initialize",
            json!({ "protocolVersion": 1, "agentCapabilities": capability }),
        );
        agent.answer(method, json!({}));
        let one = r#"{"name":"more","command":"/bin/more"}"#;
        let ran = agent.run(&["--resume", "s0", "--mcp-server", one]);
        assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
        assert_eq!(
            agent.sent(method)[0]["params"]["mcpServers"][0]["name"],
            "more"
        );
    }
}

/// A model option of the agent, with `small` in use.
fn model_option() -> Value {
    json!({ "sessionId": "s1", "configOptions": [{ "id": "llm", "name": "Model", "category": "model", "type": "select",
        "currentValue": "small", "options": [{ "value": "small", "name": "Small" }, { "value": "large", "name": "Large" }] }] })
}

fn models() -> Value {
    json!({ "sessionId": "s1", "models": { "currentModelId": "small",
        "availableModels": [{ "modelId": "small", "name": "Small" }, { "modelId": "large", "name": "Large" }] } })
}

#[test]
fn a_chosen_model_is_set_by_the_agents_model_option() {
    proves!("OD-12", "OD-13", "A45-FM-17");
    let agent = Scripted::new("");
    agent.answer("session/new", model_option());
    agent.answer("session/set_config_option", json!({ "configOptions": [] }));
    let ran = agent.run(&["--model", "large"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let set = agent.sent("session/set_config_option");
    assert_eq!(set.len(), 1);
    assert_eq!(set[0]["params"]["configId"], "llm");
    assert_eq!(set[0]["params"]["value"], "large");
    assert!(agent.sent("session/set_model").is_empty());
    // The model in use is not set again.
    let ran = agent.run(&["--model", "small"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(agent.sent("session/set_config_option").len(), 1);
    let ran = agent.run(&["--model", "huge"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (64, "MODEL_UNKNOWN"));
}

#[test]
fn without_a_model_option_session_set_model_is_used() {
    proves!("OD-12", "OD-14");
    for reported in [models(), json!({ "sessionId": "s1" })] {
        let agent = Scripted::new("");
        agent.answer("session/new", reported);
        agent.answer("session/set_model", json!({}));
        let ran = agent.run(&["--model", "large"]);
        assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
        let set = agent.sent("session/set_model");
        assert_eq!(
            set[0]["params"],
            json!({ "sessionId": "s1", "modelId": "large" })
        );
    }
    // An agent without either request cannot use the model.
    let agent = Scripted::new("");
    let ran = agent.run(&["--model", "large"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (64, "MODEL_UNKNOWN"));
    assert!(agent.sent("session/prompt").is_empty());
}

#[test]
fn the_manifest_restricts_and_defaults_the_model() {
    proves!("A45-FM-17");
    let agent = Scripted::new("models: { default: large, allowed: [large, small] }");
    agent.answer("session/new", models());
    agent.answer("session/set_model", json!({}));
    let ran = agent.run(&["--model", "medium"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (64, "MODEL_UNKNOWN"));
    assert!(agent.methods().is_empty(), "nothing was started");
    let ran = agent.run(&[]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(
        agent.sent("session/set_model")[0]["params"]["modelId"],
        "large"
    );
    // The user's choice takes precedence over the default, and is already in use.
    let ran = agent.run(&["--model", "small"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(agent.sent("session/set_model").len(), 1);
}

#[test]
fn a_model_option_of_the_manifest_sets_the_model_by_its_arguments() {
    proves!("A45-FM-17");
    let place = Place::new();
    let ran = place.run("mock-acp", &["--model", "large", "--prompt", "show argv"]);
    assert!(
        ran.text().contains("--model") && ran.text().contains("large"),
        "{}",
        ran.text()
    );
    let ran = place.run("mock-acp", &["--model", "huge", "--prompt", "show argv"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (64, "OPTION_INVALID"));
    let both = [
        "--model",
        "large",
        "--option",
        "model=small",
        "--prompt",
        "x",
    ];
    assert_eq!(place.run("mock-acp", &both).error().0, "OPTION_INVALID");
    let ran = place.run("mock-mcp", &["--model", "x", "--prompt", "x"]);
    assert_ne!(ran.code, 0, "{}", ran.stdout);
}

#[test]
fn the_variable_of_the_models_provider_is_required_and_passed_on() {
    proves!("A45-FM-17");
    let agent = Scripted::new("models: { env: { acme: ACME_KEY } }");
    agent.answer("session/set_model", json!({}));
    let ran = agent.run(&["--model", "acme/one"]);
    let (code, message) = ran.error();
    assert_eq!((ran.code, code.as_str()), (77, "AUTH_REQUIRED"));
    assert!(message.contains("ACME_KEY"), "{message}");
    let target = agent.dir.to_string_lossy().into_owned();
    let args = [
        "run", &target, "-o", "jsonl", "--model", "acme/one", "--prompt", "x",
    ];
    let output = agent
        .place
        .command(&args)
        .env("ACME_KEY", "sk-canary-5")
        .output();
    let ran = Ran::new(output.expect("started"));
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let env = std::fs::read_to_string(agent.place.path("work/env")).expect("recorded");
    assert!(env.contains("ACME_KEY=sk-canary-5"), "{env}");
    assert!(!ran.stdout.contains("canary"));
}

/// A prompt response that asks for permission with these options, and ends when it is canceled.
fn asks_for_permission(agent: &Scripted, options: Value) {
    let ask = json!({ "jsonrpc": "2.0", "id": "q", "method": "session/request_permission",
        "params": { "sessionId": "s1", "toolCall": { "toolCallId": "t", "title": "Edit" }, "options": options } });
    agent.write("session-prompt", &format!("{ask}\n"));
    let end = r#"{"jsonrpc":"2.0","id":PROMPT,"result":{"stopReason":"cancelled"}}"#;
    agent.write("session-cancel", &format!("{end}\n"));
}

#[test]
fn without_an_acceptable_option_the_turn_fails_at_once() {
    proves!("OD-28");
    let reject = json!([{ "optionId": "n", "name": "No", "kind": "reject_once" }]);
    for options in [reject, json!([])] {
        let agent = Scripted::new("");
        asks_for_permission(&agent, options);
        let started = std::time::Instant::now();
        let ran = agent.run(&["--permissions", "allow"]);
        assert_eq!(
            (ran.code, ran.error().0.as_str()),
            (1, "NO_ACCEPTABLE_OPTION"),
            "{}",
            ran.stdout
        );
        assert!(ran.of("turn-end").is_empty(), "{}", ran.stdout);
        assert!(started.elapsed().as_secs() < 10);
        assert_eq!(agent.sent("session/cancel").len(), 1);
    }
}

#[test]
fn an_approving_option_is_chosen_automatically() {
    proves!("OD-27");
    let place = Place::new();
    let ran = place.run(
        "mock-acp",
        &["--permissions", "allow", "--prompt", "ask for permission"],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.text().contains("allowed"), "{}", ran.text());
}

#[test]
fn the_end_of_a_turn_has_the_agents_usage_data() {
    proves!("OD-30");
    let agent = Scripted::new("");
    let usage = json!({ "inputTokens": 7, "outputTokens": 3, "totalTokens": 10 });
    agent.answer(
        "session/prompt",
        json!({ "stopReason": "end_turn", "usage": usage }),
    );
    let ran = agent.run(&[]);
    assert_eq!(ran.of("turn-end")[0]["usage"], usage, "{}", ran.stdout);
    // Data of another shape or size is not passed on.
    for usage in [
        json!("many"),
        json!({ "x": "y".repeat(10_000) }),
        json!(null),
    ] {
        agent.answer(
            "session/prompt",
            json!({ "stopReason": "end_turn", "usage": usage }),
        );
        let ran = agent.run(&[]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.of("turn-end")[0].get("usage"), None, "{}", ran.stdout);
    }
}

#[test]
fn an_interrupted_turn_is_canceled_on_the_wire() {
    proves!("OD-17");
    let agent = Scripted::new("");
    agent.write("session-prompt", "");
    let end = r#"{"jsonrpc":"2.0","id":PROMPT,"result":{"stopReason":"cancelled"}}"#;
    agent.write("session-cancel", &format!("{end}\n"));
    let ran = agent.run(&["--turn-timeout", "1"]);
    assert_eq!(ran.error().0, "TURN_TIMEOUT", "{}", ran.stdout);
    assert_eq!(agent.sent("session/cancel")[0]["params"]["sessionId"], "s1");
}

#[test]
fn the_runtime_definition_of_an_agent_can_be_exported() {
    proves!("OD-38", "OD-39", "OD-40", "OD-41", "OD-42");
    let agent = Scripted::new("models: { default: b, allowed: [a, b] }");
    let target = agent.dir.to_string_lossy().into_owned();
    let export = |target: &str, output: &str| {
        let args = ["export", "open-design", target, "--output", output];
        Ran::new(agent.place.command(&args).output().expect("started"))
    };
    let expected = json!({
        "id": "probe", "name": "probe", "bin": "agent", "versionArgs": ["--version"],
        "fallbackModels": [{ "id": "b", "label": "b" }, { "id": "a", "label": "a" }],
        "buildArgs": ["acp"], "streamFormat": "acp-json-rpc",
    });
    let ran = export(&target, "json");
    let printed: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(printed, expected);
    assert_eq!(
        export(&target, "jsonl").of("document")[0]["content"],
        expected
    );
    let module = export(&target, "ts").stdout;
    for line in [
        "export const probeDef = {",
        "  versionArgs: [\"--version\"],",
        "  fallbackModels: [{ id: \"b\", label: \"b\" }, { id: \"a\", label: \"a\" }],",
        "  buildArgs: () => [\"acp\"],",
        "  streamFormat: 'acp-json-rpc',",
        "} satisfies RuntimeAgentDef;",
    ] {
        assert!(
            module.lines().any(|other| other == line),
            "{line}\n{module}"
        );
    }
    let plain = Scripted::new("");
    let ran = export(&plain.dir.to_string_lossy(), "json");
    assert!(ran.stdout.contains(r#""id": "default""#), "{}", ran.stdout);
    let ran = export("mock-repl", "jsonl");
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (65, "CAPABILITY_MISMATCH")
    );
}
