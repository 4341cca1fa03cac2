//! `record`, `replay` and `diff` with the mock agent.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("agentproto")
}

fn agentproto(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(args)
        .env_remove("MOCK_MUTANT")
        .env_remove("MOCK_SCENARIO")
        .env("NO_COLOR", "1");
    command
}

#[track_caller]
fn ran(args: &[&str], code: i32) -> (String, String) {
    let output = agentproto(args)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    told(output, args, code)
}

#[track_caller]
fn told(output: Output, args: &[&str], code: i32) -> (String, String) {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!err.contains("panicked"), "{err}");
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

/// A client on pipes.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn start(args: &[&str]) -> Client {
        let mut child = agentproto(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Client {
            child,
            stdin,
            stdout,
        }
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{message}").expect("it listens");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it speaks");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Sends a request. Returns the messages before the response, and the response.
    fn ask(&mut self, id: Value, method: &str, params: Value) -> (Vec<Value>, Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let mut before = Vec::new();
        loop {
            let line = self.line();
            if line.get("method").is_none() && line["id"] == id {
                return (before, line);
            }
            before.push(line);
        }
    }

    /// A conversation with one turn, with ids of this kind.
    fn converse(&mut self, ids: fn(u64) -> Value, cwd: &Path) -> Vec<Value> {
        self.ask(
            ids(1),
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {}}),
        );
        let params = json!({"cwd": cwd, "mcpServers": []});
        let (_, new) = self.ask(ids(2), "session/new", params);
        let prompt = json!([{"type": "text", "text": "use a tool"}]);
        let params = json!({"sessionId": new["result"]["sessionId"], "prompt": prompt});
        let (updates, end) = self.ask(ids(3), "session/prompt", params);
        assert_eq!(end["result"]["stopReason"], "end_turn");
        updates
    }

    /// Closes stdin and waits for the exit.
    fn end(mut self) -> (String, String, i32) {
        self.stdin = None;
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).expect("UTF-8");
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut err).expect("UTF-8");
        let code = self.child.wait().expect("it ends").code().unwrap_or(-1);
        assert!(!err.contains("panicked"), "{err}");
        (out, err, code)
    }
}

fn numbers(n: u64) -> Value {
    json!(n)
}
fn words(n: u64) -> Value {
    json!(format!("id-{n}"))
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_string_lossy().into_owned()
}

fn mock() -> [String; 3] {
    [
        binary().to_string_lossy().into_owned(),
        "mock".to_owned(),
        "acp".to_owned(),
    ]
}

/// Records one turn with the mock agent.
fn recorded(dir: &tempfile::TempDir, name: &str, more: &[&str]) -> (String, Vec<Value>) {
    let file = path(dir, name);
    let mock = mock();
    let mut args = vec!["record", "--to", &file, "--"];
    args.extend(mock.iter().map(String::as_str));
    args.extend(more);
    let mut client = Client::start(&args);
    let updates = client.converse(numbers, dir.path());
    let (out, err, code) = client.end();
    assert_eq!((out.as_str(), code), ("", 0), "{err}");
    (file, updates)
}

fn lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a transcript");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_recording_has_every_byte_and_matches_its_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = path(&dir, "t.jsonl");
    let script = "printf 'one\\r\\n\\377\\n'; printf 'no end'; printf 'to err\\n' >&2; cat; exit 3";
    let mut client = agentproto(&["record", "--to", &file, "--", "sh", "-c", script]);
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"\x00\xfe half").expect("it listens");
    stdin.write_all(b" line\nlast").expect("it listens");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        output.stdout,
        b"one\r\n\xff\nno end\x00\xfe half line\nlast"
    );
    assert_eq!(output.stderr, b"to err\n");
    assert_eq!(output.status.code(), Some(3));
    let schema = include_str!("../../schemas/transcript.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let lines = lines(&file);
    for line in &lines {
        assert!(validator.is_valid(line), "{line}");
    }
    let read = std::fs::File::open(&file).expect("a file");
    let (transcript, _) = agentproto_wire::file::read(BufReader::new(read)).expect("readable");
    let of = |direction: &str| {
        let mut bytes = Vec::new();
        for line in transcript.lines() {
            if line.direction.as_str() == direction {
                bytes.extend(&line.bytes);
                bytes.extend(line.ended.then_some(b'\n'));
            }
        }
        bytes
    };
    assert_eq!(of("from-agent"), output.stdout);
    assert_eq!(of("to-agent"), b"\x00\xfe half line\nlast");
    assert_eq!(of("stderr"), output.stderr);
    let last = lines.last().expect("lines")["text"].as_str().expect("text");
    assert!(last.contains("\"code\":3"), "{last}");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(&file)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn output_is_not_buffered_and_lines_are_written_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = path(&dir, "t.jsonl");
    let mut client = Client::start(&["record", "--to", &file, "--", "cat"]);
    let stdin = client.stdin.as_mut().expect("open");
    // Half a line is passed on before the other half arrives.
    stdin.write_all(b"ha").expect("written");
    let mut two = [0; 2];
    client.stdout.read_exact(&mut two).expect("it speaks");
    assert_eq!(&two, b"ha");
    let stdin = client.stdin.as_mut().expect("open");
    stdin.write_all(b"lf\n").expect("it listens");
    let mut rest = String::new();
    client.stdout.read_line(&mut rest).expect("it speaks");
    let whole = || {
        let text = std::fs::read_to_string(&file).expect("a file");
        text.matches("\"half\"").count() == 2
    };
    // A background thread writes the file, without further input.
    while !whole() {
        std::thread::yield_now();
    }
    let (_, _, code) = client.end();
    assert_eq!(code, 0);
}

#[test]
fn signals_and_exits_are_passed_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = path(&dir, "t.jsonl");
    let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
    let mut client = Client::start(&["record", "--to", &file, "--", "sh", "-c", script]);
    let mut ready = String::new();
    client.stdout.read_line(&mut ready).expect("it speaks");
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(client.child.id() as i32, libc::SIGTERM) };
    assert_eq!(client.child.wait().expect("it ends").code(), Some(42));
    // The agent exits while the client could still send.
    let mut client = Client::start(&["record", "--to", &file, "--", "sh", "-c", "exit 5"]);
    assert_eq!(client.child.wait().expect("it ends").code(), Some(5));
    // The client disconnects, and the agent does not notice.
    let deaf = "echo ready; while :; do sleep 0.05; done";
    let mut client = Client::start(&["record", "--to", &file, "--", "sh", "-c", deaf]);
    client.stdout.read_line(&mut ready).expect("it speaks");
    let Client {
        mut child,
        stdin,
        stdout,
    } = client;
    drop((stdin, stdout));
    assert_eq!(
        child.wait().expect("it ends").code(),
        Some(128 + libc::SIGTERM)
    );
    let (_, err) = ran(&["record", "--", "no-such-program-here"], 69);
    assert!(
        err.contains("program `no-such-program-here` not found"),
        "{err}"
    );
    let (_, err) = ran(&["record", "--to", "/nowhere/x", "--", "true"], 73);
    assert!(err.contains("/nowhere/x cannot be written"), "{err}");
}

#[test]
fn a_directory_gets_a_file_for_every_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let to = dir.path().to_string_lossy().into_owned();
    ran(&["record", "--to", &to, "--", "true"], 0);
    ran(&["record", "--to", &to, "--", "true"], 0);
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 2);
}

#[test]
fn a_replayed_agent_responds_to_another_client() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, updates) = recorded(&dir, "t.jsonl", &[]);
    let mut client = Client::start(&["replay", &file]);
    let again = client.converse(words, dir.path());
    assert_eq!(again, updates);
    let (out, err, code) = client.end();
    assert_eq!((out.as_str(), err.as_str(), code), ("", "", 0));
}

#[test]
fn an_unexpected_client_message_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = recorded(&dir, "t.jsonl", &[]);
    let mut client = Client::start(&["replay", &file]);
    let (_, refused) = client.ask(json!(1), "session/list", json!({}));
    assert_eq!(refused["error"]["code"], -32601);
    client.ask(json!(2), "initialize", json!({"protocolVersion": 1}));
    let (_, err, code) = client.end();
    assert_eq!(code, 1);
    assert!(
        err.contains("the client sent the request session/list"),
        "{err}"
    );
    assert!(err.contains("the request initialize (line 3)"), "{err}");
    assert!(
        err.contains("the client ended, but the recording continues with"),
        "{err}"
    );
}

#[test]
fn a_recorded_client_replays_against_a_live_agent() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = recorded(&dir, "t.jsonl", &[]);
    let other = tempfile::tempdir().expect("a directory");
    let cwd = other.path().to_string_lossy().into_owned();
    let mock = mock();
    let mut args = vec!["replay", &file, "--cwd", &cwd, "--"];
    args.extend(mock.iter().map(String::as_str));
    let (out, _) = ran(&args, 0);
    assert!(out.starts_with("No differences in "), "{out}");
    // The same agent with one defect.
    let new = path(&dir, "new.jsonl");
    let mut args = vec!["replay", &file, "--to", &new, "-o", "json", "--"];
    args.extend(mock.iter().map(String::as_str));
    args.extend(["--mutant", "acp-pt-02-odd-reason"]);
    let (out, _) = ran(&args, 1);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found["schema"], "agentproto.diff/v1");
    let differences = found["differences"].as_array().expect("a list");
    let is_answer =
        |d: &&Value| d["change"] == "changed" && d["a"]["what"] == "← response to session/prompt";
    assert!(differences.iter().any(|d| is_answer(&d)), "{out}");
    let (out, _) = ran(&["diff", &file, &new], 1);
    assert!(out.contains("← response to session/prompt"), "{out}");
    assert!(out.contains("-     \"stopReason\": \"end_turn\""), "{out}");
    ran(&["diff", &file, &file], 0);
}

#[test]
fn difference_events_match_their_schema() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = recorded(&dir, "t.jsonl", &[]);
    let text = std::fs::read_to_string(&file).expect("a file");
    let changed = path(&dir, "changed.jsonl");
    std::fs::write(&changed, text.replace("end_turn", "refusal")).expect("written");
    let (out, _) = ran(&["diff", &file, &changed, "--output", "jsonl"], 1);
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/events.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for event in &events {
        let errors: Vec<String> = validator
            .iter_errors(event)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{event}: {errors:?}");
    }
    assert!(events.iter().any(|event| event["type"] == "difference"));
}

#[test]
fn monitors_check_a_recording() {
    let dir = tempfile::tempdir().expect("a directory");
    let (good, _) = recorded(&dir, "good.jsonl", &[]);
    let (out, _) = ran(&["replay", &good, "--judge", "-o", "json"], 0);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let verdict = |report: &Value, id: &str| {
        let rows = report["results"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["requirement"] == id);
        row.map(|row| row["verdict"].as_str().expect("a word").to_owned())
    };
    assert_eq!(verdict(&report, "TR-03").as_deref(), Some("pass"));
    assert_eq!(verdict(&report, "PT-02").as_deref(), Some("pass"));
    // The recording contains nothing about this requirement.
    assert_eq!(verdict(&report, "EL-01").as_deref(), Some("not_verified"));
    assert_eq!(report["summary"]["fail"], 0);
    assert_eq!(report["summary"]["certified"], false);
    let text = std::fs::read_to_string(&good).expect("a file");
    let bad = path(&dir, "bad.jsonl");
    std::fs::write(&bad, text.replace("end_turn", "stopped")).expect("written");
    let (out, _) = ran(
        &["replay", &bad, "--judge", "--suite", "acp", "-o", "json"],
        1,
    );
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(verdict(&report, "PT-02").as_deref(), Some("fail"));
    let reports = path(&dir, "reports");
    for output in [
        "human", "jsonl", "junit", "sarif", "html", "markdown", "badge",
    ] {
        let args = [
            "replay",
            &bad,
            "--judge",
            "-o",
            output,
            "--report-dir",
            &reports,
        ];
        let (out, _) = ran(&args, 1);
        assert!(!out.is_empty(), "{output}");
    }
    // The saved report can be rendered again.
    let saved = format!("{reports}/report.json");
    let (out, _) = ran(&["report", "render", &saved], 0);
    assert!(out.contains("PT-02"), "{out}");
}

#[test]
fn invalid_transcripts_are_reported_with_their_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = path(&dir, "t.jsonl");
    for (text, wanted) in [
        ("", "t.jsonl:1: the file is empty"),
        ("{}\n", "t.jsonl:1: not a transcript"),
        (
            "{\"schema\":\"agentproto.transcript/v1\"}\nno\n",
            "t.jsonl:2: not valid JSON",
        ),
    ] {
        std::fs::write(&file, text).expect("written");
        let (_, err) = ran(&["replay", &file], 65);
        assert!(err.contains(wanted), "{err}");
        ran(&["diff", &file, &file], 65);
    }
    ran(&["diff", &file, "not-there.jsonl"], 65);
    ran(&["replay", "not-there.jsonl"], 66);
}

#[test]
fn transcripts_of_certify_can_be_replayed() {
    let dir = tempfile::tempdir().expect("a directory");
    let reports = path(&dir, "reports");
    let args = [
        "certify",
        "--mock",
        "acp",
        "--only",
        "LD-01",
        "--report-dir",
        &reports,
    ];
    ran(&args, 0);
    let transcripts = dir.path().join("reports/transcripts/acp");
    let mut seen = 0;
    for entry in std::fs::read_dir(transcripts).expect("transcripts") {
        let file = entry.expect("an entry").path();
        let file = file.to_string_lossy();
        ran(&["diff", &file, &file], 0);
        ran(&["replay", &file, "--judge", "-o", "json"], 0);
        seen += 1;
    }
    assert!(seen > 0);
}

/// Replays each recording against itself: there must be no difference.
#[test]
fn every_recording_is_equal_to_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let reports = path(&dir, "reports");
    // Questions, files, terminals, canceled turns, unusual ids, invalid lines, two directories.
    let cases = [
        "PE-03", "FS-03", "TE-05", "PT-14", "TR-08", "TR-13", "SE-13", "PT-04", "EL-05", "TR-16",
    ];
    let mut args = vec!["certify", "--mock", "acp", "--report-dir", &reports];
    args.extend(cases.iter().flat_map(|case| ["--only", case]));
    ran(&args, 0);
    let binary = binary().to_string_lossy().into_owned();
    let mut seen = 0;
    for entry in std::fs::read_dir(dir.path().join("reports/transcripts/acp")).expect("there") {
        let file = entry.expect("an entry").path();
        let file = file.to_string_lossy();
        let args = ["replay", &file, "--", &binary, "replay", &file];
        let (out, _) = ran(&args, 0);
        assert!(out.starts_with("No differences in "), "{file}\n{out}");
        seen += 1;
    }
    assert!(seen >= cases.len(), "{seen}");
}
