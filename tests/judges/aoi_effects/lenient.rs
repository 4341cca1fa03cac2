//! Cases where a check is lenient on purpose: a tool that deserves it, and a similar one that does
//! not.

use agentproto_aoi::model::{CheckId, Finding, Report};
use agentproto_report::Verdict;

use super::{CREATE, DELETE, LIST, OBSERVE, describe, expect_broken, found, lint_by, verdict};

const PUT: &str = r#"
  put:
    mutating: true
    ok: [put, alpha]
    idempotency: { flag: --key }
    events: [put]
    id: /id
"#;
const PUT_BOTH: &str = r#"
  put:
    mutating: true
    ok: [put, alpha]
    other: [put, beta]
    idempotency: { flag: --key }
    events: [put]
    id: /id
"#;
const DROP: &str = r#"
  drop:
    destructive: true
    target: { from: put }
    ok: [drop, "{id}"]
    confirm: [--confirm]
    events: [dropped]
    id: /id
"#;

const DISTINCT: &str = "AOI-08.id-distinct";

fn of(check: u8, wrong: &str, commands: &[&str]) -> Report {
    lint_by(
        &[CheckId::Number(check)],
        wrong,
        commands,
        "sandbox: true",
        OBSERVE,
    )
}

fn expect_no_findings(report: &Report) {
    let found = found(report);
    assert_eq!(describe(&found), Vec::<String>::new());
}

/// AOI-14.4-01, AOI-14.5-01: using the same name twice means the same resource if the name is
/// documented as the key.
#[test]
fn a_documented_name_used_twice_is_one_resource() {
    let report = of(8, "by-name", &[PUT, DROP]);
    expect_no_findings(&report);
    for command in ["put", "drop"] {
        let seen = verdict(&report, command, DISTINCT);
        assert_eq!(seen, Some(Verdict::NotApplicable), "{command}");
    }
    // Without documentation it cannot be decided.
    let report = of(8, "by-name-untold", &[PUT, DROP]);
    expect_no_findings(&report);
    for command in ["put", "drop"] {
        let seen = verdict(&report, command, DISTINCT);
        assert_eq!(seen, Some(Verdict::NotVerified), "{command}");
    }
}

/// AOI-14.5-01.
#[test]
fn two_resources_with_one_id_always_fail() {
    expect_broken(&[PUT], &[("by-name-twice", "put", DISTINCT)]);
    expect_broken(&[PUT_BOTH], &[("by-name-lies", "put", DISTINCT)]);
    expect_broken(
        &[PUT, DROP],
        &[("by-name-drops-another", "drop", "AOI-08.id-target")],
    );
    expect_broken(
        &[CREATE, DELETE],
        &[
            ("one-id", "create", DISTINCT),
            ("one-id", "delete", DISTINCT),
        ],
    );
}

/// `other` names a second resource: ids can be compared, and a known key can be sent with other
/// arguments.
#[test]
fn other_names_another_resource() {
    let (ids, keys) = (of(8, "by-name", &[PUT_BOTH]), of(7, "by-name", &[PUT_BOTH]));
    expect_no_findings(&ids);
    expect_no_findings(&keys);
    assert_eq!(verdict(&ids, "put", DISTINCT), Some(Verdict::Pass));
    let conflict = "AOI-07.key-conflict";
    assert_eq!(verdict(&keys, "put", conflict), Some(Verdict::Pass));
    let alone = of(7, "by-name", &[PUT]);
    assert_eq!(
        verdict(&alone, "put", conflict),
        Some(Verdict::NotApplicable)
    );
    expect_broken(&[PUT_BOTH], &[("key-ignored", "put", conflict)]);
}

#[test]
fn stdin_of_the_probe_reaches_the_command() {
    let say = "\n  say: { mutating: true, ok: [say], events: [created], id: /id";
    let heard = of(8, "", &[say, ", stdin: a word }\n"]);
    expect_no_findings(&heard);
    assert_eq!(verdict(&heard, "say", "AOI-08.event"), Some(Verdict::Pass));
    let mute = of(8, "", &[say, " }\n"]);
    assert_eq!(
        verdict(&mute, "say", "AOI-08.event"),
        Some(Verdict::NotVerified)
    );
}

/// Words after `--` are operands, so a check adds its options before them.
#[test]
fn options_are_inserted_before_operands() {
    let create = CREATE.replace("[create, \"n-{uniq}\"]", "[create, --, \"-n-{uniq}\"]");
    assert_ne!(create, CREATE);
    let create = [create.as_str()];
    for check in [6, 7, 8] {
        expect_no_findings(&of(check, "", &create));
    }
    expect_broken(
        &create,
        &[
            ("key-ignored", "create", "AOI-07.replay-effect"),
            ("dry-run-acts", "create", "AOI-06.dry-run-effect"),
        ],
    );
    let find = [FIND_BEHIND];
    let report = of(11, "", &find);
    expect_no_findings(&report);
    let seen = verdict(&report, "find", "AOI-11.cursor-walk");
    assert_eq!(seen, Some(Verdict::Pass));
    expect_broken(&find, &[("one-more", "find", "AOI-11.limit")]);
    let flag = "AOI-05.unknown-flag";
    let of_flag = |wrong| verdict(&of(5, wrong, &find), "find", flag);
    assert_eq!(of_flag(""), Some(Verdict::Pass));
    assert_eq!(of_flag("any-flag"), Some(Verdict::Fail));
}

const FIND_BEHIND: &str = r#"
  find:
    read_only: true
    ok: [find, --, -x]
    limit: { flag: --limit, total: 5, page: 2, cursor_flag: --cursor, id: /id }
"#;

fn streams(wrong: &str, results: u8) -> Option<Verdict> {
    let slow = format!(
        "\n  find: {{ read_only: true, ok: [find, x], slow: [find, x, --limit, \"{results}\", --slow] }}\n"
    );
    let report = of(11, wrong, &[slow.as_str()]);
    verdict(&report, "find", "AOI-11.streams")
}

/// AOI-18.2-11: a slow start is not buffering, and one or two results are too few to show it.
#[test]
fn buffering_is_distinguished_from_a_slow_start() {
    for (wrong, results, expected) in [
        ("", 4, Verdict::Pass),
        ("slow-start", 4, Verdict::Pass),
        ("slow-start", 2, Verdict::NotApplicable),
        ("slow-start", 1, Verdict::NotApplicable),
        ("buffered", 4, Verdict::Fail),
        ("buffered-in-lines", 4, Verdict::Fail),
    ] {
        assert_eq!(streams(wrong, results), Some(expected), "{wrong} {results}");
    }
}

/// Each unbounded command runs in its own directory.
#[test]
fn unbounded_commands_run_in_separate_directories() {
    let watch = ["\n  watch: { unbounded: true, read_only: true, ok: [watch] }\n"];
    let wrong = |wrong: &str| -> Vec<String> {
        let report = of(10, wrong, &watch);
        let is_wrong = |f: &&Finding| f.verdict == Verdict::Fail;
        let rules = report.checks.iter().filter(is_wrong);
        rules.map(|f| f.rule.clone()).collect()
    };
    assert_eq!(wrong(""), Vec::<String>::new());
    assert!(wrong("deaf").contains(&"AOI-10.signal-hangs".to_owned()));
}

/// A truncated list shows only part of the resources, so what is missing from it is not a failure.
#[test]
fn a_truncated_observation_is_not_verified() {
    let seed = "sandbox: true\nsetup: [[sh, -c, \"mkdir -p $NOTES; for n in 1 2 3; do echo x > $NOTES/a$n.note; done\"]]";
    let paged = "\n  list: { read_only: true, ok: [list], limit: { flag: --limit, total: 3, page: 2, cursor_flag: --cursor, id: /id } }\n";
    let whole = r#"observe: { command: [list, --limit, "1000"], id: /id }"#;
    let seen = [
        ("create", "AOI-07.other-key"),
        ("create", "AOI-07.replay-effect"),
        ("create", "AOI-08.id-found"),
        ("create", "AOI-08.count"),
        ("delete", "AOI-06.no-effect"),
        ("delete", "AOI-08.id-found"),
    ];
    let checks = [6, 7, 8].map(CheckId::Number);
    for (list, observe, expected) in [
        (LIST, OBSERVE, Verdict::NotVerified),
        (LIST, whole, Verdict::Pass),
        // The cursors of this list are declared, so the check follows them.
        (paged, OBSERVE, Verdict::Pass),
    ] {
        let commands = [CREATE, DELETE, list];
        let report = lint_by(&checks, "list-bounded", &commands, seed, observe);
        let is_fail = |f: &&Finding| f.verdict == Verdict::Fail;
        let failures: Vec<&Finding> = report.checks.iter().filter(is_fail).collect();
        assert_eq!(describe(&failures), Vec::<String>::new(), "{observe}");
        for (command, rule) in seen {
            let found = verdict(&report, command, rule);
            assert_eq!(found, Some(expected), "{rule} of {command}: {observe}");
            let row = |f: &&Finding| f.rule == rule && f.command == command;
            let row = report.checks.iter().find(row).expect("a row");
            let describe = row.message.contains("`observe` is truncated")
                && row.message.contains(r#"[list, --limit, "1000"]"#);
            assert_eq!(
                describe,
                expected == Verdict::NotVerified,
                "{}",
                row.message
            );
        }
        // Rules that need no observation still get a verdict.
        assert_eq!(verdict(&report, "create", "AOI-08.id"), Some(Verdict::Pass));
    }
}

/// `setup` runs before reading commands, but not before discovery.
#[test]
fn setup_runs_for_readers_but_not_for_discovery() {
    let list = ["\n  list: { read_only: true, ok: [list] }\n"];
    let seed = "sandbox: true\nsetup: [[sh, -c, \"mkdir -p $NOTES; echo x > $NOTES/seeded.note\"]]";
    let exit = |setup: &str| {
        let report = lint_by(&[CheckId::Number(3)], "needs-seed", &list, setup, OBSERVE);
        verdict(&report, "list", "AOI-03.exit-not-zero")
    };
    assert_eq!(exit(seed), Some(Verdict::Pass));
    // The tool says that what the command line names does not exist, so nothing is known.
    assert_eq!(exit("sandbox: true"), Some(Verdict::NotVerified));
    let schema = |wrong: &str| {
        let report = lint_by(&[CheckId::Number(1)], wrong, &list, seed, OBSERVE);
        verdict(&report, "(tool)", "AOI-01.schema-fails")
    };
    assert_eq!(schema(""), Some(Verdict::Pass));
    assert_eq!(schema("schema-needs-seed"), Some(Verdict::Fail));
}

/// AOI-7-03: a tool that had only two lines left to print when the signal arrived does not fail. A
/// tool that continues to work after the signal fails.
#[test]
fn a_run_that_ends_before_the_signal_is_not_verified() {
    let zero = |wrong: &str, slow: &str| {
        let quiet = format!("\n  quiet: {{ read_only: true, ok: [quiet]{slow} }}\n");
        let report = of(10, wrong, &[quiet.as_str()]);
        verdict(&report, "quiet", "AOI-10.signal-exit-zero")
    };
    let slow = ", slow: [quiet, --slow]";
    assert_eq!(zero("deaf", ""), Some(Verdict::NotVerified));
    for held in ["", slow] {
        assert_eq!(zero("", held), Some(Verdict::Pass), "{held}");
    }
    assert_eq!(zero("deaf", slow), Some(Verdict::Fail));
}

const STRAYS: &str = "AOI-adv.read-only-strays";
const BOUND: &str = "AOI-adv.default-bound";

fn lint_advisory(wrong: &str, commands: &[&str], sandbox: &str, observe: &str) -> Report {
    lint_by(&[CheckId::Advisory], wrong, commands, sandbox, observe)
}

/// AOI-14.1-01: a read-only command changes nothing. Caches, logs, temporary files and files that
/// every run leaves are not changes.
#[test]
fn stray_files_are_distinguished_from_caches() {
    let list = ["\n  list: { read_only: true, ok: [list] }\n"];
    let see = "observe: { exec: [sh, -c, \"ls {world}/state\"] }";
    let seen = |wrong: &str, sandbox: &str| {
        let report = lint_advisory(wrong, &list, sandbox, see);
        let changes = verdict(&report, "list", "AOI-adv.read-only-changes");
        assert_eq!(changes, Some(Verdict::Pass), "{wrong}");
        verdict(&report, "list", STRAYS)
    };
    let plain = "sandbox: true";
    let file = "sandbox: true\nsetup: [[sh, -c, \"echo x > $HOME/.notesrc\"]]";
    for (wrong, sandbox) in [
        ("list-leaves-a-file", plain),
        ("list-keeps-a-history", plain),
        ("list-empties-a-file", file),
    ] {
        assert_eq!(seen(wrong, sandbox), Some(Verdict::Warn), "{wrong}");
    }
    let named = "sandbox: true\ncaches: [~/.list-history]";
    for (mild, sandbox) in [
        ("", plain),
        ("", file),
        ("list-keeps-a-cache", plain),
        ("list-keeps-a-log", plain),
        ("list-uses-a-temporary-file", plain),
        ("runs-are-counted", plain),
        ("list-keeps-a-history", named),
    ] {
        assert_eq!(seen(mild, sandbox), Some(Verdict::Pass), "{mild}");
    }
}

/// A command whose probe uses `--limit` has a limit, although nothing declares it.
#[test]
fn a_limit_without_a_declaration_is_unproven() {
    let seen = |ok: &str| {
        let find = format!("\n  find: {{ read_only: true, ok: {ok} }}\n");
        verdict(&of(11, "", &[find.as_str()]), "find", "AOI-11.limit")
    };
    assert_eq!(seen(r#"[find, x, --limit, "2"]"#), Some(Verdict::Skip));
    assert_eq!(seen("[find, x, --limit=2]"), Some(Verdict::Skip));
    assert_ne!(seen("[find, x]"), Some(Verdict::Skip));
}

/// AOI-15-01: a documented default limit must be applied. A limit above the number of results is
/// not verified and does not fail.
#[test]
fn a_default_limit_is_checked_against_its_documentation() {
    let seen = |wrong: &str, default: &str| {
        let find = format!(
            "\n  find:\n    read_only: true\n    ok: [find, x]\n    limit: {{ flag: --limit, total: 5, page: 2, id: /id{default} }}\n"
        );
        let report = lint_advisory(wrong, &[find.as_str()], "sandbox: true", OBSERVE);
        verdict(&report, "find", BOUND)
    };
    assert_eq!(seen("", ", default: 3"), Some(Verdict::Pass));
    assert_eq!(seen("", ""), Some(Verdict::Pass));
    assert_eq!(seen("no-bound", ", default: 3"), Some(Verdict::Warn));
    for unsure in ["", ", default: 5", ", default: 100"] {
        let verdict = seen("no-bound", unsure);
        assert_eq!(verdict, Some(Verdict::NotVerified), "{unsure}");
    }
}

/// AOI-16.3-11: a stream that is late once, for example on a busy machine, is watched again.
#[test]
fn a_stream_is_silent_only_if_it_always_is() {
    let watch = ["\n  watch: { unbounded: true, read_only: true, ok: [watch] }\n"];
    let seen = |wrong: &str| {
        let report = of(10, wrong, &watch);
        let summary = verdict(&report, "watch", "AOI-10.no-interrupted-summary");
        (
            verdict(&report, "watch", "AOI-10.unbounded-silent"),
            summary,
        )
    };
    let pass = Some(Verdict::Pass);
    assert_eq!(seen("late-once"), (pass, pass));
    // No signal reached it after its first line.
    let unmet = Some(Verdict::NotVerified);
    assert_eq!(seen("never-says"), (Some(Verdict::Warn), unmet));
}
