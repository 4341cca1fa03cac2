//! Shards and baselines.

use agentproto_harness::model::{CaseResult, Level, Report, Timing, Verdict};
use agentproto_harness::render::{MergeError, arrange, baseline, merge};

use crate::certify_reports::sample;

/// A whole run with cases and monitors, and the same run split into `n` shards.
fn run_in(n: usize) -> (Report, Vec<Report>) {
    let mut whole = sample::vendor();
    whole.results.iter_mut().for_each(|r| r.known = false);
    whole.summarize();
    let mut cases: Vec<&str> = whole.results.iter().map(|r| r.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    cases.retain(|case| *case != "monitor");
    let shards = (1..=n)
        .map(|i| {
            let mut shard = whole.clone();
            shard.shard = Some(format!("{i}/{n}"));
            shard.results.retain_mut(|row| {
                if row.case == "monitor" {
                    row.duration_ms /= n as f64;
                    // Only the first shard sees the failures of the monitors.
                    if i != 1 && row.verdict == Verdict::Fail {
                        row.verdict = Verdict::Pass;
                        row.message = "nothing wrong here".to_owned();
                        row.evidence.clear();
                    }
                    return true;
                }
                let at = cases.iter().position(|c| *c == row.case).expect("a case");
                at % n == i - 1
            });
            let part = |ms: f64| ms / n as f64;
            shard.timing = Timing {
                wall_ms: part(whole.timing.wall_ms),
                startup_ms: part(whole.timing.startup_ms),
                waits_ms: part(whole.timing.waits_ms),
                agent_ms: part(whole.timing.agent_ms),
                processes: if i == 1 { whole.timing.processes } else { 0 },
                jobs: 2,
                repeated: 0,
            };
            shard.summarize();
            shard
        })
        .collect();
    (whole, shards)
}

#[test]
fn shards_merge_in_any_order() {
    for n in [1, 2, 4] {
        let (whole, mut shards) = run_in(n);
        assert!(shards.iter().all(|s| !s.summary.certified));
        assert_eq!(merge(shards.clone()).as_ref(), Ok(&whole), "{n} shards");
        shards.reverse();
        assert_eq!(merge(shards).as_ref(), Ok(&whole), "{n} shards, reversed");
    }
}

#[test]
fn a_merged_run_without_failures_is_certified() {
    let (_, mut shards) = run_in(2);
    for shard in &mut shards {
        shard.results.retain(|r| r.verdict == Verdict::Pass);
        shard.summarize();
        assert!(
            !shard.summary.certified,
            "a single shard must not be certified"
        );
    }
    let merged = merge(shards.clone()).expect("merged");
    assert!(merged.summary.certified && !merged.partial);
    shards[1].partial = true;
    let merged = merge(shards).expect("merged");
    assert!(!merged.summary.certified && merged.partial);
}

#[test]
fn monitors_merge_to_the_worst_verdict() {
    use Verdict::*;
    let order = [Fail, Error, Warn, Pass, NotVerified, Skip, NotApplicable];
    for (i, worse) in order.into_iter().enumerate() {
        for better in order.into_iter().skip(i) {
            let shard = |verdict, name: &str| Report {
                shard: Some(name.to_owned()),
                results: vec![sample::row("monitor", "TR-01", "T", Level::Must, verdict)],
                ..sample::empty()
            };
            for pair in [(worse, better), (better, worse)] {
                let merged = merge(vec![shard(pair.0, "1/2"), shard(pair.1, "2/2")]);
                let rows = merged.expect("merged").results;
                let verdicts: Vec<_> = rows.iter().map(|r| r.verdict).collect();
                assert_eq!(verdicts, [worse], "{pair:?}");
            }
        }
    }
}

#[test]
fn mismatched_shards_are_refused() {
    type Change = fn(&mut Vec<Report>);
    let cases: [(Change, &str); 12] = [
        (Vec::clear, "no reports to merge"),
        (|r| r[1].shard = None, "report 2 is from a whole run"),
        (
            |r| r[1].shard = Some("0/3".into()),
            "has the invalid shard `0/3`",
        ),
        (
            |r| r[1].shard = Some("4/3".into()),
            "has the invalid shard `4/3`",
        ),
        (|r| r[1].shard = Some("\u{1b}x".into()), r"shard `\u{1b}x`"),
        (
            |r| r[2].shard = Some("3/4".into()),
            "report 3 is one of 4 shards, but the first report is one of 3",
        ),
        (
            |r| r[2].shard = Some("1/3".into()),
            "duplicate shard 1: reports 1 and 3",
        ),
        (|r| drop(r.remove(1)), "missing shards (of 3): 2"),
        (
            |r| r[1].tool.version = "9".into(),
            "report 2 has a different tool version than the first report: `agentproto 9`",
        ),
        (
            |r| r[1].target.name = "other".into(),
            "different target than the first report: `other`, not `hermes",
        ),
        (
            |r| r[1].suites[0].name = "mcp".into(),
            "different set of suites",
        ),
        (
            |r| r[1].target.info["version"] = "3".into(),
            "different agent",
        ),
    ];
    for (change, rows_with_texts) in cases {
        let (_, mut shards) = run_in(3);
        change(&mut shards);
        let error = merge(shards).expect_err(rows_with_texts).to_string();
        assert!(error.contains(rows_with_texts), "{error}");
    }
    let (_, mut shards) = run_in(2);
    let doubled = shards[0].results.iter().find(|r| r.case != "monitor");
    let doubled = doubled.expect("a row").clone();
    shards[1].results.push(doubled);
    assert!(matches!(
        merge(shards),
        Err(MergeError::DuplicateCase { .. })
    ));
}

#[test]
fn a_shard_without_agent_info_can_be_merged() {
    let (whole, mut shards) = run_in(2);
    shards[0].target.info = serde_json::Value::Null;
    shards[0].target.protocol_version = serde_json::Value::Null;
    let merged = merge(shards).expect("merged");
    assert_eq!(merged.target, whole.target);
}

#[test]
fn a_baseline_marks_known_and_fixed_failures() {
    let before = sample::vendor();
    let mut now = before.clone();
    now.results.iter_mut().for_each(|r| r.known = false);
    let set = |report: &mut Report, id: &str, verdict| {
        let row = |r: &&mut CaseResult| r.requirement == id;
        let found = report.results.iter_mut().find(row).expect("a row");
        found.verdict = verdict;
    };
    set(&mut now, "TR-08", Verdict::Pass);
    set(&mut now, "PT-11", Verdict::Skip);
    set(&mut now, "EX-01", Verdict::Fail);
    let fixed = baseline::apply(&mut now, &before);
    let ids: Vec<_> = fixed.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["TR-08"], "a row without a verdict is not fixed");
    let known: Vec<_> = now.results.iter().filter(|r| r.known).collect();
    let known: Vec<_> = known.iter().map(|r| r.requirement.as_str()).collect();
    assert_eq!(known, ["TR-03", "SE-30"]);
    assert!(now.has_new_failures(), "EX-01 is new");
    assert!(!now.summary.certified);

    let mut same = before.clone();
    assert_eq!(baseline::apply(&mut same, &before), []);
    assert!(!same.has_new_failures());
    assert!(
        !same.summary.certified,
        "known failures still prevent a certificate"
    );
}

#[test]
fn a_failure_of_another_case_is_not_known() {
    let before = sample::vendor();
    let mut now = before.clone();
    let row = |r: &&mut CaseResult| r.requirement == "TR-08" && r.verdict == Verdict::Fail;
    let row = now.results.iter_mut().find(row).expect("a row");
    row.case = "another".to_owned();
    baseline::apply(&mut now, &before);
    assert!(now.has_new_failures());
}

#[test]
fn sorting_is_stable_and_keeps_sections_together() {
    let mut report = sample::vendor();
    let before = report.clone();
    arrange(&mut report);
    assert_eq!(report, before);
    report.results.swap(30, 31);
    arrange(&mut report);
    assert_eq!(report, before);
}
