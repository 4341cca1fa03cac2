//! What a manifest declares is enforced, compared with the agent, or refused.

use std::process::Command;

use super::place::{Place, Ran, allowing, collect};
use agentproto_suites::proves;

fn edited(place: &Place, name: &str, edits: &[(&str, &str)]) -> String {
    let dir = place.changed(name, "AGENT-CLI.md", |mut text| {
        for (old, new) in edits {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        text
    });
    dir.to_str().expect("a path").to_owned()
}

fn edit_file(target: &str, file: &str, old: &str, new: &str) {
    let path = std::path::Path::new(target).join(file);
    let text = std::fs::read_to_string(&path).expect("there");
    assert!(text.contains(old), "{old}");
    std::fs::write(path, text.replace(old, new)).expect("written");
}

fn contradictions(ran: &Ran) -> Vec<String> {
    let warnings = ran.of("aoi:warning");
    let told = warnings
        .iter()
        .filter(|w| w["code"] == "CAPABILITY_CONTRADICTED");
    told.map(|w| w["message"].as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn what_an_acp_md_does_not_declare_is_not_in_it() {
    proves!("A45-CAP-10", "A45-SESS-08");
    let place = Place::new();
    let silent = |target: &str| {
        edit_file(target, "ACP.md", "        loadSession: true\n", "");
        edit_file(target, "ACP.md", "tier: governance-aware", "tier: basic");
    };
    let refused = |target: &str, more: &[&str], declared: &str| {
        let ran = place.run(target, &[&["--prompt", "hello"], more].concat());
        assert_eq!(ran.code, 65, "{}", ran.stderr);
        let (code, message) = ran.error();
        assert_eq!(code, "CAPABILITY_MISMATCH", "{message}");
        assert!(message.contains(declared), "{message}");
        assert!(
            message.contains("does not declare `loadSession`"),
            "{message}"
        );
    };
    let by_flag = edited(
        &place,
        "by-flag",
        &[("mode: resumable", "mode: persistent")],
    );
    silent(&by_flag);
    refused(&by_flag, &[], "`resumable` is declared");
    let by_mode = edited(
        &place,
        "by-mode",
        &[("resumable: true", "resumable: false")],
    );
    silent(&by_mode);
    refused(&by_mode, &[], "`session.mode: resumable` is declared");
    // The tier of the unchanged ACP.md implies it.
    let implied = edited(&place, "implied", &[("name: implied", "name: implied ")]);
    edit_file(&implied, "ACP.md", "        loadSession: true\n", "");
    let ran = place.run(&implied, &["--prompt", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_resumable_session_needs_an_agent_that_can_resume() {
    proves!("A45-SESS-08");
    let place = Place::new();
    let edits = [
        ("  resumable: true\n", ""),
        ("default: native-resume", "default: none"),
        ("supported: [native-resume, ", "supported: ["),
    ];
    let target = edited(&place, "by-mode", &edits);
    let run = |more: &[&str]| {
        let args = [&["--allow-invalid", "--prompt", "hello"], more].concat();
        place.run(&target, &args)
    };
    let ran = run(&["--option", "scenario=bare"]);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    let (code, message) = ran.error();
    assert_eq!(code, "CAPABILITY_MISMATCH", "{message}");
    assert!(message.contains("neither session/load"), "{message}");
    assert_eq!(run(&[]).code, 0);
}

#[test]
fn declared_capabilities_are_compared_with_the_agent() {
    proves!("A45-CAP-02", "A45-CAP-03", "A45-CAP-05", "A45-CAP-08");
    let place = Place::new();
    std::fs::write(place.path("work/note.txt"), "a note").expect("written");
    for (flag, prompt) in [
        ("streaming", "hello"),
        ("tool_calls", "use a tool"),
        ("file_io", "read note.txt"),
        ("bidirectional", "ask for permission"),
    ] {
        let (old, new) = (format!("{flag}: true"), format!("{flag}: false"));
        let target = edited(&place, &flag.replace('_', "-"), &[(&old, &new)]);
        let ran = place.run(&target, &["--yes", "--prompt", prompt]);
        assert_eq!(ran.code, 0, "{flag}: {}", ran.stderr);
        let told = contradictions(&ran);
        assert_eq!(told.len(), 1, "{flag}: {}", ran.stdout);
        assert!(
            told[0].contains(&format!("`capabilities.{new}`")),
            "{told:?}"
        );
        // The agent that declares what it does gets no warning.
        let ran = place.run("mock-acp", &["--yes", "--prompt", prompt]);
        assert_eq!(contradictions(&ran), Vec::<String>::new(), "{flag}");
    }
    let says_nothing = ["--option", "mutant=acp-pt-09-says-nothing", "--prompt", "x"];
    let ran = place.run("mock-acp", &says_nothing);
    let told = contradictions(&ran);
    assert!(
        told.len() == 1 && told[0].contains("`capabilities.streaming: true`"),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_contradiction_is_reported_once_per_session() {
    let place = Place::new();
    let target = edited(
        &place,
        "toolless",
        &[("tool_calls: true", "tool_calls: false")],
    );
    let (agent, watch) = place.agent(&target, allowing()).expect("loaded");
    let count = || {
        let warnings = watch.warnings.lock().expect("a list");
        let told = warnings
            .iter()
            .filter(|w| w.contains("capability_contradicted"));
        told.count()
    };
    for session_number in 1..=2 {
        let session = agent.start().await.expect("started");
        for _ in 0..2 {
            collect(&mut session.send("use a tool").expect("sent")).await;
        }
        assert_eq!(count(), session_number);
        session.close().await.expect("closed");
    }
}

/// A mock agent with a `runner`.
fn with_runner(place: &Place, name: &str, runner: &str) -> String {
    let new = format!("runner: {runner}\nrequires:");
    edited(place, name, &[("requires:", &new)])
}

#[test]
fn a_runner_that_this_host_does_not_have_is_refused() {
    proves!("A45-FM-22", "A29-OPT-05", "A29-COMPAT-04");
    let place = Place::new();
    for (name, runner, code, part) in [
        (
            "docker",
            "{ engine: docker, image: x }",
            69,
            "runner.engine docker",
        ),
        (
            "image",
            "{ engine: sandbox, image: x }",
            69,
            "runner.image x",
        ),
        ("gpu", "{ limits: { gpu: 1 } }", 69, "runner.limits.gpu"),
        ("lost", "./NOPE.md", 65, "NOPE.md"),
        ("registry", "{ ref: some-runner }", 65, "names a registry"),
    ] {
        let target = with_runner(&place, name, runner);
        let ran = place.run(&target, &["--allow-invalid", "--prompt", "hello"]);
        assert_eq!(ran.code, code, "{name}: {}{}", ran.stdout, ran.stderr);
        let (_, message) = ran.error();
        assert!(message.contains(part), "{name}: {message}");
        // Nothing was installed or started for it.
        let stage = format!("{name}/AGENT-CLI.md");
        let audit = place.audit();
        let mut lines = audit.lines().filter(|line| line.contains(&stage));
        assert!(!lines.any(|line| line.contains("stage.install")), "{audit}");
    }
    let ran = place.run(
        &with_runner(&place, "docker", "{ engine: docker }"),
        &["--prompt", "hello"],
    );
    assert_eq!(ran.error().0, "MANIFEST_INVALID");
}

#[test]
fn a_runner_that_this_host_has_is_used() {
    proves!("A45-FM-22", "A29-OPT-05");
    let place = Place::new();
    for (name, runner) in [
        ("plain", "{ engine: subprocess }"),
        ("boxed", "{ engine: sandbox, limits: { memory_mb: 2000 } }"),
        ("inline", "{ inline: { limits: { timeout_ms: 600000 } } }"),
    ] {
        let target = with_runner(&place, name, runner);
        let ran = place.run(&target, &["--prompt", "hello"]);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.stdout, ran.stderr);
    }
    let target = with_runner(&place, "inside", "{ engine: in-process }");
    let ran = place.run(&target, &["--prompt", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let mut warnings = ran.of("aoi:warning").into_iter();
    assert!(
        warnings.any(|w| w["code"] == "RUNNER_DOWNGRADED"),
        "{}",
        ran.stdout
    );
}

#[test]
fn limits_of_a_runner_are_enforced() {
    proves!("A45-FM-22", "A29-OPT-06");
    let place = Place::new();
    let slow = |target: &str| {
        let ran = place.run(target, &["--prompt", "be slow"]);
        assert_eq!(ran.code, 75, "{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.error().0, "TURN_TIMEOUT");
    };
    slow(&with_runner(
        &place,
        "hurry",
        "{ limits: { timeout_ms: 300 } }",
    ));
    let target = with_runner(&place, "file", "./RUNNER.md");
    let runner = std::path::Path::new(&target).join("RUNNER.md");
    std::fs::write(runner, "---\nlimits: { timeout_ms: 300 }\n---\n").expect("written");
    slow(&target);
    // The agent does not fit into this.
    let target = with_runner(&place, "tiny", "{ limits: { memory_mb: 2 } }");
    let ran = place.run(&target, &["--prompt", "hello"]);
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    let explained = place.command(&["sandbox", "explain", &target]).output();
    let explained = explained.expect("started");
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("runner.limits.memory_mb 2"), "{text}");
}

#[test]
fn commands_that_are_run_for_an_agent_do_not_get_its_secrets() {
    proves!("A45-SEC-05");
    let place = Place::new();
    let auth = "auth:\n  state: { env: [MOCK_KEY] }\n\nsandbox: ./SANDBOX.md";
    let target = edited(&place, "keyed", &[("sandbox: ./SANDBOX.md", auth)]);
    let say = |prompt: &str| {
        let args = [
            "run", &target, "--output", "jsonl", "--yes", "--prompt", prompt,
        ];
        let mut command: Command = place.command(&args);
        let out = command.env("MOCK_KEY", "canary-for-the-agent").output();
        let ran = Ran::new(out.expect("started"));
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        ran.text()
    };
    // The agent has it.
    assert!(say("show env MOCK_KEY").contains("[secret]"));
    let env = say("run /usr/bin/env");
    assert!(env.contains("PATH="), "{env}");
    assert!(!env.contains("MOCK_KEY"), "{env}");
}
