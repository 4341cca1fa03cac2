//! Agents that print JSON lines, with one process per turn, as shell scripts.

use std::sync::Arc;

use agentproto_runtime::arm::{Arm, proprietary};
use agentproto_runtime::context::Context;
use agentproto_runtime::{Code, StopReason, StreamEvent};
use serde_json::json;

use crate::arms::fixture::{AgentFixture, open, ready, text, thought, turn, turn_with_events};

fn fields(codec: &str) -> String {
    format!(
        "protocol: proprietary\nadapter: '@fake/adapter'\nmetadata: {{ agentproto: {{ codec: {codec} }} }}\n"
    )
}

/// The script has the prompt in $prompt and records its arguments.
fn fixture(codec: &str, script: &str) -> AgentFixture {
    let script = format!(
        "say() {{ printf '%s\\n' \"$1\"; }}\nprintf '%s ' \"$@\" >> args; echo >> args\nprompt=$(cat)\n{script}"
    );
    AgentFixture::new(&script, &fields(codec))
}

fn arm(fixture: &AgentFixture) -> (Box<dyn Arm>, Arc<Context>) {
    let context = fixture.context();
    let spec = fixture.spec(&["--model", "m"]);
    let arm = proprietary(Arc::clone(&context), spec, fixture.broker.clone());
    (arm.expect("an arm"), context)
}

const CLAUDE: &str = r#"
say '{"type":"system","subtype":"init","session_id":"s-1"}'
say "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"},{\"type\":\"text\",\"text\":\"you said $prompt\"},{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Bash\",\"input\":{\"command\":\"ls\"}}]}}"
say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"a b"}]}}'
say '{"type":"result","subtype":"success","is_error":false,"result":"you said so","session_id":"s-2"}'
"#;

#[tokio::test]
async fn claude_runs_two_turns() {
    for sandboxed in [false, true] {
        let mut fixture = fixture("claude-stream-json", CLAUDE);
        if sandboxed {
            fixture = fixture.sandboxed();
        }
        let (arm, context) = arm(&fixture);
        let first = ready(&*arm, None).await;
        assert!(first.starts_with("local-"));
        let (events, end) = turn(&*arm, &context, "hello").await;
        assert_eq!(
            events,
            [
                thought("hm"),
                text("you said hello"),
                StreamEvent::ToolCall {
                    id: "t".into(),
                    name: "Bash".into(),
                    kind: None,
                    args: json!({"command": "ls"}),
                },
                StreamEvent::ToolResult {
                    id: "t".into(),
                    ok: true,
                    content: json!("a b"),
                },
            ]
        );
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        assert_eq!(arm.session_id().as_deref(), Some("s-2"));
        let (events, _) = turn(&*arm, &context, "again").await;
        assert_eq!(events[1], text("you said again"));
        let exit = arm.stop().await.expect("the last process");
        assert_eq!(exit.status.code(), Some(0));
        let args = fixture.file("args");
        let flags = "--model m --print --output-format stream-json --verbose";
        assert_eq!(args, format!("{flags} \n{flags} --resume s-2 \n"));
    }
}

const GEMINI: &str = r#"
say '{"type":"init","session_id":"g-1","model":"x"}'
say "{\"type\":\"message\",\"role\":\"user\",\"content\":\"$prompt\"}"
say '{"type":"message","role":"assistant","content":"one ","delta":true}'
say '{"type":"message","role":"assistant","content":"two","delta":true}'
say '{"type":"error","severity":"warning","message":"getting slow"}'
say '{"type":"result","status":"success","stats":{}}'
"#;

#[tokio::test]
async fn many_warnings_are_summarized() {
    let script = r#"
say '{"type":"init","session_id":"g-1","model":"x"}'
n=0
while [ $n -lt 50 ]; do
    n=$((n + 1))
    say '{"type":"error","severity":"warning","message":"getting slow"}'
done
say '{"type":"result","status":"success","stats":{}}'
"#;
    let fixture = fixture("gemini-stream-json", script);
    let (arm, context) = arm(&fixture);
    ready(&*arm, None).await;
    for turns in 1..=2 {
        let (_, end) = turn(&*arm, &context, "hello").await;
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        let warnings = fixture.observer.warnings();
        assert_eq!(warnings.len(), turns * 6, "{warnings:?}");
        let last = warnings.last().expect("a count");
        assert!(last.contains("50 warnings"), "{last}");
    }
    arm.stop().await;
}

#[tokio::test]
async fn gemini_resumes_the_given_session() {
    let fixture = fixture("gemini-stream-json", GEMINI);
    let (arm, context) = arm(&fixture);
    assert_eq!(ready(&*arm, Some("g-0")).await, "g-0");
    let (events, end) = turn(&*arm, &context, "hello").await;
    assert_eq!(events, [text("one "), text("two")]);
    assert_eq!(end.expect("an end"), StopReason::EndTurn);
    assert_eq!(fixture.observer.warnings(), ["agent_warning: getting slow"]);
    arm.stop().await;
    let args = fixture.file("args");
    assert_eq!(
        args,
        "--model m --output-format stream-json --resume g-0 \n"
    );
}

#[tokio::test]
async fn a_large_prompt_is_passed_on_stdin() {
    let script =
        r#"say "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"${#prompt} bytes\"}""#;
    let fixture = fixture("claude-stream-json", script);
    let (arm, context) = arm(&fixture);
    ready(&*arm, None).await;
    let (events, _) = turn(&*arm, &context, &"x".repeat(300_000)).await;
    assert_eq!(events, [text("300000 bytes")]);
    arm.stop().await;
}

#[tokio::test]
async fn errors_invalid_output_and_crashes() {
    let script = r#"case $prompt in
    error) say '{"type":"result","subtype":"success","is_error":true,"result":"no credit"}' ;;
    odd) say 'Welcome!'; say '{"type":"news","a":1}'; say '{"type":"result","subtype":"success","result":"fine"}' ;;
    evil) say '{"type":"system","subtype":"init","session_id":"--yolo"}'; say '{"type":"result","subtype":"success","result":"x"}' ;;
    long) head -c 17000000 /dev/zero | tr '\0' x; echo ;;
    early) exec 0<&-; say '{"type":"result","subtype":"success","result":"early"}' ;;
    *) say '{"type":"assistant","message":{"content":[{"type":"text","text":"a"}]}}'; echo 'out of memory' >&2; exit 9 ;;
    esac"#;
    let fixture = fixture("claude-stream-json", script);
    let (arm, context) = arm(&fixture);
    ready(&*arm, None).await;
    let fault = turn(&*arm, &context, "error").await.1.expect_err("failed");
    assert_eq!(fault.code, Code::TurnFailed);
    assert!(fault.message.contains("no credit"), "{fault}");
    let (events, end) = turn(&*arm, &context, "odd").await;
    assert_eq!(events, [text("fine")]);
    end.expect("an end");
    let warnings = fixture.observer.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("`Welcome!`"), "{warnings:?}");
    turn(&*arm, &context, "evil").await.1.expect("an end");
    assert_eq!(arm.session_id(), None, "a flag is not a session id");
    let fault = turn(&*arm, &context, "long").await.1.expect_err("too long");
    assert_eq!(fault.code, Code::ProtocolViolation);
    let (events, end) = turn(&*arm, &context, "die").await;
    assert_eq!(events, [text("a")]);
    let fault = end.expect_err("dead");
    assert_eq!(fault.code, Code::AgentExited);
    assert!(
        fault
            .message
            .contains("status 9 during the turn; stderr of the agent:\n    out of memory"),
        "{fault}"
    );
    let (events, _) = turn(&*arm, &context, "early").await;
    assert_eq!(events, [text("early")]);
    let fault = arm.open(&open(Some("--yolo"))).await.expect_err("refused");
    assert_eq!(fault.code, Code::SessionUnknown);
    arm.stop().await;
}

/// SIGINT is sent first. A process that ignores it is killed step by step before the next turn.
#[tokio::test]
async fn a_canceled_turn_ends() {
    let script = r#"case $prompt in
    polite) trap 'echo heard > int; exit 0' INT ;;
    deaf) trap '' INT ;;
    *) say '{"type":"result","subtype":"success","result":"next"}'; exit ;;
    esac
    say '{"type":"assistant","message":{"content":[{"type":"text","text":"begun"}]}}'
    while :; do sleep 0.05; done"#;
    let fixture = fixture("claude-stream-json", script);
    let (arm, context) = arm(&fixture);
    ready(&*arm, None).await;
    for prompt in ["polite", "deaf"] {
        let (events, end) = turn_with_events(&*arm, &context, prompt, |_| {
            let arm = &*arm;
            async move { arm.cancel().await.expect("cancelled") }
        })
        .await;
        assert_eq!(events, [text("begun")], "{prompt}");
        assert_eq!(end.expect("an end"), StopReason::Cancelled, "{prompt}");
    }
    let (events, _) = turn(&*arm, &context, "next").await;
    assert_eq!(events, [text("next")]);
    assert_eq!(fixture.file("int"), "heard\n");
    arm.stop().await;
}

#[tokio::test]
async fn keys_of_the_manifest_are_checked() {
    let fixture = AgentFixture::new("", &fields("cursor-json"));
    let fault = proprietary(fixture.context(), fixture.spec(&[]), fixture.broker.clone());
    let fault = fault.err().expect("refused");
    assert_eq!(fault.code, Code::ManifestInvalid);
    assert!(
        fault
            .message
            .contains("`claude-stream-json` or `gemini-stream-json`"),
        "{fault}"
    );
}

/// A missing program is reported before the first turn.
#[tokio::test]
async fn a_missing_program_fails_the_handshake() {
    let fixture = fixture("claude-stream-json", "");
    let mut spec = fixture.spec(&[]);
    spec.argv = vec!["no-such-agent".into()];
    let arm = proprietary(fixture.context(), spec, fixture.broker.clone()).expect("an arm");
    let fault = arm.handshake().await.expect_err("refused");
    assert_eq!(fault.code, Code::ProgramNotFound);
}

/// The agent may not have stored a session whose only turn was canceled.
#[tokio::test]
async fn a_lost_session_is_restarted() {
    let script = r#"case "$*" in
    *'--resume s-1'*) echo 'No conversation found' >&2; exit 1 ;;
    *'--resume'*) echo 'not this one' >&2; exit 1 ;;
    esac
    say '{"type":"system","subtype":"init","session_id":"s-1"}'
    case $prompt in
    wait) say '{"type":"assistant","message":{"content":[{"type":"text","text":"begun"}]}}'; sleep 60 ;;
    *) say '{"type":"result","subtype":"success","result":"anew","session_id":"s-2"}' ;;
    esac"#;
    let fixture = fixture("claude-stream-json", script);
    let (arm, context) = arm(&fixture);
    ready(&*arm, None).await;
    turn_with_events(&*arm, &context, "wait", |_| {
        let arm = &*arm;
        async move { arm.cancel().await.expect("cancelled") }
    })
    .await
    .1
    .expect("an end");
    assert_eq!(arm.session_id().as_deref(), Some("s-1"));
    let (events, end) = turn(&*arm, &context, "go").await;
    end.expect("an end");
    assert_eq!(events, [text("anew")]);
    let warnings = fixture.observer.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("No conversation found"),
        "{warnings:?}"
    );
    // A session with a complete turn is not replaced.
    let fault = turn(&*arm, &context, "go").await.1.expect_err("refused");
    assert_eq!(fault.code, Code::AgentExited);
    assert!(fault.message.contains("not this one"), "{fault}");
    arm.stop().await;
}
