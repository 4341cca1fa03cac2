//! Sample reports to render.

use std::collections::BTreeMap;

use agentproto_aoi::model::{
    Assertion, CheckId, Finding, Report, SCHEMA, TOOL, Timing, Tool, ToolUnderTest, Verdict,
    characteristics, matrix, summary,
};
use agentproto_report::words::verdict_name;
use serde_json::json;

/// Text that a hostile tool may print or have as its name.
pub const ATTACKS: [&str; 8] = [
    "\u{1b}[31mred\u{1b}]0;title\u{7}",
    "</text><script>alert(1)</script>",
    "]]>&<!-- -->",
    "`a`` ``` | [x](javascript:y) @me #1",
    "\u{202e}\u{2066}\u{feff}\0",
    "a\nb\r\nc\u{2028}d",
    "'; rm -rf / #",
    "💥\u{e0041}",
];

pub fn row(rule: &str, check: CheckId, command: &str, verdict: Verdict, message: &str) -> Finding {
    let mut row = Finding {
        check,
        rule: rule.to_owned(),
        command: command.to_owned(),
        characteristics: characteristics(check).to_vec(),
        verdict,
        section: "§4".to_owned(),
        message: message.to_owned(),
        repro: Vec::new(),
        evidence: serde_json::Map::new(),
        known: false,
    };
    if matches!(verdict, Verdict::Fail | Verdict::Warn) {
        row.repro = ["/usr/bin/outline", "search", "a b", "--output", "jsonl"]
            .map(str::to_owned)
            .to_vec();
        let evidence = json!({
            "probe": "ok",
            "env": ["OUTLINE_STATE"],
            "end": "exit 0",
            "stdout": "{\"type\":\"hit\"}\nmore\n",
            "stdout_bytes": 20,
            "stderr": "",
            "elapsed_ms": 12,
        });
        row.evidence = evidence.as_object().expect("a mapping").clone();
    }
    row
}

pub fn of(checks: Vec<Finding>) -> Report {
    let commands = ["delete", "search"].map(str::to_owned);
    let matrix = matrix(&checks, &commands);
    Report {
        schema: SCHEMA.to_owned(),
        tool: Tool {
            name: "agentproto".to_owned(),
            version: "0.1.0".to_owned(),
        },
        target: ToolUnderTest {
            name: "outline".to_owned(),
            version: Some("1.8.2".to_owned()),
            argv: vec!["./outline".to_owned()],
            probe_file: Some("./aoi probe.yaml".to_owned()),
            lines: BTreeMap::from([("search".to_owned(), 15), ("delete".to_owned(), 22)]),
        },
        summary: summary(&checks, &matrix),
        matrix,
        checks,
        timing: Timing {
            wall_ms: 8200,
            target_ms: 21_000,
            waits_ms: 5200,
            busy_ms: 7800,
            runs: 143,
            jobs: 4,
        },
        isolation: vec!["no network but an own loopback".to_owned()],
        partial: false,
        started: 1_794_833_100,
        compat: Vec::new(),
    }
}

/// A report with every verdict at least once.
pub fn mixed() -> Report {
    use Verdict::{Error, Fail, NotApplicable, NotVerified, Pass, Skip, Warn};
    let mut known = row(
        "AOI-02.type",
        CheckId::Number(2),
        "delete",
        Fail,
        "line 1: an event without a type",
    );
    known.known = true;
    let mut report = of(vec![
        row(
            "AOI-01.schema",
            CheckId::Number(1),
            TOOL,
            Pass,
            "a JSON Schema",
        ),
        row(
            "AOI-02.object",
            CheckId::Number(2),
            "search",
            Pass,
            "12 lines in 3 runs",
        ),
        known,
        row(
            "AOI-03.summary-last",
            CheckId::Number(3),
            "search",
            Fail,
            "there is no aoi:summary",
        ),
        row(
            "AOI-03.ok",
            CheckId::Number(3),
            "search",
            NotVerified,
            "the run has no aoi:summary",
        ),
        row(
            "AOI-06.refuses",
            CheckId::Number(6),
            "delete",
            Skip,
            "the probe file does not have `sandbox: true`",
        ),
        row(
            "AOI-07.key",
            CheckId::Number(7),
            "search",
            NotApplicable,
            "the command changes nothing",
        ),
        row(
            "AOI-10.pipe",
            CheckId::Number(10),
            "search",
            Error,
            "the linter ran out of descriptors",
        ),
        row(
            "AOI-adv.help",
            CheckId::Advisory,
            TOOL,
            Warn,
            "--help exits 1",
        ),
    ]);
    report.compat = vec![Assertion {
        name: "valid_jsonl".to_owned(),
        command: "search".to_owned(),
        ok: false,
        detail: "line 1 is not a JSON object".to_owned(),
    }];
    report
}

pub fn proven() -> Report {
    of(vec![
        row(
            "AOI-02.object",
            CheckId::Number(2),
            "search",
            Verdict::Pass,
            "12 lines",
        ),
        row(
            "AOI-03.ok",
            CheckId::Number(3),
            "search",
            Verdict::Pass,
            "ok is true",
        ),
    ])
}

pub fn hostile(attack: &str) -> Report {
    let mut report = mixed();
    report.target.name = attack.to_owned();
    report.target.version = Some(attack.to_owned());
    report.target.probe_file = Some(attack.to_owned());
    report.isolation = vec![attack.to_owned()];
    for row in &mut report.checks {
        row.message = format!("{} {attack}", verdict_name(row.verdict));
        row.command = format!("search{attack}");
        row.repro = vec![attack.to_owned()];
        row.evidence =
            json!({ "end": attack, "stdout": attack, "stderr": attack, "env": [attack] })
                .as_object()
                .expect("a mapping")
                .clone();
    }
    report.matrix = matrix(&report.checks, &[]);
    report
}
