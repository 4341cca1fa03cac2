//! Tests of every output format, through the binary.

use serde_json::Value;

use super::support::{Dir, text};

const FORMATS: [&str; 9] = [
    "human", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "agent",
];

pub fn schema(dir: &Dir, name: &str) -> jsonschema::Validator {
    let schema = dir.run(&["schema", "--name", name]).exits(0).json();
    jsonschema::validator_for(&schema).expect("a schema")
}

#[track_caller]
pub fn valid(validator: &jsonschema::Validator, value: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{value:#}");
}

#[test]
fn every_format_has_the_same_exit_code() {
    for format in FORMATS {
        Dir::heron().lint(&["--output", format]).exits(0);
        let dir = Dir::flawed();
        let ran = dir.lint(&["-o", format]).exits(1);
        assert!(ran.out.contains("tags-unique"), "{format}: {}", ran.out);
        assert!(
            !ran.out.contains('\u{1b}'),
            "{format} must not color piped output"
        );
        assert!(ran.err.is_empty(), "{format}: {}", ran.err);
        dir.lint(&["--format", format, "--exit-zero"]).exits(0);
    }
    let ran = Dir::heron().lint(&["-o", "xml"]).exits(64);
    assert!(ran.err.contains("jsonl"), "{}", ran.err);
}

#[test]
fn a_list_that_is_cut_says_so() {
    let dir = Dir::flawed();
    let cursor_of = |out: &str| {
        let line = out
            .lines()
            .find_map(|line| line.strip_prefix("more: --cursor "));
        line.map(str::to_owned)
    };
    let first = dir.lint(&["--limit", "1"]).exits(1).out;
    assert!(first.contains("checked: 2 errors"), "{first}");
    assert!(first.contains("findings: 1 to 1 of 2\n"), "{first}");
    let cursor = cursor_of(&first).expect("a cursor");
    let last = dir
        .lint(&["--limit", "1", "--cursor", &cursor])
        .exits(1)
        .out;
    assert!(last.contains("tags-unique"), "{last}");
    assert!(last.contains("findings: 2 to 2 of 2\n"), "{last}");
    assert_eq!(cursor_of(&last), None);
    let whole = dir.lint(&["--limit", "9"]).exits(1).out;
    assert!(!whole.contains("findings: "), "{whole}");
    // Formats that cannot say it print a note.
    let concise = dir.lint(&["--limit", "1", "-o", "concise"]).exits(1);
    assert_eq!(concise.out.lines().count(), 1, "{}", concise.out);
    assert!(concise.err.contains("more: --cursor "), "{}", concise.err);
    let json = dir.lint(&["--limit", "1", "-o", "json"]).exits(1).json();
    valid(&schema(&dir, "lint-report"), &json);
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["summary"]["errors"], 2);
    assert_eq!(json["truncated"], true);
    assert_eq!(json["next_cursor"], cursor);
    assert_eq!(dir.lint(&["-o", "json"]).json().get("truncated"), None);
    let summary = dir.lint(&["--limit", "1", "-o", "jsonl"]).exits(1).lines();
    let summary = summary.last().expect("a summary");
    assert_eq!(
        (&summary["count"], &summary["truncated"]),
        (&1.into(), &true.into())
    );
    assert_eq!(summary["findings"]["error"], 2);
    for list in [
        &["rules", "--limit", "2"] as &[&str],
        &["rules", "--kind", "aoi", "--limit", "2"],
        &["coverage", "--limit", "2"],
        &["mock", "--list", "--limit", "2"],
    ] {
        let out = dir.run(list).exits(0).out;
        assert!(out.contains(": 1 to 2 of "), "{list:?}: {out}");
        assert!(cursor_of(&out).is_some(), "{list:?}: {out}");
        let json = dir.run(&[list, &["-o", "json"]].concat()).exits(0).json();
        assert_eq!(json["truncated"], true, "{list:?}");
        assert!(json["next_cursor"].is_string(), "{list:?}");
    }
}

#[test]
fn a_file_in_another_format_gets_no_frontmatter() {
    for yaml in ["network: {}\n", "---\nnetwork: {}\n"] {
        let dir = Dir::new();
        dir.write("box/reader.yaml", yaml);
        let report = dir
            .lint(&["box/reader.yaml", "--fix", "-o", "json"])
            .exits(1)
            .json();
        let findings = report["findings"].as_array().expect("findings");
        assert_eq!(findings.len(), 1, "{report:#}");
        assert_eq!(findings[0]["rule"], "fm-missing");
        let what = "`reader.yaml` is not a Markdown file, so it is not a manifest";
        assert_eq!(findings[0]["message"], what);
        let help = text(&findings[0]["help"]);
        assert!(
            help.contains("`agentproto sandbox explain box/reader.yaml`"),
            "{help}"
        );
        assert_eq!(dir.read("box/reader.yaml"), yaml);
    }
}

#[test]
fn the_agent_format_repeats_paths_and_options() {
    let dir = Dir::flawed();
    let args = ["heron", "--select", "tags-*", "-o", "agent"];
    let ran = dir.lint(&args).exits(1).out;
    let again = "'--select=tags-*' --output=agent heron`";
    for command in [
        format!("run `agentproto lint --fix {again} (1 finding)"),
        format!("then run `agentproto lint {again} again"),
    ] {
        assert!(ran.contains(&command), "{ran}");
    }
}

#[test]
fn json_matches_its_schema() {
    let dir = Dir::flawed();
    let validator = schema(&dir, "lint-report");
    let report = dir.lint(&["-o", "json"]).exits(1).json();
    valid(&validator, &report);
    assert_eq!(report["schema"], "agentproto.lint/v1");
    assert_eq!(report["summary"]["files"], 5);
    assert_eq!(report["summary"]["errors"], 2);
    let tag = &report["findings"][1];
    assert_eq!(tag["pointer"], "/tags/1");
    assert_eq!(tag["fix"]["safety"], "safe");
    let source = dir.read("heron/AGENT-CLI.md");
    let range = |at: &str| tag[at]["byte"].as_u64().expect("a number") as usize;
    assert_eq!(&source[range("start")..range("end")], "coding");
    valid(&validator, &Dir::heron().lint(&["-o", "json"]).json());
}

#[test]
fn events_match_their_schema() {
    let dir = Dir::flawed();
    let validator = schema(&dir, "events");
    for args in [
        &["lint", "-o", "jsonl"] as &[&str],
        &["lint", "-o", "jsonl", "nowhere"],
        &["lint", "-o", "jsonl", "--select", "nope"],
        &["lint", "--output=jsonl", "--bogus"],
        &["rules", "-o", "jsonl"],
        &["explain", "tags-unique", "-o", "jsonl"],
        &["explain", "tag-unique", "-o", "jsonl"],
        &["coverage", "-o", "jsonl"],
        &["schema", "-o", "jsonl"],
        &["capabilities", "-o", "jsonl"],
    ] {
        let lines = dir.run(args).lines();
        let kinds: Vec<&str> = lines.iter().map(|l| text(&l["type"])).collect();
        assert_eq!(kinds.first(), Some(&"aoi:meta"), "{args:?}");
        assert_eq!(kinds.last(), Some(&"aoi:summary"), "{args:?}");
        for kind in ["aoi:meta", "aoi:summary"] {
            assert_eq!(kinds.iter().filter(|k| **k == kind).count(), 1, "{args:?}");
        }
        // Long lists repeat one shape, so the first 20 lines and the last one are enough.
        for line in lines.iter().take(20).chain(lines.last()) {
            valid(&validator, line);
        }
    }
    let lines = dir.lint(&["-o", "jsonl"]).exits(1).lines();
    assert_eq!(lines.len(), 4);
    let summary = &lines[3];
    assert_eq!(
        (&summary["ok"], &summary["findings"]["error"]),
        (&false.into(), &2.into())
    );
    assert_eq!(
        dir.lint(&["-o", "jsonl", "--exit-zero"]).lines()[3]["ok"],
        true
    );
}

#[test]
fn sarif_has_the_fields_that_services_read() {
    let sarif = Dir::flawed().lint(&["-o", "sarif"]).exits(1).json();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "agentproto");
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    for result in results {
        let id = text(&result["ruleId"]);
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], id);
        assert_eq!(result["level"], "error");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "heron/AGENT-CLI.md");
        assert!(place["region"]["startLine"].as_u64() > Some(1));
        assert!(result["partialFingerprints"].is_object());
    }
}

#[test]
fn ci_report_formats_have_the_expected_fields() {
    let dir = Dir::flawed();
    let junit = dir.lint(&["-o", "junit"]).exits(1).out;
    assert!(junit.starts_with("<?xml"), "{junit}");
    let count = |what: &str| junit.matches(what).count();
    assert!(
        junit.contains("failures=\"2\"") && count("<failure") == 2,
        "{junit}"
    );
    assert_eq!(
        count("<testsuite "),
        count("</testsuite>") + count("<testsuite />")
    );
    assert_balanced(&junit);
    let gitlab = dir.lint(&["-o", "gitlab"]).exits(1).json();
    let issues = gitlab.as_array().expect("a list");
    assert_eq!(issues.len(), 2);
    for issue in issues {
        assert!(!text(&issue["fingerprint"]).is_empty() && !text(&issue["description"]).is_empty());
        assert_eq!(issue["location"]["path"], "heron/AGENT-CLI.md");
        assert!(issue["location"]["lines"]["begin"].as_u64() > Some(1));
    }
    let github = dir.lint(&["-o", "github"]).exits(1).out;
    let notes = github
        .lines()
        .filter(|l| l.starts_with("::error file=heron/AGENT-CLI.md,line="));
    assert_eq!(notes.count(), 2, "{github}");
    assert_eq!(
        Dir::heron().lint(&["-o", "gitlab"]).json(),
        Value::Array(Vec::new())
    );
}

/// Checks that every opening tag has a closing tag.
fn assert_balanced(xml: &str) {
    let mut open = Vec::new();
    for tag in xml.split('<').skip(1) {
        let tag = tag.split('>').next().expect("an element");
        let name = |t: &str| t.split([' ', '/']).next().unwrap_or("").to_owned();
        if let Some(closing) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name(closing)), "{xml}");
        } else if !tag.starts_with(['?', '!']) && !tag.ends_with('/') {
            open.push(name(tag));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn color_follows_the_flag_then_the_environment() {
    let dir = Dir::flawed();
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = dir.command(&[&["lint"], args].concat());
        command.envs(env.iter().copied());
        let ran = super::support::Ran::from(command.output().expect("it runs"));
        ran.out.contains("\u{1b}[")
    };
    assert!(!colored(&[], &[]));
    assert!(colored(&["--color", "always"], &[]));
    assert!(colored(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    assert!(!colored(&[], &[("CLICOLOR_FORCE", "0")]));
    assert!(!colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--no-color", "--color", "always"], &[]));
    for format in ["json", "jsonl", "sarif", "junit", "gitlab"] {
        assert!(
            !colored(&["--color", "always", "-o", format], &[]),
            "{format}"
        );
    }
    dir.lint(&["--color", "sometimes"]).exits(64);
}

#[test]
fn verbose_messages_go_to_stderr() {
    let dir = Dir::flawed();
    let plain = dir.lint(&["-o", "json"]).exits(1);
    let verbose = dir.lint(&["-o", "json", "--verbose"]).exits(1);
    assert_eq!(verbose.out, plain.out);
    for said in [
        "configuration: none",
        "read heron/AGENT-CLI.md",
        "5 files read",
    ] {
        assert!(verbose.err.contains(said), "{}", verbose.err);
    }
    dir.lint(&["-q", "-v"]).exits(64);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    let dir = Dir::flawed();
    for args in [
        &["lint"] as &[&str],
        &["lint", "-o", "jsonl"],
        &["rules"],
        &["man"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = std::process::Command::new(assert_cmd::cargo::cargo_bin("agentproto"))
            .current_dir(dir.path())
            .args(args)
            .stdout(full.expect("a device"))
            .output()
            .expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(74), "{args:?}: {err}");
        assert!(
            err.contains("the output cannot be written"),
            "{args:?}: {err}"
        );
    }
}
