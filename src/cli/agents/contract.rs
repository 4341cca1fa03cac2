//! The events that a command declares: their types and schemas. Debug builds check every line
//! against them, and so do all tests that start this program.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::cli::machine::catalogue::{ENTRIES, Entry};
use crate::cli::machine::stream::{Check, kind};
use agentproto_report::event::EventType;

pub struct Contract {
    entry: &'static Entry,
    schema: Value,
    /// Validators by event type, created at the first event of the type.
    validators: BTreeMap<&'static str, Option<Validator>>,
}

impl Contract {
    /// `None` if `command` is not a command with machine mode.
    pub fn of(command: &str) -> Option<Contract> {
        Some(Contract {
            entry: ENTRIES.iter().find(|entry| entry.name == command)?,
            schema: serde_json::from_str(agentproto_schemas::EVENTS).ok()?,
            validators: BTreeMap::new(),
        })
    }

    /// The check for the stream of a command.
    pub fn check(command: &str) -> Option<Check> {
        let mut contract = Contract::of(command)?;
        Some(Box::new(move |line| contract.violation(line)))
    }

    /// Describes what is wrong with a line, if anything.
    pub fn violation(&mut self, line: &[u8]) -> Option<String> {
        let name = kind(line);
        let command = self.entry.name;
        let Some(event) = EventType::ALL.iter().find(|event| event.as_str() == name) else {
            return Some(format!(
                "`{command}` emits a line with the unknown type `{name}`"
            ));
        };
        if !self.entry.all_events().any(|declared| declared == *event) {
            let message = format!("`{command}` emits `{name}`, which it does not declare");
            return Some(message);
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            return Some(format!("`{command}` emits a `{name}` that is not JSON"));
        };
        if *event == EventType::Meta && value["command"] != command {
            let name = &value["command"];
            return Some(format!("`{command}` calls itself {name}"));
        }
        let schema = &self.schema;
        let shape = self.validators.entry(event.as_str());
        let shape = shape.or_insert_with(|| validator(schema, event.as_str()));
        match shape {
            None => Some(format!("`{name}` has no readable schema")),
            Some(shape) => {
                let error = shape.iter_errors(&value).next()?;
                let path = error.instance_path();
                Some(format!(
                    "`{command}` emits an invalid `{name}`: {path}: {error}"
                ))
            }
        }
    }
}

/// Compiles one definition and those that it refers to. Compiling all of them would take longer
/// than most commands.
fn validator(schema: &Value, name: &str) -> Option<Validator> {
    let all = schema.get("$defs")?;
    let mut defs = Map::new();
    let mut pending = vec![name.to_owned()];
    while let Some(name) = pending.pop() {
        if defs.contains_key(&name) {
            continue;
        }
        let shape = all.get(&name)?.clone();
        references(&shape, &mut pending);
        defs.insert(name, shape);
    }
    let part =
        json!({ "$schema": schema["$schema"], "$ref": format!("#/$defs/{name}"), "$defs": defs });
    jsonschema::validator_for(&part).ok()
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = value
                    .as_str()
                    .and_then(|text| text.strip_prefix("#/$defs/"));
                match name.filter(|_| key == "$ref") {
                    Some(name) => found.push(name.to_owned()),
                    None => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(command: &str, line: &str) -> Option<String> {
        Contract::of(command)
            .expect("a command")
            .violation(line.as_bytes())
    }

    /// AOI-17-01, AOI-18.2-04.
    #[test]
    fn undeclared_and_invalid_lines_are_reported() {
        let workspace = r#"{"type":"workspace","slug":"a","path":"/a","addedAt":"","updatedAt":"","active":true}"#;
        assert_eq!(violation("workspace list", workspace), None);
        for (command, line, expected) in [
            ("rules", workspace, "does not declare"),
            ("rules", r#"{"type":"ruel"}"#, "unknown type `ruel`"),
            ("rules", "prose\n", "unknown type ``"),
            (
                "workspace list",
                r#"{"type":"workspace","slug":7}"#,
                "invalid `workspace`",
            ),
            (
                "rules",
                r#"{"type":"aoi:summary"}"#,
                "invalid `aoi:summary`",
            ),
            (
                "rules",
                r#"{"type":"aoi:meta","command":"lint"}"#,
                "calls itself \"lint\"",
            ),
        ] {
            let found = violation(command, line).unwrap_or_else(|| panic!("{line} passes"));
            assert!(found.contains(expected), "{found}");
        }
    }

    /// A schema that cannot be read would check nothing.
    #[test]
    fn every_event_has_a_schema_and_a_command() {
        let schema: Value = serde_json::from_str(agentproto_schemas::EVENTS).expect("JSON");
        for event in EventType::ALL {
            let shape = validator(&schema, event.as_str());
            let shape = shape.unwrap_or_else(|| panic!("{event:?} has no schema"));
            assert!(!shape.is_valid(&Value::Null), "{event:?} accepts anything");
            let declared = ENTRIES
                .iter()
                .any(|entry| entry.all_events().any(|one| one == *event));
            assert!(declared, "{event:?} is not declared by any command");
        }
        assert!(validator(&schema, "nonsense").is_none());
    }
}
