//! The closed set of event types for every protocol (A45-EVT-01 to A45-EVT-10), and the first and
//! last event of machine mode.

use super::place::{Place, Ran};
use agentproto_suites::proves;
use jsonschema::Validator;
use serde_json::{Value, json};

/// The published schema of events.
fn schema() -> Validator {
    let text = include_str!("../../schemas/events.schema.json");
    let schema: Value = serde_json::from_str(text).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn valid(ran: &Ran) {
    let schema = schema();
    for line in ran.lines() {
        if let Err(error) = schema.validate(&line) {
            panic!("{error}: {line}");
        }
    }
    let lines = ran.lines();
    assert_eq!(lines[0]["type"], "aoi:meta");
    assert_eq!(lines[lines.len() - 1]["type"], "aoi:summary");
    let ends = ran.of("turn-end").len() + ran.of("aoi:error").len();
    assert_eq!(ends, 1, "{}", ran.stdout);
}

#[test]
fn each_bundled_agent_streams_text() {
    agentproto_suites::proves!(
        "A45-EVT-01",
        "A45-EVT-02",
        "A45-EVT-07",
        "A45-EVT-09",
        "A45-EVT-10",
        "A45-API-02",
        "A45-API-05"
    );
    let place = Place::new();
    for target in ["mock-acp", "mock-mcp", "mock-repl"] {
        let ran = place.run(target, &["--prompt", "hello"]);
        assert_eq!(ran.code, 0, "{target}: {}", ran.stderr);
        assert_eq!(ran.text(), "You said: hello", "{target}");
        valid(&ran);
        assert_eq!(ran.of("turn-end")[0]["reason"], "end_turn");
        assert!(ran.of("text-delta").len() > 1, "{target} streams");
        let summary = &ran.of("aoi:summary")[0];
        assert!(
            summary["session_id"]
                .as_str()
                .is_some_and(|id| !id.is_empty())
        );
        let ran = place.text(target, &["--prompt", "hello"]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (0, "You said: hello\n"),
            "{target}"
        );
    }
}

#[test]
fn the_prompt_can_be_read_from_stdin() {
    use std::io::Write;
    let place = Place::new();
    let mut child = place
        .command(&["run", "mock-acp", "--prompt", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all("two\nlines".as_bytes()).expect("written");
    drop(stdin);
    let ran = Ran::new(child.wait_with_output().expect("ended"));
    assert_eq!(ran.stdout, "You said: two\nlines\n");
}

#[test]
fn stages_are_in_order() {
    agentproto_suites::proves!("A44-LIFEC-01", "A45-LIFE-05", "A45-LIFE-06", "A45-LIFE-08");
    let place = Place::new();
    let ran = place.run("mock-acp", &["--prompt", "hello"]);
    let mut stages: Vec<String> = Vec::new();
    for progress in ran.of("aoi:progress") {
        let stage = progress["stage"].as_str().expect("a stage").to_owned();
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
    }
    let wanted = [
        "discover",
        "install",
        "version_check",
        "spawn",
        "handshake",
        "session",
        "turn",
        "close",
        "teardown",
    ];
    assert_eq!(stages, wanted);
}

#[test]
fn tools_thoughts_and_plans() {
    agentproto_suites::proves!("A45-EVT-03", "A45-EVT-04", "A45-EVT-05", "A44-REF-02");
    let place = Place::new();
    for target in ["mock-acp", "mock-mcp"] {
        let ran = place.run(target, &["--prompt", "use a tool"]);
        valid(&ran);
        let (calls, results) = (ran.of("tool-call"), ran.of("tool-result"));
        assert_eq!(
            (calls.len(), results.len()),
            (1, 1),
            "{target}: {}",
            ran.stdout
        );
        assert_eq!(calls[0]["id"], results[0]["id"]);
        assert_eq!(results[0]["ok"], true);
        assert!(calls[0]["name"].as_str().is_some_and(|n| !n.is_empty()));
        let ran = place.run(target, &["--prompt", "have a thought"]);
        valid(&ran);
        assert!(!ran.of("thought").is_empty(), "{target}");
    }
    let ran = place.run("mock-acp", &["--prompt", "make a plan"]);
    valid(&ran);
    let plan = &ran.of("thought")[0];
    let text = "\n[-] Look around\n[ ] Do the work\n";
    assert_eq!(plan["text"], text);
    assert_eq!(
        plan["plan"],
        json!([
            { "content": "Look around", "status": "in_progress", "priority": "high" },
            { "content": "Do the work", "status": "pending", "priority": "medium" },
        ])
    );
    let ran = place.run("mock-acp", &["--option", "scenario=tools", "--prompt", "x"]);
    valid(&ran);
    let failed = ran
        .of("tool-result")
        .iter()
        .filter(|r| r["ok"] == json!(false))
        .count();
    assert_eq!((ran.of("tool-call").len(), failed), (3, 1));
}

/// The mock agents report the same numbers in three protocols.
#[test]
fn tokens_cost_and_context_are_in_the_end_of_a_turn() {
    let place = Place::new();
    for target in ["mock-acp", "mock-mcp", "mock-repl"] {
        let ran = place.run(target, &["--prompt", "report your usage"]);
        assert_eq!(ran.code, 0, "{target}: {}", ran.stderr);
        valid(&ran);
        let mut counts = json!({
            "inputTokens": 1200, "outputTokens": 300, "thoughtTokens": 100,
            "cachedReadTokens": 50_000, "cachedWriteTokens": 400, "totalTokens": 52_000,
        });
        let mut used = 53_000;
        if target == "mock-repl" {
            // Claude Code counts no thoughts, and its context is that of the last message.
            (used, counts["totalTokens"]) = (51_900, json!(51_900));
            counts["thoughtTokens"] = json!(100);
        }
        let (end, summary) = (&ran.of("turn-end")[0], &ran.of("aoi:summary")[0]);
        for place in [end, summary] {
            assert_eq!(place["usage"], counts, "{target}");
            assert_eq!(
                place["cost"],
                json!({ "amount": 0.25, "currency": "USD" }),
                "{target}"
            );
            assert_eq!(
                place["context"],
                json!({ "used": used, "size": 200_000 }),
                "{target}"
            );
        }
        let line = format!(
            "usage: 1200 tokens in, 300 tokens out, {} tokens in total, context {used} of 200000, cost 0.25 USD\n",
            counts["totalTokens"]
        );
        let ran = place.text(target, &["-v", "--prompt", "report your usage"]);
        assert!(ran.stderr.contains(&line), "{target}: {}", ran.stderr);
        let ran = place.run(target, &["--prompt", "make a plan"]);
        let plans = ran
            .of("thought")
            .iter()
            .filter(|t| t["plan"].is_array())
            .count();
        assert_eq!(
            plans,
            if target == "mock-repl" { 0 } else { 2 },
            "{target}: {}",
            ran.stdout
        );
    }
}

#[test]
fn every_stop_reason_is_passed_on() {
    agentproto_suites::proves!("A45-EVT-07");
    let place = Place::new();
    for reason in [
        "end_turn",
        "max_tokens",
        "max_turn_requests",
        "refusal",
        "cancelled",
    ] {
        let ran = place.run(
            "mock-acp",
            &["--option", "scenario=stop-reasons", "--prompt", reason],
        );
        valid(&ran);
        assert_eq!(ran.of("turn-end")[0]["reason"], reason);
    }
}

#[test]
fn control_characters_in_text_are_escaped() {
    agentproto_suites::proves!("A45-SEC-02");
    let place = Place::new();
    let ran = place.text("mock-acp", &["--prompt", "a\u{1b}[2Jb\tc\nd"]);
    assert_eq!(ran.stdout, "You said: a\\u{1b}[2Jb\tc\nd\n");
}

#[test]
fn the_audit_log_has_every_step_and_verifies() {
    agentproto_suites::proves!("A44-AUDIT-01", "A44-LIFEC-02", "A45-LIFE-07");
    let place = Place::new();
    place.run("mock-acp", &["--prompt", "use a tool"]);
    let log = place.audit();
    let events: Vec<String> = log
        .lines()
        .map(|l| {
            serde_json::from_str::<Value>(l).expect("JSON")["event"]
                .as_str()
                .expect("text")
                .to_owned()
        })
        .collect();
    for wanted in [
        "session.open",
        "turn.begin",
        "tool.call",
        "tool.result",
        "turn.end",
        "session.close",
    ] {
        assert_eq!(
            events.iter().filter(|e| *e == wanted).count(),
            1,
            "{wanted}: {events:?}"
        );
    }
    let ran = Ran::new(
        place
            .command(&["audit", "verify"])
            .output()
            .expect("started"),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains("note:"), "{}", ran.stdout);
    let file = place.path("home/audit/audit-log.jsonl");
    std::fs::write(&file, log.replace("turn.begin", "turn.begun")).expect("written");
    let ran = Ran::new(
        place
            .command(&["audit", "verify"])
            .output()
            .expect("started"),
    );
    assert_eq!(ran.code, 65);
    assert!(
        ran.stderr.contains("audit_broken") && ran.stderr.contains("audit-log.jsonl:"),
        "{}",
        ran.stderr
    );
}

/// One complete event for each tool call, beside the events at its start and end.
#[test]
fn audited_tool_calls_say_who_what_and_with_which_result() {
    proves!(
        "A44-AUDIT-01",
        "A44-AUDIT-02",
        "A44-AUDIT-03",
        "A44-AUDIT-04",
        "A44-AUDIT-05",
        "A44-AUDIT-06",
        "A29-ID-03"
    );
    let place = Place::new();
    std::fs::write(
        place.path("OPERATOR.md"),
        "---\nschema: agentoperator/v1\nid: night-shift\nname: night-shift\nruntime:\n  ref: mock-acp\n---\n",
    )
    .expect("written");
    let operator = place.path("OPERATOR.md");
    let operator = operator.to_str().expect("text");
    for (prompt, args, approver, approved) in [
        ("use a tool", &[] as &[&str], "automatic", Value::Null),
        (
            "ask permission",
            &[
                "--permissions",
                "allow",
                "--operator",
                operator,
                "--allow-invalid",
            ],
            "automatic",
            true.into(),
        ),
        (
            "ask permission",
            &["--permissions", "deny"],
            "automatic",
            false.into(),
        ),
    ] {
        let place_log = || -> Vec<Value> {
            let log = place.audit();
            log.lines()
                .map(|l| serde_json::from_str(l).expect("JSON"))
                .collect()
        };
        let before = place_log().len();
        let mut all = vec!["--prompt", prompt];
        all.extend(args);
        place.run("mock-acp", &all);
        let log = &place_log()[before..];
        let calls: Vec<&Value> = log.iter().filter(|e| e["kind"] == "tool-call").collect();
        let [call] = calls.as_slice() else {
            panic!("{prompt}: {log:?}");
        };
        let begun = log.iter().find(|e| e["event"] == "tool.call");
        let begun = begun.expect("the start of the call");
        for key in ["id", "name", "args"] {
            assert_eq!(call["data"][key], begun["data"][key], "{prompt}");
            assert!(!call["data"][key].is_null(), "{prompt}: {key}");
        }
        let ended = match call["data"]["ok"].as_bool() {
            Some(true) => "result",
            _ => "error",
        };
        assert!(!call["data"][ended].is_null(), "{prompt}: {call}");
        assert_eq!(call["data"]["approver"], approver, "{prompt}");
        assert_eq!(call["data"]["approved"], approved, "{prompt}");
        assert_eq!(call["bundle"], "mock-acp@1", "{call}");
        let opened = log.iter().find(|e| e["event"] == "session.open");
        let session = &opened.expect("opened")["data"]["session"];
        assert_eq!(&call["session"], session);
        let named = call["operator"].as_str().expect("an operator");
        match args.contains(&"--operator") {
            true => assert_eq!(named, "night-shift"),
            false => assert_eq!(call["operator"], call["actor"]),
        }
    }
    let verified = place.command(&["audit", "verify"]).output();
    assert!(verified.expect("ran").status.success());
}

/// A client sees the states of the operator, and writes each change to the log.
#[test]
fn audited_states_of_the_operator() {
    proves!("A44-OP-10");
    let place = Place::new();
    place.run(
        "mock-acp",
        &["--prompt", "ask permission", "--permissions", "deny"],
    );
    let log = place.audit();
    let states: Vec<String> = log
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).expect("JSON"))
        .filter_map(|e| Some(e["data"]["state"].as_str()?.to_owned()))
        .collect();
    assert_eq!(
        states,
        ["invoked", "running", "suspended", "running", "completed"]
    );
}

#[test]
fn an_anchor_detects_a_log_that_was_cut_together_with_its_pointer() {
    let place = Place::new();
    let audit = |args: &[&str]| {
        let all = [&["audit"], args].concat();
        Ran::new(place.command(&all).output().expect("started"))
    };
    place.run("mock-acp", &["--prompt", "hello"]);
    let keep = |from: &str, to: &str| {
        for name in ["audit-log.jsonl", "audit-log.head.json"] {
            let dir = place.path(to);
            std::fs::create_dir_all(&dir).expect("made");
            std::fs::copy(place.path(from).join(name), dir.join(name)).expect("copied");
        }
    };
    keep("home/audit", "earlier");
    let first = audit(&["anchor"]).stdout;
    place.run("mock-acp", &["--prompt", "hello"]);
    let second = audit(&["anchor"]).stdout;
    let json: Value = serde_json::from_str(&audit(&["anchor", "-o", "json"]).stdout).expect("JSON");
    assert_eq!(json["anchor"], second.trim());
    let anchors = place.path("anchors");
    std::fs::write(&anchors, format!("{first}\n{second}")).expect("written");
    let anchors = anchors.to_str().expect("a path");
    let ran = audit(&["verify", "--anchor-file", anchors]);
    assert!(
        ran.code == 0 && ran.stdout.contains("2 anchors found"),
        "{}",
        ran.stderr
    );
    keep("earlier", "home/audit");
    assert_eq!(audit(&["verify", "--anchor", first.trim()]).code, 0);
    for args in [["--anchor", second.trim()], ["--anchor-file", anchors]] {
        let ran = audit(&[&["verify"], &args[..]].concat());
        assert_eq!(ran.code, 65, "{}", ran.stdout);
        assert!(ran.stderr.contains("events are missing"), "{}", ran.stderr);
    }
    // A file without an anchor checks nothing, also together with another anchor.
    let empty = place.path("empty");
    std::fs::write(&empty, "\n").expect("written");
    let empty = empty.to_str().expect("a path");
    let one = ["verify", "--anchor", first.trim()];
    let ran = audit(&[&one[..], &["--anchor-file", empty]].concat());
    assert!(
        ran.code == 65 && ran.stderr.contains("no anchor"),
        "{}",
        ran.stderr
    );
    assert_eq!(audit(&["verify", "--anchor", "x"]).code, 64);
    let missing = place.path("missing");
    let missing = missing.to_str().expect("a path");
    assert_eq!(audit(&["verify", "--anchor-file", missing]).code, 66);
}

#[test]
fn a_missing_log_is_reported_with_what_happened_to_it() {
    let place = Place::new();
    let verify = || {
        Ran::new(
            place
                .command(&["audit", "verify"])
                .output()
                .expect("started"),
        )
    };
    let ran = verify();
    assert_eq!(ran.code, 66);
    assert!(ran.stderr.contains("no audit log at"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("`agentproto run` writes it"),
        "{}",
        ran.stderr
    );
    place.run("mock-acp", &["--prompt", "hello"]);
    std::fs::remove_dir_all(place.path("home/audit")).expect("removed");
    let ran = verify();
    assert_eq!(ran.code, 66);
    assert!(ran.stderr.contains("no audit log at"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("the log was moved or deleted"),
        "{}",
        ran.stderr
    );
    assert!(
        !ran.stderr.contains("`agentproto run` writes it"),
        "{}",
        ran.stderr
    );
}

#[test]
fn nothing_runs_with_a_cut_log() {
    let place = Place::new();
    place.run("mock-acp", &["--prompt", "hello"]);
    let log = place.audit();
    let file = place.path("home/audit/audit-log.jsonl");
    let cut: String = log
        .lines()
        .take(3)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(&file, &cut).expect("written");
    std::fs::remove_file(place.path("home/audit/audit-log.head.json")).expect("removed");
    let ran = place.run("mock-acp", &["--prompt", "hello"]);
    assert_eq!(ran.error().0, "AUDIT_BROKEN", "{}", ran.stderr);
    assert_eq!(place.audit(), cut);
    // What `audit verify` advises works.
    std::fs::rename(place.path("home/audit"), place.path("evidence")).expect("moved");
    let ran = place.run("mock-acp", &["--prompt", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = Ran::new(
        place
            .command(&["audit", "verify"])
            .output()
            .expect("started"),
    );
    assert!(
        ran.stdout.contains("moved or deleted"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}
