//! Elicitations: EL-01, EL-02, EL-04, EL-06.

use std::collections::HashMap;

use serde_json::Value;

use super::turns::with_start;
use super::view::{call, text};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct ElicitationMonitor {
    /// Ids that were issued: the line, and whether they are still open.
    issued: HashMap<String, (u64, bool)>,
}

/// Maximum number of ids that are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Names of URL parameters that contain a secret.
const SECRETS: [&str; 8] = [
    "access_token",
    "api_key",
    "apikey",
    "client_secret",
    "id_token",
    "password",
    "refresh_token",
    "token",
];

impl Monitor for ElicitationMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let number = view.line.number;
        match call(view) {
            Some(("elicitation/create", params)) if params.is_object() => {
                mode(params, number, state, notes);
                scope(params, number, notes);
                self.issue(params, number, notes);
                if let Some(Value::String(url)) = params.get("url") {
                    address(url, number, notes);
                }
            }
            Some(("elicitation/complete", params)) => self.complete(params, number, notes),
            _ => {}
        }
    }
}

impl ElicitationMonitor {
    fn issue(&mut self, params: &Value, number: u64, notes: &mut MonitorNotes) {
        let Some(Value::String(id)) = params.get("elicitationId") else {
            return;
        };
        match self.issued.get(id) {
            Some((earlier, true)) => {
                let what = format!("the elicitation id \"{id}\" is used again while it is open");
                notes.violation("EL-04", what, &[number, *earlier]);
            }
            _ if self.issued.values().any(|(_, is_open)| *is_open) => notes.pass("EL-04"),
            _ => {}
        }
        if self.issued.len() > MAX_REMEMBERED {
            self.issued.retain(|_, (_, is_open)| *is_open);
        }
        if self.issued.len() <= MAX_REMEMBERED {
            self.issued.insert(id.clone(), (number, true));
        }
    }

    fn complete(&mut self, params: &Value, number: u64, notes: &mut MonitorNotes) {
        let Some(Value::String(id)) = params.get("elicitationId") else {
            return;
        };
        match self.issued.get_mut(id) {
            Some((_, is_open)) => {
                *is_open = false;
                notes.pass("EL-04");
            }
            None => {
                let what = format!("the elicitation \"{id}\" is completed, but was never started");
                notes.violation("EL-04", what, &[number]);
            }
        }
    }
}

fn mode(params: &Value, number: u64, state: &ConversationState, notes: &mut MonitorNotes) {
    let can = |mode: &str| state.client_can(&format!("/elicitation/{mode}"));
    let (mode, is_announced) = match text(params, "mode") {
        "url" => ("url", can("url")),
        "form" => ("form", can("form")),
        // The shape monitor reports an unknown mode. Here, at least one mode must be announced.
        other => (other, can("form") || can("url")),
    };
    if is_announced {
        if !(can("form") && can("url")) {
            notes.pass("EL-01");
        }
        return;
    }
    let what = match mode {
        "" => "the agent sent an elicitation, but the client announced no mode of `elicitation`"
            .to_owned(),
        _ => format!(
            "the mode \"{mode}\" is used, but the client did not announce `elicitation.{mode}`"
        ),
    };
    notes.violation("EL-01", what, &with_start(number, state));
}

fn scope(params: &Value, number: u64, notes: &mut MonitorNotes) {
    match (params.get("sessionId"), params.get("requestId")) {
        (Some(_), Some(_)) => {
            let what = "an elicitation has both `sessionId` and `requestId`; it must have exactly \
                        one";
            notes.violation("EL-02", what, &[number]);
        }
        (None, None) => {
            let what =
                "an elicitation has neither `sessionId` nor `requestId`; it must have exactly one";
            notes.violation("EL-02", what, &[number]);
        }
        (Some(Value::String(_)), None) => {}
        (None, Some(Value::String(_) | Value::Number(_) | Value::Null)) => {}
        (Some(other), None) => {
            let at = "/params/sessionId";
            let what = format!("`{at}` is {other}; expected a string");
            notes.violation_at("EL-02", at, what, &[number]);
        }
        (None, Some(other)) => {
            let at = "/params/requestId";
            let what = format!("`{at}` is {other}; expected the id of a request");
            notes.violation_at("EL-02", at, what, &[number]);
        }
    }
}

fn address(url: &str, number: u64, notes: &mut MonitorNotes) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let name = match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = name == "localhost" || name == "::1" || name.starts_with("127.");
    let secret = rest.split(['?', '&', '#']).skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_secret = SECRETS.contains(&name.to_ascii_lowercase().as_str());
        (is_secret && !value.is_empty()).then_some(name)
    });
    if user.is_some() {
        notes.suspicion(
            "EL-06",
            "the URL contains a user name or a password",
            &[number],
        );
    } else if let Some(name) = secret {
        let what = format!("the URL contains what looks like a credential: `{name}`");
        notes.suspicion("EL-06", what, &[number]);
    } else if scheme.eq_ignore_ascii_case("https") || (scheme == "http" && is_loopback) {
        notes.pass("EL-06");
    } else {
        let what = format!("the URL has the scheme \"{scheme}\"; expected https");
        notes.suspicion("EL-06", what, &[number]);
    }
}
