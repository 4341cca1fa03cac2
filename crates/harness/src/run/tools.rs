//! Decides which tools of an unknown MCP server may be called, and with which arguments.
//!
//! A prompts file contains calls (`text: {name: list, arguments: {}}`), or texts for a tool that
//! takes a prompt, which is common for agents. Without a prompts file, only a tool that is marked
//! read-only is called, because other tools may do anything.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// `params` of `tools/call` by key of the prompts file. `text` is any harmless call. `bad` is a
/// call without the required arguments.
pub fn calls(tools: &[Value], prompts: &BTreeMap<String, String>) -> Value {
    let mut calls = Map::new();
    for (key, prompt) in prompts {
        if let Some(call) = named_call(prompt).or_else(|| prompt_call(prompt, tools)) {
            calls.insert(key.clone(), call);
        }
    }
    if !calls.contains_key("text")
        && let Some(call) = harmless_call(tools)
    {
        calls.insert("text".to_owned(), call);
    }
    // Any call may write log messages.
    if let (false, Some(call)) = (calls.contains_key("log"), calls.get("text").cloned()) {
        calls.insert("log".to_owned(), call);
    }
    let used = calls.get("text").and_then(|call| call.get("name")).cloned();
    let is_used = |tool: &&Value| used.is_some() && tool.get("name") == used.as_ref();
    let has_required = |tool: &&Value| !required(tool).is_empty();
    let mut candidates = tools.iter().filter(has_required);
    let bad = candidates.clone().find(is_used);
    if let Some(tool) = bad.or_else(|| candidates.find(|tool| is_read_only(tool))) {
        let bad = json!({"name": tool.get("name"), "arguments": {}});
        calls.insert("bad".to_owned(), bad);
    }
    Value::Object(calls)
}

/// The message if no call is known for a key.
pub fn missing_call_message(key: &str) -> String {
    match key {
        "bad" => "no tool with required arguments may be called: none is marked read-only \
                  (`readOnlyHint`), and the --prompts file contains no call of one"
            .to_owned(),
        key => format!(
            "{}: add `{key}: {{name: TOOL, arguments: {{…}}}}` to the --prompts file",
            super::prompts::MISSING_CALL
        ),
    }
}

/// A call from a prompts file.
fn named_call(prompt: &str) -> Option<Value> {
    let call: Value = serde_json::from_str(prompt).ok()?;
    call.get("name")?.as_str()?;
    let arguments = call.get("arguments").cloned().unwrap_or_else(|| json!({}));
    Some(json!({"name": call.get("name"), "arguments": arguments}))
}

/// A call of a tool that requires only a prompt, which is how agents look.
fn prompt_call(prompt: &str, tools: &[Value]) -> Option<Value> {
    let takes_prompt = |tool: &&Value| {
        let kind = tool.pointer("/inputSchema/properties/prompt/type");
        required(tool) == ["prompt"] && kind.and_then(Value::as_str) == Some("string")
    };
    let tool = tools.iter().find(takes_prompt)?;
    Some(json!({"name": tool.get("name"), "arguments": {"prompt": prompt}}))
}

/// A call of a read-only tool, preferably without arguments. Its result appears in reports, so
/// tools whose names suggest secrets are left out.
fn harmless_call(tools: &[Value]) -> Option<Value> {
    let is_harmless = |tool: &&Value| is_read_only(tool) && !is_private(tool);
    let mut reading: Vec<&Value> = tools.iter().filter(is_harmless).collect();
    reading.sort_by_key(|tool| required(tool).len());
    let tool = reading.first()?;
    let mut arguments = Map::new();
    for name in required(tool) {
        let place = format!("/inputSchema/properties/{}", escaped(name));
        let value = example(tool.pointer(&place).unwrap_or(&Value::Null));
        arguments.insert(name.to_owned(), value);
    }
    Some(json!({"name": tool.get("name")?.as_str()?, "arguments": arguments}))
}

fn is_read_only(tool: &Value) -> bool {
    tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true))
}

fn is_private(tool: &Value) -> bool {
    let name = tool.get("name").and_then(Value::as_str);
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let words = [
        "env",
        "secret",
        "token",
        "credential",
        "passw",
        "key",
        "auth",
    ];
    words.iter().any(|word| name.contains(word))
}

fn required(tool: &Value) -> Vec<&str> {
    let list = tool.pointer("/inputSchema/required");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A value that fits a schema.
fn example(schema: &Value) -> Value {
    let given = [
        schema.get("default"),
        schema.get("const"),
        schema.pointer("/enum/0"),
        schema.pointer("/examples/0"),
    ];
    if let Some(given) = given.into_iter().flatten().next() {
        return given.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("certified"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, required: &[&str], reads: bool) -> Value {
        json!({
            "name": name,
            "inputSchema": {
                "type": "object",
                "properties": {"prompt": {"type": "string"}, "n": {"type": "integer"}},
                "required": required,
            },
            "annotations": {"readOnlyHint": reads},
        })
    }

    fn calls_with(tools: &[Value], prompts: &[(&str, &str)]) -> Value {
        let own = prompts.iter();
        let own = own.map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        calls(tools, &own.collect())
    }

    #[test]
    fn only_read_only_or_named_tools_are_called() {
        let wild = [tool("wipe", &[], false)];
        assert_eq!(calls_with(&wild, &[]), json!({}));
        let named = r#"{"name": "wipe"}"#;
        assert_eq!(
            calls_with(&wild, &[("slow", named)]),
            json!({"slow": {"name": "wipe", "arguments": {}}})
        );
        let tame = [
            tool("wipe", &[], false),
            tool("get-env", &[], true),
            tool("look", &["n"], true),
        ];
        assert_eq!(
            calls_with(&tame, &[]),
            json!({
                "text": {"name": "look", "arguments": {"n": 1}},
                "log": {"name": "look", "arguments": {"n": 1}},
                "bad": {"name": "look", "arguments": {}},
            })
        );
    }

    #[test]
    fn a_text_goes_to_the_tool_that_takes_a_prompt() {
        let tools = [
            tool("reply", &["n", "prompt"], false),
            tool("start", &["prompt"], false),
        ];
        assert_eq!(
            calls_with(&tools, &[("text", "hello")]),
            json!({
                "text": {"name": "start", "arguments": {"prompt": "hello"}},
                "log": {"name": "start", "arguments": {"prompt": "hello"}},
                "bad": {"name": "start", "arguments": {}},
            })
        );
        assert_eq!(
            calls_with(&[tool("odd", &["n"], false)], &[("text", "hello")]),
            json!({})
        );
    }
}
