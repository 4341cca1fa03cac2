//! `doctor TARGET`: rules that depend on this machine, each with a passing and a failing case.

use serde_json::Value;

use crate::install::support::World;

/// The checks from machine mode with their result, and the exit code.
fn checks(world: &World) -> (i32, Vec<(String, bool, Value)>) {
    let ran = world.run(&["doctor", "./bundle", "-o", "jsonl"]);
    let events = ran.events();
    let schema = include_str!("../../../schemas/events.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let checks = events
        .iter()
        .filter(|e| e["rule"].is_string())
        .map(|event| {
            assert!(validator.is_valid(event), "{event}");
            let slug = event["rule"].as_str().expect("a slug").to_owned();
            (slug, event["ok"] == true, event.clone())
        });
    (ran.code, checks.collect())
}

#[track_caller]
fn verdict(world: &World, slug: &str) -> (bool, Value) {
    let (_, checks) = checks(world);
    let found = checks.into_iter().find(|(s, ..)| s == slug);
    let (_, ok, event) = found.unwrap_or_else(|| panic!("no {slug}"));
    (ok, event)
}

const VENDORED: &str = "  - { method: vendored, path: ./tool }";

/// A29-INSTALL-16.
#[test]
fn host_os_mismatch() {
    agentproto_suites::proves!("A29-INSTALL-16");
    let world = World::new();
    world.manifest_with(VENDORED, "range: '*'", "requires: { os: [linux] }");
    assert!(verdict(&world, "host-os-mismatch").0);
    for requires in ["os: [darwin]", "arch: [pdp11]", "min_disk_mb: 999999999"] {
        let more = format!("requires: {{ {requires} }}");
        world.manifest_with(VENDORED, "range: '*'", &more);
        let (ok, event) = verdict(&world, "host-os-mismatch");
        assert!(!ok);
        assert_eq!(event["severity"], "error");
        let key = requires.split(':').next().expect("a key");
        assert_eq!(event["pointer"], format!("/requires/{key}"));
        assert_eq!(event["source"]["spec"], "AIP-29");
        assert_eq!(checks(&world).0, 1);
    }
}

#[test]
fn host_sandbox_unsupported() {
    let world = World::new();
    world.manifest_with(VENDORED, "range: '*'", "");
    assert!(verdict(&world, "host-sandbox-unsupported").0);
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/demo/good/heron");
    let ran = world.run(&["doctor", good, "-o", "jsonl"]);
    let events = ran.events();
    let found = events
        .iter()
        .find(|e| e["rule"] == "host-sandbox-unsupported");
    let found = found.expect("the check");
    assert_eq!(
        (ran.code, &found["ok"]),
        (1, &Value::Bool(false)),
        "{found}"
    );
    assert!(found.to_string().contains("mastra-e2b"), "{found}");
}

#[test]
fn host_unsupported_method() {
    let world = World::new();
    world.manager("npm");
    world.manifest("  - { method: npm, package: tool }\n  - { method: brew, package: tool }");
    let (code, checks) = checks(&world);
    let methods: Vec<bool> = checks
        .iter()
        .filter(|(slug, ..)| slug == "host-unsupported-method")
        .map(|(_, ok, _)| *ok)
        .collect();
    assert_eq!(methods, [true, false]);
    // Another method is available, so this is not an error.
    assert_eq!(code, 0);
    assert!(world.calls().is_empty(), "doctor must not install anything");
}

/// A29-INSTALL-15.
#[test]
fn install_vendored_missing() {
    let world = World::new();
    world.manifest(VENDORED);
    let (ok, event) = verdict(&world, "install-vendored-missing");
    assert!(!ok && event["severity"] == "error");
    assert_eq!(event["pointer"], "/install/0");
    assert_eq!(checks(&world).0, 1);
    world.script("bundle/tool", "#!/bin/sh\necho demo-tool 1.0.0\n");
    assert!(verdict(&world, "install-vendored-missing").0);
    assert_eq!(checks(&world).0, 0);
}

/// A29-VER-06.
#[test]
fn vc_probe_out_of_range() {
    agentproto_suites::proves!("A29-SKILL-02");
    let world = World::new();
    world.manifest("  - { method: brew, package: tool }");
    let (ok, event) = verdict(&world, "vc-probe-out-of-range");
    assert!(
        ok && event["detail"]
            .as_str()
            .expect("a text")
            .contains("not checked")
    );
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 1.0.0\n");
    assert!(verdict(&world, "vc-probe-out-of-range").0);
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 3.0.0\n");
    let (ok, event) = verdict(&world, "vc-probe-out-of-range");
    assert!(!ok && event["detail"].as_str().expect("a text").contains("3.0.0"));
    assert_eq!(event["pointer"], "/version_check/range");
    assert_eq!(checks(&world).0, 1);
}

/// A29-OUT-13.
#[test]
fn out_mixed_undeclared() {
    agentproto_suites::proves!("A29-OUT-13");
    let world = World::new();
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 1.0.0 >&2\n");
    let entry = "  - { method: brew, package: tool }";
    world.manifest(entry);
    let (ok, event) = verdict(&world, "out-mixed-undeclared");
    assert!(!ok && event["severity"] == "info");
    assert_eq!(checks(&world).0, 0);
    world.manifest_with(entry, "range: '*'", "output: { stream: mixed }");
    assert!(verdict(&world, "out-mixed-undeclared").0);
    world.script("path/demo-tool", "#!/bin/sh\necho demo-tool 1.0.0\n");
    world.manifest(entry);
    let (_, checks) = checks(&world);
    assert!(
        checks
            .iter()
            .all(|(slug, ..)| slug != "out-mixed-undeclared")
    );
}

/// A45-SEC-05, and features that this host supports.
#[test]
fn features_of_this_host() {
    let world = World::new();
    let more = "auth: { state: { env: [DEMO_TOKEN] } }
setup:
  - { id: login, kind: oauth, secret_slug: demo-oauth }";
    world.manifest_with(VENDORED, "range: '*'", more);
    assert!(verdict(&world, "auth-env-isolation").0);
    assert!(verdict(&world, "setup-oauth-unsupported-host").0);
    let agent = std::fs::read_to_string(world.bundle().join("CLI.md")).expect("read");
    let agent = agent.replace("commands: {}", "protocol: mcp");
    std::fs::write(world.bundle().join("AGENT-CLI.md"), agent).expect("written");
    assert!(verdict(&world, "mcp-arm-unimplemented").0);
}

#[test]
fn human_output_has_position_and_source() {
    let world = World::new();
    world.manifest(VENDORED);
    let ran = world.run(&["doctor", "./bundle"]);
    assert_eq!(ran.code, 1);
    let text = &ran.stdout;
    assert!(text.starts_with("Sandbox on Linux"), "{text}");
    assert!(
        text.contains("✗ install method: `vendored` cannot be used here: no `"),
        "{text}"
    );
    assert!(
        text.contains("      at ") && text.contains("CLI.md:8:5 (AIP-29, Install methods)"),
        "{text}"
    );
    let json = world.run(&["doctor", "./bundle", "-o", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).expect("one document");
    assert_eq!(json["targets"][0]["ok"], false);
    world
        .run(&["doctor", "./nothing-there"])
        .fails(66, "", "nothing-there");
}
