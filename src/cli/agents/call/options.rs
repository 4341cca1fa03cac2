//! Reads the inputs of a tool from options: `--NAME VALUE` for each property of its schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use agentproto_runtime::tool::ToolCommand;
use agentproto_runtime::tool::schema::{self, InputInfo};
use agentproto_runtime::{Code, Error};
use agentproto_text::truncate;

/// Options of `call` itself. They must precede the target.
const OWN: [&str; 11] = [
    "input",
    "timeout",
    "yes",
    "sandbox",
    "adapters",
    "allow-invalid",
    "allow-unverified",
    "cwd",
    "idempotency-key",
    "output",
    "format",
];

/// Whether the arguments ask for help. An input of that name takes precedence.
pub fn asks_for_help(words: &[String], inputs: Option<&Value>) -> bool {
    let has_input = |name| {
        let known = inputs.map(schema::inputs).unwrap_or_default();
        known.iter().any(|input| input.name == name)
    };
    let is_help = |word: &String| word == "-h" || (word == "--help" && !has_input("help"));
    words.iter().any(is_help)
}

/// The input that the options describe.
pub fn input(command: &ToolCommand, words: &[String]) -> Result<Value, Error> {
    let known = schema::inputs(&command.inputs);
    let mut fields = Map::new();
    let mut given = BTreeSet::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--").filter(|rest| !rest.is_empty()) else {
            let what = format!("unexpected argument `{}`", truncate(word, 60));
            return Err(usage(command, &what));
        };
        let (name, inline) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let Some((input, is_negated)) = find(&known, name) else {
            if schema::is_closed(&command.inputs) {
                return Err(unknown(command, name));
            }
            let value = value(command, name, inline, &mut words, &known)?;
            fields.insert(name.to_owned(), value.into());
            continue;
        };
        let is_list = input.has_type("array");
        if !given.insert(input.name) && !is_list {
            let what = format!("`--{name}` is given twice");
            return Err(usage(command, &what).details(json!({ "pointer": pointer(input.name) })));
        }
        if input.has_type("boolean") && !input.has_type("string") {
            let follows = words.next_if(|next| matches!(next.as_str(), "true" | "false"));
            let text = inline.or(follows.map(String::as_str)).unwrap_or("true");
            let value = convert(input.schema, text);
            let value = value
                .as_bool()
                .map_or(value, |set| (set != is_negated).into());
            fields.insert(input.name.to_owned(), value);
            continue;
        }
        let text = value(command, name, inline, &mut words, &known)?;
        if !is_list {
            fields.insert(input.name.to_owned(), convert(input.schema, &text));
            continue;
        }
        let item = convert(input.items().unwrap_or(&Value::Null), &text);
        let list = fields.entry(input.name).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(item);
        }
    }
    Ok(Value::Object(fields))
}

/// The input of an option, and whether the option is `--no-NAME`.
fn find<'i, 's>(known: &'i [InputInfo<'s>], name: &str) -> Option<(&'i InputInfo<'s>, bool)> {
    let by_name = |name: &str| {
        let same = |input: &&InputInfo<'_>| input.name == name;
        let alike = |input: &&InputInfo<'_>| input.name.replace('_', "-") == name.replace('_', "-");
        known.iter().find(same).or_else(|| known.iter().find(alike))
    };
    let negated = || {
        let input = by_name(name.strip_prefix("no-")?)?;
        input.has_type("boolean").then_some((input, true))
    };
    by_name(name).map(|input| (input, false)).or_else(negated)
}

/// The value of an option: after `=`, or the next argument.
fn value<'w>(
    command: &ToolCommand,
    name: &str,
    inline: Option<&str>,
    words: &mut std::iter::Peekable<impl Iterator<Item = &'w String>>,
    known: &[InputInfo<'_>],
) -> Result<String, Error> {
    if let Some(inline) = inline {
        return Ok(inline.to_owned());
    }
    let is_option = |word: &String| {
        let name = word.strip_prefix("--").unwrap_or_default();
        find(known, name.split('=').next().unwrap_or_default()).is_some()
    };
    match words.next_if(|word| !is_option(word)) {
        Some(word) => Ok(word.clone()),
        None => {
            let what = format!("`--{name}` needs a value");
            Err(usage(command, &what).details(json!({ "pointer": pointer(name) })))
        }
    }
}

/// The value that a text means for a schema. A text that does not fit stays a string, so that the
/// schema check reports it.
fn convert(schema: &Value, text: &str) -> Value {
    let string = || Value::String(text.to_owned());
    let listed = schema["enum"].as_array().into_iter().flatten();
    let mut listed = listed.chain(schema.get("const"));
    let is_text = |value: &&Value| match value {
        Value::String(known) => known == text,
        other => serde_json::from_str::<Value>(text).is_ok_and(|value| value == **other),
    };
    if let Some(value) = listed.find(is_text) {
        return value.clone();
    }
    let has = |name: &str| schema::has_type(schema, name);
    if has("string") {
        return string();
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return string();
    };
    let fits = match &value {
        Value::Null => has("null"),
        Value::Bool(_) => has("boolean"),
        Value::Number(_) => has("number") || has("integer"),
        Value::String(_) => false,
        Value::Array(_) => has("array") || schema.get("type").is_none(),
        Value::Object(_) => has("object") || schema.get("type").is_none(),
    };
    if fits { value } else { string() }
}

fn unknown(command: &ToolCommand, name: &str) -> Error {
    let error = schema::unknown_input(&command.inputs, name);
    match OWN.contains(&name) {
        true => error.hint(format!(
            "`--{name}` is an option of `agentproto call`; put it before the target"
        )),
        false => error,
    }
}

fn usage(command: &ToolCommand, what: &str) -> Error {
    Error::new(Code::InputInvalid, what.to_owned()).hint(format!(
        "`agentproto call TARGET {} --help` lists the inputs",
        command.title()
    ))
}

fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}
