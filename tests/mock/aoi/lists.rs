//! Search, list, get, fetch: streams, limits, secrets, wrong usage.

use std::collections::BTreeSet;

use crate::aoi::runner::Ground;

const CANARY: &str = "canary-4f1d9b7c";

#[test]
fn a_search_is_a_bounded_stream_of_typed_events() {
    let ran = Ground::new().run(&["search", "agents", "--output", "jsonl"]);
    let events = ran.ok().events();
    let meta = &events[0];
    for (name, value) in [
        ("tool", "mock-aoi"),
        ("aoi_version", "0.2"),
        ("schema_version", "2.0.0"),
        ("schema_name", "com.example.mock-aoi.events"),
        ("command", "search"),
    ] {
        assert_eq!(meta[name], value);
    }
    let versions: BTreeSet<&str> = ["tool_version", "aoi_version", "schema_version"]
        .iter()
        .filter_map(|name| meta[name].as_str())
        .collect();
    assert_eq!(versions.len(), 3, "the three versions must differ");
    let hits = ran.of("hit");
    assert_eq!(hits.len(), 20);
    let ids: BTreeSet<&str> = hits.iter().filter_map(|hit| hit["id"].as_str()).collect();
    assert_eq!(ids.len(), 20);
    let summary = ran.summary();
    assert_eq!(summary["truncated"], true);
    assert!(summary["next_cursor"].is_string());
    assert_eq!(summary["trace_id"], meta["trace_id"]);
    assert!(
        ran.stdout.len() > 4096,
        "the output must be larger than a small pipe"
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn pages_have_no_gaps_and_no_duplicates() {
    let ground = Ground::new();
    let ids = |args: &[&str]| -> Vec<String> {
        let hits = ground.run(args).ok().of("hit").into_iter();
        hits.map(|hit| hit["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let all = ids(&["search", "x", "--limit", "250"]);
    assert_eq!(all.len(), 25);
    let (mut paged, mut cursors, mut cursor) = (Vec::new(), BTreeSet::new(), None::<String>);
    loop {
        let mut args = vec!["search", "x", "--limit", "7"];
        if let Some(cursor) = &cursor {
            args.extend(["--cursor", cursor]);
        }
        let page = ids(&args);
        assert!(page.len() <= 7);
        paged.extend(page);
        let summary = ground.run(&args).summary();
        assert_eq!(summary["truncated"], paged.len() < 25);
        match summary["next_cursor"].as_str() {
            Some(next) => assert!(cursors.insert(next.to_owned()), "the cursor must change"),
            None => break,
        }
        cursor = summary["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(paged, all);
    for (limit, shown, cut) in [("1", 1, true), ("25", 25, false), ("26", 25, false)] {
        let ran = ground.run(&["search", "x", "--limit", limit]);
        assert_eq!(ran.ok().of("hit").len(), shown);
        assert_eq!(ran.summary()["truncated"], cut);
        assert_eq!(ran.summary()["next_cursor"].is_null(), !cut);
    }
}

#[test]
fn invalid_limits_and_cursors_are_refused() {
    let ground = Ground::new();
    for limit in ["0", "-1", "abc", "1001", "", "1.5"] {
        let ran = ground.run(&["search", "x", "--limit", limit]);
        ran.refused(64, "usage", "LIMIT_INVALID");
    }
    // A cursor of another query is not valid for this one.
    let other = ground.run(&["search", "y", "--limit", "7"]).summary();
    let other = other["next_cursor"].as_str().expect("a cursor").to_owned();
    for cursor in ["garbage", "", "p7-00000000", "p-", &other] {
        let ran = ground.run(&["search", "x", "--cursor", cursor]);
        ran.refused(65, "validation", "CURSOR_INVALID");
    }
    assert_eq!(
        ground.run(&["search", "nothing"]).ok().summary()["count"],
        0
    );
}

#[test]
fn usage_errors_are_events() {
    let ground = Ground::new();
    for (args, name) in [
        (vec!["search", "x", "--no-such-flag"], "UNKNOWN_FLAG"),
        (vec!["get", "x", "--limit", "3"], "UNKNOWN_FLAG"),
        (vec!["search", "x", "-x"], "UNKNOWN_FLAG"),
        (vec!["frobnicate"], "UNKNOWN_COMMAND"),
        (vec![], "COMMAND_MISSING"),
        (vec!["search"], "OPERAND_MISSING"),
        (vec!["search", "x", "y"], "OPERAND_UNEXPECTED"),
        (vec!["search", "x", "--limit"], "VALUE_MISSING"),
        (vec!["search", "x", "--debug=1"], "VALUE_NOT_WANTED"),
        (
            vec!["search", "x", "--output", "nonsense"],
            "UNKNOWN_FORMAT",
        ),
        (vec!["search", "x", "--delay-ms", "soon"], "NOT_A_NUMBER"),
        (vec!["search", "x", "--timeout", "-3"], "TIMEOUT_INVALID"),
        (
            vec!["input-schema", "--command", "search"],
            "NO_INPUT_SCHEMA",
        ),
    ] {
        ground.run(&args).refused(64, "usage", name);
    }
    let error = ground
        .run(&["get", "absent"])
        .refused(66, "not_found", "NO_SUCH_ITEM");
    assert_eq!(error["retryable"], false);
}

#[test]
fn secrets_are_accepted_and_never_shown() {
    let header = format!("Authorization: Bearer {CANARY}");
    let url = format!("https://u:{CANARY}@h.example/p?sig={CANARY}&token={CANARY}#{CANARY}");
    let ground = Ground::new()
        .env("MOCK_AOI_TOKEN", CANARY)
        .env("AWS_SECRET_ACCESS_KEY", CANARY);
    let quiet = |args: &[&str]| {
        let ran = ground.run(args);
        assert!(!ran.text().contains(CANARY), "{args:?}: {}", ran.text());
        assert!(!ran.stderr.contains(CANARY), "{args:?}: {}", ran.stderr);
        ran
    };
    for flags in [["--token", CANARY], ["--header", &header], ["--url", &url]] {
        let mut args = vec!["search", "x", "--debug"];
        args.extend(flags);
        assert!(quiet(&args).ok().stderr.contains("debug"));
        let inline = flags.join("=");
        quiet(&["search", "x", &inline]).ok();
        quiet(&["search", "x", "--bad", &inline]).refused(64, "usage", "UNKNOWN_FLAG");
    }
    let ran = quiet(&["search", "x", "--url", &url]);
    assert_eq!(ran.events()[0]["endpoint"], "https://h.example");
    for flag in [
        "--password",
        "--api-key",
        "--secret",
        "--client-secret",
        "--hunter2=",
    ] {
        quiet(&["search", "x", flag, CANARY]).refused(64, "usage", "UNKNOWN_FLAG");
        let inline = format!("{flag}={CANARY}");
        quiet(&["search", "x", &inline, "--debug"]).refused(64, "usage", "UNKNOWN_FLAG");
    }
    quiet(&["search", "x", CANARY]).refused(64, "usage", "OPERAND_UNEXPECTED");
    quiet(&[CANARY]).refused(64, "usage", "UNKNOWN_COMMAND");
    quiet(&["search", "x", "--limit", CANARY]).refused(64, "usage", "LIMIT_INVALID");
    quiet(&["search", "x", "--cursor", CANARY]).refused(65, "validation", "CURSOR_INVALID");
    quiet(&["search", "x", "--schema-version", CANARY]).refused(
        64,
        "usage",
        "SCHEMA_VERSION_UNSUPPORTED",
    );
    quiet(&["doctor", "--debug"]).ok();
    quiet(&["fetch", "--debug"]).ok();
    assert!(ground.files().values().all(|text| !text.contains(CANARY)));
}

#[test]
fn the_tool_never_starts_an_interactive_login() {
    let ground = Ground::new();
    ground.install_browser();
    let error = ground
        .run(&["fetch"])
        .refused(77, "authn", "INTERACTIVE_REQUIRED");
    assert!(error["hint"].is_string());
    assert_eq!(
        ground
            .run(&["fetch", "--token", "t"])
            .ok()
            .of("entry")
            .len(),
        3
    );
    let home = ground.path("home/.config/mock-aoi");
    std::fs::create_dir_all(&home).expect("a directory");
    std::fs::write(home.join("token"), "t\n").expect("written");
    ground.run(&["fetch"]).ok();
    Ground::new()
        .env("MOCK_AOI_TOKEN", "t")
        .run(&["fetch"])
        .ok();
}

#[test]
fn a_timeout_ends_the_run() {
    let ran = Ground::new().run(&["search", "x", "--delay-ms", "20", "--timeout", "0.05"]);
    let error = ran.refused(124, "timeout", "TIMED_OUT");
    assert_eq!(error["retryable"], true);
    assert_eq!(ran.summary()["reason"], "timeout");
    assert_eq!(ran.summary()["partial"], true);
}

#[test]
fn human_output_is_prose_and_json_is_one_object() {
    let ground = Ground::new();
    let human = ground.run(&["search", "x", "--limit", "2", "--output", "human"]);
    assert_eq!(human.text().lines().count(), 2);
    assert!(!human.text().contains('{'));
    let wrong = ground.run(&["search", "--output", "human"]);
    assert_eq!((wrong.code(), wrong.text().as_str()), (Some(64), ""));
    assert!(wrong.stderr.contains("QUERY"));
    let json = ground
        .run(&["search", "x", "--limit", "2", "--output", "json"])
        .json();
    assert_eq!(json["summary"]["count"], 2);
    for flag in ["--help", "-h"] {
        for args in [vec![flag], vec!["search", flag]] {
            let help = ground.run(&args);
            assert_eq!(help.code(), Some(0));
            assert!(help.text().starts_with("Usage: mock-aoi"));
        }
    }
    assert_eq!(ground.run(&["--version"]).text(), "mock-aoi 3.7.1\n");
    ground.run(&["search", "x", "--no-color", "--quiet"]).ok();
    let slow = ["search", "x", "--delay-ms", "1"];
    assert_eq!(ground.run(&slow).ok().of("aoi:progress").len(), 2);
}
