//! The judge of tools is judged: every mutant of the mock tool once, and every conforming variant.
//! `tests/aoi/run` does it at full length, with twenty repeats of what lives on time.
#![cfg(target_os = "linux")]

use std::time::Duration;

use agentproto::aoi::rules;
use agentproto::mock::mutants::aoi::all;
use agentproto::mock::variants::aoi::VARIANTS;
use serde_json::Value;

/// Only against one that hangs.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn every_mutant_breaks_a_rule_that_there_is() {
    let known = |rule: &str| rules::all().any(|known| known.id == rule);
    let wrong: Vec<String> = all()
        .filter(|mutant| !known(mutant.rule))
        .map(|mutant| format!("{}: there is no rule {}", mutant.id, mutant.rule))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
#[ignore = "minutes; `cargo test --test aoi_selftest -- --ignored`"]
fn the_judge_is_sound() {
    let run = assert_cmd::Command::cargo_bin("agentproto")
        .expect("a binary")
        .args(["mock", "aoi", "--selftest", "--quick", "--output", "json"])
        .timeout(LIMIT)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&run.stdout);
    let told: Value = serde_json::from_str(&text).unwrap_or_else(|e| {
        let stderr = String::from_utf8_lossy(&run.stderr);
        panic!("{e}: {:?}\n{text}\n{stderr}", run.status)
    });
    let rows = |key: &str| told[key].as_array().cloned().unwrap_or_default();
    let survived: Vec<Value> = rows("mutants")
        .into_iter()
        .filter(|row| row["killed"] == false)
        .collect();
    assert!(survived.is_empty(), "{survived:#?}");
    let strayed: Vec<Value> = rows("mutants")
        .into_iter()
        .filter(|row| row["attributed"] == false)
        .collect();
    let all = all().count();
    assert_eq!(rows("mutants").len(), all);
    assert!(strayed.len() * 50 <= all, "{strayed:#?}");
    let unnamed: Vec<Value> = rows("mutants")
        .into_iter()
        .filter(|row| row["named"] == false)
        .collect();
    assert!(unnamed.is_empty(), "caught by other rules: {unnamed:#?}");
    let blamed: Vec<Value> = rows("variants")
        .into_iter()
        .filter(|row| row["blamed"] != Value::Array(Vec::new()) || row["proven"] == 0)
        .collect();
    assert!(blamed.is_empty(), "{blamed:#?}");
    // And the plain tool.
    assert_eq!(rows("variants").len(), VARIANTS.len() + 1);
    assert_eq!(told["summary"]["flakes"], 0, "{:#}", told["summary"]);
    assert_eq!(run.status.code(), Some(0));
}
