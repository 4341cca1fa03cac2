//! Executable adapters as shell scripts that read lines and print events.

use std::sync::Arc;

use agentproto_runtime::arm::adapter::{Executable, from_manifest};
use agentproto_runtime::arm::permissions::{Answer, Permissions};
use agentproto_runtime::arm::{Arm, EventSink};
use agentproto_runtime::context::Context;
use agentproto_runtime::{Code, StopReason, StreamEvent};
use serde_json::json;

use crate::arms::fixture::{AgentFixture, open, ready, text, thought, turn, turn_with_events};

const FIELDS: &str = "protocol: proprietary\nadapter: '@fake/adapter'\n\
    metadata: { agentproto: { adapter_exec: [sh, ./agent.sh, --plain] } }\n";

/// The shell function `send` runs for every turn, with the request in $line.
fn fixture(send: &str) -> AgentFixture {
    let script = format!(
        r#"say() {{ printf '%s\n' "$1"; }}
        end() {{ say '{{"type":"turn-end","reason":"end_turn"}}'; }}
        on_cancel() {{ say '{{"type":"turn-end","reason":"cancelled"}}'; }}
        on_connect() {{ say '{{"type":"connected","sessionId":"s-1"}}'; }}
        send() {{
        {send}
        }}
        while IFS= read -r line; do
          printf '%s\n' "$line" >> heard
          case $line in
            *'"op":"connect"'*) on_connect ;;
            *'"op":"send"'*) send ;;
            *'"op":"cancel"'*) on_cancel ;;
            *'"op":"close"'*) exit 0 ;;
          esac
        done"#
    );
    AgentFixture::new(&script, FIELDS)
}

fn arm(fixture: &AgentFixture) -> (Executable, Arc<Context>) {
    let context = fixture.context();
    let argv = from_manifest(&context.bundle)
        .expect("keys")
        .expect("an adapter");
    let spec = fixture.spec(&["--agent"]);
    let arm = Executable::new(Arc::clone(&context), argv, spec, fixture.broker.clone());
    (arm, context)
}

#[tokio::test]
async fn every_event_is_passed_on() {
    agentproto_suites::proves!("A45-CONF-05", "A45-EVT-01", "A45-API-05");
    let fixture = fixture(
        r#"say '{"type":"text-delta","text":"a \"b\" \u00e9"}'
        say '{"type":"thought","text":"hm","turnId":"turn-1"}'
        say ''
        say '{"type":"tool-call","id":"1","name":"n","kind":"read","args":{"x":[1]}}'
        say '{"type":"tool-result","id":"1","ok":false,"content":"c"}'
        say '{"type":"turn-end","reason":"max_turn_requests","turnId":"turn-1"}'"#,
    );
    let (arm, context) = arm(&fixture);
    assert_eq!(ready(&arm, None).await, "s-1");
    let (events, end) = turn(&arm, &context, "line one\nline two").await;
    assert_eq!(
        events,
        [
            text("a \"b\" é"),
            thought("hm"),
            StreamEvent::ToolCall {
                id: "1".into(),
                name: "n".into(),
                kind: Some("read".into()),
                args: json!({"x": [1]}),
            },
            StreamEvent::ToolResult {
                id: "1".into(),
                ok: false,
                content: json!("c"),
            },
        ]
    );
    assert_eq!(end.expect("an end"), StopReason::MaxTurnRequests);
    arm.close().await.expect("closed");
    let exit = arm.stop().await.expect("an exit");
    assert_eq!(exit.status.code(), Some(0));
    let heard = fixture.file("heard");
    let lines: Vec<serde_json::Value> = heard
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["op"], "connect");
    assert_eq!(lines[0]["command"][2], "--agent");
    assert_eq!(lines[0].get("resume"), None);
    assert_eq!(lines[1]["message"], "line one\nline two");
    assert_eq!(lines[1]["turnId"], "turn-1");
    assert_eq!(lines[2], json!({"op": "close"}));
}

#[tokio::test]
async fn plans_and_usage_are_passed_on() {
    let fixture = fixture(
        r#"say '{"type":"thought","text":"","plan":[{"content":"look","status":"completed"}]}'
        say '{"type":"thought","text":"","plan":[]}'
        say '{"type":"turn-end","reason":"end_turn","usage":{"input_tokens":3},"cost":{"amount":0.5,"currency":"EUR"},"context":{"used":1,"size":2}}'"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (sender, mut events) = tokio::sync::mpsc::channel(8);
    let sink = EventSink::new(sender, Arc::clone(&context.audit));
    let end = arm.turn("x", sink.clone()).await;
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    let plan = json!({
        "type": "thought", "text": "\n[x] look\n",
        "plan": [{ "content": "look", "status": "completed" }],
    });
    assert_eq!(json!(events.try_recv().expect("a plan")), plan);
    assert!(events.try_recv().is_err(), "an empty plan is left out");
    let report = sink.take_usage();
    assert_eq!(report.usage, Some(json!({ "inputTokens": 3 })));
    assert_eq!(report.cost.map(|cost| cost.amount), Some(0.5));
    assert_eq!(report.context.map(|context| context.size), Some(2));
    arm.stop().await;
}

#[tokio::test]
async fn a_session_is_resumed_by_its_id() {
    let fixture = fixture("end").sandboxed();
    let (arm, context) = arm(&fixture);
    ready(&arm, Some("old")).await;
    turn(&arm, &context, "x").await.1.expect("an end");
    assert!(fixture.file("heard").contains(r#""resume":"old""#));
    arm.stop().await;
}

#[tokio::test]
async fn an_invalid_event_ends_the_turn_and_is_quoted() {
    agentproto_suites::proves!("A45-EVT-01");
    for (line, said) in [
        (r#"{"type":"usage","tokens":1}"#, "unknown variant `usage`"),
        (
            r#"{"type":"text-delta","text":7}"#,
            "invalid type: integer `7`",
        ),
        ("plain words", "`plain words`"),
        (r#"{"type":"connected"}"#, "connected twice"),
    ] {
        let fixture = fixture(&format!("say '{line}'"));
        let (arm, context) = arm(&fixture);
        ready(&arm, None).await;
        let (events, end) = turn(&arm, &context, "x").await;
        assert_eq!(events, []);
        let fault = end.expect_err("refused");
        assert_eq!(fault.code, Code::ProtocolViolation, "{line}");
        assert!(fault.message.contains(said), "{fault}");
        assert!(fault.message.contains(line), "{fault}");
        arm.stop().await;
    }
}

/// A turn ends once. A second end is reported with the next turn, or when the session closes.
#[tokio::test]
async fn a_second_turn_end_is_reported() {
    let fixture = fixture(
        "end; say '{\"type\":\"turn-end\",\"reason\":\"refusal\"}'; say '{\"type\":\"error\",\"message\":\"x\"}'",
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (_, end) = turn(&arm, &context, "x").await;
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    let exit = arm.stop().await.expect("an exit");
    assert_eq!(exit.status.code(), Some(0));
    let fault = loop {
        if let Err(fault) = arm.close().await {
            break fault;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(fault.code, Code::ProtocolViolation);
    assert!(
        fault.message.contains("a turn that had already ended"),
        "{fault}"
    );
    assert!(fault.message.contains("refusal"), "{fault}");
}

#[tokio::test]
async fn the_end_of_an_unknown_turn_is_reported() {
    let fixture = fixture(r#"say '{"type":"turn-end","reason":"end_turn","turnId":"turn-7"}'"#);
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (_, end) = turn(&arm, &context, "hi").await;
    let fault = end.expect_err("the turn must not hang");
    assert_eq!(fault.code, Code::ProtocolViolation);
    assert!(fault.message.contains("turn-7"), "{}", fault.message);
    arm.stop().await;
}

#[tokio::test]
async fn errors_of_the_adapter_keep_their_message() {
    let fixture = fixture(
        r#"case $line in
        *login*) say '{"type":"error","code":"auth_required","message":"log in first","hint":"run login"}' ;;
        *gone*) say '{"type":"error","kind":"cancelled","message":"x"}' ;;
        *) say '{"type":"error","code":"quota","message":"no more today"}' ;;
        esac"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let fault = turn(&arm, &context, "login").await.1.expect_err("an error");
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (Code::AuthRequired, "log in first")
    );
    assert_eq!(fault.hint.as_deref(), Some("run login"));
    let fault = turn(&arm, &context, "other").await.1.expect_err("an error");
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (Code::TurnFailed, "no more today")
    );
    assert_eq!(fault.details["code"], "quota");
    let end = turn(&arm, &context, "gone").await.1;
    assert_eq!(end.expect("an end"), StopReason::Cancelled);
    arm.stop().await;
}

#[tokio::test]
async fn a_canceled_turn_ends_with_the_event_of_the_adapter() {
    let fixture = fixture(
        r#"case $line in
        *wait*) say '{"type":"text-delta","text":"begun"}' ;;
        *) say '{"type":"text-delta","text":"next"}'; end ;;
        esac"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn_with_events(&arm, &context, "wait", |_| {
        let arm = &arm;
        async move { arm.cancel().await.expect("cancelled") }
    })
    .await;
    assert_eq!(events, [text("begun")]);
    assert_eq!(end.expect("an end"), StopReason::Cancelled);
    let (events, end) = turn(&arm, &context, "go").await;
    assert_eq!(events, [text("next")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    arm.stop().await;
}

/// An adapter that ignores `cancel` does not block its caller, but the next turn reports it.
#[tokio::test]
async fn a_canceled_turn_ends_without_an_event_of_the_adapter() {
    let fixture = fixture(
        r#"on_cancel() { :; }
        say '{"type":"text-delta","text":"begun"}'"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (_, end) = turn_with_events(&arm, &context, "wait", |_| {
        let arm = &arm;
        async move { arm.cancel().await.expect("cancelled") }
    })
    .await;
    assert_eq!(end.expect("an end"), StopReason::Cancelled);
    let fault = turn(&arm, &context, "go").await.1.expect_err("refused");
    assert_eq!(fault.code, Code::ProtocolViolation);
    assert!(
        fault.message.contains("did not end the canceled turn"),
        "{fault}"
    );
    arm.stop().await;
}

const QUESTION: &str = r#"say '{"type":"agent-prompt","id":"q","message":"Run ls?","options":[{"id":"y","label":"Yes","kind":"allow_once"},{"id":"n","label":"No","kind":"reject_once"}]}'; IFS= read -r reply; printf '%s' "$reply" > reply; say '{"type":"text-delta","text":"done"}'; end"#;

#[tokio::test]
async fn questions_follow_the_permission_policy() {
    for (permissions, wanted) in [
        (
            Permissions::Allow,
            r#"{"op":"answer","id":"q","answer":"choice","choice":"y"}"#,
        ),
        (
            Permissions::Deny,
            r#"{"op":"answer","id":"q","answer":"choice","choice":"n"}"#,
        ),
    ] {
        let fixture = fixture(QUESTION).with_permissions(permissions);
        let (arm, context) = arm(&fixture);
        ready(&arm, None).await;
        let (events, end) = turn(&arm, &context, "x").await;
        end.expect("an end");
        assert!(
            matches!(&events[0], StreamEvent::AgentPrompt { message, .. } if message == "Run ls?")
        );
        assert_eq!(events[1..], [text("done")]);
        assert_eq!(fixture.file("reply"), wanted);
        arm.stop().await;
    }
    let form = QUESTION.replace(r#","options"#, r#","schema":{"type":"object"},"options"#);
    let fixture = fixture(&form).with_permissions(Permissions::Ask);
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let broker = &fixture.broker;
    let (_, end) = turn_with_events(&arm, &context, "x", |event| async move {
        if let StreamEvent::AgentPrompt { id, .. } = event {
            assert!(broker.answer(&id, Answer::Content(json!("text"))).is_err());
            assert!(broker.answer(&id, Answer::Content(json!({"a": 1}))).is_ok());
        }
    })
    .await;
    end.expect("an end");
    assert_eq!(
        fixture.file("reply"),
        r#"{"op":"answer","id":"q","answer":"content","content":{"a":1}}"#
    );
    arm.stop().await;
}

/// Without this check the turn would wait until its time limit, which may be infinite.
#[tokio::test]
async fn an_adapter_that_closes_its_stdin_is_reported() {
    let fixture = fixture("exec 0<&-; end; exec sleep 300");
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (_, end) = turn(&arm, &context, "x").await;
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    let fault = turn(&arm, &context, "x").await.1.expect_err("deaf");
    assert_eq!(fault.code, Code::ProtocolViolation, "{fault}");
    let said = "the agent closed its stdin";
    assert!(fault.message.contains(said), "{fault}");
    arm.stop().await;
}

#[tokio::test]
async fn a_dead_adapter_is_reported() {
    let stand1 = fixture("say '{\"type\":\"text-delta\",\"text\":\"a\"}'; echo oh >&2; kill -9 $$");
    let (first, context) = arm(&stand1);
    ready(&first, None).await;
    let (events, end) = turn(&first, &context, "x").await;
    assert_eq!(events, [text("a")]);
    let fault = end.expect_err("dead");
    assert_eq!(fault.code, Code::AgentExited);
    assert!(
        fault
            .message
            .contains("signal 9 during the turn; stderr of the agent:\n    oh"),
        "{fault}"
    );
    assert_eq!(
        turn(&first, &context, "x").await.1.expect_err("dead").code,
        Code::AgentExited
    );

    let fixture2 = AgentFixture::new("echo 'no config' >&2; exit 2", FIELDS);
    let (second, _) = arm(&fixture2);
    second.handshake().await.expect("started");
    let fault = second.open(&open(None)).await.expect_err("dead");
    assert_eq!(fault.code, Code::AgentExited);
    assert!(
        fault
            .message
            .contains("status 2 while connecting; stderr of the agent:\n    no config"),
        "{fault}"
    );
}

#[tokio::test]
async fn keys_of_the_manifest_are_checked() {
    for (keys, said) in [
        ("x", "must be a list of strings, not string"),
        ("[]", "is empty"),
        ("[sh, 3]", "must contain only strings, not integer"),
    ] {
        let fields = format!(
            "protocol: proprietary\nadapter: '@fake/a'\nmetadata: {{ agentproto: {{ adapter_exec: {keys} }} }}\n"
        );
        let context = AgentFixture::new("", &fields).context();
        let fault = from_manifest(&context.bundle).expect_err("refused");
        assert_eq!(fault.code, Code::ManifestInvalid);
        assert!(fault.message.contains(said), "{fault}");
    }
    let fields = "protocol: proprietary\nadapter: '@fake/a'\nmetadata: { agentproto: { adapter_exec: [bin/x, --y, ./z] } }\n";
    let fixture = AgentFixture::new("", fields);
    let argv = from_manifest(&fixture.context().bundle)
        .expect("keys")
        .expect("an adapter");
    let bundle = fixture.path("bundle");
    assert_eq!(
        argv,
        [
            bundle.join("bin/x").into_os_string(),
            "--y".into(),
            bundle.join("z").into()
        ]
    );
}
