//! Tests of all output formats.
//!
//! To update docs/rules.md and the snapshots, run
//! `UPDATE_DOCS=1 INSTA_UPDATE=always cargo test -p agentproto-lint --test lint`.

use std::path::Path;

use crate::common::{reports, repository};
use agentproto_lint::render::{Format, Meta, docs, render, rules};
use agentproto_lint::{Profile, Report, Severity, registry};
use serde_json::Value;

fn demo(which: &str) -> (Report, Meta) {
    let dir = repository().join("fixtures/demo").join(which);
    (reports::fixture(&dir), reports::meta(&dir))
}

fn odd() -> (Report, Meta) {
    (reports::odd(), reports::meta(Path::new("")))
}

fn print(format: Format, (report, meta): &(Report, Meta)) -> String {
    let mut out = Vec::new();
    render(format, report, meta, &mut out).expect("rendered");
    String::from_utf8(out).expect("UTF-8")
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).expect("written");
    String::from_utf8(out).expect("UTF-8")
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = repository().join("schemas").join(name);
    let text = std::fs::read_to_string(path).expect("a schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
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

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn snapshots_of_the_demo() {
    let bad = demo("bad");
    for &format in Format::ALL {
        insta::assert_snapshot!(format!("demo_bad_{format}"), print(format, &bad));
    }
}

#[test]
fn snapshots_of_oddities() {
    let odd = odd();
    for &format in Format::ALL {
        insta::assert_snapshot!(format!("odd_{format}"), print(format, &odd));
    }
    let (report, meta) = odd;
    let narrow = Meta {
        color: true,
        unicode: false,
        width: 50,
        ..meta
    };
    insta::assert_snapshot!("odd_human_narrow", print(Format::Human, &(report, narrow)));
}

#[test]
fn a_clean_run_prints_one_line() {
    let report = reports::report(
        vec![agentproto_manifest::Document::parse(
            "CLI.md",
            "---\nname: x\n---\n".to_owned(),
        )],
        Vec::new(),
    );
    let clean = (report, reports::meta(Path::new("")));
    assert_eq!(
        print(Format::Human, &clean),
        "1 file checked, no findings\n"
    );
    assert_eq!(
        print(Format::Agent, &clean),
        "No findings in 1 file. Next: nothing to fix.\n"
    );
    assert_eq!(print(Format::Concise, &clean), "");
    assert_eq!(print(Format::Github, &clean), "");
    assert_eq!(print(Format::Gitlab, &clean), "[]\n");
    assert!(print(Format::Junit, &clean).contains(r#"tests="1" failures="0" errors="0" time="#));
    let jsonl = lines(&print(Format::Jsonl, &clean));
    assert_eq!(jsonl.len(), 2);
    assert_eq!(jsonl[1]["ok"], true);
}

#[test]
fn json_matches_its_schema() {
    let validator = schema("lint-report.schema.json");
    for run in [demo("bad"), demo("good"), odd()] {
        let value: Value = serde_json::from_str(&print(Format::Json, &run)).expect("JSON");
        assert_valid(&validator, &value);
    }
}

#[test]
fn every_jsonl_line_matches_its_schema() {
    let validator = schema("events.schema.json");
    for run in [demo("bad"), demo("good"), odd()] {
        let events = lines(&print(Format::Jsonl, &run));
        for event in &events {
            assert_valid(&validator, event);
        }
        let last = events.len() - 1;
        for (i, event) in events.iter().enumerate() {
            let kind = event["type"].as_str().expect("a type");
            assert_eq!(kind == "aoi:meta", i == 0);
            assert_eq!(kind == "aoi:summary", i == last);
        }
        assert_eq!(events[last]["count"], last - 1);
        assert_eq!(events[last]["ok"], events[last]["findings"]["error"] == 0);
        assert_eq!(events[last]["error_count"], 0, "no aoi:error is emitted");
    }
}

#[test]
fn sarif_reports_whether_the_run_was_complete() {
    let successful = |run: &(Report, Meta)| {
        let log: Value = serde_json::from_str(&print(Format::Sarif, run)).expect("JSON");
        log["runs"][0]["invocations"][0]["executionSuccessful"].clone()
    };
    let (report, meta) = demo("bad");
    let cut_short = Meta {
        interrupted: true,
        ..meta.clone()
    };
    assert_eq!(successful(&(report, meta)), true);
    assert_eq!(successful(&(demo("bad").0, cut_short)), false);
}

#[test]
fn fail_on_decides_which_findings_fail_the_run() {
    let (mut report, meta) = odd();
    report.findings.retain(|f| f.severity == Severity::Warning);
    let ok = |meta: Meta, report: &Report| {
        let mut out = Vec::new();
        render(Format::Jsonl, report, &meta, &mut out).expect("rendered");
        let events = lines(std::str::from_utf8(&out).expect("UTF-8"));
        events.last().expect("a summary")["ok"].clone()
    };
    assert_eq!(ok(meta.clone(), &report), true);
    let strict = Meta {
        fail_on: Severity::Warning,
        ..meta
    };
    assert_eq!(ok(strict.clone(), &report), false);
    let lenient = Meta {
        exit_zero: true,
        ..strict
    };
    assert_eq!(ok(lenient, &report), true);
}

#[test]
fn junit_counts_failures_and_errors() {
    let xml = print(Format::Junit, &odd());
    let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
    assert_eq!(parsed.test_suites.len(), 4, "{xml}");
    assert_eq!((parsed.failures, parsed.errors), (3, 1), "{xml}");
}

#[test]
fn fingerprints_are_unique_and_do_not_depend_on_lines() {
    let (report, meta) = odd();
    let before = agentproto_lint::render::fingerprint::fingerprints(&report, &meta);
    let unique: std::collections::HashSet<_> = before.iter().collect();
    assert_eq!(unique.len(), before.len());
    let mut moved = report;
    for finding in &mut moved.findings {
        finding.start.line += 7;
    }
    let after = agentproto_lint::render::fingerprint::fingerprints(&moved, &meta);
    assert_eq!(before, after);
}

#[test]
fn sarif_results_refer_to_rules_of_the_same_log() {
    let log: Value = serde_json::from_str(&print(Format::Sarif, &odd())).expect("JSON");
    let run = &log["runs"][0];
    let rules = &run["tool"]["driver"]["rules"];
    for result in run["results"].as_array().expect("results") {
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().expect("a URI");
        assert!(!uri.starts_with('/') && !uri.contains(['\n', ' ']), "{uri}");
        assert!(place["region"]["startLine"].as_u64() >= Some(1));
    }
    let kinds: Vec<_> = run["results"]
        .as_array()
        .expect("results")
        .iter()
        .filter_map(|r| r["suppressions"][0]["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["inSource", "external"]);
}

#[test]
fn no_format_prints_a_plain_text_secret() {
    let run = demo("bad");
    assert!(
        run.0
            .findings
            .iter()
            .any(|f| f.pointer == "/secrets/0/value"),
        "the demo has a secret in plain text"
    );
    for &format in Format::ALL {
        let text = print(format, &run);
        assert!(!text.contains("not-a-real-key"), "{format}\n{text}");
    }
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
    let (report, meta) = odd();
    for &format in Format::ALL {
        render(format, &report, &meta, &mut Closed).expect("a clean stop");
    }
}

#[test]
fn format_names_parse_and_unknown_ones_are_errors() {
    for &format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "xml\u{1b}".parse::<Format>().expect_err("no such format");
    assert_eq!(
        error.to_string(),
        "unknown output format `xml\\u{1b}`; expected one of human, concise, json, jsonl, sarif, \
         github, gitlab, junit, agent"
    );
}

#[test]
fn rules_are_listed_and_explained() {
    let all: Vec<_> = registry::rules().collect();
    let meta = reports::meta(Path::new(""));
    let events = schema("events.schema.json");
    for event in lines(&written(|out| {
        rules::render_jsonl(&all, &meta, Default::default(), out)
    })) {
        assert_valid(&events, &event);
    }
    let list: Value = serde_json::from_str(&written(|out| {
        rules::render_json(&all, &meta, serde_json::Map::new(), out)
    }))
    .expect("JSON");
    assert_valid(&schema("rules.schema.json"), &list);
    assert_eq!(list["rules"].as_array().map(Vec::len), Some(all.len()));
    for rule in &all {
        for event in lines(&written(|out| docs::explain_jsonl(rule, out))) {
            assert_valid(&events, &event);
        }
        let json = written(|out| docs::explain_json(rule, out));
        let json: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["slug"], rule.slug);
    }
}

#[test]
fn snapshots_of_rule_pages() {
    let rules = [&reports::LEASH, &reports::FEATHER, &reports::WHIM];
    let meta = reports::meta(Path::new(""));
    let page = written(|out| docs::explain_human(&reports::LEASH, out));
    insta::assert_snapshot!("rule_page", page);
    let table = written(|out| rules::render_human(&rules, &meta, out));
    insta::assert_snapshot!("rule_table", table);
    let spec = Meta {
        profile: Profile::Spec,
        ..meta
    };
    let json = written(|out| rules::render_json(&rules, &spec, serde_json::Map::new(), out));
    insta::assert_snapshot!("rule_list", json);
}

#[test]
fn the_reference_is_up_to_date() {
    let path = repository().join("docs/rules.md");
    let expected = docs::reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(repository().join("docs")).expect("docs/");
        std::fs::write(&path, &expected).expect("docs/rules.md");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == expected,
        "docs/rules.md is out of date; run `cargo xtask docs lint`"
    );
}
