//! Generates a first probe file from what a tool declares. The help text only provides hints:
//! settings derived from it are written as comments, and the author completes the file.

use serde_json::Value;

use crate::guess::{ToolDescription, name};

/// The help text of one command, which is searched for flags that a check can use.
#[derive(Clone, Debug, Default)]
pub struct Help {
    /// Name of the command.
    pub command: String,
    /// Output of its `--help`.
    pub text: String,
}

/// Returns the text of a probe file.
pub fn write(tool: &[String], description: &ToolDescription, helps: &[Help]) -> String {
    let mut out = String::from(
        "# This file says which commands `agentproto aoi-lint` may run, and how.\n\
         # Nothing is run while the file contains FILL IN. What stays commented out is not\n\
         # checked, and the report says so.\n\
         aoi_probe: 1\n",
    );
    out.push_str(&format!("tool: {}\n", list(tool)));
    out.push_str(&format!(
        "machine_args: [{}]\n",
        machine_args(&description.help)
    ));
    out.push_str(
        "\n# Environment variables for every run; {dir} is the working directory of the run.\n\
         # env: {MYTOOL_STATE: \"{dir}/state\"}\n\
         # Variables and files with real credentials; discovery must work without them.\n\
         # credentials: {env: [MYTOOL_TOKEN], files: [~/.config/mytool]}\n\
         \n# Set this to true only if real side effects are harmless. Otherwise, commands that\n\
         # change something are not run.\n\
         sandbox: false\n\
         # Run before and after each probe that changes something.\n\
         # setup: [[./seed.sh]]\n\
         # teardown: [[./wipe.sh]]\n\
         # How to observe the state: a command and the position of the id in its events,\n\
         # a directory, or a program that prints the state. A truncated list proves nothing,\n\
         # so use a limit that is larger than the number of items.\n\
         # observe: {command: [list, --limit, \"1000\"], id: /id}\n\ncommands:\n",
    );
    let commands = commands(description);
    if commands.is_empty() {
        out.push_str(
            "  # No commands were found in `capabilities` and `--help`.\n  \
             mycommand:\n    ok: [mycommand]  # FILL IN: its name and the arguments of a run that succeeds\n",
        );
    }
    for (name, entry) in &commands {
        let help = helps.iter().find(|help| help.command == *name);
        let help = help.map_or("", |help| help.text.as_str());
        command(name, entry.as_ref(), help, &mut out);
    }
    versions(description, &mut out);
    out
}

/// The declared commands, or those that the help text lists.
pub fn commands(description: &ToolDescription) -> Vec<(String, Option<Value>)> {
    let mut found: Vec<(String, Option<Value>)> = Vec::new();
    for entry in description.commands() {
        let Some(name) = name(entry).map(str::trim) else {
            continue;
        };
        // Check 1 covers discovery commands.
        let known = found.iter().any(|(other, _)| other == name);
        if !known && !matches!(name, "schema" | "capabilities") && name.len() <= 100 {
            found.push((name.to_owned(), Some(entry.clone())));
        }
    }
    if found.is_empty() {
        let names = listed_commands(&description.help).into_iter();
        found.extend(names.map(|name| (name, None)));
    }
    found.truncate(200);
    found
}

/// Command names in the help text: choices in braces before `...`, as argparse writes them, or the
/// first words of the lines below a heading such as `Commands:`.
fn listed_commands(help: &str) -> Vec<String> {
    let words: Vec<&str> = help.split_whitespace().collect();
    let choice = words.windows(2).find_map(|pair| match pair {
        [choice, "..."] => choice.strip_prefix('{')?.strip_suffix('}'),
        _ => None,
    });
    let mut names: Vec<String> = Vec::new();
    let mut take = |word: &str| {
        let is_name = word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let ours = matches!(word, "help" | "schema" | "capabilities" | "completion");
        if is_name && !ours && !names.iter().any(|name| name == word) {
            names.push(word.to_owned());
        }
    };
    if let Some(choice) = choice {
        choice.split(',').for_each(take);
        return names;
    }
    // The section and the indentation of its names. Deeper lines continue a description.
    let mut section: Option<Section> = None;
    for line in help.lines() {
        let depth = line.len() - line.trim_start().len();
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        if depth == 0 {
            section = Section::of(text);
            continue;
        }
        let Some(section) = &mut section else {
            continue;
        };
        let first = *section.depth.get_or_insert(depth);
        // In argparse help, the commands are indented below their metavariable.
        let expected = if section.is_nested { first + 2 } else { first };
        if depth == expected {
            let word = text.split_whitespace().next().unwrap_or_default();
            take(word.trim_end_matches([',', ':']));
        }
    }
    names
}

struct Section {
    depth: Option<usize>,
    is_nested: bool,
}

impl Section {
    /// A section of the help text that lists commands.
    fn of(heading: &str) -> Option<Section> {
        let heading = heading.trim_end_matches(':').to_ascii_lowercase();
        let is_nested = heading == "positional arguments";
        let is_one = is_nested || heading.ends_with("commands");
        is_one.then_some(Section {
            depth: None,
            is_nested,
        })
    }
}

/// The first required operand of a command, according to its usage line.
fn required_operand(help: &str, command: &str) -> Option<String> {
    let at = help.to_ascii_lowercase().find("usage:")?;
    let usage = help.get(at + "usage:".len()..)?.trim_start();
    let usage = usage.split("\n\n").next()?;
    // Optional parts in brackets need not be filled in.
    let mut depth = 0_usize;
    let mut needed = String::new();
    for c in usage.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => needed.push(c),
            _ => {}
        }
    }
    let last = command.split_whitespace().last()?;
    let mut words = needed.split_whitespace().skip_while(|word| *word != last);
    words.next()?;
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            // A required option with its value.
            words.next();
            continue;
        }
        let name = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if !name.is_empty() {
            return Some(name.to_ascii_lowercase());
        }
    }
    None
}

fn machine_args(help: &str) -> &'static str {
    let has = |flag: &str| has_flag(help, flag);
    match has("--format") && !has("--output") {
        true => "--format, jsonl",
        false => "--output, jsonl",
    }
}

/// Whether the text contains the flag as a whole word.
fn has_flag(text: &str, flag: &str) -> bool {
    text.match_indices(flag).any(|(at, _)| {
        let after = text.get(at + flag.len()..).and_then(|t| t.chars().next());
        !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

fn command(name: &str, entry: Option<&Value>, help: &str, out: &mut String) {
    let says = |key: &str| entry.and_then(|e| e.get(key)).and_then(Value::as_bool);
    let yes = |key: &str| says(key) == Some(true);
    let words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
    out.push_str(&format!("  {}:\n", quoted(name)));
    let mut line = |text: &str| {
        out.push_str("    ");
        out.push_str(text);
        out.push('\n');
    };
    let destructive = yes("destructive");
    let mutating = !destructive && says("read_only") == Some(false);
    let more = match destructive {
        true => Some("{id}".to_owned()),
        false => required_operand(help, name).map(|operand| format!("FILL IN {operand}")),
    };
    let ok: Vec<String> = words.into_iter().chain(more).collect();
    // If the help text requires no operand, there is nothing to fill in.
    let open = match help.is_empty() {
        true => "FILL IN: ",
        false => "",
    };
    line(&format!(
        "ok: {}  # {open}the arguments of a run that succeeds{}",
        list(&ok),
        match destructive || mutating {
            true => "; {uniq} is unique per run",
            false => ", with at least 3 results",
        }
    ));
    match says("read_only") {
        Some(true) => line("read_only: true"),
        None => line("# read_only: true      # invalid usage is tested only with this"),
        Some(false) => {}
    }
    line("# malformed: [[…]]     # further invalid command lines");
    if yes("unbounded") {
        line("unbounded: true");
    }
    if yes("auth_required") || yes("needs_auth") {
        line("# needs_auth: true     # fails without credentials");
    }
    if destructive || mutating {
        line(if destructive {
            "destructive: true"
        } else {
            "mutating: true"
        });
        let types = entry.and_then(|entry| entry.get("event_types")?.as_array());
        let types = types.map(Vec::as_slice).unwrap_or_default().iter();
        let own = types
            .filter_map(Value::as_str)
            .filter(|kind| !kind.starts_with("aoi:"));
        let own: Vec<String> = own.map(str::to_owned).take(20).collect();
        match own.is_empty() {
            true => line("# events: […]          # types of the events that report a change"),
            false => line(&format!(
                "events: {}  # report a change, according to `capabilities`",
                list(&own)
            )),
        }
        line("# id: /id              # JSON pointer of the id in them");
    }
    if destructive {
        line("# target: {from: …}    # the command that creates what this one deletes");
    }
    if yes("requires_confirm") || has_flag(help, "--confirm") {
        line("confirm: [--confirm]");
    }
    if yes("supports_dry_run") || has_flag(help, "--dry-run") {
        line("dry_run: --dry-run");
    }
    if yes("supports_idempotency_key") || has_flag(help, "--idempotency-key") {
        line("idempotency: {flag: --idempotency-key}");
    }
    if yes("supports_cursor") || has_flag(help, "--limit") {
        line("# total: number of results of `ok` without a limit; page: a smaller number.");
        line("# limit: {flag: --limit, total: 25, page: 7, cursor_flag: --cursor, id: /id}");
    }
    if has_flag(help, "--input-jsonl") || has_flag(help, "--input") {
        line("# Lines that it accepts, lines that it must reject, and its modes.");
        line(
            "# input: {flag: [--input-jsonl, \"-\"], good: ['{\"name\":\"a\"}'], bad: ['not json'], modes: {fail_fast: []}, default: fail_fast}",
        );
    }
    line("# slow: […]            # a run that takes at least a second, for signals");
    line("# secrets: [[--token, \"{canary}\"]]   # flags that take secrets");
}

fn versions(description: &ToolDescription, out: &mut String) {
    let schemas = description
        .capabilities
        .as_ref()
        .and_then(|c| c.get("schemas"));
    let first = schemas.and_then(|list| list.get(0));
    let versions = first.and_then(|schema| schema.get("versions"));
    let versions: Vec<String> = versions
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str))
        .map(|list| list.map(str::to_owned).take(20).collect())
        .unwrap_or_default();
    if versions.len() > 1 {
        out.push_str(&format!(
            "\nschema:\n  versions: {{flag: --schema-version, ok: {}, unsupported: \"9999\"}}\n",
            list(&versions)
        ));
    } else {
        out.push_str(
            "\n# If a schema version can be requested:\n\
             # schema:\n#   versions: {flag: --schema-version, ok: [\"1\"], unsupported: \"9999\"}\n",
        );
    }
}

/// A YAML list on one line.
fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A YAML scalar that is always read as a string.
fn quoted(word: &str) -> String {
    const RESERVED: [&str; 7] = ["true", "false", "null", "yes", "no", "on", "off"];
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let begins = word.starts_with("./") || word.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = begins
        && word.chars().all(simple)
        && !RESERVED.contains(&word.to_ascii_lowercase().as_str());
    match plain {
        true => word.to_owned(),
        // JSON is valid YAML, except for characters that YAML does not allow.
        false => {
            let json = serde_json::to_string(word).unwrap_or_else(|_| "\"\"".to_owned());
            agentproto_text::escape_json(&json).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::probe;

    fn written(capabilities: Value, help: &str) -> String {
        let description = ToolDescription {
            capabilities: Some(capabilities),
            help: help.to_owned(),
        };
        let helps = [Help {
            command: "search".to_owned(),
            text: "--limit N  --input-jsonl FILE".to_owned(),
        }];
        let text = write(&["./my tool".to_owned()], &description, &helps);
        let read = probe::parse(&text, Path::new("/"));
        assert!(read.is_ok(), "{text}\n{:?}", read.err());
        text
    }

    #[test]
    fn declared_commands_are_written_and_can_be_parsed() {
        let text = written(
            json!({
                "schemas": [{ "name": "x", "versions": ["1.0.0", "2.0.0"] }],
                "commands": [
                    { "name": "search", "read_only": true, "supports_cursor": true },
                    { "name": "delete", "read_only": false, "destructive": true,
                      "requires_confirm": true, "supports_dry_run": true,
                      "supports_idempotency_key": true },
                    { "name": "auth login", "read_only": false },
                    { "name": "watch", "unbounded": true },
                    { "name": "schema" }
                ]
            }),
            "Usage: x --format FORMAT",
        );
        let probe = probe::parse(&text, Path::new("/")).expect("no mistake");
        let names: Vec<&str> = probe.commands.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["search", "delete", "auth login", "watch"]);
        let [search, delete, login, watch] = &probe.commands[..] else {
            panic!("four commands");
        };
        assert_eq!(search.read_only, Some(true));
        assert!(delete.destructive && delete.confirm == ["--confirm"]);
        assert_eq!(delete.dry_run.as_deref(), Some("--dry-run"));
        assert_eq!(delete.idempotency.as_deref(), Some("--idempotency-key"));
        assert!(login.mutating && !login.destructive && login.ok == ["auth", "login"]);
        assert!(watch.unbounded);
        assert!(!probe.sandbox);
        assert_eq!(probe.machine_args, ["--format", "jsonl"]);
        assert_eq!(probe.schema.ok, ["1.0.0", "2.0.0"]);
        assert!(text.contains("# limit: {flag: --limit"), "{text}");
    }

    #[test]
    fn command_names_come_from_help_without_capabilities() {
        let help = "A tool\n\nCommands:\n  find     Find things\n  make, m  Make one\n  help\n\nOptions:\n  all\n";
        let text = written(json!({}), help);
        let probe = probe::parse(&text, Path::new("/")).expect("no mistake");
        let names: Vec<&str> = probe.commands.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["find", "make"]);
        written(json!({}), "no commands here");
        written(json!([]), "");
    }

    #[test]
    fn help_of_common_argument_parsers_is_understood() {
        let argparse = "usage: notes [-h] [--output O]\n             {list,search,add,remove} ...\n\nNotes.\n\npositional arguments:\n  {list,search,add,remove}\n    list                list them all, and\n                        say how many\n    search              find some\n\noptions:\n  -h, --help            show this help message and exit\n";
        let metavar = "usage: notes [-h] COMMAND ...\n\npositional arguments:\n  COMMAND\n    list      list them\n    search    find some\n              or none\n\noptions:\n  -h, --help  x\n";
        let choices = "usage: notes [-h] {json,text} file\n\npositional arguments:\n  {json,text}  how\n  file         which\n";
        let click = "Usage: notes [OPTIONS] COMMAND [ARGS]...\n\n  Notes.\n\nOptions:\n  --help  Show this message and exit.\n\nCommands:\n  list    List them all, and more than one\n          line long\n  search  Find some.\n";
        let cobra = "Notes\n\nUsage:\n  notes [command]\n\nAvailable Commands:\n  completion  Generate\n  help        Help about any command\n  list        List\n  search      Find\n\nFlags:\n  -h, --help   help for notes\n\nUse \"notes [command] --help\" for more.\n";
        for (help, names) in [
            (argparse, &["list", "search", "add", "remove"][..]),
            (metavar, &["list", "search"]),
            (choices, &[]),
            (click, &["list", "search"]),
            (cobra, &["list", "search"]),
        ] {
            assert_eq!(listed_commands(help), names, "{help}");
        }
    }

    #[test]
    fn the_operand_comes_from_the_usage_line() {
        for (help, expected) in [
            (
                "usage: notes search [-h] [--limit N] query\n\npositional",
                Some("query"),
            ),
            ("Usage: notes search [OPTIONS] <QUERY>\n", Some("query")),
            (
                "Find.\n\nUsage:\n  notes search <query> [flags]\n\nFlags:",
                Some("query"),
            ),
            ("usage: notes search --in DIR [--x [Y]]\n", None),
            ("usage: notes search --in DIR WORD...\n", Some("word")),
            ("usage: notes search [QUERY ...]\n\nfind things", None),
            ("usage: notes other WORD", None),
            ("search WORD", None),
        ] {
            assert_eq!(
                required_operand(help, "search").as_deref(),
                expected,
                "{help}"
            );
        }
    }

    #[test]
    fn change_events_come_from_capabilities() {
        let text = written(
            json!({ "commands": [{ "name": "remove", "read_only": false, "destructive": true,
                "event_types": ["aoi:meta", "deleted", "aoi:summary"] }] }),
            "",
        );
        assert!(text.contains("    events: [deleted]"), "{text}");
    }

    #[test]
    fn unusual_names_are_quoted() {
        let unusual = [
            "a: b",
            "#x",
            "\n  y: 1",
            "true",
            "1",
            "-",
            "{id}",
            "\u{1b}[31m",
            "💥",
            "\"",
            "'",
            "~",
            "",
        ];
        for name in unusual {
            let text = written(json!({ "commands": [{ "name": name }] }), "");
            let probe = probe::parse(&text, Path::new("/")).expect("no mistake");
            if !name.trim().is_empty() {
                assert_eq!(probe.commands[0].name, name.trim(), "{text}");
            }
        }
    }
}
