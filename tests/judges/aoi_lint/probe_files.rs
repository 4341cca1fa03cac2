//! The probe file: its parser and its schema agree, and mistakes are reported with line and column.

use std::collections::BTreeSet;
use std::path::Path;

use agentproto_aoi::probe::{self, KEYS_BY_MAPPING, Observe};
use serde_json::Value;

use crate::aoi_lint::{Dir, assert_valid, repository, schema};

/// A probe file with every key.
const FULL: &str = r#"aoi_probe: 1
title: outline
tool: [./outline]
machine_args: [--output, jsonl]
env: {OUTLINE_STATE: "{world}/state"}
credentials: {env: [OUTLINE_TOKEN], files: [~/.config/outline]}
sandbox: true
setup: [["./seed.sh"]]
teardown: [["./wipe.sh"]]
observe: {command: [list], id: /id}
local_only_schema: true
caches: ["{world}/cache"]
leave_out: [doctor]
commands:
  search:
    title: find
    ok: [search, agent]
    read_only: true
    malformed: [[search]]
    limit: {flag: --limit, total: 25, page: 7, default: 20, cursor_flag: --cursor, id: /id, unit: events}
    slow: [search, agent, --delay-ms, "60"]
    secrets: [["--token","{canary}"],["--header","Authorization: Bearer {canary}"]]
  create: {mutating: true, ok: [create, "n-{uniq}"], idempotency: {flag: --idempotency-key}, events: [created], id: /id, dry_run: --dry-run}
  delete: {destructive: true, target: {from: create}, ok: [delete, "{id}"], confirm: [--confirm], dry_run: --dry-run, events: [deleted]}
  import:
    input:
      flag: [--input-jsonl, "-"]
      good: ['{"name":"a"}','{"name":"b"}']
      bad: ['not json','[1]','{"nmae":1}']
      modes: {fail_fast: [], continue: [--continue-on-error]}
      default: fail_fast
      upstream: true
  watch: {unbounded: true, ok: [watch]}
  fetch: {needs_auth: true, ok: [fetch]}
  enable: {mutating: true, ok: [enable, alpha], other: [enable, beta], stdin: yes please}
schema: {versions: {flag: --schema-version, accept_flag: --accept-schema, ok: ["1","2"], unsupported: "9999"}}
"#;

/// A probe file with `{here}` in every text that may contain a path.
const PLACES: &str = r#"aoi_probe: 1
tool: ["{here}/tool"]
machine_args: ["--out={here}"]
env: {STATE: "{here}/state"}
credentials: {files: ["{here}/token"]}
setup: [["{here}/seed"]]
teardown: [["{here}/wipe"]]
observe: {OBSERVE}
caches: ["{here}/cache"]
commands:
  put:
    mutating: true
    ok: [put, "{here}/a"]
    other: [put, "{here}/b"]
    stdin: "text of {here}"
    malformed: [[put, "{here}/c"]]
    slow: [put, "{here}/d"]
    secrets: [["--key-file={here}/{canary}"]]
    confirm: ["--confirm={here}"]
  take:
    input:
      flag: ["--from={here}/e"]
      good: ['{"path":"{here}/f"}']
      bad: ['{here}']
      modes: {fail_fast: ["{here}/g"], continue: ["{here}/h"]}
"#;

fn as_json(yaml: &str) -> Value {
    let value: serde_yaml::Value = serde_yaml::from_str(yaml).expect("YAML");
    serde_json::to_value(value).expect("JSON")
}

#[test]
fn a_full_file_is_parsed() {
    let probe = probe::parse(FULL, Path::new("/base")).expect("no mistake");
    assert_eq!(probe.tool, ["./outline"]);
    assert_eq!(probe.commands.len(), 7);
    assert!(matches!(&probe.observe, Some(Observe::Command { id, .. }) if id == "/id"));
    let [search, create, delete, import, watch, fetch, enable] = &probe.commands[..] else {
        panic!("expected seven commands");
    };
    let other = enable.other.as_ref().expect("another one");
    assert_eq!(other[..], ["enable", "beta"]);
    assert_eq!(enable.stdin.as_deref(), Some("yes please"));
    assert_eq!(search.line, 16, "the line of a command");
    assert_eq!(
        search.limit.as_ref().map(|l| (l.total, l.page)),
        Some((25, 7))
    );
    assert!(create.mutating && !create.destructive);
    assert!(delete.mutating && delete.destructive);
    assert_eq!(delete.target_from.as_deref(), Some("create"));
    assert!(
        import
            .input
            .as_ref()
            .is_some_and(|i| i.upstream && i.tolerant.is_some())
    );
    assert!(watch.unbounded && fetch.needs_auth);
    assert_eq!(probe.base, Path::new("/base"));
}

#[test]
fn here_is_replaced_with_the_directory_of_the_file() {
    let looks = [
        "{command: [list, '{here}'], id: /id}",
        "{dir: '{here}/state'}",
        "{exec: ['{here}/look']}",
    ];
    for look in looks {
        let text = PLACES.replace("{OBSERVE}", look);
        let named = text.matches("{here}").count();
        let probe = probe::parse(&text, Path::new("/base")).expect("no mistake");
        let read = format!("{probe:?}");
        assert!(!read.contains("{here}"), "{look}: {read}");
        // One more is the path of the file itself.
        assert_eq!(read.matches("/base").count(), named + 1, "{look}: {read}");
        assert!(schema("aoi-probe.schema.json").is_valid(&as_json(&text)));
    }
}

#[test]
fn the_example_in_the_guide_is_valid() {
    let guide = std::fs::read_to_string(repository().join("docs/aoi-lint.md")).expect("a guide");
    let (_, rest) = guide.split_once("```yml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let read = probe::parse(example, Path::new("/"));
    assert!(read.is_ok(), "{:?}", read.err());
    assert!(schema("aoi-probe.schema.json").is_valid(&as_json(example)));
}

#[test]
fn the_probe_files_of_this_repository_are_valid() {
    let validator = schema("aoi-probe.schema.json");
    for file in [
        "fixtures/aoi/agentproto.yaml",
        "mock-agents/mock-aoi/probe.yaml",
        "fixtures/demo/aoi/aoi-probe.yaml",
    ] {
        let text = std::fs::read_to_string(repository().join(file)).expect("a file");
        let read = probe::parse(&text, Path::new("/"));
        assert!(read.is_ok(), "{file}: {:?}", read.err());
        assert!(validator.is_valid(&as_json(&text)), "{file}");
    }
}

/// Line, column and message of every mistake in a text.
fn mistakes(text: &str) -> Vec<(u32, u32, String)> {
    let mistakes = probe::parse(text, Path::new("/")).expect_err("a mistake");
    mistakes
        .into_iter()
        .map(|m| (m.line, m.column, m.message))
        .collect()
}

/// Line, column, and a part of the message.
type Mistake = (u32, u32, &'static str);

const BAD: &[(&str, &[Mistake])] = &[
    (
        "aoi_probe: 2\ntool: [x]\n",
        &[(1, 12, "`aoi_probe` must be 1")],
    ),
    ("tool: [x]\n", &[(1, 1, "`aoi_probe: 1` is missing")]),
    ("aoi_probe: 1\n", &[(1, 1, "`tool` is missing")]),
    ("aoi_probe: 1\ntool: ./x y\n", &[(2, 7, "list of words")]),
    (
        "aoi_probe: 1\ntool: [x]\nsandbx: true\n",
        &[(3, 1, "did you mean `sandbox`?")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\nsandbox: maybe\n",
        &[(3, 10, "true or false")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands: [search]\n",
        &[(3, 11, "must be a mapping")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  search: {ok: [search, 5]}\n",
        &[(4, 25, "`ok` must contain only strings")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  search: {ok: [a], limt: {}}\n  b: {}\n",
        &[(4, 21, "did you mean `limit`?"), (5, 6, "has no `ok`")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], limit: {flag: --n, total: 0, page: 1}}\n",
        &[(4, 42, "`total` must be an integer between 1")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], id: id}\n",
        &[(4, 20, "JSON Pointer")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], secrets: [[--token, hush]]}\n",
        &[(4, 26, "{canary}")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], mutating: true, read_only: true}\n",
        &[(4, 6, "cannot be both")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\nobserve: {id: /id}\n",
        &[(3, 10, "one of `command`")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {input: {default: tolerant}}\n",
        &[(4, 24, "`default` must be")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], other: []}\n",
        &[(4, 23, "`other` is empty")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], other: a b}\n",
        &[(4, 23, "`other` must be a list of words")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], other: [a, \"{id}\"]}\n",
        &[(4, 23, "it names its own resource")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], other: [b], target: {from: a}}\n",
        &[(4, 23, "remove `other`: with `target`")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], other: [b], input: {good: [c]}}\n",
        &[(4, 23, "remove `other`: with `input`")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], other: [b], read_only: true}\n",
        &[(4, 23, "this one is read_only")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], stdin: [b]}\n",
        &[(4, 23, "`stdin` must be a string")],
    ),
    (
        "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], stdin: b, input: {good: [c]}}\n",
        &[(4, 23, "remove one of them")],
    ),
];

#[test]
fn mistakes_have_a_position_and_fail_the_schema() {
    let validator = schema("aoi-probe.schema.json");
    assert!(validator.is_valid(&as_json(FULL)));
    for (text, expected) in BAD {
        let found = mistakes(text);
        assert_eq!(found.len(), expected.len(), "{text}\n{found:?}");
        for ((line, column, message), (l, c, part)) in found.iter().zip(*expected) {
            assert_eq!((line, column), (l, c), "{text}\n{found:?}");
            assert!(message.contains(part), "{text}\n{message}");
        }
        assert!(
            !validator.is_valid(&as_json(text)),
            "the schema accepts\n{text}"
        );
    }
    // Mistakes that only the parser finds.
    let text = "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a, b], other: [a, b]}\n";
    let found = mistakes(text);
    assert_eq!((found.len(), found[0].0, found[0].1), (1, 4, 26));
    assert!(found[0].2.contains("the same as `ok`"), "{found:?}");
    let text = "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], limit: {flag: -n, total: 5, page: 6}}\n";
    let found = mistakes(text);
    assert_eq!((found.len(), found[0].0, found[0].1), (1, 4, 50));
    let expected = "`page` must be at most `total` (5), found 6";
    assert!(found[0].2.contains(expected), "{found:?}");
    let text = "aoi_probe: 1\ntool: [x]\ncommands:\n  a: {ok: [a], target: {from: b}}\n";
    assert!(mistakes(text)[0].2.contains("`target.from` names `b`"));
    assert!(!mistakes("tool: [x\n").is_empty());
    assert!(!mistakes("- a\n").is_empty());
    assert!(!mistakes("").is_empty());
}

#[test]
fn parser_and_schema_have_the_same_keys() {
    let path = repository().join("schemas/aoi-probe.schema.json");
    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a schema")).expect("JSON");
    let places = [
        ("", ""),
        ("credentials", "/properties/credentials"),
        ("observe", "/properties/observe"),
        ("command", "/$defs/command"),
        ("limit", "/$defs/limit"),
        ("idempotency", "/$defs/command/properties/idempotency"),
        ("target", "/$defs/command/properties/target"),
        ("input", "/$defs/input"),
        ("modes", "/$defs/input/properties/modes"),
        ("schema", "/properties/schema"),
        ("versions", "/$defs/versions"),
    ];
    assert_eq!(places.len(), KEYS_BY_MAPPING.len());
    for (what, keys) in KEYS_BY_MAPPING {
        let (_, at) = places.iter().find(|(name, _)| name == what).expect(what);
        let properties = schema.pointer(&format!("{at}/properties")).expect(at);
        let known: BTreeSet<&str> = keys.iter().copied().collect();
        let described: BTreeSet<&str> = properties
            .as_object()
            .expect("a mapping")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(known, described, "{what}");
        let closed = schema.pointer(&format!("{at}/additionalProperties"));
        assert_eq!(closed, Some(&Value::Bool(false)), "{what}");
    }
}

#[test]
fn typos_are_reported_line_by_line() {
    let dir = Dir::new();
    dir.write(
        "probe.yaml",
        "aoi_probe: 1\ntol: [x]\ncommands:\n  a: {okay: [a]}\n",
    );
    let ran = dir.lint(&["--probe", "probe.yaml"]).exits(65);
    for part in [
        "probe.yaml:2:1: unknown key `tol` in a probe file; did you mean `tool`?",
        "probe.yaml:4:7: unknown key `okay` in the command `a`",
        "agentproto schema --name aoi-probe",
    ] {
        assert!(ran.err.contains(part), "{part}\n{}", ran.err);
    }
    assert!(ran.out.is_empty());
    dir.lint(&["--probe", "absent.yaml"]).exits(66);
    std::fs::write(dir.at("bytes.yaml"), b"tool: \xff").expect("written");
    dir.lint(&["--probe", "bytes.yaml"]).exits(65);
    dir.lint(&["--probe", "/dev/zero"]).exits(65);
}

/// The demo tool with a command that its probe file does not have.
fn with_add() -> Dir {
    let dir = Dir::demo();
    let tool = std::fs::read_to_string(dir.at("notes")).expect("a script");
    let more = tool.replace(
        r#""commands":["#,
        r#""commands":[{"name":"add","read_only":false},"#,
    );
    assert_ne!(tool, more);
    dir.write("notes", &more);
    dir
}

#[test]
fn a_command_missing_from_the_file_is_unproven() {
    let dir = with_add();
    let asked = ["--check", "2", "-o", "json", "--fail-on", "unproven"];
    let report = dir.lint(&asked).exits(1).json();
    assert_valid(&schema("aoi-report.schema.json"), &report);
    assert_eq!(report["matrix"]["add"]["Typed"], "unproven");
    assert_eq!(
        report["matrix"]["add"]["Safe"], "n_a",
        "check 6 was not selected"
    );
    assert_eq!(report["matrix"]["search"]["Typed"], "pass");
    assert_eq!(report["summary"]["pairs_unproven"], 1);
    let ran = dir.lint(&["--check", "2,8"]).exits(0);
    // A cell that `--check` leaves out differs from one that does not apply.
    assert!(ran.out.contains("· left out by --check"), "{}", ran.out);
    let row = ran
        .out
        .lines()
        .find(|line| line.trim_start().starts_with("search "));
    let cells: Vec<&str> = row.expect("a row").split_whitespace().skip(1).collect();
    assert_eq!(cells, ["✓", "·", "·", "·", "·", "·", "–", "·", "·", "·"]);
    for part in ["  add ", "the probe file does not probe it", "(add)"] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let ran = dir.run(&["explain", "AOI-02.unprobed"]).exits(0);
    assert!(ran.out.contains("leave_out"), "{}", ran.out);
    // Excluded on purpose.
    let file = std::fs::read_to_string(dir.at("aoi-probe.yaml")).expect("a file");
    dir.write("aoi-probe.yaml", &format!("{file}leave_out: [add]\n"));
    let report = dir.lint(&asked).exits(0).json();
    assert_eq!(report["matrix"].get("add"), None);
    dir.write("aoi-probe.yaml", &format!("{file}leave_out: [search]\n"));
    let ran = dir.lint(&asked).exits(65);
    assert!(ran.err.contains("aoi-probe.yaml:9:13: `search` is in both"));
    // A command line names a single command.
    let line = ["--", "./notes", "search", "heron"];
    let report = dir.lint(&[&asked[..], &line[..]].concat()).exits(0).json();
    assert_eq!(report["matrix"].get("add"), None);
}

#[test]
fn a_misspelled_command_name_gets_a_suggestion() {
    let dir = with_add();
    let file = std::fs::read_to_string(dir.at("aoi-probe.yaml")).expect("a file");
    let wrong = file.replace("  search:", "  serch:");
    dir.write("aoi-probe.yaml", &wrong);
    let ran = dir.lint(&["--check", "11"]).exits(65);
    let expected = "aoi-probe.yaml:5:3: `capabilities` does not list a command `serch`; did you \
                mean `search`?";
    assert!(
        ran.err.contains(expected) && ran.out.is_empty(),
        "{}",
        ran.err
    );
    dir.write("aoi-probe.yaml", &format!("{file}leave_out: [ad]\n"));
    let ran = dir.lint(&["--check", "11"]).exits(65);
    assert!(ran.err.contains("did you mean `add`?"), "{}", ran.err);
    // No error if both names exist, or if no name is similar.
    let both = format!("{wrong}leave_out: [search, add]\n");
    dir.write("aoi-probe.yaml", &both);
    dir.lint(&["--check", "11"]).exits(0);
    dir.write("aoi-probe.yaml", &file.replace("  search:", "  browse:"));
    dir.lint(&["--check", "11"]).exits(0);
}

#[test]
fn an_unknown_placeholder_is_a_mistake() {
    let text = "aoi_probe: 1\ntool: [x]\nenv: {A: '{wrld}/a'}\ncommands:\n  a:\n    ok: [a, '{idd}', 'n-{uniq}', '{owner}/x']\n";
    let found = mistakes(text);
    let expected: Vec<(u32, u32)> = found.iter().map(|m| (m.0, m.1)).collect();
    assert_eq!(expected, [(3, 10), (6, 13), (6, 34)], "{found:?}");
    assert!(found[0].2.contains("{wrld}; did you mean {world}?"));
    assert!(found[1].2.contains("{idd}; did you mean {id}?"));
    assert!(
        found[2]
            .2
            .contains("(write {{owner}} for a literal {owner})")
    );
    // JSON, shell variables and deliberately bad input are not placeholders.
    let text = r#"
aoi_probe: 1
tool: [x]
setup: [[sh, -c, "echo ${HOME}", "x{3}", "{ a; }"]]
commands:
  a:
    ok: [a, '{"a":1}', '{"a":{"b":1}}', '{{owner}}']
    input: { good: ['{"name":"{uniq}"}'], bad: ['{broken}'] }
"#;
    probe::parse(text, Path::new("/")).expect("no mistake");
    let text = text.replace("{broken}", "{unqi}");
    assert!(mistakes(&text)[0].2.contains("did you mean {uniq}?"));
}

#[test]
fn doubled_braces_reach_the_tool_as_braces() {
    let dir = Dir::new();
    dir.script(
        "t",
        "printf '%s\\n' \"$@\" \"$SAID\" >> \"$OUT\"; cat >> \"$OUT\"; exit 64",
    );
    dir.script("s", "printf '%s\\n' \"setup $1\" >> \"$OUT\"");
    dir.write(
        "aoi-probe.yaml",
        r#"aoi_probe: 1
tool: [./t]
env: { SAID: "env {{world}}", OUT: "{here}/said" }
sandbox: true
setup: [[./s, "{{uniq}}"]]
commands:
  a: { ok: [a, "{{id}}", '{"a":{"b":1}}'], read_only: true, stdin: "read {{here}}\n" }
"#,
    );
    dir.lint(&["--check", "3"]);
    let said = std::fs::read_to_string(dir.at("said")).expect("runs");
    for line in [
        "{id}",
        r#"{"a":{"b":1}}"#,
        "env {world}",
        "setup {uniq}",
        "read {here}",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
}

#[test]
fn a_failed_setup_is_reported_before_any_check() {
    let dir = Dir::demo();
    let file = std::fs::read_to_string(dir.at("aoi-probe.yaml")).expect("a file");
    dir.script("seed", "echo begun >&2; echo 'no database' >&2; exit 3");
    let head = "sandbox: true\nsetup:\n  - [\"true\"]\n";
    for (line, expected) in [
        (
            "[./seed, now]",
            "setup `./seed now` failed: exit 3 (no database)",
        ),
        ("[./sed]", "setup: program not found: `./sed`"),
    ] {
        dir.write("aoi-probe.yaml", &format!("{file}{head}  - {line}\n"));
        for check in ["1", "3", "8", "advisory"] {
            let ran = dir.lint(&["--check", check]).exits(65);
            let expected = format!("aoi-probe.yaml:12:5: {expected}");
            assert!(ran.err.contains(&expected), "{expected}\n{}", ran.err);
            assert!(ran.err.contains("run the setup by hand"), "{}", ran.err);
            assert!(ran.out.is_empty(), "the report must be empty: {}", ran.out);
        }
    }
}
