//! Checks 7 and 8: retries with an idempotency key, ids of changed items.

use serde_json::{Value, json};

use super::tools::*;

const DELETE_CONFIRMED: &[&str] = &["delete", "item-0001", "--confirm"];
const KEYED: &[&str] = &["create", "a", "--idempotency-key", "k1"];
const KEYED_ONCE: &[&[&str]] = &[KEYED];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-07-key-ignored", "AOI-07.replay-effect")
            .describe("The idempotency key has no effect.")
            .violates(&["AOI-14.4-01"])
            .run(KEYED)
            .without("--idempotency-key", true)
            .after(KEYED_ONCE),
        mutant("aoi-07-key-unknown", "AOI-07.declared-key")
            .describe("The idempotency key is advertised but unknown.")
            .violates(&["AOI-17-05"])
            .run(KEYED)
            .args(|mut args| {
                let flag = args.iter_mut().find(|word| *word == "--idempotency-key");
                if let Some(word) = flag {
                    word.push_str("-please");
                }
                args
            }),
        mutant("aoi-07-doubles-quietly", "AOI-07.replay-effect")
            .describe("A retry returns the result of the first run, but also repeats the effect.")
            .violates(&["AOI-14.4-01"])
            .run(KEYED)
            .quirk(Quirk::KeyDoublesQuietly)
            .after(KEYED_ONCE),
        mutant("aoi-07-new-id", "AOI-07.replay-result")
            .describe("A retry returns a different id from the first run.")
            .run(KEYED)
            .quirk(Quirk::KeyReplaysNewId)
            .after(KEYED_ONCE),
        mutant("aoi-07-replay-fails", "AOI-07.replay")
            .describe("A retry fails with a conflict.")
            .violates(&["AOI-16.1-09"])
            .run(KEYED)
            .quirk(Quirk::KeyReplayFails)
            .after(KEYED_ONCE),
        mutant("aoi-07-replay-is-mute", "AOI-07.replay-result")
            .describe("A retry succeeds without a result.")
            .run(KEYED)
            .quirk(Quirk::KeyReplayIsMute)
            .after(KEYED_ONCE),
        mutant("aoi-07-all-keys-are-one", "AOI-07.other-key")
            .describe("All keys are treated as the same key.")
            .run(&["create", "b", "--idempotency-key", "k2"])
            .quirk(Quirk::KeyIsNeverNew)
            .after(KEYED_ONCE),
        mutant("aoi-07-names-are-keys", "AOI-07.natural-key")
            .describe("Without a key, two items of the same name are silently merged.")
            .run(CREATE)
            .quirk(Quirk::NaturalKey)
            .after(ONE_ITEM),
        mutant("aoi-07-key-for-anything", "AOI-07.key-conflict")
            .describe("A key that was used for something else returns the old result.")
            .run(&["create", "b", "--idempotency-key", "k1"])
            .quirk(Quirk::KeyConflictPasses)
            .after(KEYED_ONCE)
            .expect_warning(),
        mutant("aoi-07-import-key-ignored", "AOI-07.replay-effect")
            .describe("`import` ignores its key.")
            .violates(&["AOI-14.4-01"])
            .run(&["import", "--input-jsonl", "-", "--idempotency-key", "k1"])
            .args(|args| match args.iter().any(|word| word == "import") {
                true => without(args, "--idempotency-key", true),
                false => args,
            })
            .input("{\"name\":\"a\"}\n")
            .after(&[&["import", "--input-jsonl", "-", "--idempotency-key", "k1"]]),
        mutant("aoi-08-created-without-id", "AOI-08.id")
            .describe("The created item has no id.")
            .violates(&["AOI-14.5-01"])
            .run(CREATE)
            .event("created", removes("id")),
        mutant("aoi-08-created-id-null", "AOI-08.id")
            .describe("The id of the created item is null.")
            .violates(&["AOI-14.5-01"])
            .run(CREATE)
            .event("created", sets("id", Value::Null)),
        mutant("aoi-08-created-id-empty", "AOI-08.id")
            .describe("The id of the created item is empty.")
            .violates(&["AOI-14.5-01"])
            .run(CREATE)
            .event("created", sets("id", "")),
        mutant("aoi-08-created-id-object", "AOI-08.id")
            .describe("The id of the created item is an object.")
            .violates(&["AOI-14.5-01"])
            .run(CREATE)
            .events(|_, _, event| {
                let id = text(&event, "id").to_owned();
                on("created", event, |e| set(e, "id", json!({ "value": id })))
            }),
        mutant("aoi-08-created-other-id", "AOI-08.id-found")
            .describe("The id of the created item does not exist.")
            .violates(&["AOI-14.5-01"])
            .run(CREATE)
            .events(|_, _, event| {
                let id = text(&event, "id").replace("item-", "temp-");
                on("created", event, |e| set(e, "id", id))
            }),
        mutant("aoi-08-created-same-id", "AOI-08.id-distinct")
            .describe("All created items have the same id.")
            .run(CREATE)
            .event("created", sets("id", "item-0001"))
            .after(ONE_ITEM),
        mutant("aoi-08-created-unsaid", "AOI-08.event")
            .describe("`create` does not report the created item.")
            .violates(&["AOI-16.3-04", "AOI-14.5-01"])
            .run(CREATE)
            .events(|info, _, event| match info.command == "create" {
                true if is(&event, "created") => Vec::new(),
                true => on("aoi:summary", event, |e| set(e, "count", 0)),
                false => send(event),
            }),
        mutant("aoi-08-updated-other-id", "AOI-08.id-target")
            .describe("`update` reports a different item from the one that it changed.")
            .violates(&["AOI-16.3-05"])
            .run(&["update", "item-0001", "b"])
            .event("updated", sets("id", "item-0002"))
            .after(ONE_ITEM),
        mutant("aoi-08-deleted-without-id", "AOI-08.id")
            .describe("The deleted item has no id.")
            .violates(&["AOI-14.5-01"])
            .run(DELETE_CONFIRMED)
            .event("deleted", removes("id"))
            .after(ONE_ITEM),
        mutant("aoi-08-deleted-other-id", "AOI-08.id-target")
            .describe("`delete` reports a different item from the one that it removed.")
            .violates(&["AOI-16.3-06"])
            .run(DELETE_CONFIRMED)
            .event("deleted", sets("id", "item-0000"))
            .after(ONE_ITEM),
        mutant("aoi-08-import-names-one", "AOI-08.count")
            .describe("`import` reports only the first item that it created.")
            .violates(&["AOI-14.5-01"])
            .run(&["import", "--input-jsonl", "-"])
            .events(|info, counters, event| match info.command == "import" {
                true if is(&event, "created") && !first(counters, "created") => Vec::new(),
                true if is(&event, "aoi:summary") => {
                    let count = u64::from(counters.contains_key("created"));
                    on("aoi:summary", event, |e| set(e, "count", count))
                }
                _ => send(event),
            })
            .input("{\"name\":\"a\"}\n{\"name\":\"b\"}\n"),
        mutant("aoi-08-import-without-ids", "AOI-08.id")
            .describe("`import` reports its items without their ids.")
            .violates(&["AOI-14.5-01"])
            .run(&["import", "--input-jsonl", "-"])
            .event_if(of_command("import"), "created", removes("id"))
            .input("{\"name\":\"a\"}\n"),
    ]
}
