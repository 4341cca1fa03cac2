//! The format of the log and of its pointer file.
//!
//! An event is one line. Its last two members are `hash`, the SHA-256 of the bytes before it, and
//! `mac`, the HMAC-SHA256 of the bytes before it. `prev` is the hash of the previous event.
//! Earlier versions wrote no `mac`, and their `hash` is that of the event with sorted keys.

use agentproto_text::strict_json::{JsonQuirkKind, ParseOptions, read_with};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::key::{FILE, HomeKey, Key, MAC_PREFIX, Purpose};

/// The `prev` of the first event.
pub const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
const HASH_PREFIX: &str = "sha256:";
/// Number of hexadecimal digits of a hash or a MAC.
const DIGITS: usize = 64;
/// Width of the pointer file in bytes. It never changes, so the file can be overwritten in place.
const HEAD_WIDTH: usize = 319;
/// Maximum size of a pointer file. Longer ones are invalid.
pub const MAX_HEAD: u64 = 4 << 10;

/// Advice for a log that was changed.
pub const KEEP_AS_EVIDENCE: &str = "the log was changed after it was written: find out why; then run `agentproto audit accept`, which \
     keeps the log under another name and lets the next run start a new one";
/// Advice for a log whose key is not available.
const FIND_KEY: &str =
    "restore the key from a backup, or set AGENTPROTO_HOME to the home that wrote the log";

/// What is wrong, and what to do about it.
#[derive(Debug)]
pub struct Problem {
    pub what: String,
    pub hint: &'static str,
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Problem {
            what,
            hint: KEEP_AS_EVIDENCE,
        }
    }
}

impl From<&str> for Problem {
    fn from(what: &str) -> Self {
        what.to_owned().into()
    }
}

/// Number and hash of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub seq: u64,
    pub hash: String,
}

/// Number of events up to a tip.
pub fn count(tip: Option<&Tip>) -> u64 {
    tip.map_or(0, |tip| tip.seq.saturating_add(1))
}

/// The `prev` of the event after a tip.
pub fn next_prev(tip: Option<&Tip>) -> &str {
    tip.map_or(GENESIS, |tip| &tip.hash)
}

/// An event that matches its hash, and its MAC if it is keyed.
#[derive(Debug)]
pub struct Event {
    pub tip: Tip,
    pub prev: String,
    pub name: String,
}

/// Writes an event as a line. `entry` contains everything but `hash` and `mac`. Also returns the
/// hash.
pub fn write_event(entry: &Map<String, Value>, key: &Key) -> std::io::Result<(Vec<u8>, String)> {
    let mut line = serde_json::to_vec(entry)?;
    line.pop();
    let hash = sha256(&line);
    line.extend_from_slice(format!(r#","hash":"{hash}""#).as_bytes());
    let mac = key.sign(Purpose::Line, &line);
    line.extend_from_slice(format!(r#","mac":"{mac}"}}"#).as_bytes());
    line.push(b'\n');
    Ok((line, hash))
}

/// Reads and checks one line. Events from `from` on must be keyed, others must not be.
pub fn read_event(text: &[u8], keyed: Option<(&Key, u64)>) -> Result<Event, Problem> {
    let mut entry = read_object(text)?;
    let seq = entry.get("seq").and_then(Value::as_u64);
    let seq = seq.ok_or("the event has no valid `seq`")?;
    let key = keyed.filter(|(_, from)| seq >= *from).map(|(key, _)| key);
    let hash = match (key, entry.contains_key("mac")) {
        (Some(key), true) => check_keyed(text, key)?,
        (Some(_), false) => {
            return Err(
                "the event has no `mac`: it was written without the key of this home, or by an \
                 older agentproto"
                    .into(),
            );
        }
        (None, true) => {
            return Err("the event has a `mac`, but the pointer file says that it has none".into());
        }
        (None, false) => check_unkeyed(&mut entry)?,
    };
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    Ok(Event {
        prev: text("prev").to_owned(),
        name: text("event").to_owned(),
        tip: Tip { seq, hash },
    })
}

/// Reads a JSON object, and refuses duplicate keys. Readers disagree on which of them counts.
fn read_object(text: &[u8]) -> Result<Map<String, Value>, Problem> {
    let options = ParseOptions {
        rejects_deep: true,
        ..ParseOptions::default()
    };
    let parsed = read_with(text, options).map_err(|error| format!("invalid JSON: {error}"))?;
    if let Some(quirk) = parsed.first(JsonQuirkKind::DuplicateKey) {
        let name = agentproto_text::clip(&quirk.text, 80);
        return Err(format!("duplicate key `{name}`").into());
    }
    match parsed.value {
        Value::Object(entry) => Ok(entry),
        _ => Err("it is not a JSON object".into()),
    }
}

fn check_keyed(text: &[u8], key: &Key) -> Result<String, Problem> {
    let misplaced = "`hash` and `mac` are not the last members of the event";
    let body = text.strip_suffix(b"}").ok_or(misplaced)?;
    let (signed, mac) = split_member(body, "mac", MAC_PREFIX).ok_or(misplaced)?;
    let (content, hash) = split_member(signed, "hash", HASH_PREFIX).ok_or(misplaced)?;
    if sha256(content) != hash {
        return Err("the event does not match its `hash`".into());
    }
    if key.sign(Purpose::Line, signed) != mac {
        return Err(
            "the event does not match its `mac`: it was not written with the key of this home"
                .into(),
        );
    }
    Ok(hash.to_owned())
}

fn check_unkeyed(entry: &mut Map<String, Value>) -> Result<String, Problem> {
    let Some(Value::String(hash)) = entry.remove("hash") else {
        return Err("the event has no `hash`".into());
    };
    if hash_of_sorted(entry) != hash {
        return Err("the event does not match its `hash`".into());
    }
    Ok(hash)
}

/// Splits the text before a last member from the member's value.
fn split_member<'t>(text: &'t [u8], name: &str, prefix: &str) -> Option<(&'t [u8], &'t str)> {
    let value_start = text.len().checked_sub(prefix.len() + DIGITS + 1)?;
    let (before, value) = text.split_at_checked(value_start)?;
    let value = std::str::from_utf8(value.strip_suffix(b"\"")?).ok()?;
    let before = before.strip_suffix(format!(r#","{name}":""#).as_bytes())?;
    value.starts_with(prefix).then_some((before, value))
}

fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    format!("{HASH_PREFIX}{}", agentproto_text::hex(&hash))
}

/// Hash of an entry with keys sorted by name.
pub fn hash_of_sorted(entry: &Map<String, Value>) -> String {
    let mut text = String::with_capacity(512);
    write_sorted(entry, &mut text);
    sha256(text.as_bytes())
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => write_sorted(map, text),
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

fn write_sorted(map: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    text.push('{');
    for (n, (key, value)) in members.into_iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        write_value(value, text);
    }
    text.push('}');
}

/// The valid contents of a pointer file.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// The newest event, or `None` if there is none yet.
    pub tip: Option<Tip>,
    /// Number of the first keyed event. `None` if the file itself is not keyed.
    pub keyed_from: Option<u64>,
}

/// The contents of a pointer file, padded to a fixed width.
pub fn write_head(tip: Option<&Tip>, from: u64, key: &Key) -> String {
    let seq = tip.map_or("null".to_owned(), |tip| tip.seq.to_string());
    let hash = next_prev(tip);
    let id = &key.id;
    let signed = format!(r#"{{"seq":{seq},"hash":"{hash}","from":{from},"key":"{id}""#);
    let mac = key.sign(Purpose::Pointer, signed.as_bytes());
    let head = format!(r#"{signed},"mac":"{mac}"}}"#);
    format!("{head:<HEAD_WIDTH$}\n")
}

/// Reads and checks a pointer file. `None` if it is missing or empty. `must_be_keyed`: only a log of
/// another home may have a pointer from before keyed logs.
pub fn read_head(
    bytes: &[u8],
    key: &HomeKey,
    must_be_keyed: bool,
) -> Result<Option<Head>, Problem> {
    // An earlier version writes a shorter line over the first part of the file.
    let text = bytes.split(|byte| *byte == b'\n').next();
    let text = text.unwrap_or_default().trim_ascii_end();
    if text.is_empty() {
        return Ok(None);
    }
    let entry = read_object(text)?;
    let hash = entry.get("hash").and_then(Value::as_str);
    let hash = hash.ok_or("it has no `hash`")?.to_owned();
    let tip = match entry.get("seq") {
        Some(Value::Null) => None,
        seq => Some(Tip {
            seq: seq.and_then(Value::as_u64).ok_or("it has no valid `seq`")?,
            hash,
        }),
    };
    if !entry.contains_key("mac") {
        if must_be_keyed {
            return Err(
                "it has no `mac`, but this home writes keyed events: the log was replaced, or an \
                 older agentproto wrote to it"
                    .into(),
            );
        }
        return Ok(Some(Head {
            tip,
            keyed_from: None,
        }));
    }
    let key = key.get().ok_or_else(|| Problem {
        what: format!("it is keyed, but the key `$AGENTPROTO_HOME/{FILE}` is missing"),
        hint: FIND_KEY,
    })?;
    if entry.get("key").and_then(Value::as_str) != Some(&key.id) {
        return Err(Problem {
            what: format!("it was written with another key than `$AGENTPROTO_HOME/{FILE}`"),
            hint: FIND_KEY,
        });
    }
    let body = text.strip_suffix(b"}").unwrap_or(text);
    let signed = split_member(body, "mac", MAC_PREFIX);
    if signed.is_none_or(|(signed, mac)| key.sign(Purpose::Pointer, signed) != mac) {
        return Err("it does not match its `mac`".into());
    }
    let from = entry.get("from").and_then(Value::as_u64);
    Ok(Some(Head {
        tip,
        keyed_from: Some(from.ok_or("it has no `from`")?),
    }))
}

/// Compares the pointer with the last event. The pointer may be one event behind, because it is
/// written after the event and the writer may be killed in between.
pub fn check_end(pointer: Option<&Tip>, last: Option<&Event>) -> Result<(), String> {
    let named = count(pointer);
    let events = count(last.map(|last| &last.tip));
    let is_next = last.is_some_and(|last| last.prev == next_prev(pointer));
    if last.map(|last| &last.tip) == pointer || (events == named.saturating_add(1) && is_next) {
        return Ok(());
    }
    Err(if events < named {
        format!(
            "events are missing at the end: the log has {events}, and the pointer file names {named}"
        )
    } else if events > named {
        format!(
            "the pointer file is older than the log: it names {named} events, and the log has \
             {events}"
        )
    } else {
        "the last event is not the one that the pointer file names".to_owned()
    })
}
