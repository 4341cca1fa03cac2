//! Builds a probe without a probe file: from what the tool declares, and from a command line split
//! into the tool, the command and the machine-mode options.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::capture::{Capture, ExitKind};
use crate::probe::{ProbeCommand, ProbeSpec};
use crate::run::{self, ReadMode, RunDirs, RunSpec, RunStats, StdinSource, StdoutTarget};
use crate::{LintError, resolve_argv};
use agentproto_sandbox::run_directory::RunDirectory;

/// Programs whose first operand is a script, which then belongs to the tool.
const INTERPRETERS: [&str; 17] = [
    "sh", "bash", "dash", "zsh", "python", "python3", "node", "nodejs", "deno", "bun", "tsx",
    "ruby", "perl", "php", "lua", "java", "Rscript",
];

/// What a tool declares about itself.
#[derive(Clone, Debug, Default)]
pub struct ToolDescription {
    /// Output of `capabilities`, if it could be read.
    pub capabilities: Option<Value>,
    /// Output of `--help`, from stdout or stderr.
    pub help: String,
}

impl ToolDescription {
    /// Entries of `capabilities.commands` that have a name.
    pub fn commands(&self) -> Vec<&Value> {
        let list = self.capabilities.as_ref().and_then(|c| c.get("commands"));
        let list = list.and_then(Value::as_array).map(Vec::as_slice);
        let named = |entry: &&Value| name(entry).is_some_and(|name| !name.trim().is_empty());
        list.unwrap_or_default().iter().filter(named).collect()
    }
}

/// Name of a command in `capabilities`.
pub fn name(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// Asks a tool what it declares. It runs discovery and help only.
pub struct Discovery {
    argv: Vec<OsString>,
    limit: Duration,
    dirs: RunDirs,
    _dir: RunDirectory,
}

impl Discovery {
    /// Prepares runs of the tool, with a time limit for each.
    pub fn new(tool: &[String], base: &Path, limit: Duration) -> Result<Discovery, LintError> {
        let probe = ProbeSpec {
            tool: tool.to_vec(),
            base: base.to_owned(),
            ..ProbeSpec::default()
        };
        let argv = resolve_argv(&probe)?;
        let dir = RunDirectory::new("aoi").map_err(LintError::RunDirectory)?;
        let dirs = RunDirs::new(dir.path().join("ask")).map_err(LintError::RunDirectory)?;
        Ok(Discovery {
            argv,
            limit,
            dirs,
            _dir: dir,
        })
    }

    /// Output of `capabilities`, as a subcommand or as a flag.
    pub async fn capabilities(&self) -> Option<Value> {
        for words in [
            &["capabilities", "--output", "json"][..],
            &["--capabilities"],
        ] {
            let run = self.run(words).await?;
            let value: Option<Value> = serde_json::from_slice(&run.stdout).ok();
            if let Some(value) = value.filter(|value| value.is_object() && run.end.is_success()) {
                return Some(value);
            }
            // If the subcommand hangs, the flag would hang as well.
            if run.end == ExitKind::TimedOut {
                return None;
            }
        }
        None
    }

    /// Help text of a command, or of the tool.
    pub async fn help(&self, command: &[&str]) -> String {
        let words = [command, &["--help"]].concat();
        let Some(run) = self.run(&words).await else {
            return String::new();
        };
        let description = match run.stdout.is_empty() {
            true => run.stderr,
            false => run.stdout,
        };
        String::from_utf8_lossy(&description).into_owned()
    }

    async fn run(&self, words: &[&str]) -> Option<Capture> {
        let mut argv = self.argv.clone();
        argv.extend(words.iter().map(OsString::from));
        let spec = RunSpec {
            command: crate::model::TOOL.to_owned(),
            probe: words.join(" "),
            argv,
            env: Vec::new(),
            input: StdinSource::Null,
            output: StdoutTarget::Pipe,
            stderr_closed: false,
            reader: ReadMode::All,
            backend: None,
            limit: self.limit,
            is_slow: false,
            is_machine: false,
            version: None,
            canaries: false,
        };
        run::run(&spec, &self.dirs, &RunStats::default()).await.ok()
    }
}

/// Number of leading words that start the tool: the program, or an interpreter, its flags and a
/// script.
pub fn tool_words(words: &[String], base: &Path) -> usize {
    let Some(first) = words.first() else {
        return 0;
    };
    let program = Path::new(first).file_name().and_then(|name| name.to_str());
    if !program.is_some_and(|name| INTERPRETERS.contains(&name)) {
        return 1;
    }
    let script = words
        .iter()
        .skip(1)
        .position(|word| !word.starts_with('-'))
        .filter(|at| words.get(at + 1).is_some_and(|w| base.join(w).is_file()));
    script.map_or(1, |at| at + 2)
}

/// Builds a probe for one command line, which may be run repeatedly.
pub fn probe(words: &[String], base: &Path, description: &ToolDescription) -> ProbeSpec {
    let split = tool_words(words, base).min(words.len());
    let (tool, rest) = words.split_at(split);
    let mut tool = tool.to_vec();
    // A script gets its full path, because runs use another working directory.
    if let Some(script) = tool.get_mut(1..).and_then(<[String]>::last_mut) {
        *script = base.join(&*script).to_string_lossy().into_owned();
    }
    let (machine_args, rest) = machine_args(rest);
    let name = command_name(&rest, description)
        .unwrap_or_else(|| tool.first().map(|word| base_name(word)).unwrap_or_default());
    let entry = description
        .commands()
        .into_iter()
        .find(|e| self::name(e) == Some(&name));
    let says = |key: &str| {
        entry
            .and_then(|entry| entry.get(key))
            .and_then(Value::as_bool)
    };
    let command = ProbeCommand {
        read_only: says("read_only"),
        unbounded: says("unbounded") == Some(true),
        name,
        ok: rest.iter().map(|word| absolute_path(word, base)).collect(),
        ..ProbeCommand::default()
    };
    ProbeSpec {
        tool,
        machine_args,
        commands: vec![command],
        base: base.to_owned(),
        ..ProbeSpec::default()
    }
}

/// File name of a program.
pub fn base_name(word: &str) -> String {
    let name = Path::new(word).file_name().and_then(|name| name.to_str());
    name.unwrap_or(word).to_owned()
}

/// Makes the path of an existing file absolute, because runs use another working directory.
fn absolute_path(word: &str, base: &Path) -> String {
    let path = base.join(word);
    match word.contains('/') && path.exists() {
        true => path.to_string_lossy().into_owned(),
        false => word.to_owned(),
    }
}

/// Splits the words into the machine-mode options and the rest.
fn machine_args(words: &[String]) -> (Vec<String>, Vec<String>) {
    const FLAGS: [&str; 3] = ["--output", "--format", "-o"];
    let one = |word: &str| FLAGS.iter().any(|flag| word == format!("{flag}=jsonl"));
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1).map(String::as_str);
        let length = match next {
            _ if word == "--" => break,
            _ if one(word) => 1,
            Some("jsonl") if FLAGS.contains(&word.as_str()) => 2,
            _ => continue,
        };
        let (before, after) = words.split_at(at);
        let (machine_words, after) = after.split_at(length.min(after.len()));
        return (machine_words.to_vec(), [before, after].concat());
    }
    let usual = vec!["--output".to_owned(), "jsonl".to_owned()];
    (usual, words.to_vec())
}

/// The longest declared name that occurs in the words, or the first word that is not a flag.
fn command_name(words: &[String], description: &ToolDescription) -> Option<String> {
    let commands = description.commands();
    let names = commands.iter().filter_map(|entry| name(entry));
    let matching = names.filter(|name| {
        let parts: Vec<&str> = name.split_whitespace().collect();
        words.windows(parts.len().max(1)).any(|some| some == parts)
    });
    let longest = matching.max_by_key(|name| name.split_whitespace().count());
    longest.map(str::to_owned).or_else(|| {
        let plain = words.iter().find(|word| !word.starts_with('-'));
        plain.cloned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn guessed(line: &str, capabilities: Value) -> ProbeSpec {
        let description = ToolDescription {
            capabilities: Some(capabilities),
            help: String::new(),
        };
        probe(&words(line), Path::new("/nowhere"), &description)
    }

    #[test]
    fn machine_mode_is_found_or_added() {
        for (line, machine, ok) in [
            ("t search x", "--output jsonl", "search x"),
            ("t search x --output jsonl", "--output jsonl", "search x"),
            ("t --format jsonl search x", "--format jsonl", "search x"),
            ("t search --output=jsonl x", "--output=jsonl", "search x"),
            ("t -o jsonl search", "-o jsonl", "search"),
            (
                "t search --output json",
                "--output jsonl",
                "search --output json",
            ),
            (
                "t run -- --output jsonl",
                "--output jsonl",
                "run -- --output jsonl",
            ),
        ] {
            let probe = guessed(line, json!({}));
            assert_eq!(probe.tool, ["t"], "{line}");
            assert_eq!(probe.machine_args, words(machine), "{line}");
            assert_eq!(probe.commands[0].ok, words(ok), "{line}");
        }
    }

    #[test]
    fn the_command_is_the_longest_declared_name() {
        let description = json!({ "commands": [
            { "name": "auth", "read_only": false },
            { "name": "auth status", "read_only": true },
            { "name": "" }, { "nome": 1 }, 7
        ] });
        let command = guessed("t --debug auth status --all", description.clone())
            .commands
            .remove(0);
        assert_eq!(command.name, "auth status");
        assert_eq!(command.read_only, Some(true));
        assert_eq!(
            guessed("t auth login", description.clone()).commands[0].name,
            "auth"
        );
        assert_eq!(
            guessed("t --x find", description.clone()).commands[0].name,
            "find"
        );
        assert_eq!(guessed("./bin/t --x", description).commands[0].name, "t");
    }

    #[test]
    fn a_script_belongs_to_its_interpreter() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("tool.py"), "").expect("written");
        let count = |line: &str| tool_words(&words(line), dir.path());
        assert_eq!(count("python3 tool.py search"), 2);
        assert_eq!(count("/usr/bin/python3 -u tool.py search"), 3);
        assert_eq!(count("python3 absent.py"), 1);
        assert_eq!(count("mytool tool.py"), 1);
        assert_eq!(count(""), 0);
    }
}
