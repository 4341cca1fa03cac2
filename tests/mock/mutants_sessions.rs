//! How the ACP mutants of sessions, and of their lists and replays, are detected.

use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Tape};
use crate::mutants::sight;
use crate::scripts::*;

/// A turn, and then a load.
fn load_after(c: &mut Client, prompt: &str) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, prompt);
    reopen(c, 1004, "session/load");
}

/// Closes a session with a turn, and opens it again.
fn close_and(c: &mut Client, method: &str) {
    hello(c);
    let about = c.about_session();
    c.ask(1004, "session/close", about);
    reopen(c, 1005, method);
}

fn load_in_other_mode(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let params = json!({ "sessionId": c.session, "modeId": "act" });
    c.ask(1003, "session/set_mode", params);
    reopen(c, 1004, "session/load");
}

fn load_and_cancel(c: &mut Client) {
    slow_turn(c);
    reopen(c, 1004, "session/load");
    let about = c.about_session();
    c.notify("session/cancel", about);
    end_or_more(c);
}

/// Opens a session again, with an MCP server.
fn reopen_with_server(c: &mut Client, method: &str) {
    hello(c);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("a place"));
    let server = json!({ "type": "http", "name": "s", "url": url, "headers": [] });
    let params = json!({ "sessionId": c.session, "cwd": c.dir, "mcpServers": [server] });
    c.ask(1004, method, params);
    listener.set_nonblocking(true).expect("a setting");
    let begin = Instant::now();
    while begin.elapsed() < c.patience {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        // The line that the server received is added to the tape like a line of the agent.
        stream.set_nonblocking(false).expect("a setting");
        let mut heard = [0; 4096];
        let length = stream.read(&mut heard).expect("a request");
        c.tape.raw.push(heard[..length].to_vec());
        return;
    }
}

fn is_not_called(t: &Tape) -> bool {
    t.answer(1004)["result"].is_object() && !raw_has(t, "POST /mcp")
}

fn delete_new(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let about = c.about_session();
    c.ask(1003, "session/delete", about);
    c.new_session(1004);
}

fn unknown_session(c: &mut Client) {
    c.initialize(json!({}));
    c.session = "strange".to_owned();
    reopen(c, 1002, "session/resume");
    let params = json!({ "sessionId": "strange", "modeId": "act" });
    c.ask(1003, "session/set_mode", params);
}

/// Number of updates of a kind after a response.
fn updates_after(t: &Tape, id: u64, kind: &str) -> usize {
    let messages = t.messages().into_iter();
    let after = messages.skip_while(|m| m["id"] != id);
    after
        .filter(|m| m["params"]["update"]["sessionUpdate"] == kind)
        .count()
}

#[test]
fn sessions_and_lists() {
    check_group(
        &["se", "ld", "rs", "cl", "li", "de", "ad"],
        vec![
            sight("acp-se-01-number-id", hello, |t| {
                t.answer(1002)["result"]["sessionId"].is_number()
            }),
            sight("acp-se-01-empty-id", hello, |t| {
                t.answer(1002)["result"]["sessionId"] == ""
            }),
            sight("acp-se-01-refuses", hello, |t| t.code(1002) == -32603),
            sight("acp-se-02-same-id", sessions, |t| {
                let id = |answer: u64| t.answer(answer)["result"]["sessionId"].clone();
                id(1002) == id(1003)
            }),
            sight("acp-se-02-reused", delete_new, |t| {
                let id = |answer: u64| t.answer(answer)["result"]["sessionId"].clone();
                id(1002) == id(1004)
            }),
            sight("acp-se-03-modes-list", hello, |t| {
                t.answer(1002)["result"]["modes"].is_array()
            }),
            sight(
                "acp-se-04-own-directory",
                |c| {
                    c.initialize(json!({}));
                    c.new_session_in(1002, std::path::Path::new("/"));
                    c.prompt(1003, "show cwd");
                },
                |t| t.said() != "/",
            ),
            sight("acp-se-14-other-session", hello, |t| {
                raw_has(t, "someone-else")
            }),
            sight("acp-se-17-resumes-unknown", unknown_session, |t| {
                t.answer(1002)["result"].is_object()
            }),
            sight("acp-se-17-sets-unknown", unknown_session, |t| {
                t.answer(1003)["result"].is_object()
            }),
            sight("acp-se-18-early-update", hello, |t| {
                let chunk =
                    |m: &Value| m["params"]["update"]["sessionUpdate"] == "agent_message_chunk";
                t.place(chunk) < t.place(|m| m["id"] == 1002)
            }),
            sight("acp-ld-01-no-replay", sessions, |t| {
                !t.answers(1009).is_empty() && t.updates("user_message_chunk").is_empty()
            }),
            sight("acp-ld-01-half-replay", sessions, |t| {
                t.updates("user_message_chunk").is_empty()
                    && t.updates("agent_message_chunk").len() > 3
            }),
            sight(
                "acp-ld-01-closed-is-empty",
                |c| close_and(c, "session/load"),
                |t| {
                    t.answer(1005)["result"].is_object()
                        && t.updates("user_message_chunk").is_empty()
                },
            ),
            sight("acp-ld-02-answers-first", sessions, |t| {
                let replayed =
                    |m: &Value| m["params"]["update"]["sessionUpdate"] == "user_message_chunk";
                t.place(|m| m["id"] == 1009) < t.place(replayed)
            }),
            sight("acp-ld-02-answers-first-while-open", sessions, |t| {
                let replayed =
                    |m: &Value| m["params"]["update"]["sessionUpdate"] == "user_message_chunk";
                t.place(|m| m["id"] == 1009) < t.place(replayed)
            }),
            sight(
                "acp-ld-04-silent",
                |c| revived(c, "session/load"),
                |t| {
                    t.answer(1005)["result"].is_object()
                        && updates_after(t, 1004, "agent_message_chunk") == 0
                },
            ),
            sight(
                "acp-ld-05-text-only",
                |c| load_after(c, "use a tool"),
                |t| updates_after(t, 1003, "tool_call") == 0,
            ),
            sight(
                "acp-ld-06-no-plan",
                |c| load_after(c, "make a plan"),
                |t| updates_after(t, 1003, "plan") == 0,
            ),
            sight("acp-ld-06-first-mode", load_in_other_mode, |t| {
                t.answer(1004)["result"]["modes"]["currentModeId"] == "ask"
            }),
            sight(
                "acp-ld-08-no-servers",
                |c| reopen_with_server(c, "session/load"),
                is_not_called,
            )
            .scenario("rich")
            .silent(),
            sight("acp-ld-10-loses-the-turn", load_and_cancel, |t| {
                t.answers(1003).is_empty()
            }),
            sight("acp-rs-01-replays", sessions, |t| {
                t.updates("user_message_chunk").len() > 1
            }),
            sight("acp-rs-01-replays-while-open", sessions, |t| {
                t.updates("user_message_chunk").len() > 1
            }),
            sight(
                "acp-rs-01-closed-is-replayed",
                |c| close_and(c, "session/resume"),
                |t| !t.updates("user_message_chunk").is_empty(),
            ),
            sight("acp-rs-02-refuses", sessions, |t| t.code(1010) == -32603),
            sight(
                "acp-rs-03-no-servers",
                |c| reopen_with_server(c, "session/resume"),
                is_not_called,
            )
            .scenario("rich")
            .silent(),
            sight("acp-cl-01-turn-goes-on", close_in_turn, |t| {
                t.answers(1003).is_empty()
            }),
            sight("acp-cl-02-null", sessions, |t| {
                let answer = t.answer(1014);
                answer.get("result").is_some_and(Value::is_null)
            }),
            sight("acp-li-01-bare-list", sessions, |t| {
                t.answer(1005)["result"].is_array()
            }),
            sight("acp-li-01-items", sessions, |t| {
                t.answer(1005)["result"]["items"].is_array()
            }),
            sight("acp-li-02-relative", sessions, |t| {
                t.answer(1005)["result"]["sessions"][0]["cwd"] == "."
            }),
            sight("acp-li-03-null", sessions, |t| {
                t.answer(1007)["result"]
                    .get("sessions")
                    .is_some_and(Value::is_null)
            }),
            sight("acp-li-04-no-filter", sessions, |t| {
                t.answer(1006)["result"]["sessions"]
                    .as_array()
                    .is_some_and(|l| l.len() == 2)
            }),
            sight("acp-li-05-any-cursor", sessions, |t| {
                t.answer(1008)["result"].is_object()
            }),
            sight("acp-li-06-same-page", pages, |t| {
                let page = |id: u64| t.answer(id)["result"]["sessions"].clone();
                page(1005) == page(1006)
            })
            .scenario("rich"),
            sight("acp-li-07-seconds", sessions, |t| {
                t.answer(1005)["result"]["sessions"][0]["updatedAt"] == "1700000000"
            }),
            sight("acp-de-01-still-there", sessions, |t| {
                t.answer(1013)["result"]["sessions"]
                    .as_array()
                    .is_some_and(|l| l.len() == 2)
            }),
            sight("acp-de-02-once", sessions, |t| t.code(1012) != 0),
            sight("acp-de-03-new-session", delete_new, |t| {
                t.code(1003) == -32603
            }),
            sight("acp-ad-01-refuses", sessions, |t| t.code(1015) == -32602),
        ],
    );
}
