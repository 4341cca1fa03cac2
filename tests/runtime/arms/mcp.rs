//! The MCP arm against small servers as shell scripts.

use std::sync::Arc;

use agentproto_runtime::arm::Arm;
use agentproto_runtime::arm::mcp::{Mcp, McpTurnConfig};
use agentproto_runtime::arm::permissions::{Answer, Permissions};
use agentproto_runtime::context::Context;
use agentproto_runtime::{Code, StopReason, StreamEvent};
use serde_json::json;

use crate::arms::fixture::{AgentFixture, open, ready, text, thought, turn, turn_with_events};

const FIELDS: &str = "protocol: mcp\nmcp: { command: sh, transport: stdio }\n\
    metadata: { agentproto: { mcp_turn: { event_method: fake/event } } }\n";

fn fixture(call: &str) -> AgentFixture {
    let script = format!("call() {{\n{call}\n}}\n{}", include_str!("server.sh"));
    AgentFixture::new(&script, FIELDS)
}

fn arm(fixture: &AgentFixture) -> (Mcp, Arc<Context>) {
    let context = fixture.context();
    let keys = McpTurnConfig::from_manifest(&context.bundle).expect("keys");
    let broker = fixture.broker.clone();
    let arm = Mcp::new(Arc::clone(&context), fixture.spec(&[]), broker, keys);
    (arm, context)
}

#[tokio::test]
async fn a_turn_is_a_tool_call_and_its_text_appears_once() {
    let fixture = fixture("text \"you said so\"");
    let (arm, context) = arm(&fixture);
    let negotiated = arm.handshake().await.expect("a handshake");
    assert_eq!(negotiated.name.as_deref(), Some("fake"));
    assert_eq!(negotiated.version.as_deref(), Some("9.9.9"));
    assert_eq!(negotiated.resumable, Some(true));
    arm.open(&open(None)).await.expect("open");
    let (events, end) = turn(&arm, &context, "hello").await;
    assert_eq!(events, [text("you said so")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    assert_eq!(arm.session_id().as_deref(), Some("t-7"));
    let exit = arm.stop().await.expect("an exit");
    assert_eq!(
        exit.status.code(),
        Some(0),
        "the end of input ends the server"
    );
    assert!(
        fixture
            .file("heard")
            .contains(r#""arguments":{"prompt":"hello"}"#)
    );
}

#[tokio::test]
async fn a_turn_in_the_sandbox() {
    let fixture = fixture("text \"you said so\"").sandboxed();
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn(&arm, &context, "hello").await;
    assert_eq!(events, [text("you said so")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    arm.stop().await.expect("an exit");
}

fn call(id: &str, name: &str, kind: Option<&str>, args: serde_json::Value) -> StreamEvent {
    StreamEvent::ToolCall {
        id: id.into(),
        name: name.into(),
        kind: kind.map(str::to_owned),
        args,
    }
}

/// Every row of the mapping, in order, without a duplicate of the result's text.
#[tokio::test]
async fn notifications_become_events_in_order() {
    agentproto_suites::proves!("A45-EVT-09", "A45-EVT-10");
    let fixture = fixture(
        r#"progress one
        log info '"two"'
        log debug '"not shown"'
        event '{"type":"agent_message_delta","delta":"three"}'
        event '{"type":"agent_reasoning_delta","delta":"four \ud83d"}'
        event '{"type":"exec_command_begin","call_id":"c","command":["ls"]}'
        event '{"type":"exec_command_end","call_id":"c","exit_code":1,"stdout":"five"}'
        event '{"type":"agent_message","message":"three"}'
        say '{"jsonrpc":"2.0","method":"other/event","params":{"type":"text","text":"not shown"}}'
        text "all of it""#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn(&arm, &context, "go").await;
    assert_eq!(
        events,
        [
            text("one"),
            text("two"),
            text("three"),
            thought("four \u{fffd}"),
            call(
                "c",
                "exec_command",
                Some("execute"),
                json!({"command": ["ls"]})
            ),
            StreamEvent::ToolResult {
                id: "c".into(),
                ok: false,
                content: json!("five"),
            },
        ]
    );
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    arm.stop().await;
    let log = std::fs::read_dir(context.home.root()).expect("home");
    assert!(log.count() > 0, "no tool call is in the audit log");
}

/// Many events through a small channel: none is lost or out of order.
#[tokio::test]
async fn many_events_stay_in_order() {
    let fixture = fixture("i=0; while [ $i -lt 3000 ]; do progress $i; i=$((i+1)); done; text end");
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, _) = turn(&arm, &context, "go").await;
    let wanted: Vec<_> = (0..3000).map(|i| text(&i.to_string())).collect();
    assert!(events == wanted, "{} events", events.len());
    arm.stop().await;
}

#[tokio::test]
async fn errors_end_the_turn_but_not_the_session() {
    let fixture = fixture(
        r#"case $line in
        *tool-error*) answer '{"content":[{"type":"text","text":"no such file"}],"isError":true}' ;;
        *rpc-error*) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32603,\"message\":\"out of order\",\"data\":{\"why\":1}}}" ;;
        *odd-result*) answer '{"something":"else"}' ;;
        *bad-answer*) say "{\"id\":$id,\"result\":{}}" ;;
        *too-many*) answer '{"content":[],"structuredContent":{"stopReason":"max_tokens"}}' ;;
        *) text fine ;;
        esac"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    for (prompt, code, said) in [
        ("tool-error", Code::TurnFailed, "no such file"),
        ("rpc-error", Code::TurnFailed, "error -32603: out of order"),
        (
            "odd-result",
            Code::ProtocolViolation,
            "is not a valid result: `{\"jsonrpc\"",
        ),
        (
            "bad-answer",
            Code::ProtocolViolation,
            "is not a JSON-RPC 2.0 response",
        ),
    ] {
        let (events, end) = turn(&arm, &context, prompt).await;
        assert_eq!(events, [], "{prompt}");
        let fault = end.expect_err(prompt);
        assert_eq!(fault.code, code, "{prompt}: {fault}");
        assert!(fault.message.contains(said), "{prompt}: {fault}");
    }
    let (_, end) = turn(&arm, &context, "too-many").await;
    assert_eq!(end.expect("an end"), StopReason::MaxTokens);
    let (events, end) = turn(&arm, &context, "again").await;
    assert_eq!(events, [text("fine")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    arm.stop().await;
}

/// A45-SESS: the session id of the first result is passed in the next call, and a given id in the
/// first.
#[tokio::test]
async fn sessions_are_continued() {
    let fixture = fixture("text ok");
    let (first, context) = arm(&fixture);
    let id = ready(&first, None).await;
    assert!(id.starts_with("local-"), "{id}");
    turn(&first, &context, "one").await.1.expect("an end");
    turn(&first, &context, "two").await.1.expect("an end");
    first.stop().await;
    let heard = fixture.file("heard");
    assert!(
        heard.contains(r#""name":"go","arguments":{"prompt":"one"}"#),
        "{heard}"
    );
    let second = r#""name":"go-on","arguments":{"prompt":"two","threadId":"t-7"}"#;
    assert!(heard.contains(second), "{heard}");

    let (again, context) = arm(&fixture);
    assert_eq!(ready(&again, Some("t-3")).await, "t-3");
    turn(&again, &context, "three").await.1.expect("an end");
    again.stop().await;
    let third = r#""name":"go-on","arguments":{"prompt":"three","threadId":"t-3"}"#;
    assert!(fixture.file("heard").contains(third));
}

#[tokio::test]
async fn a_server_without_sessions_cannot_resume() {
    let one = r#"tools='{"name":"only","inputSchema":{"type":"object","properties":{"prompt":{"type":"string"}}}}'"#;
    let script = format!(
        "{one}\ncall() {{ text ok; }}\n{}",
        include_str!("server.sh")
    );
    let fixture = AgentFixture::new(&script, FIELDS);
    let (arm, _) = arm(&fixture);
    let negotiated = arm.handshake().await.expect("a handshake");
    assert_eq!(negotiated.resumable, Some(false));
    let fault = arm.open(&open(Some("x"))).await;
    let fault = fault.expect_err("refused");
    assert_eq!(fault.code, Code::ContinuationUnsupported);
    assert!(
        fault
            .message
            .contains("`only` has no argument for a session id"),
        "{fault}"
    );
    arm.stop().await;
}

/// The server never responds. The canceled turn still ends at once, and late events are not part
/// of the next turn.
#[tokio::test]
async fn a_canceled_turn_ends() {
    let fixture = fixture(
        r#"case $line in
        *first*) progress begun; late=$token ;;
        *) new=$token; token=$late; progress "too late"; token=$new; progress now; text ok ;;
        esac"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn_with_events(&arm, &context, "first", |event| {
        let arm = &arm;
        async move {
            assert_eq!(event, text("begun"));
            arm.cancel().await.expect("cancelled");
        }
    })
    .await;
    assert_eq!(events, [text("begun")]);
    assert_eq!(end.expect("an end"), StopReason::Cancelled);
    let (events, end) = turn(&arm, &context, "second").await;
    assert_eq!(events, [text("now")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    arm.stop().await;
    assert!(fixture.file("heard").contains("notifications/cancelled"));
}

#[tokio::test]
async fn a_dead_agent_is_reported_with_its_stderr() {
    let fixture = fixture("progress dying; echo 'no more fuel' >&2; exit 3");
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn(&arm, &context, "go").await;
    assert_eq!(events, [text("dying")]);
    let fault = end.expect_err("dead");
    assert_eq!(fault.code, Code::AgentExited);
    assert!(
        fault
            .message
            .contains("exited with status 3 during the turn"),
        "{fault}"
    );
    assert!(fault.message.contains("no more fuel"), "{fault}");
    let (_, end) = turn(&arm, &context, "go").await;
    assert_eq!(
        end.expect_err("the agent is still dead").code,
        Code::AgentExited
    );
}

#[tokio::test]
async fn invalid_output_is_skipped_with_one_warning() {
    let fixture = fixture(
        r#"say 'Starting up...'
        say '{"no": "message"}'
        printf '\377\376\n'
        say ''
        say '[1, 2]'
        say '{"jsonrpc":"2.0","id":"a1","method":7}'
        say '{"jsonrpc":"2.0","id":99,"result":{}}'
        text fine"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn(&arm, &context, "go").await;
    assert_eq!(events, [text("fine")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    let warnings = fixture.observer.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("`Starting up...`"), "{warnings:?}");
    arm.stop().await;
}

/// The response may have been in the oversized line, so the turn does not wait for it.
#[tokio::test]
async fn an_oversized_line_ends_the_turn() {
    let fixture = fixture(
        r#"case $line in
        *long*) head -c 17000000 /dev/zero | tr '\0' x; echo ;;
        *) text fine ;;
        esac"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (_, end) = turn(&arm, &context, "long").await;
    let fault = end.expect_err("too long");
    assert_eq!(fault.code, Code::ProtocolViolation);
    assert!(
        fault.message.contains("a line of 17000000 bytes"),
        "{fault}"
    );
    let (events, _) = turn(&arm, &context, "short").await;
    assert_eq!(events, [text("fine")]);
    arm.stop().await;
}

fn asked(answer: &str) -> String {
    let form = r#"{"message":"may I?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}"#;
    format!("ask '{form}'; printf '%s' \"$reply\" > reply; {answer}")
}

#[tokio::test]
async fn questions_follow_the_permission_policy() {
    agentproto_suites::proves!("A45-EVT-06");
    for (permissions, wanted) in [
        (
            Permissions::Allow,
            r#"{"action":"accept","content":{"ok":true}}"#,
        ),
        (Permissions::Deny, r#"{"action":"decline"}"#),
    ] {
        let fixture = fixture(&asked("text done")).with_permissions(permissions);
        let (arm, context) = arm(&fixture);
        ready(&arm, None).await;
        let (events, end) = turn(&arm, &context, "go").await;
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        let Some(StreamEvent::AgentPrompt {
            message, options, ..
        }) = events.first()
        else {
            panic!("{events:?}");
        };
        assert_eq!(message, "may I?");
        assert_eq!(options.len(), 2);
        assert_eq!(events[1..], [text("done")]);
        let reply = fixture.file("reply");
        assert!(reply.contains(wanted), "{reply}");
        arm.stop().await;
    }
}

#[tokio::test]
async fn the_caller_may_answer_or_cancel() {
    let fixture = fixture(&asked("text done")).with_permissions(Permissions::Ask);
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let broker = &fixture.broker;
    let (_, end) = turn_with_events(&arm, &context, "go", |event| async move {
        if let StreamEvent::AgentPrompt { id, .. } = event {
            assert!(
                broker
                    .answer(&id, Answer::Content(json!({"ok": false})))
                    .is_ok()
            );
            assert!(
                broker.answer(&id, Answer::Declined).is_err(),
                "a question can be answered only once"
            );
        }
    })
    .await;
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    assert!(fixture.file("reply").contains(r#""content":{"ok":false}"#));

    let (events, end) = turn_with_events(&arm, &context, "go", |event| {
        let arm = &arm;
        async move {
            if let StreamEvent::AgentPrompt { .. } = event {
                arm.cancel().await.expect("cancelled");
            }
        }
    })
    .await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(end.expect("an end"), StopReason::Cancelled);
    arm.stop().await;
}

/// The server does not wait for the answer to its own question.
#[tokio::test]
async fn a_question_ends_with_its_turn() {
    let call = r#"mkfifo gate
        say '{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"may I?","requestedSchema":{"type":"object","properties":{}}}}'
        read -r seen < gate
        text done"#;
    let fixture = fixture(call).with_permissions(Permissions::Ask);
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn_with_events(&arm, &context, "go", |event| {
        let fixture = &fixture;
        async move {
            if let StreamEvent::AgentPrompt { id, .. } = event {
                assert!(fixture.broker.is_open(&id));
                std::fs::write(fixture.path("work/gate"), "seen\n").expect("written");
            }
        }
    })
    .await;
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    let Some(StreamEvent::AgentPrompt { id, .. }) = events.first() else {
        panic!("{events:?}");
    };
    assert!(!fixture.broker.is_open(id));
    arm.stop().await;
}

#[tokio::test]
async fn a_failed_handshake_is_explained() {
    for (script, code, said) in [
        (
            "echo 'no key' >&2; exit 7",
            Code::AgentExited,
            "exited with status 7 during the handshake; stderr of the agent:\n    no key",
        ),
        (
            r#"read -r line; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"not today"}}'; cat"#,
            Code::ProtocolViolation,
            "not today",
        ),
        (
            r#"read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}'; cat"#,
            Code::ProtocolViolation,
            "has no `protocolVersion`, `capabilities` or `serverInfo`: `{\"jsonrpc\"",
        ),
        (
            r#"read -r line; echo '{"id":0,"result":{}}'; cat"#,
            Code::ProtocolViolation,
            "is not a JSON-RPC 2.0 response",
        ),
    ] {
        let fixture = AgentFixture::new(script, FIELDS);
        let (arm, _) = arm(&fixture);
        let fault = arm.handshake().await.expect_err("refused");
        assert_eq!(fault.code, code, "{fault}");
        assert!(fault.message.contains(said), "{fault}");
        arm.stop().await;
    }
}

/// MCP 2026-07-28 has no `initialize`. A call that needs input returns a request for it as its
/// result.
#[tokio::test]
async fn a_server_of_the_newest_revision() {
    let script = r#"
    number() { rest="${line#*\"$1\":}"; printf '%s' "${rest%%[,\}]*}"; }
    answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    while IFS= read -r line; do
      id=$(number id)
      case $line in
        *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
        *server/discover*) answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}' ;;
        *tools/list*) answer '{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"go","inputSchema":{"type":"object","properties":{"prompt":{"type":"string"}}}}]}' ;;
        *inputResponses*accept*) answer '{"resultType":"complete","content":[{"type":"text","text":"thanks"}]}' ;;
        *tools/call*) answer '{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"sure?","requestedSchema":{"type":"object","properties":{}}}}}}' ;;
      esac
    done"#;
    let fixture = AgentFixture::new(script, FIELDS).with_permissions(Permissions::Allow);
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let (events, end) = turn(&arm, &context, "go").await;
    end.expect("an end");
    assert!(matches!(&events[0], StreamEvent::AgentPrompt { message, .. } if message == "sure?"));
    assert_eq!(events[1..], [text("thanks")]);
    arm.stop().await;
}

#[tokio::test]
async fn keys_of_the_manifest_are_checked() {
    for (keys, said) in [
        (
            "{ start_tool: 3 }",
            "`mcp_turn.start_tool` must be a non-empty string, not integer",
        ),
        ("{ stat_tool: x }", "unknown key `stat_tool` in `mcp_turn`"),
        ("[x]", "`mcp_turn` must be an object, not array"),
    ] {
        let fields = format!(
            "protocol: mcp\nmcp: {{ command: sh, transport: stdio }}\nmetadata: {{ agentproto: {{ mcp_turn: {keys} }} }}\n"
        );
        let context = AgentFixture::new("", &fields).context();
        let fault = McpTurnConfig::from_manifest(&context.bundle).expect_err("refused");
        assert_eq!(fault.code, Code::ManifestInvalid);
        assert!(fault.message.contains(said), "{fault}");
    }
}

/// An agent that keeps sending requests without reading the answers does not exhaust our memory.
#[tokio::test]
async fn a_flood_of_requests_ends_the_turn() {
    let fixture = fixture(
        r#"i=0; while [ $i -lt 20000 ]; do
        say "{\"jsonrpc\":\"2.0\",\"id\":\"p$i\",\"method\":\"ping\"}"; i=$((i+1)); done
        exec sleep 60"#,
    );
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    let fault = turn(&arm, &context, "go").await.1.expect_err("refused");
    assert_eq!(fault.code, Code::ProtocolViolation);
    assert!(
        fault.message.contains("without reading the responses"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_session_that_cannot_continue_is_reported() {
    let fixture = fixture("answer '{\"content\":[{\"type\":\"text\",\"text\":\"ok\"}]}'");
    let (arm, context) = arm(&fixture);
    ready(&arm, None).await;
    for _ in 0..2 {
        turn(&arm, &context, "go").await.1.expect("an end");
    }
    let warnings = fixture.observer.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("the next turn starts a new session"),
        "{warnings:?}"
    );
    arm.stop().await;
}

/// Error messages from an agent are truncated and redacted.
#[tokio::test]
async fn errors_are_truncated_and_redacted() {
    let fixture = fixture(
        r#"many=$(head -c 100000 /dev/zero | tr '\0' x)
        answer "{\"content\":[{\"type\":\"text\",\"text\":\"hunter22 $many\"}],\"isError\":true}""#,
    );
    let (arm, context) = arm(&fixture);
    context.masks.add("hunter22");
    ready(&arm, None).await;
    let fault = turn(&arm, &context, "go").await.1.expect_err("failed");
    assert!(fault.message.contains("[secret] xxx"), "{fault}");
    assert!(fault.message.len() < 5000 && fault.details.is_null());
    arm.stop().await;
}

/// Without this check the turn would wait until its time limit, which may be infinite.
#[tokio::test]
async fn a_server_that_closes_its_stdin_is_reported() {
    let said = "the agent closed its stdin";
    let stand1 = fixture("exec 0<&-; text first; exec sleep 300");
    let (first, context) = arm(&stand1);
    ready(&first, None).await;
    let (events, end) = turn(&first, &context, "x").await;
    assert_eq!(events, [text("first")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    let fault = turn(&first, &context, "x").await.1.expect_err("deaf");
    assert_eq!(fault.code, Code::ProtocolViolation, "{fault}");
    assert!(fault.message.contains(said), "{fault}");
    first.stop().await;

    // The same during the handshake.
    let script =
        include_str!("server.sh").replace("answer '{\"proto", "exec 0<&-; answer '{\"proto");
    let fixture2 = AgentFixture::new(&format!("{script}\nexec sleep 300"), FIELDS);
    let (second, _) = arm(&fixture2);
    let fault = second.handshake().await.expect_err("deaf");
    assert_eq!(fault.code, Code::ProtocolViolation, "{fault}");
    assert!(fault.message.contains(said), "{fault}");
    second.stop().await;
}
