//! Hostile requests: each is refused, and the next client is served.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::llm::client::{certify, connect, parse_answer, post, raw, request};

#[tokio::test]
async fn invalid_requests_are_refused() {
    let server = certify().await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(20_000));
    let size = 33 << 20;
    let chunk = format!(
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n{}",
        "x".repeat(size)
    );
    let cases: Vec<(u16, &[u8])> = vec![
        (400, b"hello\r\n\r\n"),
        (400, b"GET / HTTP/1.1 more\r\n\r\n"),
        (400, b"\xff\xfe\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        (400, b"PRI * HTTP/2.0\r\n\r\n"),
        (431, long.as_bytes()),
        (431, headers.as_bytes()),
        (
            400,
            b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        ),
        (
            400,
            b"POST /v1/messages HTTP/1.1\r\ncontent-length: +1\r\n\r\n",
        ),
        (
            400,
            b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        ),
        (
            413,
            b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
        ),
        (
            400,
            b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        ),
        (400, b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n"),
        (415, b"POST / HTTP/1.1\r\ncontent-encoding: zstd\r\n\r\n"),
        (
            400,
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        ),
        (
            400,
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n+1\r\na\r\n",
        ),
        (
            400,
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
        ),
        (413, chunk.as_bytes()),
        (
            400,
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        ),
    ];
    for (status, bytes) in cases {
        let shown = String::from_utf8_lossy(bytes.get(..60).unwrap_or(bytes));
        let text = raw(&server, bytes).await;
        // The connection may be reset before a client that still sends can read the response.
        if text.is_empty() && bytes.len() > 60_000 {
            continue;
        }
        assert_eq!(parse_answer(&text).status, status, "{shown}");
    }
    assert!(server.log().is_empty());
    let body = json!({"model": "m", "messages": []});
    assert_eq!(post(&server, "/v1/messages", &body).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_client_error() {
    let server = certify().await;
    let deep = "[".repeat(100_000);
    for body in ["", "{", "\u{0}", "{\"a\":}", deep.as_str()] {
        for path in ["/v1/messages", "/v1/responses", "/v1/messages/count_tokens"] {
            let text = raw(&server, &request("POST", path, body)).await;
            let answer = parse_answer(&text);
            assert_eq!(answer.status, 400, "{path}");
            assert!(answer.json()["error"]["message"].is_string());
        }
    }
    assert!(server.log().is_empty());
}

/// JSON of a wrong shape is a request in which the missing parts are empty.
#[tokio::test]
async fn any_json_gets_a_response() {
    let server = certify().await;
    let odd = [
        Value::Null,
        json!(5),
        json!("x"),
        json!([]),
        json!({}),
        json!({"messages": 5, "input": 5, "contents": 5, "tools": 5, "model": 5, "stream": "yes"}),
        json!({"messages": [5, null, "x", []], "input": [5, null], "contents": [5, null],
            "tools": [5, null, {"name": 5}, {"functionDeclarations": 5}, {"function": 5}]}),
        json!({"messages": [{"role": 5, "content": {"a": 1}}, {"content": [5, {"type": 5}]}],
            "input": [{"type": 5, "content": 5}, {"type": "_call_output"}, {"type": "_call"}],
            "contents": [{"role": [], "parts": [5, {"text": 5}, {"functionCall": 5},
                {"functionResponse": 5}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseSchema": 5},
            "text": {"format": {"schema": {"type": [], "enum": []}}}}),
    ];
    let paths = [
        "/v1/messages",
        "/v1/responses",
        "/v1/chat/completions",
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        "/v1beta/models/m:countTokens",
        "/v1beta/models/:generateContent",
    ];
    for body in &odd {
        for path in paths {
            assert_eq!(post(&server, path, body).await.status, 200, "{path} {body}");
        }
    }
}

#[tokio::test]
async fn chunked_bodies_and_expect_continue_work() {
    let server = certify().await;
    let head = "POST /v1/messages HTTP/1.1\r\nconnection: close\r\n";
    let chunked = "transfer-encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\ntrailer: 1\r\n\r\n";
    let text = raw(&server, format!("{head}{chunked}").as_bytes()).await;
    assert_eq!(parse_answer(&text).status, 200);
    // With two lengths, the chunks apply and the connection is closed.
    let two = format!("POST /v1/messages HTTP/1.1\r\ncontent-length: 1\r\n{chunked}{head}");
    let text = raw(&server, two.as_bytes()).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
    let expecting = "expect: 100-continue\r\ncontent-length: 2\r\n\r\n{}";
    let text = raw(&server, format!("{head}{expecting}").as_bytes()).await;
    assert!(
        text.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"),
        "{text}"
    );
}

/// Clients that send nothing or half a request do not block others.
#[tokio::test]
async fn a_slow_client_does_not_block_others() {
    let server = certify().await;
    let mut idle = Vec::new();
    for half in [
        "",
        "POST /v1/mess",
        "POST /v1/messages HTTP/1.1\r\ncontent-length: 9\r\n\r\n{",
    ] {
        for _ in 0..20 {
            let mut stream = connect(&server).await;
            stream.write_all(half.as_bytes()).await.expect("sent");
            idle.push(stream);
        }
    }
    let body = json!({"model": "m", "messages": []});
    assert_eq!(post(&server, "/v1/messages", &body).await.status, 200);
    drop(idle);
    assert_eq!(post(&server, "/v1/messages", &body).await.status, 200);
}
