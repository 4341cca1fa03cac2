//! All subcommands except `lint`.

use agentproto_lint::registry;

use super::support::{Dir, Ran, text};

#[test]
fn help_and_version() {
    let dir = Dir::new();
    let help = dir.run(&["--help"]).exits(0).out;
    for command in [
        "lint",
        "explain",
        "rules",
        "coverage",
        "serve",
        "sessions",
        "workspace",
        "schema",
        "capabilities",
        "completions",
        "man",
    ] {
        assert!(help.contains(&format!("\n  {command}")), "{help}");
        dir.run(&[command, "--help"]).exits(0);
    }
    let version = format!("agentproto {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(dir.run(&["--version"]).exits(0).out, version);
    let ran = dir.run(&["lnit"]).exits(64);
    assert!(
        ran.err.contains("lint") && ran.out.is_empty(),
        "{}",
        ran.err
    );
    dir.run(&[]).exits(64);
}

#[test]
fn a_missing_double_dash_is_explained() {
    let dir = Dir::new();
    for words in [
        &["certify", "my-agent", "acp"][..],
        &["aoi-lint", "my-tool", "search"],
        &["record", "my-agent"],
    ] {
        let ran = dir.run(words).exits(64);
        let tip = format!("`agentproto {} [OPTIONS] -- my-tool …`", words[0]);
        assert!(ran.err.contains(&tip), "{words:?}: {}", ran.err);
        let ran = dir.run(&[words, &["--output", "jsonl"]].concat()).exits(64);
        assert!(ran.out.contains(&tip), "{words:?}: {}", ran.out);
    }
    for words in [&["certify", "--", "x", "--mock"][..], &["lint", "--odd"]] {
        let ran = dir.run(words);
        assert!(
            !ran.err.contains("put `--` before"),
            "{words:?}: {}",
            ran.err
        );
    }
}

#[test]
fn every_rule_is_explained() {
    let dir = Dir::new();
    let slugs: Vec<&str> = registry::rules().map(|r| r.slug).collect();
    // One process per rule would take too long, and the renderer is the same for all rules.
    for rule in registry::rules() {
        let mut page = Vec::new();
        agentproto_lint::render::docs::explain_human(rule, &mut page).expect("written");
        let page = String::from_utf8(page).expect("UTF-8");
        assert!(
            page.contains(rule.slug) && page.contains(rule.what_it_checks()),
            "{page}"
        );
    }
    for slug in slugs.iter().step_by(40) {
        let page = dir.run(&["explain", slug]).exits(0).out;
        assert!(page.contains(slug), "{page}");
        let json = dir.run(&["explain", slug, "-o", "json"]).exits(0).json();
        assert_eq!(json["slug"], *slug, "{json}");
    }
    let ran = dir.run(&["explain", "tag-unique"]).exits(64);
    assert!(
        ran.err.contains("did you mean `tags-unique`?"),
        "{}",
        ran.err
    );
    dir.run(&["explain"]).exits(64);
}

#[test]
fn a_requirement_page_names_its_proofs_or_the_reason() {
    let dir = Dir::new();
    let explain = |id: &str| dir.run(&["explain", id]).exits(0).out;
    let page = explain("A29-INSTALL-17");
    let tested = "agentproto itself is tested for this requirement (";
    assert!(page.contains(tested), "{page}");
    let record = dir
        .run(&["explain", "A29-INSTALL-17", "-o", "json"])
        .exits(0)
        .json();
    let proofs = record["proven_by"].as_array().expect("a list");
    let named = |proof: &serde_json::Value| {
        let text = proof.as_str().unwrap_or_default();
        text.starts_with("test:tests/runtime/install/fetching.rs::")
    };
    assert!(proofs.iter().any(named), "{record:#}");
    let page = explain("A44-OP-03");
    assert!(page.contains("definition · AIP-44, "), "{page}");
    let untested = "agentproto itself is not tested for this requirement: ";
    assert!(page.contains(untested), "{page}");
    // A requirement of a suite has the same line.
    let page = explain("PT-11");
    assert!(page.contains(tested), "{page}");
}

#[test]
fn the_statement_of_the_spec_comes_before_that_of_the_suite() {
    let dir = Dir::new();
    let page = dir.run(&["explain", "A29-PRIN-02"]).exits(0).out;
    let spec = page.find("The declared sandbox is enforced");
    let suite = page.find("The suite `lifecycle` checks: Every clause");
    assert!(spec.is_some() && spec < suite, "{page}");
    let page = dir.run(&["explain", "TR-20"]).exits(0).out;
    assert!(page.contains("not in the spec · about ACP v1"), "{page}");
    // The start of a name lists what it may be.
    let ran = dir.run(&["explain", "caps-superset"]).exits(64);
    assert!(
        ran.err.contains("start with it: caps-superset-of-acp"),
        "{}",
        ran.err
    );
}

/// Each command suggests only what it accepts.
#[test]
fn a_missing_target_gets_a_hint_for_its_command() {
    let dir = Dir::new();
    let home = dir.at("home");
    let run = |args: &[&str]| -> Ran {
        let mut command = dir.command(args);
        let output = command.env("AGENTPROTO_HOME", &home).output();
        output.expect("it runs").into()
    };
    dir.write("empty/README.md", "---\ntitle: A page\n---\n");
    let agent = "pass an AGENT-CLI.md, or a directory that contains one";
    let tool = "pass a CLI.md, a TOOL.md, or a directory that contains a CLI.md";
    for (args, expected) in [
        (&["run", "./nope", "--prompt", "x"][..], agent),
        (&["run", "empty/README.md", "--prompt", "x"], agent),
        (&["run", "./empty", "--prompt", "x"], "no AGENT-CLI.md in"),
        (&["run", "nope", "--prompt", "x"], "unknown agent `nope`"),
        (&["call", "./nope"], tool),
        (&["call", "./empty"], "no CLI.md in"),
        (&["call", "nope"], "unknown tool `nope`"),
        (&["mcp", "--bundle", "nope"], "unknown tool `nope`"),
        (&["install", "nope"], "unknown agent or tool `nope`"),
    ] {
        let ran = run(args);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
        let is_tool = matches!(args, ["call" | "mcp", ..]);
        assert!(!is_tool || !ran.err.contains("mock-"), "{}", ran.err);
    }
    // The hint for an invalid manifest can be run from any directory.
    dir.write("bad/AGENT-CLI.md", "---\nid: [\n---\n");
    let ran = run(&["run", "./bad", "--prompt", "x"]);
    let path = dir.at("bad/AGENT-CLI.md");
    let expected = format!("agentproto lint {}", path.display());
    assert!(ran.err.contains(&expected), "{}", ran.err);
}

#[test]
fn formats_of_reports_need_a_check_of_the_recording() {
    let dir = Dir::new();
    let talk = crate::support::fixtures().join("aoi/agentproto/records/talk.jsonl");
    let talk = talk.to_str().expect("UTF-8");
    for command in [&[][..], &["--", "true"]] {
        let args = [&["replay", talk, "-o", "html"], command].concat();
        let ran = dir.run(&args).exits(64);
        assert!(
            ran.err.contains("`--output html` needs `--check`"),
            "{}",
            ran.err
        );
    }
    // `--judge` is the old name.
    for check in ["--check", "--judge"] {
        let ran = dir.run(&["replay", talk, check, "-o", "html"]).exits(0);
        assert!(ran.out.starts_with("<!doctype html>"), "{}", ran.out);
    }
    let human = dir.run(&["replay", talk, "--check"]).exits(0).out;
    let last = human.lines().last().unwrap_or_default();
    assert!(last.starts_with("checked 1 recorded process in "), "{last}");
}

#[test]
fn a_typo_of_an_option_gets_no_tip_about_commands() {
    let dir = Dir::new();
    let tip = "put `--` before the command to run";
    let ran = dir.run(&["certify", "--moc", "acp"]).exits(64);
    assert!(ran.err.contains("'--mock'"), "{}", ran.err);
    assert!(!ran.err.contains(tip), "{}", ran.err);
    let ran = dir.run(&["certify", "my-agent", "--stdio"]).exits(64);
    assert!(ran.err.contains(tip), "{}", ran.err);
}

#[test]
fn rules_are_listed_with_all_their_fields() {
    let dir = Dir::new();
    let json = dir.run(&["rules", "--output", "json"]).exits(0).json();
    let rules = json["rules"].as_array().expect("a list");
    assert_eq!(rules.len(), registry::rules().count());
    for rule in rules {
        for field in ["slug", "title", "severity", "level", "scope", "fix"] {
            assert!(!text(&rule[field]).is_empty(), "{rule}");
        }
        for field in ["spec", "section", "level"] {
            assert!(rule["source"][field].is_string(), "{rule}");
        }
        for profile in ["default", "spec", "reference"] {
            let severity = &rule["profiles"][profile];
            assert!(severity.is_string() || severity.is_null(), "{rule}");
        }
        assert!(
            rule["doctypes"].is_array() && rule["decides"].is_array(),
            "{rule}"
        );
        if rule["level"] == "derived" {
            assert_ne!(rule["profiles"]["spec"], "error", "{rule}");
        }
    }
    let human = dir.run(&["rules"]).exits(0).out;
    assert!(registry::rules().all(|r| human.contains(r.slug)));
}

/// The totals of `coverage -o json` agree with its rows and with each other.
fn totals_add_up(report: &serde_json::Value) {
    let rows = report["requirements"].as_array().expect("a list");
    let totals = report["totals"].as_array().expect("a list");
    let number = |total: &serde_json::Value, key: &str| total[key].as_u64().expect("a number");
    let (all, specs) = totals.split_last().expect("a total");
    for key in ["requirements", "proven", "explained", "open"] {
        let sum: u64 = specs.iter().map(|spec| number(spec, key)).sum();
        assert_eq!(sum, number(all, key), "{key}");
    }
    for total in totals {
        let parts = ["proven", "explained", "open"].map(|key| number(total, key));
        assert_eq!(
            parts.iter().sum::<u64>(),
            number(total, "requirements"),
            "{total}"
        );
        let of = |row: &&serde_json::Value| total == all || row["spec"] == total["spec"];
        let proven = rows
            .iter()
            .filter(of)
            .filter(|row| row["gap"].is_null())
            .count();
        assert_eq!(proven as u64, number(total, "proven"), "{total}");
    }
}

#[test]
fn coverage_in_every_format() {
    let dir = Dir::new();
    let human = dir.run(&["coverage"]).exits(0).out;
    assert!(human.contains("requirements are tested: "), "{human}");
    let all = dir.run(&["coverage", "-o", "json"]).exits(0).json();
    totals_add_up(&all);
    let all = all["requirements"].as_array().expect("a list").len();
    let gaps = dir
        .run(&["coverage", "--gaps", "-o", "json"])
        .exits(0)
        .json();
    let gaps = gaps["requirements"].as_array().expect("a list").clone();
    assert!(
        gaps.len() < all
            && gaps
                .iter()
                .all(|g| g["proven_by"] == serde_json::json!([]) && g["gap"].is_string())
    );
    let one = dir
        .run(&["coverage", "--spec", "AIP-45", "-o", "json"])
        .exits(0)
        .json();
    let one = one["requirements"].as_array().expect("a list").clone();
    assert!(!one.is_empty() && one.iter().all(|r| r["spec"] == "AIP-45"));
    dir.run(&["coverage", "--spec", "AIP-0"]).exits(64);
}

/// Runs the binary without `PATH`, `HOME` or any other environment variable.
fn bare(dir: &Dir, args: &[&str]) -> Ran {
    dir.command(args)
        .env_clear()
        .output()
        .expect("it runs")
        .into()
}

#[test]
fn discovery_works_in_an_empty_environment() {
    let dir = Dir::new();
    dir.write("agentproto.toml", "not valid TOML");
    let capabilities = bare(&dir, &["capabilities", "--output", "json"])
        .exits(0)
        .json();
    assert_eq!(capabilities["tool"], "agentproto");
    let commands = capabilities["commands"].as_array().expect("a list");
    for command in commands {
        let mut words: Vec<&str> = text(&command["name"]).split(' ').collect();
        words.push("--help");
        bare(&dir, &words).exits(0);
    }
    bare(&dir, &["capabilities"]).exits(0).json();
    let schema = bare(&dir, &["schema", "--output", "json"]).exits(0).json();
    jsonschema::validator_for(&schema).expect("the events have a schema");
    let list = bare(&dir, &["schema", "--name", "list"]).exits(0).json();
    for name in list["schemas"].as_array().expect("a list") {
        let schema = bare(&dir, &["schema", "--name", text(name)])
            .exits(0)
            .json();
        assert!(schema["$schema"].is_string(), "{name}");
    }
    bare(&dir, &["schema", "--schema-version", "1"]).exits(0);
    bare(&dir, &["schema", "--schema-version", "9"]).exits(64);
    let ran = bare(&dir, &["schema", "--name", "event"]).exits(64);
    assert!(ran.err.contains("did you mean `events`?"), "{}", ran.err);
}

#[test]
fn completions_for_every_shell() {
    let dir = Dir::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dir.run(&["completions", shell]).exits(0).out;
        for word in ["agentproto", "stdin-filename", "capabilities"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    dir.run(&["completions", "tcsh"]).exits(64);
}

#[test]
fn the_manual_lists_every_command() {
    let man = Dir::new().run(&["man"]).exits(0).out;
    assert!(man.contains(".TH"), "{man}");
    for word in [
        "lint",
        "explain",
        "coverage",
        "serve",
        "write\\-baseline",
        "stdin\\-filename",
    ] {
        assert!(man.contains(word), "{word}");
    }
}
