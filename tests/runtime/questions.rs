//! Questions that ask for content, and `run --resume` without a declared strategy.

use super::bench_bundle::Bench;
use super::bench_bundle::pty::Pty;
use super::place::{BINARY, Place, collect};
use agentproto_runtime::agent::AgentOptions;
use agentproto_runtime::arm::permissions::{Answer, Permissions};
use agentproto_runtime::{Code, StreamEvent};
use agentproto_suites::proves;
use serde_json::json;

#[test]
fn a_user_fills_in_a_form_at_the_terminal() {
    proves!("A45-EVT-06");
    let mut bench = Bench::new("");
    let bin = std::path::Path::new(BINARY).parent().expect("a directory");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    bench.set("PATH", &path);
    let scenario = ["run", "mock-acp", "--option", "scenario=elicitation"];
    let mut user = Pty::start(&bench, &[&scenario[..], &["--prompt", "go"]].concat());
    user.expect("Which color, and how many?");
    user.expect("Fill in the form? [Y/n]: ");
    user.send("\n");
    user.expect("color: ");
    user.send("blue\n");
    user.expect("number: ");
    user.send("many\n");
    user.expect("enter an integer");
    user.send("3\n");
    user.expect("3 in blue.");
    assert_eq!(user.finish(), Some(0), "{}", user.seen);
    let mut user = Pty::start(&bench, &[&scenario[..], &["--prompt", "go"]].concat());
    user.expect("Fill in the form? [Y/n]: ");
    user.send("n\n");
    user.expect("You did not say.");
    assert_eq!(user.finish(), Some(0), "{}", user.seen);
}

#[test]
fn without_a_user_a_form_is_declined() {
    let place = Place::new();
    let ran = place.run("mock-acp", &["--prompt", "ask a question"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let prompt = &ran.of("agent-prompt")[0];
    assert_eq!(prompt["message"], "Which color?");
    assert_eq!(prompt["schema"]["required"], json!(["color"]));
    assert_eq!(ran.text(), "You did not say.");
}

#[tokio::test]
async fn content_that_does_not_fit_leaves_the_question_open() {
    proves!("A45-EVT-06");
    for target in ["mock-acp", "mock-mcp"] {
        let place = Place::new();
        let options = AgentOptions {
            permissions: Permissions::Ask,
            ..AgentOptions::default()
        };
        let (agent, _) = place.agent(target, options).expect("loaded");
        let session = agent.start().await.expect("started");
        let mut turn = session.send("ask a question").expect("sent");
        let id = loop {
            match turn.next().await.expect("a question") {
                StreamEvent::AgentPrompt { id, schema, .. } => {
                    assert!(schema.is_some(), "{target}");
                    break id;
                }
                event => assert!(!event.is_last(), "{target}: {event:?}"),
            }
        };
        let wrong = session.respond(&id, Answer::Content(json!({ "color": 7 })));
        assert_eq!(wrong.expect_err("wrong").code, Code::AnswerInvalid);
        let unknown = session.respond("odd", Answer::Declined);
        assert_eq!(unknown.expect_err("unknown").code, Code::QuestionUnknown);
        let right = session.respond(&id, Answer::Content(json!({ "color": "blue" })));
        right.expect("taken");
        let (text, _) = collect(&mut turn).await;
        assert!(text.contains("blue"), "{target}: {text}");
        session.close().await.expect("closed");
    }
}

#[test]
fn a_resumable_agent_can_be_resumed_without_a_declared_strategy() {
    proves!("A45-SESS-07");
    let place = Place::new();
    let dir = place.changed("plain", "AGENT-CLI.md", |text| {
        let from = text.find("continuation:").expect("a block");
        let to = text.find("requires:").expect("a block");
        format!("{}{}", &text[..from], &text[to..])
    });
    let target = dir.to_string_lossy();
    let first = place.run(&target, &["--prompt", "apple"]);
    let id = first.of("aoi:summary")[0]["session_id"].clone();
    let id = id.as_str().expect("an id");
    let second = place.run(
        &target,
        &["--resume", id, "--prompt", "what did I say before?"],
    );
    assert_eq!(second.code, 0, "{}", second.stdout);
    assert!(second.text().contains("apple"), "{}", second.text());
    // An agent that is not resumable is refused.
    let ran = place.run("mock-npm", &["--resume", id, "--prompt", "x"]);
    assert_eq!(
        (ran.code, ran.error().0.as_str()),
        (64, "CONTINUATION_UNSUPPORTED")
    );
}
