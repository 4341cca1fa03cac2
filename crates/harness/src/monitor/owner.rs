//! Maps an invalid shape to the most specific requirement that covers it.

use serde_json::Value;

use crate::shape::{ShapeError, ShapeErrorKind};

/// `None` if another monitor reports it.
pub fn owner(method: &str, error: &ShapeError, value: &Value) -> Option<&'static str> {
    let place = error.place();
    let place = place.as_str();
    match method {
        "initialize" => initialize(place, error),
        "authenticate" => Some("AU-07"),
        "logout" => Some("AU-09"),
        "session/new" | "session/load" | "session/resume" => set_up(place, error),
        "session/list" => list(place, error),
        "session/delete" => Some("DE-01"),
        "session/close" => Some("CL-02"),
        "session/set_mode" => Some("MO-02"),
        "session/set_config_option" => {
            option(place, "/configOptions/*", error).unwrap_or(Some("CO-04"))
        }
        "session/prompt" => prompt(place, error),
        "session/update" => update(place, error, value),
        "session/request_permission" => permission(place),
        "fs/read_text_file" | "fs/write_text_file" => match place {
            "/sessionId" => None,
            "/path" => Some("FS-03"),
            _ => Some("FS-04"),
        },
        "terminal/create" => match place {
            "/sessionId" => None,
            _ => Some("TE-05"),
        },
        "terminal/output" | "terminal/release" | "terminal/wait_for_exit" | "terminal/kill" => {
            match place {
                "/sessionId" => None,
                _ => Some("TE-03"),
            }
        }
        "elicitation/create" => elicitation(place, error),
        "elicitation/complete" => Some("EL-04"),
        _ => None,
    }
}

fn initialize(place: &str, error: &ShapeError) -> Option<&'static str> {
    match place {
        "/protocolVersion" => Some("IN-01"),
        "/agentInfo/name" | "/agentInfo/version" => Some("IN-07"),
        "/authMethods/*/id" | "/authMethods/*/name" => Some("AU-01"),
        "/authMethods/*/type" => None,
        _ if error.is_in("/authMethods") && is_below(place, "/authMethods/*", &["args", "env"]) => {
            Some("AU-04")
        }
        _ => Some("IN-08"),
    }
}

fn set_up(place: &str, error: &ShapeError) -> Option<&'static str> {
    match place {
        "/sessionId" => Some("SE-01"),
        "/modes/currentModeId" | "/modes/availableModes/*/id" => Some("MO-01"),
        _ => option(place, "/configOptions/*", error).unwrap_or(Some("SE-03")),
    }
}

/// The requirement for a part of a config option. `None` if the place is not in one.
fn option(place: &str, root: &str, error: &ShapeError) -> Option<Option<&'static str>> {
    let part = place.strip_prefix(root)?;
    let is_missing = matches!(error.kind, ShapeErrorKind::Missing { .. });
    Some(match part {
        "/currentValue" if is_missing => Some("CO-01"),
        "/category" => Some("CO-08"),
        "/id" | "/type" | "/currentValue" => Some("CO-02"),
        _ if part.starts_with("/options") => Some("CO-02"),
        _ => return None,
    })
}

fn list(place: &str, error: &ShapeError) -> Option<&'static str> {
    let is_null = matches!(&error.kind, ShapeErrorKind::Type { found, .. } if found == "null");
    match place {
        // It should be an empty list.
        "/sessions" if is_null => Some("LI-03"),
        "/nextCursor" => Some("LI-06"),
        "/sessions/*/updatedAt" => Some("LI-07"),
        _ if place.starts_with("/sessions/*") => Some("LI-02"),
        _ => Some("LI-01"),
    }
}

fn prompt(place: &str, error: &ShapeError) -> Option<&'static str> {
    let is_missing = matches!(error.kind, ShapeErrorKind::Missing { .. });
    match place {
        "/stopReason" if !is_missing => Some("PT-02"),
        _ => Some("PT-01"),
    }
}

fn update(place: &str, error: &ShapeError, params: &Value) -> Option<&'static str> {
    let variant = params
        .pointer("/update/sessionUpdate")
        .and_then(Value::as_str);
    match (variant.unwrap_or_default(), place) {
        // Reported by the monitor of sessions.
        (_, "/sessionId") => None,
        ("tool_call", "/update/toolCallId" | "/update/title") => Some("TC-01"),
        ("tool_call" | "tool_call_update", "/update/kind" | "/update/status") => Some("TC-04"),
        // The monitor of tool calls reports lines smaller than 1.
        ("tool_call" | "tool_call_update", "/update/locations/*/line") => Some("TC-09"),
        ("plan", _) if error.is_in("/update/entries") => Some("PL-01"),
        ("available_commands_update", _) if error.is_in("/update/availableCommands") => {
            Some("SL-01")
        }
        ("current_mode_update", "/update/currentModeId") => Some("MO-04"),
        ("config_option_update", "/update/configOptions") => Some("CO-06"),
        ("config_option_update", _) => {
            option(place, "/update/configOptions/*", error).unwrap_or(Some("UP-01"))
        }
        ("usage_update", _) => Some("PT-19"),
        _ => Some("UP-01"),
    }
}

fn permission(place: &str) -> Option<&'static str> {
    match place {
        "/toolCall/kind" | "/toolCall/status" => Some("TC-04"),
        "/toolCall/locations/*/line" => Some("TC-09"),
        _ if place.starts_with("/options/*") => Some("PE-02"),
        _ => Some("PE-01"),
    }
}

fn elicitation(place: &str, error: &ShapeError) -> Option<&'static str> {
    match place {
        // Reported where the two scopes are compared.
        "/sessionId" | "/requestId" => None,
        "/elicitationId" => Some("EL-04"),
        _ if error.is_in("/requestedSchema") => Some("EL-03"),
        _ => Some("EL-02"),
    }
}

fn is_below(place: &str, root: &str, keys: &[&str]) -> bool {
    let part = place.strip_prefix(root).and_then(|p| p.strip_prefix('/'));
    part.is_some_and(|part| keys.contains(&part.split('/').next().unwrap_or_default()))
}
