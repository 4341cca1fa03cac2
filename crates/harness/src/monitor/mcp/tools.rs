//! Tool lists and results of tool calls: MCP-TOOL-02 to -11, MCP-PAGE-01.

use std::collections::HashMap;

use serde_json::Value;

use super::super::{ConversationState, LineView, Monitor, MonitorNotes, RequestRecord};
use super::{is_since, show};
use agentproto_wire::{Direction, MessageKind};

/// Maximum number of tools that are remembered.
const MAX_VIOLATIONS: usize = 2_000;

#[derive(Default)]
pub struct McpToolMonitor {
    known: HashMap<String, Tool>,
    /// Names in the current list, over all of its pages.
    names: Vec<String>,
}

struct Tool {
    input: Option<jsonschema::Validator>,
    /// The schema of its structured results.
    output: Option<jsonschema::Validator>,
    has_output: bool,
}

impl Monitor for McpToolMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (Some(json), Some(request)) = (view.json, view.answers) else {
            return;
        };
        let is_result = matches!(
            view.envelope.map(|e| &e.kind),
            Some(MessageKind::Response {
                is_error: false,
                ..
            })
        );
        if view.line.direction != Direction::FromAgent || !is_result || request.is_invalid {
            return;
        }
        let lines = [view.line.number, request.line];
        let result = json.get("result").unwrap_or(&Value::Null);
        match request.method.as_str() {
            "tools/list" => self.list(request, result, &lines, notes),
            "tools/call" => self.call(request, result, &lines, state, notes),
            _ => {}
        }
    }
}

impl McpToolMonitor {
    fn list(
        &mut self,
        request: &RequestRecord,
        result: &Value,
        lines: &[u64],
        notes: &mut MonitorNotes,
    ) {
        match result.get("nextCursor") {
            // Pagination is only tested if there is a cursor.
            None => {}
            Some(Value::String(_)) => notes.pass("MCP-PAGE-01"),
            odd => {
                let what = format!("`nextCursor` is {}; it must be a string", show(odd));
                notes.violation("MCP-PAGE-01", what, lines);
            }
        }
        let tools = result.get("tools");
        let Some(tools) = tools.and_then(Value::as_array) else {
            let what = format!("`tools` is {}; it must be a list", show(tools));
            notes.violation("MCP-TOOL-02", what, lines);
            return;
        };
        if request.params.get("cursor").is_none() {
            self.names.clear();
        }
        for tool in tools {
            let Some(name) = tool.get("name").and_then(Value::as_str) else {
                let what = format!("a tool has no `name`: {}", show(Some(tool)));
                notes.violation("MCP-TOOL-02", what, lines);
                continue;
            };
            notes.pass("MCP-TOOL-02");
            self.name(name, lines, notes);
            let input = input(name, tool, lines, notes);
            let (has_output, output) = output(name, tool, lines, notes);
            if self.known.len() < MAX_VIOLATIONS {
                let tool = Tool {
                    input,
                    output,
                    has_output,
                };
                self.known.insert(name.to_owned(), tool);
            }
        }
    }

    fn name(&mut self, name: &str, lines: &[u64], notes: &mut MonitorNotes) {
        match self.names.iter().any(|known| known == name) {
            true => {
                let what = format!("more than one tool has the name `{name}`");
                notes.violation("MCP-TOOL-07", what, lines);
            }
            // The first name cannot be a duplicate.
            false if !self.names.is_empty() => notes.pass("MCP-TOOL-07"),
            false => {}
        }
        if self.names.len() < MAX_VIOLATIONS {
            self.names.push(name.to_owned());
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        match (1..=128).contains(&name.chars().count()) && name.chars().all(fits) {
            true => notes.pass("MCP-TOOL-06"),
            false => {
                let what = format!(
                    "the tool name {name:?} is invalid; it should have 1 to 128 characters out of \
                     letters, digits, `_`, `-` and `.`"
                );
                notes.violation("MCP-TOOL-06", what, lines);
            }
        }
    }

    fn call(
        &self,
        request: &RequestRecord,
        result: &Value,
        lines: &[u64],
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        // A task returns its result later.
        if result.get("task").is_some() {
            return;
        }
        let is_error = result.get("isError");
        let content = result.get("content").and_then(Value::as_array);
        if is_error.is_some_and(|flag| !flag.is_boolean()) {
            let what = format!("`isError` is {}; it must be a boolean", show(is_error));
            notes.violation("MCP-TOOL-08", what, lines);
        } else if content.is_none() {
            let what = format!(
                "`content` of a result is {}; it must be a list, which may be empty",
                show(result.get("content"))
            );
            notes.violation("MCP-TOOL-08", what, lines);
        } else {
            notes.pass("MCP-TOOL-08");
        }
        for block in content.into_iter().flatten() {
            match odd_block(block) {
                None => notes.pass("MCP-TOOL-09"),
                Some(what) => notes.violation("MCP-TOOL-09", what, lines),
            }
        }
        if is_error != Some(&Value::Bool(true)) && is_since(state, "2025-06-18") {
            self.structure(request, result, lines, notes);
        }
    }

    fn structure(
        &self,
        request: &RequestRecord,
        result: &Value,
        lines: &[u64],
        notes: &mut MonitorNotes,
    ) {
        let name = request.params.get("name").and_then(Value::as_str);
        let tool = name.and_then(|name| self.known.get(name));
        let Some(tool) = tool.filter(|tool| tool.has_output) else {
            return;
        };
        // Another requirement covers calls with invalid arguments.
        let nothing = Value::Object(serde_json::Map::new());
        let arguments = request.params.get("arguments").unwrap_or(&nothing);
        if !tool
            .input
            .as_ref()
            .is_some_and(|input| input.is_valid(arguments))
        {
            return;
        }
        let name = name.unwrap_or_default();
        let structure = result.get("structuredContent");
        let Some(structure) = structure.filter(|s| s.is_object()) else {
            let what = format!(
                "`structuredContent` of a result is {}, but the tool `{name}` has an \
                 `outputSchema`",
                show(structure)
            );
            notes.violation("MCP-TOOL-10", what, lines);
            return;
        };
        notes.pass("MCP-TOOL-10");
        let Some(output) = &tool.output else {
            return;
        };
        match output.iter_errors(structure).next() {
            None => notes.pass("MCP-TOOL-11"),
            Some(error) => {
                let place = error.instance_path().to_string();
                let what = format!(
                    "`structuredContent{place}` does not match the `outputSchema` of `{name}`: \
                     {error}"
                );
                notes.violation("MCP-TOOL-11", what, lines);
            }
        }
    }
}

fn input(
    name: &str,
    tool: &Value,
    lines: &[u64],
    notes: &mut MonitorNotes,
) -> Option<jsonschema::Validator> {
    let schema = tool.get("inputSchema");
    let Some(schema) = schema.filter(|s| s.is_object()) else {
        let what = format!(
            "`inputSchema` of the tool `{name}` is {}; it is required, and must be `{{\"type\": \
             \"object\"}}` for a tool without arguments",
            show(schema)
        );
        notes.violation("MCP-TOOL-03", what, lines);
        return None;
    };
    notes.pass("MCP-TOOL-03");
    let (validator, wrong) = compiled(schema);
    match wrong {
        None => notes.pass("MCP-TOOL-04"),
        Some(why) => {
            let what = format!("`inputSchema` of the tool `{name}` {why}");
            notes.violation("MCP-TOOL-04", what, lines);
        }
    }
    validator
}

fn output(
    name: &str,
    tool: &Value,
    lines: &[u64],
    notes: &mut MonitorNotes,
) -> (bool, Option<jsonschema::Validator>) {
    let Some(schema) = tool.get("outputSchema") else {
        return (false, None);
    };
    let (validator, wrong) = compiled(schema);
    match wrong {
        None => notes.pass("MCP-TOOL-05"),
        Some(why) => {
            let what = format!("`outputSchema` of the tool `{name}` {why}");
            notes.violation("MCP-TOOL-05", what, lines);
        }
    }
    (true, validator)
}

/// The validator for an object schema, and what is wrong with the schema.
fn compiled(schema: &Value) -> (Option<jsonschema::Validator>, Option<String>) {
    let of = schema.get("type");
    if of.and_then(Value::as_str) != Some("object") {
        let why = format!("has the `type` {}; it must be \"object\"", show(of));
        return (None, Some(why));
    }
    match jsonschema::validator_for(schema) {
        Ok(validator) => (Some(validator), None),
        Err(error) => (None, Some(format!("is not a valid JSON Schema: {error}"))),
    }
}

/// What is wrong with a content block.
fn odd_block(block: &Value) -> Option<String> {
    let kind = block.get("type").and_then(Value::as_str);
    let needed: &[&str] = match kind {
        Some("text") => &["text"],
        Some("image" | "audio") => &["data", "mimeType"],
        Some("resource_link") => &["uri", "name"],
        Some("resource") => {
            let resource = block.get("resource");
            let has = |key: &str| {
                let value = resource.and_then(|r| r.get(key));
                value.is_some_and(Value::is_string)
            };
            let whole = has("uri") && (has("text") || has("blob"));
            return (!whole)
                .then(|| "an embedded `resource` needs a `uri`, and `text` or `blob`".to_owned());
        }
        _ => {
            return Some(format!(
                "content has the `type` {}; it must be text, image, audio, resource_link or \
                 resource",
                show(block.get("type"))
            ));
        }
    };
    let is_there = |key: &&&str| !block.get(**key).is_some_and(Value::is_string);
    let missing = needed.iter().find(is_there)?;
    let kind = kind.unwrap_or_default();
    Some(format!(
        "content of type `{kind}` needs the string `{missing}`"
    ))
}
