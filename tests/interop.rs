//! Third-party agents, run through the whole runner with a small manifest each, and a third-party
//! client with our mock agent and all its variants. `tests/interop/run` installs them and runs
//! these tests.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentproto_mock::{AgentKind, variants};
use serde_json::Value;

fn installed(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/interop")
        .join(path);
    assert!(
        path.exists(),
        "{} is missing: run tests/interop/run",
        path.display()
    );
    path.canonicalize().expect("a path")
}

/// Writes a bundle around a program and runs one prompt.
fn run(name: &str, bundle: impl Fn(&Path) -> String, prompt: &str, more: &[&str]) -> Vec<Value> {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join(name);
    let work = place.path().join("work");
    std::fs::create_dir_all(&dir).expect("made");
    std::fs::create_dir_all(&work).expect("made");
    let own = bundle(&dir);
    let manifest = format!(
        "---\nname: {name}\nid: {name}\ndescription: An agent of another project.\nversion: 1.0.0\n{own}\
         sandbox: ./SANDBOX.md\nprotocol: acp\nacp: ./ACP.md\n---\n"
    );
    std::fs::write(dir.join("AGENT-CLI.md"), manifest).expect("written");
    let sandbox = format!("---\nid: {name}\nversion: 1.0.0\nprovider: local\n---\n");
    std::fs::write(dir.join("SANDBOX.md"), sandbox).expect("written");
    let acp = "---\nname: profile\nid: profile\nversion: 1.0.0\nkind: server\ntransport: { kind: stdio }\nmetadata:\n  aip44:\n    acp_rev: \"1\"\n    capabilities: { agent: { loadSession: false } }\n---\n";
    std::fs::write(dir.join("ACP.md"), acp).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["run", dir.to_str().expect("a path"), "--prompt", prompt])
        .args(["--output", "jsonl"])
        // The manifest has only what the runner needs.
        .arg("--allow-invalid")
        .args(more)
        .current_dir(&work)
        .env("AGENTPROTO_HOME", place.path().join("home"))
        .output()
        .expect("started");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect()
}

fn of<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|l| l["type"] == kind).collect()
}

#[test]
#[ignore = "needs what tests/interop/run installs"]
fn typescript_sdk_example_agent() {
    agentproto_suites::proves!("A44-CONF-06");
    let script = installed("node_modules/@agentclientprotocol/sdk/dist/examples/agent.js");
    let bundle = |_: &Path| {
        format!(
            "bin: {}\ninstall:\n  - {{ method: npm, package: \"@agentclientprotocol/sdk\" }}\n\
             version_check: {{ cmd: \"node --version\", parse: 'v(\\S+)', range: \">=16\" }}\n",
            script.display()
        )
    };
    let lines = run("typescript", bundle, "hello", &["--yes"]);
    assert!(!of(&lines, "text-delta").is_empty());
    assert_eq!(of(&lines, "tool-call").len(), 2, "{lines:#?}");
    assert_eq!(of(&lines, "agent-prompt").len(), 1);
    assert_eq!(of(&lines, "turn-end")[0]["reason"], "end_turn");
    let lines = run("typescript", bundle, "hello", &["--permissions", "deny"]);
    assert_eq!(of(&lines, "turn-end").len(), 1);
}

#[test]
#[ignore = "needs what tests/interop/run installs"]
fn python_sdk_echo_agent() {
    agentproto_suites::proves!("A44-CONF-06");
    let script = installed("python/echo_agent.py");
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop/venv/bin/python3");
    let bundle = |dir: &Path| {
        let text = std::fs::read_to_string(&script).expect("readable");
        let started = format!("#!{}\n{text}", python.display());
        std::fs::write(dir.join("echo_agent.py"), started).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.join("echo_agent.py"), mode).expect("changed");
        "bin: ./echo_agent.py\ninstall:\n  - { method: vendored, path: ./echo_agent.py }\n\
         version_check: { cmd: \"python3 --version\", parse: 'Python (\\S+)', range: \">=3.9\" }\n"
            .to_owned()
    };
    let lines = run("python", bundle, "hello from the runner", &[]);
    let deltas = of(&lines, "text-delta");
    let text: String = deltas.iter().filter_map(|e| e["text"].as_str()).collect();
    assert!(text.contains("hello from the runner"), "{lines:#?}");
    assert_eq!(of(&lines, "turn-end")[0]["reason"], "end_turn");
}

/// The example client starts its agent with `npx`, so the mock agent is installed under that name.
/// The client reads decisions from its terminal, and this function always chooses the first option.
fn example_client(variant: Option<&str>) -> (String, String) {
    let client = installed("node_modules/@agentclientprotocol/sdk/dist/examples/client.js");
    let place = tempfile::tempdir().expect("a directory");
    let npx = place.path().join("npx");
    let mock = "#!/bin/sh\nexec \"$AGENTPROTO\" mock acp\n";
    std::fs::write(&npx, mock).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&npx, mode).expect("changed");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new("node")
        .arg(client)
        .current_dir(place.path())
        .env("PATH", format!("{}:{path}", place.path().display()))
        .env("AGENTPROTO", env!("CARGO_BIN_EXE_agentproto"))
        .env("MOCK_VARIANT", variant.unwrap_or_default())
        .env_remove("MOCK_SCENARIO")
        .env_remove("MOCK_MUTANT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut stderr = child.stderr.take().expect("stderr");
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let mut stdin = child.stdin.take().expect("stdin");
    let mut stdout = child.stdout.take().expect("stdout");
    let (mut said, mut asked, mut bytes) = (Vec::new(), 0, [0; 65536]);
    while let Ok(length @ 1..) = stdout.read(&mut bytes) {
        said.extend_from_slice(&bytes[..length]);
        let questions = String::from_utf8_lossy(&said)
            .matches("Choose an option:")
            .count();
        for _ in asked..questions {
            stdin.write_all(b"1\n").expect("it listens");
        }
        asked = questions;
    }
    let _ = child.wait();
    let said = String::from_utf8_lossy(&said).into_owned();
    (said, errors.join().expect("stderr"))
}

#[test]
#[ignore = "needs what tests/interop/run installs"]
fn typescript_sdk_example_client() {
    let (said, errors) = example_client(None);
    assert!(said.contains("completed with: end_turn"), "{said}{errors}");
    let mut wrong = Vec::new();
    for variant in variants::of(AgentKind::Acp) {
        let (said, errors) = example_client(Some(variant.name));
        // The example client neither logs in nor continues after an error. It prints a message for
        // both.
        let expected = match variant.scenario {
            "auth" => errors.contains("-32000"),
            "error" => errors.contains("[Client] Error"),
            // The client exits before its terminal has received the whole chunk.
            _ if variant.name == "huge-chunk" => {
                said.len() > 60_000 && !errors.contains("[Client] Error")
            }
            _ => said.contains("completed with: end_turn"),
        };
        if !expected {
            let tail = said.chars().rev().take(500).collect::<Vec<_>>();
            let tail: String = tail.into_iter().rev().collect();
            wrong.push(format!("{}: …{tail}\n{errors}", variant.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
