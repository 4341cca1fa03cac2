//! Conforming variants look different from the plain tool but do the same work.

use std::collections::BTreeSet;

use agentproto_mock::variants::aoi::VARIANTS;
use serde_json::Value;

use crate::aoi::runner::Ground;

#[test]
fn each_variant_has_a_unique_name_and_works() {
    let mut names = BTreeSet::new();
    for variant in VARIANTS.iter() {
        assert!(names.insert(variant.name), "{}", variant.name);
        assert!(variant.description.ends_with('.'), "{}", variant.name);
        let ground = Ground::variant(variant.name);
        let flag = match variant.name {
            "format-flag" => "--format",
            _ => "--output",
        };
        let ran = ground.run(&["search", "x", flag, "jsonl"]);
        assert_eq!(ran.code(), Some(0), "{}: {}", variant.name, ran.text());
        let text = ran.text();
        let events: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(
            (of("aoi:meta"), of("hit"), of("aoi:summary")),
            (1, 20, 1),
            "{}",
            variant.name
        );
        assert_eq!(events.last().expect("a summary")["ok"], true);
        let schema = ground.run(&["schema", flag, "json"]);
        assert_eq!(schema.code(), Some(0), "{}", variant.name);
        let schema = schema.json();
        if variant.name != "schema-map" {
            let schema = jsonschema::validator_for(&schema).expect("a schema");
            for event in &events {
                assert!(schema.is_valid(event), "{}: {event}", variant.name);
            }
        }
        let made = ground.run(&["create", "a", flag, "jsonl"]);
        assert_eq!(made.code(), Some(0), "{}: {}", variant.name, made.text());
        let refused = ground.run(&["delete", "item-0001", flag, "jsonl"]);
        assert_eq!(refused.code(), Some(64), "{}", variant.name);
        let removed = ground.run(&["delete", "item-0001", "--confirm", flag, "jsonl"]);
        assert_eq!(removed.code(), Some(0), "{}", variant.name);
    }
    assert!(names.len() >= 14);
}

fn search(name: &str) -> String {
    Ground::variant(name).run(&["search", "x"]).text()
}

#[test]
fn each_variant_differs_from_the_others() {
    let plain = Ground::new();
    assert!(search("sorted-keys").starts_with("{\"aoi_version\""));
    assert!(
        search("reversed-keys")
            .lines()
            .all(|line| line.ends_with("\"}") && line.contains(",\"type\":"))
    );
    assert!(search("spaced").starts_with("{ \"type\" : \"aoi:meta\", "));
    assert!(search("escaped").starts_with("{\"\\u0074\\u0079\\u0070\\u0065\":"));
    assert!(search("unicode").contains("数据"));
    assert!(search("extra-fields").contains("x_build"));
    assert!(search("summary-text").contains("summary_text"));
    let minimal = search("minimal-summary");
    let last: Value = serde_json::from_str(minimal.lines().last().expect("a line")).expect("JSON");
    let fields: Vec<&String> = last.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["type", "ok", "truncated", "next_cursor"]);
    let one = Ground::variant("minimal-summary")
        .run(&["get", "doc-001"])
        .text();
    assert!(one.ends_with("{\"type\":\"aoi:summary\",\"ok\":true}\n"));
    assert!(!search("human-default").contains('{'));
    let wrong = Ground::variant("human-default").run(&["search"]);
    assert_eq!((wrong.code(), wrong.text().as_str()), (Some(64), ""));
    let wrong = Ground::variant("human-default").run(&["search", "--output", "jsonl"]);
    wrong.refused(64, "usage", "OPERAND_MISSING");
    let wrong = Ground::variant("format-flag").run(&["search", "x", "--output", "jsonl"]);
    assert_eq!(wrong.code(), Some(64));
    assert!(!Ground::variant("chatty").run(&["list"]).stderr.is_empty());
    let bare = Ground::variant("bare");
    for args in [
        vec!["search", "x", "--limit", "3"],
        vec!["search", "x", "--cursor", "p7"],
        vec!["create", "a", "--dry-run"],
        vec!["create", "a", "--idempotency-key=k"],
        vec!["purge"],
    ] {
        assert_eq!(bare.run(&args).code(), Some(64), "{args:?}");
    }
    let said = bare.run(&["capabilities"]).text();
    assert!(!said.contains("supports_") && !said.contains("purge"));
    let map = Ground::variant("schema-map").run(&["schema"]).json();
    for (kind, schema) in map.as_object().expect("a map") {
        jsonschema::meta::validate(schema).expect(kind);
    }
    let one = Ground::variant("one-version");
    assert_eq!(
        one.run(&["search", "x", "--schema-version", "1"]).code(),
        Some(64)
    );
    one.run(&["search", "x", "--schema-version", "2"]).ok();
    let versions = &one.run(&["capabilities"]).json()["schemas"][0]["versions"];
    assert_eq!(versions, &serde_json::json!(["2.0.0"]));
    for (name, code, signal) in [
        ("exit-120", Some(120), None),
        ("dies-of-a-closed-pipe", None, Some(13)),
    ] {
        use std::os::unix::process::ExitStatusExt;
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ground = Ground::variant(name);
        let output = ground
            .command(&["search", "x"])
            .stdout(writer)
            .output()
            .expect("it runs");
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal)
        );
        assert_eq!(output.stderr, b"");
    }
    // Like for the other mock agents, an environment variable can select the variant.
    let chosen = Ground::new()
        .env("MOCK_VARIANT", "sorted-keys")
        .run(&["list"])
        .text();
    assert!(chosen.starts_with("{\"aoi_version\""));
    let chosen = Ground::new()
        .env("MOCK_MUTANT", "aoi-03-no-summary")
        .run(&["list"])
        .text();
    assert!(!chosen.contains("aoi:summary"));
    assert_eq!(
        Ground::mutant("aoi-03-no-sumary").run(&["list"]).code(),
        Some(64)
    );
    plain.run(&["list"]).ok();
}
