//! Commands that change something (create, update, delete, purge), and idempotency keys for safe
//! retries.

use std::io;

use serde_json::{Value, json};

use super::args::ParsedArgs;
use super::changes::Quirk;
use super::source::not_found;
use super::store::{ItemStore, StoreLock, StoredItem};
use super::stream::{EarlyExit, EventWriter, ToolError};
use super::text::hash;

type Events = Result<Vec<Value>, EarlyExit>;

pub fn no_store() -> ToolError {
    let message = "The directory of the items is unknown: set `--state` or `MOCK_AOI_STATE`.";
    ToolError::new("config", "STATE_NOT_SET", message)
}

fn io_error(error: io::Error) -> EarlyExit {
    let message = format!("Cannot change the items: {}.", error.kind());
    ToolError::new("io", "STATE_UNUSABLE", message).into()
}

fn event(kind: &str, item: &StoredItem) -> Value {
    json!({ "type": kind, "id": item.id, "name": item.name })
}

fn plan(stream: &mut EventWriter, action: &str, targets: &[String]) -> Result<(), EarlyExit> {
    stream.meta(json!({}))?;
    for target in targets {
        stream.framework(json!({ "type": "aoi:plan", "action": action, "target": target }))?;
    }
    stream.summary(true, json!({}))
}

pub fn create(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: &ItemStore,
) -> Result<(), EarlyExit> {
    let name = words.operand(0);
    if name.is_empty() {
        let message = "The name of an item must not be empty.";
        return Err(ToolError::new("validation", "NAME_EMPTY", message).into());
    }
    if words.has("--dry-run") {
        if let (true, Some(key)) = (
            stream.has_quirk(Quirk::DryRunUsesKey),
            key_of(stream, words),
        ) {
            let lock = store.lock().map_err(io_error)?;
            let fingerprint = fingerprint(stream, &[name.as_bytes()]);
            store
                .remember(&lock, key, fingerprint, &[])
                .map_err(io_error)?;
        }
        return plan(stream, "create", &[name.to_owned()]);
    }
    run_once(stream, words, store, &[name.as_bytes()], |stream, lock| {
        let same = store.items().into_iter().find(|item| item.name == name);
        if let Some(same) = same.filter(|_| stream.has_quirk(Quirk::NaturalKey)) {
            return Ok(vec![event("created", &same)]);
        }
        Ok(vec![event("created", &create_item(store, lock, name)?)])
    })
}

pub fn create_item(
    store: &ItemStore,
    lock: &StoreLock,
    name: &str,
) -> Result<StoredItem, EarlyExit> {
    let id = store.next_id(lock).map_err(io_error)?;
    let name = name.to_owned();
    let item = StoredItem { id, name };
    store.put(lock, &item).map_err(io_error)?;
    Ok(item)
}

pub fn update(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: &ItemStore,
) -> Result<(), EarlyExit> {
    let (id, name) = (words.operand(0), words.operand(1));
    if words.has("--dry-run") {
        let item = store.item(id).ok_or_else(not_found)?;
        return plan(stream, "update", &[item.id]);
    }
    let key_parts = [id.as_bytes(), name.as_bytes()];
    run_once(stream, words, store, &key_parts, |_, lock| {
        let mut item = store.item(id).ok_or_else(not_found)?;
        item.name = name.to_owned();
        store.put(lock, &item).map_err(io_error)?;
        Ok(vec![event("updated", &item)])
    })
}

fn unconfirmed() -> ToolError {
    let message = "This cannot be undone. Add `--confirm`.";
    ToolError::new("usage", "CONFIRMATION_REQUIRED", message).with("hint", "--confirm")
}

pub fn delete(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: &ItemStore,
) -> Result<(), EarlyExit> {
    let id = words.operand(0);
    if words.has("--dry-run") {
        let item = store.item(id).ok_or_else(not_found)?;
        if stream.has_quirk(Quirk::DryRunActs) {
            let lock = store.lock().map_err(io_error)?;
            store.remove(&lock, id).map_err(io_error)?;
        }
        return plan(stream, "delete", &[item.id]);
    }
    if !words.has("--confirm") {
        if stream.has_quirk(Quirk::DeletesBeforeRefusal) {
            let lock = store.lock().map_err(io_error)?;
            let _ = store.remove(&lock, id);
        }
        return Err(unconfirmed().into());
    }
    run_once(stream, words, store, &[id.as_bytes()], |stream, lock| {
        let item = store.item(id).ok_or_else(not_found)?;
        if !stream.has_quirk(Quirk::ConfirmDoesNothing) {
            store.remove(lock, id).map_err(io_error)?;
        }
        Ok(vec![event("deleted", &item)])
    })
}

/// The named items, or all items.
fn to_delete(words: &ParsedArgs, store: &ItemStore) -> Result<Vec<StoredItem>, ToolError> {
    if words.operands.is_empty() {
        return Ok(store.items());
    }
    let mut ids = words.operands.clone();
    ids.sort_unstable();
    ids.dedup();
    let found = ids.iter().map(|id| store.item(id).ok_or_else(not_found));
    found.collect()
}

pub fn purge(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: &ItemStore,
) -> Result<(), EarlyExit> {
    let expected = words.number("--confirm-count")?;
    if words.has("--dry-run") {
        let items = to_delete(words, store)?;
        let ids: Vec<String> = items.into_iter().map(|item| item.id).collect();
        return plan(stream, "delete", &ids);
    }
    if !words.has("--confirm") {
        return Err(unconfirmed().into());
    }
    let is_unchecked = stream.has_quirk(Quirk::CountUnchecked);
    if expected.is_none() && !is_unchecked {
        let message = "Add `--confirm-count` with the number of items to delete.";
        return Err(ToolError::new("usage", "CONFIRM_COUNT_REQUIRED", message).into());
    }
    let key_parts = format!("{expected:?} {:?}", words.operands);
    run_once(stream, words, store, &[key_parts.as_bytes()], |_, lock| {
        let items = to_delete(words, store)?;
        if expected != u64::try_from(items.len()).ok() && !is_unchecked {
            let message = format!(
                "The number of items is {}; nothing was deleted.",
                items.len()
            );
            return Err(ToolError::new("conflict", "COUNT_DIFFERS", message).into());
        }
        let mut events = Vec::new();
        for item in items {
            store.remove(lock, &item.id).map_err(io_error)?;
            events.push(event("deleted", &item));
        }
        Ok(events)
    })
}

/// Runs `act`, unless a run with the same key already did. Then it repeats the events of that run.
pub fn run_once(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: &ItemStore,
    key_parts: &[&[u8]],
    act: impl FnOnce(&mut EventWriter, &StoreLock) -> Events,
) -> Result<(), EarlyExit> {
    let lock = store.lock().map_err(io_error)?;
    stream.check_stop()?;
    let fingerprint = fingerprint(stream, key_parts);
    let key = key_of(stream, words);
    let before = key.and_then(|key| store.recall(key));
    let Some((earlier_fingerprint, events)) = before else {
        let events = act(stream, &lock)?;
        if let Some(key) = key {
            store
                .remember(&lock, key, fingerprint, &events)
                .map_err(io_error)?;
        }
        drop(lock);
        return emit(stream, events, json!({}));
    };
    let is_same = earlier_fingerprint == fingerprint
        || stream.has_quirk(Quirk::KeyConflictPasses)
        || stream.has_quirk(Quirk::KeyIsNeverNew);
    if !is_same || stream.has_quirk(Quirk::KeyReplayFails) {
        let message = "The key was already used with other arguments.";
        return Err(ToolError::new("conflict", "KEY_REUSED", message).into());
    }
    if stream.has_quirk(Quirk::KeyDoublesQuietly) {
        act(stream, &lock)?;
    }
    let events = replayed(stream, store, &lock, events)?;
    emit(stream, events, json!({ "replayed": true }))
}

/// Hash of what the command is about.
fn fingerprint(stream: &EventWriter, key_parts: &[&[u8]]) -> u64 {
    let key_parts: Vec<&[u8]> = [stream.info.command.as_bytes()]
        .into_iter()
        .chain(key_parts.iter().copied())
        .collect();
    hash(&key_parts)
}

/// Hash of the idempotency key, if one was given.
fn key_of(stream: &EventWriter, words: &ParsedArgs) -> Option<u64> {
    let key = words.value("--idempotency-key")?;
    Some(match stream.has_quirk(Quirk::KeyIsNeverNew) {
        true => 0,
        false => hash(&[b"key", key.as_bytes()]),
    })
}

/// The events of the first run. Some mutants change them.
fn replayed(
    stream: &EventWriter,
    store: &ItemStore,
    lock: &StoreLock,
    mut events: Vec<Value>,
) -> Events {
    if stream.has_quirk(Quirk::KeyReplayIsMute) {
        return Ok(Vec::new());
    }
    if stream.has_quirk(Quirk::KeyReplaysNewId) {
        for event in &mut events {
            if let Some(id) = event.get_mut("id") {
                *id = store.next_id(lock).map_err(io_error)?.into();
            }
        }
    }
    Ok(events)
}

fn emit(stream: &mut EventWriter, events: Vec<Value>, extra: Value) -> Result<(), EarlyExit> {
    stream.meta(json!({}))?;
    for event in events {
        stream.domain(event)?;
    }
    stream.summary(true, extra)
}
