//! Describes each command for `capabilities`. The options come from the definition of the command
//! line. This file has only what that definition does not contain.

use std::sync::OnceLock;

use clap::CommandFactory;
use serde_json::{Map, Value, json};

use crate::cli::Cli;
use agentproto_report::event::Event;

/// A command with machine mode.
pub struct Entry {
    pub name: &'static str,
    pub kind: Kind,
    /// Events in addition to those that every command has.
    pub events: &'static [Event],
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
const FRAMEWORK: [Event; 3] = [Event::Meta, Event::Error, Event::Summary];

const fn entry(name: &'static str, kind: Kind, events: &'static [Event]) -> Entry {
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

const fn read(name: &'static str, events: &'static [Event]) -> Entry {
    entry(name, Kind::ReadOnly, events)
}

/// A command of an agent's lifecycle, which starts programs.
const fn agent(name: &'static str, kind: Kind, events: &'static [Event]) -> Entry {
    Entry {
        is_starter: true,
        ..entry(name, kind, events)
    }
}

pub const ENTRIES: &[Entry] = &[
    Entry {
        writing_options: &["--fix", "--unsafe-fixes", "--write-baseline"],
        input_modes: &["operands", "stdin-text"],
        ..read("lint", &[Event::Finding])
    },
    read("explain", &[Event::Doc]),
    read("rules", &[Event::Rule, Event::AoiRule]),
    read("coverage", &[Event::Requirement]),
    read("doctor", &[Event::Check]),
    Entry {
        natural_key: Some("TARGET: an installed program is not installed again"),
        ..agent(
            "install",
            Kind::Mutating,
            &[
                Event::Progress,
                Event::Warning,
                Event::Plan,
                Event::Installed,
            ],
        )
    },
    Entry {
        input_modes: &["operands", "stdin-text"],
        ..agent(
            "run",
            Kind::Mutating,
            &[
                Event::Progress,
                Event::Warning,
                Event::TextDelta,
                Event::Thought,
                Event::ToolCall,
                Event::ToolResult,
                Event::AgentPrompt,
                Event::TurnEnd,
                Event::Session,
            ],
        )
    },
    // Read-only, because changes are made by its callers.
    Entry {
        is_starter: true,
        is_unbounded: true,
        ..read("serve", &[Event::Warning, Event::Listening])
    },
    // Read-only, because the agent does what a session is asked for.
    Entry {
        is_unbounded: true,
        input_modes: &["operands", "stdin-text"],
        ..read("sessions", &[Event::HostSession, Event::SessionEvent])
    },
    Entry {
        natural_key: Some("PATH: a registered directory keeps its name"),
        ..entry(
            "workspace add",
            Kind::Mutating,
            &[Event::Plan, Event::Workspace],
        )
    },
    read("workspace list", &[Event::Workspace]),
    Entry {
        natural_key: Some("SLUG: a removed workspace cannot be removed again"),
        ..entry(
            "workspace remove",
            Kind::Mutating,
            &[Event::Plan, Event::Workspace],
        )
    },
    Entry {
        natural_key: Some("SLUG: the active workspace stays active"),
        ..entry(
            "workspace use",
            Kind::Mutating,
            &[Event::Plan, Event::Workspace],
        )
    },
    read("audit verify", &[Event::AuditLog]),
    read(
        "mock",
        &[
            Event::Scenario,
            Event::Variant,
            Event::Mutant,
            Event::AoiMutant,
            Event::AoiVariant,
            Event::Model,
            Event::Asked,
            Event::Warning,
        ],
    ),
    Entry {
        is_starter: true,
        writing_options: &["--report-dir"],
        ..read(
            "certify",
            &[Event::Warning, Event::Result, Event::Mutant, Event::Variant],
        )
    },
    read("sandbox explain", &[Event::Clause]),
    agent(
        "sandbox run",
        Kind::Mutating,
        &[Event::Output, Event::Egress, Event::Sandboxed],
    ),
    Entry {
        natural_key: Some("TARGET and step: a completed step is not repeated"),
        ..agent(
            "setup",
            Kind::Mutating,
            &[
                Event::Progress,
                Event::Warning,
                Event::Plan,
                Event::SetupStep,
            ],
        )
    },
    Entry {
        natural_key: Some("TARGET: a valid login is kept"),
        ..agent(
            "auth login",
            Kind::Mutating,
            &[
                Event::Progress,
                Event::Warning,
                Event::Plan,
                Event::AuthStatus,
            ],
        )
    },
    agent(
        "auth status",
        Kind::ReadOnly,
        &[Event::Progress, Event::Warning, Event::AuthStatus],
    ),
    Entry {
        natural_key: Some("TARGET: the login is refreshed"),
        ..agent(
            "auth refresh",
            Kind::Mutating,
            &[
                Event::Progress,
                Event::Warning,
                Event::Plan,
                Event::AuthStatus,
            ],
        )
    },
    Entry {
        natural_key: Some("NAME: storing the same value again changes nothing"),
        input_modes: &["operands", "stdin-text"],
        ..agent(
            "auth set",
            Kind::Mutating,
            &[Event::Progress, Event::Warning, Event::Plan, Event::Secret],
        )
    },
    Entry {
        natural_key: Some("NAME: a forgotten secret stays forgotten"),
        ..agent(
            "auth forget",
            Kind::Destructive,
            &[
                Event::Progress,
                Event::Warning,
                Event::Plan,
                Event::Secret,
                Event::AuthStatus,
            ],
        )
    },
    Entry {
        is_starter: true,
        writing_options: &["--report-dir"],
        ..read(
            "aoi-lint",
            &[
                Event::Check,
                Event::Pair,
                Event::AoiMutant,
                Event::AoiVariant,
                Event::Warning,
            ],
        )
    },
    Entry {
        is_starter: true,
        writing_options: &["--report-dir", "--to"],
        ..read(
            "replay",
            &[Event::Transcript, Event::Difference, Event::Result],
        )
    },
    read("diff", &[Event::Transcript, Event::Difference]),
    Entry {
        writing_options: &["--report-dir"],
        ..read("report merge", &[Event::Result])
    },
    Entry {
        writing_options: &["--report-dir"],
        ..read("report render", &[Event::Result])
    },
    read("schema", &[Event::Document]),
    read("input-schema", &[Event::Document]),
    read("capabilities", &[Event::Document]),
];

impl Entry {
    /// All events that its stream may contain.
    pub fn all_events(&self) -> impl Iterator<Item = Event> {
        FRAMEWORK.iter().chain(self.events).copied()
    }
}

/// The whole command line, built once.
pub fn tree() -> clap::Command {
    static TREE: OnceLock<clap::Command> = OnceLock::new();
    TREE.get_or_init(Cli::command).clone()
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
        .filter_map(|entry| Some(described(entry, definition(&tree, entry.name)?)))
        .collect()
}

fn described(entry: &Entry, command: &clap::Command) -> Value {
    let events: Vec<&str> = entry.all_events().map(Event::as_str).collect();
    let has = |id| takes(command, id);
    let mut fields = Map::new();
    let mut say = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    say("name", entry.name.into());
    say("read_only", (entry.kind == Kind::ReadOnly).into());
    say("destructive", (entry.kind == Kind::Destructive).into());
    say("bounded", (!entry.is_unbounded).into());
    say("unbounded", entry.is_unbounded.into());
    say("supports_limit", has("limit").into());
    say("supports_cursor", has("cursor").into());
    say("requires_confirm", has("confirm").into());
    say("supports_dry_run", has("dry_run").into());
    say("supports_idempotency_key", has("idempotency_key").into());
    say("auth_required", false.into());
    say("input_modes", json!(entry.input_modes));
    say("event_types", json!(events));
    if let Some(key) = entry.natural_key {
        say("natural_key", key.into());
    }
    if !entry.writing_options.is_empty() {
        say("writing_options", json!(entry.writing_options));
    }
    if entry.is_starter {
        say("starts_programs", true.into());
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
        let mut there = Vec::new();
        machine_modes(&tree(), "", &mut there);
        there.sort();
        let mut told: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        told.sort_unstable();
        assert_eq!(told, there);
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
