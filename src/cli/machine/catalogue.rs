//! Describes each command for `capabilities`. The options come from the definition of the command
//! line. This file has only what that definition does not contain.

use clap::CommandFactory;
use serde_json::{Map, Value, json};

use crate::cli::Cli;
use agentproto_report::event::EventType;

/// A command with machine mode.
pub struct Entry {
    pub name: &'static str,
    pub kind: Kind,
    /// Events in addition to those that every command has.
    pub events: &'static [EventType],
    /// What identifies a repeated call, if its input does.
    pub natural_key: Option<&'static str>,
    /// Options that write files, for commands that otherwise write none.
    pub writing_options: &'static [&'static str],
    /// Whether it starts the given program, or one that a manifest names.
    pub is_starter: bool,
    pub input_modes: &'static [&'static str],
    /// Whether it runs until it is stopped.
    pub is_unbounded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ReadOnly,
    Mutating,
    Destructive,
}

/// Events of every command.
const FRAMEWORK: [EventType; 3] = [EventType::Meta, EventType::Error, EventType::Summary];

const fn entry(name: &'static str, kind: Kind, events: &'static [EventType]) -> Entry {
    Entry {
        name,
        kind,
        events,
        natural_key: None,
        writing_options: &[],
        is_starter: false,
        input_modes: &["operands"],
        is_unbounded: false,
    }
}

const fn read(name: &'static str, events: &'static [EventType]) -> Entry {
    entry(name, Kind::ReadOnly, events)
}

/// A command of an agent's lifecycle, which starts programs.
const fn agent(name: &'static str, kind: Kind, events: &'static [EventType]) -> Entry {
    Entry {
        is_starter: true,
        ..entry(name, kind, events)
    }
}

pub const ENTRIES: &[Entry] = &[
    Entry {
        writing_options: &["--fix", "--unsafe-fixes", "--write-baseline"],
        input_modes: &["operands", "stdin-text"],
        ..read("lint", &[EventType::Finding])
    },
    read("explain", &[EventType::Doc]),
    read("rules", &[EventType::Rule, EventType::AoiRule]),
    read("coverage", &[EventType::Requirement]),
    read("doctor", &[EventType::Check]),
    Entry {
        natural_key: Some("TARGET: an installed program is not installed again"),
        ..agent(
            "install",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::Plan,
                EventType::Installed,
            ],
        )
    },
    Entry {
        input_modes: &["operands", "stdin-text"],
        ..agent(
            "run",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::TextDelta,
                EventType::Thought,
                EventType::ToolCall,
                EventType::ToolResult,
                EventType::AgentPrompt,
                EventType::TurnEnd,
                EventType::Session,
            ],
        )
    },
    Entry {
        input_modes: &["operands", "stdin-text"],
        ..agent(
            "call",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::ToolCommand,
                EventType::ToolOutput,
                EventType::Result,
            ],
        )
    },
    // Read-only, because changes are made by its callers.
    Entry {
        is_starter: true,
        is_unbounded: true,
        ..read("serve", &[EventType::Warning, EventType::Listening])
    },
    // Read-only, because the agent does what a session is asked for.
    Entry {
        is_unbounded: true,
        input_modes: &["operands", "stdin-text"],
        ..read(
            "sessions",
            &[
                EventType::HostSession,
                EventType::SessionEvent,
                EventType::SignInLink,
            ],
        )
    },
    Entry {
        is_starter: true,
        input_modes: &["operands", "stdin-text"],
        ..entry(
            "sessions start",
            Kind::Mutating,
            &[
                EventType::Plan,
                EventType::HostSession,
                EventType::Warning,
                EventType::TextDelta,
                EventType::Thought,
                EventType::ToolCall,
                EventType::ToolResult,
                EventType::AgentPrompt,
                EventType::TurnEnd,
            ],
        )
    },
    Entry {
        input_modes: &["operands", "stdin-text"],
        ..entry(
            "sessions prompt",
            Kind::Mutating,
            &[
                EventType::HostSession,
                EventType::Warning,
                EventType::TextDelta,
                EventType::Thought,
                EventType::ToolCall,
                EventType::ToolResult,
                EventType::AgentPrompt,
                EventType::TurnEnd,
            ],
        )
    },
    Entry {
        natural_key: Some("ID and QUESTION: an answered question cannot be answered again"),
        ..entry(
            "sessions answer",
            Kind::Mutating,
            &[EventType::AgentPrompt, EventType::HostSession],
        )
    },
    Entry {
        natural_key: Some("ID: without a turn, nothing is interrupted"),
        ..entry(
            "sessions interrupt",
            Kind::Mutating,
            &[EventType::Plan, EventType::HostSession],
        )
    },
    Entry {
        natural_key: Some("ID: an ended session is not killed again"),
        ..entry(
            "sessions kill",
            Kind::Mutating,
            &[EventType::Plan, EventType::HostSession],
        )
    },
    Entry {
        natural_key: Some("ID: a forgotten session stays forgotten"),
        ..entry(
            "sessions forget",
            Kind::Destructive,
            &[EventType::Plan, EventType::HostSession],
        )
    },
    Entry {
        writing_options: &["--output-file"],
        ..read(
            "sessions export",
            &[EventType::HostSession, EventType::SessionEvent],
        )
    },
    Entry {
        natural_key: Some("PATH: a registered directory keeps its name"),
        ..entry(
            "workspace add",
            Kind::Mutating,
            &[EventType::Plan, EventType::Workspace],
        )
    },
    read("workspace list", &[EventType::Workspace]),
    Entry {
        natural_key: Some("SLUG: a removed workspace cannot be removed again"),
        ..entry(
            "workspace remove",
            Kind::Mutating,
            &[EventType::Plan, EventType::Workspace],
        )
    },
    Entry {
        natural_key: Some("SLUG: the active workspace stays active"),
        ..entry(
            "workspace use",
            Kind::Mutating,
            &[EventType::Plan, EventType::Workspace],
        )
    },
    read("audit verify", &[EventType::AuditLog]),
    read("audit anchor", &[EventType::AuditLog]),
    read(
        "mock",
        &[
            EventType::Scenario,
            EventType::Variant,
            EventType::Mutant,
            EventType::AoiMutant,
            EventType::AoiVariant,
            EventType::Model,
            EventType::Asked,
            EventType::Warning,
        ],
    ),
    Entry {
        is_starter: true,
        writing_options: &["--report-dir"],
        ..read(
            "certify",
            &[
                EventType::Warning,
                EventType::Result,
                EventType::Mutant,
                EventType::Variant,
                EventType::Recipe,
            ],
        )
    },
    read("sandbox explain", &[EventType::Clause]),
    agent(
        "sandbox run",
        Kind::Mutating,
        &[EventType::Output, EventType::Egress, EventType::Sandboxed],
    ),
    Entry {
        natural_key: Some("TARGET and step: a completed step is not repeated"),
        ..agent(
            "setup",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::Plan,
                EventType::SetupStep,
            ],
        )
    },
    Entry {
        natural_key: Some("TARGET: a valid login is kept"),
        ..agent(
            "auth login",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::Plan,
                EventType::AuthStatus,
            ],
        )
    },
    agent(
        "auth status",
        Kind::ReadOnly,
        &[
            EventType::Progress,
            EventType::Warning,
            EventType::AuthStatus,
        ],
    ),
    Entry {
        natural_key: Some("TARGET: the login is refreshed"),
        ..agent(
            "auth refresh",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::Plan,
                EventType::AuthStatus,
            ],
        )
    },
    Entry {
        natural_key: Some("NAME: storing the same value again changes nothing"),
        input_modes: &["operands", "stdin-text"],
        ..agent(
            "auth set",
            Kind::Mutating,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::Plan,
                EventType::Secret,
            ],
        )
    },
    Entry {
        natural_key: Some("NAME: a forgotten secret stays forgotten"),
        ..agent(
            "auth forget",
            Kind::Destructive,
            &[
                EventType::Progress,
                EventType::Warning,
                EventType::Plan,
                EventType::Secret,
                EventType::AuthStatus,
            ],
        )
    },
    Entry {
        is_starter: true,
        writing_options: &["--report-dir"],
        ..read(
            "aoi-lint",
            &[
                EventType::Check,
                EventType::Pair,
                EventType::AoiMutant,
                EventType::AoiVariant,
                EventType::Warning,
            ],
        )
    },
    Entry {
        is_starter: true,
        writing_options: &["--report-dir", "--to"],
        ..read(
            "replay",
            &[
                EventType::Transcript,
                EventType::Difference,
                EventType::Result,
            ],
        )
    },
    read("diff", &[EventType::Transcript, EventType::Difference]),
    Entry {
        writing_options: &["--report-dir"],
        ..read("report merge", &[EventType::Result])
    },
    Entry {
        writing_options: &["--report-dir"],
        ..read("report render", &[EventType::Result])
    },
    read("export open-design", &[EventType::Document]),
    read("schema", &[EventType::Document]),
    read("input-schema", &[EventType::Document]),
    read("capabilities", &[EventType::Document]),
];

impl Entry {
    /// All events that its stream may contain.
    pub fn all_events(&self) -> impl Iterator<Item = EventType> {
        FRAMEWORK.iter().chain(self.events).copied()
    }
}

/// The whole command line, with all subcommands defined.
pub fn tree() -> clap::Command {
    let mut tree = Cli::command();
    tree.build();
    tree
}

/// Options for agentproto.toml, which only these commands read.
const CONFIG_OPTIONS: [&str; 2] = ["config", "no_config"];
const CONFIG_COMMANDS: [&str; 2] = ["lint", "aoi-lint"];

/// Hides the global options in the help of a subcommand, because they would be half of each page.
/// The subcommand still accepts them.
pub fn hide_global_options(command: clap::Command) -> clap::Command {
    let reads_config = CONFIG_COMMANDS.contains(&command.get_name());
    let is_shown = |arg: &clap::Arg| {
        !arg.is_global_set() || (reads_config && CONFIG_OPTIONS.contains(&arg.get_id().as_str()))
    };
    let command = command.mut_args(|arg| match is_shown(&arg) {
        true => arg,
        false => arg.hide(true),
    });
    point_to_global_options(command)
}

/// Adds a line about the global options to the help of a command and of its subcommands.
fn point_to_global_options(command: clap::Command) -> clap::Command {
    let note = "`agentproto --help` lists the other global options (colors, verbosity, …).";
    let text = match command.get_after_help() {
        Some(text) => format!("{text}\n\n{note}"),
        None => note.to_owned(),
    };
    command
        .after_help(text)
        .mut_subcommands(point_to_global_options)
}

/// The definition of a command by its name.
fn definition<'t>(tree: &'t clap::Command, name: &str) -> Option<&'t clap::Command> {
    name.split(' ')
        .try_fold(tree, |level, word| level.find_subcommand(word))
}

fn takes(command: &clap::Command, id: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == id)
}

/// The descriptions of all commands for `capabilities`.
pub fn commands() -> Vec<Value> {
    let tree = tree();
    ENTRIES
        .iter()
        .filter_map(|entry| Some(describe(entry, definition(&tree, entry.name)?)))
        .collect()
}

fn describe(entry: &Entry, command: &clap::Command) -> Value {
    let events: Vec<&str> = entry.all_events().map(EventType::as_str).collect();
    let has = |id| takes(command, id);
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    add("name", entry.name.into());
    add("read_only", (entry.kind == Kind::ReadOnly).into());
    add("destructive", (entry.kind == Kind::Destructive).into());
    add("bounded", (!entry.is_unbounded).into());
    add("unbounded", entry.is_unbounded.into());
    add("supports_limit", has("limit").into());
    add("supports_cursor", has("cursor").into());
    add("requires_confirm", has("confirm").into());
    add("supports_dry_run", has("dry_run").into());
    add("supports_idempotency_key", has("idempotency_key").into());
    add("auth_required", false.into());
    add("input_modes", json!(entry.input_modes));
    add("event_types", json!(events));
    if let Some(key) = entry.natural_key {
        add("natural_key", key.into());
    }
    if !entry.writing_options.is_empty() {
        add("writing_options", json!(entry.writing_options));
    }
    if entry.is_starter {
        add("starts_programs", true.into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command with `--output jsonl`, by its name.
    fn machine_modes(command: &clap::Command, name: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands() {
            let name = format!("{name} {}", below.get_name());
            let output = below.get_arguments().find(|arg| arg.get_id() == "output");
            let has_events = output.is_some_and(|arg| {
                let values = arg.get_possible_values();
                values.iter().any(|value| value.get_name() == "jsonl")
            });
            if has_events {
                found.push(name.trim().to_owned());
            }
            machine_modes(below, &name, found);
        }
    }

    /// AOI-17-01.
    #[test]
    #[cfg(agents)]
    fn capabilities_match_the_command_line() {
        let mut found = Vec::new();
        machine_modes(&tree(), "", &mut found);
        found.sort();
        let mut declared: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        declared.sort_unstable();
        assert_eq!(declared, found);
        for entry in ENTRIES {
            let tree = tree();
            let command = definition(&tree, entry.name).expect("a command");
            for option in entry.writing_options {
                let long = option.trim_start_matches("--");
                let is_there = command.get_arguments().any(|a| a.get_long() == Some(long));
                assert!(is_there, "{} has no {option}", entry.name);
            }
            let changes = entry.kind != Kind::ReadOnly;
            assert_eq!(takes(command, "idempotency_key"), changes, "{}", entry.name);
            assert_eq!(takes(command, "confirm"), entry.kind == Kind::Destructive);
        }
    }
}
