//! Modes, options, continuation (A45-MODE-*, A45-OPT-*, A45-CONT-10, A45-CONT-11).

use super::place::Place;

fn argv(place: &Place, args: &[&str]) -> String {
    let ran = place.run("mock-acp", &[args, &["--prompt", "show argv"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.text()
}

#[test]
fn the_order_of_patches_does_not_depend_on_the_order_of_flags() {
    agentproto_suites::proves!(
        "A45-MODE-03",
        "A45-MODE-04",
        "A45-OPT-02",
        "A45-OPT-05",
        "A45-OPT-07"
    );
    let place = Place::new();
    let patched = argv(
        &place,
        &[
            "--option",
            "loud=true",
            "--option",
            "model=large",
            "--mode",
            "careful",
        ],
    );
    let at = |word: &str| {
        patched
            .find(word)
            .unwrap_or_else(|| panic!("{word} in {patched}"))
    };
    assert!(
        at("--careful") < at("--model") && at("--model") < at("--loud"),
        "{patched}"
    );
    assert!(patched.contains("large"));
}

#[test]
fn defaults_add_no_arguments() {
    agentproto_suites::proves!("A45-MODE-05", "A45-OPT-04", "A45-OPT-07");
    let place = Place::new();
    for args in [
        &[][..],
        &[
            "--option",
            "model=small",
            "--option",
            "loud=false",
            "--mode",
            "default",
        ],
    ] {
        let plain = argv(&place, args);
        for word in ["--careful", "--model", "--loud", "--patience"] {
            assert!(!plain.contains(word), "{args:?}: {plain}");
        }
    }
}

#[test]
fn modes_and_options_set_environment_variables() {
    agentproto_suites::proves!("A45-MODE-03", "A45-OPT-08");
    let place = Place::new();
    let ran = place.run(
        "mock-acp",
        &["--mode", "careful", "--prompt", "show env MOCK_MODE"],
    );
    assert_eq!(ran.text(), "MOCK_MODE=careful");
    let ran = place.run(
        "mock-acp",
        &["--option", "loud=true", "--prompt", "show env MOCK_LOUD"],
    );
    assert_eq!(ran.text(), "MOCK_LOUD=true");
}

#[test]
fn unknown_choices_are_refused_before_anything_runs() {
    agentproto_suites::proves!("A45-MODE-06", "A45-OPT-09", "A45-OPT-10", "A45-CONT-10");
    let place = Place::new();
    for (args, code, hint) in [
        (&["--mode", "carefull"][..], "MODE_UNKNOWN", "careful"),
        (&["--option", "modell=large"], "OPTION_UNKNOWN", "model"),
        (&["--option", "model=huge"], "OPTION_INVALID", ""),
        (&["--option", "patience=11"], "OPTION_INVALID", ""),
        (&["--option", "patience=0"], "OPTION_INVALID", ""),
        (&["--option", "patience=many"], "OPTION_INVALID", ""),
        (&["--option", "loud=yes"], "OPTION_INVALID", ""),
        (
            &["--continuation", "telepathy"],
            "CONTINUATION_UNSUPPORTED",
            "",
        ),
        (
            &["--continuation", "pinned-session"],
            "CONTINUATION_UNSUPPORTED",
            "--conversation",
        ),
        (
            &["--continuation", "none", "--transcript", "x"],
            "CONTINUATION_UNSUPPORTED",
            "",
        ),
        (
            &["--continuation", "none", "--resume", "x"],
            "CONTINUATION_UNSUPPORTED",
            "",
        ),
    ] {
        let ran = place.run("mock-acp", &[args, &["--prompt", "x"]].concat());
        assert_eq!((ran.code, ran.error().0.as_str()), (64, code), "{args:?}");
        let said = ran.of("aoi:error")[0]["hint"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(said.contains(hint), "{args:?}: {said}");
        assert!(ran.of("aoi:progress").is_empty(), "an agent was started");
    }
}

#[test]
fn the_command_line_overrides_an_operator() {
    agentproto_suites::proves!("A45-MODE-02", "A45-OPT-09");
    let place = Place::new();
    let operator = |config: &str| {
        let path = place.path("OPERATOR.md");
        let text = format!(
            "---\nname: o\nid: operator\nversion: 1.0.0\npersona_summary: An operator for tests.\nprofile: {{ role: Tester., voice: Short., boundaries: [] }}\nruntime:\n  kind: agent-cli\n  ref: mock-acp\n  config: {config}\n---\n"
        );
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let path = operator("{ mode: careful, options: { model: large, patience: 5 } }");
    let patched = argv(&place, &["--operator", &path]);
    assert!(
        patched.contains("--careful") && patched.contains("large") && patched.contains('5'),
        "{patched}"
    );
    let patched = argv(&place, &["--operator", &path, "--option", "patience=7"]);
    assert!(patched.contains('7') && !patched.contains("5"), "{patched}");
    // A string is not a number, even if it looks like one.
    let path = operator("{ options: { patience: \"5\" } }");
    let ran = place.run("mock-acp", &["--operator", &path, "--prompt", "x"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (64, "OPTION_INVALID"));
    let path = operator("{ mode: [careful] }");
    let ran = place.run("mock-acp", &["--operator", &path, "--prompt", "x"]);
    assert_eq!((ran.code, ran.error().0.as_str()), (65, "MANIFEST_INVALID"));
}

#[test]
fn run_says_that_it_does_not_keep_a_pinned_session() {
    agentproto_suites::proves!("A45-CONT-04");
    let place = Place::new();
    let pinned = place.changed("pinned", "AGENT-CLI.md", |text| {
        text.replace("default: native-resume", "default: pinned-session")
    });
    let ran = place.run(pinned.to_str().expect("a path"), &["--prompt", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let warnings = ran.of("aoi:warning");
    let found = warnings
        .iter()
        .find(|w| w["code"] == "CONTINUATION_NOT_APPLIED");
    let found = found.unwrap_or_else(|| panic!("{}", ran.stdout));
    let message = found["message"].as_str().expect("text");
    assert!(message.contains("--conversation ID"), "{message}");
    // Another default, and another choice, need no warning.
    let other = place.run("mock-acp", &["--prompt", "hello"]);
    assert!(!other.stdout.contains("CONTINUATION_NOT_APPLIED"));
    let args = ["--continuation", "none", "--prompt", "hello"];
    let other = place.run(pinned.to_str().expect("a path"), &args);
    assert!(!other.stdout.contains("CONTINUATION_NOT_APPLIED"));
}
