//! Agents that others wrote, through the whole runner with a small manifest each.
//! `tests/interop/run` installs them and runs these.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Writes a bundle for `program script`, and runs one prompt.
fn run(
    name: &str,
    program: &Path,
    script: &Path,
    version: &str,
    prompt: &str,
    more: &[&str],
) -> Vec<Value> {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path().join(name);
    let work = place.path().join("work");
    std::fs::create_dir_all(&dir).expect("made");
    std::fs::create_dir_all(&work).expect("made");
    let manifest = format!(
        "---\nname: {name}\nid: {name}\ndescription: An agent of another project, for interoperation.\nversion: 1.0.0\n\
         bin: {}\nbin_args: [\"{}\"]\ninstall:\n  - {{ method: vendored, path: ./{name} }}\n{version}\
         sandbox: ./SANDBOX.md\nprotocol: acp\nacp: ./ACP.md\n---\n",
        program.display(),
        script.display()
    );
    std::fs::write(dir.join("AGENT-CLI.md"), manifest).expect("written");
    let home = installed("");
    let sandbox = format!(
        "---\nid: {name}\nversion: 1.0.0\nprovider: local\nmounts:\n  - {{ source: {{ kind: local, path: \"{home}\" }}, at: \"{home}\", mode: ro }}\n  - {{ source: {{ kind: local, path: \"{work}\" }}, at: \"{work}\", mode: rw }}\n---\n",
        home = home.display(),
        work = work.display()
    );
    std::fs::write(dir.join("SANDBOX.md"), sandbox).expect("written");
    let acp = "---\nname: profile\nid: profile\nversion: 1.0.0\nkind: server\ntransport: { kind: stdio }\nmetadata:\n  aip44:\n    acp_rev: \"1\"\n    capabilities: { agent: { loadSession: false } }\n---\n";
    std::fs::write(dir.join("ACP.md"), acp).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args([
            "run",
            dir.to_str().expect("a path"),
            "--prompt",
            prompt,
            "--output",
            "jsonl",
        ])
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
fn the_example_agent_of_the_typescript_sdk() {
    let node = Command::new("sh")
        .args(["-c", "command -v node"])
        .output()
        .expect("sh");
    let node = PathBuf::from(String::from_utf8(node.stdout).expect("UTF-8").trim());
    let script = installed("node_modules/@agentclientprotocol/sdk/dist/examples/agent.js");
    let version = "version_check: { cmd: \"node --version\", parse: 'v(\\S+)', range: \">=16\" }\n";
    let lines = run("typescript", &node, &script, version, "hello", &["--yes"]);
    assert!(!of(&lines, "text-delta").is_empty());
    assert_eq!(of(&lines, "tool-call").len(), 2, "{lines:#?}");
    assert_eq!(of(&lines, "agent-prompt").len(), 1);
    assert_eq!(of(&lines, "turn-end")[0]["reason"], "end_turn");
    let lines = run(
        "typescript",
        &node,
        &script,
        version,
        "hello",
        &["--permissions", "deny"],
    );
    assert_eq!(of(&lines, "turn-end").len(), 1);
}

#[test]
#[ignore = "needs what tests/interop/run installs"]
fn the_echo_agent_of_the_python_sdk() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop/venv/bin/python3");
    let script = installed("python/echo_agent.py");
    let version =
        "version_check: { cmd: \"python3 --version\", parse: 'Python (\\S+)', range: \">=3.9\" }\n";
    let lines = run(
        "python",
        &python,
        &script,
        version,
        "hello from the runner",
        &[],
    );
    let text: String = of(&lines, "text-delta")
        .iter()
        .filter_map(|e| e["text"].as_str())
        .collect();
    assert!(text.contains("hello from the runner"), "{lines:#?}");
    assert_eq!(of(&lines, "turn-end")[0]["reason"], "end_turn");
}
