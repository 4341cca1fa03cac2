//! How a turn is sent to an MCP server: `metadata.agentproto.mcp_turn`, with defaults derived from
//! the server's tools.

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

use crate::bundle::Bundle;
use crate::error::{Code, Error};
use agentproto_manifest as manifest;

/// Usual names of arguments and fields with the id of a conversation.
const SESSION_NAMES: [&str; 5] = [
    "threadId",
    "sessionId",
    "session_id",
    "conversationId",
    "conversation_id",
];
const PROMPT: &str = "prompt";
const HINT: &str =
    "set `start_tool`, `prompt_arg` and other keys that differ in `metadata.agentproto.mcp_turn`";

/// The declared keys. Missing ones are derived from the server's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpTurnConfig {
    /// Tool that starts a session.
    pub start_tool: Option<String>,
    /// Tool that continues a session.
    pub reply_tool: Option<String>,
    /// Argument that contains the prompt.
    pub prompt_arg: Option<String>,
    /// Argument that contains the session id.
    pub session_id_arg: Option<String>,
    /// Path to the session id in the result of a call: `structuredContent.threadId`, or a JSON
    /// pointer.
    pub session_id_path: Option<String>,
    /// Method of the notifications that report the events of a turn.
    pub event_method: Option<String>,
}

impl McpTurnConfig {
    /// Reads `metadata.agentproto.mcp_turn`.
    pub fn from_manifest(bundle: &Bundle) -> Result<McpTurnConfig, Error> {
        let mut turn = McpTurnConfig::default();
        let Some(node) = bundle.root().at(&["metadata", "agentproto", "mcp_turn"]) else {
            return Ok(turn);
        };
        let manifest::Value::Map(entries) = &node.value else {
            let what = format!("`mcp_turn` must be an object, not {}", node.type_name());
            return Err(bundle.invalid(node, &what));
        };
        for entry in entries {
            let field = match entry.key.as_str() {
                "start_tool" => &mut turn.start_tool,
                "reply_tool" => &mut turn.reply_tool,
                "prompt_arg" => &mut turn.prompt_arg,
                "session_id_arg" => &mut turn.session_id_arg,
                "session_id_path" => &mut turn.session_id_path,
                "event_method" => &mut turn.event_method,
                other => {
                    let what = format!(
                        "unknown key `{other}` in `mcp_turn`; known keys are start_tool, reply_tool, prompt_arg, session_id_arg, session_id_path and event_method"
                    );
                    return Err(bundle.invalid(&entry.value, &what));
                }
            };
            match entry.value.as_str() {
                Some(text) if !text.is_empty() => *field = Some(text.to_owned()),
                _ => {
                    let what = format!(
                        "`mcp_turn.{}` must be a non-empty string, not {}",
                        entry.key,
                        entry.value.type_name()
                    );
                    return Err(bundle.invalid(&entry.value, &what));
                }
            }
        }
        Ok(turn)
    }

    /// Chooses the tools to call on this server.
    pub fn resolve(&self, tools: &[Tool]) -> Result<Calls, Error> {
        let start = match &self.start_tool {
            Some(name) => named(tools, "start_tool", name)?,
            None => self.guess_start(tools)?,
        };
        let prompt_arg = self.prompt_arg_of(start)?;
        let reply = match &self.reply_tool {
            Some(name) => Some(named(tools, "reply_tool", name)?),
            None => self.guess_reply(tools, start),
        };
        let session_id_arg = match (&self.session_id_arg, reply) {
            (Some(arg), _) => Some(arg.clone()),
            (None, Some(reply)) => session_arg(&reply.input_schema),
            (None, None) => session_arg(&start.input_schema),
        };
        let reply_prompt_arg = match reply {
            Some(reply) => self.prompt_arg_of(reply)?,
            None => prompt_arg.clone(),
        };
        Ok(Calls {
            start: start.name.to_string(),
            reply: reply.map_or(&start.name, |reply| &reply.name).to_string(),
            prompt_arg,
            reply_prompt_arg,
            session_id_arg,
            session_id_path: self.session_id_path.clone(),
        })
    }

    /// The only tool that accepts the prompt as a string and needs no session.
    fn guess_start<'t>(&self, tools: &'t [Tool]) -> Result<&'t Tool, Error> {
        let arg = self.prompt_arg.as_deref().unwrap_or(PROMPT);
        let fits = |tool: &&Tool| {
            takes_text(&tool.input_schema, arg)
                && Some(tool.name.as_ref()) != self.reply_tool.as_deref()
        };
        let accepting: Vec<&Tool> = tools.iter().filter(fits).collect();
        let starting: Vec<&Tool> = accepting
            .iter()
            .copied()
            .filter(|tool| !needs_session(&tool.input_schema))
            .collect();
        match (starting.as_slice(), accepting.as_slice()) {
            ([only], _) | ([], [only]) => Ok(only),
            ([], []) => Err(mismatch(format!(
                "no tool of the server accepts a string `{arg}`; it has {}",
                names(tools)
            ))),
            _ => Err(mismatch(format!(
                "several tools of the server accept a string `{arg}`: {}",
                accepting
                    .iter()
                    .map(|t| t.name.as_ref())
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }

    /// The only other tool that accepts the prompt and a session id.
    fn guess_reply<'t>(&self, tools: &'t [Tool], start: &Tool) -> Option<&'t Tool> {
        let arg = self.prompt_arg.as_deref().unwrap_or(PROMPT);
        let mut candidates = tools.iter().filter(|tool| {
            tool.name != start.name
                && takes_text(&tool.input_schema, arg)
                && session_arg(&tool.input_schema).is_some()
        });
        match (candidates.next(), candidates.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    fn prompt_arg_of(&self, tool: &Tool) -> Result<String, Error> {
        if let Some(arg) = &self.prompt_arg {
            return Ok(arg.clone());
        }
        if takes_text(&tool.input_schema, PROMPT) {
            return Ok(PROMPT.to_owned());
        }
        let mut texts = required(&tool.input_schema)
            .filter(|name| takes_text(&tool.input_schema, name))
            .filter(|name| !SESSION_NAMES.contains(name));
        match (texts.next(), texts.next()) {
            (Some(only), None) => Ok(only.to_owned()),
            _ => Err(mismatch(format!(
                "cannot tell from the schema of the tool `{}` which argument is the prompt",
                tool.name
            ))),
        }
    }
}

/// The tool calls of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Name of the tool that starts a session.
    pub start: String,
    /// Name of the tool that continues a session.
    pub reply: String,
    /// Argument of `start` that contains the prompt.
    pub prompt_arg: String,
    /// Argument of `reply` that contains the prompt.
    pub reply_prompt_arg: String,
    /// Argument of `reply` that contains the session id, or `None` if sessions cannot be resumed.
    pub session_id_arg: Option<String>,
    session_id_path: Option<String>,
}

impl Calls {
    /// Whether an earlier session can be resumed.
    pub fn can_resume(&self) -> bool {
        self.session_id_arg.is_some()
    }

    /// Name and arguments of the next call.
    pub fn next(&self, prompt: &str, session: Option<&str>) -> (String, JsonObject) {
        let (tool, prompt_arg) = match session {
            Some(_) => (&self.reply, &self.reply_prompt_arg),
            None => (&self.start, &self.prompt_arg),
        };
        let mut arguments = JsonObject::new();
        arguments.insert(prompt_arg.clone(), Value::from(prompt));
        if let (Some(session), Some(arg)) = (session, &self.session_id_arg) {
            arguments.insert(arg.clone(), Value::from(session));
        }
        (tool.clone(), arguments)
    }

    /// Where the session id is searched for, as text.
    pub fn session_location(&self) -> &str {
        let path = self.session_id_path.as_deref();
        path.unwrap_or("structuredContent.threadId and similar fields")
    }

    /// The session id in a result: at the declared path, or in the usual places.
    pub fn session_of(&self, result: &Value) -> Option<String> {
        if let Some(path) = &self.session_id_path {
            return text(at(result, path)?);
        }
        ["structuredContent", "_meta"].iter().find_map(|place| {
            let place = result.get(place)?;
            SESSION_NAMES.iter().find_map(|name| text(place.get(name)?))
        })
    }
}

/// The session id in an event, in the usual places.
pub fn session_in(event: &Value) -> Option<String> {
    let payload = event.get("msg").unwrap_or(event);
    [payload, event]
        .iter()
        .find_map(|place| SESSION_NAMES.iter().find_map(|name| text(place.get(name)?)))
}

/// A dotted path, or a JSON pointer if it starts with a slash.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    if path.starts_with('/') {
        return value.pointer(path);
    }
    path.split('.').try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn property<'s>(schema: &'s JsonObject, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

fn takes_text(schema: &JsonObject, name: &str) -> bool {
    let is_text = |kind: &Value| match kind {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        _ => false,
    };
    property(schema, name)
        .and_then(|property| property.get("type"))
        .is_some_and(is_text)
}

fn required(schema: &JsonObject) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn session_arg(schema: &JsonObject) -> Option<String> {
    let takes = |name: &&&str| takes_text(schema, name);
    SESSION_NAMES
        .iter()
        .find(takes)
        .map(|name| name.to_string())
}

fn needs_session(schema: &JsonObject) -> bool {
    required(schema).any(|name| SESSION_NAMES.contains(&name))
}

fn named<'t>(tools: &'t [Tool], key: &str, name: &str) -> Result<&'t Tool, Error> {
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        mismatch(format!(
            "`mcp_turn.{key}` is `{name}`, but the server has {}",
            names(tools)
        ))
    })
}

fn names(tools: &[Tool]) -> String {
    const SHOWN: usize = 20;
    if tools.is_empty() {
        return "no tools".to_owned();
    }
    let names: Vec<&str> = tools.iter().take(SHOWN).map(|t| t.name.as_ref()).collect();
    match tools.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn mismatch(what: String) -> Error {
    Error::new(Code::CapabilityMismatch, what).hint(HINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tools(list: Value) -> Vec<Tool> {
        let tool = |(name, properties): (&String, &Value)| {
            let required = properties.get("required").cloned().unwrap_or(json!([]));
            let mut properties = properties.clone();
            if let Some(map) = properties.as_object_mut() {
                map.remove("required");
            }
            serde_json::from_value(json!({
                "name": name,
                "inputSchema": {"type": "object", "properties": properties, "required": required},
            }))
            .expect("a tool")
        };
        list.as_object().expect("tools").iter().map(tool).collect()
    }

    fn codex_like() -> Vec<Tool> {
        tools(json!({
            "codex": {"prompt": {"type": "string"}, "cwd": {"type": "string"}, "required": ["prompt"]},
            "codex-reply": {
                "prompt": {"type": "string"}, "threadId": {"type": "string"},
                "required": ["prompt", "threadId"],
            },
        }))
    }

    #[test]
    fn a_pair_of_tools_needs_no_keys() {
        let calls = McpTurnConfig::default()
            .resolve(&codex_like())
            .expect("resolved");
        assert_eq!(
            (calls.start.as_str(), calls.reply.as_str()),
            ("codex", "codex-reply")
        );
        assert!(calls.can_resume());
        assert_eq!(
            calls.next("hi", None),
            (
                "codex".into(),
                json!({"prompt": "hi"}).as_object().cloned().expect("map")
            )
        );
        let (tool, arguments) = calls.next("more", Some("t1"));
        assert_eq!(tool, "codex-reply");
        assert_eq!(
            Value::from(arguments),
            json!({"prompt": "more", "threadId": "t1"})
        );
        let result = json!({"content": [], "structuredContent": {"threadId": "t1"}});
        assert_eq!(calls.session_of(&result).as_deref(), Some("t1"));
        assert_eq!(calls.session_of(&json!({"content": []})), None);
    }

    #[test]
    fn the_only_tool_that_takes_a_prompt() {
        let list = tools(json!({
            "ask": {"prompt": {"type": ["string", "null"]}},
            "read": {"path": {"type": "string"}},
        }));
        let calls = McpTurnConfig::default().resolve(&list).expect("resolved");
        assert_eq!((calls.start.as_str(), calls.reply.as_str()), ("ask", "ask"));
        assert!(!calls.can_resume());
    }

    #[test]
    fn declared_keys_win() {
        let turn = McpTurnConfig {
            start_tool: Some("run".into()),
            session_id_arg: Some("chat".into()),
            session_id_path: Some("/_meta/chat~1id".into()),
            ..McpTurnConfig::default()
        };
        let list = tools(json!({
            "run": {"question": {"type": "string"}, "chat": {"type": "string"}, "required": ["question"]},
            "other": {"prompt": {"type": "string"}},
        }));
        let calls = turn.resolve(&list).expect("resolved");
        let (tool, arguments) = calls.next("q", Some("7"));
        assert_eq!(tool, "run");
        assert_eq!(
            Value::from(arguments),
            json!({"question": "q", "chat": "7"})
        );
        let result = json!({"_meta": {"chat/id": 7}});
        assert_eq!(calls.session_of(&result).as_deref(), Some("7"));
    }

    #[test]
    fn an_ambiguous_server_is_a_mismatch_with_a_hint() {
        let two = tools(
            json!({"a": {"prompt": {"type": "string"}}, "b": {"prompt": {"type": "string"}}}),
        );
        let none = tools(json!({"a": {"path": {"type": "string"}}}));
        let unknown = McpTurnConfig {
            start_tool: Some("x".into()),
            ..McpTurnConfig::default()
        };
        for (turn, list, expected) in [
            (
                McpTurnConfig::default(),
                two.clone(),
                "several tools of the server accept a string `prompt`: a, b",
            ),
            (
                McpTurnConfig::default(),
                none,
                "no tool of the server accepts a string `prompt`; it has a",
            ),
            (McpTurnConfig::default(), Vec::new(), "it has no tools"),
            (
                unknown,
                two,
                "`mcp_turn.start_tool` is `x`, but the server has a, b",
            ),
        ] {
            let error = turn.resolve(&list).expect_err("refused");
            assert_eq!(error.code, Code::CapabilityMismatch);
            assert!(error.message.contains(expected), "{}", error.message);
            assert!(error.hint.expect("a hint").contains("mcp_turn"));
        }
    }
}
