//! Mutants of the process, of directories and prompts, and of pages: each shows its defect on the
//! wire.

use agentproto_mock::AgentKind;
use serde_json::{Value, json};

use crate::client::Client;
use crate::mutants::{check, sight};
use crate::scripts::*;

fn starts_with(c: &mut Client, capabilities: Value) {
    c.initialize(capabilities);
    c.new_session(1002);
}

fn after_bad_line(c: &mut Client) {
    c.initialize(json!({}));
    c.raw(b"{\"jsonrpc\":\"2.0\",\n");
    c.new_session(1002);
}

fn two_at_once(c: &mut Client) {
    c.initialize(json!({}));
    let params = json!({ "cwd": c.dir, "mcpServers": [] });
    for id in [1002, 1003] {
        c.tell(id, "session/new", params.clone());
    }
    c.wait_for(1003);
}

fn with_return(c: &mut Client) {
    c.raw(b"{\"jsonrpc\":\"2.0\",\"id\":1001,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\r\n");
    c.wait_for(1001);
}

fn after_blank_line(c: &mut Client) {
    c.raw(b"\n");
    c.initialize(json!({}));
}

fn long_line(c: &mut Client) {
    c.initialize(json!({ "_meta": { "padding": "x".repeat(100_000) } }));
}

fn too_early(c: &mut Client) {
    c.new_session(1002);
}

fn initialize_twice(c: &mut Client) {
    c.initialize(json!({}));
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    c.ask(1002, "initialize", params);
}

fn load_strange(c: &mut Client) {
    c.initialize(json!({}));
    let params = json!({ "sessionId": "strange", "cwd": c.dir, "mcpServers": [] });
    c.ask(1002, "session/load", params);
}

fn list_all(c: &mut Client) {
    c.initialize(json!({}));
    c.ask(1002, "session/list", json!({}));
}

fn odd_login(c: &mut Client) {
    c.initialize(json!({}));
    c.ask(1002, "authenticate", json!({ "methodId": "strange" }));
}

fn files_elsewhere(c: &mut Client) {
    c.initialize_fully();
    let there = c.dir.join("there");
    std::fs::create_dir(&there).expect("a directory");
    c.new_session_in(1002, &there);
    c.prompt(1003, "read notes.txt");
}

fn new_with(c: &mut Client, params: Value) {
    c.initialize(json!({}));
    let mut whole = json!({ "cwd": c.dir, "mcpServers": [] });
    for (key, value) in params.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    c.ask(1002, "session/new", whole);
}

fn http_server(c: &mut Client) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("a place"));
    let headers = json!([{ "name": "X-Mock", "value": "given" }]);
    let server = json!({ "type": "http", "name": "s", "url": url, "headers": headers });
    new_with(c, json!({ "mcpServers": [server] }));
    // The line that the server received is added to the tape like a line of the agent.
    if c.tape.answer(1002).get("error").is_none() {
        let (mut stream, _) = listener.accept().expect("a caller");
        let mut heard = [0; 4096];
        let length = std::io::Read::read(&mut stream, &mut heard).expect("a request");
        c.tape.raw.push(heard[..length].to_vec());
    }
}

fn missing_server(c: &mut Client) {
    let command = c.dir.join("no-such-program");
    let server = json!({ "name": "s", "command": command, "args": [], "env": [] });
    new_with(c, json!({ "mcpServers": [server] }));
}

fn two_sessions(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let first = c.prompt_params("hello");
    c.new_session(1003);
    c.ask(1004, "session/prompt", first);
}

fn closed(c: &mut Client) {
    starts_with(c, json!({}));
    let about = c.about_session();
    c.ask(1003, "session/close", about);
    c.ask(1004, "session/list", json!({}));
}

fn image(c: &mut Client) {
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" });
    blocks(c, json!([{ "type": "text", "text": "hello" }, image]));
}

fn strange_session(c: &mut Client) {
    starts_with(c, json!({}));
    c.session = "strange".to_owned();
    c.prompt(1003, "hello");
}

fn idle_cancel(c: &mut Client) {
    starts_with(c, json!({}));
    let about = c.about_session();
    c.notify("session/cancel", about);
    c.prompt(1003, "hello");
}

fn prompt_after_cancel(c: &mut Client) {
    cancel(c);
    c.prompt(1004, "hello");
}

fn two_prompts(c: &mut Client) {
    slow_turn(c);
    let params = c.prompt_params("hello");
    c.ask(1004, "session/prompt", params);
    let about = c.about_session();
    c.notify("session/cancel", about);
    c.wait_for(1003);
}

fn pages_only(c: &mut Client) {
    starts_with(c, json!({ "elicitation": { "url": {} } }));
    c.prompt(1003, "ask a question");
}

fn dismissed(c: &mut Client) {
    c.service = |_| Some(json!({ "result": { "action": "cancel" } }));
    one_turn(c);
}

fn questions(t: &crate::client::Tape, key: &str) -> Vec<String> {
    let asked = t.calls("elicitation/create").into_iter();
    asked
        .map(|m| m["params"][key].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn process_mutants_show_their_defects() {
    check(
        AgentKind::Acp,
        |id| MORE.contains(&id) && is_of(id, &["tr", "in", "au"]),
        &[
            sight("acp-tr-14-dies-on-bad-line", after_bad_line, |t| {
                t.answers(1002).is_empty()
            }),
            sight("acp-tr-16-one-at-a-time", two_at_once, |t| {
                t.answers(1002).is_empty()
            }),
            sight("acp-tr-19-exit-code", starts, |t| {
                t.status.and_then(|status| status.code()) == Some(1)
            }),
            sight("acp-tr-20-crlf", with_return, |t| {
                t.answers(1001).is_empty()
            })
            .silent(),
            sight("acp-tr-20-blank-line", after_blank_line, |t| {
                t.answers(1001).is_empty()
            }),
            sight("acp-tr-21-short-lines", long_line, |t| {
                t.answers(1001).is_empty()
            })
            .silent(),
            sight(
                "acp-in-12-strict",
                |c| _ = c.initialize(json!({ "telepathy": true })),
                |t| t.code(1001) == -32602,
            ),
            sight("acp-in-13-early-session", too_early, |t| {
                t.answer(1002)["result"]["sessionId"].is_string()
            }),
            sight("acp-in-14-dies", initialize_twice, |t| {
                t.answers(1002).is_empty()
            }),
            sight("acp-in-17-hidden-load", load_strange, |t| {
                let said = &t.answer(1001)["result"]["agentCapabilities"]["loadSession"];
                *said == false && t.code(1002) == -32002
            }),
            sight("acp-in-17-hidden-list", list_all, |t| {
                let said = &t.answer(1001)["result"]["agentCapabilities"]["sessionCapabilities"];
                let list = t.answer(1002);
                said.get("list").is_none() && list["result"].is_null() && list["error"].is_null()
            }),
            sight("acp-au-06-no-methods", login, |t| {
                t.answer(1001)["result"]["authMethods"] == json!([])
            })
            .scenario("auth"),
            sight("acp-au-08-any-method", odd_login, |t| {
                t.answer(1002)["result"].is_object()
            })
            .scenario("auth"),
        ],
    );
}

#[test]
fn session_mutants_show_their_defects() {
    check(
        AgentKind::Acp,
        |id| MORE.contains(&id) && is_of(id, &["se", "ld", "rs", "cl", "ad"]),
        &[
            sight("acp-se-05-process-directory", files_elsewhere, |t| {
                let asked = t.calls("fs/read_text_file");
                has(&asked, |m| {
                    let path = m["params"]["path"].as_str().unwrap_or_default();
                    !path.contains("/there/")
                })
            }),
            sight(
                "acp-se-06-takes-relative",
                |c| new_with(c, json!({ "cwd": "some/where" })),
                |t| t.code(1002) == 0,
            ),
            sight(
                "acp-se-07-dies",
                |c| new_with(c, json!({ "cwd": "/no/such/place" })),
                |t| t.answers(1002).is_empty(),
            ),
            sight("acp-se-11-no-headers", http_server, |t| {
                raw_has(t, "POST /mcp") && !raw_has(t, "x-mock: given")
            })
            .scenario("rich"),
            sight("acp-se-11-not-reached", http_server, |t| {
                t.code(1002) == -32602
            })
            .scenario("rich"),
            sight("acp-se-12-refuses", missing_server, |t| {
                t.code(1002) == -32603
            }),
            sight("acp-se-13-last-session", two_sessions, |t| {
                let first = &t.answer(1002)["result"]["sessionId"];
                let said = t.calls("session/update");
                let chunk = |m: &&Value| m["params"]["update"]["content"].is_object();
                let mut chunks = said.iter().filter(chunk);
                chunks.all(|m| m["params"]["sessionId"] != *first)
            }),
            sight("acp-ld-03-takes-unknown", load_strange, |t| {
                t.answer(1002)["result"].is_object()
            }),
            sight(
                "acp-ld-04-dead-after-load",
                |c| revived(c, "session/load"),
                |t| t.code(1005) == -32002,
            ),
            sight(
                "acp-rs-02-forgets",
                |c| revived(c, "session/resume"),
                |t| !t.said().contains("Before: the word is marmot"),
            ),
            sight("acp-cl-03-late-update", closed, |t| {
                let closed = t.place(|m| m["id"] == 1003);
                t.place(|m| m["params"]["update"]["content"].is_object()) > closed
            }),
            sight(
                "acp-ad-02-takes-relative",
                |c| new_with(c, json!({ "additionalDirectories": ["some/where"] })),
                |t| t.code(1002) == 0,
            ),
        ],
    );
}

#[test]
fn prompt_and_page_mutants_show_their_defects() {
    check(
        AgentKind::Acp,
        |id| MORE.contains(&id) && is_of(id, &["pt", "fs", "el"]),
        &[
            sight("acp-pt-06-takes-anything", image, |t| end_is(t, "end_turn")),
            sight("acp-pt-07-any-session", strange_session, |t| {
                end_is(t, "end_turn")
            }),
            sight(
                "acp-pt-08-no-answer",
                |c| blocks(c, json!([])),
                |t| t.answers(1003).is_empty(),
            )
            .silent(),
            sight("acp-pt-15-keeps-cancel", idle_cancel, |t| {
                end_is(t, "cancelled")
            }),
            sight("acp-pt-15-dies", idle_cancel, |t| {
                t.answers(1003).is_empty()
            }),
            sight("acp-pt-17-stays-cancelled", prompt_after_cancel, |t| {
                t.answer(1004)["result"]["stopReason"] == "cancelled"
            }),
            sight("acp-pt-20-lost", two_prompts, |t| {
                t.answers(1004).is_empty()
            })
            .silent(),
            sight("acp-fs-04-text-limit", everything, |t| {
                let asked = t.calls("fs/read_text_file");
                has(&asked, |m| m["params"]["limit"].is_string())
            }),
            sight("acp-el-01-form-for-url", pages_only, |t| {
                questions(t, "mode") == ["form"]
            }),
            sight("acp-el-04-same-id", one_turn, |t| {
                let ids = questions(t, "elicitationId");
                ids.len() == 2 && ids[0] == ids[1]
            })
            .scenario("elicitation-url"),
            sight("acp-el-04-unknown-complete", one_turn, |t| {
                let asked = questions(t, "elicitationId");
                let done = t.calls("elicitation/complete");
                has(&done, |m| {
                    let id = m["params"]["elicitationId"].as_str().unwrap_or_default();
                    !asked.contains(&id.to_owned())
                })
            })
            .scenario("elicitation-url"),
            sight("acp-el-05-hangs-on-cancel", dismissed, |t| {
                t.answers(1003).is_empty()
            })
            .scenario("elicitation")
            .silent(),
            sight("acp-el-06-http", one_turn, |t| {
                questions(t, "url").iter().any(|u| u.starts_with("http:"))
            })
            .scenario("elicitation-url"),
            sight("acp-el-06-secret", one_turn, |t| {
                questions(t, "url").iter().any(|u| u.contains('@'))
            })
            .scenario("elicitation-url"),
        ],
    );
}

fn is_of(id: &str, families: &[&str]) -> bool {
    families.contains(&id.split('-').nth(1).unwrap_or_default())
}
