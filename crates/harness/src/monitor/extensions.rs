//! Extensions: EX-02, EX-08.

use serde_json::{Map, Value};

use super::view::call;
use super::{ConversationState, LineView, Monitor, MonitorNotes};
use crate::shape::{self, Side};
use agentproto_wire::Direction;

#[derive(Default)]
pub struct ExtensionMonitor;

/// Maximum depth at which `_meta` is searched.
const DEPTH: usize = 16;

impl Monitor for ExtensionMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        if view.line.direction != Direction::FromAgent {
            return;
        }
        let number = view.line.number;
        if let Some((method, _)) = call(view) {
            self::method(method, number, notes);
        }
        for root in ["/params", "/result"] {
            if let Some(value) = view.json.and_then(|json| json.pointer(root)) {
                traces(value, root, number, DEPTH, notes);
            }
        }
    }
}

fn method(method: &str, number: u64, notes: &mut MonitorNotes) {
    match shape::side(method) {
        Some(Side::Client | Side::Both) => notes.pass("EX-02"),
        Some(Side::Agent) => {
            let what =
                format!("the agent calls `{method}`, which is a method of agents, not of clients");
            notes.violation("EX-02", what, &[number]);
        }
        None if method.starts_with('_') => notes.pass("EX-02"),
        None if shape::is_draft(method) => {
            let what = format!("`{method}` is part of a draft of the protocol, not of version 1");
            notes.suspicion("EX-02", what, &[number]);
        }
        None => {
            let what = format!(
                "`{method}` is not a method of the protocol; custom methods must start with `_`"
            );
            notes.violation("EX-02", what, &[number]);
        }
    }
}

/// Checks every `_meta` of a message. Members with arbitrary JSON are skipped.
fn traces(value: &Value, at: &str, number: u64, depth: usize, notes: &mut MonitorNotes) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("_meta", Value::Object(meta)) => context(meta, at, number, notes),
                    ("_meta" | "rawInput" | "rawOutput" | "requestedSchema", _) => {}
                    _ => traces(value, &format!("{at}/{key}"), number, depth - 1, notes),
                }
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                traces(value, &format!("{at}/{index}"), number, depth - 1, notes);
            }
        }
        _ => {}
    }
}

fn context(meta: &Map<String, Value>, at: &str, number: u64, notes: &mut MonitorNotes) {
    type Check = fn(&str) -> bool;
    let checks: [(&str, Check); 3] = [
        ("traceparent", is_parent),
        ("tracestate", is_state),
        ("baggage", is_baggage),
    ];
    for (key, is_right) in checks {
        let Some(value) = meta.get(key) else { continue };
        match value.as_str().is_some_and(is_right) {
            true => notes.pass("EX-08"),
            false => {
                let at = format!("{at}/_meta/{key}");
                let what = format!(
                    "`{at}` is {value}; the name is reserved for the W3C trace context, and this \
                     is not a valid value"
                );
                notes.violation_at("EX-08", at, what, &[number]);
            }
        }
    }
}

fn is_parent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let hex = |text: &str, length: usize| {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        text.len() == length && text.bytes().all(is_hex)
    };
    let is_zero = |text: &str| text.bytes().all(|b| b == b'0');
    hex(version, 2)
        && *version != "ff"
        && hex(trace, 32)
        && !is_zero(trace)
        && hex(parent, 16)
        && !is_zero(parent)
        && hex(flags, 2)
        && (rest.is_empty() || *version != "00")
}

fn is_state(text: &str) -> bool {
    let is_key = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/@".contains(&b);
    let mut members = text.split(',').map(str::trim);
    members.all(|member| match member.split_once('=') {
        None => member.is_empty(),
        Some((key, value)) => {
            !key.is_empty()
                && key.bytes().all(is_key)
                && !value.is_empty()
                && value
                    .bytes()
                    .all(|b| (0x20..0x7f).contains(&b) && b != b'=')
        }
    })
}

fn is_baggage(text: &str) -> bool {
    let is_key = |b: u8| b.is_ascii_graphic() && !b"(),/:;<=>?@[]{}\\\"".contains(&b);
    let mut members = text.split(',').map(str::trim);
    members.all(|member| {
        let pair = member.split(';').next().unwrap_or_default().trim();
        pair.split_once('=').is_some_and(|(key, value)| {
            let key = key.trim();
            let is_value = |b: u8| b.is_ascii_graphic() && !b",;\\\"".contains(&b);
            !key.is_empty() && key.bytes().all(is_key) && value.trim().bytes().all(is_value)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{is_baggage, is_parent, is_state};

    #[test]
    fn invalid_trace_contexts_are_rejected() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(is_parent(parent));
        for wrong in [
            "trace-1",
            "",
            &parent.to_uppercase(),
            &format!("{parent}-1"),
        ] {
            assert!(!is_parent(wrong), "{wrong}");
        }
        assert!(is_state("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
        assert!(!is_state("Rojo"));
        assert!(is_baggage(
            "userId=alice,serverNode=DF%2028;isProduction=false"
        ));
        assert!(!is_baggage("alice"));
    }
}
