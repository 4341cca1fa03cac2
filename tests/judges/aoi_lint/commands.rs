//! The command line of `aoi-lint`.

use serde_json::Value;

use crate::aoi_lint::{Dir, assert_valid, repository, schema, verdict};

#[test]
fn the_matrix_comes_first_and_failures_can_be_reproduced() {
    let dir = Dir::demo();
    let args = ["--", "./hasty", "search", "it's", "--output", "jsonl"];
    let ran = dir.lint(&args).exits(1);
    let matrix = ran.out.find("Verif").expect("a matrix");
    let failure = ran.out.find("FAIL AOI-02.prose search").expect("a failure");
    assert!(matrix < failure, "{}", ran.out);
    for part in [
        "expected",
        "observed",
        "why",
        "§2",
        "Python",
        "shell",
        "properties: ",
        " runs in ",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let block = ran.out.get(failure..).expect("a block");
    let line = block
        .lines()
        .find_map(|l| l.trim().strip_prefix("run "))
        .expect("a run");
    assert!(line.ends_with(r"search 'it'\''s' --output jsonl"), "{line}");
    let again = std::process::Command::new("sh")
        .args(["-c", line])
        .output()
        .expect("a shell");
    assert!(String::from_utf8_lossy(&again.stdout).starts_with("Searching..."));
    assert!(
        !ran.out.contains("Level"),
        "the report must not have an aggregate level"
    );
}

#[test]
fn a_script_and_its_interpreter_are_the_tool() {
    let dir = Dir::demo();
    let args = [
        "-o", "json", "--", "sh", "notes", "search", "x", "--format", "jsonl",
    ];
    let report = dir.lint(&args).json();
    let tool = report["target"]["argv"].as_array().expect("words");
    assert_eq!(tool.len(), 2, "{report:#}");
    // The command is listed in `capabilities`, and the lint runs it with the given arguments.
    assert_eq!(verdict(&report, "AOI-03.ok-not-true", "search"), "pass");
}

#[test]
fn a_probe_file_and_a_command_exclude_each_other() {
    let dir = Dir::demo();
    let ran = dir
        .lint(&["--probe", "aoi-probe.yaml", "--", "./notes"])
        .exits(64);
    assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
    let empty = Dir::new();
    let ran = empty.lint(&[]).exits(64);
    assert!(
        ran.err.contains("init --write aoi-probe.yaml -- mytool"),
        "{}",
        ran.err
    );
    empty
        .lint(&["--fail-on", "everything", "--", "x"])
        .exits(64);
    empty.lint(&["--timeout", "0", "--", "x"]).exits(64);
    // Without arguments, the default probe file is used.
    let report = dir.lint(&["-o", "json"]).json();
    assert_eq!(report["target"]["probe_file"], "aoi-probe.yaml");
    assert_eq!(report["target"]["lines"]["search"], 6);
}

/// Check 3 pauses for more than a second, after the findings of check 1 are decided.
#[test]
fn machine_mode_prints_each_finding_when_it_is_decided() {
    let dir = Dir::demo();
    let mut child = std::process::Command::new(super::binary())
        .current_dir(dir.path())
        .args(["aoi-lint", "--check", "1,3", "-o", "jsonl"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let pipe = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut seen: Vec<(std::time::Instant, Value)> = Vec::new();
    for line in std::io::BufRead::lines(pipe) {
        let event = serde_json::from_str(&line.expect("text")).expect("JSON");
        seen.push((std::time::Instant::now(), event));
    }
    child.wait().expect("it ends");
    let at = |kind: &str| {
        let found = seen.iter().find(|(_, event)| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).0
    };
    assert_eq!(seen[0].1["type"], "aoi:meta");
    let worked = at("aoi:summary") - at("aoi:check");
    assert!(worked > std::time::Duration::from_millis(700), "{worked:?}");
    let rows: std::collections::BTreeSet<String> = seen
        .iter()
        .filter(|(_, event)| event["type"] == "aoi:check")
        .map(|(_, event)| format!("{} {}", event["rule"], event["command"]))
        .collect();
    let report = dir
        .run(&["aoi-lint", "--check", "1,3", "-o", "json"])
        .json();
    let whole = report["checks"].as_array().expect("checks").iter();
    let whole = whole.map(|check| format!("{} {}", check["rule"], check["command"]));
    assert_eq!(rows, whole.collect());
    let (_, summary) = seen.last().expect("a summary");
    assert_eq!(summary["count"], seen.len() - 2);
}

#[test]
fn real_output_matches_its_schemas() {
    let dir = Dir::demo();
    let report = schema("aoi-report.schema.json");
    let event = schema("events.schema.json");
    for tool in ["./notes", "./hasty"] {
        let args = ["--compat", "-o", "json", "--", tool, "search", "x"];
        let json = dir.lint(&args).json();
        assert_valid(&report, &json);
        assert_eq!(json["compat"].as_array().map(Vec::len), Some(7));
        let args = ["--compat", "-o", "jsonl", "--", tool, "search", "x"];
        let events = dir.lint(&args).events();
        for line in &events {
            assert_valid(&event, line);
        }
        let checks = events.iter().filter(|e| e["type"] == "aoi:check").count();
        let pairs = events.iter().filter(|e| e["type"] == "pair").count();
        let summary = events.last().expect("a summary");
        assert_eq!(summary["count"], checks + pairs);
        assert_eq!(events[1]["name"], "command_invocable");
    }
    for args in [
        &["rules", "--kind", "aoi", "-o", "jsonl"][..],
        &["explain", "AOI-03.ok-not-true", "-o", "jsonl"],
    ] {
        for line in dir.run(args).exits(0).events() {
            assert_valid(&event, &line);
        }
    }
    for name in ["aoi-probe", "aoi-report"] {
        let ran = dir.run(&["schema", "--name", name]).exits(0);
        let file = repository().join(format!("schemas/{name}.schema.json"));
        let file: Value =
            serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("JSON");
        assert_eq!(ran.json(), file);
    }
}

#[test]
fn compat_assertions_distinguish_the_demo_tools() {
    let dir = Dir::demo();
    let broken = |tool: &str| -> Vec<String> {
        let args = ["--compat", "-o", "json", "--", tool, "search", "x"];
        let report = dir.lint(&args).json();
        let all = report["compat"].as_array().expect("assertions").clone();
        let bad = all.iter().filter(|a| a["ok"] == false);
        bad.map(|a| a["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(broken("./notes"), [""; 0]);
    let expected = [
        "valid_jsonl",
        "every_event_has_type",
        "terminal_summary_present",
        "summary_has_ok",
        "summary_ok_true",
    ];
    assert_eq!(broken("./hasty"), expected);
}

#[test]
fn only_new_failures_fail_with_a_baseline() {
    let dir = Dir::demo();
    let hasty = ["--", "./hasty", "search", "x"];
    let report = dir.lint(&[&["-o", "json"], &hasty[..]].concat()).exits(1);
    dir.write("before.json", &report.out);
    let ran = dir
        .lint(&[&["--baseline", "before.json"], &hasty[..]].concat())
        .exits(0);
    assert!(ran.out.contains(", known)"), "{}", ran.out);
    // Adds a failure.
    dir.script("hasty", "echo 'Searching...'; echo '{\"id\":1}'; exit 3");
    let args = [&["--baseline", "before.json", "-o", "json"], &hasty[..]].concat();
    let report = dir.lint(&args).exits(1).json();
    let rows = report["checks"].as_array().expect("rows");
    let new = rows
        .iter()
        .filter(|r| r["verdict"] == "fail" && r.get("known").is_none());
    let new: Vec<&str> = new.map(|r| r["rule"].as_str().expect("an id")).collect();
    assert!(
        new.contains(&"AOI-03.exit-not-zero") && new.contains(&"AOI-02.type"),
        "{new:?}"
    );
    assert!(!new.contains(&"AOI-02.prose"), "{new:?}");
    // Fixes all failures.
    std::fs::copy(dir.at("notes"), dir.at("hasty")).expect("copied");
    let ran = dir.lint(&[&["--baseline", "before.json"], &hasty[..]].concat());
    assert!(ran.out.contains("Fixed since the baseline"), "{}", ran.out);
    dir.write("odd.json", "{\"schema\":\"agentproto.certify/v1\"}");
    let ran = dir
        .lint(&[&["--baseline", "odd.json"], &hasty[..]].concat())
        .exits(65);
    assert!(
        ran.err.contains("must be `agentproto.aoi/v1`"),
        "{}",
        ran.err
    );
    dir.lint(&[&["--baseline", "absent.json"], &hasty[..]].concat())
        .exits(66);
}

#[test]
fn severities_come_from_the_configuration() {
    let dir = Dir::demo();
    let args = ["-o", "json", "--", "./hasty", "search", "x"];
    dir.write(
        "agentproto.toml",
        "[aoi.severity]\n\"AOI-02.prose\" = \"warn\"\n\"aoi-03.summary-last\" = \"warn\"\n",
    );
    let report = dir.lint(&args).json();
    assert_eq!(verdict(&report, "AOI-02.prose", "search"), "warn");
    assert_eq!(verdict(&report, "AOI-03.summary-last", "search"), "warn");
    dir.lint(&[&["--fail-on", "warn"], &args[..]].concat())
        .exits(1);
    dir.write(
        "agentproto.toml",
        "[aoi.severity]\n\"AOI-02.pros\" = \"warn\"\n",
    );
    let ran = dir.lint(&args).exits(78);
    assert!(
        ran.err.contains("did you mean `AOI-02.prose`?"),
        "{}",
        ran.err
    );
    dir.write(
        "agentproto.toml",
        "[aoi.severity]\n\"AOI-02.prose\" = \"off\"\n",
    );
    let ran = dir.lint(&args).exits(65);
    assert!(ran.err.contains("agentproto.toml:2:"), "{}", ran.err);
}

#[test]
fn unproven_pairs_fail_on_request() {
    let dir = Dir::new();
    // With discovery alone there is nothing to verify.
    dir.script("t", "exit 64");
    dir.write("aoi-probe.yaml", "aoi_probe: 1\ntool: [./t]\n");
    let report = dir.lint(&["-o", "json"]).json();
    assert_eq!(report["summary"]["pairs_proven"], 0);
    dir.lint(&["--fail-on", "unproven"]).exits(1);
}

#[test]
fn a_selection_of_checks_gets_no_badge() {
    let dir = Dir::demo();
    dir.lint(&["-o", "badge", "--check", "3"]).exits(64);
    dir.lint(&["-o", "badge"]).exits(0);
}

#[test]
fn every_format_is_written_to_the_report_directory() {
    let dir = Dir::demo();
    std::fs::create_dir(dir.at("out")).expect("created");
    dir.write("out/badge.svg", "an old badge");
    dir.lint(&["--report-dir", "out", "--", "./notes", "search", "x"]);
    for file in [
        "report.json",
        "report.jsonl",
        "report.md",
        "junit.xml",
        "report.sarif",
    ] {
        assert!(dir.at("out").join(file).is_file(), "{file}");
    }
    let badge = std::fs::read_to_string(dir.at("out/badge.svg")).unwrap_or_default();
    assert_ne!(badge, "an old badge");
}

#[test]
fn a_first_probe_file_is_written_and_can_be_used() {
    let dir = Dir::demo();
    std::fs::remove_file(dir.at("aoi-probe.yaml")).expect("removed");
    let ran = dir.lint(&["init", "--", "./notes"]).exits(0);
    assert!(
        ran.out.contains("tool: [./notes]") && ran.out.contains("  search:"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("sandbox: false") && ran.out.contains("FILL IN"),
        "{}",
        ran.out
    );
    dir.lint(&["init", "--write", "aoi-probe.yaml", "--", "sh", "notes"])
        .exits(0);
    let text = std::fs::read_to_string(dir.at("aoi-probe.yaml")).expect("written");
    assert!(text.contains("tool: [sh, ./notes]"), "{text}");
    assert!(text.contains("# env: {"), "{text}");
    // The help names the argument WORD, whose value only the author knows.
    assert!(text.contains("ok: [search, \"FILL IN word\"]"), "{text}");
    let ran = dir.lint(&["-o", "json"]).exits(65);
    assert!(
        ran.err.contains(": replace `FILL IN word` with"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("aoi-probe.yaml:"), "{}", ran.err);
    let text = text.replace("FILL IN word", "heron");
    dir.write("aoi-probe.yaml", &text);
    let report = dir.lint(&["-o", "json"]).json();
    assert_eq!(report["target"]["argv"][1], "./notes");
    // An existing file is not overwritten.
    let ran = dir
        .lint(&["init", "--write", "aoi-probe.yaml", "--", "./notes"])
        .exits(73);
    assert!(ran.err.contains("already exists"), "{}", ran.err);
    assert!(ran.err.contains("choose another file"), "{}", ran.err);
    dir.lint(&["init", "--", "./absent"]).exits(69);
    dir.lint(&["init"]).exits(64);
    // A tool without `capabilities` and `--help` gets a template to fill in.
    let ran = dir.lint(&["init", "--", "./hasty"]).exits(0);
    assert!(
        ran.out
            .contains("No commands were found in `capabilities` and `--help`"),
        "{}",
        ran.out
    );
    dir.write(
        "first.yaml",
        &ran.out.replace("  # FILL IN: its name", "  #"),
    );
    let ran = dir.lint(&["--probe", "first.yaml"]).exits(65);
    let expected = "`mycommand` is only an example";
    assert!(ran.err.contains(expected), "{}", ran.err);
}

#[test]
fn recursive_linting_is_limited() {
    let dir = Dir::demo();
    let ran = dir
        .command(&["aoi-lint", "--", "./notes", "search", "x"])
        .env("AGENTPROTO_AOI_DEPTH", "2")
        .output()
        .expect("it runs");
    assert_eq!(ran.status.code(), Some(64));
}

#[test]
fn rules_are_listed_explained_and_counted() {
    let dir = Dir::new();
    let ran = dir.run(&["explain", "aoi-03.ok-not-true"]).exits(0);
    assert!(
        ran.out.contains("# AOI-03.ok-not-true") && ran.out.contains("- Go: "),
        "{}",
        ran.out
    );
    let ran = dir.run(&["explain", "AOI-03.ok-not-tru"]).exits(64);
    assert!(
        ran.err.contains("did you mean `AOI-03.ok-not-true`?"),
        "{}",
        ran.err
    );
    let rules = dir
        .run(&["rules", "--kind", "aoi", "-o", "json"])
        .exits(0)
        .json();
    assert!(
        rules["rules"]
            .as_array()
            .is_some_and(|r| r.iter().any(|r| r["id"] == "AOI-03.ok-not-true"))
    );
    let ran = dir.run(&["coverage", "--spec", "AOI-CLI v0.2"]).exits(0);
    assert!(ran.out.contains("check:AOI-03.ok-not-true"), "{}", ran.out);
}

#[test]
fn every_rule_is_well_formed_and_the_reference_is_up_to_date() {
    let known: Vec<&str> = agentproto_suites::register().map(|s| s.id).collect();
    let mut seen = std::collections::BTreeSet::new();
    for rule in agentproto_aoi::rules::all() {
        assert!(seen.insert(rule.id), "duplicate rule {}", rule.id);
        let number = match rule.check {
            agentproto_aoi::model::CheckId::Number(n) => format!("AOI-{n:02}."),
            agentproto_aoi::model::CheckId::Advisory => "AOI-adv.".to_owned(),
        };
        assert!(rule.id.starts_with(&number), "{}", rule.id);
        assert!(rule.section.starts_with('§'), "{}", rule.id);
        for text in [rule.why, rule.hint] {
            assert!(text.ends_with('.'), "{}: {text}", rule.id);
        }
        assert!(!rule.requirement.ends_with('.'), "{}", rule.id);
        for id in rule.requirement_ids {
            assert!(
                known.contains(id),
                "{} checks {id}, which is not in the register",
                rule.id
            );
        }
    }
    let path = repository().join("docs/aoi-rules.md");
    let page = agentproto_aoi::render::docs::reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        found, page,
        "run `UPDATE_DOCS=1 cargo test --test judges` to update docs/aoi-rules.md"
    );
}
