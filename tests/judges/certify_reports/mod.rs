//! Every output format of a certification report, for people and programs.
//!
//! `INSTA_UPDATE=always cargo test --test judges certify_reports` updates the snapshots.

mod commands;
mod formats;
mod merging;
mod sample;

use std::path::PathBuf;

use agentproto_harness::model::{RECORDING, Refusal, Report, Verdict};
use agentproto_harness::render::{Format, RenderOptions, render};
use agentproto_text::is_hidden;
use serde_json::Value;

fn print(format: Format, report: &Report) -> String {
    print_with(format, report, &RenderOptions::default())
}

fn print_with(format: Format, report: &Report, options: &RenderOptions) -> String {
    let mut out = Vec::new();
    render(format, report, options, &mut out).expect("rendered");
    String::from_utf8(out).expect("UTF-8")
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let text = std::fs::read_to_string(path.join(name)).expect("a schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
    jsonschema::validator_for(&schema).expect("a JSON Schema")
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, value: &Value) {
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}\n{value:#}", errors.join("\n"));
}

fn samples() -> Vec<Report> {
    let hostile = sample::ATTACKS.map(sample::hostile);
    let mut all = vec![sample::vendor(), sample::clean(), sample::empty()];
    all.extend(hostile);
    all
}

fn events(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn the_sample_has_every_verdict_and_300_rows() {
    let report = sample::vendor();
    assert_eq!(report.results.len(), 300);
    for verdict in Verdict::ALL {
        assert!(report.results.iter().any(|r| r.verdict == verdict));
    }
}

#[test]
fn human_snapshot() {
    insta::assert_snapshot!("human", print(Format::Human, &sample::vendor()));
    let narrow = RenderOptions {
        color: true,
        unicode: false,
        width: 50,
        ..RenderOptions::default()
    };
    let mut few = sample::vendor();
    few.results.retain(|r| r.verdict != Verdict::Pass);
    insta::assert_snapshot!("human_narrow", print_with(Format::Human, &few, &narrow));
}

#[test]
fn a_certificate_comes_first_in_the_report() {
    let text = print(Format::Human, &sample::clean());
    assert!(text.starts_with("CERTIFIED\n"), "{text}");
    assert!(!text.contains("FAIL") && !text.contains("SKIP"), "{text}");
    assert!(
        text.ends_with("4.2 s, 41 agent processes, up to 2 in parallel\n"),
        "{text}"
    );
}

/// The first line of a report without failures, after a change.
fn headline(change: impl FnOnce(&mut Report)) -> String {
    let mut report = sample::clean();
    change(&mut report);
    report.summarize();
    let text = print(Format::Human, &report);
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_part_of_a_run_passes_but_is_not_certified() {
    let all = sample::clean().results.len();
    let passed = |why: &str| format!("PASSED: {all} of {all} rows (no certificate: {why})");
    let selection = headline(|report| report.selection = true);
    assert_eq!(selection, passed("only some of the cases were run"));
    let shard = headline(|report| report.shard = Some("1/2".to_owned()));
    let why = "this is one shard of a run; `agentproto report merge` merges all shards";
    assert_eq!(shard, passed(why));
    let recording = headline(|report| report.target.kind = RECORDING.to_owned());
    let why = "this is a recording; run `agentproto certify` against the agent";
    assert_eq!(recording, passed(why));
    // If nothing passed either, the headline must not look like a success.
    let skipped = headline(|report| {
        report.selection = true;
        for row in &mut report.results {
            row.verdict = Verdict::Skip;
        }
    });
    let why = "only some of the cases were run";
    assert_eq!(skipped, format!("NOTHING TESTED (no certificate: {why})"));
    // A failure, or an interruption, is the same as in a whole run.
    let failed = headline(|report| {
        report.selection = true;
        report.results[0].verdict = Verdict::Fail;
    });
    assert_eq!(failed, "NOT CERTIFIED: 1 failed");
    let partial = headline(|report| {
        report.selection = true;
        report.partial = true;
    });
    assert_eq!(partial, "NOT CERTIFIED: the run was interrupted");
}

#[test]
fn a_refused_start_is_the_reason_and_the_next_step() {
    let mut report = sample::clean();
    report.target.info = Value::Null;
    report.target.protocol_version = Value::Null;
    report.not_started = Some(Refusal {
        code: "auth_required".to_owned(),
        message: "`WREN_API_KEY` is not set".to_owned(),
        hint: Some("set it".to_owned()),
    });
    report.summarize();
    let text = print(Format::Human, &report);
    let first =
        "NOT CERTIFIED: the agent was not started: auth_required: `WREN_API_KEY` is not set\n";
    assert!(text.starts_with(first), "{text}");
    assert!(
        text.contains("  agent    not started: auth_required\n"),
        "{text}"
    );
    assert!(text.contains("- Fix auth_required first"), "{text}");
    assert!(text.ends_with("\n4.2 s\n"), "{text}");
    let validator = schema("certify-report.schema.json");
    assert_valid(&validator, &serde_json::to_value(&report).expect("JSON"));
}

#[test]
fn json_matches_its_schema_and_round_trips() {
    let validator = schema("certify-report.schema.json");
    for report in samples() {
        let text = print(Format::Json, &report);
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text}");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_valid(&validator, &value);
        let back: Report = serde_json::from_value(value).expect("a report");
        assert_eq!(back, report);
    }
}

#[test]
fn the_schema_refuses_invalid_reports() {
    let validator = schema("certify-report.schema.json");
    let good = serde_json::to_value(sample::vendor()).expect("JSON");
    let wrong = [
        ("/schema", Value::from("agentproto.lint/v1")),
        ("/results/0/verdict", Value::from("passed")),
        ("/results/0/level", Value::from("must")),
        ("/results/0/evidence", Value::Null),
        ("/summary/pass", Value::from(-1)),
        ("/summary/certified", Value::from("no")),
        ("/target/name", Value::Null),
        ("/timing", Value::Null),
    ];
    for (pointer, value) in wrong {
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
        let last = events.len() - 1;
        for (i, event) in events.iter().enumerate() {
            let kind = event["type"].as_str().expect("a type");
            assert_eq!(kind == "aoi:meta", i == 0);
            assert_eq!(kind == "aoi:summary", i == last);
            assert_eq!(kind == "result", i != 0 && i != last);
        }
        assert_eq!(events[last]["count"], last - 1);
        assert_eq!(events[last]["ok"], !report.has_new_failures());
        assert_eq!(events[last]["counts"]["fail"], report.summary.fail);
    }
}

#[test]
fn an_interrupted_run_is_never_ok() {
    let mut report = sample::clean();
    report.partial = true;
    report.summarize();
    let events = events(&print(Format::Jsonl, &report));
    let summary = events.last().expect("a summary");
    assert_eq!(summary["ok"], false);
    assert_eq!(summary["reason"], "interrupted");
    assert_eq!(summary["partial"], true);
    let human = print(Format::Human, &report);
    assert!(
        human.starts_with("NOT CERTIFIED: the run was interrupted"),
        "{human}"
    );
}

#[test]
fn control_characters_are_escaped() {
    for attack in sample::ATTACKS {
        let text = print(Format::Human, &sample::hostile(attack));
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text}");
    }
}

#[test]
fn format_names_are_parsed() {
    for &format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "xml\u{1b}".parse::<Format>().expect_err("no such format");
    assert!(
        error
            .to_string()
            .starts_with(r"unknown report format `xml\u{1b}`; expected one of human")
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
        render(
            format,
            &sample::vendor(),
            &RenderOptions::default(),
            &mut Closed,
        )
        .expect("a clean stop");
    }
}
