//! The protocol arms against the mock agents of this binary, in their sandbox.

use std::ffi::OsString;
use std::sync::Arc;

use agentproto_runtime::arm::mcp::{Mcp, McpTurnConfig};
use agentproto_runtime::arm::permissions::Permissions;
use agentproto_runtime::arm::{Arm, LaunchSpec, proprietary};
use agentproto_runtime::context::Context;
use agentproto_runtime::{Code, StopReason, StreamEvent};

use crate::arms::fixture::{AgentFixture, ready, turn, turn_with_events};

fn fixture() -> AgentFixture {
    AgentFixture::new("", "").sandboxed()
}

/// The mock agent's command line, optionally with another scenario.
fn spec(context: &Context, scenario: Option<&str>) -> LaunchSpec {
    let agent = context.bundle.agent().expect("an agent");
    let binary = OsString::from(env!("CARGO_BIN_EXE_agentproto"));
    let args = agent.bin_args().map(OsString::from);
    let env = scenario.map(|name| ("MOCK_SCENARIO".into(), name.into()));
    LaunchSpec {
        argv: [binary].into_iter().chain(args).collect(),
        env: env.into_iter().collect(),
    }
}

fn mcp(fixture: &AgentFixture, scenario: Option<&str>) -> (Box<dyn Arm>, Arc<Context>) {
    let context = fixture.mock("mock-mcp");
    let keys = McpTurnConfig::from_manifest(&context.bundle).expect("keys");
    let spec = spec(&context, scenario);
    let arm = Mcp::new(Arc::clone(&context), spec, fixture.broker.clone(), keys);
    (Box::new(arm), context)
}

fn repl(fixture: &AgentFixture, scenario: Option<&str>) -> (Box<dyn Arm>, Arc<Context>) {
    let context = fixture.mock("mock-repl");
    let spec = spec(&context, scenario);
    let arm = proprietary(Arc::clone(&context), spec, fixture.broker.clone());
    (arm.expect("an arm"), context)
}

type Make = fn(&AgentFixture, Option<&str>) -> (Box<dyn Arm>, Arc<Context>);
const BOTH: [Make; 2] = [mcp, repl];

fn joined_text(events: &[StreamEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        StreamEvent::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// A45-SESS-07: a new process continues the session of an earlier one.
#[tokio::test]
async fn sessions_survive_the_process() {
    agentproto_suites::proves!("A45-SESS-07");
    for make in BOTH {
        let fixture = fixture();
        let (arm, context) = make(&fixture, None);
        ready(&*arm, None).await;
        let (events, end) = turn(&*arm, &context, "first").await;
        assert_eq!(joined_text(&events), "You said: first");
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        turn(&*arm, &context, "second").await.1.expect("an end");
        let id = arm.session_id().expect("an id");
        arm.close().await.expect("closed");
        arm.stop().await;

        let (arm, context) = make(&fixture, None);
        assert_eq!(ready(&*arm, Some(&id)).await, id);
        let (events, _) = turn(&*arm, &context, "what did I say before?").await;
        let words = joined_text(&events);
        assert!(words.contains("first | second"), "{words}");
        arm.stop().await;
    }
}

/// The turn ends and the conversation continues, under a new id if the agent has lost the session.
#[tokio::test]
async fn a_conversation_continues_after_a_canceled_turn() {
    for make in BOTH {
        let fixture = fixture();
        let (arm, context) = make(&fixture, None);
        ready(&*arm, None).await;
        let (events, end) = turn_with_events(&*arm, &context, "be slow", |_| {
            let arm = &*arm;
            async move { arm.cancel().await.expect("cancelled") }
        })
        .await;
        assert!(!events.is_empty());
        assert_eq!(end.expect("an end"), StopReason::Cancelled);
        assert!(arm.session_id().is_some());
        let (events, end) = turn(&*arm, &context, "hello").await;
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        assert_eq!(joined_text(&events), "You said: hello");
        let warnings = fixture.observer.warnings();
        let is_session_warning =
            |w: &String| w.contains("the session of the canceled turn is gone");
        assert!(
            warnings.iter().all(is_session_warning) && warnings.len() < 2,
            "{warnings:?}"
        );
        arm.stop().await;
    }
}

#[tokio::test]
async fn a_permission_is_granted_or_denied() {
    for (permissions, words) in [
        (Permissions::Allow, "You allowed it."),
        (Permissions::Deny, "You did not allow it."),
    ] {
        let fixture = fixture().with_permissions(permissions);
        let (arm, context) = mcp(&fixture, None);
        ready(&*arm, None).await;
        let (events, _) = turn(&*arm, &context, "ask for permission").await;
        assert_eq!(joined_text(&events), words);
        let asked = |event: &StreamEvent| matches!(event, StreamEvent::AgentPrompt { .. });
        assert_eq!(events.iter().filter(|e| asked(e)).count(), 1, "{events:?}");
        arm.stop().await;
    }
}

#[tokio::test]
async fn agent_failures_end_the_turn() {
    for make in BOTH {
        for (scenario, code) in [
            ("crash", Code::AgentExited),
            ("killed", Code::AgentExited),
            ("half-line", Code::AgentExited),
            ("error", Code::TurnFailed),
        ] {
            let fixture = fixture();
            let (arm, context) = make(&fixture, Some(scenario));
            ready(&*arm, None).await;
            let fault = turn(&*arm, &context, "hello").await.1;
            assert_eq!(fault.expect_err("a fault").code, code, "{scenario}");
            arm.stop().await;
        }
        for scenario in [
            "banner",
            "garbage",
            "invalid-utf8",
            "answer-twice",
            "stderr-flood",
        ] {
            let fixture = fixture();
            let (arm, context) = make(&fixture, Some(scenario));
            ready(&*arm, None).await;
            let (_, end) = turn(&*arm, &context, "hello").await;
            assert_eq!(end.expect("an end"), StopReason::EndTurn, "{scenario}");
            assert!(fixture.observer.warnings().len() <= 1, "{scenario}");
            arm.stop().await;
        }
    }
}

#[tokio::test]
async fn stop_reasons_are_passed_on() {
    for (prompt, reason) in [
        ("max_tokens", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
        ("max_turn_requests", StopReason::MaxTurnRequests),
    ] {
        for make in BOTH {
            let fixture = fixture();
            let (arm, context) = make(&fixture, Some("stop-reasons"));
            ready(&*arm, None).await;
            let (_, end) = turn(&*arm, &context, prompt).await;
            assert_eq!(end.expect("an end"), reason, "{prompt}");
            arm.stop().await;
        }
    }
}

/// A turn that is canceled before it runs still ends, and the next one works.
#[tokio::test]
async fn a_turn_can_be_canceled_before_it_runs() {
    for make in BOTH {
        let fixture = fixture();
        let (arm, context) = make(&fixture, None);
        ready(&*arm, None).await;
        arm.cancel().await.expect("cancelled");
        let (events, end) = turn(&*arm, &context, "be slow").await;
        assert_eq!(events, []);
        assert_eq!(end.expect("an end"), StopReason::Cancelled);
        let (events, _) = turn(&*arm, &context, "x").await;
        assert_eq!(joined_text(&events), "You said: x");
        arm.stop().await;
    }
}

/// Dropping an arm during a turn leaves no process behind.
#[tokio::test]
async fn a_dropped_arm_leaves_no_process() {
    for make in BOTH {
        let fixture = fixture();
        let (arm, context) = make(&fixture, None);
        ready(&*arm, None).await;
        let marker = fixture.path("work").display().to_string();
        let (sink, mut events) = tokio::sync::mpsc::channel(8);
        let sink = agentproto_runtime::arm::EventSink::new(sink, Arc::clone(&context.audit));
        let mut playing = arm.turn("be slow", sink);
        tokio::select! {
            _ = &mut playing => panic!("the slow turn has ended"),
            event = events.recv() => assert!(event.is_some()),
        }
        assert!(works_in(&marker), "no agent runs in {marker}");
        drop(playing);
        drop(arm);
        while works_in(&marker) {
            tokio::task::yield_now().await;
        }
    }
}

/// Whether a process in any sandbox has this working directory.
fn works_in(dir: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    processes
        .filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok())
        .any(|cwd| cwd.as_os_str() == dir)
}
