//! Create, update, delete, purge: effects, ids, keys, confirmations.

use serde_json::Value;

use crate::aoi::runner::Ground;

/// Ids and names of all items.
fn items(ground: &Ground) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let entries = ground.run(&["list"]).ok().of("entry").into_iter();
    entries
        .map(|entry| (text(&entry["id"]), text(&entry["name"])))
        .collect()
}

fn names(ground: &Ground) -> Vec<String> {
    items(ground).into_iter().map(|(_, name)| name).collect()
}

fn id_of(ground: &Ground, args: &[&str], kind: &str) -> String {
    let events = ground.run(args).ok().of(kind);
    assert_eq!(events.len(), 1);
    events[0]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn created_items_have_stable_ids() {
    let ground = Ground::new();
    let first = id_of(&ground, &["create", "a"], "created");
    let second = id_of(&ground, &["create", "a"], "created");
    assert_ne!(first, second);
    assert_eq!(id_of(&ground, &["get", &first], "entry"), first);
    assert_eq!(id_of(&ground, &["update", &first, "b"], "updated"), first);
    assert_eq!(names(&ground), ["b", "a"]);
    assert_eq!(
        id_of(&ground, &["delete", &second, "--confirm"], "deleted"),
        second
    );
    let third = id_of(&ground, &["create", "c"], "created");
    assert!(
        ![&first, &second].contains(&&third),
        "an id is never reused"
    );
    ground
        .run(&["get", &second])
        .refused(66, "not_found", "NO_SUCH_ITEM");
    ground
        .run(&["create", ""])
        .refused(65, "validation", "NAME_EMPTY");
    for id in [
        "../secret",
        "item-",
        "item-../x",
        "item-9999",
        "/etc/passwd",
    ] {
        ground
            .run(&["delete", id, "--confirm"])
            .refused(66, "not_found", "NO_SUCH_ITEM");
    }
}

#[test]
fn nothing_is_deleted_without_confirmation() {
    let ground = Ground::new().env("CI", "1").env("YES", "1");
    let id = id_of(&ground, &["create", "a"], "created");
    let before = ground.files();
    let unconfirmed = (64, "usage", "CONFIRMATION_REQUIRED");
    let (code, category, name) = unconfirmed;
    ground.run(&["delete", &id]).refused(code, category, name);
    ground
        .fed(&["delete", &id], Some("y\ny\n"))
        .refused(code, category, name);
    ground
        .run(&["purge", "--confirm-count", "1"])
        .refused(code, category, name);
    ground
        .run(&["purge", "--confirm"])
        .refused(64, "usage", "CONFIRM_COUNT_REQUIRED");
    for args in [
        vec!["delete", &id, "--dry-run"],
        vec!["purge", "--dry-run"],
        vec!["create", "b", "--dry-run"],
        vec!["update", &id, "b", "--dry-run"],
    ] {
        let ran = ground.run(&args);
        assert_eq!(ran.ok().of("aoi:plan").len(), 1, "{args:?}");
        assert_eq!(ran.summary()["count"], 0);
    }
    assert_eq!(ground.files(), before);
    let ran = ground.run(&["purge", "--confirm", "--confirm-count", "2"]);
    ran.refused(65, "conflict", "COUNT_DIFFERS");
    assert_eq!(names(&ground), ["a"]);
    let absent = ["purge", &id, "item-9", "--confirm", "--confirm-count", "2"];
    ground.run(&absent).refused(66, "not_found", "NO_SUCH_ITEM");
    let other = id_of(&ground, &["create", "b"], "created");
    ground
        .run(&["purge", &other, "--confirm", "--confirm-count", "1"])
        .ok();
    assert_eq!(names(&ground), ["a"]);
    let ran = ground.run(&["purge", "--confirm", "--confirm-count", "1"]);
    assert_eq!(ran.ok().of("deleted")[0]["id"], id.as_str());
    assert!(items(&ground).is_empty());
}

#[test]
fn a_key_makes_a_retry_safe() {
    let ground = Ground::new();
    let keyed = ["create", "a", "--idempotency-key", "k1"];
    let first = id_of(&ground, &keyed, "created");
    let again = ground.run(&keyed);
    assert_eq!(again.ok().of("created")[0]["id"], first.as_str());
    assert_eq!(again.summary()["replayed"], true);
    assert_eq!(names(&ground), ["a"]);
    let other = id_of(
        &ground,
        &["create", "a", "--idempotency-key", "k2"],
        "created",
    );
    assert_ne!(other, first);
    id_of(&ground, &["create", "a"], "created");
    assert_eq!(names(&ground).len(), 3);
    let ran = ground.run(&["create", "b", "--idempotency-key", "k1"]);
    ran.refused(65, "conflict", "KEY_REUSED");
    let removal = ["delete", &other, "--confirm", "--idempotency-key", "k3"];
    assert_eq!(id_of(&ground, &removal, "deleted"), other);
    assert_eq!(id_of(&ground, &removal, "deleted"), other);
    let change = ["update", &first, "z", "--idempotency-key", "k4"];
    assert_eq!(id_of(&ground, &change, "updated"), first);
    assert_eq!(id_of(&ground, &change, "updated"), first);
    let import = ["import", "--input-jsonl", "-", "--idempotency-key", "k5"];
    for _ in 0..2 {
        assert_eq!(
            ground
                .fed(&import, Some("{\"name\":\"i\"}\n"))
                .ok()
                .of("created")
                .len(),
            1
        );
    }
    assert_eq!(names(&ground), ["z", "a", "i"]);
    assert!(
        ground.files().values().all(|text| !text.contains("k1")),
        "keys must not be stored"
    );
}

#[test]
fn concurrent_calls_with_one_key_have_one_effect() {
    let ground = Ground::new();
    let start = || {
        let mut command = ground.command(&["create", "a", "--idempotency-key", "k"]);
        command.spawn().expect("it starts")
    };
    let children: Vec<_> = (0..8).map(|_| start()).collect();
    for child in children {
        assert!(child.wait_with_output().expect("it ends").status.success());
    }
    assert_eq!(names(&ground), ["a"]);
}

#[test]
fn without_a_state_directory_nothing_can_be_changed() {
    let ground = Ground::new();
    for args in [
        vec!["create", "a"],
        vec!["delete", "item-0001", "--confirm"],
        vec!["import"],
    ] {
        let output = ground.stateless(&args).output().expect("it runs");
        assert_eq!(output.status.code(), Some(78), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("STATE_NOT_SET"));
    }
    let output = ground.stateless(&["list"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    // The `--state` flag of the tool, with a `~` that no shell has expanded.
    let output = ground
        .stateless(&["create", "a", "--state", "~/items"])
        .output();
    assert_eq!(output.expect("it runs").status.code(), Some(0));
    assert!(ground.path("home/items/item-0001.json").exists());
    let file = ground.path("work/file");
    std::fs::write(&file, "").expect("written");
    let file = file.to_str().expect("a text");
    ground
        .run(&["create", "a", "--state", file])
        .refused(74, "io", "STATE_UNUSABLE");
}
