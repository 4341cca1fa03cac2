//! The test build of the binary checks every output line against the declaration of its command: an
//! event with another type or shape ends it with exit code 70.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::machine_mode::{Place, fixtures};

/// The event types that `capabilities` declares for a command.
fn declared(place: &Place, command: &str) -> BTreeSet<String> {
    let said = place.run(&["capabilities", "--output", "json"], "");
    let said: Value = serde_json::from_str(&said.out).expect("JSON");
    let commands = said["commands"].as_array().expect("commands");
    let entry = commands.iter().find(|entry| entry["name"] == command);
    let types = entry.unwrap_or_else(|| panic!("no {command}"))["event_types"].as_array();
    let types = types.expect("types").iter();
    types
        .map(|kind| kind.as_str().expect("a text").to_owned())
        .collect()
}

/// AOI-17-01: events that the probe file does not cover.
#[test]
fn rare_events_match_their_declaration() {
    let place = Place::new();
    let talk = fixtures().join("records/talk.jsonl");
    let talk = talk.to_str().expect("UTF-8");
    let selftest = ["--selftest", "--quick", "--only"];
    let conforming = "conforming";
    let of_pipes = "aoi-10-pipe-message";
    for (command, words, kind) in [
        ("rules", &["rules", "--kind", "aoi"][..], "aoi-rule"),
        ("explain", &["explain", "AOI-02.prose"], "doc"),
        ("replay", &["replay", talk, "--judge"], "result"),
        (
            "aoi-lint",
            &[&["aoi-lint"], &selftest[..], &[of_pipes]].concat(),
            "aoi-mutant",
        ),
        (
            "mock",
            &[&["mock", "aoi"], &selftest[..], &[conforming]].concat(),
            "aoi-variant",
        ),
    ] {
        let ran = place.run(&[words, &["--output", "jsonl"]].concat(), "");
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
        ran.summary();
        let events = ran.events();
        assert_eq!(events[0]["command"], command);
        let seen: BTreeSet<String> = events
            .iter()
            .map(|event| event["type"].as_str().expect("a type").to_owned())
            .collect();
        assert!(seen.contains(kind), "{command}: {seen:?}");
        let declared = declared(&place, command);
        assert!(declared.is_superset(&seen), "{command}: {seen:?}");
    }
}
