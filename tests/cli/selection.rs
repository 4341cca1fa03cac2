//! Tests of which findings are reported: rules, profiles, severities, ignores, baselines.

use super::support::{Dir, FLAWS};

const MANIFEST: &str = "heron/AGENT-CLI.md";

#[test]
fn rules_are_selected_and_ignored_by_name_and_prefix() {
    let dir = Dir::flawed();
    assert_eq!(dir.found(&["--select", "tags-unique"]), FLAWS[1..]);
    assert_eq!(dir.found(&["--select", "tags-*,requires-*"]), FLAWS);
    assert_eq!(
        dir.found(&["--select", "tags-*", "--select", "requires-*"]),
        FLAWS
    );
    assert_eq!(dir.found(&["--ignore", "tags-unique"]), FLAWS[..1]);
    assert_eq!(dir.found(&["--ignore", "t*", "--select", "*"]), FLAWS[..1]);
    assert!(dir.found(&["--ignore", "*"]).is_empty());
}

#[test]
fn an_unknown_rule_gets_a_suggestion() {
    let dir = Dir::flawed();
    let ran = dir.lint(&["--select", "tag-unique"]).exits(64);
    assert!(
        ran.err
            .contains("unknown rule `tag-unique`; did you mean `tags-unique`?"),
        "{}",
        ran.err
    );
    let ran = dir.lint(&["--ignore", "qqqqqqqq*"]).exits(64);
    assert!(
        ran.err.contains("`agentproto rules` lists all rules"),
        "{}",
        ran.err
    );
}

#[test]
fn help_for_a_list_shows_an_accepted_value() {
    for (requires, expected) in [
        (
            "os: Linux",
            "help: write a list, for example `[linux]` (expected ",
        ),
        (
            "arch: amd64",
            "help: write a list, for example `[x64]` (expected `x64`, ",
        ),
        ("arch: arm64", "help: write a list: `[arm64]`"),
    ] {
        let dir = Dir::heron();
        let text = dir.read(MANIFEST);
        let fields = format!("---\nrequires: {{ {requires} }}\ninstall: npm\n");
        dir.write("other/AGENT-CLI.md", &text.replacen("---\n", &fields, 1));
        let ran = dir.lint(&["other", "--select", "fm-type"]).exits(1);
        assert!(ran.out.contains(expected), "{}", ran.out);
        let install = "help: write a list of mappings, each with `method`: `[{ method: … }]`";
        assert!(ran.out.contains(install), "{}", ran.out);
    }
}

/// One list item with a space in it would be one argument of the program.
#[test]
fn help_for_a_list_of_arguments_has_one_item_per_argument() {
    for (given, expected) in [
        ("acp --fast", "write one item per argument: `[acp, --fast]`"),
        (
            "'acp --level 3'",
            "write one item per argument: `[acp, --level, \"3\"]`",
        ),
        (
            "acp --name 'a b'",
            "write a list with one item per argument",
        ),
        ("acp", "write a list: `[acp]`"),
    ] {
        let dir = Dir::heron();
        let text = dir.read(MANIFEST);
        assert!(text.contains("\nbin_args: [acp]\n"), "{text}");
        let field = format!("bin_args: {given}");
        dir.write(
            "other/AGENT-CLI.md",
            &text.replace("bin_args: [acp]", &field),
        );
        let ran = dir.lint(&["other", "--select", "fm-type"]).exits(1);
        assert!(ran.out.contains(expected), "{}", ran.out);
    }
}

#[test]
fn the_value_of_a_duplicate_key_is_described_by_its_text() {
    for (value, expected) in [
        ("y", "`y` is a string in YAML 1.2 and a boolean in YAML 1.1"),
        (
            "1_0",
            "`1_0` is a string in YAML 1.2 and a number in YAML 1.1",
        ),
        (
            "017",
            "`017` is a decimal number in YAML 1.2 and an octal number",
        ),
    ] {
        let dir = Dir::heron();
        let fields = format!("---\nmetadata: {{ a: one, a: {value} }}\n");
        let text = dir.read(MANIFEST).replacen("---\n", &fields, 1);
        dir.write("other/AGENT-CLI.md", &text);
        let ran = dir.lint(&["other", "--select", "fm-yaml11-scalar"]);
        assert!(ran.out.contains(expected), "{}", ran.out);
    }
}

#[test]
fn help_for_an_id_states_the_pattern_of_the_manifest() {
    let dir = Dir::new();
    dir.write("x/CLI.md", "---\nid: \"-\"\n---\n");
    dir.write("x/TOOL.md", "---\nid: \"-\"\n---\n");
    dir.write("x/OPERATOR.md", "---\nid: \"-\"\n---\n");
    for (file, expected) in [
        (
            "CLI.md",
            "use 2 to 64 lower-case letters, digits and dashes, for example",
        ),
        (
            "TOOL.md",
            "use 2 to 80 lower-case letters, digits, dashes and dots, for example",
        ),
        (
            "OPERATOR.md",
            "digits and dashes, starting with a letter, for example",
        ),
    ] {
        let file = format!("x/{file}");
        let ran = dir.lint(&[&file, "--select", "id-pattern"]).exits(1);
        let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(expected), "{}", ran.out);
    }
}

#[test]
fn quiet_leaves_out_notes() {
    let dir = Dir::flawed();
    let note = "Run `agentproto explain RULE`";
    assert!(dir.lint(&[]).exits(1).out.contains(note));
    assert!(!dir.lint(&["-q"]).exits(1).out.contains(note));
}

#[test]
fn severities_decide_the_exit_code() {
    let dir = Dir::heron();
    dir.lint(&["--fail-on", "info"]).exits(0);
    // This finding is a warning.
    dir.replace(MANIFEST, "name: heron\n", "name: stork\n");
    assert_eq!(dir.found(&[]), ["name-kebab-equals-dir@heron/AGENT-CLI.md"]);
    dir.lint(&[]).exits(0);
    dir.lint(&["--fail-on", "warning"]).exits(1);
    dir.lint(&["--fail-on", "info"]).exits(1);
    dir.lint(&["--fail-on", "warning", "--exit-zero"]).exits(0);
    dir.lint(&["--fail-on", "fatal"]).exits(64);
    let flawed = Dir::flawed();
    let ran = flawed.lint(&["--exit-zero"]).exits(0);
    assert!(ran.out.contains("2 errors"), "{}", ran.out);
}

#[test]
fn profiles_differ() {
    let dir = Dir::heron();
    dir.replace(
        MANIFEST,
        "protocol: acp\nacp: ./ACP.md\n",
        "protocol: print\n",
    );
    let print = "protocol-print-extension@heron/AGENT-CLI.md";
    for (profile, code) in [("default", 0), ("spec", 1), ("reference", 0)] {
        assert_eq!(dir.found(&["--profile", profile]), [print], "{profile}");
        dir.lint(&["--profile", profile]).exits(code);
    }
    // A derived rule: the spec does not state it in words.
    let dir = Dir::heron();
    dir.replace(
        MANIFEST,
        "description: Patient",
        "description: yes\nnotes: Patient",
    );
    let derived = "fm-yaml11-scalar@heron/AGENT-CLI.md".to_owned();
    assert!(dir.found(&[]).contains(&derived));
    assert!(!dir.found(&["--profile", "spec"]).contains(&derived));
    let asked = ["--profile", "spec", "--select", "fm-yaml11-scalar"];
    assert_eq!(dir.found(&asked), [derived]);
    dir.lint(&["--profile", "strict"]).exits(64);
}

#[test]
fn inline_ignores_are_applied_and_counted() {
    let dir = Dir::flawed();
    dir.replace(
        MANIFEST,
        "tags: [",
        "# agentproto: ignore[tags-unique] twice as good\ntags: [",
    );
    assert_eq!(dir.found(&[]), FLAWS[..1]);
    let json = dir.lint(&["-o", "json"]).json();
    assert_eq!(json["summary"]["suppressed"], 1);
    let suppressed = json["findings"].as_array().expect("findings");
    let suppressed = suppressed.iter().find(|f| f["rule"] == "tags-unique");
    assert_eq!(suppressed.expect("kept")["suppressed"], "twice as good");
    dir.replace(
        MANIFEST,
        "ignore[tags-unique]",
        "ignore[tags-unique, bin-required]",
    );
    assert!(
        dir.found(&[]).iter().any(|f| f.starts_with("ignore-")),
        "an unused or unknown ignore is reported"
    );
    dir.replace(
        MANIFEST,
        "ignore[tags-unique, bin-required]",
        "ignore-file[tags-unique, requires-os-enum]",
    );
    assert!(dir.found(&[]).is_empty());
    dir.lint(&[]).exits(0);
}

#[test]
fn a_baseline_hides_known_findings() {
    let dir = Dir::flawed();
    let ran = dir.lint(&["--write-baseline", "known.json"]).exits(0);
    assert!(
        ran.out.is_empty() && ran.err.contains("wrote 2 entries to known.json"),
        "{}",
        ran.err
    );
    let ran = dir.lint(&["--baseline", "known.json"]).exits(0);
    assert!(
        ran.err.is_empty() && ran.out.contains("2 suppressed"),
        "{}",
        ran.out
    );
    // A new mistake is reported, even if the old ones have moved to other lines.
    dir.replace(MANIFEST, "bin: heron\n", "bin: heron\nodd: 1\n");
    assert_eq!(
        dir.found(&["--baseline", "known.json"]),
        ["fm-unknown-field@heron/AGENT-CLI.md"]
    );
    dir.replace(MANIFEST, "bin: heron\nodd: 1\n", "bin: heron\n");
    // Fixed mistakes leave stale entries, which never fail a run.
    dir.replace(MANIFEST, "coding, coding", "coding");
    let ran = dir
        .lint(&["--baseline", "known.json", "--fail-on", "info"])
        .exits(0);
    assert!(
        ran.err.contains("1 baseline entry no longer matches"),
        "{}",
        ran.err
    );
    let ran = dir.lint(&["-q", "--baseline", "known.json"]).exits(0);
    assert!(ran.err.is_empty(), "{}", ran.err);
    dir.lint(&["--baseline", "none.json"]).exits(66);
    for bad in ["", "{", "[]", r#"{"schema":"other/v1","entries":[]}"#] {
        dir.write("bad.json", bad);
        dir.lint(&["--baseline", "bad.json"]).exits(65);
    }
    dir.lint(&["--baseline", "a", "--write-baseline", "b"])
        .exits(64);
    dir.lint(&["--write-baseline", "none/known.json"]).exits(73);
    dir.write("agentproto.toml", "[lint]\nbaseline = \"known.json\"\n");
    dir.lint(&[]).exits(0);
    dir.lint(&["--no-baseline"]).exits(1);
    let ran = dir
        .lint(&["--write-baseline", "new.json", "-o", "jsonl"])
        .exits(0);
    let kinds: Vec<_> = ran.lines().iter().map(|l| l["type"].clone()).collect();
    assert_eq!(kinds, ["aoi:meta", "aoi:summary"]);
}
