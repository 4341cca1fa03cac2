//! The AOI checks against a sample of the mock tool's mutants and conforming variants.
//! `tests/selftest/run` runs all of them, and repeats the time-dependent ones twenty times.

use std::time::Duration;

use agentproto_aoi::rules;
use agentproto_mock::mutants::aoi::{AoiMutant, all};
use agentproto_mock::variants::aoi::VARIANTS;
use serde_json::Value;

/// Time limit that only a hang reaches.
const LIMIT: Duration = Duration::from_secs(1800);

#[test]
fn every_mutant_breaks_a_known_rule() {
    let known = |rule: &str| rules::all().any(|known| known.id == rule);
    let wrong: Vec<String> = all()
        .filter(|mutant| !known(mutant.requirement))
        .map(|mutant| format!("{}: unknown rule {}", mutant.id, mutant.requirement))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One mutant of every check and some variants. `None` means all of them, with the repeats.
fn sample() -> Option<Vec<&'static str>> {
    if crate::is_full_depth() {
        return None;
    }
    let mut mutants: Vec<_> = all().collect();
    mutants.sort_by_key(|mutant| mutant.requirement);
    let check = |mutant: &AoiMutant| mutant.requirement.split('.').next();
    let checks = mutants.chunk_by(|one, next| check(one) == check(next));
    let mutants = checks.filter_map(|of_check| of_check.first());
    let variants = VARIANTS.iter().step_by(9).map(|variant| variant.name);
    Some(mutants.map(|mutant| mutant.id).chain(variants).collect())
}

/// The report of the self-test, and its exit code.
fn selftest(sample: Option<&[&str]>) -> (Value, Option<i32>) {
    let only = sample.map(|ids| ids.join(","));
    let run = assert_cmd::Command::cargo_bin("agentproto")
        .expect("a binary")
        .args(["mock", "aoi", "--selftest", "--quick", "--output", "json"])
        .args(only.iter().flat_map(|only| ["--only", only.as_str()]))
        .timeout(LIMIT)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&run.stdout);
    let report = serde_json::from_str(&text).unwrap_or_else(|e| {
        let stderr = String::from_utf8_lossy(&run.stderr);
        panic!("{e}: {:?}\n{text}\n{stderr}", run.status)
    });
    (report, run.status.code())
}

#[test]
fn the_self_test_passes() {
    let sample = sample();
    let (report, code) = selftest(sample.as_deref());
    let rows = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let survived: Vec<Value> = rows("mutants")
        .into_iter()
        .filter(|row| row["killed"] == false)
        .collect();
    assert!(survived.is_empty(), "{survived:#?}");
    let strayed: Vec<Value> = rows("mutants")
        .into_iter()
        .filter(|row| row["attributed"] == false)
        .collect();
    let all = rows("mutants").len();
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
    assert_eq!(rows("flaky"), [] as [Value; 0]);
    assert_eq!(report["summary"]["flakes"], 0, "{:#}", report["summary"]);
    assert_eq!(code, Some(0));
    if let Some(sample) = sample {
        let shown = rows("mutants").len() + rows("variants").len();
        assert!(shown >= sample.len(), "{shown} of {}", sample.len());
        return;
    }
    assert_eq!(all, agentproto_mock::mutants::aoi::all().count());
    assert!(all >= 150 && VARIANTS.len() >= 8);
    // Plus the tool itself.
    assert_eq!(rows("variants").len(), VARIANTS.len() + 1);
    assert_eq!(report["summary"]["repeats"], 20);
}
