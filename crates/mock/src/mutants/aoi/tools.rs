//! Helper functions for the tables of AOI mutants.

use std::io::Write;

use serde_json::Value;

pub(super) use super::combine::*;
pub use super::{AoiMutant, RunCondition};
pub use crate::aoi::changes::{Change, Counters, EventFrame, Quirk, RunInfo};

pub type EventFrames = Vec<EventFrame>;

/// Run with results.
pub const SEARCH: &[&str] = &["search", "x"];
/// Run that takes long enough to be interrupted.
pub const SLOW: &[&str] = &["search", "x", "--delay-ms", "40"];
pub const CREATE: &[&str] = &["create", "a"];
/// Earlier run that creates an item.
pub const ONE_ITEM: &[&[&str]] = &[CREATE];

pub fn is(event: &Value, kind: &str) -> bool {
    event.get("type").is_some_and(|found| found == kind)
}

pub fn send(event: Value) -> EventFrames {
    vec![EventFrame::Json(event)]
}

pub fn raw(text: impl Into<Vec<u8>>) -> EventFrame {
    EventFrame::Raw(text.into())
}

/// Changes events of one type.
pub fn on(kind: &str, mut event: Value, change: impl FnOnce(&mut Value)) -> EventFrames {
    if is(&event, kind) {
        change(&mut event);
    }
    send(event)
}

pub fn set(event: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = event {
        fields.insert(name.to_owned(), value.into());
    }
}

pub fn remove(event: &mut Value, name: &str) {
    if let Value::Object(fields) = event {
        fields.shift_remove(name);
    }
}

pub fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub fn number(event: &Value, name: &str) -> u64 {
    event.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// Whether this is the first call with `what`.
pub fn first(counters: &mut Counters, what: &'static str) -> bool {
    let times = counters.entry(what).or_default();
    *times += 1;
    *times == 1
}

/// Writes text before the first event of one type.
pub fn before(kind: &str, words: &str, counters: &mut Counters, event: Value) -> EventFrames {
    match is(&event, kind) && first(counters, "before") {
        true => vec![raw(words), EventFrame::Json(event)],
        false => send(event),
    }
}

/// Changes the lines that contain hits.
pub fn hits(line: Vec<u8>, change: impl FnOnce(String) -> String) -> Vec<u8> {
    match String::from_utf8(line) {
        Ok(text) if text.contains("\"hit\"") => change(text).into_bytes(),
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

pub fn stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Hangs longer than any check waits, but not forever.
pub fn hang() -> ! {
    std::thread::sleep(std::time::Duration::from_secs(600));
    std::process::exit(70)
}

/// Removes a flag and its value, if it has one.
pub fn without(args: Vec<String>, flag: &str, has_value: bool) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = args.into_iter();
    while let Some(word) = words.next() {
        if word == flag {
            if has_value {
                words.next();
            }
            continue;
        }
        let is_inline = word.strip_prefix(flag).is_some_and(|w| w.starts_with('='));
        if !is_inline {
            kept.push(word);
        }
    }
    kept
}

/// Adds a flag to the arguments of one command.
pub fn with(mut args: Vec<String>, command: &str, flag: &str) -> Vec<String> {
    let is_it = args.iter().any(|word| word == command);
    if is_it && !args.iter().any(|word| word == flag) {
        args.push(flag.to_owned());
    }
    args
}

pub fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
