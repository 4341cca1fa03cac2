//! Sessions, and the context carried from turn to turn (A45-SESS-*, A45-CONT-*).

use std::sync::Arc;

use super::place::{Place, allowing, collect, with_option};
use agentproto_runtime::agent::{Agent, AgentOptions};
use agentproto_runtime::continuation::{Exchange, Pins, Running, TurnRequest};
use agentproto_runtime::observe::Stage;
use agentproto_runtime::{Code, StreamEvent};

fn by(strategy: &str) -> AgentOptions {
    let mut options = allowing();
    options.choices.continuation = Some(strategy.to_owned());
    options
}

async fn text(mut running: Running) -> String {
    let mut text = String::new();
    while let Some(event) = running.next().await {
        if let StreamEvent::TextDelta { text: more } = event {
            text.push_str(&more);
        }
    }
    text
}

async fn say(
    pins: &Pins,
    agent: &Agent,
    message: &str,
    change: impl Fn(&mut TurnRequest),
) -> String {
    let mut ask = TurnRequest {
        message: message.to_owned(),
        conversation: "c1".into(),
        operator: "o1".into(),
        ..TurnRequest::default()
    };
    change(&mut ask);
    text(pins.send(agent, ask).await.expect("sent")).await
}

const BEFORE: &str = "what did I say before?";

#[tokio::test]
async fn turns_share_a_session_and_run_one_at_a_time() {
    agentproto_suites::proves!("A45-SESS-04", "A45-API-02");
    let place = Place::new();
    let (agent, _) = place.agent("mock-acp", allowing()).expect("loaded");
    let session = agent.start().await.expect("started");
    let mut turn = session.send("apple").expect("sent");
    let busy = session.send("pear").err().expect("only one turn at a time");
    assert_eq!(busy.code, Code::SessionBusy);
    collect(&mut turn).await;
    let (text, _) = collect(&mut session.send(BEFORE).expect("sent")).await;
    assert!(text.contains("apple"), "{text}");
    session.close().await.expect("closed");
    assert_eq!(
        session.send("x").err().expect("closed").code,
        Code::SessionClosed
    );
    session.close().await.expect("closing twice is allowed");
}

#[tokio::test]
async fn max_turns_is_enforced() {
    agentproto_suites::proves!("A45-SESS-03");
    let place = Place::new();
    let dir = place.changed("brief", "AGENT-CLI.md", |t| {
        t.replace(
            "  idle_timeout_ms: 600000\n  context",
            "  max_turns: 2\n  context",
        )
    });
    let (agent, _) = place
        .agent(dir.to_str().expect("a path"), allowing())
        .expect("loaded");
    let session = agent.start().await.expect("started");
    for _ in 0..2 {
        collect(&mut session.send("x").expect("sent")).await;
    }
    assert_eq!(
        session.send("x").err().expect("spent").code,
        Code::TurnsSpent
    );
    session.close().await.expect("closed");
}

#[tokio::test]
async fn an_idle_session_is_closed() {
    let place = Place::new();
    let dir = place.changed("sleepy", "AGENT-CLI.md", |t| {
        t.replace(
            "  idle_timeout_ms: 600000\n  context",
            "  idle_timeout_ms: 1000\n  context",
        )
    });
    let (agent, watch) = place
        .agent(dir.to_str().expect("a path"), allowing())
        .expect("loaded");
    let session = agent.start().await.expect("started");
    // A turn that is longer than the idle timeout is not idle.
    let (text, _) = collect(&mut session.send("be slow").expect("sent")).await;
    assert!(text.contains("tick"), "{text}");
    while !session.is_closed() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    session.close().await.expect("already closed");
    assert!(watch.warned("session_idle"));
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn strategy_none_carries_no_context() {
    agentproto_suites::proves!("A45-CONT-02", "A45-CONT-03", "A45-CONT-11");
    let place = Place::new();
    let (agent, _) = place.agent("mock-acp", by("none")).expect("loaded");
    let pins = Pins::default();
    say(&pins, &agent, "apple", |_| {}).await;
    let said = say(&pins, &agent, BEFORE, |_| {}).await;
    assert!(!said.contains("apple"), "{said}");
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pinned_session_has_one_process_per_key() {
    agentproto_suites::proves!("A45-CONT-02", "A45-CONT-04", "A45-CONT-13", "A45-CONT-14");
    let place = Place::new();
    let (agent, _) = place
        .agent("mock-acp", by("pinned-session"))
        .expect("loaded");
    let pins = Pins::default();
    say(&pins, &agent, "apple", |_| {}).await;
    assert!(say(&pins, &agent, BEFORE, |_| {}).await.contains("apple"));
    // Another conversation or operator gets another process.
    let other = say(&pins, &agent, BEFORE, |a| a.conversation = "c2".into()).await;
    assert!(!other.contains("apple"), "{other}");
    let other = say(&pins, &agent, BEFORE, |a| a.operator = "o2".into()).await;
    assert!(!other.contains("apple"), "{other}");
    // Fields that are not part of the key do not matter.
    let same = say(&pins, &agent, BEFORE, |a| a.user = "somebody".into()).await;
    assert!(same.contains("apple"), "{same}");
    assert_eq!(pins.len(), 3);
    // With another patch, the old process is closed with a warning.
    let mut options = with_option("loud", "true");
    options.choices.continuation = Some("pinned-session".into());
    let (loud, watch) = place.agent("mock-acp", options).expect("loaded");
    let fresh = say(&pins, &loud, BEFORE, |_| {}).await;
    assert!(
        !fresh.contains("apple") && watch.warned("pin_replaced"),
        "{fresh}"
    );
    assert_eq!(pins.len(), 3);
    pins.close().await.expect("closed");
    assert!(pins.is_empty());
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pinned_process_is_evicted_when_idle() {
    agentproto_suites::proves!("A45-CONT-05", "A45-CONT-12");
    let place = Place::new();
    let dir = place.changed("pinned", "AGENT-CLI.md", |t| {
        t.replace(
            "  pinned_session:\n    idle_timeout_ms: 600000",
            "  pinned_session:\n    idle_timeout_ms: 1000",
        )
    });
    let (agent, _) = place
        .agent(dir.to_str().expect("a path"), by("pinned-session"))
        .expect("loaded");
    let pins = Pins::default();
    say(&pins, &agent, "apple", |_| {}).await;
    while !pins.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!say(&pins, &agent, BEFORE, |_| {}).await.contains("apple"));
    pins.close().await.expect("closed");
}

#[tokio::test]
async fn two_concurrent_first_messages_share_one_process() {
    let place = Place::new();
    let (agent, watch) = place
        .agent("mock-acp", by("pinned-session"))
        .expect("loaded");
    let pins = Pins::default();
    let ask = || TurnRequest {
        message: "apple".into(),
        conversation: "c1".into(),
        ..TurnRequest::default()
    };
    let (one, other) = tokio::join!(pins.send(&agent, ask()), pins.send(&agent, ask()));
    // The second message uses the process of the first, whether it is busy or not.
    let mut answered = 0;
    for sent in [one, other] {
        match sent {
            Ok(running) => {
                text(running).await;
                answered += 1;
            }
            Err(fault) => assert_eq!(fault.code, Code::SessionBusy),
        }
    }
    assert!(answered > 0);
    let stages = watch.stages.lock().expect("whole").clone();
    let sessions = stages.iter().filter(|s| **s == Stage::Session).count();
    assert_eq!((sessions, pins.len()), (1, 1));
    pins.close().await.expect("closed");
}

#[tokio::test]
async fn a_pinned_session_without_turns_left_is_replaced() {
    let place = Place::new();
    let dir = place.changed("spent", "AGENT-CLI.md", |t| {
        t.replace(
            "  idle_timeout_ms: 600000\n  context",
            "  max_turns: 2\n  context",
        )
    });
    let (agent, watch) = place
        .agent(dir.to_str().expect("a path"), by("pinned-session"))
        .expect("loaded");
    let pins = Pins::default();
    say(&pins, &agent, "apple", |_| {}).await;
    assert!(say(&pins, &agent, BEFORE, |_| {}).await.contains("apple"));
    assert!(!watch.warned("pin_replaced"));
    let fresh = say(&pins, &agent, BEFORE, |_| {}).await;
    assert!(!fresh.contains("apple"), "{fresh}");
    assert!(watch.warned("pin_replaced"));
    assert_eq!(pins.len(), 1);
    pins.close().await.expect("closed");
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn context_carryover_can_be_disabled() {
    agentproto_suites::proves!("A45-SESS-04");
    let place = Place::new();
    let dir = place.changed("forgetful", "AGENT-CLI.md", |t| {
        t.replace("  context_carryover: true", "  context_carryover: false")
    });
    let (agent, watch) = place
        .agent(dir.to_str().expect("a path"), by("pinned-session"))
        .expect("loaded");
    let pins = Pins::default();
    say(&pins, &agent, "apple", |_| {}).await;
    let said = say(&pins, &agent, BEFORE, |_| {}).await;
    assert!(!said.contains("apple"), "{said}");
    assert!(pins.is_empty() && watch.warned("context_not_carried"));
    // A single session then has only one turn.
    let session = agent.start().await.expect("started");
    collect(&mut session.send("apple").expect("sent")).await;
    let spent = session.send(BEFORE).err().expect("no second turn");
    assert_eq!(spent.code, Code::TurnsSpent);
    assert!(spent.message.contains("context_carryover"), "{spent:?}");
    session.close().await.expect("closed");
    assert_eq!(place.survivors(), Vec::<String>::new());
}

#[tokio::test]
async fn a_transcript_precedes_the_message() {
    agentproto_suites::proves!("A45-CONT-02", "A45-CONT-07");
    let place = Place::new();
    let (agent, _) = place.agent("mock-acp", by("transcript")).expect("loaded");
    let pins = Pins::default();
    let said = say(&pins, &agent, "and now?", |ask| {
        ask.history = vec![
            Exchange {
                by_user: true,
                text: "apple".into(),
            },
            Exchange {
                by_user: false,
                text: "pear".into(),
            },
        ];
    })
    .await;
    let at = |word: &str| {
        said.find(word)
            .unwrap_or_else(|| panic!("{word} in {said}"))
    };
    assert!(at("User: apple") < at("Agent: pear") && at("Agent: pear") < at("and now?"));
}

#[test]
fn a_session_is_resumed_in_a_later_run() {
    agentproto_suites::proves!("A45-SESS-07", "A45-CONT-02", "A45-CONT-08");
    let place = Place::new();
    let first = place.run("mock-acp", &["--prompt", "apple"]);
    let id = first.of("aoi:summary")[0]["session_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let second = place.run("mock-acp", &["--resume", &id, "--prompt", BEFORE]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert!(second.text().contains("apple"), "{}", second.stdout);
    assert_eq!(second.of("aoi:summary")[0]["session_id"], id.as_str());
    assert_eq!(second.of("turn-end")[0]["sessionId"], id.as_str());
    assert!(second.of("session").is_empty(), "{}", second.stdout);
    let unknown = place.run("mock-acp", &["--resume", "mock-nobody", "--prompt", "x"]);
    assert_eq!(
        (unknown.code, unknown.error().0.as_str()),
        (64, "SESSION_UNKNOWN")
    );
    let listed = place.run("mock-acp", &["--list-sessions"]);
    assert_eq!(listed.code, 0, "{}", listed.stdout);
    assert!(
        listed
            .of("session")
            .iter()
            .any(|s| s["sessionId"] == id.as_str()),
        "{}",
        listed.stdout
    );
}

#[tokio::test]
async fn two_concurrent_sessions_are_independent() {
    let place = Place::new();
    let (agent, _) = place.agent("mock-acp", allowing()).expect("loaded");
    let agent = Arc::new(agent);
    let one = async |word: &'static str| {
        let session = agent.start().await.expect("started");
        let (text, _) = collect(&mut session.send(word).expect("sent")).await;
        session.close().await.expect("closed");
        text
    };
    let (a, b) = tokio::join!(one("apple"), one("pear"));
    assert_eq!(
        (a.as_str(), b.as_str()),
        ("You said: apple", "You said: pear")
    );
}
