//! Sample reports to render: a realistic one, and one in which every text is an attack.

use agentproto_harness::model::{
    CaseResult, Evidence, Level, Profile, Report, SCHEMA, SuiteInfo, Summary, Target, Timing, Tool,
    Verdict,
};
use serde_json::{Value, json};

pub const SECTIONS: [(&str, &str, usize); 8] = [
    ("TR", "Transport and JSON-RPC", 22),
    ("IN", "Initialization", 18),
    ("AU", "Authentication", 10),
    ("SE", "Sessions", 34),
    ("PT", "Prompt turn and cancellation", 24),
    ("UP", "Updates, tools and permission", 32),
    ("CL", "Client services", 16),
    ("EX", "Extensibility", 6),
];

pub fn evidence(direction: &str, line: u64, text: &str) -> Evidence {
    Evidence {
        direction: direction.to_owned(),
        line,
        text: text.to_owned(),
        pointer: None,
        mark: None,
        at_ms: 12.5 * line as f64,
    }
}

pub fn row(case: &str, id: &str, section: &str, level: Level, verdict: Verdict) -> CaseResult {
    CaseResult {
        suite: "acp".to_owned(),
        case: case.to_owned(),
        requirement: id.to_owned(),
        level,
        verdict,
        message: String::new(),
        source: "ACP v1, overview".to_owned(),
        section: section.to_owned(),
        statement: format!("The agent conforms to {id}"),
        hint: None,
        evidence: Vec::new(),
        duration_ms: 3.25,
        transcript: None,
        known: false,
        follows: None,
        profile: Profile::Core,
        basis: None,
        strict_verdict: None,
    }
}

/// Every verdict, with texts like those of the harness.
fn rows_with_texts() -> Vec<CaseResult> {
    let [transport, initialization, .., client, _] = SECTIONS.map(|s| s.1);
    let (sessions, turn, updates) = (SECTIONS[3].1, SECTIONS[4].1, SECTIONS[5].1);
    vec![
        CaseResult {
            statement: "The id of a response equals that of its request, with the same JSON type"
                .to_owned(),
            message: "the request had the id 7, the response \"7\"".to_owned(),
            hint: Some("Keep the id as the JSON value that came in; do not turn it into a string".to_owned()),
            evidence: vec![
                evidence("to-agent", 11, r#"{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/tmp/w","mcpServers":[]}}"#),
                evidence("from-agent", 12, r#"{"jsonrpc":"2.0","id":"7","result":{"sessionId":"s-日本-🦀"}}"#),
            ],
            transcript: Some("transcripts/request-ids.jsonl".to_owned()),
            ..row("request-ids", "TR-08", transport, Level::Must, Verdict::Fail)
        },
        CaseResult {
            statement: "Standard output carries protocol messages and nothing else".to_owned(),
            message: "line 3 of stdout is not JSON".to_owned(),
            hint: Some("Write logs to standard error".to_owned()),
            evidence: vec![evidence("from-agent", 3, "\u{1b}[32mINFO\u{1b}[0m ready on stdio"),
                evidence("stderr", 4, "panic: unexpected \u{202e}txet"),
                evidence("process", 5, "exited with status 101")],
            source: "ACP v1, transports".to_owned(),
            known: true,
            ..row("monitor", "TR-03", transport, Level::Must, Verdict::Fail)
        },
        CaseResult {
            statement: "A turn that was cancelled is answered with the stop reason cancelled"
                .to_owned(),
            message: "the response to the prompt after `session/cancel` was `end_turn`".to_owned(),
            hint: Some("Answer the open session/prompt with stopReason cancelled once work has stopped; never with an error".to_owned()),
            source: "ACP v1, prompt-turn".to_owned(),
            evidence: vec![
                evidence("to-agent", 31, r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}"#),
                Evidence {
                    pointer: Some("/result/stopReason".to_owned()),
                    mark: Some((47, 57)),
                    ..evidence("from-agent", 34, &format!(r#"{{"jsonrpc":"2.0","id":9,"result":{{"stopReason":"end_turn","_meta":{{"note":"{}"}}}}}}"#, "long ".repeat(180)))
                },
            ],
            transcript: Some("transcripts/cancel in turn.jsonl".to_owned()),
            duration_ms: 1204.0,
            ..row("cancel-in-turn", "PT-11", turn, Level::Must, Verdict::Fail)
        },
        CaseResult {
            statement: "agentInfo names the agent and its version".to_owned(),
            message: "the response to `initialize` has no `agentInfo`".to_owned(),
            hint: Some("Add agentInfo with name and version".to_owned()),
            source: "ACP v1, initialization".to_owned(),
            evidence: vec![evidence("from-agent", 2, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#)],
            ..row("initialize", "IN-09", initialization, Level::Should, Verdict::Warn)
        },
        CaseResult {
            message: "a prompt is missing: add `permission` to the --prompts file".to_owned(),
            ..row("permission-selected", "UP-14", updates, Level::Must, Verdict::Skip)
        },
        CaseResult {
            message: "a prompt is missing: add `permission` to the --prompts file".to_owned(),
            ..row("permission-cancelled", "UP-15", updates, Level::Must, Verdict::Skip)
        },
        CaseResult {
            message: "a prompt is missing: add `terminal` to the --prompts file".to_owned(),
            ..row("terminal-release", "CL-09", client, Level::Must, Verdict::Skip)
        },
        CaseResult {
            message: "the agent does not announce `loadSession`".to_owned(),
            ..row("load-replays", "SE-12", sessions, Level::Must, Verdict::NotApplicable)
        },
        CaseResult {
            message: "no plan was sent".to_owned(),
            ..row("monitor", "UP-20", updates, Level::Must, Verdict::NotVerified)
        },
        CaseResult {
            message: "the case timed out before its first request".to_owned(),
            ..row("many-sessions", "SE-30", sessions, Level::Must, Verdict::Error)
        },
    ]
}

/// A report with 300 rows. The rows with texts come first in their sections.
pub fn vendor() -> Report {
    let special_rows = rows_with_texts();
    let mut results = Vec::new();
    for (prefix, section, count) in SECTIONS {
        for n in 1..=count {
            let id = format!("{prefix}-{n:02}");
            let special = special_rows.iter().filter(|r| r.requirement == id);
            let before = results.len();
            results.extend(special.cloned());
            if results.len() == before {
                let level = match n % 5 {
                    0 => Level::Should,
                    4 => Level::Info,
                    _ => Level::Must,
                };
                results.push(CaseResult {
                    message: "as expected".to_owned(),
                    ..row("walk-through", &id, section, level, Verdict::Pass)
                });
            }
        }
    }
    let missing = 300 - results.len();
    for n in 0..missing {
        let (prefix, section, count) = SECTIONS[n % SECTIONS.len()];
        let id = format!("{prefix}-{:02}", n % count + 1);
        results.push(CaseResult {
            message: "also seen in a second case".to_owned(),
            ..row(
                &format!("second-look-{n:03}"),
                &id,
                section,
                Level::Must,
                Verdict::Pass,
            )
        });
    }
    let mut report = Report { results, ..empty() };
    agentproto_harness::render::arrange(&mut report);
    report.summarize();
    report
}

pub fn empty() -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        tool: Tool {
            name: "agentproto".to_owned(),
            version: "0.1.0".to_owned(),
        },
        target: Target {
            kind: "command".to_owned(),
            name: "hermes acp --stdio".to_owned(),
            command: ["hermes", "acp", "--stdio"].map(str::to_owned).to_vec(),
            info: json!({ "name": "hermes", "title": "Hermes", "version": "2.3.1" }),
            protocol_version: json!(1),
            capabilities: json!({ "promptCapabilities": { "image": true } }),
        },
        suites: vec![SuiteInfo {
            name: "acp".to_owned(),
            title: "Agent Client Protocol v1".to_owned(),
            requirements: 162,
            cases: 94,
        }],
        results: Vec::new(),
        summary: Summary::default(),
        timing: Timing {
            wall_ms: 4210.0,
            startup_ms: 1900.5,
            waits_ms: 800.0,
            agent_ms: 3600.0,
            processes: 41,
            jobs: 2,
            repeated: 0,
        },
        started: 1_794_833_100,
        partial: false,
        needs_login: None,
        never_answered: None,
        not_started: None,
        selection: false,
        shard: None,
        profile: Profile::Strict,
        tck: Vec::new(),
    }
}

/// A report without failures.
pub fn clean() -> Report {
    let mut report = vendor();
    report.results.retain(|r| r.verdict == Verdict::Pass);
    report.summarize();
    report
}

pub const ATTACKS: [&str; 7] = [
    "</script><img src=x onerror=alert(1)>",
    "</style><script>alert(1)</script>",
    "\"><svg onload=alert(1)>'`${7*7}",
    "]]><!--<![CDATA[&lt;&#60;",
    "\u{1b}[31m\u{1b}]8;;https://evil.example\u{7}\u{202e}\u{0}\u{9b}2J\u{feff}",
    "`````\n# heading\n| a | b |\n[x](javascript:alert(1)) ![y](https://evil.example/p.png) @octocat #12 <b>",
    "https://evil.example/x.js www.evil.example \u{d7ff}\u{fffe} 日本語 🦀",
];

/// A report in which every text field is an attack.
pub fn hostile(attack: &str) -> Report {
    let text = || attack.to_owned();
    let mut report = Report {
        tool: Tool {
            name: text(),
            version: text(),
        },
        target: Target {
            kind: text(),
            name: text(),
            command: vec![text(), text()],
            info: json!({ "name": attack, "title": attack, "version": attack }),
            protocol_version: Value::String(text()),
            capabilities: json!({ attack: [attack] }),
        },
        suites: vec![SuiteInfo {
            name: text(),
            title: text(),
            requirements: usize::MAX,
            cases: 0,
        }],
        timing: Timing {
            wall_ms: 1e300,
            startup_ms: -1.0,
            ..Timing::default()
        },
        started: u64::MAX,
        shard: Some(text()),
        ..empty()
    };
    for verdict in Verdict::ALL {
        report.results.push(CaseResult {
            suite: text(),
            case: text(),
            requirement: text(),
            message: text(),
            source: text(),
            section: text(),
            statement: text(),
            hint: Some(text()),
            evidence: vec![
                evidence(attack, u64::MAX, attack),
                evidence("from-agent", 0, attack),
                evidence("to-agent", 3, &format!("{{\"a\":\"{attack}\"}}")),
            ],
            duration_ms: -1e300,
            transcript: Some(text()),
            ..row(attack, attack, attack, Level::Must, verdict)
        });
    }
    report.summarize();
    report.summary.reason = Some(text());
    report
}
