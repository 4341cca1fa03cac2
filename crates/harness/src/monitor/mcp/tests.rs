//! Short conversations, with the exact violations that they cause. The tests of the suite cover the
//! mutants of the mock server.

use std::time::Duration;

use super::super::tests::{describe, violations};
use super::super::{Ending, MonitorNotes, MonitorRunner};
use super::mcp;
use agentproto_wire::{Direction, Transcript};

const HELLO: &str = r#"> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"elicitation":{"url":{}}},"clientInfo":{"name":"c","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn run_monitors(lines: &[&str]) -> MonitorNotes {
    let mut transcript = Transcript::new();
    let mut monitors = MonitorRunner::new(mcp());
    for line in HELLO.lines().chain(lines.iter().copied()) {
        let direction = match line.starts_with('>') {
            true => Direction::ToAgent,
            false => Direction::FromAgent,
        };
        let bytes = line.as_bytes().get(2..).unwrap_or_default();
        let number = transcript.push(direction, Duration::ZERO, bytes, true, None);
        monitors.on_line(&transcript.line(number).expect("just written"));
    }
    monitors.finish(&Ending {
        is_orderly: true,
        last_line: transcript.last(),
    })
}

fn check(lines: &[&str], expected: &[&str]) {
    let notes = run_monitors(lines);
    assert_eq!(
        violations(&notes),
        expected,
        "{lines:?}\n{}",
        describe(&notes)
    );
}

fn passes(lines: &[&str], requirement: &str) {
    let notes = run_monitors(lines);
    assert_eq!(
        violations(&notes),
        Vec::<String>::new(),
        "{}",
        describe(&notes)
    );
    let held = notes.found.get(requirement).map_or(0, |found| found.passed);
    assert!(held > 0, "{requirement} was not confirmed in {lines:?}");
}

const PING: &str = r#"< {"jsonrpc":"2.0","id":"a","method":"ping"}"#;
const PONG: &str = r#"> {"jsonrpc":"2.0","id":"a","result":{}}"#;

#[test]
fn ids_are_used_once() {
    let other = r#"< {"jsonrpc":"2.0","id":"b","method":"ping"}"#;
    passes(&[PING, PONG, other], "MCP-BASE-03");
    check(&[PING, PONG, PING], &["MCP-BASE-03 6 4"]);
    let half = r#"< {"jsonrpc":"2.0","id":1.5,"method":"ping"}"#;
    check(&[half], &["MCP-BASE-02 4"]);
}

#[test]
fn results_are_objects() {
    let ask = r#"> {"jsonrpc":"2.0","id":2,"method":"x"}"#;
    let answer = r#"< {"jsonrpc":"2.0","id":2,"result":{}}"#;
    passes(&[ask, answer], "MCP-BASE-09");
    let odd = r#"< {"jsonrpc":"2.0","id":2,"result":null}"#;
    check(&[ask, odd], &["MCP-BASE-09 5 4"]);
}

#[test]
fn list_changed_requires_a_declared_capability() {
    let tools = r#"< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    passes(&[tools], "MCP-LIFE-08");
    let prompts = r#"< {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#;
    check(&[prompts], &["MCP-LIFE-08 4"]);
}

#[test]
fn the_server_cancels_only_its_own_requests() {
    let cancel =
        r#"< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#;
    passes(&[PING, cancel], "MCP-CANC-04");
    check(&[cancel], &["MCP-CANC-04 4"]);
}

#[test]
fn tool_lists_are_checked() {
    let ask = r#"> {"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let more = r#"> {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"c"}}"#;
    let page = |id: u64, rest: &str| {
        format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{rest}}}}}"#)
    };
    let tool = r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]"#;
    let first = page(2, &format!(r#"{tool},"nextCursor":"c""#));
    let last = page(3, &tool.replace(r#""t""#, r#""u""#));
    passes(&[ask, &first, more, &last], "MCP-PAGE-01");
    passes(&[ask, &first, more, &last], "MCP-TOOL-05");
    // The second page repeats a name of the first page.
    check(&[ask, &first, more, &page(3, tool)], &["MCP-TOOL-07 7 6"]);
    let wrong = [
        (page(2, r#"],"nextCursor":7"#), "MCP-PAGE-01 5 4"),
        (page(2, r#"{"title":"t"}]"#), "MCP-TOOL-02 5 4"),
        (
            page(2, &tool.replace(r#""t""#, r#""a b""#)),
            "MCP-TOOL-06 5 4",
        ),
        (
            page(
                2,
                &tool.replace(r#""outputSchema":{"#, r#""outputSchema":{"required":1,"#),
            ),
            "MCP-TOOL-05 5 4",
        ),
        (
            page(
                2,
                &tool.replace(r#""inputSchema":{"#, r#""inputSchema":{"properties":1,"#),
            ),
            "MCP-TOOL-04 5 4",
        ),
    ];
    for (answer, expected) in &wrong {
        check(&[ask, answer], &[expected]);
    }
}

#[test]
fn progress_is_sent_only_before_the_response() {
    let ask = r#"> {"jsonrpc":"2.0","id":2,"method":"x","params":{"_meta":{"progressToken":7}}}"#;
    let progress = |n: &str| {
        let method = "notifications/progress";
        format!(
            r#"< {{"jsonrpc":"2.0","method":"{method}","params":{{"progressToken":7,"progress":{n}}}}}"#
        )
    };
    let (low, high) = (progress("0.5"), progress("1"));
    let answer = r#"< {"jsonrpc":"2.0","id":2,"result":{}}"#;
    passes(&[ask, &low, &high, answer], "MCP-PROG-02");
    passes(&[ask, &low, &high, answer], "MCP-PROG-03");
    check(&[ask, &high, &low, answer], &["MCP-PROG-02 5 6"]);
    check(&[ask, &progress(r#""1""#), answer], &["MCP-PROG-02 5"]);
    check(&[ask, answer, &low], &["MCP-PROG-03 6 5 4"]);
    // A task continues after its first response.
    let task = r#"< {"jsonrpc":"2.0","id":2,"result":{"task":{}}}"#;
    check(&[ask, &low, task, &high], &[]);
}

#[test]
fn requests_to_the_client_are_checked() {
    let sample = |params: &str| {
        let method = "sampling/createMessage";
        format!(r#"< {{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{{params}}}}}"#)
    };
    let whole = r#""messages":[],"maxTokens":1"#;
    passes(&[&sample(whole)], "MCP-SAMP-02");
    check(&[&sample(r#""messages":[]"#)], &["MCP-SAMP-02 4"]);
    let tools = sample(&format!(r#"{whole},"tools":[]"#));
    check(&[&tools], &["MCP-SAMP-01 4"]);
    let question = |params: &str| {
        let method = "elicitation/create";
        format!(r#"< {{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{{params}}}}}"#)
    };
    let page =
        question(r#""mode":"url","message":"m","url":"https://a.example/","elicitationId":"e""#);
    let end = r#"< {"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}"#;
    passes(&[&page], "MCP-ELIC-05");
    passes(&[&page, end], "MCP-ELIC-06");
    check(&[end], &["MCP-ELIC-06 4"]);
    let odd = question(r#""mode":"url","message":"m","url":"a page","elicitationId":"e""#);
    check(&[&odd], &["MCP-ELIC-05 4"]);
    // The client supports URLs only.
    let form = question(r#""message":"m","requestedSchema":{"type":"object","properties":{}}"#);
    check(&[&form], &["MCP-ELIC-01 4"]);
}
