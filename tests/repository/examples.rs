//! The examples that users copy do what they say. Cargo builds them before the tests run.

use assert_cmd::Command;

/// Runs an example in an empty directory and returns its output.
fn run(name: &str, args: &[&str]) -> String {
    let binary = assert_cmd::cargo::cargo_bin("agentproto");
    let program = binary
        .parent()
        .expect("a directory")
        .join("examples")
        .join(name);
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new(program)
        .args(args)
        .current_dir(dir.path())
        .env("AGENTPROTO_HOME", dir.path().join("state"))
        .timeout(std::time::Duration::from_secs(60))
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {}\n{text}\n{errors}",
        output.status
    );
    text
}

#[test]
fn lint_string_prints_findings() {
    let text = run("lint_string", &[]);
    assert!(text.contains("[id-pattern]"), "{text}");
    assert!(text.contains("\"schema\""), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn run_agent_prints_the_answer() {
    assert!(run("run_agent", &[]).contains("You said: hello\n[EndTurn]"));
    let text = run("run_agent", &["mock-acp", "use a tool"]);
    assert!(text.contains("[calls Search the notes]"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn embed_host_runs_three_agents() {
    let text = run("embed_host", &[]);
    for line in [
        "reader: handshake",
        "reader said: You said: hello",
        "writer said:",
        "server said:",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn certify_in_tests_reports_verdicts() {
    let text = run("certify_in_tests", &[]);
    assert!(text.contains(" passed, 0 failed"), "{text}");
}
