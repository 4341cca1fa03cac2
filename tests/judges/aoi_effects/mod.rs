//! Checks 6, 7, 8, 11 and 12 of `aoi-lint` on a small shell tool. A conforming tool has no
//! findings, and each defect breaks the expected rule.

mod lenient;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agentproto_aoi::model::{CheckId, Finding, Report};
use agentproto_aoi::session::LintOptions;
use agentproto_aoi::{self as aoi, probe};
use agentproto_report::Verdict;
use agentproto_sandbox::helper;

static STOP: AtomicBool = AtomicBool::new(false);

const CREATE: &str = r#"
  create:
    mutating: true
    ok: [create, "n-{uniq}"]
    idempotency: { flag: --key }
    events: [created]
    id: /id
    dry_run: --dry-run
"#;
const DELETE: &str = r#"
  delete:
    destructive: true
    target: { from: create }
    ok: [delete, "{id}"]
    confirm: [--confirm]
    idempotency: { flag: --key }
    events: [deleted]
    id: /id
    dry_run: --dry-run
"#;
const IMPORT: &str = r#"
  import:
    mutating: true
    ok: [import]
    events: [created]
    input:
      flag: []
      good: ['{"name":"a-{uniq}"}', '{"name":"b-{uniq}"}']
      bad: ['{"nmae":"a"}']
      modes: { fail_fast: [], continue: [--go-on] }
      default: fail_fast
"#;
const FIND: &str = r#"
  find:
    read_only: true
    ok: [find, x]
    limit: { flag: --limit, total: 5, page: 2, cursor_flag: --cursor, id: /id }
    slow: [find, x, --limit, "4", --slow]
"#;
const LOGIN: &str = "
  login: { needs_auth: true, read_only: true, ok: [login] }
";
const LIST: &str = "
  list: { read_only: true, ok: [list] }
";

/// The report on the tool with one defect or none.
fn lint(wrong: &str, commands: &[&str]) -> Report {
    lint_with(wrong, commands, "sandbox: true", OBSERVE)
}

const OBSERVE: &str = "observe: { command: [list], id: /id }";

/// Checks 6, 7, 8, 11 and 12, and the advisory checks.
const CHECKS: [CheckId; 6] = [
    CheckId::Number(6),
    CheckId::Number(7),
    CheckId::Number(8),
    CheckId::Number(11),
    CheckId::Number(12),
    CheckId::Advisory,
];

fn lint_with(wrong: &str, commands: &[&str], sandbox: &str, observe: &str) -> Report {
    lint_by(&CHECKS, wrong, commands, sandbox, observe)
}

fn lint_by(
    checks: &[CheckId],
    wrong: &str,
    commands: &[&str],
    sandbox: &str,
    observe: &str,
) -> Report {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    let tool = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/judges/aoi_effects/notes.sh"
    );
    let text = format!(
        "aoi_probe: 1\ntool: [sh, \"{tool}\"]\nenv: {{ NOTES: \"{{world}}/state/notes\", WRONG: \"{wrong}\" }}\n{sandbox}\n{observe}\ncommands:{}",
        commands.concat()
    );
    let base = std::env::temp_dir();
    let probe = probe::parse(&text, &base).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let options = LintOptions {
        limit: Duration::from_secs(20),
        only: checks.to_vec(),
        ..LintOptions::default()
    };
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(aoi::lint(probe, options, &STOP)).unwrap()
}

/// Failures and warnings of these checks.
fn found(report: &Report) -> Vec<&Finding> {
    let ours = ["AOI-06", "AOI-07", "AOI-08", "AOI-11", "AOI-12"];
    let advisory = [
        "AOI-adv.read-only-changes",
        "AOI-adv.read-only-strays",
        "AOI-adv.default-bound",
        "AOI-adv.idempotent-race",
    ];
    let is_ours =
        |rule: &str| ours.iter().any(|check| rule.starts_with(check)) || advisory.contains(&rule);
    let is_wrong = |verdict| matches!(verdict, Verdict::Fail | Verdict::Warn | Verdict::Error);
    let all = report.checks.iter();
    all.filter(|f| is_wrong(f.verdict) && is_ours(&f.rule))
        .collect()
}

fn describe(findings: &[&Finding]) -> Vec<String> {
    let line = |f: &&Finding| format!("{:?} {} {}: {}", f.verdict, f.command, f.rule, f.message);
    findings.iter().map(line).collect()
}

/// Expects each defect to break its rule for its command.
fn expect_broken(commands: &[&str], mistakes: &[(&str, &str, &str)]) {
    std::thread::scope(|scope| {
        for (wrong, command, rule) in mistakes {
            scope.spawn(move || {
                let family = rule.get(4..6).and_then(|number| number.parse().ok());
                let check = family.map_or(CheckId::Advisory, CheckId::Number);
                let report = lint_by(&[check], wrong, commands, "sandbox: true", OBSERVE);
                let findings = found(&report);
                let hit = findings
                    .iter()
                    .any(|f| f.command == *command && f.rule == *rule);
                assert!(
                    hit,
                    "{wrong}: {rule} of {command} is not in {:#?}",
                    describe(&findings)
                );
            });
        }
    });
}

fn verdict(report: &Report, command: &str, rule: &str) -> Option<Verdict> {
    let rows: Vec<&Finding> = report
        .checks
        .iter()
        .filter(|f| f.command == command && f.rule == rule)
        .collect();
    assert!(rows.len() < 2, "duplicate rows for {rule} of {command}");
    rows.first().map(|f| f.verdict)
}

#[test]
fn continuing_after_errors_by_default_is_reported() {
    agentproto_suites::proves!("AOI-12.2-05", "AOI-12.2-06");
    for command in [IMPORT, &IMPORT.replace("mutating: true", "read_only: true")] {
        let tolerant = command
            .replace("default: fail_fast", "default: continue")
            .replace("continue: [--go-on]", "continue: []");
        for (text, expected) in [(command, Verdict::Pass), (&tolerant, Verdict::Warn)] {
            let report = lint("", &[text]);
            let verdict = verdict(&report, "import", "AOI-12.default-mode");
            assert_eq!(verdict, Some(expected), "{text}");
        }
    }
}

#[test]
fn a_conforming_tool_has_no_findings() {
    // The tool emits no progress events.
    agentproto_suites::proves!("AOI-8.3-08");
    let report = lint("", &[CREATE, DELETE, IMPORT, FIND, LOGIN, LIST]);
    let findings: Vec<&Finding> = found(&report)
        .into_iter()
        // This command has no idempotency keys, which §14.4 only recommends.
        .filter(|f| (f.command.as_str(), f.rule.as_str()) != ("import", "AOI-07.key"))
        .collect();
    assert_eq!(describe(&findings), Vec::<String>::new());
    for (command, rules) in [
        (
            "delete",
            &[
                "AOI-06.refuses",
                "AOI-06.no-effect",
                "AOI-06.prompt",
                "AOI-06.confirmed",
            ][..],
        ),
        ("create", &["AOI-06.dry-run-plan", "AOI-06.dry-run-effect"]),
        (
            "login",
            &[
                "AOI-06.interactive-required",
                "AOI-06.browser",
                "AOI-06.prompt",
            ],
        ),
        (
            "create",
            &[
                "AOI-07.replay",
                "AOI-07.replay-effect",
                "AOI-07.other-key",
                "AOI-07.key-conflict",
            ],
        ),
        (
            "delete",
            &[
                "AOI-07.replay",
                "AOI-07.replay-effect",
                "AOI-07.without-key",
            ],
        ),
        (
            "create",
            &[
                "AOI-08.id",
                "AOI-08.id-found",
                "AOI-08.count",
                "AOI-08.id-usable",
            ],
        ),
        (
            "delete",
            &["AOI-08.id-target", "AOI-08.id-found", "AOI-08.count"],
        ),
        (
            "find",
            &[
                "AOI-11.limit",
                "AOI-11.truncated",
                "AOI-11.cursor-walk",
                "AOI-11.streams",
            ],
        ),
        (
            "import",
            &[
                "AOI-12.fail-fast",
                "AOI-12.before-bad-line",
                "AOI-12.goes-on",
                "AOI-12.bom",
            ],
        ),
        (
            "list",
            &["AOI-adv.read-only-changes", "AOI-adv.read-only-strays"],
        ),
    ] {
        for rule in rules {
            let seen = verdict(&report, command, rule);
            assert_eq!(seen, Some(Verdict::Pass), "{rule} of {command}");
        }
    }
}

#[test]
fn changes_need_permission_and_unobserved_effects_are_not_verified() {
    let report = lint_with("", &[CREATE, DELETE, IMPORT], "sandbox: false", OBSERVE);
    for (command, rule) in [
        ("delete", "AOI-06.refuses"),
        ("create", "AOI-07.replay"),
        ("create", "AOI-08.id"),
        ("import", "AOI-12.fail-fast"),
    ] {
        assert_eq!(
            verdict(&report, command, rule),
            Some(Verdict::Skip),
            "{rule}"
        );
    }
    let report = lint_with("", &[CREATE, DELETE], "sandbox: true", "");
    for (command, rule) in [
        ("delete", "AOI-06.no-effect"),
        ("create", "AOI-07.replay-effect"),
        ("create", "AOI-08.id-found"),
    ] {
        assert_eq!(
            verdict(&report, command, rule),
            Some(Verdict::NotVerified),
            "{rule}"
        );
    }
    assert_eq!(
        verdict(&report, "delete", "AOI-06.refuses"),
        Some(Verdict::Pass)
    );
}

#[test]
fn effects_are_observed_with_a_directory_or_a_program() {
    for observe in [
        "observe: { dir: \"{world}/state/notes\" }",
        "observe: { exec: [sh, -c, \"ls {world}/state/notes\"] }",
    ] {
        let report = lint_with("", &[CREATE, DELETE], "sandbox: true", observe);
        assert_eq!(describe(&found(&report)), Vec::<String>::new(), "{observe}");
        for rule in [
            "AOI-06.no-effect",
            "AOI-07.replay-effect",
            "AOI-08.id-found",
        ] {
            assert_eq!(
                verdict(&report, "delete", rule),
                Some(Verdict::Pass),
                "{observe}: {rule}"
            );
        }
        let report = lint_with("too-late", &[CREATE, DELETE], "sandbox: true", observe);
        assert_eq!(
            verdict(&report, "delete", "AOI-06.no-effect"),
            Some(Verdict::Fail)
        );
    }
}

#[test]
fn setup_and_teardown_run_around_every_change() {
    let setup = "sandbox: true\nsetup: [[sh, -c, \"mkdir -p $NOTES; echo x > $NOTES/seeded.note\"]]\nteardown: [[sh, -c, \"test -f $NOTES/seeded.note\"]]";
    let report = lint_with("", &[CREATE], setup, OBSERVE);
    assert_eq!(describe(&found(&report)), Vec::<String>::new());
    // The `setup` succeeds for reading commands and fails for mutating ones.
    let once = "sandbox: true\nsetup: [[sh, -c, \"case $NOTES in *common*) ;; *) echo gone >&2; exit 3 ;; esac\"]]";
    let report = lint_with("", &[CREATE], once, OBSERVE);
    assert_eq!(
        verdict(&report, "create", "AOI-08.id"),
        Some(Verdict::NotVerified)
    );
    let report = lint_with(
        "",
        &[CREATE],
        "sandbox: true\nteardown: [[sh, -c, \"exit 3\"]]",
        OBSERVE,
    );
    assert!(report.summary.error > 0);
    assert_eq!(verdict(&report, "create", "AOI-08.id"), Some(Verdict::Pass));
}

#[test]
fn unsafe_commands_are_found() {
    expect_broken(
        &[CREATE, DELETE],
        &[
            ("too-late", "delete", "AOI-06.no-effect"),
            ("piped", "delete", "AOI-06.piped-yes"),
            ("ci", "delete", "AOI-06.environment"),
            ("asks", "delete", "AOI-06.prompt"),
            ("lies", "delete", "AOI-06.confirmed"),
            ("no-plan", "create", "AOI-06.dry-run-plan"),
            ("dry-run-acts", "create", "AOI-06.dry-run-effect"),
        ],
    );
    expect_broken(
        &[LOGIN],
        &[
            ("browser", "login", "AOI-06.browser"),
            ("prose", "login", "AOI-06.interactive-required"),
            ("waits", "login", "AOI-06.prompt"),
        ],
    );
    expect_broken(
        &[LIST],
        &[("list-writes", "list", "AOI-adv.read-only-changes")],
    );
}

#[test]
fn wrong_keys_and_ids_are_found() {
    expect_broken(
        &[CREATE],
        &[
            ("key-ignored", "create", "AOI-07.replay-effect"),
            ("new-id", "create", "AOI-07.replay-result"),
            ("no-keys", "create", "AOI-07.key"),
            ("no-id", "create", "AOI-08.id"),
            ("other-id", "create", "AOI-08.id-found"),
            ("no-event", "create", "AOI-08.event"),
            ("race", "create", "AOI-adv.idempotent-race"),
        ],
    );
}

#[test]
fn wrong_limits_and_cursors_are_found() {
    expect_broken(
        &[FIND],
        &[
            ("one-more", "find", "AOI-11.limit"),
            ("no-word", "find", "AOI-11.truncated"),
            ("skips", "find", "AOI-11.cursor-walk"),
            ("any-cursor", "find", "AOI-11.bad-cursor"),
            ("odd-limit", "find", "AOI-11.odd-limit"),
            ("buffered", "find", "AOI-11.streams"),
        ],
    );
}

#[test]
fn undeclared_handling_of_bad_lines_is_found() {
    expect_broken(
        &[IMPORT],
        &[
            ("silent", "import", "AOI-12.silent-skip"),
            ("line-from-zero", "import", "AOI-12.line-number"),
            ("stops-late", "import", "AOI-12.after-bad-line"),
            ("one-only", "import", "AOI-12.goes-on"),
        ],
    );
}

/// Check 9 tests mutating commands only where the probe file allows changes.
#[test]
fn secrets_in_mutating_commands_need_permission() {
    let of = |sandbox: &str, create: &str| {
        let report = lint_by(&[CheckId::Number(9)], "", &[create], sandbox, OBSERVE);
        let mut rows = report.checks.into_iter();
        let row = rows.find(|row| row.rule == "AOI-09.flag-value" && row.command == "create");
        row.expect("a row").verdict
    };
    assert_eq!(of("sandbox: true", CREATE), Verdict::Pass);
    assert_eq!(of("sandbox: false", CREATE), Verdict::Skip);
    // A command that always fails cannot show whether it leaks a secret.
    let failing = CREATE.replace("ok: [create", "ok: [no-such-command");
    assert_ne!(failing, CREATE);
    assert_eq!(of("sandbox: true", &failing), Verdict::NotVerified);
}
