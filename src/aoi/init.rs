//! A first probe file, from what a tool says of itself. Help is only grepped for hints: what it
//! leads to stands in comments, and its author fills in the rest.

use serde_json::Value;

use super::guess::{Said, name};

/// What help said of one command: flags that a check could use.
#[derive(Clone, Debug, Default)]
pub struct Help {
    pub command: String,
    pub text: String,
}

/// The text of a probe file.
pub fn write(tool: &[String], said: &Said, helps: &[Help]) -> String {
    let mut out = String::from(
        "# What `agentproto aoi-lint --probe` may do with this tool, and how.\n\
         # Lines with FILL IN need you; what stays a comment is not looked at, and is told so.\n\
         aoi_probe: 1\n",
    );
    out.push_str(&format!("tool: {}\n", list(tool)));
    out.push_str(&format!("machine_args: [{}]\n", machine(&said.help)));
    out.push_str(
        "\n# FILL IN: variables and files with real credentials; discovery must work without them.\n\
         # credentials: {env: [MYTOOL_TOKEN], files: [~/.config/mytool]}\n\
         \n# Set this to true only where real side effects do no harm: commands that change\n\
         # something are not run before.\n\
         sandbox: false\n\
         # Run before and after each probe that changes something.\n\
         # setup: [[./seed.sh]]\n\
         # teardown: [[./wipe.sh]]\n\
         # FILL IN: how to see what is there: a command with the place of the id in its events,\n\
         # a directory, or a program whose output is the state. A list that stops at a bound\n\
         # proves nothing: ask for more than there can be.\n\
         # observe: {command: [list, --limit, \"1000\"], id: /id}\n\ncommands:\n",
    );
    let commands = commands(said);
    if commands.is_empty() {
        out.push_str(
            "  # FILL IN: neither `capabilities` nor `--help` names a command.\n  \
             mycommand:\n    ok: [mycommand]\n",
        );
    }
    for (name, entry) in &commands {
        let help = helps.iter().find(|help| help.command == *name);
        let help = help.map_or("", |help| help.text.as_str());
        command(name, entry.as_ref(), help, &mut out);
    }
    versions(said, &mut out);
    out
}

/// The declared commands, or those that the help lists.
pub fn commands(said: &Said) -> Vec<(String, Option<Value>)> {
    let mut found: Vec<(String, Option<Value>)> = Vec::new();
    for entry in said.commands() {
        let Some(name) = name(entry).map(str::trim) else {
            continue;
        };
        // Discovery is a check of its own.
        let known = found.iter().any(|(other, _)| other == name);
        if !known && !matches!(name, "schema" | "capabilities") && name.len() <= 100 {
            found.push((name.to_owned(), Some(entry.clone())));
        }
    }
    if found.is_empty() {
        let names = listed(&said.help).into_iter();
        found.extend(names.map(|name| (name, None)));
    }
    found.truncate(200);
    found
}

/// First words of the lines below a heading such as `Commands:`.
fn listed(help: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        let indented = line.starts_with([' ', '\t']);
        if !indented {
            let heading = line.trim().trim_end_matches(':').to_ascii_lowercase();
            inside = match heading.is_empty() {
                true => inside,
                false => heading.ends_with("commands") || heading.ends_with("subcommands"),
            };
            continue;
        }
        let word = line.split_whitespace().next().unwrap_or_default();
        let word = word.trim_end_matches([',', ':']);
        let is_name = word.starts_with(|c: char| c.is_ascii_lowercase())
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let ours = matches!(word, "help" | "schema" | "capabilities" | "completion");
        if inside && is_name && !ours && !names.iter().any(|name| name == word) {
            names.push(word.to_owned());
        }
    }
    names
}

fn machine(help: &str) -> &'static str {
    let has = |flag: &str| mentions(help, flag);
    match has("--format") && !has("--output") {
        true => "--format, jsonl",
        false => "--output, jsonl",
    }
}

/// Whether a flag stands in the text as a word.
fn mentions(text: &str, flag: &str) -> bool {
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
    let ok = match destructive {
        true => {
            let words = [words.as_slice(), &["{id}".to_owned()]].concat();
            list(&words)
        }
        false => list(&words),
    };
    line(&format!(
        "ok: {ok}  # FILL IN: the words of a run that succeeds{}",
        match destructive || mutating {
            true => "; {uniq} is new each time",
            false => ", with 3 results or more",
        }
    ));
    match says("read_only") {
        Some(true) => line("read_only: true"),
        None => line("# read_only: true      # bad usages are only tried where this is known"),
        Some(false) => {}
    }
    line("# malformed: [[…]]     # further bad usages, whole command lines");
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
        line("# events: [created]    # FILL IN: types of the events that tell what was changed");
        line("# id: /id              # and where the id stands in them");
    }
    if destructive {
        line("# target: {from: …}    # FILL IN: the command that makes what this one takes away");
    }
    if yes("requires_confirm") || mentions(help, "--confirm") {
        line("confirm: [--confirm]");
    }
    if yes("supports_dry_run") || mentions(help, "--dry-run") {
        line("dry_run: --dry-run");
    }
    if yes("supports_idempotency_key") || mentions(help, "--idempotency-key") {
        line("idempotency: {flag: --idempotency-key}");
    }
    if yes("supports_cursor") || mentions(help, "--limit") {
        line("# FILL IN total: how many results `ok` has without a limit; page: some, but fewer.");
        line("# limit: {flag: --limit, total: 25, page: 7, cursor_flag: --cursor, id: /id}");
    }
    if mentions(help, "--input-jsonl") || mentions(help, "--input") {
        line("# FILL IN: lines that it takes, lines that it must refuse, and its modes.");
        line(
            "# input: {flag: [--input-jsonl, \"-\"], good: ['{\"name\":\"a\"}'], bad: ['not json'], modes: {fail_fast: []}, default: fail_fast}",
        );
    }
    line("# slow: […]            # a run that takes a second or more, for signals");
    line("# secrets: [[--token, \"{canary}\"]]   # flags that take secrets");
}

fn versions(said: &Said, out: &mut String) {
    let schemas = said.capabilities.as_ref().and_then(|c| c.get("schemas"));
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
            "\n# Where a schema version can be asked for:\n\
             # schema:\n#   versions: {flag: --schema-version, ok: [\"1\"], unsupported: \"9999\"}\n",
        );
    }
}

/// A list in YAML, on one line.
fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A text in YAML that stays a text.
fn quoted(word: &str) -> String {
    const TAKEN: [&str; 7] = ["true", "false", "null", "yes", "no", "on", "off"];
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let begins = word.starts_with("./") || word.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain =
        begins && word.chars().all(simple) && !TAKEN.contains(&word.to_ascii_lowercase().as_str());
    match plain {
        true => word.to_owned(),
        // JSON is YAML, but for characters that YAML does not print.
        false => {
            let json = serde_json::to_string(word).unwrap_or_else(|_| "\"\"".to_owned());
            crate::report::text::json_plain(&json).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::aoi::probe;

    fn written(capabilities: Value, help: &str) -> String {
        let said = Said {
            capabilities: Some(capabilities),
            help: help.to_owned(),
        };
        let helps = [Help {
            command: "search".to_owned(),
            text: "--limit N  --input-jsonl FILE".to_owned(),
        }];
        let text = write(&["./my tool".to_owned()], &said, &helps);
        let read = probe::parse(&text, Path::new("/"));
        assert!(read.is_ok(), "{text}\n{:?}", read.err());
        text
    }

    #[test]
    fn what_is_declared_is_written_and_can_be_read() {
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
    fn help_gives_names_where_nothing_else_does() {
        let help = "A tool\n\nCommands:\n  find     Find things\n  make, m  Make one\n  help\n\nOptions:\n  all\n";
        let text = written(json!({}), help);
        let probe = probe::parse(&text, Path::new("/")).expect("no mistake");
        let names: Vec<&str> = probe.commands.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["find", "make"]);
        written(json!({}), "no commands here");
        written(json!([]), "");
    }

    #[test]
    fn hostile_names_stay_names() {
        let odd = [
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
        for name in odd {
            let text = written(json!({ "commands": [{ "name": name }] }), "");
            let probe = probe::parse(&text, Path::new("/")).expect("no mistake");
            if !name.trim().is_empty() {
                assert_eq!(probe.commands[0].name, name.trim(), "{text}");
            }
        }
    }
}
