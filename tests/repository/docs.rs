//! Tests that the examples in the documentation work.
//!
//! In ```` ```console ```` blocks, each line `$ agentproto …` is run with a shell in a git
//! repository with the files of `fixtures/demo`. Each block gets a new repository and a new state
//! directory. The exit code must be 0, or N if the line ends in `# exit N`. The lines below a
//! command must occur in its output, in this order. Other commands (`$ cd …`) are not run.
//!
//! Comments directly above a block:
//! - `<!-- in: DIR -->`: the block is run in this directory of the repository. It must contain the
//!   line `$ cd fixtures/demo/DIR`, so that readers know where to run it.
//! - `<!-- file: PATH -->`: the block is the content of this file. It exists in the repositories of
//!   all later blocks of the same document.
//!
//! ```` ```toml ```` blocks must be valid as agentproto.toml.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentproto_lint::{matching, registry};

/// Pages about the linter. Hyphenated names in their code are rules.
const DOCUMENTS: [&str; 4] = [
    "README.md",
    "docs/ci.md",
    "docs/configuration.md",
    "docs/lint.md",
];
/// Other pages with examples.
const GUIDES: [&str; 12] = [
    "docs/aoi-lint.md",
    "docs/call.md",
    "docs/certify.md",
    "docs/daemon.md",
    "docs/machine-mode.md",
    "docs/manifests.md",
    "docs/mcp.md",
    "docs/reports.md",
    "docs/runtime.md",
    "docs/sandbox.md",
    "docs/suites.md",
    "docs/troubleshooting.md",
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

/// Removes the content of ```` ```text ```` blocks, which are samples of output.
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
    /// Line number of its first line in the document.
    start: usize,
    language: &'t str,
    lines: Vec<&'t str>,
    /// Directory in the `in:` comment above it.
    dir: &'t str,
    /// Path in the `file:` comment above it.
    file: Option<&'t str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut above = "";
    for (i, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(tag), None) => {
                open = Some(Block {
                    start: i + 2,
                    language: tag,
                    lines: Vec::new(),
                    dir: comment(above, "in").unwrap_or("."),
                    file: comment(above, "file"),
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
        above = line;
    }
    found
}

/// The value of a comment `<!-- NAME: VALUE -->`.
fn comment<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let inside = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    inside.strip_prefix(name)?.strip_prefix(": ")
}

struct Sandbox {
    /// The git repository.
    dir: tempfile::TempDir,
    /// The state directory of agentproto.
    home: tempfile::TempDir,
}

impl Sandbox {
    /// A repository with the demo, and with these files: path and content.
    fn new(files: &[(&str, String)]) -> Self {
        let sandbox = Sandbox {
            dir: tempfile::tempdir().expect("a directory"),
            home: tempfile::tempdir().expect("a directory"),
        };
        copy(&repository().join("fixtures/demo"), sandbox.dir.path());
        for (path, text) in files {
            let path = sandbox.dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("created");
            std::fs::write(path, text).expect("written");
        }
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
            .current_dir(self.dir.path().join(dir))
            .env("PATH", std::env::join_paths(path).expect("a PATH"))
            .env("AGENTPROTO_HOME", self.home.path())
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
fn shell_examples_work() {
    let mut ran = 0;
    for (name, text) in documents_and_guides() {
        let mut files = Vec::new();
        for block in blocks(&text) {
            if let Some(path) = block.file {
                files.push((path, block.lines.join("\n") + "\n"));
            }
            if block.language != "console" {
                continue;
            }
            let cd = format!("$ cd fixtures/demo/{}", block.dir);
            let cd = cd.trim_end_matches("/.");
            let shown = block.lines.iter().find(|line| line.starts_with("$ cd "));
            let is_right = shown.map_or(block.dir == ".", |line| *line == cd);
            assert!(is_right, "{name}:{}: expected {cd}", block.start);
            let sandbox = Sandbox::new(&files);
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
    assert!(ran > 90, "only {ran} examples");
}

#[test]
fn configuration_examples_are_accepted() {
    for (name, text) in documents_and_guides() {
        for block in blocks(&text).iter().filter(|b| b.language == "toml") {
            let config = block.lines.join("\n");
            let value: serde_json::Value = toml::from_str(&config).expect("TOML");
            let schema = repository().join("schemas/config.schema.json");
            let schema = std::fs::read_to_string(schema).expect("a schema");
            let schema = serde_json::from_str(&schema).expect("JSON");
            if let Err(error) = jsonschema::validate(&schema, &value) {
                panic!("{name}:{}: {error}", block.start);
            }
            let sandbox = Sandbox::new(&[]);
            let toml = sandbox.dir.path().join("agentproto.toml");
            std::fs::write(toml, config).expect("written");
            let known = "agentproto lint --write-baseline agentproto-baseline.json good";
            let (code, said) = sandbox.shell(&format!("{known} && agentproto lint good"), ".");
            assert_eq!(code, 0, "{name}:{}\n{said}", block.start);
        }
    }
}

/// All long options and all subcommands of the binary.
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
    let fenced = blocks(text)
        .into_iter()
        .filter(|block| ["console", "text", "yaml"].contains(&block.language))
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
        // Options of cargo and of our scripts are not options of the binary.
        let is_ours = |code: &&String| !code.contains("cargo ") && !code.starts_with("tests/");
        for code in code_of(&text).iter().filter(is_ours) {
            // Options of the tools that are called.
            let of_tools = name == "docs/call.md";
            for word in code
                .split([' ', '=', ','])
                .filter(|w| w.starts_with("--") && *w != "--" && !of_tools)
            {
                let word = word.trim_end_matches(['-', '>', '`']);
                assert!(
                    word.is_empty() || options.contains(word),
                    "{name}: `{word}` in `{code}`"
                );
            }
            for after in code.split("agentproto ").skip(1) {
                let word = after.split_whitespace().next().unwrap_or_default();
                let word = word.trim_end_matches(';');
                assert!(subcommands.contains(word), "{name}: `{word}` in `{code}`");
            }
        }
    }
}

/// Hyphenated names that are not rules: hooks, inputs, keys and others.
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
    // A permission of GitHub, and a subcommand.
    names.extend(["security-events", "aoi-lint"].map(str::to_owned));
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
                // `rule` is a placeholder.
                for rule in inside.split(',').map(str::trim).filter(|r| *r != "rule") {
                    assert!(matching(rule).is_ok(), "{name}: no rule `{rule}`");
                }
            }
        }
    }
}
