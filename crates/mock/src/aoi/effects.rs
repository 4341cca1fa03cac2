//! Commands that change something (create, update, delete, purge), and idempotency keys for safe
//! retries.

use std::io;

use serde_json::{Value, json};

use super::source::not_found;
use super::store::{Held, Item, Store};
use super::stream::{Failure, Stop, Stream};
use super::text::hash;
use super::twist::Quirk;
use super::words::Words;

type Events = Result<Vec<Value>, Stop>;

pub fn no_store() -> Failure {
    let message = "The directory of the items is unknown: set `--state` or `MOCK_AOI_STATE`.";
    Failure::new("config", "STATE_NOT_SET", message)
}

fn broken(error: io::Error) -> Stop {
    let message = format!("Cannot change the items: {}.", error.kind());
    Failure::new("io", "STATE_UNUSABLE", message).into()
}

fn event(kind: &str, item: &Item) -> Value {
    json!({ "type": kind, "id": item.id, "name": item.name })
}

fn plan(stream: &mut Stream, action: &str, targets: &[String]) -> Result<(), Stop> {
    stream.meta(json!({}))?;
    for target in targets {
        stream.framework(json!({ "type": "aoi:plan", "action": action, "target": target }))?;
    }
    stream.summary(true, json!({}))
}

pub fn create(stream: &mut Stream, words: &Words, store: &Store) -> Result<(), Stop> {
    let name = words.operand(0);
    if name.is_empty() {
        let message = "The name of an item must not be empty.";
        return Err(Failure::new("validation", "NAME_EMPTY", message).into());
    }
    if words.has("--dry-run") {
        return plan(stream, "create", &[name.to_owned()]);
    }
    carry_out(stream, words, store, &[name.as_bytes()], |stream, held| {
        let same = store.items().into_iter().find(|item| item.name == name);
        if let Some(same) = same.filter(|_| stream.quirk(Quirk::NaturalKey)) {
            return Ok(vec![event("created", &same)]);
        }
        Ok(vec![event("created", &make(store, held, name)?)])
    })
}

pub fn make(store: &Store, held: &Held, name: &str) -> Result<Item, Stop> {
    let id = store.next_id(held).map_err(broken)?;
    let name = name.to_owned();
    let item = Item { id, name };
    store.put(held, &item).map_err(broken)?;
    Ok(item)
}

pub fn update(stream: &mut Stream, words: &Words, store: &Store) -> Result<(), Stop> {
    let (id, name) = (words.operand(0), words.operand(1));
    if words.has("--dry-run") {
        let item = store.item(id).ok_or_else(not_found)?;
        return plan(stream, "update", &[item.id]);
    }
    let question = [id.as_bytes(), name.as_bytes()];
    carry_out(stream, words, store, &question, |_, held| {
        let mut item = store.item(id).ok_or_else(not_found)?;
        item.name = name.to_owned();
        store.put(held, &item).map_err(broken)?;
        Ok(vec![event("updated", &item)])
    })
}

fn unconfirmed() -> Failure {
    let message = "This cannot be undone. Add `--confirm`.";
    Failure::new("usage", "CONFIRMATION_REQUIRED", message).with("hint", "--confirm")
}

pub fn delete(stream: &mut Stream, words: &Words, store: &Store) -> Result<(), Stop> {
    let id = words.operand(0);
    if words.has("--dry-run") {
        let item = store.item(id).ok_or_else(not_found)?;
        if stream.quirk(Quirk::DryRunActs) {
            let held = store.hold().map_err(broken)?;
            store.remove(&held, id).map_err(broken)?;
        }
        return plan(stream, "delete", &[item.id]);
    }
    if !words.has("--confirm") {
        if stream.quirk(Quirk::DeletesBeforeRefusal) {
            let held = store.hold().map_err(broken)?;
            let _ = store.remove(&held, id);
        }
        return Err(unconfirmed().into());
    }
    carry_out(stream, words, store, &[id.as_bytes()], |stream, held| {
        let item = store.item(id).ok_or_else(not_found)?;
        if !stream.quirk(Quirk::ConfirmDoesNothing) {
            store.remove(held, id).map_err(broken)?;
        }
        Ok(vec![event("deleted", &item)])
    })
}

/// The named items, or all items.
fn condemned(words: &Words, store: &Store) -> Result<Vec<Item>, Failure> {
    if words.operands.is_empty() {
        return Ok(store.items());
    }
    let mut ids = words.operands.clone();
    ids.sort_unstable();
    ids.dedup();
    let found = ids.iter().map(|id| store.item(id).ok_or_else(not_found));
    found.collect()
}

pub fn purge(stream: &mut Stream, words: &Words, store: &Store) -> Result<(), Stop> {
    let expected = words.number("--confirm-count")?;
    if words.has("--dry-run") {
        let items = condemned(words, store)?;
        let ids: Vec<String> = items.into_iter().map(|item| item.id).collect();
        return plan(stream, "delete", &ids);
    }
    if !words.has("--confirm") {
        return Err(unconfirmed().into());
    }
    let is_unchecked = stream.quirk(Quirk::CountUnchecked);
    if expected.is_none() && !is_unchecked {
        let message = "Add `--confirm-count` with the number of items to delete.";
        return Err(Failure::new("usage", "CONFIRM_COUNT_REQUIRED", message).into());
    }
    let question = format!("{expected:?} {:?}", words.operands);
    carry_out(stream, words, store, &[question.as_bytes()], |_, held| {
        let items = condemned(words, store)?;
        if expected != u64::try_from(items.len()).ok() && !is_unchecked {
            let message = format!(
                "The number of items is {}; nothing was deleted.",
                items.len()
            );
            return Err(Failure::new("conflict", "COUNT_DIFFERS", message).into());
        }
        let mut events = Vec::new();
        for item in items {
            store.remove(held, &item.id).map_err(broken)?;
            events.push(event("deleted", &item));
        }
        Ok(events)
    })
}

/// Runs `act`, unless a run with the same key already did. Then it repeats the events of that run.
pub fn carry_out(
    stream: &mut Stream,
    words: &Words,
    store: &Store,
    question: &[&[u8]],
    act: impl FnOnce(&mut Stream, &Held) -> Events,
) -> Result<(), Stop> {
    let held = store.hold().map_err(broken)?;
    stream.go_on()?;
    let question: Vec<&[u8]> = [stream.facts.command.as_bytes()]
        .into_iter()
        .chain(question.iter().copied())
        .collect();
    let question = hash(&question);
    let key = words.value("--idempotency-key");
    let key = key.map(|key| match stream.quirk(Quirk::KeyIsNeverNew) {
        true => 0,
        false => hash(&[b"key", key.as_bytes()]),
    });
    let before = key.and_then(|key| store.recall(key));
    let Some((asked, events)) = before else {
        let events = act(stream, &held)?;
        if let Some(key) = key {
            store
                .remember(&held, key, question, &events)
                .map_err(broken)?;
        }
        drop(held);
        return tell(stream, events, json!({}));
    };
    let is_same = asked == question
        || stream.quirk(Quirk::KeyConflictPasses)
        || stream.quirk(Quirk::KeyIsNeverNew);
    if !is_same || stream.quirk(Quirk::KeyReplayFails) {
        let message = "The key was already used with other arguments.";
        return Err(Failure::new("conflict", "KEY_REUSED", message).into());
    }
    if stream.quirk(Quirk::KeyDoublesQuietly) {
        act(stream, &held)?;
    }
    let events = replayed(stream, store, &held, events)?;
    tell(stream, events, json!({ "replayed": true }))
}

/// The events of the first run. Some mutants change them.
fn replayed(stream: &Stream, store: &Store, held: &Held, mut events: Vec<Value>) -> Events {
    if stream.quirk(Quirk::KeyReplayIsMute) {
        return Ok(Vec::new());
    }
    if stream.quirk(Quirk::KeyReplaysNewId) {
        for event in &mut events {
            if let Some(id) = event.get_mut("id") {
                *id = store.next_id(held).map_err(broken)?.into();
            }
        }
    }
    Ok(events)
}

fn tell(stream: &mut Stream, events: Vec<Value>, extra: Value) -> Result<(), Stop> {
    stream.meta(json!({}))?;
    for event in events {
        stream.domain(event)?;
    }
    stream.summary(true, extra)
}
