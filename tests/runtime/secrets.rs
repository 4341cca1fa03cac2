//! A canary in every place where a secret could leak (A45-AUTH-03 to A45-AUTH-05).

use super::place::{Place, Ran};

const CANARY: &str = "canary-7f3d9a1e55c04b";

fn bundle(place: &Place) -> String {
    let dir = place.changed("keeper", "AGENT-CLI.md", |text| {
        text.replace(
            "protocol: acp",
            "auth:\n  state:\n    env: [MOCK_KEY]\n\nprotocol: acp",
        )
    });
    dir.to_str().expect("a path").to_owned()
}

fn run(place: &Place, args: &[&str]) -> Ran {
    let target = bundle(place);
    let all = [&["run", target.as_str()], args].concat();
    let output = place.command(&all).env("MOCK_KEY", CANARY).output();
    Ran::new(output.expect("started"))
}

#[test]
fn only_the_child_sees_the_secret() {
    agentproto_suites::proves!("A45-AUTH-03", "A45-AUTH-05");
    let place = Place::new();
    for output in ["text", "jsonl"] {
        let ran = run(
            &place,
            &["--prompt", "show env MOCK_KEY", "--output", output, "-v"],
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("MOCK_KEY=[secret]"), "{}", ran.stdout);
        for (name, text) in [
            ("stdout", &ran.stdout),
            ("stderr", &ran.stderr),
            ("audit", &place.audit()),
        ] {
            assert!(!text.contains(CANARY), "{name}");
        }
    }
    assert!(place.audit().contains("secret.reveal"));
    // No file below the home directory contains it in plain text.
    let found = std::process::Command::new("grep")
        .args(["-r", "-l", CANARY])
        .arg(place.path("home"))
        .output()
        .expect("grep");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
}

#[test]
fn the_secret_is_not_an_argument() {
    agentproto_suites::proves!("A45-AUTH-04");
    let place = Place::new();
    let ran = run(&place, &["--prompt", "show argv", "--output", "jsonl"]);
    assert!(
        !ran.stdout.contains(CANARY) && !ran.stdout.contains("[secret]"),
        "{}",
        ran.stdout
    );
}

#[test]
fn an_error_of_the_agent_is_redacted() {
    agentproto_suites::proves!("A45-AUTH-05");
    let place = Place::new();
    let ran = run(
        &place,
        &[
            "--prompt",
            CANARY,
            "--option",
            "scenario=crash",
            "--output",
            "jsonl",
        ],
    );
    assert_eq!(ran.error().0, "AGENT_EXITED");
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY));
}

#[test]
fn a_missing_secret_names_its_variable() {
    agentproto_suites::proves!("A29-LOGIN-05");
    let place = Place::new();
    let target = bundle(&place);
    let ran = place.run(&target, &["--prompt", "x"]);
    let (code, message) = ran.error();
    assert_eq!((ran.code, code.as_str()), (77, "AUTH_REQUIRED"));
    assert!(message.contains("MOCK_KEY"), "{message}");
}
