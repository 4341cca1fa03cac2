//! Every output format, for people and programs.

use agentproto_aoi::model::{PairState, Report, Verdict};
use agentproto_aoi::render::{Format, RenderOptions, badge, baseline, render, write_all};
use agentproto_text::is_hidden;
use serde_json::Value;

use crate::aoi_lint::{assert_valid, events, sample, schema};

fn print(format: Format, report: &Report) -> String {
    print_with(format, report, &RenderOptions::default())
}

fn print_with(format: Format, report: &Report, options: &RenderOptions) -> String {
    let mut out = Vec::new();
    render(format, report, options, &mut out).expect("rendered");
    String::from_utf8(out).expect("UTF-8")
}

fn samples() -> Vec<Report> {
    let mut all = vec![sample::mixed(), sample::proven(), sample::of(Vec::new())];
    all.extend(sample::ATTACKS.map(sample::hostile));
    all
}

#[test]
fn human_snapshot() {
    insta::assert_snapshot!("human", print(Format::Human, &sample::mixed()));
    let narrow = RenderOptions {
        color: true,
        unicode: false,
        width: 60,
        ..RenderOptions::default()
    };
    let text = print_with(Format::Human, &sample::mixed(), &narrow);
    assert!(text.is_ascii() || !text.contains(['✓', '✗', '–']), "{text}");
    insta::assert_snapshot!("markdown", print(Format::Markdown, &sample::mixed()));
}

#[test]
fn the_report_ends_with_the_number_of_pairs() {
    let text = print(Format::Human, &sample::mixed());
    let mut last = text.lines().rev();
    let timing = last.next().expect("a line");
    assert!(timing.contains(" runs in "), "{timing}");
    assert_eq!(
        last.next(),
        Some("Of 6 properties: 2 proven, 2 failing, 2 not verified")
    );
    let known = "2 new failures, 1 already in the baseline";
    assert_eq!(last.next(), Some(known));
    // Without a probe file, the report says so and how to create one, and there is no baseline.
    let mut report = sample::mixed();
    report.target.probe_file = None;
    report.checks.iter_mut().for_each(|row| row.known = false);
    let text = print(Format::Human, &report);
    assert!(text.contains("agentproto aoi-lint init"), "{text}");
    assert!(!text.contains("already in the baseline"), "{text}");
}

#[test]
fn json_round_trips() {
    let validator = schema("aoi-report.schema.json");
    for report in samples() {
        let text = print(Format::Json, &report);
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text}");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_valid(&validator, &value);
        let back: Report = serde_json::from_value(value).expect("a report");
        assert_eq!(back, report);
    }
    let good = serde_json::to_value(sample::mixed()).expect("JSON");
    for (pointer, value) in [
        ("/schema", Value::from("agentproto.certify/v1")),
        ("/checks/0/verdict", Value::from("passed")),
        ("/checks/0/rule", Value::from("AOI-1.x")),
        ("/checks/0/check", Value::from(14)),
        ("/matrix/search/Typed", Value::from("proven")),
        ("/summary/pass", Value::from(-1)),
    ] {
        let mut report = good.clone();
        *report.pointer_mut(pointer).expect(pointer) = value;
        assert!(!validator.is_valid(&report), "{pointer}");
    }
}

#[test]
fn every_event_matches_its_schema() {
    let validator = schema("events.schema.json");
    for report in samples() {
        let events = events(&print(Format::Jsonl, &report));
        for event in &events {
            assert_valid(&validator, event);
        }
        let summary = events.last().expect("a summary");
        assert_eq!(summary["type"], "aoi:summary");
        assert_eq!(summary["count"], events.len() - 2);
        let bad = events
            .iter()
            .filter(|e| e["type"] == "aoi:check" && e["ok"] == false);
        assert_eq!(summary["error_count"], bad.count());
        assert_eq!(summary["warning_count"], 0, "no aoi:warning is emitted");
    }
    let events = events(&print(Format::Jsonl, &sample::mixed()));
    let of = |rule: &str| {
        let mut all = events.iter().filter(|e| e["rule"] == rule);
        all.next().expect("a check").clone()
    };
    // `ok` is false only for failures; `verdict` has the details.
    assert_eq!(of("AOI-06.refuses")["ok"], true);
    assert_eq!(of("AOI-06.refuses")["verdict"], "skip");
    let failed = of("AOI-03.summary-last");
    assert_eq!(
        (&failed["ok"], &failed["check"]),
        (&Value::from(false), &Value::from(3))
    );
    assert_eq!(failed["characteristic"][0], "Verifiable");
    assert_eq!(failed["evidence"]["argv_redacted"][1], "search");
    assert_eq!(of("AOI-adv.help")["check"], "advisory");
    let cut = {
        let mut report = sample::proven();
        report.mark_interrupted();
        report
    };
    let last = crate::aoi_lint::events(&print(Format::Jsonl, &cut))
        .pop()
        .expect("a summary");
    assert_eq!(last["ok"], false);
    assert_eq!(last["reason"], "interrupted");
}

#[test]
fn junit_counts_failures() {
    let xml = print(Format::Junit, &sample::mixed());
    let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
    assert_eq!((parsed.tests, parsed.failures, parsed.errors), (9, 1, 1));
    assert!(xml.contains("already in the baseline"), "{xml}");
    for report in samples() {
        let xml = print(Format::Junit, &report);
        let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
        assert_eq!(parsed.tests, report.checks.len());
    }
}

#[test]
fn sarif_points_to_the_command_and_its_line() {
    for report in samples() {
        let log: Value = serde_json::from_str(&print(Format::Sarif, &report)).expect("JSON");
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
        for result in run["results"].as_array().expect("results") {
            let index = usize::try_from(result["ruleIndex"].as_u64().expect("an index"));
            assert_eq!(rules[index.expect("small")]["id"], result["ruleId"]);
            assert!(!result["message"]["text"].as_str().expect("text").is_empty());
        }
    }
    let log: Value = serde_json::from_str(&print(Format::Sarif, &sample::mixed())).expect("JSON");
    let results = log["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 3);
    let of = |id: &str| {
        results
            .iter()
            .find(|r| r["ruleId"] == id)
            .expect("a result")
    };
    let failed = of("AOI-03.summary-last");
    let place = &failed["locations"][0];
    assert_eq!(place["logicalLocations"][0]["name"], "search");
    assert_eq!(place["physicalLocation"]["region"]["startLine"], 15);
    let uri = &place["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "aoi%20probe.yaml");
    assert_eq!(of("AOI-02.type")["suppressions"][0]["kind"], "external");
    assert_eq!(of("AOI-adv.help")["level"], "warning");
    let notes = &log["runs"][0]["invocations"][0]["toolExecutionNotifications"];
    assert_eq!(notes.as_array().map(Vec::len), Some(1));
}

#[test]
fn control_characters_and_markup_are_escaped() {
    for report in samples() {
        for format in [
            Format::Human,
            Format::Markdown,
            Format::Junit,
            Format::Sarif,
        ] {
            let text = print(format, &report);
            assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text}");
        }
        // Markup inside a code fence is plain text, so only the parts outside fences are checked.
        let page = print(Format::Markdown, &report);
        for part in page.split("\n```").step_by(2) {
            assert!(!part.contains("<script"), "{part}");
        }
    }
}

#[test]
fn a_badge_needs_a_complete_run() {
    let report = sample::proven();
    let made = badge::badge(&report).expect("a badge");
    assert_eq!(
        (&*made.label, &*made.message),
        ("AOI-CLI 0.2", "2/2 pairs proven")
    );
    let svg = print(Format::Badge, &report);
    for part in [
        "outline 1.8.2",
        "2026-11-16",
        "agentproto 0.1.0",
        "report sha256 ",
    ] {
        assert!(svg.contains(part), "{part}\n{svg}");
    }
    let shields: Value = serde_json::from_str(&print(Format::BadgeJson, &report)).expect("JSON");
    assert_eq!(shields["message"], "2/2 pairs proven");
    let mixed = badge::badge(&sample::mixed()).expect("a badge");
    assert_eq!(mixed.message, "2/6 pairs proven");
    for mut nothing in [sample::of(Vec::new()), sample::proven()] {
        nothing.mark_interrupted();
        assert!(badge::badge(&nothing).is_none());
        let options = RenderOptions::default();
        assert!(render(Format::Badge, &nothing, &options, &mut Vec::new()).is_err());
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("badge.svg"), "old").expect("written");
        write_all(&nothing, dir.path(), &options).expect("written");
        assert!(
            !dir.path().join("badge.svg").exists(),
            "the old badge is removed"
        );
        assert!(dir.path().join("report.json").exists());
    }
}

#[test]
fn a_baseline_hides_known_failures() {
    let before = sample::mixed();
    let mut same = sample::mixed();
    baseline::apply(&mut same, &before);
    assert!(!same.has_new_failures() && !same.has_new_warnings());
    // A warning that became a failure is new.
    let mut worse = sample::mixed();
    let row = worse
        .checks
        .iter_mut()
        .find(|r| r.verdict == Verdict::Warn)
        .expect("a warning");
    row.verdict = Verdict::Fail;
    baseline::apply(&mut worse, &before);
    assert!(worse.has_new_failures());
    // A rule that passes now is fixed. A rule that was skipped is not.
    let mut better = sample::mixed();
    for row in &mut better.checks {
        match row.verdict {
            Verdict::Fail => row.verdict = Verdict::Pass,
            Verdict::Warn => row.verdict = Verdict::Skip,
            _ => {}
        }
    }
    let fixed = baseline::apply(&mut better, &before);
    let fixed: Vec<&str> = fixed.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(fixed, ["AOI-02.type", "AOI-03.summary-last"]);
    assert!(!baseline::new_unproven(&before, Some(&before)));
    assert!(baseline::new_unproven(&before, None));
    assert!(
        before
            .matrix
            .values()
            .flat_map(|r| r.values())
            .any(|p| *p == PairState::Unproven)
    );
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for &format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
        render(
            format,
            &sample::proven(),
            &RenderOptions::default(),
            &mut Closed,
        )
        .expect("a clean stop");
    }
}
