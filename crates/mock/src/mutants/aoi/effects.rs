//! Checks 7 and 8: retries with a key, ids of what was changed.

use serde_json::{Value, json};

use super::tools::*;

const DELETE_CONFIRMED: &[&str] = &["delete", "item-0001", "--confirm"];
const KEYED: &[&str] = &["create", "a", "--idempotency-key", "k1"];
const KEYED_ONCE: &[&[&str]] = &[KEYED];

pub static MUTANTS: &[Mutant] = &[
    mutant(
        "aoi-07-key-ignored",
        "AOI-07.replay-effect",
        "The idempotency key has no meaning.",
        KEYED,
        Twist::Args(|args| without(args, "--idempotency-key", true)),
    )
    .after(KEYED_ONCE),
    mutant(
        "aoi-07-key-unknown",
        "AOI-07.declared-key",
        "The idempotency key is advertised and unknown.",
        KEYED,
        Twist::Args(|mut args| {
            let flag = args.iter_mut().find(|word| *word == "--idempotency-key");
            if let Some(word) = flag {
                word.push_str("-please");
            }
            args
        }),
    ),
    mutant(
        "aoi-07-doubles-quietly",
        "AOI-07.replay-effect",
        "A retry says what the first run said, and does it once more.",
        KEYED,
        Twist::Quirk(Quirk::KeyDoublesQuietly),
    )
    .after(KEYED_ONCE),
    mutant(
        "aoi-07-new-id",
        "AOI-07.replay-result",
        "A retry names another id than the first run.",
        KEYED,
        Twist::Quirk(Quirk::KeyReplaysNewId),
    )
    .after(KEYED_ONCE),
    mutant(
        "aoi-07-replay-fails",
        "AOI-07.replay",
        "A retry is a conflict.",
        KEYED,
        Twist::Quirk(Quirk::KeyReplayFails),
    )
    .after(KEYED_ONCE),
    mutant(
        "aoi-07-replay-is-mute",
        "AOI-07.replay-result",
        "A retry succeeds and says nothing.",
        KEYED,
        Twist::Quirk(Quirk::KeyReplayIsMute),
    )
    .after(KEYED_ONCE),
    mutant(
        "aoi-07-all-keys-are-one",
        "AOI-07.other-key",
        "Every key is the same key.",
        &["create", "b", "--idempotency-key", "k2"],
        Twist::Quirk(Quirk::KeyIsNeverNew),
    )
    .after(KEYED_ONCE),
    mutant(
        "aoi-07-names-are-keys",
        "AOI-07.natural-key",
        "Without a key, two items of one name are one, and nobody says so.",
        CREATE,
        Twist::Quirk(Quirk::NaturalKey),
    )
    .after(ONE_ITEM),
    mutant(
        "aoi-07-key-for-anything",
        "AOI-07.key-conflict",
        "A key that was used for something else gives the old result.",
        &["create", "b", "--idempotency-key", "k1"],
        Twist::Quirk(Quirk::KeyConflictPasses),
    )
    .after(KEYED_ONCE)
    .warns(),
    mutant(
        "aoi-07-import-key-ignored",
        "AOI-07.replay-effect",
        "`import` has no use for its key.",
        &["import", "--input-jsonl", "-", "--idempotency-key", "k1"],
        Twist::Args(|args| match args.iter().any(|word| word == "import") {
            true => without(args, "--idempotency-key", true),
            false => args,
        }),
    )
    .input("{\"name\":\"a\"}\n")
    .after(&[&["import", "--input-jsonl", "-", "--idempotency-key", "k1"]]),
    mutant(
        "aoi-08-created-without-id",
        "AOI-08.id",
        "What was created has no id.",
        CREATE,
        Twist::Event(|_, _, event| on("created", event, |e| remove(e, "id"))),
    ),
    mutant(
        "aoi-08-created-id-null",
        "AOI-08.id",
        "The id of what was created is null.",
        CREATE,
        Twist::Event(|_, _, event| on("created", event, |e| set(e, "id", Value::Null))),
    ),
    mutant(
        "aoi-08-created-id-empty",
        "AOI-08.id",
        "The id of what was created is empty.",
        CREATE,
        Twist::Event(|_, _, event| on("created", event, |e| set(e, "id", ""))),
    ),
    mutant(
        "aoi-08-created-id-object",
        "AOI-08.id",
        "The id of what was created is an object.",
        CREATE,
        Twist::Event(|_, _, event| {
            let id = text(&event, "id").to_owned();
            on("created", event, |e| set(e, "id", json!({ "value": id })))
        }),
    ),
    mutant(
        "aoi-08-created-other-id",
        "AOI-08.id-found",
        "The id of what was created leads nowhere.",
        CREATE,
        Twist::Event(|_, _, event| {
            let id = text(&event, "id").replace("item-", "temp-");
            on("created", event, |e| set(e, "id", id))
        }),
    ),
    mutant(
        "aoi-08-created-same-id",
        "AOI-08.id-distinct",
        "Everything that is created has the same id.",
        CREATE,
        Twist::Event(|_, _, event| on("created", event, |e| set(e, "id", "item-0001"))),
    )
    .after(ONE_ITEM),
    mutant(
        "aoi-08-created-unsaid",
        "AOI-08.event",
        "`create` does not say what it created.",
        CREATE,
        Twist::Event(|facts, _, event| match facts.command == "create" {
            true if is(&event, "created") => Vec::new(),
            true => on("aoi:summary", event, |e| set(e, "count", 0)),
            false => send(event),
        }),
    ),
    mutant(
        "aoi-08-updated-other-id",
        "AOI-08.id-target",
        "`update` names another item than it changed.",
        &["update", "item-0001", "b"],
        Twist::Event(|_, _, event| on("updated", event, |e| set(e, "id", "item-0002"))),
    )
    .after(ONE_ITEM),
    mutant(
        "aoi-08-deleted-without-id",
        "AOI-08.id",
        "What was deleted has no id.",
        DELETE_CONFIRMED,
        Twist::Event(|_, _, event| on("deleted", event, |e| remove(e, "id"))),
    )
    .after(ONE_ITEM),
    mutant(
        "aoi-08-deleted-other-id",
        "AOI-08.id-target",
        "`delete` names another item than it removed.",
        DELETE_CONFIRMED,
        Twist::Event(|_, _, event| on("deleted", event, |e| set(e, "id", "item-0000"))),
    )
    .after(ONE_ITEM),
    mutant(
        "aoi-08-import-names-one",
        "AOI-08.count",
        "`import` names only the first item that it made.",
        &["import", "--input-jsonl", "-"],
        Twist::Event(|facts, notes, event| match facts.command == "import" {
            true if is(&event, "created") && !first(notes, "created") => Vec::new(),
            true if is(&event, "aoi:summary") => {
                let said = u64::from(notes.contains_key("created"));
                on("aoi:summary", event, |e| set(e, "count", said))
            }
            _ => send(event),
        }),
    )
    .input("{\"name\":\"a\"}\n{\"name\":\"b\"}\n"),
    mutant(
        "aoi-08-import-without-ids",
        "AOI-08.id",
        "`import` names its items without their ids.",
        &["import", "--input-jsonl", "-"],
        Twist::Event(|facts, _, event| match facts.command == "import" {
            true => on("created", event, |e| remove(e, "id")),
            false => send(event),
        }),
    )
    .input("{\"name\":\"a\"}\n"),
];
