//! Checks 1, 4 and 13 of AOI-CLI on a small tool that conforms or has one defect at a time, and the
//! isolation in which discovery runs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agentproto_aoi::isolation::{self, IsolationKind, IsolationNeeds};
use agentproto_aoi::model::{CheckId, Finding, Report, Verdict};
use agentproto_aoi::probe::{Credentials, ProbeCommand, ProbeSpec, SchemaVersions};
use agentproto_aoi::session::LintOptions;
use agentproto_sandbox::helper;
use futures::future::join_all;

static STOP: AtomicBool = AtomicBool::new(false);

fn helper() {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
}

struct Place(tempfile::TempDir);

impl Place {
    /// A directory with a file that represents a credential.
    fn new() -> Place {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(place.path().join("secrets")).expect("made");
        std::fs::write(place.path().join("secrets/token"), "x").expect("written");
        Place(place)
    }

    fn secret(&self) -> PathBuf {
        self.0.path().join("secrets")
    }
}

fn probe(how: &str, place: &Place) -> ProbeSpec {
    let tool = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/judges/aoi_discovery/tool.sh"
    );
    let secrets = place.secret().to_string_lossy().into_owned();
    ProbeSpec {
        tool: vec![tool.to_owned(), how.to_owned(), format!("{secrets}/token")],
        machine_args: vec!["--output".to_owned(), "jsonl".to_owned()],
        credentials: Credentials {
            env: Vec::new(),
            files: vec![secrets],
        },
        commands: vec![ProbeCommand {
            name: "search".to_owned(),
            ok: vec!["search".to_owned(), "x".to_owned()],
            ..ProbeCommand::default()
        }],
        schema: SchemaVersions {
            flag: Some("--schema-version".to_owned()),
            accept_flag: Some("--accept-schema".to_owned()),
            ok: vec!["1".to_owned(), "2".to_owned()],
            unsupported: Some("9999".to_owned()),
        },
        ..ProbeSpec::default()
    }
}

async fn lint(how: &str) -> Report {
    helper();
    let place = Place::new();
    let options = LintOptions {
        discovery_limit: Duration::from_secs(60),
        limit: Duration::from_secs(60),
        ..LintOptions::default()
    };
    agentproto_aoi::lint(probe(how, &place), options, &STOP)
        .await
        .expect("a report")
}

fn is_ours(finding: &&Finding) -> bool {
    [1, 4, 13].map(CheckId::Number).contains(&finding.check)
}

/// Whether this line reports that something could not be isolated on this machine.
fn is_open(line: &str) -> bool {
    let words = ["not isolated: ", ": not hidden", ": not tested"];
    words.iter().any(|word| line.contains(word))
}

fn describe(findings: &[&Finding]) -> String {
    let line = |f: &&Finding| format!("{} {} {:?}: {}\n", f.command, f.rule, f.verdict, f.message);
    findings.iter().map(line).collect()
}

/// AOI-3-01, AOI-18.2-01, AOI-18.2-04, AOI-18.2-13.
#[tokio::test(flavor = "multi_thread")]
async fn a_conforming_tool_passes() {
    let report = lint("good").await;
    let ours: Vec<&Finding> = report.checks.iter().filter(is_ours).collect();
    let open: Vec<&Finding> = ours
        .iter()
        .filter(|f| !matches!(f.verdict, Verdict::Pass | Verdict::NotApplicable))
        .copied()
        .collect();
    // Without isolation, only the rules that depend on it may be unverified.
    let walled = !report.isolation.iter().any(|line| is_open(line));
    let allowed = |f: &&Finding| f.rule.ends_with("-network") || f.rule.ends_with("-credentials");
    let excused = !walled && open.iter().all(allowed);
    assert!(
        open.is_empty() || excused,
        "{}\n{:?}",
        describe(&open),
        report.isolation
    );
    let mut rows: Vec<(&str, &str)> = ours.iter().map(|f| (&*f.command, &*f.rule)).collect();
    rows.sort_unstable();
    let before = rows.len();
    rows.dedup();
    assert_eq!(before, rows.len(), "duplicate row for a rule and a command");
    assert!(before > 40, "{}", describe(&ours));
}

/// Each defect, and the rule and verdict that must report it.
const WRONG: &[(&str, &str, Verdict)] = &[
    ("schema-exit", "AOI-01.schema-fails", Verdict::Fail),
    ("schema-login", "AOI-01.schema-credentials", Verdict::Fail),
    ("schema-prose", "AOI-01.schema-not-json", Verdict::Fail),
    ("schema-stream", "AOI-01.schema-is-stream", Verdict::Fail),
    ("schema-colors", "AOI-01.schema-ansi", Verdict::Fail),
    ("schema-invalid", "AOI-01.schema-invalid", Verdict::Fail),
    ("schema-dangling", "AOI-01.schema-reference", Verdict::Fail),
    (
        "schema-remote",
        "AOI-01.schema-remote-reference",
        Verdict::Fail,
    ),
    ("schema-file-id", "AOI-01.schema-file-id", Verdict::Fail),
    ("schema-elsewhere", "AOI-01.schema-unstable", Verdict::Fail),
    (
        "schema-new-each-time",
        "AOI-01.schema-unstable",
        Verdict::NotVerified,
    ),
    ("schema-map", "AOI-01.schema-map", Verdict::Warn),
    (
        "schema-unknown-dialect",
        "AOI-01.schema-invalid",
        Verdict::NotVerified,
    ),
    ("flag-differs", "AOI-01.schema-forms-differ", Verdict::Fail),
    ("flag-only", "AOI-01.schema-name", Verdict::Warn),
    (
        "capabilities-exit",
        "AOI-01.capabilities-fails",
        Verdict::Fail,
    ),
    (
        "capabilities-prose",
        "AOI-01.capabilities-not-json",
        Verdict::Fail,
    ),
    (
        "capabilities-list",
        "AOI-01.capabilities-not-object",
        Verdict::Fail,
    ),
    (
        "capabilities-odd",
        "AOI-01.capabilities-shape",
        Verdict::Warn,
    ),
    ("meta-tool-number", "AOI-04.meta", Verdict::Fail),
    ("meta-tool-number", "AOI-04.framework", Verdict::Fail),
    ("summary-ok-text", "AOI-04.summary", Verdict::Fail),
    ("undeclared-type", "AOI-04.undeclared-type", Verdict::Fail),
    ("unlisted", "AOI-04.unlisted-type", Verdict::Warn),
    ("domain", "AOI-04.domain", Verdict::Warn),
    ("schema-vacuous", "AOI-04.vacuous", Verdict::Warn),
    ("schema-vacuous", "AOI-04.summary", Verdict::NotVerified),
    ("schema-invalid", "AOI-04.summary", Verdict::Skip),
    ("version-missing", "AOI-13.version-missing", Verdict::Fail),
    ("version-number", "AOI-13.version-type", Verdict::Fail),
    ("version-short", "AOI-13.version-form", Verdict::Fail),
    (
        "version-unknown",
        "AOI-13.version-undeclared",
        Verdict::Fail,
    ),
    ("default-differs", "AOI-13.default-differs", Verdict::Fail),
    ("conflated", "AOI-13.conflated", Verdict::Warn),
    ("flag-ignored", "AOI-13.not-honoured", Verdict::Fail),
    ("declared-not-offered", "AOI-13.not-honoured", Verdict::Fail),
    ("only-said", "AOI-13.events-differ", Verdict::Fail),
    (
        "unsupported-served",
        "AOI-13.unsupported-served",
        Verdict::Fail,
    ),
    ("unsupported-exit", "AOI-13.unsupported-exit", Verdict::Fail),
    (
        "unsupported-mute",
        "AOI-13.unsupported-unstructured",
        Verdict::Fail,
    ),
    (
        "unsupported-late",
        "AOI-13.unsupported-after-data",
        Verdict::Fail,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_defect_is_found() {
    let mut hows: Vec<&str> = WRONG.iter().map(|(how, ..)| *how).collect();
    hows.dedup();
    let mut reports = std::collections::BTreeMap::new();
    for some in hows.chunks(4) {
        let done = join_all(some.iter().map(|how| lint(how))).await;
        reports.extend(some.iter().copied().zip(done));
    }
    let mut missed = String::new();
    for (how, rule, verdict) in WRONG {
        let report = &reports[how];
        let rows: Vec<&Finding> = report.checks.iter().filter(|f| f.rule == *rule).collect();
        if rows.len() != 1 || rows[0].verdict != *verdict {
            missed += &format!("{how}: {rule} is not {verdict:?}:\n{}", describe(&rows));
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

/// AOI-2: prose on stderr before the stream starts is allowed, and `capabilities` is optional.
#[tokio::test(flavor = "multi_thread")]
async fn allowed_behavior_is_not_a_defect() {
    for how in ["unsupported-prose", "no-capabilities"] {
        let report = lint(how).await;
        let bad = |f: &&Finding| is_ours(f) && matches!(f.verdict, Verdict::Fail | Verdict::Warn);
        let bad: Vec<&Finding> = report.checks.iter().filter(bad).collect();
        assert!(bad.is_empty(), "{how}: {}", describe(&bad));
    }
}

/// AOI-3.2-04: a credential file is hidden, and a tool that needs it is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_file_is_hidden() {
    let report = lint("schema-file").await;
    if report
        .isolation
        .iter()
        .any(|line| line.starts_with("not isolated") || line.contains("not hidden"))
    {
        return;
    }
    let bad = |f: &&Finding| f.check == CheckId::Number(1) && f.verdict == Verdict::Fail;
    let bad: Vec<&Finding> = report.checks.iter().filter(bad).collect();
    assert_eq!(bad.len(), 1, "{}", describe(&bad));
    assert_eq!(bad[0].rule, "AOI-01.schema-credentials");
    assert!(
        bad[0].message.contains("it works without a network"),
        "{}",
        bad[0].message
    );
}

/// Every available kind of isolation blocks the network. A filter cannot hide files.
#[tokio::test(flavor = "multi_thread")]
async fn isolation_works_or_reports_why_not() {
    helper();
    let place = Place::new();
    let credentials = [place.secret().to_string_lossy().into_owned()];
    let needs = IsolationNeeds {
        argv: &[],
        credentials: &credentials,
    };
    let mut proven = 0;
    for kind in [
        IsolationKind::Native,
        IsolationKind::Bubblewrap,
        IsolationKind::Filter,
    ] {
        let root = place.0.path().join(format!("{kind:?}"));
        match isolation::test_kind(kind, &needs, &root).await {
            Ok(isolation) => {
                proven += 1;
                assert_eq!(isolation.no_network_isolation, None);
                assert_eq!(isolation.no_socket_isolation, None, "{kind:?}");
                let hidden = isolation.no_credential_isolation.is_none();
                assert_eq!(
                    hidden,
                    kind != IsolationKind::Filter,
                    "{kind:?}: {:?}",
                    isolation.description
                );
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
    assert!(proven > 0, "not even a filter works");
}
