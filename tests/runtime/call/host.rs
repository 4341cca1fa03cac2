//! Setup, login, sandbox, requirements and audit log of a call.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Aviary, LOGIN, tool};
use agentproto_suites::proves;

#[test]
fn an_unauthed_or_expired_login_is_auth_required_with_the_login_command() {
    proves!(
        "A29-AUTH-11",
        "A29-LOGIN-04",
        "A29-LOGIN-05",
        "A29-LOGIN-06"
    );
    let aviary = Aviary::new(LOGIN);
    let ran = aviary.bird(&["show", "args"]).exits(77);
    assert!(
        ran.err.contains("auth_required") && ran.err.contains("bird login"),
        "{}",
        ran.err
    );
    assert_eq!(ran.text(), "");
    assert!(aviary.audited("tool.invoke").is_empty());
    aviary.write("work/session", "");
    aviary.bird(&["show", "args"]).exits(0);
    let result = aviary.result(&["run", "exit", "--code", "7"], 77);
    assert_eq!(result["meaning"], "auth_required");
    assert_eq!(result["error"]["details"]["login"], "bird login");
    // The state is unauthed again, so the next call checks the login first.
    fs::remove_file(aviary.at("work/session")).expect("removed");
    aviary.bird(&["show", "args"]).exits(77);
    let states = aviary.audited("auth.state");
    assert_eq!(
        states.last().map(|state| state["to"].clone()),
        Some(json!("unauthed"))
    );
}

#[test]
fn a_due_refresh_runs_before_the_call() {
    proves!("A29-AUTH-09", "A29-LOGIN-07");
    let aviary = Aviary::new(&format!(
        "{LOGIN}\n  refresh: {{ cmd: 'bird write refreshed', every: PT1S }}"
    ));
    aviary.write("work/session", "");
    aviary.bird(&["show", "args"]).exits(0);
    assert!(!aviary.at("work/refreshed").exists());
    std::thread::sleep(Duration::from_millis(2100));
    aviary.bird(&["show", "args"]).exits(0);
    assert!(aviary.at("work/refreshed").exists());
}

#[test]
fn setup_values_and_secrets_reach_the_tool_and_nothing_else_does() {
    proves!("A29-SETUP-17", "A29-SBX-10", "A29-SBX-11");
    let setup = "setup:\n  - { id: pick, kind: prompt, prompt: Name, default: robin, persist: { env: BIRD_NAME } }\n\
                 auth: { state: { env: [BIRD_KEY] } }";
    let aviary = Aviary::new(setup);
    let ran = aviary
        .bird(&["show", "env", "--name", "BIRD_NAME"])
        .exits(78);
    assert!(ran.err.contains("setup_required"), "{}", ran.err);
    let call = |name: &str| {
        let mut command = aviary.command(&["--yes", "../bird", "show", "env", "--name", name]);
        command
            .env("BIRD_KEY", "canary-0815-hunter")
            .env("OTHER", "no");
        String::from_utf8(command.output().expect("it runs").stdout).expect("text")
    };
    assert_eq!(call("BIRD_NAME"), "BIRD_NAME=robin\n");
    assert_eq!(call("FIXED"), "FIXED=1\n");
    assert_eq!(call("OTHER"), "OTHER=\n");
    // The tool gets the secret, and its output is masked.
    assert_eq!(call("BIRD_KEY"), "BIRD_KEY=[secret]\n");
    let log = fs::read_to_string(aviary.at("home/audit/audit-log.jsonl")).expect("a log");
    assert!(!log.contains("canary-0815-hunter"));
}

#[test]
fn the_sandbox_of_the_tool_narrows_that_of_the_bundle() {
    proves!(
        "A29-INHERIT-01",
        "A29-INHERIT-02",
        "A29-INHERIT-03",
        "A29-SBX-01",
        "A29-SBX-06"
    );
    let aviary = Aviary::new("");
    let words = ["run", "any", "--verb", "write", "--arg", "made"];
    aviary.bird(&words).exits(0);
    assert!(aviary.at("work/made").exists());
    fs::remove_file(aviary.at("work/made")).expect("removed");
    let properties = "{ verb: { type: string }, arg: { type: string } }";
    let argv = r#"["${input.verb}", "${input.arg}"]"#;
    aviary.tool("any", properties, argv, "sandbox: { fs: { write: [] } }");
    aviary.bird(&words).exits(1);
    assert!(!aviary.at("work/made").exists());
    aviary.tool(
        "any",
        properties,
        argv,
        "sandbox: { network: { egress: [api.example.com] } }",
    );
    for more in [&[][..], &["--sandbox", "off"]] {
        let ran = aviary
            .call(&[more, &["../bird"], &words].concat())
            .exits(65);
        assert!(ran.err.contains("sandbox_widens"), "{}", ran.err);
    }
    assert!(!aviary.at("work/made").exists());
}

/// A tool cannot name another bundle as its parent to get a wider sandbox.
#[test]
fn the_called_bundle_is_the_one_that_is_narrowed() {
    proves!("A29-INHERIT-03");
    let aviary = Aviary::new("");
    let wide = fs::read_to_string(aviary.at("bird/CLI.md")).expect("a file");
    aviary.write(
        "wide/CLI.md",
        &wide.replace("egress: []", "egress: ['api.example.com']"),
    );
    let text = tool(
        "any",
        "{ }",
        "[args]",
        "sandbox: { network: { egress: [api.example.com] } }",
    );
    aviary.write(
        "bird/tools/any/TOOL.md",
        &text.replace("../../CLI.md", "../../../wide/CLI.md"),
    );
    let ran = aviary.bird(&["run", "any"]).exits(65);
    assert!(ran.err.contains("sandbox_widens"), "{}", ran.err);
}

#[test]
fn a_tool_that_requires_a_terminal_gets_one() {
    proves!("A29-SBX-12");
    for (required, expected) in [(true, "terminal"), (false, "pipe")] {
        let aviary = Aviary::with_sandbox("", &format!("  tty: {{ required: {required} }}"));
        let result = aviary.result(&["run", "any", "--verb", "tty"], 0);
        assert_eq!(result["text"], format!("{expected}\n"));
    }
}

#[test]
fn a_program_that_vanishes_is_a_typed_error() {
    let aviary = Aviary::new("");
    // The version check removes the program.
    let text = fs::read_to_string(aviary.at("bird/CLI.md")).expect("a file");
    let text = text.replace(
        "cmd: 'bird --version'",
        "cmd: 'sh -c \"echo bird 1.5.0; rm ../bird/bin/bird\"'",
    );
    aviary.write("bird/CLI.md", &text);
    let ran = aviary
        .call(&["--sandbox", "off", "../bird", "show", "args"])
        .exits(69);
    assert!(
        ran.err.contains("program_not_found") || ran.err.contains("spawn_failed"),
        "{}",
        ran.err
    );
}

#[test]
fn requirements_are_checked_even_if_the_program_is_there() {
    proves!("A29-INSTALL-16");
    let aviary = Aviary::new("requires: { os: [windows] }");
    let ran = aviary.bird(&["show", "args"]).exits(69);
    assert!(ran.err.contains("install_failed"), "{}", ran.err);
    let aviary = Aviary::new("requires: { os: [linux, windows] }");
    aviary.bird(&["show", "args"]).exits(0);
}

#[test]
fn every_call_is_audited_without_secrets() {
    let aviary = Aviary::new("");
    aviary.tool(
        "any",
        "{ token: { type: string }, arg: { type: string } }",
        r#"[args, "${input.arg}"]"#,
        "",
    );
    aviary
        .bird(&["run", "any", "--arg", "x", "--token", "canary-0815-hunter"])
        .exits(0);
    let calls = aviary.audited("tool.invoke");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["command"], "run any");
    assert_eq!(
        calls[0]["input"],
        json!({ "arg": "x", "token": "[redacted]" })
    );
    let ends = aviary.audited("tool.exit");
    assert_eq!(
        (&ends[0]["id"], &ends[0]["meaning"]),
        (&calls[0]["id"], &json!("ok"))
    );
    let log = fs::read_to_string(aviary.at("home/audit/audit-log.jsonl")).expect("a log");
    assert!(!log.contains("canary-0815-hunter"));
}

/// The first login on a fresh machine: `auth.state.paths` does not exist yet, and what the login
/// writes there is visible to the next call.
#[test]
fn the_first_login_of_a_cli_persists_for_its_tools() {
    proves!("A29-AUTH-03", "A29-AUTH-07", "A29-LOGIN-03");
    let aviary = Aviary::new(
        "auth:\n  state: { paths: ['~/.config/bird'], env: [] }\n  login: { cmd: 'bird keep', \
         completes_when: { cmd: 'bird kept' } }",
    );
    let verbs = r#"  keep) echo token > "$HOME/.config/bird/session" ;;
  kept) cat "$HOME/.config/bird/session" ;;
  bytes)"#;
    aviary.replace("bird/bin/bird", "  bytes)", verbs);
    aviary.replace(
        "bird/CLI.md",
        "write: ['./**']",
        "write: ['./**', '~/.config/bird/**']",
    );
    let refused = aviary.bird(&["run", "any", "--verb", "kept"]).exits(77);
    assert!(refused.err.contains("bird keep"), "{}", refused.err);
    let login = aviary.agentproto(&["auth", "login", "../bird"]).output();
    let login = login.expect("it runs");
    assert!(
        login.status.success(),
        "{}",
        String::from_utf8_lossy(&login.stderr)
    );
    let session = aviary.at("user/.config/bird/session");
    assert_eq!(fs::read_to_string(session).expect("kept"), "token\n");
    let dir = fs::metadata(aviary.at("user/.config/bird")).expect("a directory");
    assert_eq!(dir.permissions().mode() & 0o777, 0o700);
    let called = aviary.bird(&["run", "any", "--verb", "kept"]).exits(0);
    assert_eq!(called.text(), "token\n");
}

#[test]
fn a_tool_has_the_process_boundary_of_its_bundle() {
    proves!("A29-COMPAT-03");
    let aviary = Aviary::new("runner: { limits: { timeout_ms: 1500 } }");
    let started = Instant::now();
    let result = aviary.result(&["run", "any", "--verb", "sleep"], 75);
    assert_eq!(result["error"]["code"], "tool_timeout");
    assert!(started.elapsed() < Duration::from_secs(15));
    aviary.bird(&["show", "args"]).exits(0);
    // A limit of the tool can narrow it.
    aviary.replace("bird/CLI.md", "timeout_ms: 1500", "timeout_ms: 600000");
    aviary.replace(
        "bird/tools/any/TOOL.md",
        "timeout_ms: 20000",
        "timeout_ms: 1000",
    );
    aviary.result(&["run", "any", "--verb", "sleep"], 75);
    // A boundary that this host does not have is not left out.
    aviary.replace(
        "bird/CLI.md",
        "{ limits: { timeout_ms: 600000 } }",
        "{ engine: docker, image: x }",
    );
    for sandbox in ["auto", "off"] {
        let args = [
            "--allow-invalid",
            "--sandbox",
            sandbox,
            "../bird",
            "show",
            "args",
        ];
        let refused = aviary.call(&args).exits(69);
        assert!(refused.err.contains("runner."), "{}", refused.err);
    }
}
