//! npm adapters and entry modules of CLI bundles with a real Node. Node is not installed everywhere, so
//! these tests are ignored by default; `tests/npm/run` runs them.
#![cfg(target_os = "linux")]

mod entry;
#[path = "../runtime/arms/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use std::sync::Arc;

use agentproto_runtime::arm::permissions::{Answer, Permissions};
use agentproto_runtime::arm::{Arm, EventSink, proprietary};
use agentproto_runtime::context::Context;
use agentproto_runtime::{Code, ContextSize, StopReason, StreamEvent};
use serde_json::json;

use fixture::{AgentFixture, open, ready, text, thought, turn, turn_with_events};

const FIELDS: &str = "protocol: proprietary\nadapter: '@fake/adapter'\n\
    capabilities: { streaming: true }\n\
    metadata: { agentproto: { adapter_path: ./adapter } }\n";

/// The events of all turns in one queue; `play(prompt, say, client)` produces the events of one
/// turn.
const QUEUE: &str = r#"
class Queue {
  items = []; wake = null; over = false;
  say = (event) => { this.items.push(event); this.wake?.(); };
  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.items.length) yield this.items.shift();
      if (this.over) return;
      await new Promise((done) => (this.wake = done));
    }
  }
}
"#;

fn fixture(module: &str) -> AgentFixture {
    let fixture = AgentFixture::new("", FIELDS);
    fixture.write("bundle/adapter/package.json", r#"{"name":"@fake/adapter","version":"1.0.0","type":"module","exports":{".":{"types":"./x.d.ts","import":"./index.js"}}}"#);
    fixture.write("bundle/adapter/index.js", &format!("{QUEUE}\n{module}"));
    fixture
}

fn arm(fixture: &AgentFixture) -> (Box<dyn Arm>, Arc<Context>) {
    let context = fixture.context();
    let spec = fixture.spec(&["--agent"]);
    let arm = proprietary(Arc::clone(&context), spec, fixture.broker.clone());
    (arm.expect("an arm"), context)
}

const FACTORY: &str = r#"
export function createAgentCliClient(definition) {
  const queue = new Queue();
  const open = new Map();
  return {
    async connect(options) {
      console.log("noise on standard output");
      this.sessionId = options.resumeSessionId ?? "s-1";
      this.words = `${definition.id} ${definition.command.at(-1)} ${options.capabilities.streaming} ${options.cwd === process.cwd()} ${options.env.PATH !== undefined}`;
    },
    async send(turnId, message) {
      process.stdout.write("more noise\n");
      const say = queue.say;
      if (message === "wait") return say({ type: "text-delta", text: "begun" });
      if (message === "throw") throw new Error("no such model");
      if (message === "die") { say({ type: "text-delta", text: "a" }); return setTimeout(() => { console.error("last words"); process.exit(5); }, 10); }
      if (message === "ask") {
        say({ type: "agent-prompt", id: "q", message: "May I?", options: ["allow", "reject"] });
        return open.set("q", (answer) => { say({ type: "text-delta", text: JSON.stringify(answer) }); say({ type: "turn-end", reason: "end_turn" }); });
      }
      if (message === "odd") return say({ type: "usage", tokens: 3 });
      if (message === "big") return say({ type: "tool-call", id: "1", name: "n", args: { n: 3n } });
      say({ type: "text-delta", text: this.words });
      say({ type: "thought", text: "hm" });
      say({ type: "tool-call", id: "1", name: "n", kind: "read", args: { a: 1 } });
      say({ type: "tool-result", id: "1", ok: false, content: "c" });
      say({ type: "turn-end", reason: "end_turn" });
    },
    events: () => queue,
    async cancel(turnId) { queue.say({ type: "turn-end", reason: "cancelled" }); },
    async answer(id, answer) { open.get(id)(answer); },
    async close() { queue.over = true; queue.wake?.(); },
  };
}
"#;

fn all(first: &str) -> Vec<StreamEvent> {
    vec![
        text(first),
        thought("hm"),
        StreamEvent::ToolCall {
            id: "1".into(),
            name: "n".into(),
            kind: Some("read".into()),
            args: json!({"a": 1}),
        },
        StreamEvent::ToolResult {
            id: "1".into(),
            ok: false,
            content: json!("c"),
        },
    ]
}

#[tokio::test]
#[ignore = "needs node"]
async fn a_factory_with_and_without_a_sandbox() {
    agentproto_suites::proves!("A45-CONF-05");
    for sandboxed in [false, true] {
        let mut fixture = fixture(FACTORY);
        if sandboxed {
            fixture = fixture.sandboxed();
        }
        let (arm, context) = arm(&fixture);
        assert_eq!(ready(&*arm, None).await, "s-1");
        for _ in 0..2 {
            let (events, end) = turn(&*arm, &context, "hello").await;
            assert_eq!(events, all("fake --agent true true true"));
            assert_eq!(end.expect("an end"), StopReason::EndTurn);
        }
        arm.close().await.expect("closed");
        let exit = arm.stop().await.expect("an exit");
        assert_eq!(exit.status.code(), Some(0));
    }
}

#[tokio::test]
#[ignore = "needs node"]
async fn cancel_errors_questions_and_crashes() {
    let fixture = fixture(FACTORY).with_permissions(Permissions::Ask);
    let (arm, context) = arm(&fixture);
    assert_eq!(ready(&*arm, Some("old")).await, "old");
    let (events, end) = turn_with_events(&*arm, &context, "wait", |_| {
        let arm = &*arm;
        async move { arm.cancel().await.expect("cancelled") }
    })
    .await;
    assert_eq!(events, [text("begun")]);
    assert_eq!(end.expect("an end"), StopReason::Cancelled);
    let fault = turn(&*arm, &context, "throw").await.1.expect_err("failed");
    assert_eq!(
        (fault.code, fault.message.as_str()),
        (Code::TurnFailed, "no such model")
    );
    let broker = &fixture.broker;
    let (events, end) = turn_with_events(&*arm, &context, "ask", |event| async move {
        if let StreamEvent::AgentPrompt { id, options, .. } = event {
            assert_eq!(options[0].kind.as_deref(), Some("allow_once"));
            assert!(broker.answer(&id, Answer::Choice("allow".into())).is_ok());
        }
    })
    .await;
    end.expect("an end");
    assert_eq!(events[1..], [text(r#"{"optionId":"allow"}"#)]);
    let fault = turn(&*arm, &context, "odd").await.1.expect_err("refused");
    assert_eq!(fault.code, Code::ProtocolViolation);
    assert!(fault.message.contains("unknown variant `usage`"), "{fault}");
    let fault = turn(&*arm, &context, "big").await.1.expect_err("refused");
    assert!(
        fault.message.contains("cannot be written as JSON"),
        "{fault}"
    );
    let (events, end) = turn(&*arm, &context, "die").await;
    assert_eq!(events, [text("a")]);
    let fault = end.expect_err("dead");
    assert_eq!(fault.code, Code::AgentExited);
    assert!(
        fault.message.contains("status 5 during the turn"),
        "{fault}"
    );
    assert!(fault.message.contains("last words"), "{fault}");
}

/// The format of the reference implementation: `kind`, one stream per turn, and an error followed
/// by a turn end.
const REFERENCE: &str = r#"
let queue = new Queue();
const all = (sessionId) => [
  { kind: "plan", sessionId, entries: [] },
  { kind: "plan", sessionId, entries: [{ content: "look", priority: "high", status: "completed" }] },
  { kind: "text-delta", sessionId, text: "a" },
  { kind: "thought", sessionId, text: "hm" },
  { kind: "tool-call", sessionId, toolCallId: "1", toolName: "n", arguments: { a: 1 } },
  { kind: "tool-result", sessionId, toolCallId: "1", result: "c", isError: true },
  { kind: "usage_update", sessionId, size: 20, used: 10, cost: { amount: 0.5, currency: "EUR" } },
  { kind: "usage_update", sessionId, size: "?", cost: 7 },
];
export const myAdapter = {
  sessionId: "r-1",
  async connect() {},
  async send(turnId, message) {
    if (message === "fail") {
      queue.say({ kind: "error", error: { code: -32000, message: "overloaded", data: { retry: 1 } } });
      queue.say({ kind: "turn-end", sessionId: "r-1", reason: "error" });
      return;
    }
    if (message === "limit") return queue.say({ kind: "turn-end", sessionId: "r-1", reason: "max_turns" });
    for (const event of all("r-1")) queue.say(event);
    queue.say({ kind: "turn-end", sessionId: "r-1", reason: "completed" });
  },
  async *events() {
    for await (const event of queue) {
      yield event;
      if (event.kind === "turn-end") return;
    }
  },
  async cancel() {},
  async close() {},
};
"#;

#[tokio::test]
#[ignore = "needs node"]
async fn the_format_of_the_reference_implementation() {
    let fixture = fixture(REFERENCE);
    let (arm, context) = arm(&fixture);
    assert_eq!(ready(&*arm, None).await, "r-1");
    for round in 0..2 {
        let (events, end) = turn(&*arm, &context, "go").await;
        assert_eq!(end.expect("an end"), StopReason::EndTurn);
        let mut wanted = all("a");
        if let StreamEvent::ToolCall { kind, .. } = &mut wanted[2] {
            *kind = None;
        }
        let step = json!([{ "content": "look", "priority": "high", "status": "completed" }]);
        let step = serde_json::from_value(step).expect("a plan");
        wanted.insert(0, StreamEvent::plan(step).expect("an event"));
        assert_eq!(events, wanted, "{round}");
        let fault = turn(&*arm, &context, "fail").await.1.expect_err("failed");
        assert_eq!(
            (fault.code, fault.message.as_str()),
            (Code::TurnFailed, "overloaded")
        );
        assert_eq!(
            *fault.details,
            json!({"code": "-32000", "details": {"retry": 1}})
        );
        let end = turn(&*arm, &context, "limit").await.1;
        assert_eq!(end.expect("an end"), StopReason::MaxTurnRequests);
    }
    // The context and the cost belong to the end of a turn.
    let (sender, mut events) = tokio::sync::mpsc::channel(64);
    let sink = EventSink::new(sender, Arc::clone(&context.audit));
    arm.turn("go", sink.clone()).await.expect("an end");
    let report = sink.take_usage();
    assert_eq!(report.context, Some(ContextSize { used: 10, size: 20 }));
    assert_eq!(report.cost.map(|cost| cost.amount), Some(0.5));
    assert!(events.recv().await.is_some());
    arm.close().await.expect("one end for each turn");
    arm.stop().await;
}

#[tokio::test]
#[ignore = "needs node"]
async fn invalid_packages() {
    for (module, said) in [
        (
            "export const x = 1;",
            "exports neither createAgentCliClient nor",
        ),
        (
            "export const createAgentCliClient = () => ({});",
            "did not return an AgentCliClient",
        ),
        ("throw new Error('at the top');", "at the top"),
        (
            "export default { connect() { throw new Error('no login'); }, send() {}, cancel() {}, close() {} };",
            "no login",
        ),
        ("syntax error here", "Unexpected"),
    ] {
        let fixture = fixture(module);
        let (arm, _) = arm(&fixture);
        arm.handshake().await.expect("started");
        let fault = arm.open(&open(None)).await.expect_err("refused");
        assert_eq!(fault.code, Code::AdapterUnavailable, "{fault}");
        assert!(fault.message.contains(said), "{module}: {fault}");
        arm.stop().await;
    }
    let fixture = fixture("");
    fixture.write("bundle/adapter/package.json", r#"{"main":"../../evil.js"}"#);
    let (arm, _) = arm(&fixture);
    arm.handshake().await.expect("started");
    let fault = arm.open(&open(None)).await.expect_err("refused");
    assert!(
        fault.message.contains("points outside the package"),
        "{fault}"
    );
    arm.stop().await;
}
