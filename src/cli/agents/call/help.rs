//! The list of commands, and the help of one command.

use std::io::{self, Write};

use serde_json::Value;

use agentproto_runtime::tool::schema::{self, InputInfo};
use agentproto_runtime::tool::{ToolBundle, ToolCommand};
use agentproto_text::{escape_line, wrap};

/// Maximum width of the first column.
const MAX_COLUMN: usize = 36;

/// Lists commands with their descriptions.
pub fn list(
    bundle: &ToolBundle,
    target: &str,
    commands: &[&ToolCommand],
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let manifest = bundle.context().bundle.common();
    if let Some(name) = manifest.name() {
        writeln!(out, "{}\n", escape_line(name))?;
    }
    writeln!(
        out,
        "Usage: agentproto call {target} COMMAND [--INPUT VALUE]…\n"
    )?;
    writeln!(out, "Commands:")?;
    let rows = commands.iter().map(|command| {
        let text = match command.problem() {
            Some(problem) => format!("cannot be called: {}", problem.message),
            None => command.description.trim().to_owned(),
        };
        (command.title(), text)
    });
    table(&rows.collect::<Vec<_>>(), width, out)?;
    writeln!(
        out,
        "\n`agentproto call {target} COMMAND --help` lists the inputs of a command."
    )
}

/// The inputs of a command as options.
pub fn command(
    target: &str,
    command: &ToolCommand,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}\n", escape_line(&command.name))?;
    for line in wrap(command.description.trim(), width, 0) {
        writeln!(out, "{}", escape_line(&line))?;
    }
    let inputs = schema::inputs(&command.inputs);
    let options = match inputs.is_empty() {
        true => "",
        false => " [--INPUT VALUE]…",
    };
    let title = command.title();
    writeln!(
        out,
        "\nUsage: agentproto call {target} {}{options}",
        escape_line(&title)
    )?;
    if let Some(problem) = command.problem() {
        writeln!(
            out,
            "\nIt cannot be called: {}",
            escape_line(&problem.message)
        )?;
    }
    if !inputs.is_empty() {
        writeln!(out, "\nInputs:")?;
        let rows: Vec<(String, String)> = inputs.iter().map(row).collect();
        table(&rows, width, out)?;
    }
    writeln!(
        out,
        "\n`agentproto call --input JSON {target} {}` takes all inputs as one JSON object.",
        escape_line(&title)
    )
}

fn row(input: &InputInfo<'_>) -> (String, String) {
    let option = match kind(input.schema) {
        None => format!("--{}", input.name),
        Some(kind) if input.has_type("array") => format!("--{} <{kind}>…", input.name),
        Some(kind) => format!("--{} <{kind}>", input.name),
    };
    let mut text = vec![input.description().to_owned()];
    if input.is_required {
        text.push("[required]".to_owned());
    }
    let listed = input.schema["enum"].as_array();
    let listed = listed.or_else(|| input.items()?["enum"].as_array());
    if let Some(values) = listed {
        let values: Vec<String> = values.iter().map(plain).collect();
        text.push(format!("[possible values: {}]", values.join(", ")));
    }
    if let Some(default) = input.schema.get("default").filter(|v| !v.is_null()) {
        text.push(format!("[default: {}]", plain(default)));
    }
    text.retain(|part| !part.is_empty());
    (option, text.join(" "))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The placeholder for a value, or `None` for a flag.
fn kind(schema: &Value) -> Option<&'static str> {
    let has = |name| schema::has_type(schema, name);
    match () {
        () if has("string") => Some("STRING"),
        () if has("boolean") => None,
        () if has("integer") => Some("INTEGER"),
        () if has("number") => Some("NUMBER"),
        () if has("array") => schema.get("items").and_then(kind).or(Some("VALUE")),
        () if has("object") => Some("JSON"),
        () => Some("VALUE"),
    }
}

fn table(rows: &[(String, String)], width: usize, out: &mut dyn Write) -> io::Result<()> {
    let lengths = rows.iter().map(|(first, _)| first.chars().count());
    let column = lengths
        .filter(|length| *length <= MAX_COLUMN)
        .max()
        .unwrap_or(0);
    for (first, text) in rows {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = wrap(&text, width.saturating_sub(column + 4).max(30), 0);
        let mut first = escape_line(first);
        if first.chars().count() > column {
            writeln!(out, "  {first}")?;
            first = "".into();
        }
        for line in &lines {
            writeln!(out, "  {first:column$}  {}", escape_line(line))?;
            first = "".into();
        }
        if lines.is_empty() && !first.is_empty() {
            writeln!(out, "  {first}")?;
        }
    }
    Ok(())
}
