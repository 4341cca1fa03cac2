//! The ACP mock agent starts the MCP servers that the client lists (SE-08, SE-09, SE-10, SE-12).

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Client, start};

/// A named pipe: its reader waits until the server writes.
fn fifo(client: &Client, name: &str) -> PathBuf {
    let path = client.dir.join(name);
    let text = CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: the string ends with a NUL byte.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    path
}

/// A server that writes its mark and the first line of its input to a pipe.
fn server(name: &str, mark: &str, pipe: &Path) -> Value {
    let script = "read -r line; printf '%s %s' \"$MARK$1\" \"$line\" > \"$0\"; cat > /dev/null";
    json!({
        "name": name,
        "command": "sh",
        "args": ["-c", script, pipe, "!"],
        "env": [{ "name": "MARK", "value": mark }],
    })
}

fn open(client: &mut Client, servers: Value) -> Value {
    client.initialize(json!({}));
    let cwd = client.dir.clone();
    client.ask(
        1002,
        "session/new",
        json!({ "cwd": cwd, "mcpServers": servers }),
    )
}

fn written(pipe: &Path) -> String {
    let mut text = String::new();
    let mut file = OpenOptions::new().read(true).open(pipe).expect("the pipe");
    file.read_to_string(&mut text).expect("text");
    text
}

/// The current content of the pipe, if a process has it open.
fn written_at_once(pipe: &Path) -> String {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut text = String::new();
    let mut file = options.open(pipe).expect("the pipe");
    let _ = file.read_to_string(&mut text);
    text
}

#[test]
fn every_server_is_started_and_initialized() {
    let mut client = start(&["acp"]);
    let (a, b) = (fifo(&client, "a"), fifo(&client, "b"));
    let answer = open(
        &mut client,
        json!([server("a", "one", &a), server("b", "two", &b)]),
    );
    assert!(answer["result"]["sessionId"].is_string());
    for (pipe, mark) in [(&a, "one!"), (&b, "two!")] {
        let text = written(pipe);
        assert!(text.starts_with(mark), "{text}");
        assert!(text.contains("\"method\":\"initialize\""), "{text}");
    }
    assert!(client.finish().status.is_some_and(|s| s.success()));
}

#[test]
fn a_broken_server_does_not_break_the_session() {
    let mut client = start(&["acp"]);
    let broken = json!([
        { "name": "a", "command": "/bin/false", "args": [], "env": [] },
        { "name": "b", "command": "/no/such/program", "args": [], "env": [] },
    ]);
    let answer = open(&mut client, broken);
    let session = answer["result"]["sessionId"].as_str().expect("a session");
    client.session = session.to_owned();
    client.prompt(1003, "hello");
    let (tape, stderr) = client.finish_with_stderr();
    assert_eq!(tape.said(), "You said: hello");
    assert!(String::from_utf8_lossy(&stderr).contains("MCP server b"));
}

#[test]
fn other_transports_than_stdio_are_refused() {
    let mut client = start(&["acp"]);
    client.initialize(json!({}));
    let bad = [
        json!({ "name": "a", "type": "http", "url": "http://127.0.0.1:1", "headers": [] }),
        json!({ "name": "a", "command": "x", "args": [] }),
        json!({ "name": "a", "command": "x", "args": [1], "env": [] }),
        json!({ "command": "x", "args": [], "env": [] }),
        json!({ "name": "a", "command": "x\u{0}", "args": [], "env": [] }),
    ];
    for (id, server) in (1002..).zip(bad) {
        let params = json!({ "cwd": "/", "mcpServers": [server] });
        let answer = client.ask(id, "session/new", params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    client.finish();
}

#[test]
fn the_mutants_skip_servers() {
    // A server that was never started has written nothing at any time.
    let mut client = start(&["acp", "--mutant", "acp-se-08-no-servers"]);
    let a = fifo(&client, "a");
    open(&mut client, json!([server("a", "one", &a)]));
    assert_eq!(written_at_once(&a), "");
    client.finish();

    let mut client = start(&["acp", "--mutant", "acp-se-09-no-env"]);
    let a = fifo(&client, "a");
    open(&mut client, json!([server("a", "one", &a)]));
    assert!(written(&a).starts_with("! "));
    client.finish();

    let mut client = start(&["acp", "--mutant", "acp-se-10-first-server"]);
    let (a, b) = (fifo(&client, "a"), fifo(&client, "b"));
    open(
        &mut client,
        json!([server("a", "one", &a), server("b", "two", &b)]),
    );
    assert!(written(&a).starts_with("one!"));
    assert_eq!(written_at_once(&b), "");
    client.finish();
}
