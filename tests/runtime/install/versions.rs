//! Version checks: the reported version, the required range, and mismatches.

use crate::install::support::World;

const NPM: &str = "  - { method: npm, package: tool }";
const VENDORED: &str = "  - { method: vendored, path: ./tool }";

fn says(world: &World, script: &str) {
    world.script("bundle/tool", &format!("#!/bin/sh\n{script}\n"));
}

/// A29-VER-09: the second installation has the right version.
#[test]
fn an_old_version_is_replaced() {
    agentproto_suites::proves!("A29-VER-09");
    let world = World::new();
    world.manager("npm");
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 0.9.0\n");
    world.manifest(NPM);
    let ran = world.install(&["--yes"]);
    assert!(
        ran.works().stdout.contains("1.2.3 (installed by npm)"),
        "{}",
        ran.stdout
    );
    assert_eq!(world.calls().len(), 1);
    // From now on, our installation takes precedence over the old one.
    let again = world.install(&[]);
    assert!(again.works().stdout.contains("1.2.3"), "{}", again.stdout);
}

/// A29-VER-06, A29-VER-10, A29-SEC-03.
#[test]
fn a_wrong_version_after_one_reinstall_is_a_mismatch() {
    agentproto_suites::proves!("A29-VER-06", "A29-VER-09", "A29-VER-10", "A29-SEC-03");
    let world = World::new();
    world.manager("npm");
    world.program("2.0.0");
    world.manifest(NPM);
    let ran = world.install(&["--yes", "-o", "jsonl"]);
    assert_eq!(ran.code, 69);
    assert_eq!(world.calls().len(), 2, "installed and reinstalled");
    let events = ran.events();
    let error = events
        .iter()
        .find(|e| e["type"] == "aoi:error")
        .expect("an error");
    assert_eq!(error["code"], "VERSION_MISMATCH");
    let message = error["message"].as_str().expect("a text");
    assert!(
        message.contains("2.0.0") && message.contains(">=1 <2"),
        "{message}"
    );
    assert_eq!(events.last().expect("a summary")["ok"], false);
    // A useless installation is removed, so that it does not block a better one.
    assert!(world.tools().is_empty(), "{:?}", world.tools());
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 1.1.0\n");
    world.install(&[]).works();
    assert_eq!(world.calls().len(), 2);
}

#[test]
fn a_vendored_file_is_not_reinstalled() {
    let world = World::new();
    says(&world, "echo demo-tool 3.0.0; echo ran >> @ROOT@/calls");
    world.manifest(VENDORED);
    world.install(&[]).fails(69, "version_mismatch", "3.0.0");
    let checks = world.audited();
    assert_eq!(checks.iter().filter(|e| *e == "version.checked").count(), 1);
}

/// A29-VER-07.
#[test]
fn a_check_that_hangs_times_out() {
    agentproto_suites::proves!("A29-VER-07");
    let world = World::new();
    says(&world, "while :; do :; done");
    world.manifest_with(VENDORED, "range: '*'\n  timeout_ms: 300", "");
    world
        .install(&[])
        .fails(69, "version_mismatch", "did not exit within 300 ms");
}

/// A29-VER-03: valid, hostile and useless regular expressions.
#[test]
fn hostile_regular_expressions_are_reported() {
    let world = World::new();
    says(
        &world,
        "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    );
    for (pattern, part) in [
        ("((a+)+)+X", "took too long"),
        ("(a", "is not an ECMAScript regular expression"),
        ("a+", "no capture group for the version"),
        ("(((((b{1000}){1000}){1000}){1000}){1000})", "parse"),
    ] {
        let check = format!("parse: '{pattern}'\n  range: '*'");
        world.manifest_with(VENDORED, &check, "");
        let ran = world.install(&["--allow-invalid"]);
        assert!([65, 69].contains(&ran.code), "{pattern}: {}", ran.stderr);
        assert!(ran.stderr.contains(part), "{pattern}: {}", ran.stderr);
    }
}

/// A29-VER-04, A45-LIFE-03.
#[test]
fn the_first_capture_group_is_compared() {
    agentproto_suites::proves!("A29-VER-04", "A29-SKILL-02", "A45-LIFE-03");
    let world = World::new();
    for (script, parse, wanted) in [
        (
            "echo 'demo-tool v1.4.0 (9.9.9)'",
            r"(?<=demo-tool )v?([\d.]+) \(([\d.]+)\)",
            "1.4.0",
        ),
        (
            "echo demo-tool 1.5.0-rc.1+build >&2",
            r"demo-tool (\S+)",
            "1.5.0-rc.1",
        ),
    ] {
        says(&world, script);
        let check = format!("parse: '{parse}'\n  range: '>=1.0.0 <2 || 1.5.0-rc.1'");
        world.manifest_with(VENDORED, &check, "");
        let ran = world.install(&[]);
        assert!(ran.works().stdout.contains(wanted), "{}", ran.stdout);
    }
    for (script, part) in [
        ("echo something else", "found no version"),
        ("echo demo-tool unknown", "not a version such as"),
        ("echo cannot start >&2; exit 7", "exit status: 7"),
    ] {
        says(&world, script);
        world.manifest(VENDORED);
        world.install(&[]).fails(69, "version_mismatch", part);
    }
}

#[test]
fn a_version_with_two_numbers_is_accepted_with_a_warning() {
    let world = World::new();
    says(&world, "echo demo-tool 1.4");
    world.manifest(VENDORED);
    let ran = world.install(&[]);
    assert!(ran.works().stdout.contains("1.4.0"), "{}", ran.stdout);
    assert!(ran.stderr.contains("version_not_semver"), "{}", ran.stderr);
}

/// A29-VER-02: a command that prints its version and fails causes a warning, not an error.
#[test]
fn a_version_from_a_failing_command_is_accepted_with_a_warning() {
    let world = World::new();
    says(&world, "echo demo-tool 1.0.0; exit 1");
    world.manifest(VENDORED);
    let ran = world.install(&[]);
    assert!(
        ran.works().stderr.contains("version_check_exit"),
        "{}",
        ran.stderr
    );
}

#[test]
fn invalid_version_checks_are_refused_with_their_position() {
    let world = World::new();
    says(&world, "echo demo-tool 1.0.0");
    for (check, part) in [
        (
            "cmd: demo-tool --version | cat\n  range: '*'",
            "without a shell",
        ),
        ("cmd: \"demo-tool 'x\"\n  range: '*'", "quote"),
        ("range: 'one'", "not an npm range"),
        ("parse: 7\n  range: '*'", "must be a string"),
        ("timeout_ms: 100", "`version_check.range` is missing"),
    ] {
        world.manifest_with(VENDORED, check, "");
        world
            .install(&["--allow-invalid"])
            .fails(65, "manifest_invalid", part);
    }
}

#[test]
fn the_check_runs_inside_the_sandbox() {
    let world = World::new();
    let secret = world.root().join("user/secret");
    std::fs::write(&secret, "canary").expect("written");
    says(&world, "cat @ROOT@/user/secret; echo demo-tool 1.0.0");
    world.manifest_with(
        VENDORED,
        "parse: '(canary|\\d+\\.\\d+\\.\\d+)'\n  range: '*'",
        "",
    );
    let ran = world.install(&[]);
    assert!(ran.works().stdout.contains("1.0.0"), "{}", ran.stdout);
}
