//! AOI checks against a small shell tool that conforms, or has exactly one defect.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agentproto_aoi::model::{CheckId, Report, Verdict};
use agentproto_aoi::probe::{self, ProbeSpec};
use agentproto_aoi::run::{self, ReadMode, RunDirs, RunSpec, RunStats, StdinSource, StdoutTarget};
use agentproto_aoi::session::LintOptions;
use agentproto_sandbox::helper;
use futures::StreamExt;

static STOP: AtomicBool = AtomicBool::new(false);
static HELPER: Once = Once::new();

const PROBE: &str = r#"
aoi_probe: 1
tool: [./tool.sh]
env: {MODE: "MODE_HERE"}
credentials: {env: [TOOL_SECRET], files: ["~/.config/tool/token"]}
commands:
  search:
    ok: [search, x]
    malformed: [[search]]
    slow: [search, x, --delay, "1"]
    secrets: [[--token, "{canary}"]]
"#;
const WATCH: &str = "  watch: {unbounded: true, ok: [watch]}\n";

fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/aoi_checks")
}

fn probe(mode: &str, watches: bool) -> ProbeSpec {
    let mut text = PROBE.replace("MODE_HERE", mode);
    if watches {
        text.push_str(WATCH);
    }
    let mut probe = probe::parse(&text, &place()).expect("a probe file");
    probe.file = Some(place().join("aoi-probe.yaml"));
    probe
}

fn use_helper() {
    HELPER.call_once(|| helper::use_binary(env!("CARGO_BIN_EXE_agentproto")));
}

/// Lints the tool with one defect (or none) with the given checks.
async fn lint(mode: &str, checks: &[u8]) -> Report {
    use_helper();
    let options = LintOptions {
        only: checks.iter().copied().map(CheckId::Number).collect(),
        ..LintOptions::default()
    };
    agentproto_aoi::lint(probe(mode, checks.contains(&10)), options, &STOP)
        .await
        .expect("a report")
}

fn broken_rules(report: &Report) -> BTreeSet<&str> {
    let checks = report.checks.iter();
    checks
        .filter(|one| matches!(one.verdict, Verdict::Fail | Verdict::Warn))
        .map(|one| one.rule.as_str())
        .collect()
}

/// Runs each mode and expects its rule among the broken ones.
async fn expect_broken(check: u8, cases: &[(&'static str, &'static str)]) {
    let runs = cases.iter().map(|(mode, rule)| async move {
        let report = lint(mode, &[check]).await;
        let broken = broken_rules(&report);
        let found = broken.contains(rule);
        (!found).then(|| format!("{mode}: {rule} is not in {broken:?}"))
    });
    let missed: Vec<Option<String>> = futures::stream::iter(runs).buffered(6).collect().await;
    let missed: Vec<String> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

fn describe(report: &Report) -> Vec<String> {
    let odd = |verdict| !matches!(verdict, Verdict::Pass | Verdict::NotApplicable);
    let odd = report.checks.iter().filter(|one| odd(one.verdict));
    odd.map(|one| {
        format!(
            "{} {} {:?}: {}",
            one.rule, one.command, one.verdict, one.message
        )
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conforming_tool_passes() {
    for mode in ["", "quiet-refusal"] {
        let report = lint(mode, &[2, 3, 5, 9, 10]).await;
        let odd = describe(&report);
        assert!(odd.is_empty(), "{mode}: {odd:#?}");
        let mut rows = BTreeSet::new();
        for one in &report.checks {
            assert!(
                rows.insert((&one.rule, &one.command)),
                "duplicate row: {one:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_2_finds_its_defects() {
    expect_broken(
        2,
        &[
            ("banner", "AOI-02.prose"),
            ("prose", "AOI-02.prose"),
            ("debug-on-stdout", "AOI-02.prose"),
            ("twice", "AOI-02.strict-json"),
            ("surrogate", "AOI-02.strict-json"),
            ("no-type", "AOI-02.type"),
            ("latin1", "AOI-02.utf8"),
            ("byte-order-mark", "AOI-02.utf8"),
            ("big", "AOI-02.big-integer"),
            ("blank", "AOI-02.blank-line"),
            ("carriage-return", "AOI-02.crlf"),
            ("reserved", "AOI-02.reserved-type"),
            ("legacy", "AOI-02.legacy-unprefixed"),
            ("unknown-type", "AOI-02.unknown-framework-type"),
            ("color", "AOI-02.control"),
            ("color-forced", "AOI-02.control"),
            ("color-terminal", "AOI-02.control"),
            ("color-escaped", "AOI-02.escaped-colour"),
            ("color-in-warning", "AOI-02.escaped-colour-in-framework"),
            ("array", "AOI-02.object"),
            ("nan", "AOI-02.object"),
            ("no-line-feed", "AOI-02.last-line"),
            ("long", "AOI-02.long-line"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_legacy_dialect_is_reported_once() {
    let report = lint("legacy", &[2, 3, 5, 9, 10]).await;
    let broken: Vec<&str> = broken_rules(&report).into_iter().collect();
    assert_eq!(broken, ["AOI-02.legacy-unprefixed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_3_finds_its_defects() {
    expect_broken(
        3,
        &[
            ("no-summary", "AOI-03.summary-last"),
            ("two-summaries", "AOI-03.summary-last"),
            ("not-last", "AOI-03.summary-last"),
            ("not-ok", "AOI-03.ok-not-true"),
            ("ok-text", "AOI-03.ok-not-true"),
            ("exit-one", "AOI-03.exit-not-zero"),
            ("no-meta", "AOI-03.meta-first"),
            ("meta-late", "AOI-03.meta-first"),
            ("two-metas", "AOI-03.meta-twice"),
            ("count", "AOI-03.count"),
            ("count-all", "AOI-03.count-all-events"),
            ("error-uncounted", "AOI-03.error-count"),
            ("full-is-fine", "AOI-03.write-error-ignored"),
            ("slow-reader", "AOI-03.summary-lost"),
            ("held", "AOI-03.stdout-held"),
            ("absent-ok", "AOI-03.ok-true-on-failure"),
            ("absent-zero", "AOI-03.exit-zero-on-failure"),
            ("absent-mute", "AOI-03.failure-summary"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_5_finds_its_defects() {
    expect_broken(
        5,
        &[
            ("flag-passes", "AOI-05.unknown-flag"),
            ("refusal-exits-zero", "AOI-05.malformed"),
            ("command-passes", "AOI-05.unknown-command"),
            ("format-passes", "AOI-05.bad-value"),
            ("refusal-in-prose", "AOI-05.prose"),
            ("refusal-traced", "AOI-05.trace"),
            ("refusal-traced", "AOI-05.crash-status"),
            ("refusal-killed", "AOI-05.signal"),
            ("refusal-ok", "AOI-05.ok-true"),
            ("error-no-retryable", "AOI-05.error-fields"),
            ("error-odd-category", "AOI-05.category-unknown"),
            ("error-odd-code", "AOI-05.code-form"),
            ("error-retryable", "AOI-05.retryable-contradicts"),
            ("error-missing", "AOI-05.unstructured"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_9_finds_its_defects() {
    expect_broken(
        9,
        &[
            ("token-in-meta", "AOI-09.flag-value"),
            ("token-on-stderr", "AOI-09.flag-value"),
            ("token-base64", "AOI-09.flag-value"),
            ("refusal-quotes", "AOI-09.flag-value"),
            ("token-in-file", "AOI-09.written-file"),
            ("variables", "AOI-09.environment"),
            ("argv", "AOI-09.argv"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_contain_no_canary() {
    for mode in ["token-in-meta", "token-base64", "refusal-quotes"] {
        let report = lint(mode, &[9]).await;
        let text = serde_json::to_string(&report).expect("JSON");
        assert_eq!(agentproto_aoi::canary::masked(&text), text, "{mode}");
        assert!(text.contains("[canary]"), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_10_finds_its_defects() {
    agentproto_suites::proves!("AOI-6-14");
    expect_broken(
        10,
        &[
            ("pipe-trace", "AOI-10.pipe-trace"),
            ("pipe-message", "AOI-10.pipe-message"),
            ("pipe-exit", "AOI-10.pipe-exit"),
            ("signal-ignored", "AOI-10.signal-ignored"),
            ("signal-ignored", "AOI-10.signal-hangs"),
            ("interrupted-ok", "AOI-10.interrupted-ok-true"),
            ("interrupted-mute", "AOI-10.no-interrupted-summary"),
            ("interrupted-traced", "AOI-10.signal-trace"),
            ("interrupted-torn", "AOI-10.torn-line"),
            ("interrupted-twice", "AOI-10.interrupted-summary-last"),
            ("interrupted-reason", "AOI-10.interrupted-reason"),
            ("interrupted-zero", "AOI-10.signal-exit-zero"),
            ("interrupted-one", "AOI-10.signal-exit"),
        ],
    )
    .await;
}

/// A set of signals, parsed from the text of `/proc/PID/status`.
fn signals(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.expect("a line").trim_start_matches(':').trim();
    u64::from_str_radix(digits, 16).expect("a number")
}

/// Check 10 would be meaningless if the target inherited our ignored SIGPIPE.
#[tokio::test]
async fn a_target_starts_with_the_default_sigpipe_handler() {
    use_helper();
    let bit = 1 << (libc::SIGPIPE - 1);
    let own = std::fs::read_to_string("/proc/self/status").expect("our own status");
    assert_ne!(
        signals(&own, "SigIgn") & bit,
        0,
        "this process must ignore SIGPIPE"
    );
    let root = std::env::temp_dir().join(format!("aoi-checks-{}", std::process::id()));
    let dirs = RunDirs::new(root.clone()).expect("a world");
    let spec = RunSpec {
        command: "status".to_owned(),
        probe: "status".to_owned(),
        argv: ["/bin/cat", "/proc/self/status"].map(Into::into).to_vec(),
        env: Vec::new(),
        input: StdinSource::Null,
        output: StdoutTarget::Pipe,
        stderr_closed: false,
        reader: ReadMode::All,
        backend: None,
        limit: Duration::from_secs(30),
        is_slow: false,
        is_machine: false,
        version: None,
        canaries: false,
    };
    let capture = run::run(&spec, &dirs, &RunStats::default())
        .await
        .expect("a run");
    let _ = std::fs::remove_dir_all(root);
    let status = String::from_utf8_lossy(&capture.stdout);
    for set in ["SigIgn", "SigBlk"] {
        assert_eq!(signals(&status, set) & bit, 0, "{set}: {status}");
    }
}

/// A command that is refused for another reason says nothing about secrets.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_always_fails_is_not_verified() {
    let text = PROBE
        .replace("MODE_HERE", "")
        .replace("ok: [search, x]", "ok: [serch]");
    let options = LintOptions {
        only: vec![CheckId::Number(9)],
        ..LintOptions::default()
    };
    use_helper();
    let mut probe = probe::parse(&text, &place()).expect("a probe file");
    probe.file = Some(place().join("aoi-probe.yaml"));
    let report = agentproto_aoi::lint(probe, options, &STOP)
        .await
        .expect("a report");
    let of = |rule: &str| {
        let row = report.checks.iter().find(|row| row.rule == rule);
        row.expect("a row").verdict
    };
    assert_eq!(
        of("AOI-09.flag-value"),
        Verdict::NotVerified,
        "{:#?}",
        describe(&report)
    );
    assert_eq!(of("AOI-09.header"), Verdict::NotVerified);
}
