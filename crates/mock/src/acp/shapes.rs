//! JSON messages of ACP version 1, built by hand.

use serde_json::{Map, Value, json};

use super::{ClientCapabilities, Session};
use crate::scenario::{
    AuthMethod, Capabilities, ConfigKind, ConfigOption, NamedOption, Scenario, SlashCommand, Usage,
};

/// Id of the option that mirrors the session's mode, for clients that support only modes or only
/// options.
pub const MODE_OPTION: &str = "mode";

/// Adds a member if there is a value.
fn set(map: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

pub fn initialized(scenario: &Scenario, client: ClientCapabilities) -> Value {
    let can = &scenario.capabilities;
    let methods = scenario.auth.methods.iter();
    let methods = methods.filter(|method| !method.terminal || client.auth_terminal);
    json!({
        "protocolVersion": super::PROTOCOL,
        "agentCapabilities": {
            "loadSession": can.load,
            "promptCapabilities": {
                "image": can.image,
                "audio": can.audio,
                "embeddedContext": can.embedded_context,
            },
            "mcpCapabilities": { "http": can.mcp_http, "sse": false },
            "sessionCapabilities": session_capabilities(can),
            "auth": if scenario.auth.logout { json!({ "logout": {} }) } else { json!({}) },
        },
        "agentInfo": {
            "name": scenario.agent.name,
            "title": scenario.agent.title,
            "version": scenario.agent.version,
        },
        "authMethods": methods.map(auth_method).collect::<Vec<_>>(),
    })
}

fn session_capabilities(can: &Capabilities) -> Value {
    let mut map = Map::new();
    for (name, on) in [
        ("list", can.list),
        ("delete", can.delete),
        ("additionalDirectories", can.additional_directories),
        ("resume", can.resume),
        ("close", can.close),
    ] {
        set(&mut map, name, on.then(|| json!({})));
    }
    Value::Object(map)
}

fn auth_method(method: &AuthMethod) -> Value {
    let mut map = Map::new();
    map.insert("id".to_owned(), method.id.as_str().into());
    map.insert("name".to_owned(), method.name.as_str().into());
    set(&mut map, "description", method.description.as_deref());
    if method.terminal {
        let env = method.env.iter();
        let env: Map<String, Value> = env
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        map.insert("type".to_owned(), "terminal".into());
        map.insert("args".to_owned(), json!(method.args));
        map.insert("env".to_owned(), Value::Object(env));
    }
    Value::Object(map)
}

fn named(entry: &NamedOption, id: &str) -> Value {
    let mut map = Map::new();
    map.insert(id.to_owned(), entry.id.as_str().into());
    map.insert("name".to_owned(), entry.name.as_str().into());
    set(&mut map, "description", entry.description.as_deref());
    Value::Object(map)
}

/// `modes` and `configOptions` of a session, if the scenario has any.
pub fn settings(
    scenario: &Scenario,
    session: &Session,
    client: ClientCapabilities,
) -> Map<String, Value> {
    let mut map = Map::new();
    if let (Some(modes), Some(current)) = (&scenario.modes, &session.mode) {
        let available: Vec<Value> = modes.available.iter().map(|m| named(m, "id")).collect();
        let state = json!({ "currentModeId": current, "availableModes": available });
        map.insert("modes".to_owned(), state);
    }
    let options = config_options(scenario, session, client);
    if !options.is_empty() {
        map.insert("configOptions".to_owned(), Value::Array(options));
    }
    map
}

pub fn config_options(
    scenario: &Scenario,
    session: &Session,
    client: ClientCapabilities,
) -> Vec<Value> {
    let mut options = Vec::new();
    if let (Some(modes), Some(current)) = (&scenario.modes, &session.mode) {
        let values: Vec<Value> = modes.available.iter().map(|m| named(m, "value")).collect();
        options.push(json!({
            "id": MODE_OPTION,
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": current,
            "options": values,
        }));
    }
    let shown = scenario.config_options.iter();
    let shown =
        shown.filter(|o| client.boolean_options || !matches!(o.kind, ConfigKind::Boolean { .. }));
    options.extend(shown.map(|option| config_option(option, session)));
    options
}

fn config_option(option: &ConfigOption, session: &Session) -> Value {
    let mut map = Map::new();
    map.insert("id".to_owned(), option.id.as_str().into());
    map.insert("name".to_owned(), option.name.as_str().into());
    set(&mut map, "description", option.description.as_deref());
    set(&mut map, "category", option.category.as_deref());
    let chosen = session.config.get(&option.id).cloned();
    match &option.kind {
        ConfigKind::Select { current, options } => {
            let values: Vec<Value> = options.iter().map(|o| named(o, "value")).collect();
            let current = chosen.unwrap_or_else(|| current.as_str().into());
            map.insert("type".to_owned(), "select".into());
            map.insert("currentValue".to_owned(), current);
            map.insert("options".to_owned(), Value::Array(values));
        }
        ConfigKind::Boolean { current } => {
            let current = chosen.unwrap_or_else(|| (*current).into());
            map.insert("type".to_owned(), "boolean".into());
            map.insert("currentValue".to_owned(), current);
        }
    }
    Value::Object(map)
}

pub fn commands(commands: &[SlashCommand]) -> Value {
    let list: Vec<Value> = commands
        .iter()
        .map(|command| {
            let mut map = Map::new();
            map.insert("name".to_owned(), command.name.as_str().into());
            map.insert(
                "description".to_owned(),
                command.description.as_str().into(),
            );
            set(
                &mut map,
                "input",
                command.hint.as_ref().map(|hint| json!({ "hint": hint })),
            );
            Value::Object(map)
        })
        .collect();
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": list })
}

pub fn usage(usage: &Usage) -> Value {
    let mut map = Map::new();
    map.insert("sessionUpdate".to_owned(), "usage_update".into());
    map.insert("used".to_owned(), usage.used.into());
    map.insert("size".to_owned(), usage.size.into());
    let cost = usage
        .cost
        .map(|amount| json!({ "amount": amount, "currency": usage.currency }));
    set(&mut map, "cost", cost);
    Value::Object(map)
}

/// The member of a prompt's response that has the tokens. `usage` is still a draft in the protocol,
/// so it is used only for counts by kind.
pub fn turn_usage(usage: &Usage) -> (&'static str, Value) {
    let names = [
        "inputTokens",
        "outputTokens",
        "thoughtTokens",
        "cachedReadTokens",
        "cachedWriteTokens",
    ];
    let mut counts = usage.tokens.named(names);
    if counts.is_empty() {
        return ("_meta", json!({ "usage": { "totalTokens": usage.used } }));
    }
    counts.insert("totalTokens".to_owned(), usage.tokens.total().into());
    ("usage", Value::Object(counts))
}

/// All updates of a compaction, from start to end.
pub fn compaction(id: &str, summary: &str) -> [Value; 3] {
    let status = |status: &str| json!({ "sessionUpdate": "compaction_update", "compactionId": id, "status": status });
    let chunk = json!({
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": id,
        "content": text(summary),
    });
    [status("in_progress"), chunk, status("completed")]
}

pub fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}
