use std::path::Path;

use serde_json::Value;

use crate::certify;

fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let text = std::fs::read_to_string(path.join(name)).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, value: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}\n{value:#}", errors.join("\n"));
}

/// A mutant of one mock and a variant of another.
const FEW: &str = "mcp-stdio-log-line,other-name";

fn few(output: &str) -> String {
    let args = ["--selftest", "--quick", "--only", FEW, "--output", output];
    let output = certify(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_report_is_as_its_schema_says() {
    let validator = schema("selftest.schema.json");
    let good: Value = serde_json::from_str(&few("json")).unwrap();
    assert_valid(&validator, &good);
    let count = |key: &str| good[key].as_array().unwrap().len();
    // The scenario that the mutant is compared with is a variant, too.
    assert_eq!((count("mutants"), count("variants")), (1, 2));
    for (pointer, wrong) in [
        ("/schema", Value::from("agentproto.certify/v1")),
        ("/mutants/0/killed", Value::from(false)),
        ("/mutants/0/mock", Value::from("abacus")),
        ("/variants/0/passed", Value::from(-1)),
        ("/variants/0/blamed", Value::Null),
        ("/summary/partial", Value::Null),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}

#[test]
fn its_events_are_as_their_schema_says() {
    let validator = schema("events.schema.json");
    let text = few("jsonl");
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<Value> = events.collect();
    for event in &events {
        assert_valid(&validator, event);
    }
    let kinds = events.iter().map(|e| e["type"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    let wanted = ["aoi:meta", "mutant", "variant", "variant", "aoi:summary"];
    assert_eq!(kinds, wanted);
    let mut half = events[1].clone();
    half.as_object_mut().unwrap().remove("killed");
    assert!(!validator.is_valid(&half), "{half}");
}

#[test]
fn a_selection_of_nothing_is_told() {
    let args = ["--selftest", "--only", "no-such-mutant"];
    let output = certify(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}

/// Every mutant is caught with its own statement, and no conforming variant is blamed.
#[test]
fn the_judge_is_sound() {
    let output = certify(&["--selftest", "--quick", "--output", "json"])
        .output()
        .unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid(&schema("selftest.schema.json"), &outcome);
    let mutants = outcome["mutants"].as_array().unwrap();
    let survivors: Vec<&Value> = mutants.iter().filter(|m| m["attributed"] != true).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
    let variants = outcome["variants"].as_array().unwrap();
    let blamed: Vec<&Value> = variants
        .iter()
        .filter(|v| v["blamed"].as_array().is_none_or(|b| !b.is_empty()) || v["passed"] == 0)
        .collect();
    assert!(blamed.is_empty(), "{blamed:#?}");
    let of = |mock: &str| mutants.iter().filter(|m| m["mock"] == mock).count();
    assert!(of("acp") >= 120, "{}", of("acp"));
    assert!(of("mcp") >= 30, "{}", of("mcp"));
    assert!(of("lifecycle") >= 20, "{}", of("lifecycle"));
    assert!(variants.len() >= 20, "{}", variants.len());
    assert_eq!(output.status.code(), Some(0));
}
