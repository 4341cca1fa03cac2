//! The documentation does what it says.
//!
//! In ```` ```console ```` blocks a line `$ agentproto …` is run with a shell in a git
//! repository that holds `fixtures/demo`; each block gets a fresh one. It must exit 0, or with N
//! where the line ends in `# exit N`. Lines below it must occur in what it prints, in order. A
//! comment `<!-- in: DIR -->` right above the block says where in the repository it is run.
//! ```` ```toml ```` blocks are tried as agentproto.toml.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentproto_lint::{matching, registry};

const DOCUMENTS: [&str; 2] = ["README.md", "docs/ci.md"];
/// Guides of other tools of the binary: they name no rules.
const GUIDES: [&str; 5] = [
    "docs/certify.md",
    "docs/aoi-lint.md",
    "docs/daemon.md",
    "docs/mcp.md",
    "docs/machine-mode.md",
];

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<(&'static str, String)> {
    let read = |name| std::fs::read_to_string(repository().join(name)).expect("a document");
    DOCUMENTS
        .map(|name| (name, without_samples(&read(name))))
        .to_vec()
}

fn documents_and_guides() -> Vec<(&'static str, String)> {
    let read = |name| std::fs::read_to_string(repository().join(name)).expect("a guide");
    let guides = GUIDES.map(|name| (name, without_samples(&read(name))));
    documents().into_iter().chain(guides).collect()
}

/// Empties ```` ```text ```` blocks: samples of output and maps are no instructions.
fn without_samples(text: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        let fence = line.starts_with("```");
        if fence {
            inside = line == "```text";
        }
        if !inside || fence {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// A fenced block of a document.
struct Block<'t> {
    /// Line of the document on which its text starts.
    start: usize,
    language: &'t str,
    lines: Vec<&'t str>,
    /// What the `in:` comment above it says.
    dir: &'t str,
}

fn blocks<'t>(text: &'t str, language: &str) -> Vec<Block<'t>> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut above = "";
    for (i, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(tag), None) => {
                let comment = above.strip_prefix("<!-- in: ");
                open = Some(Block {
                    start: i + 2,
                    language: tag,
                    lines: Vec::new(),
                    dir: comment.and_then(|c| c.strip_suffix(" -->")).unwrap_or("."),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
        above = line;
    }
    found.retain(|block| block.language == language);
    found
}

struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        copy(&repository().join("fixtures/demo"), dir.path());
        let sandbox = Sandbox(dir);
        let commit = "git init -q -b main && git add -A && git -c user.name=a -c user.email=a@example.com \
                      -c commit.gpgsign=false commit -qm x";
        let (code, said) = sandbox.shell(commit, ".");
        assert_eq!(code, 0, "{said}");
        sandbox
    }

    fn shell(&self, line: &str, dir: &str) -> (i32, String) {
        let binary = assert_cmd::cargo::cargo_bin("agentproto");
        let mut path = vec![binary.parent().expect("a directory").to_owned()];
        path.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.0.path().join(dir))
            .env("PATH", std::env::join_paths(path).expect("a PATH"))
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).expect("UTF-8");
        (output.status.code().expect("an exit code"), said)
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("created");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}

#[test]
fn shell_examples_do_what_they_say() {
    let mut ran = 0;
    for (name, text) in documents_and_guides() {
        for block in blocks(&text, "console") {
            let sandbox = Sandbox::new();
            let mut said = String::new();
            for (i, line) in block.lines.iter().enumerate() {
                let place = format!("{name}:{}: {line}", block.start + i);
                let Some(command) = line.strip_prefix("$ ") else {
                    let at = said.find(line.trim());
                    let at = at.unwrap_or_else(|| panic!("{place}\nis not in\n{said}"));
                    said.drain(..at + line.trim().len());
                    continue;
                };
                if !command.starts_with("agentproto ") {
                    said.clear();
                    continue;
                }
                let expected = command.rsplit_once("# exit ").map_or(0, |(_, code)| {
                    code.trim().parse().unwrap_or_else(|_| panic!("{place}"))
                });
                let code;
                (code, said) = sandbox.shell(command, block.dir);
                assert_eq!(code, expected, "{place}\n{said}");
                ran += 1;
            }
        }
    }
    assert!(ran > 15, "only {ran} examples");
}

#[test]
fn configuration_examples_are_accepted() {
    for (name, text) in documents() {
        for block in blocks(&text, "toml") {
            let config = block.lines.join("\n");
            let value: serde_json::Value = toml::from_str(&config).expect("TOML");
            let schema = repository().join("schemas/config.schema.json");
            let schema = std::fs::read_to_string(schema).expect("a schema");
            let schema = serde_json::from_str(&schema).expect("JSON");
            if let Err(error) = jsonschema::validate(&schema, &value) {
                panic!("{name}:{}: {error}", block.start);
            }
            let sandbox = Sandbox::new();
            let toml = sandbox.0.path().join("agentproto.toml");
            std::fs::write(toml, config).expect("written");
            let known = "agentproto lint --write-baseline agentproto-baseline.json good";
            let (code, said) = sandbox.shell(&format!("{known} && agentproto lint good"), ".");
            assert_eq!(code, 0, "{name}:{}\n{said}", block.start);
        }
    }
}

/// All long options and subcommands of the binary.
fn words_of_the_command_line() -> (BTreeSet<String>, BTreeSet<String>) {
    let mut options = BTreeSet::new();
    let mut subcommands = BTreeSet::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_agentproto"));
        let help = command.args(&path).arg("--help").output().expect("help");
        let help = String::from_utf8(help.stdout).expect("UTF-8");
        let mut in_commands = false;
        for line in help.lines() {
            if !line.starts_with(' ') {
                in_commands = line == "Commands:";
            }
            let mut words = line.split_whitespace();
            let is_entry = line.starts_with("  ") && !line.starts_with("   ");
            if let (true, true, Some(name)) = (in_commands, is_entry, words.next()) {
                subcommands.insert(name.to_owned());
                if name != "help" {
                    open.push([path.as_slice(), &[name.to_owned()]].concat());
                }
            }
            let named = line.split([' ', ',', '[', '=', '<']);
            options.extend(named.filter(|w| w.starts_with("--")).map(str::to_owned));
        }
    }
    (options, subcommands)
}

fn code_of(text: &str) -> Vec<String> {
    let fenced = ["console", "text", "yaml"]
        .into_iter()
        .flat_map(|language| blocks(text, language))
        .flat_map(|block| block.lines);
    let spans = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    fenced.chain(spans).map(str::to_owned).collect()
}

#[test]
fn options_and_subcommands_exist() {
    let (options, subcommands) = words_of_the_command_line();
    for (name, text) in documents_and_guides() {
        // Options of cargo and of our scripts are not ours.
        let is_ours = |code: &&String| !code.contains("cargo ") && !code.starts_with("tests/");
        for code in code_of(&text).iter().filter(is_ours) {
            for word in code
                .split([' ', '=', ','])
                .filter(|w| w.starts_with("--") && *w != "--")
            {
                let word = word.trim_end_matches(['-', '>', '`']);
                assert!(
                    word.is_empty() || options.contains(word),
                    "{name}: `{word}` in `{code}`"
                );
            }
            for after in code.split("agentproto ").skip(1) {
                let word = after.split_whitespace().next().unwrap_or_default();
                assert!(subcommands.contains(word), "{name}: `{word}` in `{code}`");
            }
        }
    }
}

/// Hyphenated names in the documents that are not rules: hooks, inputs and keys.
fn other_names() -> BTreeSet<String> {
    let read = |name: &str| std::fs::read_to_string(repository().join(name)).expect("a file");
    let hooks: serde_yaml::Value =
        serde_yaml::from_str(&read(".pre-commit-hooks.yaml")).expect("YAML");
    let action: serde_yaml::Value = serde_yaml::from_str(&read("action.yml")).expect("YAML");
    let config: serde_json::Value =
        serde_json::from_str(&read("schemas/config.schema.json")).expect("JSON");
    let ids = hooks.as_sequence().expect("hooks").iter().map(|h| &h["id"]);
    let inputs = action["inputs"].as_mapping().expect("inputs").keys();
    let keys = config["properties"]["lint"]["properties"].as_object();
    let mut names: BTreeSet<String> = ids
        .chain(inputs)
        .map(|v| v.as_str().expect("a name").to_owned())
        .collect();
    names.extend(keys.expect("keys").keys().cloned());
    // A permission of GitHub.
    names.insert("security-events".to_owned());
    names
}

#[test]
fn rules_exist() {
    let others = other_names();
    let is_name = |word: &str| {
        word.contains('-')
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && word.starts_with(|c: char| c.is_ascii_lowercase())
    };
    for (name, text) in documents() {
        for code in code_of(&text) {
            if is_name(&code) && !others.contains(&code) {
                assert!(registry::find(&code).is_some(), "{name}: no rule `{code}`");
            }
            let lists = ["ignore[", "ignore-file["]
                .into_iter()
                .flat_map(|word| code.split(word).skip(1));
            for list in lists {
                let Some((inside, _)) = list.split_once(']') else {
                    continue;
                };
                // `rule` itself stands for any.
                for rule in inside.split(',').map(str::trim).filter(|r| *r != "rule") {
                    assert!(matching(rule).is_ok(), "{name}: no rule `{rule}`");
                }
            }
        }
    }
}
