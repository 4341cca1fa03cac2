//! The suite files: every requirement is checked, the suite language matches its schema and its
//! guide, and mistakes in a suite file are reported with line and column.
//!
//! `UPDATE_DOCS=1` writes docs/suites/*.md.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use agentproto_harness::run::prompts;
use agentproto_harness::suite::{self, Suite, step_names, test_names};
use agentproto_manifest::{to_json, yaml};
use agentproto_suites::register;
use assert_cmd::Command;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn suites() -> Vec<Suite> {
    let suites = suite::names().map(|name| match suite::built_in(name) {
        Some(Ok(suite)) => suite,
        other => panic!("{name}: {other:?}"),
    });
    suites.collect()
}

fn files(dir: &Path, ending: &str, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ending, out);
        } else if path.extension().is_some_and(|e| e == ending) {
            out.push(path);
        }
    }
    out.sort();
}

fn schema(name: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&read(name)).expect("JSON");
    assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn as_json(text: &str) -> Value {
    to_json(&yaml::parse(text, 0).root.expect("a document"))
}

#[track_caller]
fn fits(validator: &jsonschema::Validator, value: &Value, name: &str) {
    let errors = validator.iter_errors(value).take(3);
    let errors: Vec<String> = errors
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

// --- requirements and cases ---------------------------------------------------------------

#[test]
fn every_requirement_is_checked_by_a_case_or_a_monitor() {
    for suite in suites() {
        assert!(!suite.requirements.is_empty(), "{}", suite.name);
        let mut ids = BTreeSet::new();
        for requirement in &suite.requirements {
            let id = &requirement.id;
            assert!(
                ids.insert(id),
                "duplicate requirement {id} in {}",
                suite.name
            );
            let by_case = suite.cases.iter().any(|case| case.decides.contains(id));
            assert!(
                by_case || !requirement.monitors.is_empty(),
                "{}: nothing checks {id}",
                suite.name
            );
            assert!(!requirement.section.is_empty(), "{id} has no section");
            assert!(!requirement.source.is_empty(), "{id} has no source");
        }
        let mut names = BTreeSet::new();
        for case in &suite.cases {
            assert!(names.insert(&case.id), "duplicate case {}", case.id);
            assert!(!case.steps.is_empty(), "{} has no steps", case.id);
            for id in &case.decides {
                assert!(
                    ids.contains(id),
                    "{} checks the unknown requirement {id}",
                    case.id
                );
            }
        }
    }
}

#[test]
fn the_acp_suite_has_every_requirement_of_the_catalog() {
    let chapters = [
        ("TR", 23),
        ("IN", 17),
        ("AU", 9),
        ("SE", 18),
        ("LD", 10),
        ("RS", 3),
        ("CL", 3),
        ("LI", 7),
        ("DE", 3),
        ("AD", 3),
        ("PT", 23),
        ("CR", 2),
        ("UP", 1),
        ("TC", 11),
        ("PE", 7),
        ("PL", 2),
        ("MO", 4),
        ("CO", 8),
        ("SL", 2),
        ("NO", 2),
        ("FS", 5),
        ("TE", 5),
        ("EL", 6),
        ("EX", 8),
    ];
    let suite = suites().into_iter().find(|s| s.name == "acp");
    let suite = suite.expect("the acp suite");
    let mut count = 0;
    for (chapter, most) in chapters {
        for number in 1..=most {
            let id = format!("{chapter}-{number:02}");
            assert!(suite.requirement(&id).is_some(), "{id} is missing");
            count += 1;
        }
    }
    assert_eq!((count, suite.requirements.len()), (182, 182));
}

#[test]
fn named_register_entries_exist() {
    let known: BTreeSet<&str> = register().map(|requirement| requirement.id).collect();
    for suite in suites() {
        for requirement in &suite.requirements {
            for row in &requirement.register {
                assert!(
                    known.contains(row.as_str()),
                    "{} names {row}, which is not in the register",
                    requirement.id
                );
            }
        }
    }
}

/// Ids of requirements in the source code of the monitors.
fn noted() -> BTreeSet<String> {
    let mut sources = Vec::new();
    files(
        &root().join("crates/harness/src/monitor"),
        "rs",
        &mut sources,
    );
    let is_id = |text: &str| {
        let mut parts = text.rsplitn(2, '-');
        let number = parts.next().unwrap_or_default();
        let chapter = parts.next().unwrap_or_default();
        // `V2` is a chapter although it contains a digit.
        let letters = |part: &str| {
            let upper = part.bytes().all(|b| b.is_ascii_uppercase());
            part == "V2" || (!part.is_empty() && upper)
        };
        number.len() == 2
            && number.bytes().all(|b| b.is_ascii_digit())
            && chapter.split('-').all(letters)
    };
    let mut ids = BTreeSet::new();
    for source in sources {
        let text = std::fs::read_to_string(&source).expect("text");
        let quoted = text.split('"').filter(|part| is_id(part));
        ids.extend(quoted.map(str::to_owned));
    }
    ids
}

#[test]
fn monitors_and_suites_name_the_same_requirements() {
    let noted = noted();
    assert!(noted.len() > 100, "{noted:?}");
    let suites = suites();
    let watched: BTreeSet<&String> = suites
        .iter()
        .flat_map(|suite| &suite.requirements)
        .flat_map(|requirement| &requirement.monitors)
        .collect();
    let required: BTreeSet<&String> = suites
        .iter()
        .flat_map(|suite| &suite.requirements)
        .map(|requirement| &requirement.id)
        .collect();
    let unknown: Vec<&String> = noted.iter().filter(|id| !required.contains(id)).collect();
    assert!(unknown.is_empty(), "unknown requirements: {unknown:?}");
    let silent: Vec<_> = watched.iter().filter(|id| !noted.contains(**id)).collect();
    assert!(silent.is_empty(), "no monitor checks {silent:?}");
}

// --- the language -------------------------------------------------------------------------

#[test]
fn every_built_in_suite_matches_the_schema() {
    let validator = schema("schemas/suite.schema.json");
    let mut found = Vec::new();
    files(&root().join("suites"), "yaml", &mut found);
    // Recipes of agents have their own format.
    found.retain(|path| !path.starts_with(root().join("suites/recipes")));
    assert!(found.len() > 10);
    for path in found {
        let text = std::fs::read_to_string(&path).expect("text");
        suite::parse(&text).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        fits(&validator, &as_json(&text), &path.to_string_lossy());
    }
}

fn keys(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let keys = schema.pointer(pointer).and_then(Value::as_object);
    keys.expect("properties").keys().cloned().collect()
}

#[test]
fn parser_and_schema_have_the_same_keys() {
    let schema: Value = serde_json::from_str(&read("schemas/suite.schema.json")).expect("JSON");
    let steps: BTreeSet<String> = step_names().map(str::to_owned).collect();
    assert_eq!(keys(&schema, "/$defs/step/properties"), steps);
    let mut tests: BTreeSet<String> = test_names().map(str::to_owned).collect();
    tests.extend(["at", "say", "decides", "guess"].map(str::to_owned));
    assert_eq!(keys(&schema, "/$defs/expectation/properties"), tests);
    let one_of = schema.pointer("/$defs/expectation/oneOf");
    let one_of = one_of.and_then(Value::as_array).expect("a list");
    let required: BTreeSet<&str> = one_of
        .iter()
        .filter_map(|one| one.pointer("/required/0").and_then(Value::as_str))
        .collect();
    assert_eq!(required, test_names().collect());
    let probes = schema.pointer("/$defs/step/properties/probe/enum");
    let probes = probes.and_then(Value::as_array).expect("a list");
    let probes: BTreeSet<&str> = probes.iter().filter_map(Value::as_str).collect();
    let known = agentproto_harness::lifecycle::PROBES.names();
    let known = known.chain(agentproto_harness::sessions::PROBES.names());
    assert_eq!(probes, known.collect());
    let prompts: Value = serde_json::from_str(&read("schemas/prompts.schema.json")).expect("JSON");
    let known = keys(&prompts, "/properties");
    for key in &known {
        assert!(prompts::parse(&format!("{key}: x")).is_ok(), "{key}");
    }
    for key in prompts::names() {
        assert!(known.contains(key), "{key}");
    }
}

/// A suite with these steps.
fn with_steps(steps: &str) -> String {
    let steps: String = steps.lines().map(|l| format!("      {l}\n")).collect();
    format!(
        "suite: agentproto.suite/v1\nname: x\nrequirements:\n  - {{id: X-01, statement: x}}\n\
         cases:\n  - id: c\n    decides: [X-01]\n    steps:\n{steps}"
    )
}

/// Steps that both must refuse: a key that no step has, and a value of the wrong type.
#[test]
fn parser_and_schema_refuse_the_same_steps() {
    let validator = schema("schemas/suite.schema.json");
    let mut wrong: Vec<String> = Vec::new();
    // A message may have any members.
    for step in step_names().filter(|step| *step != "message") {
        wrong.push(format!("- {step}: {{no_such_key: 1}}"));
        wrong.push(format!("- {step}: 12"));
    }
    let tests = [
        "result: yes",
        "answer: 1",
        "error: x",
        "error: [x]",
        "type: text",
        "present: x",
        "non_empty: false",
        "distinct: 1",
        "absolute: false",
        "at_least: x",
        "at_most: []",
        "length: -1",
        "schema: 5",
        "matches: 5",
        "is: 1, is_not: 2",
        "at: /x",
        "is: 1, at: x",
        "is: 1, guess: maybe",
        "is: 1, sya: oops",
    ];
    wrong.extend(tests.map(|test| format!("- expect: [{{{test}}}]")));
    wrong.push("- {alive: {}, cancel: {}}".to_owned());
    wrong.push("- wait_for: {as: x}".to_owned());
    wrong.push("- turn: {key: text, blocks: []}".to_owned());
    wrong.push("- turn: {}".to_owned());
    wrong.push("- raw: {}".to_owned());
    wrong.push("- quiet: {seconds: 601}".to_owned());
    wrong.push("[]".to_owned());
    for steps in wrong {
        let text = with_steps(&steps);
        assert!(suite::parse(&text).is_err(), "the parser accepts {steps}");
        let value = as_json(&text);
        assert!(!validator.is_valid(&value), "the schema accepts {steps}");
    }
}

#[test]
fn mistakes_are_reported_with_line_and_column() {
    let good = "suite: agentproto.suite/v1\nname: x\n\
                requirements:\n  - id: X-01\n    statement: x\n\
                cases:\n  - id: c\n    decides: [X-01]\n    steps:\n      - alive: {}\n";
    assert!(suite::parse(good).is_ok());
    let cases = [
        (
            "agentproto.suite/v1",
            "agentproto.suite/v2",
            (1, 8),
            "must be `agentproto.suite/v1`",
        ),
        ("name: x", "nmae: x", (2, 1), "did you mean `name`?"),
        (
            "    statement: x",
            "    statment: x",
            (5, 5),
            "did you mean `statement`?",
        ),
        (
            "    statement: x",
            "    statement: x\n    level: MUSST",
            (6, 12),
            "`MUST`",
        ),
        (
            "decides: [X-01]",
            "decides: [X-02]",
            (8, 14),
            "`X-02` is not in `requirements`",
        ),
        ("alive: {}", "aliv: {}", (10, 9), "did you mean `alive`?"),
        (
            "alive: {}",
            "call: {metod: a}",
            (10, 16),
            "did you mean `method`?",
        ),
        (
            "alive: {}",
            "expect: [{is: 1, at: x}]",
            (10, 30),
            "JSON Pointer",
        ),
        (
            "alive: {}",
            "expect: [{equals: 1}]",
            (10, 18),
            "exactly one test",
        ),
        (
            "alive: {}",
            "expect: [{is: 1, decides: X-09}]",
            (10, 35),
            "`X-09`",
        ),
        (
            "alive: {}",
            "expect: [{matches: '('}]",
            (10, 28),
            "ECMAScript pattern",
        ),
        (
            "alive: {}",
            "wait_for: {as: x}",
            (10, 19),
            "`wait_for` needs",
        ),
        ("alive: {}", "signal: STOP", (10, 17), "`TERM`"),
        (
            "  - id: c\n",
            "  - id: c\n    begin: start\n",
            (8, 12),
            "`initialized`",
        ),
        (
            "      - alive: {}",
            "      - alive: {",
            (10, 16),
            "this bracket is never closed",
        ),
    ];
    for (old, new, place, message) in cases {
        let text = good.replacen(old, new, 1);
        let mistakes = suite::parse(&text).expect_err(new);
        let found = mistakes
            .iter()
            .any(|m| (m.line, m.column) == place && m.message.contains(message));
        assert!(found, "{new}: {place:?} {message}\n{mistakes:#?}");
    }
    // All mistakes are reported at once, each with the file name.
    let dir = tempfile::tempdir().expect("a directory");
    let text = good.replacen("name: x", "nmae: x", 1);
    let text = text.replacen("alive", "aliv", 1);
    std::fs::write(dir.path().join("mine.yaml"), text).expect("written");
    let output = Command::cargo_bin("agentproto")
        .expect("the binary")
        .current_dir(dir.path())
        .args(["certify", "--mock", "acp", "--suite", "mine.yaml"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(65), "{said}");
    assert!(said.contains("mine.yaml:2:1: "), "{said}");
    assert!(said.contains("\n  mine.yaml:10:9: "), "{said}");
    assert!(
        said.contains("mine.yaml:10:9: unknown step `aliv`"),
        "{said}"
    );
}

// --- the guide ----------------------------------------------------------------------------

/// The YAML blocks in a guide.
fn blocks(name: &str) -> Vec<String> {
    let text = read(name);
    let blocks = text.split("```yaml\n").skip(1);
    blocks
        .filter_map(|rest| rest.split("```").next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_guide_has_an_example_of_every_step_and_test() {
    let validator = schema("schemas/suite.schema.json");
    let mut used: BTreeSet<String> = BTreeSet::new();
    fn collect(value: &Value, used: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    used.insert(key.clone());
                    collect(value, used);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, used)),
            _ => {}
        }
    }
    for block in blocks("docs/suites.md") {
        let text = match block.starts_with("- ") {
            true => with_steps(&block),
            false => block,
        };
        suite::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let value = as_json(&text);
        fits(&validator, &value, &text);
        collect(&value, &mut used);
    }
    let missing: Vec<&str> = step_names()
        .chain(test_names())
        .filter(|name| !used.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no example of {missing:?}");
}

#[test]
fn prompts_files_in_the_guides_are_valid() {
    let validator = schema("schemas/prompts.schema.json");
    let mut seen = 0;
    for block in blocks("docs/certify.md") {
        if !block.starts_with("text:") {
            continue;
        }
        prompts::parse(&block).unwrap_or_else(|e| panic!("{e:?}\n{block}"));
        fits(&validator, &as_json(&block), &block);
        seen += 1;
    }
    assert!(seen > 0);
    let guide = read("docs/certify.md");
    for key in prompts::names() {
        assert!(guide.contains(&format!("\n| `{key}` |")), "{key}");
    }
    let mistakes = prompts::parse("text: hi\ntol: x\n").expect_err("a typo");
    assert_eq!((mistakes[0].line, mistakes[0].column), (2, 1));
    assert!(mistakes[0].message.contains("did you mean `tool`?"));
}

#[test]
fn the_example_suite_in_the_guide_runs_as_documented() {
    let example = blocks("docs/suites.md");
    let example = example.iter().find(|b| b.starts_with("suite:"));
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("house.yaml"), example.expect("an example")).expect("written");
    let output = Command::cargo_bin("agentproto")
        .expect("the binary")
        .current_dir(dir.path())
        .args([
            "certify",
            "--mock",
            "acp",
            "--suite",
            "house.yaml",
            "-o",
            "json",
        ])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let rows = report["results"].as_array().expect("rows");
    let row = |id: &str| {
        let row = rows.iter().find(|row| row["requirement"] == id);
        row.unwrap_or_else(|| panic!("no row {id} in {rows:#?}"))
    };
    assert_eq!(row("HOUSE-01")["verdict"], "pass");
    assert_eq!(row("HOUSE-02")["verdict"], "fail");
    let message = row("HOUSE-02")["message"].as_str().expect("a text");
    assert_eq!(message, "the agent calls itself agentproto-mock");
    assert!(
        !row("HOUSE-02")["evidence"]
            .as_array()
            .expect("lines")
            .is_empty()
    );
    assert_eq!(row("HOUSE-03")["verdict"], "pass");
}

#[test]
fn the_reference_of_every_suite_is_up_to_date() {
    let dir = root().join("docs/suites");
    let pages = suites().into_iter();
    let pages = pages.map(|suite| (suite.name.clone(), suite::reference(&suite)));
    let kit = ("tck".to_owned(), agentproto_harness::tck::reference());
    for (name, page) in pages.chain([kit]) {
        let path = dir.join(format!("{name}.md"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(&dir).expect("created");
            std::fs::write(&path, &page).expect("written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page,
            "{} is out of date; run `UPDATE_DOCS=1 cargo test --test judges` to update it",
            path.display()
        );
    }
}

// --- coverage -----------------------------------------------------------------------------

#[test]
fn coverage_names_rules_cases_and_monitors() {
    let output = Command::cargo_bin("agentproto")
        .expect("the binary")
        .args(["coverage", "-o", "json"])
        .output()
        .expect("it runs");
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = table["requirements"].as_array().expect("rows");
    let by = |id: &str| {
        let row = rows.iter().find(|row| row["id"] == id);
        let by = row.unwrap_or_else(|| panic!("no row {id}"))["decided_by"].clone();
        let by = by.as_array().expect("a list").clone();
        by.iter()
            .map(|by| by.as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let has = |id: &str, decider: &str| by(id).iter().any(|by| by == decider);
    assert!(has("A44-OP-08", "case:acp/PT-01"), "{:?}", by("A44-OP-08"));
    assert!(has("PT-02", "monitor:acp/PT-02"));
    assert!(has("OD-29", "case:open-design/OD-29"), "{:?}", by("OD-29"));
    assert!(has("A45-CAP-07", "rule:caps-superset-of-acp"));
    assert!(
        has("A45-CAP-07", "case:acp/LD-01"),
        "{:?}",
        by("A45-CAP-07")
    );
    // The register marks this requirement as not checked, whatever else is named there.
    assert!(by("A44-MCP-01").is_empty());
    for suite in suites() {
        for requirement in &suite.requirements {
            assert!(!by(&requirement.id).is_empty(), "{}", requirement.id);
        }
    }
}
