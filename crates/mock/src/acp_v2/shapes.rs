//! JSON messages of the ACP version 2 draft, built by hand.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::Session;
use crate::scenario::{AuthMethod, ConfigKind, NamedOption, Scenario};
use crate::store::StoredSession;

/// Id of the option for modes. In the draft, modes are ordinary options.
pub const MODE_OPTION: &str = "mode";

pub fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

pub fn state(name: &str) -> Value {
    json!({ "sessionUpdate": "state_update", "state": name })
}

pub fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub fn initialized(scenario: &Scenario, with_terminal: bool) -> Value {
    let can = &scenario.capabilities;
    let methods = scenario.auth.methods.iter();
    let methods = methods.filter(|method| !method.terminal || with_terminal);
    let supported = |names: &[(&str, bool)]| {
        let names = names.iter().filter(|(_, on)| *on);
        let members: Map<String, Value> = names
            .map(|(name, _)| ((*name).to_owned(), json!({})))
            .collect();
        Value::Object(members)
    };
    let mut session = supported(&[
        ("delete", can.delete),
        ("additionalDirectories", can.additional_directories),
    ]);
    let prompt = supported(&[
        ("image", can.image),
        ("audio", can.audio),
        ("embeddedContext", can.embedded_context),
    ]);
    put(&mut session, "prompt", prompt);
    json!({
        "protocolVersion": super::PROTOCOL,
        "info": {
            "name": scenario.agent.name,
            "title": scenario.agent.title,
            "version": scenario.agent.version,
        },
        "capabilities": { "session": session },
        "authMethods": methods.map(auth_method).collect::<Vec<_>>(),
    })
}

fn auth_method(method: &AuthMethod) -> Value {
    let kind = match method.terminal {
        true => "terminal",
        false => "agent",
    };
    let mut fields = json!({ "type": kind, "methodId": method.id, "name": method.name });
    if let Some(description) = &method.description {
        put(&mut fields, "description", json!(description));
    }
    if method.terminal {
        let env = method.env.iter();
        let env: Vec<Value> = env
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        put(&mut fields, "args", json!(method.args));
        put(&mut fields, "env", json!(env));
    }
    fields
}

pub fn has_options(scenario: &Scenario) -> bool {
    scenario.modes.is_some() || !scenario.config_options.is_empty()
}

/// Initial option values of a new session.
pub fn defaults(scenario: &Scenario) -> HashMap<String, Value> {
    let mut values = HashMap::new();
    if let Some(modes) = &scenario.modes {
        values.insert(MODE_OPTION.to_owned(), json!(modes.current));
    }
    for option in &scenario.config_options {
        let value = match &option.kind {
            ConfigKind::Select { current, .. } => json!(current),
            ConfigKind::Boolean { current } => json!(current),
        };
        values.insert(option.id.clone(), value);
    }
    values
}

/// `configOptions` and `availableCommands` of a session, if the scenario has any.
pub fn settings(scenario: &Scenario, session: &Session) -> Map<String, Value> {
    let mut map = Map::new();
    if has_options(scenario) {
        let options = options(scenario, session);
        map.insert("configOptions".to_owned(), json!(options));
    }
    let commands: Vec<Value> = scenario
        .commands
        .iter()
        .map(|c| json!({ "type": "command", "name": c.name, "description": c.description }))
        .collect();
    if !commands.is_empty() {
        map.insert("availableCommands".to_owned(), json!(commands));
    }
    map
}

pub fn options(scenario: &Scenario, session: &Session) -> Vec<Value> {
    let current = |id: &str| session.config.get(id).cloned().unwrap_or(Value::Null);
    let choice = |entry: &NamedOption| {
        let mut choice = json!({ "value": entry.id, "name": entry.name });
        if let Some(description) = &entry.description {
            put(&mut choice, "description", json!(description));
        }
        choice
    };
    let mut all = Vec::new();
    if let Some(modes) = &scenario.modes {
        let choices: Vec<Value> = modes.available.iter().map(choice).collect();
        all.push(json!({
            "configId": MODE_OPTION,
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": current(MODE_OPTION),
            "options": choices,
        }));
    }
    for option in &scenario.config_options {
        let mut fields = json!({
            "configId": option.id,
            "name": option.name,
            "currentValue": current(&option.id),
        });
        if let Some(category) = &option.category {
            put(&mut fields, "category", json!(category));
        }
        match &option.kind {
            ConfigKind::Select { options, .. } => {
                let choices: Vec<Value> = options.iter().map(choice).collect();
                put(&mut fields, "type", json!("select"));
                put(&mut fields, "options", json!(choices));
            }
            ConfigKind::Boolean { .. } => put(&mut fields, "type", json!("boolean")),
        }
        all.push(fields);
    }
    all
}

/// The updates of a replay. A message that was sent in chunks starts with the message itself,
/// without content, so that the client replaces what it may already have.
pub fn replay(history: &[Value]) -> Vec<Value> {
    let mut started: HashSet<&str> = HashSet::new();
    let mut updates = Vec::new();
    for update in history {
        let text = |key: &str| update.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(whole) = text("sessionUpdate").strip_suffix("_chunk")
            && let Some(id) = update.get("messageId").and_then(Value::as_str)
            && started.insert(id)
        {
            let content: [Value; 0] = [];
            updates.push(json!({ "sessionUpdate": whole, "messageId": id, "content": content }));
        }
        updates.push(update.clone());
    }
    updates
}

/// Entry of a session in a list.
pub fn list_entry(saved: &StoredSession) -> Value {
    let mut fields = json!({
        "sessionId": saved.id,
        "cwd": saved.cwd,
        "updatedAt": saved.updated_at,
    });
    if let Some(title) = &saved.title {
        put(&mut fields, "title", json!(title));
    }
    if !saved.directories.is_empty() {
        put(
            &mut fields,
            "additionalDirectories",
            json!(saved.directories),
        );
    }
    fields
}
