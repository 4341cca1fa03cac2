//! `agentproto.toml`.

use super::support::{Dir, FLAWS};

const MANIFEST: &str = "heron/AGENT-CLI.md";

fn with(config: &str) -> Dir {
    let dir = Dir::flawed();
    dir.write("agentproto.toml", config);
    dir
}

#[test]
fn every_key_has_its_effect() {
    assert_eq!(with("").found(&[]), FLAWS);
    assert_eq!(
        with("[lint]\nselect = [\"tags-*\"]\n").found(&[]),
        FLAWS[1..]
    );
    assert_eq!(
        with("[lint]\nignore = [\"tags-unique\"]\n").found(&[]),
        FLAWS[..1]
    );
    let off = with("[lint.severity]\ntags-unique = \"off\"\nrequires-os-enum = \"warning\"\n");
    assert_eq!(off.found(&[]), FLAWS[..1]);
    off.lint(&[]).exits(0);
    let strict = with("[lint]\nfail-on = \"warning\"\n[lint.severity]\n\"*\" = \"warning\"\n");
    strict.lint(&[]).exits(1);
    strict.lint(&["--fail-on", "error"]).exits(0);
    let spec = with("[lint]\nprofile = \"spec\"\n");
    assert_eq!(spec.lint(&["-o", "json"]).json()["profile"], "spec");
    let named = ["--profile", "reference", "-o", "json"];
    assert_eq!(spec.lint(&named).json()["profile"], "reference");
    let known = with("[lint]\nbaseline = \"known.json\"\n");
    known.lint(&["--write-baseline", "known.json"]).exits(0);
    known.lint(&[]).exits(0);
}

#[test]
fn the_command_line_overrides_the_file() {
    let dir = with("[lint]\nselect = [\"requires-*\"]\nignore = [\"requires-arch-enum\"]\n");
    assert_eq!(dir.found(&["--select", "tags-*"]), FLAWS[1..]);
    assert_eq!(dir.found(&["--ignore", "requires-os-enum"]), [""; 0]);
}

#[test]
fn files_are_excluded_and_rules_ignored_per_file() {
    let dir = with("[lint]\nexclude = [\"heron/\"]\n");
    assert!(dir.found(&[]).is_empty());
    assert_eq!(dir.found(&[MANIFEST]), FLAWS);
    let rest = "[[lint.per-file]]\npaths = [\"heron/AGENT-*\"]\nignore = [\"tags-*\"]\n";
    let dir = with(rest);
    assert_eq!(dir.found(&[]), FLAWS[..1]);
    // Excluded rules are not fixed either.
    dir.lint(&["--fix"]).exits(1);
    assert!(dir.read(MANIFEST).contains("coding, coding"));
    let dir = with("[[lint.per-file]]\npaths = [\"stork/**\"]\nignore = [\"tags-*\"]\n");
    assert_eq!(dir.found(&[]), FLAWS);
    // The configuration does not apply to files outside its directory.
    let other = Dir::flawed();
    let path = other.at("heron");
    let path = path.to_str().expect("UTF-8");
    let dir = with(&format!("[lint]\nexclude = [\"**\"]\n{rest}"));
    assert_eq!(dir.found(&["--force-exclude", path]).len(), 2);
    assert_eq!(
        dir.found(&["--force-exclude", &format!("{path}/AGENT-CLI.md")])
            .len(),
        2
    );
}

#[test]
fn mistakes_are_reported_with_line_and_column() {
    for (config, place) in [
        ("[lint]\n\nselct = []\n", "agentproto.toml:3:1: "),
        ("[lint]\nprofile = \"strict\"\n", "agentproto.toml:2:11: "),
        ("[lint]\nselect = \"x\"\n", "agentproto.toml:2:10: "),
        ("[lint\n", "agentproto.toml:1:6: "),
        (
            "[lint.severity]\ntags-unique = \"loud\"\n",
            "agentproto.toml:2:15: ",
        ),
        (
            "[[lint.per-file]]\npaths = []\nignore = []\nodd = 1\n",
            "agentproto.toml:4:1: ",
        ),
    ] {
        let ran = with(config).lint(&[]).exits(65);
        assert!(ran.err.contains(place), "{config}: {}", ran.err);
        assert!(ran.out.is_empty());
    }
    let dir = with("");
    std::fs::write(dir.at("agentproto.toml"), b"[lint] # caf\xe9\n").expect("written");
    assert!(dir.lint(&[]).exits(65).err.contains("not UTF-8"));
    for config in [
        "[lint]\nselect = [\"tag-unique\"]\n",
        "[lint]\nignore = [\"tag-unique\"]\n",
        "[lint.severity]\ntag-unique = \"off\"\n",
        "[[lint.per-file]]\npaths = [\"x\"]\nignore = [\"tag-unique\"]\n",
    ] {
        let ran = with(config).lint(&[]).exits(78);
        assert!(
            ran.err.contains("did you mean `tags-unique`?"),
            "{}",
            ran.err
        );
    }
    let ran = with("[lint]\nexclude = [\"[z-a]\"]\n").lint(&[]).exits(78);
    assert!(
        ran.err.contains("`exclude` in the configuration: `[z-a]`"),
        "{}",
        ran.err
    );
}

#[test]
fn the_nearest_file_in_a_parent_directory_applies() {
    let dir = with("[lint]\nselect = [\"tags-*\"]\n");
    let lint = |from: &str, args: &[&str]| {
        let args = [&["lint", "-o", "concise"], args].concat();
        let mut command = dir.command(&args);
        let output = command.current_dir(dir.at(from)).output().expect("it runs");
        super::support::Ran::from(output).out.lines().count()
    };
    assert_eq!(lint("heron", &[]), 1);
    assert_eq!(lint("heron", &["--no-config"]), 2);
    dir.write("heron/agentproto.toml", "");
    assert_eq!(lint("heron", &[]), 2);
    assert_eq!(lint("heron", &["--config", "../agentproto.toml"]), 1);
    std::fs::remove_file(dir.at("heron/agentproto.toml")).expect("removed");
    // The search stops at the root of a repository.
    std::fs::create_dir(dir.at("heron/.git")).expect("created");
    assert_eq!(lint("heron", &[]), 2);
    dir.lint(&["--config", "none.toml"]).exits(66);
    dir.lint(&["--config", "heron"]).exits(74);
    dir.lint(&["--config", "agentproto.toml", "--no-config"])
        .exits(64);
}

#[test]
fn the_file_in_the_repository_root_is_found_from_any_depth() {
    let dir = with("[lint]\nselect = [\"tags-*\"]\nexclude = [\"stork/\"]\n");
    std::fs::create_dir(dir.at(".git")).expect("created");
    dir.write("heron/one/two/note.txt", "");
    dir.write("stork/AGENT-CLI.md", &dir.read(MANIFEST));
    let found = |from: &str, path: &str| {
        let mut command = dir.command(&["lint", "-o", "concise", path]);
        let output = command.current_dir(dir.at(from)).output().expect("it runs");
        super::support::Ran::from(output).out.lines().count()
    };
    assert_eq!(found("heron/one/two", "../../AGENT-CLI.md"), 1);
    // Paths in `exclude` are relative to the configuration file, not to the working directory.
    assert_eq!(found("heron/one", "../.."), 1);
    // In a worktree, `.git` is a file.
    dir.write("heron/.git", "gitdir: ../.git/worktrees/heron\n");
    assert_eq!(found("heron/one", ".."), 2);
}

#[test]
fn the_config_schema_has_every_key() {
    let dir = Dir::new();
    let schema = dir.run(&["schema", "--name", "config"]).exits(0).json();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let all = serde_json::json!({ "lint": {
        "profile": "spec", "select": ["tags-*"], "ignore": ["tags-unique"], "fail-on": "info",
        "exclude": ["x"], "baseline": "b.json", "severity": { "tags-unique": "off" },
        "per-file": [{ "paths": ["x"], "ignore": ["tags-*"] }],
    }});
    assert!(validator.is_valid(&all));
    dir.write("agentproto.toml", &toml(&all));
    dir.write(
        "b.json",
        r#"{"schema":"agentproto.baseline/v1","entries":[]}"#,
    );
    dir.lint(&[]).exits(0);
}

fn toml(value: &serde_json::Value) -> String {
    let text = value["lint"].as_object().expect("an object");
    let mut lines = vec!["[lint]".to_owned()];
    for (key, value) in text {
        let value = value.to_string().replace(":", " = ");
        lines.push(format!("{key} = {value}"));
    }
    lines.join("\n")
}
