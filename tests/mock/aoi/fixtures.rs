//! What `mock-agents/mock-aoi/` says about the tool matches its behavior.

use serde_json::Value;

use crate::aoi::runner::{Ground, interrupted};

fn fixture(name: &str) -> Value {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("mock-agents/mock-aoi");
    let text = std::fs::read_to_string(dir.join(name)).expect("a fixture");
    serde_yaml::from_str(&text).expect("YAML")
}

fn words(list: &Value) -> Vec<String> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter()
        .map(|word| word.as_str().expect("a word").to_owned())
        .collect()
}

#[test]
fn every_run_in_the_probe_file_matches_its_description() {
    let probe = fixture("probe.yaml");
    assert_eq!(words(&probe["tool"])[..3], ["agentproto", "mock", "aoi"]);
    let ground = Ground::new();
    for (name, command) in probe["commands"].as_object().expect("commands") {
        let mut args = words(&command["ok"]);
        args.extend(words(&probe["machine_args"]));
        if !command["target"].is_null() {
            let made = ground.run(&["create", "target"]).ok().of("created");
            let id = made[0]["id"].as_str().expect("an id");
            for word in &mut args {
                *word = word.replace("{id}", id);
            }
        }
        if command["destructive"] == true {
            let refused: Vec<&str> = args.iter().map(String::as_str).collect();
            ground
                .run(&refused)
                .refused(64, "usage", "CONFIRMATION_REQUIRED");
        }
        args.extend(words(&command["confirm"]));
        args.extend(words(&command["input"]["flag"]));
        let good = words(&command["input"]["good"]).join("\n");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        if command["unbounded"] == true {
            assert_eq!(interrupted(&ground, &args, libc::SIGTERM).code(), Some(143));
            continue;
        }
        let ran = ground.fed(&args, Some(&good));
        if command["needs_auth"] == true {
            ran.refused(77, "authn", "INTERACTIVE_REQUIRED");
            continue;
        }
        let results = ran.ok().events();
        for kind in words(&command["events"]) {
            let found = results.iter().find(|event| event["type"] == kind.as_str());
            let id = found.and_then(|event| event.pointer(command["id"].as_str()?));
            assert!(id.is_some_and(Value::is_string), "{name}: {kind}");
        }
        for bad in command["malformed"].as_array().into_iter().flatten() {
            let bad = words(bad);
            let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
            assert_ne!(ground.run(&bad).code(), Some(0), "{bad:?}");
        }
        for bad in words(&command["input"]["bad"]) {
            assert_eq!(
                ground.fed(&args, Some(&bad)).code(),
                Some(65),
                "{name}: {bad}"
            );
        }
        for secret in command["secrets"].as_array().into_iter().flatten() {
            let secret = words(secret);
            let mut args = args.clone();
            args.extend(secret.iter().map(String::as_str));
            let ran = ground.run(&args);
            assert!(!ran.ok().text().contains("{canary}"));
        }
    }
}

#[test]
fn the_documented_facts_are_true() {
    let facts = fixture("facts.yaml");
    let ground = Ground::new();
    let ran = ground.run(&["search", "x", "--limit", "1000"]);
    let events = ran.ok().events();
    for name in ["tool", "tool_version", "aoi_version", "schema_name"] {
        assert_eq!(events[0][name], facts[name]);
    }
    assert_eq!(events[0]["schema_version"], facts["default_version"]);
    let capabilities = ground.run(&["capabilities"]).json();
    assert_eq!(
        capabilities["schemas"][0]["versions"],
        facts["schema_versions"]
    );
    let hits = ran.of("hit");
    assert_eq!(facts["search"]["total"], hits.len());
    assert_eq!(hits[0]["id"], facts["search"]["first"]);
    assert_eq!(hits[hits.len() - 1]["id"], facts["search"]["last"]);
    let usual = ground.run(&["search", "x"]).of("hit").len();
    assert_eq!(facts["search"]["default_bound"], usual);
    for (args, category) in [
        (vec!["search"], "usage"),
        (vec!["search", "x", "--cursor", "x"], "validation"),
        (vec!["get", "x"], "not_found"),
        (vec!["fetch"], "authn"),
        (
            vec!["purge", "--confirm", "--confirm-count", "9"],
            "conflict",
        ),
        (vec!["watch", "--timeout", "0.01"], "timeout"),
    ] {
        let ran = ground.run(&args);
        assert_eq!(ran.of("aoi:error")[0]["category"], category);
        assert_eq!(
            facts["exit_codes"][category],
            ran.code().expect("a code"),
            "{args:?}"
        );
    }
}
