//! The command line of `agentproto mock llm`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::llm::client::HEAD;

fn mock(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentproto"));
    command.arg("mock").args(args).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ask(address: &str) {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"certify:text"}]}"#;
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("Certified in three chunks."), "{answer}");
}

#[test]
fn machine_mode_prints_typed_events_until_a_signal() {
    let mut child = mock(&["llm", "--log-requests", "--output", "jsonl"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut next = |kind: &str| -> Value {
        let line = lines.next().expect("a line").expect("text");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(event["type"], kind, "{line}");
        event
    };
    next("aoi:meta");
    let url = next("model")["url"].as_str().expect("a url").to_owned();
    ask(url.strip_prefix("http://").expect("http"));
    assert_eq!(next("asked")["messages"][0]["text"], "certify:text");
    // SAFETY: the process is our child.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    assert_eq!(next("aoi:error")["code"], "INTERRUPTED");
    let summary = next("aoi:summary");
    assert_eq!(summary["reason"], "interrupted");
    assert_eq!(summary["ok"], false);
    assert_eq!(child.wait().expect("ended").code(), Some(130));
}

#[test]
fn it_prints_its_address_and_its_requests() {
    let mut child = mock(&["llm", "--port", "0", "--log-requests"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    let first = next();
    let url = first["url"].as_str().expect("a url");
    let address = url.strip_prefix("http://").expect("http");
    assert!(address.starts_with("127.0.0.1:"), "{url}");
    ask(address);
    let asked = next();
    assert_eq!(asked["asked"]["messages"][0]["text"], "certify:text");
    assert_eq!(asked["asked"]["finished"], true);
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[test]
fn a_mistake_in_the_script_is_reported_with_its_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mine.yaml");
    std::fs::write(&path, format!("{HEAD}rules:\n- replay: []\n")).expect("written");
    let path = path.to_str().expect("a path");
    let output = mock(&["llm", "--script", path]).output().expect("ran");
    assert_eq!(output.status.code(), Some(65));
    let said = said(&output);
    assert!(said.contains("mine.yaml:4:3: "), "{said}");
    assert!(said.contains("did you mean `reply`?"), "{said}");
    assert!(said.contains("--name model-script"), "{said}");
    let output = mock(&["llm", "--script", "absent.yaml"])
        .output()
        .expect("ran");
    assert_eq!(output.status.code(), Some(66));
}

#[test]
fn flags_of_other_mocks_are_refused() {
    for (args, word) in [
        (["llm", "--scenario", "slow"], "--scenario"),
        (["llm", "--mutant", "x"], "--mutant"),
        (["acp", "--port", "0"], "--port"),
        (["mcp", "--script", "x"], "--script"),
    ] {
        let output = mock(&args).output().expect("ran");
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(said(&output).contains(word), "{args:?}");
    }
}

#[test]
fn an_occupied_port_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output = mock(&["llm", "--port", &port]).output().expect("ran");
    assert_eq!(output.status.code(), Some(69));
    assert!(said(&output).contains(&port));
}
