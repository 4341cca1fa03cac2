//! Profiles: which requirements decide, and the results under the ids of the official kit.

use std::collections::BTreeMap;

use agentproto_harness::tck;
use serde_json::Value;

use crate::certify::{run, verdicts};

/// A run of one requirement on a mock with a defect.
fn with_defect(mutant: &str, args: &[&str]) -> (Option<i32>, Value) {
    let env = format!("MOCK_MUTANT={mutant}");
    let fixed = ["--mock", "acp", "--timeout", "10", "--env", &env];
    let (output, report) = run(&[&fixed[..], args].concat());
    (output.status.code(), report)
}

#[test]
fn a_strict_requirement_fails_only_in_the_strict_profile() {
    let only = ["--only", "TR-13"];
    let (code, report) = with_defect("acp-tr-13-silent", &only);
    assert_eq!(
        code,
        Some(1),
        "the default for selected requirements is strict"
    );
    assert_eq!(report["profile"], "strict");
    assert!(verdicts(&report, "TR-13").contains(&"fail"));
    assert!(report["summary"].get("strict").is_none());

    let (code, report) = with_defect(
        "acp-tr-13-silent",
        &["--only", "TR-13", "--profile", "core"],
    );
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["profile"], "core");
    assert!(verdicts(&report, "TR-13").contains(&"warn"));
    assert_eq!(report["summary"]["strict"]["certified"], false);
    let strict = report["summary"]["strict"]["requirements"].as_array();
    assert_eq!(strict.expect("a list"), &[Value::from("TR-13")]);
    let rows = report["results"].as_array().expect("rows");
    let row = rows
        .iter()
        .find(|row| row["verdict"] == "warn")
        .expect("a warning");
    assert_eq!(row["profile"], "strict");
    assert_eq!(row["strict_verdict"], "fail");
    assert_eq!(row["basis"]["binding"], "json-rpc");
}

#[test]
fn a_core_requirement_fails_in_every_profile() {
    for profile in ["core", "strict", "tck"] {
        let only = ["--only", "SE-01", "--profile", profile];
        let (code, report) = with_defect("acp-se-01-number-id", &only);
        assert_eq!(code, Some(1), "{profile}");
        assert!(verdicts(&report, "SE-01").contains(&"fail"), "{profile}");
    }
}

/// The verdicts of the kit's requirements in a run with the profile `tck`.
fn kit(args: &[&str]) -> BTreeMap<String, String> {
    let (_, report) = run(&[args, &["--timeout", "10", "--profile", "tck"]].concat());
    let results = report["tck"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    results
        .map(|result| (text(&result["id"]), text(&result["verdict"])))
        .collect()
}

#[test]
fn the_profile_tck_lists_every_requirement_of_the_kit() {
    let results = kit(&["--mock", "acp", "--only", "SE-01"]);
    assert_eq!(results.len(), tck::requirements("acp").count());
    assert_eq!(results["ACP-SESSION-001"], "pass");
    // Nothing that was selected decides it, and nothing here checks the last one.
    assert_eq!(results["ACP-CANCEL-001"], "skip");
    assert_eq!(results["ACP-STDERR-001"], "not_verified");
}

/// Our mocks meet everything that the kit demands, unless the kit contradicts the current text.
#[test]
fn the_mocks_conform_to_the_kit() {
    let scenarios = ["MOCK_SCENARIO=rich", "MOCK_SCENARIO=auth"];
    for (mock, suite, more) in [
        ("acp", "acp", &scenarios[..]),
        (
            "acp-v2",
            "acp-v2-draft",
            &[&scenarios[..], &["MOCK_VARIANT=tells-settings"]].concat()[..],
        ),
    ] {
        let mut results = kit(&["--mock", mock]);
        for env in more {
            for (id, verdict) in kit(&["--mock", mock, "--env", env]) {
                let known = results.entry(id).or_default();
                if verdict == "fail" || known == "skip" {
                    *known = verdict;
                }
            }
        }
        for kit in tck::requirements(suite).filter(|kit| kit.tier.decides()) {
            let id = kit.text.id;
            let is_decided = kit.text.ours().next().is_some();
            let wrong = matches!(kit.agreement, tck::Agreement::Contrary);
            let expected = match is_decided {
                true => "pass",
                false => "not_verified",
            };
            assert!(wrong || results[id] == expected, "{id}: {}", results[id]);
        }
    }
}
