//! Scripts of messages that trigger mutants, and helpers to examine the received lines.

use agentproto_mock::AgentKind;
use serde_json::{Value, json};

use crate::client::{Client, Tape, silent, unable};
use crate::mutants::{Sight, check};

/// The handshake, a session, a turn, a list, and every kind of invalid envelope.
pub fn basics(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "hello");
    c.ask(1004, "session/list", json!({}));
    c.ask(1005, "session/does_not_exist", json!({}));
    c.ask(1006, "session/new", json!({}));
    c.raw(b"{\"jsonrpc\":\"2.0\",\n");
    c.raw(b"{\"id\":1007,\"method\":\"session/list\",\"params\":{}}\n");
    c.raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"text-1\",\"method\":\"session/list\"}\n");
    c.raw(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"session/list\"}\n");
    c.notify("$/cancel_request", json!({ "requestId": 4711 }));
    c.ask(1008, "_probe/x", json!({}));
    let cwd = c.dir.clone();
    c.ask(
        1009,
        "session/new",
        json!({ "cwd": cwd, "mcpServers": [], "_meta": { "a": 1 } }),
    );
    c.notify("_something/unknown", json!({}));
    c.notify("something/unknown", json!({}));
    c.ask(1010, "session/list", json!({}));
}

/// A session and a turn.
pub fn hello(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "hello");
}

/// Every kind of turn, with a client that has all capabilities.
pub fn everything(c: &mut Client) {
    c.initialize_fully();
    c.new_session(1002);
    let prompts = [
        "use a tool",
        "ask for permission",
        "read notes.txt",
        "write notes.txt",
        "use the terminal",
        "make a plan",
        "have a thought",
        "ask a question",
    ];
    for (id, prompt) in (1003..).zip(prompts) {
        c.prompt(id, prompt);
    }
}

/// The same prompts with a client without capabilities.
pub fn without_services(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    for (id, prompt) in (1003..).zip(["read a", "write b", "use the terminal", "ask a question"]) {
        c.prompt(id, prompt);
    }
}

pub fn one_turn(c: &mut Client) {
    c.initialize_fully();
    c.new_session(1002);
    c.prompt(1003, "go");
}

pub fn modest_turn(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "go");
}

/// Login and logout.
pub fn login(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.ask(1003, "authenticate", json!({ "methodId": "key" }));
    c.new_session(1004);
    c.ask(1005, "logout", json!({}));
    c.new_session(1006);
}

pub fn starts(c: &mut Client) {
    c.initialize_fully();
}

pub fn starts_bare(c: &mut Client) {
    c.ask(1001, "initialize", json!({ "protocolVersion": 1 }));
}

/// Two sessions in two directories, one with a turn; then list, load, resume, delete and close.
pub fn sessions(c: &mut Client) {
    c.initialize(json!({}));
    let here = c.dir.clone();
    let there = c.dir.join("there");
    std::fs::create_dir(&there).expect("a directory");
    c.new_session_in(1003, &there);
    let second = c.session.clone();
    c.new_session(1002);
    c.prompt(1004, "hello");
    c.ask(1005, "session/list", json!({}));
    c.ask(1006, "session/list", json!({ "cwd": there }));
    c.ask(1007, "session/list", json!({ "cwd": "/nowhere/at/all" }));
    c.ask(1008, "session/list", json!({ "cursor": "bogus" }));
    let session = c.session.clone();
    let again = json!({ "sessionId": session, "cwd": here, "mcpServers": [] });
    c.ask(1009, "session/load", again.clone());
    c.ask(1010, "session/resume", again);
    c.ask(1011, "session/delete", json!({ "sessionId": second }));
    c.ask(1012, "session/delete", json!({ "sessionId": second }));
    c.ask(1013, "session/list", json!({}));
    c.ask(1014, "session/close", json!({ "sessionId": session }));
    c.ask(
        1015,
        "session/new",
        json!({ "cwd": here, "mcpServers": [], "additionalDirectories": [there] }),
    );
}

/// A turn, a load or resume, and a turn that repeats the earlier prompt.
pub fn revived(c: &mut Client, method: &str) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "the word is marmot");
    reopen(c, 1004, method);
    c.prompt(1005, "what did I say before?");
}

/// Loads or resumes the session in its directory.
pub fn reopen(c: &mut Client, id: u64, method: &str) {
    let params = json!({ "sessionId": c.session, "cwd": c.dir, "mcpServers": [] });
    c.ask(id, method, params);
}

/// A list of three sessions, with two per page.
pub fn pages(c: &mut Client) {
    c.initialize(json!({}));
    for id in 1002..1005 {
        c.new_session(id);
    }
    let first = c.ask(1005, "session/list", json!({}));
    let cursor = first["result"]["nextCursor"].clone();
    c.ask(1006, "session/list", json!({ "cursor": cursor }));
}

pub fn is_chunk(line: &[u8]) -> bool {
    line.windows(13).any(|part| part == b"message_chunk")
}

/// Starts a long turn and waits for its first chunk.
pub fn slow_turn(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let params = c.prompt_params("be slow");
    c.tell(1003, "session/prompt", params);
    c.until(is_chunk);
}

/// Waits for the end of the turn, or five more chunks if it does not end.
pub fn end_or_more(c: &mut Client) {
    let mut chunks = 0;
    c.until(|line| {
        chunks += usize::from(is_chunk(line));
        chunks == 5 || line.windows(4).any(|part| part == b"1003")
    });
}

pub fn cancel(c: &mut Client) {
    slow_turn(c);
    let about = c.about_session();
    c.notify("session/cancel", about);
    end_or_more(c);
}

pub fn close_in_turn(c: &mut Client) {
    slow_turn(c);
    let about = c.about_session();
    c.tell(1004, "session/close", about);
    end_or_more(c);
}

pub fn cancel_request(c: &mut Client) {
    slow_turn(c);
    c.notify("$/cancel_request", json!({ "requestId": 1003 }));
    c.wait_for(1003);
}

pub fn cancel_while_asking(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.service = silent;
    let params = c.prompt_params("ask for permission");
    c.tell(1003, "session/prompt", params);
    let request = c.until_called("session/request_permission");
    let about = c.about_session();
    c.notify("session/cancel", about);
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    c.reply(&request.unwrap_or_default(), outcome);
    c.wait_for(1003);
}

pub fn reject(request: &Value) -> Option<Value> {
    let _ = request;
    let outcome = json!({ "outcome": "selected", "optionId": "reject-once" });
    Some(json!({ "result": { "outcome": outcome } }))
}

pub fn rejected(c: &mut Client) {
    c.service = reject;
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "ask for permission");
}

pub fn unable_turn(c: &mut Client) {
    c.service = unable;
    one_turn(c);
}

pub fn decline(_: &Value) -> Option<Value> {
    Some(json!({ "result": { "action": "decline" } }))
}

pub fn declined(c: &mut Client) {
    c.service = decline;
    one_turn(c);
}

/// Two sessions that ask for permission at the same time.
pub fn two_questions(c: &mut Client) {
    c.initialize(json!({}));
    c.service = silent;
    for (session, turn) in [(1002, 1004), (1003, 1005)] {
        c.new_session(session);
        let params = c.prompt_params("ask for permission");
        c.tell(turn, "session/prompt", params);
        c.until_called("session/request_permission");
    }
}

pub fn modes(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let session = c.session.clone();
    let mode = |id: &str| json!({ "sessionId": session, "modeId": id });
    let option =
        |id: &str, value: &str| json!({ "sessionId": session, "configId": id, "value": value });
    c.ask(1003, "session/set_mode", mode("act"));
    c.ask(1004, "session/set_mode", mode("bogus"));
    c.ask(1005, "session/set_config_option", option("model", "large"));
    c.ask(1006, "session/set_config_option", option("model", "bogus"));
    c.prompt(1007, "switch");
}

pub fn blocks(c: &mut Client, blocks: Value) {
    c.initialize(json!({}));
    c.new_session(1002);
    let params = json!({ "sessionId": c.session, "prompt": blocks });
    c.ask(1003, "session/prompt", params);
}

/// The list of options in a response or an update.
pub fn options(value: &Value) -> Vec<Value> {
    value["configOptions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

pub fn new_options(tape: &Tape) -> Vec<Value> {
    options(&tape.answer(1002)["result"])
}

pub fn first_location(tape: &Tape) -> Vec<Value> {
    let calls = tape.updates("tool_call").into_iter();
    calls
        .filter_map(|call| Some(call["locations"].as_array()?.first()?.clone()))
        .collect()
}

pub fn starts_with(value: &Value, start: &str) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(start))
}

pub fn has(list: &[Value], fits: impl Fn(&Value) -> bool) -> bool {
    list.iter().any(fits)
}

pub fn raw_has(tape: &Tape, part: &str) -> bool {
    tape.raw
        .iter()
        .any(|line| String::from_utf8_lossy(line).contains(part))
}

pub fn ids(list: &[Value], key: &str) -> (usize, usize) {
    let mut ids: Vec<String> = list.iter().map(|item| item[key].to_string()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    (all, ids.len())
}

pub fn end_is(tape: &Tape, reason: &str) -> bool {
    tape.answer(1003)["result"]["stopReason"] == reason
}

/// Mutants about MCP servers, which have their own tests.
const SERVERS: [&str; 3] = [
    "acp-se-08-no-servers",
    "acp-se-09-no-env",
    "acp-se-10-first-server",
];

/// Mutants that only `certify` detects, because they need stderr, other processes, or a long time.
const JUDGED: [&str; 7] = [
    "acp-tr-04-latin1-log",
    "acp-tr-18-stays",
    "acp-tr-19-orphan",
    "acp-tr-19-stays-with-child",
    "acp-ad-03-restores",
    "acp-se-09-no-args",
    "acp-pt-13-finishes-first",
];

/// Mutants that are detected in `mutants_more`.
pub const MORE: [&str; 39] = [
    "acp-tr-14-dies-on-bad-line",
    "acp-tr-16-one-at-a-time",
    "acp-tr-19-exit-code",
    "acp-tr-20-crlf",
    "acp-tr-20-blank-line",
    "acp-tr-21-short-lines",
    "acp-in-12-strict",
    "acp-in-13-early-session",
    "acp-in-14-dies",
    "acp-in-17-hidden-load",
    "acp-in-17-hidden-list",
    "acp-au-06-no-methods",
    "acp-au-08-any-method",
    "acp-se-05-process-directory",
    "acp-se-06-takes-relative",
    "acp-se-07-dies",
    "acp-se-11-no-headers",
    "acp-se-11-not-reached",
    "acp-se-12-refuses",
    "acp-se-13-last-session",
    "acp-ld-03-takes-unknown",
    "acp-ld-04-dead-after-load",
    "acp-rs-02-forgets",
    "acp-cl-03-late-update",
    "acp-ad-02-takes-relative",
    "acp-pt-06-takes-anything",
    "acp-pt-07-any-session",
    "acp-pt-08-no-answer",
    "acp-pt-15-keeps-cancel",
    "acp-pt-15-dies",
    "acp-pt-17-stays-cancelled",
    "acp-pt-20-lost",
    "acp-fs-04-text-limit",
    "acp-el-01-form-for-url",
    "acp-el-04-same-id",
    "acp-el-04-unknown-complete",
    "acp-el-05-hangs-on-cancel",
    "acp-el-06-http",
    "acp-el-06-secret",
];

/// Checks a group of mutants. Each group is a separate test, so that they run in parallel.
pub fn check_group(families: &[&str], sights: Vec<Sight>) {
    check(
        AgentKind::Acp,
        |id| {
            let family = id.split('-').nth(1).unwrap_or_default();
            let elsewhere = [&SERVERS[..], &JUDGED, &MORE].concat();
            families.contains(&family) && !elsewhere.contains(&id)
        },
        &sights,
    );
}
