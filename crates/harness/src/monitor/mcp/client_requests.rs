//! Requests of the server to the client: MCP-ELIC-01 to -03, -05 and -06, MCP-SAMP-01 and -02,
//! MCP-ROOT-01.

use std::collections::HashSet;

use serde_json::Value;

use super::super::{ConversationState, LineView, Monitor, MonitorNotes};
use super::{client_can, is_since, show};
use agentproto_wire::{Direction, MessageKind};

#[derive(Default)]
pub struct ClientRequestMonitor {
    /// Whether the client sent `notifications/initialized`. Another requirement covers earlier
    /// requests.
    is_ready: bool,
    /// `elicitationId` of the URL elicitations.
    pages: HashSet<String>,
}

impl Monitor for ClientRequestMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let (Some(json), Some(envelope)) = (view.json, view.envelope) else {
            return;
        };
        let number = view.line.number;
        let params = json.get("params").unwrap_or(&Value::Null);
        match (view.line.direction, &envelope.kind) {
            (Direction::ToAgent, MessageKind::Notification { method }) => {
                self.is_ready |= method == "notifications/initialized";
            }
            (Direction::FromAgent, MessageKind::Request { method, .. }) if self.is_ready => {
                match method.as_str() {
                    "elicitation/create" => self.elicitation(params, number, state, notes),
                    "sampling/createMessage" => sampling(params, number, state, notes),
                    "roots/list" => roots(number, state, notes),
                    _ => {}
                }
            }
            (Direction::FromAgent, MessageKind::Notification { method })
                if method == "notifications/elicitation/complete" =>
            {
                self.completed(params, number, notes);
            }
            // A tool call completed without features that the client does not support.
            (Direction::FromAgent, MessageKind::Response { .. })
                if view.answers.is_some_and(|a| a.method == "tools/call") =>
            {
                for (capability, requirement) in [
                    ("/elicitation", "MCP-ELIC-01"),
                    ("/sampling", "MCP-SAMP-01"),
                    ("/roots", "MCP-ROOT-01"),
                ] {
                    if !client_can(state, capability) {
                        notes.pass(requirement);
                    }
                }
            }
            _ => {}
        }
    }
}

impl ClientRequestMonitor {
    fn elicitation(
        &mut self,
        params: &Value,
        number: u64,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let lines = [number];
        let mode = params.get("mode");
        let word = mode.map_or(Some("form"), Value::as_str).unwrap_or_default();
        if !matches!(word, "form" | "url") {
            let what = format!("`mode` is {}; it must be `form` or `url`", show(mode));
            notes.violation("MCP-ELIC-02", what, &lines);
            return;
        }
        if !offers(state, word) {
            let what = format!(
                "`elicitation/create` in the mode `{word}` is sent to a client that did not \
                 declare it"
            );
            notes.violation("MCP-ELIC-01", what, &lines);
        } else {
            notes.pass("MCP-ELIC-01");
        }
        let message = params.get("message");
        match message.is_some_and(Value::is_string) {
            true => notes.pass("MCP-ELIC-02"),
            false => {
                let what = format!("`message` is {}; it must be a string", show(message));
                notes.violation("MCP-ELIC-02", what, &lines);
            }
        }
        if word == "form" {
            match nested(params.get("requestedSchema")) {
                None => notes.pass("MCP-ELIC-03"),
                Some(what) => notes.violation("MCP-ELIC-03", what, &lines),
            }
            return;
        }
        let id = params.get("elicitationId").and_then(Value::as_str);
        let url = params.get("url").and_then(Value::as_str);
        match (id, url.is_some_and(is_url)) {
            (Some(id), true) => {
                self.pages.insert(id.to_owned());
                notes.pass("MCP-ELIC-05");
            }
            _ => {
                let what = format!(
                    "a URL elicitation has the `elicitationId` {} and the `url` {}; it needs a \
                     string and a valid URL",
                    show(params.get("elicitationId")),
                    show(params.get("url"))
                );
                notes.violation("MCP-ELIC-05", what, &lines);
            }
        }
    }

    fn completed(&self, params: &Value, number: u64, notes: &mut MonitorNotes) {
        let id = params.get("elicitationId");
        match id
            .and_then(Value::as_str)
            .is_some_and(|id| self.pages.contains(id))
        {
            true => notes.pass("MCP-ELIC-06"),
            false => {
                let what = format!(
                    "`notifications/elicitation/complete` names {}, which is not the id of any \
                     elicitation",
                    show(id)
                );
                notes.violation("MCP-ELIC-06", what, &[number]);
            }
        }
    }
}

/// Whether the client supports elicitations of this mode. An empty object means forms.
fn offers(state: &ConversationState, mode: &str) -> bool {
    let offer = state.client.pointer("/capabilities/elicitation");
    let Some(offer) = offer.and_then(Value::as_object) else {
        return false;
    };
    match mode {
        "form" => offer.contains_key("form") || !offer.contains_key("url"),
        _ => offer.contains_key("url"),
    }
}

/// Why a form is not flat.
fn nested(schema: Option<&Value>) -> Option<String> {
    let of = schema.and_then(|s| s.get("type")).and_then(Value::as_str);
    let properties = schema.and_then(|s| s.get("properties"));
    let (Some("object"), Some(properties)) = (of, properties.and_then(Value::as_object)) else {
        return Some(format!(
            "`requestedSchema` is {}; it must be an object schema with `properties`",
            show(schema)
        ));
    };
    let odd = properties.iter().find(|(_, field)| !is_flat(field));
    odd.map(|(name, field)| {
        format!(
            "the form field `{name}` is {}; a field must be a string, a number, a boolean or a \
             choice",
            show(Some(field))
        )
    })
}

fn is_flat(field: &Value) -> bool {
    match field.get("type").and_then(Value::as_str) {
        Some("string" | "number" | "integer" | "boolean") => true,
        Some("array") => {
            let items = field.get("items");
            items.is_some_and(|items| items.get("enum").is_some() || items.get("anyOf").is_some())
        }
        _ => false,
    }
}

fn is_url(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, rest)| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        starts && scheme.chars().all(fits) && !rest.is_empty()
    });
    scheme == Some(true) && !text.contains(char::is_whitespace)
}

fn sampling(params: &Value, number: u64, state: &ConversationState, notes: &mut MonitorNotes) {
    let lines = [number];
    let uses_tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
    if !client_can(state, "/sampling") {
        let what = "`sampling/createMessage` is sent to a client that did not declare `sampling`";
        notes.violation("MCP-SAMP-01", what, &lines);
    } else if uses_tools && is_since(state, "2025-11-25") && !client_can(state, "/sampling/tools") {
        let what = "sampling is requested with tools, but the client did not declare \
                    `sampling.tools`";
        notes.violation("MCP-SAMP-01", what, &lines);
    } else {
        notes.pass("MCP-SAMP-01");
    }
    let messages = params.get("messages").is_some_and(Value::is_array);
    let most = params.get("maxTokens");
    match messages && most.is_some_and(Value::is_number) {
        true => notes.pass("MCP-SAMP-02"),
        false => {
            let what = "`sampling/createMessage` needs a list `messages` and a number `maxTokens`";
            notes.violation("MCP-SAMP-02", what, &lines);
        }
    }
}

fn roots(number: u64, state: &ConversationState, notes: &mut MonitorNotes) {
    match client_can(state, "/roots") {
        true => notes.pass("MCP-ROOT-01"),
        false => {
            let what = "`roots/list` is sent to a client that did not declare `roots`";
            notes.violation("MCP-ROOT-01", what, &[number]);
        }
    }
}
