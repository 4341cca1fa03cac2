//! Idempotency keys, confirmations and dry runs.

use std::os::unix::fs::PermissionsExt;

use crate::machine_mode::{Place, Ran, fixtures};

const SECRET: &str = "a-value-to-keep-4711";

struct Bundle(Place, String);

impl Bundle {
    fn new() -> Self {
        let alpha = fixtures().join("alpha");
        Bundle(Place::new(), alpha.to_str().expect("UTF-8").to_owned())
    }

    fn run(&self, verb: [&str; 2], more: &[&str], input: &str) -> Ran {
        let words = [&verb[..], &[&self.1], more, &["--output", "jsonl"]].concat();
        self.0.run(&words, input)
    }

    fn set(&self, key: &str, input: &str) -> Ran {
        self.run(
            ["auth", "set"],
            &["ALPHA_KEY", "--idempotency-key", key],
            input,
        )
    }

    fn audited(&self, event: &str) -> usize {
        let log = self.0.state().join("audit/audit-log.jsonl");
        let text = std::fs::read_to_string(log).unwrap_or_default();
        text.matches(&format!("\"event\":\"{event}\"")).count()
    }
}

/// AOI-14.4-01, AOI-18.2-07.
#[test]
fn the_same_key_runs_once() {
    let bundle = Bundle::new();
    let first = bundle.set("k1", SECRET);
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert_eq!(bundle.audited("secret.write"), 1);
    let again = bundle.set("k1", SECRET);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_eq!(
        bundle.audited("secret.write"),
        1,
        "the command must not run again"
    );
    assert_eq!(again.summary()["replayed"], true);
    assert_eq!(first.events()[1], again.events()[1]);
    // A different input is a different call, and so are different arguments.
    for other in [
        bundle.set("k1", "another-value"),
        bundle.run(
            ["auth", "forget"],
            &["ALPHA_KEY", "--confirm", "--idempotency-key", "k1"],
            "",
        ),
    ] {
        assert_eq!(other.code, Some(65), "{}", other.out);
        assert_eq!(other.error()["category"], "conflict");
        assert_eq!(other.summary()["ok"], false);
    }
    assert_eq!(bundle.audited("secret.forget"), 0);
    assert_eq!(bundle.set("k2", SECRET).code, Some(0));
    assert_eq!(
        bundle.audited("secret.write"),
        2,
        "a new key is a new write"
    );
    // The files are readable only by their owner and contain no secret.
    let dir = bundle.0.state().join("idempotency");
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let mode = entry.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let text = std::fs::read_to_string(entry.path()).expect("text");
        assert!(!text.contains(SECRET) && !text.contains("k1"), "{text}");
    }
}

/// A failed call is retried.
#[test]
fn a_failure_is_not_replayed() {
    let bundle = Bundle::new();
    let failed = bundle.set("k", "");
    assert_eq!(failed.code, Some(64), "{}", failed.out);
    let well = bundle.set("k", SECRET);
    assert_eq!(well.code, Some(0), "{}", well.out);
    assert_eq!(well.summary().get("replayed"), None);
}

#[test]
fn two_concurrent_calls_run_once() {
    let bundle = Bundle::new();
    let start = || {
        let words = [
            "auth",
            "login",
            &bundle.1,
            "--yes",
            "--idempotency-key",
            "k",
            "--output",
            "jsonl",
        ];
        bundle.0.command(&words).spawn().expect("started")
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for child in children {
        let output = child.wait_with_output().expect("ended");
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{out}");
    }
    assert_eq!(bundle.audited("auth.login"), 1);
}

/// AOI-14.3-01, AOI-14.3-02.
#[test]
fn destructive_commands_need_confirmation() {
    let bundle = Bundle::new();
    assert_eq!(bundle.set("k", SECRET).code, Some(0));
    let forget = |more: &[&str]| bundle.run(["auth", "forget"], more, "y\n");
    let refused = forget(&["ALPHA_KEY"]);
    assert_eq!(refused.code, Some(64));
    assert_eq!(refused.error()["code"], "CONFIRMATION_REQUIRED");
    let wrong = forget(&["ALPHA_KEY", "--confirm", "--confirm-count", "7"]);
    assert_eq!(wrong.code, Some(65));
    assert_eq!(wrong.error()["code"], "COUNT_DIFFERS");
    let planned = forget(&["--dry-run"]);
    assert_eq!(planned.code, Some(0), "{}", planned.err);
    assert_eq!(plans(&planned), 1, "{}", planned.out);
    assert_eq!(bundle.audited("secret.forget"), 0);
    let done = forget(&["ALPHA_KEY", "--confirm", "--confirm-count", "1"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(bundle.audited("secret.forget"), 1);
}

fn plans(ran: &Ran) -> usize {
    let events = ran.events();
    let plans = events.iter().filter(|event| event["type"] == "aoi:plan");
    plans.count()
}

/// AOI-14.2-01, AOI-14.3-02: the dry run, the count and the deletion agree.
#[test]
fn only_stored_secrets_are_planned_and_counted() {
    let bundle = Bundle::new();
    let forget = |more: &[&str]| bundle.run(["auth", "forget"], more, "");
    for stored in [0, 1] {
        if stored == 1 {
            assert_eq!(bundle.set("k", SECRET).code, Some(0));
        }
        let planned = forget(&["--dry-run"]);
        assert_eq!(planned.code, Some(0), "{}", planned.err);
        assert_eq!(plans(&planned), stored, "{}", planned.out);
        let wrong = forget(&["--confirm", "--confirm-count", "7"]);
        let said = wrong.error()["message"].to_string();
        let counted = ["0 items would be deleted", "1 item would be deleted"][stored];
        assert!(said.contains(counted), "{said}");
        let count = stored.to_string();
        let done = forget(&["--confirm", "--confirm-count", &count]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(bundle.audited("secret.forget"), stored);
    }
}

/// AOI-14.2-01: a dry run does not even create a directory.
#[test]
fn a_dry_run_leaves_nothing_behind() {
    for (verb, more) in [
        (&["install"][..], &[][..]),
        (&["setup"], &[]),
        (&["auth", "login"], &[]),
        (&["auth", "refresh"], &[]),
        (&["auth", "set"], &["ALPHA_KEY"]),
        (&["auth", "forget"], &["ALPHA_KEY"]),
    ] {
        let place = Place::new();
        let bundle = fixtures().join("alpha");
        let bundle = bundle.to_str().expect("UTF-8");
        let words = [verb, &[bundle], more, &["--dry-run", "--output", "jsonl"]].concat();
        let ran = place.run(&words, "");
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.err);
        let left = std::fs::read_dir(place.0.path()).expect("there").count();
        assert_eq!(left, 0, "{words:?}");
    }
}
