//! Schema, capabilities, input schema, doctor, versions.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::aoi::runner::Ground;

fn validator(ground: &Ground, version: &str) -> jsonschema::Validator {
    let schema = ground
        .run(&["schema", "--output", "json", "--schema-version", version])
        .json();
    jsonschema::meta::validate(&schema).expect("a schema");
    jsonschema::validator_for(&schema).expect("a schema that can be used")
}

#[test]
fn all_discovery_forms_agree_without_environment() {
    let ground = Ground::new();
    let ask = |args: &[&str]| -> Value {
        let output = ground
            .stateless(args)
            .env_clear()
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        serde_json::from_slice(&output.stdout).expect("one object")
    };
    let schema = ask(&["schema", "--output", "json"]);
    for form in [
        vec!["schema"],
        vec!["--schema"],
        vec!["aoi-schema"],
        vec!["--schema", "--output", "json"],
    ] {
        assert_eq!(ask(&form), schema, "{form:?}");
    }
    let capabilities = ask(&["capabilities", "--output", "json"]);
    assert_eq!(ask(&["--capabilities"]), capabilities);
    assert_eq!(capabilities["aoi_versions"], json!(["0.2"]));
    assert_eq!(
        capabilities["schemas"][0]["versions"],
        json!(["1.4.0", "2.0.0"])
    );
    // As a stream when jsonl is requested.
    let stream = ground.run(&["schema", "--output", "jsonl"]);
    assert_eq!(stream.ok().of("document")[0]["document"], schema);
    for command in ["import", "rank"] {
        let input = ask(&["input-schema", "--command", command]);
        jsonschema::meta::validate(&input).expect("a schema");
    }
    assert_eq!(ask(&["input-schema"])["additionalProperties"], false);
    assert!(ground.files().is_empty(), "no file is left behind");
}

#[test]
fn every_event_matches_the_schema_of_its_version() {
    let ground = Ground::new();
    let capabilities = ground.run(&["capabilities"]).json();
    let declared = |command: &str| -> BTreeSet<String> {
        let commands = capabilities["commands"].as_array().expect("commands");
        let found = commands
            .iter()
            .find(|c| c["name"] == command)
            .expect("declared");
        let kinds = found["event_types"].as_array().expect("types");
        kinds
            .iter()
            .map(|kind| kind.as_str().expect("a name").to_owned())
            .collect()
    };
    for version in ["1", "2"] {
        let ground = Ground::new();
        let schema = validator(&ground, version);
        let other = validator(&ground, if version == "1" { "2" } else { "1" });
        let mut seen = BTreeSet::new();
        for args in [
            vec!["search", "x", "--delay-ms", "1"],
            vec!["create", "a"],
            vec!["create", "a", "--dry-run"],
            vec!["list"],
            vec!["get", "item-0001"],
            vec!["update", "item-0001", "b"],
            vec!["delete", "item-0001"],
            vec!["delete", "item-0001", "--confirm"],
            vec!["doctor"],
            vec!["watch", "--count", "5", "--interval-ms", "1"],
            vec!["fetch"],
            vec!["schema", "--output", "jsonl"],
        ] {
            let mut asked = args.clone();
            asked.extend(["--schema-version", version]);
            let ran = ground.run(&asked);
            for event in ran.events() {
                assert!(schema.is_valid(&event), "{version}: {event}");
                let kind = event["type"].as_str().expect("a type").to_owned();
                assert!(declared(args[0]).contains(&kind), "{args:?}: {kind}");
                let is_same = kind.starts_with("aoi:") || kind == "document";
                assert_eq!(other.is_valid(&event), is_same, "{event}");
                seen.insert(kind);
            }
        }
        for kind in [
            "aoi:check",
            "aoi:warning",
            "aoi:error",
            "aoi:plan",
            "aoi:heartbeat",
        ] {
            assert!(seen.contains(kind), "{kind}");
        }
        // The schema refuses invalid events.
        for wrong in [
            json!({ "ok": true }),
            json!({ "type": "aoi:summary" }),
            json!({ "type": "aoi:summary", "ok": "yes" }),
            json!({ "type": "aoi:error", "category": "odd", "code": "A", "message": "m", "retryable": true }),
            json!({ "type": "weather" }),
        ] {
            assert!(!schema.is_valid(&wrong), "{wrong}");
        }
        assert!(schema.is_valid(&json!({ "type": "aoi:summary", "ok": true, "new": 1 })));
    }
}

#[test]
fn versions_are_used_or_refused_before_any_data() {
    let ground = Ground::new();
    let said = |flag: &str, value: &str| {
        let ran = ground.run(&["search", "x", "--limit", "1", flag, value]);
        let events = ran.ok().events();
        (
            events[0]["schema_version"].clone(),
            events[1].get("title").is_some(),
        )
    };
    let name = "com.example.mock-aoi.events";
    for version in ["1", "1.4.0"] {
        assert_eq!(said("--schema-version", version), ("1.4.0".into(), false));
        assert_eq!(
            said("--accept-schema", &format!("{name}@{version}")),
            ("1.4.0".into(), false)
        );
    }
    assert_eq!(said("--schema-version", "2"), ("2.0.0".into(), true));
    for (flag, value) in [
        ("--schema-version", "9999"),
        ("--schema-version", "1.3.0"),
        ("--schema-version", ""),
        ("--accept-schema", "com.example.mock-aoi.events@3"),
        ("--accept-schema", "com.example.mock-aoi.events"),
    ] {
        let ran = ground.run(&["search", "x", flag, value]);
        ran.refused(64, "usage", "SCHEMA_VERSION_UNSUPPORTED");
        assert!(ran.of("hit").is_empty());
    }
    let ran = ground.run(&["search", "x", "--accept-schema", "org.other@1"]);
    ran.refused(64, "usage", "SCHEMA_UNKNOWN");
}

#[test]
fn the_doctor_counts_its_checks_and_warnings() {
    let ran = Ground::new().run(&["doctor", "--output", "jsonl"]);
    assert_eq!(ran.ok().of("aoi:check").len(), 3);
    assert_eq!(ran.of("aoi:warning").len(), 1);
    let ran = Ground::new().env("MOCK_AOI_TOKEN", "t").run(&["doctor"]);
    assert_eq!(ran.ok().of("aoi:warning").len(), 0);
}
