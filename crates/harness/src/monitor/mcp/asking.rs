//! Requests of the server to the client: MCP-ELIC-01 to -03, -05 and -06, MCP-SAMP-01 and -02,
//! MCP-ROOT-01.

use std::collections::HashSet;

use serde_json::Value;

use super::super::{Ledger, Monitor, Notes, Seen};
use super::{client_can, is_since, show};
use agentproto_wire::{Direction, Kind};

#[derive(Default)]
pub struct Asking {
    /// Whether the client sent `notifications/initialized`. Another requirement covers earlier
    /// requests.
    is_ready: bool,
    /// `elicitationId` of the URL elicitations.
    pages: HashSet<String>,
}

impl Monitor for Asking {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        let (Some(json), Some(envelope)) = (seen.json, seen.envelope) else {
            return;
        };
        let number = seen.line.number;
        let params = json.get("params").unwrap_or(&Value::Null);
        match (seen.line.direction, &envelope.kind) {
            (Direction::ToAgent, Kind::Notification { method }) => {
                self.is_ready |= method == "notifications/initialized";
            }
            (Direction::FromAgent, Kind::Request { method, .. }) if self.is_ready => {
                match method.as_str() {
                    "elicitation/create" => self.elicitation(params, number, ledger, notes),
                    "sampling/createMessage" => sampling(params, number, ledger, notes),
                    "roots/list" => roots(number, ledger, notes),
                    _ => {}
                }
            }
            (Direction::FromAgent, Kind::Notification { method })
                if method == "notifications/elicitation/complete" =>
            {
                self.completed(params, number, notes);
            }
            // A tool call completed without features that the client does not support.
            (Direction::FromAgent, Kind::Response { .. })
                if seen.answers.is_some_and(|a| a.method == "tools/call") =>
            {
                for (capability, statement) in [
                    ("/elicitation", "MCP-ELIC-01"),
                    ("/sampling", "MCP-SAMP-01"),
                    ("/roots", "MCP-ROOT-01"),
                ] {
                    if !client_can(ledger, capability) {
                        notes.held(statement);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Asking {
    fn elicitation(&mut self, params: &Value, number: u64, ledger: &Ledger, notes: &mut Notes) {
        let lines = [number];
        let mode = params.get("mode");
        let word = mode.map_or(Some("form"), Value::as_str).unwrap_or_default();
        if !matches!(word, "form" | "url") {
            let what = format!("`mode` is {}; it must be `form` or `url`", show(mode));
            notes.broken("MCP-ELIC-02", what, &lines);
            return;
        }
        if !offers(ledger, word) {
            let what = format!(
                "`elicitation/create` in the mode `{word}` is sent to a client that did not \
                 declare it"
            );
            notes.broken("MCP-ELIC-01", what, &lines);
        } else {
            notes.held("MCP-ELIC-01");
        }
        let message = params.get("message");
        match message.is_some_and(Value::is_string) {
            true => notes.held("MCP-ELIC-02"),
            false => {
                let what = format!("`message` is {}; it must be a string", show(message));
                notes.broken("MCP-ELIC-02", what, &lines);
            }
        }
        if word == "form" {
            match nested(params.get("requestedSchema")) {
                None => notes.held("MCP-ELIC-03"),
                Some(what) => notes.broken("MCP-ELIC-03", what, &lines),
            }
            return;
        }
        let id = params.get("elicitationId").and_then(Value::as_str);
        let url = params.get("url").and_then(Value::as_str);
        match (id, url.is_some_and(is_url)) {
            (Some(id), true) => {
                self.pages.insert(id.to_owned());
                notes.held("MCP-ELIC-05");
            }
            _ => {
                let what = format!(
                    "a URL elicitation has the `elicitationId` {} and the `url` {}; it needs a \
                     string and a valid URL",
                    show(params.get("elicitationId")),
                    show(params.get("url"))
                );
                notes.broken("MCP-ELIC-05", what, &lines);
            }
        }
    }

    fn completed(&self, params: &Value, number: u64, notes: &mut Notes) {
        let id = params.get("elicitationId");
        match id
            .and_then(Value::as_str)
            .is_some_and(|id| self.pages.contains(id))
        {
            true => notes.held("MCP-ELIC-06"),
            false => {
                let what = format!(
                    "`notifications/elicitation/complete` names {}, which is not the id of any \
                     elicitation",
                    show(id)
                );
                notes.broken("MCP-ELIC-06", what, &[number]);
            }
        }
    }
}

/// Whether the client supports elicitations of this mode. An empty object means forms.
fn offers(ledger: &Ledger, mode: &str) -> bool {
    let offer = ledger.client.pointer("/capabilities/elicitation");
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

fn sampling(params: &Value, number: u64, ledger: &Ledger, notes: &mut Notes) {
    let lines = [number];
    let uses_tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
    if !client_can(ledger, "/sampling") {
        let what = "`sampling/createMessage` is sent to a client that did not declare `sampling`";
        notes.broken("MCP-SAMP-01", what, &lines);
    } else if uses_tools && is_since(ledger, "2025-11-25") && !client_can(ledger, "/sampling/tools")
    {
        let what = "sampling is requested with tools, but the client did not declare \
                    `sampling.tools`";
        notes.broken("MCP-SAMP-01", what, &lines);
    } else {
        notes.held("MCP-SAMP-01");
    }
    let messages = params.get("messages").is_some_and(Value::is_array);
    let most = params.get("maxTokens");
    match messages && most.is_some_and(Value::is_number) {
        true => notes.held("MCP-SAMP-02"),
        false => {
            let what = "`sampling/createMessage` needs a list `messages` and a number `maxTokens`";
            notes.broken("MCP-SAMP-02", what, &lines);
        }
    }
}

fn roots(number: u64, ledger: &Ledger, notes: &mut Notes) {
    match client_can(ledger, "/roots") {
        true => notes.held("MCP-ROOT-01"),
        false => {
            let what = "`roots/list` is sent to a client that did not declare `roots`";
            notes.broken("MCP-ROOT-01", what, &[number]);
        }
    }
}
