//! Shards, baselines, selections, reports, and custom suites.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use serde_json::Value;

use crate::certify::{certify, run, verdicts};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn saved(dir: &tempfile::TempDir, name: &str, report: &Value) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, report.to_string()).unwrap();
    path
}

#[test]
fn the_conforming_mock_agent_is_certified_without_warnings() {
    let (output, report) = run(&["--mock", "acp", "--timeout", "10"]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["summary"]["certified"], true);
    assert_eq!(report["summary"]["warn"], 0);
    let rows = report["results"].as_array().unwrap();
    let mut ids: Vec<&str> = rows
        .iter()
        .filter_map(|r| r["requirement"].as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 182, "every requirement of the suite has a row");
    let timing = &report["timing"];
    let floor = timing["startup_ms"].as_f64().unwrap() + timing["waits_ms"].as_f64().unwrap();
    assert!(
        timing["wall_ms"].as_f64().unwrap() <= 2.0 * floor,
        "{timing}"
    );
}

/// The merged shards have every row of the whole run exactly once.
#[test]
fn shards_merge_to_the_whole() {
    let only = [
        "--mock", "acp", "--only", "TR-11", "--only", "TR-12", "--only", "SE-01",
    ];
    let (_, whole) = run(&only);
    let dir = directory();
    let mut files = Vec::new();
    for shard in ["1/2", "2/2"] {
        let (_, part) = run(&[&only[..], &["--shard", shard]].concat());
        assert_eq!(
            part["summary"]["certified"], false,
            "a shard must not be certified"
        );
        files.push(saved(&dir, &shard.replace('/', "-"), &part));
    }
    let merged = std::process::Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["report", "merge", "--output", "json"])
        .args(&files)
        .output()
        .unwrap();
    let merged: Value = serde_json::from_slice(&merged.stdout).unwrap();
    let rows = |report: &Value| -> Vec<String> {
        let rows = report["results"].as_array().unwrap().iter();
        rows.map(|r| format!("{} {} {}", r["case"], r["requirement"], r["verdict"]))
            .collect()
    };
    assert_eq!(rows(&merged), rows(&whole));
    assert_eq!(
        merged["summary"]["certified"], false,
        "a selection must not be certified"
    );
}

#[test]
fn failures_in_the_baseline_do_not_fail_the_run() {
    let mutant = [
        "--mock",
        "acp",
        "--env",
        "MOCK_MUTANT=acp-tr-11-internal-error",
    ];
    let only = ["--only", "TR-11", "--only", "TR-13"];
    let (output, before) = run(&[&mutant[..], &only[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let dir = directory();
    let baseline = saved(&dir, "before.json", &before);
    let baseline = ["--baseline", baseline.to_str().unwrap()];
    let (output, _) = run(&[&mutant[..], &only[..], &baseline[..]].concat());
    assert_eq!(output.status.code(), Some(0));
    let other = ["--mock", "acp", "--env", "MOCK_MUTANT=acp-tr-13-silent"];
    let (output, _) = run(&[&other[..], &only[..], &baseline[..]].concat());
    assert_eq!(output.status.code(), Some(1), "a different failure is new");
}

/// A case and the monitor of the same requirement see the same lines.
#[test]
fn one_defect_is_reported_once() {
    let mutant = "MOCK_MUTANT=acp-te-01-terminal-unasked";
    let case = "in-11-nothing-offered";
    let (_, report) = run(&["--mock", "acp", "--env", mutant, "--only", case]);
    let rows = report["results"].as_array().unwrap();
    let failing = |requirement: &str| -> Vec<&str> {
        rows.iter()
            .filter(|row| row["requirement"] == requirement && row["verdict"] == "fail")
            .filter_map(|row| row["case"].as_str())
            .collect()
    };
    assert_eq!(failing("IN-11"), [case], "{report:#}");
    // Another requirement, which this case does not check.
    assert_eq!(failing("TE-01"), ["monitor"], "{report:#}");
}

/// Warns about a baseline of an interrupted run, and about a mock model that the agent never
/// called.
#[test]
fn a_partial_baseline_and_an_unused_mock_model_are_warned_about() {
    let only = ["--mock", "acp", "--only", "IN-01"];
    let stderr_of = |more: &[&str]| {
        let (output, report) = run(&[&only[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{report:#}");
        (String::from_utf8_lossy(&output.stderr).into_owned(), report)
    };
    let (_, mut before) = stderr_of(&[]);
    let dir = directory();
    let whole = saved(&dir, "whole.json", &before);
    before["partial"] = true.into();
    let partial = saved(&dir, "partial.json", &before);
    let warning = "the baseline is from an interrupted run";
    let (words, _) = stderr_of(&["--baseline", partial.to_str().unwrap()]);
    assert!(words.contains(warning), "{words}");
    let (words, _) = stderr_of(&["--baseline", whole.to_str().unwrap()]);
    assert!(!words.contains(warning), "{words}");
    let warning = "the agent sent no request to the mock model";
    assert!(!words.contains(warning), "{words}");
    let (words, _) = stderr_of(&["--mock-llm"]);
    assert!(
        words.contains(&format!("agentproto: warning: {warning}")),
        "{words}"
    );
    // Warnings are log events, so `--log` decides whether they are shown.
    let (words, _) = stderr_of(&["--mock-llm", "--log", "error"]);
    assert!(!words.contains(warning), "{words}");
}

#[test]
fn a_report_directory_has_every_format_and_the_transcripts() {
    let dir = directory();
    let path = dir.path().to_str().unwrap();
    let (_, report) = run(&["--mock", "acp", "--only", "TR-11", "--report-dir", path]);
    for name in [
        "report.json",
        "report.html",
        "report.md",
        "junit.xml",
        "report.sarif",
        "badge.svg",
        "badge.json",
    ] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
    let mut rows = report["results"].as_array().unwrap().iter();
    let row = rows.find(|row| row["requirement"] == "TR-11").unwrap();
    let transcript = dir.path().join(row["transcript"].as_str().unwrap());
    let text = std::fs::read_to_string(transcript).unwrap();
    let evidence = &row["evidence"][0];
    let line = text
        .lines()
        .nth(evidence["line"].as_u64().unwrap() as usize - 1);
    let line: Value = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(
        line["text"], evidence["text"],
        "the evidence must be a line of the transcript"
    );
}

#[test]
fn a_custom_suite_runs_and_its_mistakes_have_positions() {
    let dir = directory();
    let suite = "suite: agentproto.suite/v1\nname: mine\nrequirements:\n  - { id: M-1, statement: Says its name }\ncases:\n  - id: name\n    decides: M-1\n    begin: initialized\n    steps:\n      - expect:\n          - { at: $initialize/result/agentInfo/name, is: heron, say: It must be called heron }\n";
    let path = dir.path().join("mine.yaml");
    std::fs::write(&path, suite).unwrap();
    let (output, report) = run(&["--mock", "acp", "--suite", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(verdicts(&report, "M-1"), ["fail"]);
    let message = report["results"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("It must be called heron"), "{message}");
    std::fs::write(&path, suite.replace("begin:", "begins:")).unwrap();
    let output = certify(&["--mock", "acp", "--suite", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(65));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("mine.yaml:8:5"), "{words}");
    assert!(words.contains("did you mean `begin`?"), "{words}");
}

/// "The service was not called" is only evidence if the agent calls it when it is allowed to.
#[test]
fn an_unused_service_is_not_verified() {
    let dir = directory();
    let prompts = dir.path().join("prompts.yaml");
    let same = "fs_read: hello\nfs_write: hello\nterminal: hello\nelicitation: hello\n";
    std::fs::write(&prompts, same).unwrap();
    let prompts = prompts.to_str().unwrap();
    let only = "FS-01,FS-02,TE-01,EL-01";
    let (_, used) = run(&["--mock", "acp", "--only", only]);
    let (_, unused) = run(&["--mock", "acp", "--only", only, "--prompts", prompts]);
    for requirement in only.split(',') {
        assert!(
            verdicts(&used, requirement).iter().all(|v| *v == "pass"),
            "{requirement}: {used:#}"
        );
        assert!(
            verdicts(&unused, requirement)
                .iter()
                .all(|v| *v == "not_verified"),
            "{requirement}: {unused:#}"
        );
    }
}

#[test]
fn an_empty_selection_is_an_error() {
    for (only, expected) in [
        ("PT-0l", "did you mean `PT-01`?"),
        ("PT-0", "did you mean"),
        ("quite-else-where", "agentproto coverage"),
    ] {
        let output = certify(&["--mock", "acp", "--only", only])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(expected) && said.contains(only), "{said}");
    }
}

/// The headline says NOT CERTIFIED, so the exit code must not be that of a success.
#[test]
fn a_selection_fails_if_the_agent_does_not_speak_the_protocol() {
    for only in ["PT-01", "PT"] {
        let args = ["--only", only, "--timeout", "2", "--", "cat"];
        let (output, report) = run(&args);
        assert_eq!(report["summary"]["fail"], 0, "{report:#}");
        assert_eq!(report["summary"]["certified"], false, "{report:#}");
        assert_eq!(output.status.code(), Some(1), "{report:#}");
    }
}

/// A chapter, a section, and a requirement that only monitors check.
#[test]
fn a_selection_accepts_chapters_sections_and_monitors() {
    let chapter = |only: &str| {
        let (output, report) = run(&["--mock", "acp", "--only", only]);
        assert_eq!(output.status.code(), Some(0), "{report:#}");
        assert_eq!(report["summary"]["certified"], false);
        let rows = report["results"].as_array().unwrap().iter();
        let ids = rows.map(|row| row["requirement"].as_str().unwrap().to_owned());
        ids.collect::<std::collections::BTreeSet<String>>()
    };
    let modes = chapter("MO");
    assert!(modes.len() > 3, "{modes:?}");
    assert!(modes.iter().all(|id| id.starts_with("MO-")), "{modes:?}");
    assert_eq!(chapter("session modes"), modes);
    let several = chapter("MO,LI-01");
    assert!(several.is_superset(&modes) && several.contains("LI-01"));
    // All cases run for it, but only this requirement is reported.
    let watched: Vec<String> = chapter("TR-03").into_iter().collect();
    assert_eq!(watched, ["TR-03"]);
    let (output, report) = run(&[
        "--mock",
        "acp",
        "--only",
        "TR-03",
        "--env",
        "MOCK_MUTANT=acp-tr-03-log-line",
    ]);
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    assert_eq!(verdicts(&report, "TR-03"), ["fail"]);
}

/// A selection reports only the selected requirements, even if others fail.
#[test]
fn a_selection_reports_nothing_else() {
    let odd = ["--env", "MOCK_MUTANT=acp-pt-02-odd-reason"];
    let (output, report) = run(&[&["--mock", "acp", "--only", "PT-01"], &odd[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let rows = report["results"].as_array().unwrap().iter();
    let others = rows.filter(|row| row["requirement"] != "PT-01").count();
    assert_eq!((others, &report["summary"]["fail"]), (0, &0.into()));
    let (output, _) = run(&[&["--mock", "acp", "--only", "PT-02"], &odd[..]].concat());
    assert_eq!(output.status.code(), Some(1));
}

/// A certificate says so if the agent's tools were not tested. With full coverage there is no such
/// remark.
#[test]
fn a_certificate_states_how_much_was_tested() {
    let mock = [env!("CARGO_BIN_EXE_agentproto"), "mock", "acp"];
    let dir = directory();
    let path = dir.path().to_str().unwrap();
    let mut bare = vec!["--report-dir", path, "--"];
    bare.extend(mock);
    let output = certify(&bare).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("CERTIFIED, "), "{first}");
    assert!(
        first.contains(" MUST requirements tested (not tested: CL-01, "),
        "{first}"
    );
    assert!(
        said.contains("A certificate covers only what was tested"),
        "{said}"
    );
    for (file, words) in [
        ("badge.svg", " MUST tested"),
        ("report.html", " MUST requirements tested"),
        ("report.md", " MUST requirements tested"),
    ] {
        let text = std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(text.contains(words), "{file}");
    }
}

/// The evidence includes the message that we sent before the failure, such as a cancel.
#[test]
fn evidence_includes_the_preceding_message() {
    for (mutant, id, ours) in [
        (
            "acp-pt-11-end-turn",
            "PT-11",
            r#""method":"session/cancel""#,
        ),
        ("acp-pt-14-goes-on", "PT-14", r#""method":"session/cancel""#),
    ] {
        let mutant = format!("MOCK_MUTANT={mutant}");
        let (_, report) = run(&["--mock", "acp", "--only", id, "--env", &mutant]);
        let rows = report["results"].as_array().unwrap().iter();
        let row = rows.into_iter().find(|row| row["verdict"] == "fail");
        let row = row.unwrap_or_else(|| panic!("{id} fails: {report:#}"));
        let mut evidence = row["evidence"].as_array().unwrap().iter();
        let is_it =
            |e: &Value| e["direction"] == "to-agent" && e["text"].as_str().unwrap().contains(ours);
        assert!(evidence.any(is_it), "{row:#}");
    }
}

/// The evidence is in wire order and marks the position of the defect in the line.
#[test]
fn evidence_points_at_the_defect() {
    let dir = directory();
    let path = dir.path().to_str().unwrap();
    let (_, report) = run(&[
        "--mock",
        "acp",
        "--only",
        "PT-02",
        "--env",
        "MOCK_MUTANT=acp-pt-02-odd-reason",
        "--report-dir",
        path,
    ]);
    let mut rows = report["results"].as_array().unwrap().iter();
    let row = rows.find(|row| row["requirement"] == "PT-02").unwrap();
    let evidence = row["evidence"].as_array().unwrap();
    let lines: Vec<u64> = evidence.iter().filter_map(|e| e["line"].as_u64()).collect();
    assert!(lines.len() > 1 && lines.is_sorted(), "{row:#}");
    let marked = evidence.iter().find(|e| e["pointer"].is_string()).unwrap();
    assert_eq!(marked["pointer"], "/result/stopReason");
    let text: Vec<char> = marked["text"].as_str().unwrap().chars().collect();
    let place = |i: usize| marked["mark"][i].as_u64().unwrap() as usize;
    let marked_text: String = text[place(0)..place(1)].iter().collect();
    assert_eq!(marked_text, "\"done\"");
    let transcript = dir.path().join(row["transcript"].as_str().unwrap());
    let transcript = std::fs::read_to_string(transcript).unwrap();
    let line = marked["line"].as_u64().unwrap() as usize;
    let line: Value = serde_json::from_str(transcript.lines().nth(line - 1).unwrap()).unwrap();
    assert_eq!(line["text"], marked["text"]);
    assert_eq!(line["line"], marked["line"]);
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("<mark>&quot;done&quot;</mark>"));
    let hint = row["hint"].as_str().unwrap();
    let list = page.split("What to fix").nth(1).unwrap();
    let list = list.split("<h2>").next().unwrap();
    // The page marks code in the hint.
    let plain = hint.split('`').next().unwrap();
    assert!(plain.len() > 10, "{hint}");
    assert!(list.contains(plain), "the list must say what to do: {list}");
}

/// Without a prompts file, the output lists the missing prompts as YAML that can be pasted.
#[test]
fn a_missing_prompts_file_is_printed_as_a_template() {
    let own = env!("CARGO_BIN_EXE_agentproto");
    let agent = ["--", own, "mock", "acp"];
    let only = ["--only", "TC-01,PT-17,PE-01"];
    let output = certify(&only).args(agent).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines = said
        .lines()
        .skip_while(|l| !l.contains("--prompts prompts.yaml"))
        .take_while(|l| !l.contains("--mock-llm"));
    let yaml = lines.filter_map(|l| l.strip_prefix("    "));
    let yaml: String = yaml.map(|l| format!("{l}\n")).collect();
    let keys = ["tool", "permission", "slow"];
    for key in keys {
        assert!(
            yaml.contains(&format!("\n{key}: ")) || yaml.starts_with(key),
            "{said}"
        );
    }
    assert!(
        yaml.contains("session/request_permission (for PE-01"),
        "{said}"
    );
    let dir = directory();
    let file = dir.path().join("prompts.yaml");
    std::fs::write(&file, &yaml).unwrap();
    let (_, report) = {
        let output = certify(&["--output", "json", "--prompts", file.to_str().unwrap()])
            .args(only)
            .args(agent)
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output, report)
    };
    assert_eq!(report["summary"]["skip"], 0, "{report:#}");
    let help = certify(&["--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for key in agentproto_harness::run::prompts::names() {
        assert!(help.contains(key), "{key}");
    }
    for code in ["0 certified", "69 the target", "130/143 interrupted"] {
        assert!(help.contains(code), "{help}");
    }
}

#[test]
fn a_requirement_is_explained() {
    let explain = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_agentproto"));
        command.arg("explain").args(args).output().unwrap()
    };
    let page = explain(&["tr-13"]);
    assert_eq!(page.status.code(), Some(0));
    let page = String::from_utf8(page.stdout).unwrap();
    for part in [
        "# TR-13",
        "MUST",
        "tr-13-no-json",
        "## How to fix it",
        "--only TR-13",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let json = explain(&["PT-02", "-o", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["watched"], true);
    assert_eq!(json["faults"][0]["id"], "acp-pt-02-odd-reason");
    // From a suite, from the register, and from a suite with numbered chapters.
    for id in ["PT-02", "TR-13", "A45-CAP-02", "V2-TR-01", "AOI-17-01"] {
        let jsonl = explain(&[id, "-o", "jsonl"]);
        let said = String::from_utf8(jsonl.stderr).unwrap();
        assert_eq!(jsonl.status.code(), Some(0), "{id}: {said}");
        let lines = String::from_utf8(jsonl.stdout).unwrap();
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3, "{id}");
        assert_eq!(lines[1]["slug"], id);
    }
    // A requirement of the register that no suite has.
    let page = String::from_utf8(explain(&["A46-TURN-04"]).stdout).unwrap();
    assert!(page.starts_with("# A46-TURN-04"), "{page}");
    let unknown = explain(&["TR-99"]);
    assert_eq!(unknown.status.code(), Some(64));
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(said.contains("did you mean `TR-"), "{said}");
}

/// AOI-CLI §2: a reader must not wait for the end of the run to learn what it reads.
#[test]
fn the_first_line_of_a_stream_comes_before_the_run() {
    let mut command = certify(&["-o", "jsonl", "--only", "PT-01", "--timeout", "60"]);
    let mut run = command
        .args(["--", "sleep", "600"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["type"], "aoi:meta");
    assert_eq!(first["command"], "certify");
    assert!(run.try_wait().unwrap().is_none(), "the run is over");
    // The rest of the stream has no second meta.
    let pid = libc::pid_t::try_from(run.id()).unwrap();
    // SAFETY: sends a signal to our own child, which has not been waited for.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let rest: Vec<Value> = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert!(rest.iter().all(|event| event["type"] != "aoi:meta"));
    assert_eq!(rest.last().unwrap()["type"], "aoi:summary");
    assert_eq!(run.wait().unwrap().code(), Some(143));
}
