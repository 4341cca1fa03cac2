//! Streamed responses, and clients that disconnect.

use agentproto_mock::llm::Dialect;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::llm::client::{certify, connect, parse_answer, post, raw, request, serving};
use crate::llm::dialects::asking;

fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

/// The joined deltas of a stream: text, thought, call arguments.
fn sum(dialect: Dialect, events: &[(String, Value)]) -> (String, String, String) {
    let mut sum = (String::new(), String::new(), String::new());
    let add = |place: &mut String, value: Option<&Value>| {
        *place += value.and_then(Value::as_str).unwrap_or_default();
    };
    for (name, data) in events {
        match dialect {
            Dialect::Anthropic => {
                add(&mut sum.0, data.pointer("/delta/text"));
                add(&mut sum.1, data.pointer("/delta/thinking"));
                add(&mut sum.2, data.pointer("/delta/partial_json"));
            }
            Dialect::Responses => match name.as_str() {
                "response.output_text.delta" => add(&mut sum.0, data.get("delta")),
                "response.reasoning_summary_text.delta" => add(&mut sum.1, data.get("delta")),
                "response.function_call_arguments.delta" => add(&mut sum.2, data.get("delta")),
                _ => {}
            },
            Dialect::Chat => {
                let delta = "/choices/0/delta";
                add(&mut sum.0, data.pointer(&format!("{delta}/content")));
                add(
                    &mut sum.1,
                    data.pointer(&format!("{delta}/reasoning_content")),
                );
                let arguments = format!("{delta}/tool_calls/0/function/arguments");
                add(&mut sum.2, data.pointer(&arguments));
            }
            Dialect::Gemini => {
                let part = &data["candidates"][0]["content"]["parts"][0];
                let place = match part["thought"] == true {
                    true => &mut sum.1,
                    false => &mut sum.0,
                };
                add(place, part.get("text"));
                if let Some(args) = part.pointer("/functionCall/args") {
                    sum.2 += &args.to_string();
                }
            }
        }
    }
    sum
}

#[tokio::test]
async fn every_dialect_streams_thought_and_text() {
    let server = certify().await;
    for (dialect, path, body) in asking("certify:thought", &[], true) {
        let answer = post(&server, &path, &body).await;
        let events = answer.events();
        let (text, thought, _) = sum(dialect, &events);
        assert_eq!(text, "A thought was had.", "{dialect:?}");
        assert_eq!(thought, "The user wants a thought.", "{dialect:?}");
        let last = events.last().expect("events");
        match dialect {
            Dialect::Anthropic => assert_eq!(last.0, "message_stop"),
            Dialect::Responses => assert_eq!(last.0, "response.completed"),
            Dialect::Chat => assert_eq!(last.1, "[DONE]"),
            Dialect::Gemini => assert_eq!(last.1["candidates"][0]["finishReason"], "STOP"),
        }
    }
    let all = server.log().all();
    assert!(all.iter().all(|asked| asked.streamed && asked.finished));
}

#[tokio::test]
async fn every_dialect_streams_a_call() {
    let server = certify().await;
    for (dialect, path, body) in asking("certify:terminal", &["Bash"], true) {
        let answer = post(&server, &path, &body).await;
        let (.., args) = sum(dialect, &answer.events());
        let args: Value = serde_json::from_str(&args).unwrap_or_else(|e| panic!("{e}: {args}"));
        assert_eq!(args["command"], "echo certified", "{dialect:?}");
        assert!(answer.body.contains("\"Bash\""), "{dialect:?}");
    }
}

#[tokio::test]
async fn anthropic_events_are_in_the_documented_order() {
    let server = serving("- reply: [{thought: t}, {text: [a, b]}, {call: {tool: T}}]\n").await;
    let body = json!({"model": "m", "stream": true, "messages": [], "tools": [{"name": "T"}]});
    let events = post(&server, "/v1/messages", &body).await.events();
    let (start, delta, stop) = (
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    );
    let expected = [
        "message_start",
        "ping",
        start,
        delta,
        delta,
        stop,
        start,
        delta,
        delta,
        stop,
        start,
        delta,
        stop,
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds(&events), expected);
    for (name, data) in &events {
        assert_eq!(data["type"], name.as_str());
    }
    let indexes: Vec<&Value> = events
        .iter()
        .filter_map(|(_, data)| data.get("index"))
        .collect();
    assert_eq!(indexes, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]);
    assert_eq!(events[13].1["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn responses_events_are_numbered_and_balanced() {
    let server = serving("- reply: [{thought: t}, {text: a}, {call: {tool: T}}]\n").await;
    let tools = json!([{"type": "function", "name": "T"}]);
    let body = json!({"model": "m", "stream": true, "input": "x", "tools": tools});
    let events = post(&server, "/v1/responses", &body).await.events();
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], number);
        assert_eq!(data["type"], name.as_str());
    }
    let of = |kind: &str| events.iter().filter(|(name, _)| name == kind).count();
    assert_eq!(of("response.output_item.added"), 3);
    assert_eq!(of("response.output_item.done"), 3);
    let (_, last) = events.last().expect("events");
    let items = last["response"]["output"].as_array().expect("items");
    let types: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    assert_eq!(types, ["reasoning", "message", "function_call"]);
    let done = events
        .iter()
        .filter(|(name, _)| name == "response.output_item.done");
    assert!(done.map(|(_, data)| &data["item"]).eq(items));
}

#[tokio::test]
async fn chat_streams_usage_on_request() {
    let server = certify().await;
    let mut body = json!({"model": "m", "stream": true, "messages": []});
    let plain = post(&server, "/v1/chat/completions", &body).await.events();
    assert!(
        plain
            .iter()
            .all(|(_, data)| data.get("usage").is_none_or(Value::is_null))
    );
    body["stream_options"] = json!({"include_usage": true});
    let asked = post(&server, "/v1/chat/completions", &body).await.events();
    let told = asked
        .iter()
        .filter(|(_, data)| data.pointer("/usage/total_tokens").is_some());
    assert_eq!(told.count(), 1);
}

#[tokio::test]
async fn gemini_streams_an_array_without_sse() {
    let server = certify().await;
    let body = json!({"contents": []});
    let answer = post(&server, "/v1beta/models/m:streamGenerateContent", &body).await;
    assert_eq!(answer.json().as_array().expect("an array").len(), 1);
}

#[tokio::test]
async fn a_stream_can_fail_midway() {
    let server = serving("- reply: [{text: half}, {error: {status: 500, message: no}}]\n").await;
    for (dialect, path, body) in asking("x", &[], true) {
        let answer = post(&server, &path, &body).await;
        assert_eq!(answer.status, 200);
        let events = answer.events();
        let (text, ..) = sum(dialect, &events);
        assert_eq!(text, "half", "{dialect:?}");
        let (name, data) = events.last().expect("events");
        let message = match dialect {
            Dialect::Responses => {
                assert_eq!(name, "response.failed");
                &data["response"]["error"]["message"]
            }
            _ => &data["error"]["message"],
        };
        assert_eq!(message, "no", "{dialect:?}");
    }
}

/// A client that disconnects during a stream, or before any output.
#[tokio::test]
async fn a_disconnect_is_noticed() {
    let rules = "- {when: {contains: slow}, reply: [{text: {chunks: [a], every_ms: 3600000, repeat: 2}}]}\n\
                 - {when: {contains: silent}, reply: [{hang: true}]}\n\
                 - {when: {contains: late}, reply: [{delay_ms: 3600000}, {text: b}]}\n";
    let server = serving(rules).await;
    let mut count = 0;
    for prompt in ["slow", "silent", "late"] {
        for stream in [true, false] {
            for (_, path, body) in asking(prompt, &[], stream) {
                let mut client = connect(&server).await;
                let bytes = request("POST", &path, &body.to_string());
                client.write_all(&bytes).await.expect("sent");
                count += 1;
                let all = server.log().until(|all| all.len() == count).await;
                let asked = all.last().expect("asked");
                assert!(!asked.dropped && !asked.finished);
                drop(client);
                let all = server
                    .log()
                    .until(|all| all.last().is_some_and(|asked| asked.dropped))
                    .await;
                assert!(!all.last().expect("asked").finished);
            }
        }
    }
}

#[tokio::test]
async fn chunks_are_sent_one_by_one() {
    let rules = "- reply: [{text: [first]}, {hang: true}]\n";
    let server = serving(rules).await;
    let (_, path, body) = asking("x", &[], true).swap_remove(0);
    let mut client = connect(&server).await;
    let bytes = request("POST", &path, &body.to_string());
    client.write_all(&bytes).await.expect("sent");
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("first") {
        assert!(client.read_buf(&mut read).await.expect("read") > 0);
    }
    assert!(!server.log().all()[0].finished);
}

/// A reply that breaks off has no end, but the server has done what the script requires.
#[tokio::test]
async fn replies_break_off() {
    let rules = "- {when: {contains: cut}, reply: [{cut: true}]}\n\
                 - {when: {contains: garbage}, reply: [{garbage: 'no events'}]}\n";
    let server = serving(rules).await;
    for prompt in ["cut", "garbage"] {
        for stream in [true, false] {
            for (dialect, path, body) in asking(prompt, &[], stream) {
                let text = raw(&server, &request("POST", &path, &body.to_string())).await;
                let all = server.log().all();
                let asked = all.last().expect("asked");
                assert_eq!((asked.rule.as_str(), asked.finished), (prompt, true));
                let broken = prompt == "garbage";
                assert_eq!(text.contains("no events"), broken, "{dialect:?}: {text}");
                for end in ["[DONE]", "message_stop", "response.completed", "STOP"] {
                    assert!(!text.contains(end), "{dialect:?}: {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn connections_are_reused_and_http_1_0_gets_no_chunks() {
    let server = certify().await;
    let body = json!({"model": "m", "messages": []}).to_string();
    let length = body.len();
    let one = format!("POST /v1/messages HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}");
    let two = one.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let text = raw(&server, format!("{one}{two}").as_bytes()).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    let body = json!({"model": "m", "stream": true, "messages": []}).to_string();
    let length = body.len();
    let old = format!("POST /v1/messages HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}");
    let answer = parse_answer(&raw(&server, old.as_bytes()).await);
    assert!(!answer.head.contains("chunked"));
    assert_eq!(answer.events().last().expect("events").0, "message_stop");
}

#[tokio::test]
async fn dropping_the_server_ends_its_connections() {
    let server = serving("- reply: [{hang: true}]\n").await;
    let (_, path, body) = asking("x", &[], true).swap_remove(0);
    let mut client = connect(&server).await;
    let bytes = request("POST", &path, &body.to_string());
    client.write_all(&bytes).await.expect("sent");
    server.log().until(|all| all.len() == 1).await;
    drop(server);
    let mut rest = Vec::new();
    // The connection must end, with or without an error.
    let _ = client.read_to_end(&mut rest).await;
}
