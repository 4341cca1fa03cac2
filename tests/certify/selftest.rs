use serde_json::Value;

use crate::certify;

/// Every mutant is caught with its own statement, and no conforming variant is blamed.
#[test]
fn the_judge_is_sound() {
    let output = certify(&["--selftest", "--quick", "--output", "json"])
        .output()
        .unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
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
