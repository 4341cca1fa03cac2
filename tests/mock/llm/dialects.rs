//! Responses without streaming, and how requests of each dialect are parsed.

use agentproto_mock::llm::{ChatMessage, ChatRole, Dialect, Media};
use serde_json::{Value, json};

use crate::llm::client::{certify, get, post, serving};

const CHAT: &str = "/v1/chat/completions";

/// The same prompt with the same tools in every dialect: path and body.
pub fn asking(text: &str, tools: &[&str], stream: bool) -> Vec<(Dialect, String, Value)> {
    let named = |wrap: &dyn Fn(&str) -> Value| -> Vec<Value> {
        tools.iter().map(|name| wrap(name)).collect()
    };
    let message = json!([{"role": "user", "content": text}]);
    let gemini = match stream {
        true => "/v1beta/models/gemini-m:streamGenerateContent?alt=sse",
        false => "/v1beta/models/gemini-m:generateContent",
    };
    vec![
        (
            Dialect::Anthropic,
            "/v1/messages".to_owned(),
            json!({"model": "gemini-m", "stream": stream, "max_tokens": 9, "messages": message,
                "tools": named(&|name| json!({"name": name, "input_schema": {}}))}),
        ),
        (
            Dialect::Responses,
            "/v1/responses".to_owned(),
            json!({"model": "gemini-m", "stream": stream, "input": message,
                "tools": named(&|name| json!({"type": "function", "name": name}))}),
        ),
        (
            Dialect::Chat,
            CHAT.to_owned(),
            json!({"model": "gemini-m", "stream": stream, "messages": message,
                "tools": named(&|name| json!({"type": "function", "function": {"name": name}}))}),
        ),
        (
            Dialect::Gemini,
            gemini.to_owned(),
            json!({"contents": [{"role": "user", "parts": [{"text": text}]}],
                "tools": [{"functionDeclarations": named(&|name| json!({"name": name}))}]}),
        ),
    ]
}

/// Text, thought, calls and stop reason of a response without streaming.
fn told(dialect: Dialect, answer: &Value) -> (String, String, Vec<(String, Value)>, String) {
    let of = |pointer: &str| answer.pointer(pointer).cloned().unwrap_or(Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    let parsed = |value: &Value| serde_json::from_str(&text(value)).expect("arguments");
    let stop = match dialect {
        Dialect::Anthropic => {
            for block in of("/content").as_array().expect("content") {
                said += &text(&block["text"]);
                thought += &text(&block["thinking"]);
                if block["type"] == "tool_use" {
                    calls.push((text(&block["name"]), block["input"].clone()));
                }
            }
            of("/stop_reason")
        }
        Dialect::Responses => {
            for item in of("/output").as_array().expect("output") {
                said += &text(&item["content"][0]["text"]);
                thought += &text(&item["summary"][0]["text"]);
                if item["type"] == "function_call" {
                    calls.push((text(&item["name"]), parsed(&item["arguments"])));
                }
            }
            of("/status")
        }
        Dialect::Chat => {
            let message = of("/choices/0/message");
            said += &text(&message["content"]);
            thought += &text(&message["reasoning_content"]);
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let function = &call["function"];
                calls.push((text(&function["name"]), parsed(&function["arguments"])));
            }
            of("/choices/0/finish_reason")
        }
        Dialect::Gemini => {
            for part in of("/candidates/0/content/parts").as_array().expect("parts") {
                match part["thought"] == true {
                    true => thought += &text(&part["text"]),
                    false => said += &text(&part["text"]),
                }
                if let Some(call) = part.get("functionCall") {
                    calls.push((text(&call["name"]), call["args"].clone()));
                }
            }
            of("/candidates/0/finishReason")
        }
    };
    (said, thought, calls, text(&stop))
}

#[tokio::test]
async fn every_dialect_returns_text_and_thought() {
    let server = certify().await;
    for (dialect, path, body) in asking("certify:thought", &[], false) {
        let answer = post(&server, &path, &body).await;
        assert_eq!(answer.status, 200, "{dialect:?}");
        let (said, thought, calls, stop) = told(dialect, &answer.json());
        assert_eq!(said, "A thought was had.", "{dialect:?}");
        assert_eq!(thought, "The user wants a thought.", "{dialect:?}");
        assert!(calls.is_empty());
        let ends = ["end_turn", "completed", "stop", "STOP"];
        assert!(ends.contains(&stop.as_str()), "{dialect:?}: {stop}");
    }
    let all = server.log().all();
    assert_eq!(all.len(), 4);
    for asked in &all {
        assert_eq!(asked.model, "gemini-m");
        assert_eq!(asked.last_user_text(), "certify:thought");
        assert!(asked.finished && !asked.dropped && !asked.streamed);
        assert_eq!(asked.status, 200);
    }
}

#[tokio::test]
async fn a_call_uses_an_offered_tool() {
    let server = certify().await;
    for (dialect, path, body) in asking("certify:terminal", &["other", "exec_command"], false) {
        let answer = post(&server, &path, &body).await;
        let (_, _, calls, stop) = told(dialect, &answer.json());
        let call = ("exec_command".to_owned(), json!({"cmd": "echo certified"}));
        assert_eq!(calls, [call], "{dialect:?}");
        let ends = ["tool_use", "completed", "tool_calls", "STOP"];
        assert!(ends.contains(&stop.as_str()), "{dialect:?}: {stop}");
    }
    for (dialect, path, body) in asking("certify:terminal", &["other"], false) {
        let answer = post(&server, &path, &body).await;
        let (said, _, calls, _) = told(dialect, &answer.json());
        assert_eq!(
            (said.as_str(), calls.len()),
            ("no such tool", 0),
            "{dialect:?}"
        );
    }
    let all = server.log().all();
    assert_eq!(&*all[0].tools, ["other", "exec_command"]);
}

/// Agents use the same names for tools with different arguments.
#[tokio::test]
async fn a_call_uses_arguments_that_the_tool_takes() {
    let server = certify().await;
    let file = json!("/somewhere/certify-notes.txt");
    for (parameters, args) in [
        (json!({"filePath": {}}), json!({"filePath": file})),
        (json!({"path": {}, "offset": {}}), json!({"path": file})),
        (
            json!({"filePath": {"type": "array"}, "path": {"type": "string"}}),
            json!({"path": file}),
        ),
        // No row of the script has this argument, so the first row with the name is used.
        (json!({"uri": {}}), json!({"filePath": file})),
        (json!({}), json!({"filePath": file})),
    ] {
        let schema = json!({"type": "object", "properties": parameters});
        let tools = json!([{"name": "read", "input_schema": schema}]);
        let messages = json!([{"role": "user", "content": "Working directory: /somewhere\n\ncertify:fs_read"}]);
        let body = json!({"model": "m", "max_tokens": 99, "messages": messages, "tools": tools});
        let answer = post(&server, "/v1/messages", &body).await.json();
        let call = &answer["content"][0];
        assert_eq!(call["type"], "tool_use", "{answer}");
        assert_eq!(call["input"], args, "{parameters}");
    }
}

#[tokio::test]
async fn a_prompt_can_ask_for_relative_paths() {
    let server = certify().await;
    let text = "Working directory: /somewhere\n\ncertify:fs_read with relative paths";
    let messages = json!([{"role": "user", "content": text}]);
    let tools = json!([{"name": "Read"}]);
    let body = json!({"model": "m", "max_tokens": 99, "messages": messages, "tools": tools});
    let answer = post(&server, "/v1/messages", &body).await.json();
    let file = json!({"file_path": "./certify-notes.txt"});
    assert_eq!(answer["content"][0]["input"], file);
}

#[tokio::test]
async fn an_element_with_the_text_of_the_user_counts() {
    let server = certify().await;
    for (prompt, expected) in [
        (
            "<user_query>\ncertify:text\n</user_query>",
            "Certified in three chunks.",
        ),
        (
            "<reminder>certify:text</reminder>",
            "Hello from the mock model.",
        ),
    ] {
        let messages = json!([{"role": "user", "content": prompt}]);
        let body = json!({"model": "m", "max_tokens": 99, "messages": messages});
        let answer = post(&server, "/v1/messages", &body).await.json();
        assert_eq!(answer["content"][0]["text"], expected, "{prompt}");
    }
}

#[tokio::test]
async fn a_free_form_tool_gets_text() {
    let server = certify().await;
    let tools = json!([{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}]);
    let body = json!({"model": "m", "input": "certify:fs_write", "tools": tools});
    let answer = post(&server, "/v1/responses", &body).await.json();
    let item = &answer["output"][0];
    assert_eq!(item["type"], "custom_tool_call");
    let input = item["input"].as_str().expect("text");
    assert!(input.starts_with("*** Begin Patch\n"), "{input}");
    assert_eq!(&*server.log().all()[0].tools, ["apply_patch"]);
}

/// The history of a call and its result in each dialect.
fn histories() -> Vec<(Dialect, &'static str, Value)> {
    let reminder = "<system-reminder>\nbe good\n</system-reminder>";
    vec![
        (
            Dialect::Anthropic,
            "/v1/messages",
            json!({"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [
                {"role": "user", "content": [{"type": "text", "text": "certify:tool"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "1", "name": "Glob", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "a.txt"},
                    {"type": "text", "text": reminder}]},
            ]}),
        ),
        (
            Dialect::Responses,
            "/responses",
            json!({"model": "m", "instructions": "s", "input": [
                {"type": "message", "role": "user",
                    "content": [{"type": "input_text", "text": "certify:tool"}]},
                {"type": "function_call", "call_id": "1", "name": "Glob", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "1", "output": "a.txt"},
            ]}),
        ),
        (
            Dialect::Chat,
            CHAT,
            json!({"model": "m", "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "text", "text": "certify:tool"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "Glob", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "1", "content": "a.txt"},
            ]}),
        ),
        (
            Dialect::Gemini,
            "/v1beta/models/m:generateContent",
            json!({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [
                {"role": "user", "parts": [{"text": "certify:tool"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "Glob", "args": {}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "Glob", "response": {"output": "a.txt"}}}]},
            ]}),
        ),
    ]
}

#[tokio::test]
async fn a_tool_result_ends_the_turn_with_text() {
    let server = certify().await;
    for (dialect, path, body) in histories() {
        let answer = post(&server, path, &body).await;
        let (said, _, calls, _) = told(dialect, &answer.json());
        assert_eq!(said, "The tool answered.", "{dialect:?}");
        assert!(calls.is_empty(), "{dialect:?}");
        let all = server.log().all();
        let asked = all.last().expect("asked");
        assert_eq!(asked.dialect, dialect);
        let flat: Vec<(ChatRole, &str)> = asked
            .messages
            .iter()
            .map(|ChatMessage { role, text }| (*role, text.as_str()))
            .filter(|(_, text)| !text.starts_with('<'))
            .collect();
        let expected = [
            (ChatRole::System, "s"),
            (ChatRole::User, "certify:tool"),
            (ChatRole::Call, "Glob"),
            (ChatRole::Tool, "a.txt"),
        ];
        assert_eq!(flat, expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_new_prompt_after_a_result_is_used() {
    let server = certify().await;
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "certify:tool"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "Glob", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "a.txt"},
            {"type": "text", "text": "certify:text"}]},
    ]});
    let answer = post(&server, "/v1/messages", &body).await;
    let (said, ..) = told(Dialect::Anthropic, &answer.json());
    assert_eq!(said, "Certified in three chunks.");
}

/// A turn that was canceled before the model responded leaves its prompt in the history.
#[tokio::test]
async fn the_newest_prompt_is_used() {
    let server = certify().await;
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "certify:slow"},
        {"role": "user", "content": "[interrupted]"},
        {"role": "user", "content": "certify:text"},
        {"role": "user", "content": "Some context that names no rule."},
    ]});
    let answer = post(&server, "/v1/messages", &body).await;
    let (said, ..) = told(Dialect::Anthropic, &answer.json());
    assert_eq!(said, "Certified in three chunks.");
}

#[tokio::test]
async fn earlier_prompts_are_recalled() {
    let server = certify().await;
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "<env>not said</env>"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "certify:recall"},
    ]});
    let answer = post(&server, CHAT, &body).await;
    let (said, ..) = told(Dialect::Chat, &answer.json());
    assert_eq!(said, "Earlier: first | second");
}

#[tokio::test]
async fn the_working_directory_is_read_from_the_request() {
    let server = serving("- reply: [{text: 'in {cwd}'}]\n").await;
    for (system, cwd) in [
        ("Working directory: /a/b c", "/a/b"),
        ("x\n<cwd>/a/b</cwd>", "/a/b"),
        ("Primary working directory: `/a/b`.", "/a/b"),
        (
            "The working directory is somewhere else altogether, but / is root",
            ".",
        ),
        ("nothing", "."),
    ] {
        let body = json!({"model": "m", "system": system, "messages": []});
        let answer = post(&server, "/v1/messages", &body).await;
        let (said, ..) = told(Dialect::Anthropic, &answer.json());
        assert_eq!(said, format!("in {cwd}"), "{system}");
    }
}

#[tokio::test]
async fn json_output_is_returned_on_request() {
    let server = certify().await;
    let schema = json!({"type": "object", "properties": {
        "title": {"type": "string"}, "next": {"type": "string", "enum": ["model", "user"]}}});
    let sample = json!({"title": "mock", "next": "user"});
    let body = json!({"contents": [{"parts": [{"text": "who?"}]}], "generationConfig": {
        "responseMimeType": "application/json", "responseJsonSchema": schema}});
    let answer = post(&server, "/v1beta/models/m:generateContent", &body).await;
    let (said, ..) = told(Dialect::Gemini, &answer.json());
    assert_eq!(serde_json::from_str::<Value>(&said).expect("JSON"), sample);
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}});
    let body = json!({"model": "m", "messages": [], "response_format": format});
    let (said, ..) = told(Dialect::Chat, &post(&server, CHAT, &body).await.json());
    assert_eq!(serde_json::from_str::<Value>(&said).expect("JSON"), sample);
}

#[tokio::test]
async fn tokens_are_counted() {
    let server = certify().await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(400)}]});
    let answer = post(&server, "/v1/messages/count_tokens?beta=true", &body).await;
    assert_eq!(answer.json(), json!({"input_tokens": 100}));
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "x".repeat(400)}]}]});
    let answer = post(&server, "/v1beta/models/m:countTokens", &body).await;
    assert_eq!(answer.json(), json!({"totalTokens": 100}));
    assert!(
        server.log().is_empty(),
        "counting tokens is not a model request"
    );
}

#[tokio::test]
async fn models_are_listed_and_other_paths_are_refused() {
    let server = certify().await;
    assert_eq!(get(&server, "/").await.status, 200);
    let models = get(&server, "/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "mock-model");
    let models = get(&server, "/v1beta/models").await.json();
    assert_eq!(models["models"][0]["name"], "models/mock-model");
    let answer = post(&server, "/api/event_logging/batch", &json!({})).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json()["error"]["type"], "not_found_error");
    assert_eq!(answer.json()["type"], "error");
    let answer = get(&server, "/v1beta/other").await;
    assert_eq!(answer.json()["error"]["status"], "NOT_FOUND");
    assert_eq!(
        get(&server, "/telemetry").await.json()["error"]["code"],
        "not_found_error"
    );
    assert_eq!(get(&server, "/v1/messages").await.status, 405);
    assert!(server.log().is_empty());
}

#[tokio::test]
async fn errors_have_the_format_of_the_vendor() {
    let rules = "- {times: 4, reply: [{error: {status: 429, message: slower}}]}\n\
                 - {reply: [{error: 529}]}\n";
    let server = serving(rules).await;
    let expected = [
        ("/error/type", "rate_limit_error", "overloaded_error"),
        ("/error/type", "rate_limit_exceeded", "server_error"),
        ("/error/type", "rate_limit_exceeded", "server_error"),
        ("/error/status", "RESOURCE_EXHAUSTED", "UNAVAILABLE"),
    ];
    for status in [429, 529] {
        // A stream that has not started fails like a response without streaming.
        let asking = asking("x", &[], status == 529);
        for ((dialect, path, body), (place, limited, overloaded)) in asking.iter().zip(expected) {
            let answer = post(&server, path, body).await;
            assert_eq!(answer.status, status, "{dialect:?}");
            let word = if status == 429 { limited } else { overloaded };
            let json = answer.json();
            assert_eq!(json.pointer(place).expect("an error"), word, "{dialect:?}");
            if status == 429 {
                assert_eq!(json["error"]["message"], "slower");
            }
        }
    }
    let all = server.log().all();
    assert!(all.iter().all(|asked| asked.finished));
    assert_eq!(all[7].status, 529);
}

#[tokio::test]
async fn usage_and_stop_reason_follow_the_script() {
    let rules = "- {reply: [{text: a}, {usage: {input: 7, output: 8}}, {stop: max_tokens}]}\n";
    let server = serving(rules).await;
    for (dialect, path, body) in asking("x", &[], false) {
        let answer = post(&server, &path, &body).await.json();
        let (input, output) = match dialect {
            Dialect::Anthropic | Dialect::Responses => (
                &answer["usage"]["input_tokens"],
                &answer["usage"]["output_tokens"],
            ),
            Dialect::Chat => (
                &answer["usage"]["prompt_tokens"],
                &answer["usage"]["completion_tokens"],
            ),
            Dialect::Gemini => {
                let usage = &answer["usageMetadata"];
                (&usage["promptTokenCount"], &usage["candidatesTokenCount"])
            }
        };
        assert_eq!((input, output), (&json!(7), &json!(8)), "{dialect:?}");
        let (.., stop) = told(dialect, &answer);
        let ends = ["max_tokens", "incomplete", "length", "MAX_TOKENS"];
        assert!(ends.contains(&stop.as_str()), "{dialect:?}: {stop}");
    }
}

#[tokio::test]
async fn content_other_than_text_is_logged() {
    let server = certify().await;
    let gemini = "/v1beta/models/m:generateContent";
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let asked = [
        (
            "/v1/messages",
            json!({"messages": user(json!([{"type": "text", "text": "a"}, {"type": "image", "source": {}}]))}),
            vec![Media::Image],
        ),
        (
            "/v1/responses",
            json!({"input": user(json!([{"type": "input_image"}, {"type": "input_file"}]))}),
            vec![Media::Image, Media::File],
        ),
        (
            CHAT,
            json!({"messages": user(json!([{"type": "input_audio"}, {"type": "image_url"}]))}),
            vec![Media::Audio, Media::Image],
        ),
        (
            gemini,
            json!({"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav"}}, {"text": "a"}]}]}),
            vec![Media::Audio],
        ),
        (CHAT, json!({"messages": user(json!("a"))}), vec![]),
    ];
    for (path, body, media) in asked {
        post(&server, path, &body).await;
        let all = server.log().all();
        assert_eq!(*all.last().expect("asked").media, *media, "{path}");
    }
}
