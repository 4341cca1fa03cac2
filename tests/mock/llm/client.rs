//! A raw HTTP client that sends and receives bytes.

use agentproto_mock::llm::{ModelServer, Script, parse};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const HEAD: &str = "script: agentproto.model-script/v1\nname: x\n";

pub fn script(rules: &str) -> Script {
    parse(&format!("{HEAD}rules:\n{rules}")).expect("a script")
}

pub async fn certify() -> ModelServer {
    ModelServer::start(Script::certify())
        .await
        .expect("a server")
}

pub async fn serving(rules: &str) -> ModelServer {
    ModelServer::start(script(rules)).await.expect("a server")
}

pub async fn connect(server: &ModelServer) -> TcpStream {
    let url = server.url();
    let address = url.strip_prefix("http://").expect("http");
    TcpStream::connect(address).await.expect("a connection")
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The events of a stream, with name and data.
    pub fn events(&self) -> Vec<(String, Value)> {
        assert!(self.head.contains("text/event-stream"), "{}", self.head);
        let mut events = Vec::new();
        for block in self.body.split("\n\n").filter(|block| !block.is_empty()) {
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim().to_owned()
            };
            let data = field("data:");
            let data = match data.as_str() {
                "[DONE]" => json!("[DONE]"),
                text => serde_json::from_str(text).expect("JSON"),
            };
            events.push((field("event:"), data));
        }
        events
    }
}

/// Sends bytes and reads until the server closes the connection.
pub async fn raw(server: &ModelServer, bytes: &[u8]) -> String {
    let mut stream = connect(server).await;
    // The server may refuse the request and close the connection before everything was sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).expect("UTF-8")
}

pub fn parse_answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status");
    let body = match head.contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    };
    Answer {
        status: status.parse().expect("a number"),
        head: head.to_owned(),
        body,
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.push_str(&rest[..size]);
        assert_eq!(&rest[size..size + 2], "\r\n");
        body = &rest[size + 2..];
        if size == 0 {
            assert_eq!(body, "");
            return whole;
        }
    }
}

pub fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

pub async fn post(server: &ModelServer, path: &str, body: &Value) -> Answer {
    let bytes = request("POST", path, &body.to_string());
    parse_answer(&raw(server, &bytes).await)
}

pub async fn get(server: &ModelServer, path: &str) -> Answer {
    parse_answer(&raw(server, &request("GET", path, "")).await)
}
