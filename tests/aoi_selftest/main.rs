//! The judge of tools is judged: every mutant of the mock tool once, every conforming variant, and
//! twenty repeats of what lives on time. `tests/aoi/run` does it at full length.
#![cfg(target_os = "linux")]

use std::time::Duration;

use agentproto_aoi::rules;
use agentproto_mock::mutants::aoi::all;
use agentproto_mock::variants::aoi::VARIANTS;
use serde_json::Value;

/// Only against one that hangs.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn every_mutant_breaks_a_rule_that_there_is() {
    let known = |rule: &str| rules::all().any(|known| known.id == rule);
    let wrong: Vec<String> = all()
        .filter(|mutant| !known(mutant.requirement))
        .map(|mutant| format!("{}: there is no rule {}", mutant.id, mutant.requirement))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the selftest tells, and its exit code.
fn selftest() -> (Value, Option<i32>) {
    let run = assert_cmd::Command::cargo_bin("agentproto")
        .expect("a binary")
        .args(["mock", "aoi", "--selftest", "--quick", "--output", "json"])
        .timeout(LIMIT)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&run.stdout);
    let told = serde_json::from_str(&text).unwrap_or_else(|e| {
        let stderr = String::from_utf8_lossy(&run.stderr);
        panic!("{e}: {:?}\n{text}\n{stderr}", run.status)
    });
    (told, run.status.code())
}

#[test]
fn the_judge_is_sound() {
    let (told, code) = selftest();
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
    assert!(all >= 150 && VARIANTS.len() >= 8);
    let of_check = |number: u64| rows("mutants").iter().any(|row| row["check"] == number);
    for number in 1..=13 {
        assert!(of_check(number), "no mutant of check {number}");
    }
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
    assert_eq!(rows("flaky"), [] as [Value; 0]);
    assert_eq!(told["summary"]["flakes"], 0, "{:#}", told["summary"]);
    assert_eq!(told["summary"]["repeats"], 20);
    assert_eq!(code, Some(0));
}
