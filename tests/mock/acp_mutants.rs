//! How each ACP mutant is seen.

use agentproto::mock::Kind;
use serde_json::{Value, json};

use crate::client::{Client, Tape, silent, unable};
use crate::mutants::{Sight, check, sight};

/// The start, a session, a turn, a list, and everything that is wrong with an envelope.
fn basics(c: &mut Client) {
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
fn hello(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "hello");
}

/// Every kind of turn, with a client that can do everything.
fn everything(c: &mut Client) {
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

/// The same with a client that offers nothing.
fn without_services(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    for (id, prompt) in (1003..).zip(["read a", "write b", "use the terminal", "ask a question"]) {
        c.prompt(id, prompt);
    }
}

fn one_turn(c: &mut Client) {
    c.initialize_fully();
    c.new_session(1002);
    c.prompt(1003, "go");
}

fn modest_turn(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "go");
}

/// Login, and logout again.
fn login(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    c.ask(1003, "authenticate", json!({ "methodId": "key" }));
    c.new_session(1004);
    c.ask(1005, "logout", json!({}));
    c.new_session(1006);
}

fn starts(c: &mut Client) {
    c.initialize_fully();
}

fn starts_bare(c: &mut Client) {
    c.ask(1001, "initialize", json!({ "protocolVersion": 1 }));
}

/// Two sessions in two places, one with a turn; listed, loaded, resumed, deleted, closed.
fn sessions(c: &mut Client) {
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

/// A list of three sessions, two on a page.
fn pages(c: &mut Client) {
    c.initialize(json!({}));
    for id in 1002..1005 {
        c.new_session(id);
    }
    let first = c.ask(1005, "session/list", json!({}));
    let cursor = first["result"]["nextCursor"].clone();
    c.ask(1006, "session/list", json!({ "cursor": cursor }));
}

fn is_chunk(line: &[u8]) -> bool {
    line.windows(13).any(|part| part == b"message_chunk")
}

/// Starts a long turn, and waits for its first words.
fn slow_turn(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let params = c.prompt_params("be slow");
    c.tell(1003, "session/prompt", params);
    c.until(is_chunk);
}

/// Waits for the end of the turn, or five more chunks if it does not end.
fn end_or_more(c: &mut Client) {
    let mut chunks = 0;
    c.until(|line| {
        chunks += usize::from(is_chunk(line));
        chunks == 5 || line.windows(4).any(|part| part == b"1003")
    });
}

fn cancel(c: &mut Client) {
    slow_turn(c);
    let about = c.about_session();
    c.notify("session/cancel", about);
    end_or_more(c);
}

fn close_in_turn(c: &mut Client) {
    slow_turn(c);
    let about = c.about_session();
    c.tell(1004, "session/close", about);
    end_or_more(c);
}

fn cancel_request(c: &mut Client) {
    slow_turn(c);
    c.notify("$/cancel_request", json!({ "requestId": 1003 }));
    c.wait_for(1003);
}

fn cancel_while_asking(c: &mut Client) {
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

fn reject(request: &Value) -> Option<Value> {
    let _ = request;
    let outcome = json!({ "outcome": "selected", "optionId": "reject-once" });
    Some(json!({ "result": { "outcome": outcome } }))
}

fn rejected(c: &mut Client) {
    c.service = reject;
    c.initialize(json!({}));
    c.new_session(1002);
    c.prompt(1003, "ask for permission");
}

fn unable_turn(c: &mut Client) {
    c.service = unable;
    one_turn(c);
}

fn decline(_: &Value) -> Option<Value> {
    Some(json!({ "result": { "action": "decline" } }))
}

fn declined(c: &mut Client) {
    c.service = decline;
    one_turn(c);
}

/// Two sessions that ask at the same time.
fn two_questions(c: &mut Client) {
    c.initialize(json!({}));
    c.service = silent;
    for (session, turn) in [(1002, 1004), (1003, 1005)] {
        c.new_session(session);
        let params = c.prompt_params("ask for permission");
        c.tell(turn, "session/prompt", params);
        c.until_called("session/request_permission");
    }
}

fn modes(c: &mut Client) {
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

fn blocks(c: &mut Client, blocks: Value) {
    c.initialize(json!({}));
    c.new_session(1002);
    let params = json!({ "sessionId": c.session, "prompt": blocks });
    c.ask(1003, "session/prompt", params);
}

/// The list of options in an answer or update.
fn options(value: &Value) -> Vec<Value> {
    value["configOptions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn new_options(tape: &Tape) -> Vec<Value> {
    options(&tape.answer(1002)["result"])
}

fn first_location(tape: &Tape) -> Vec<Value> {
    let calls = tape.updates("tool_call").into_iter();
    calls
        .filter_map(|call| Some(call["locations"].as_array()?.first()?.clone()))
        .collect()
}

fn starts_with(value: &Value, start: &str) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(start))
}

fn has(list: &[Value], fits: impl Fn(&Value) -> bool) -> bool {
    list.iter().any(fits)
}

fn raw_has(tape: &Tape, part: &str) -> bool {
    tape.raw
        .iter()
        .any(|line| String::from_utf8_lossy(line).contains(part))
}

fn ids(list: &[Value], key: &str) -> (usize, usize) {
    let mut ids: Vec<String> = list.iter().map(|item| item[key].to_string()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    (all, ids.len())
}

fn end_is(tape: &Tape, reason: &str) -> bool {
    tape.answer(1003)["result"]["stopReason"] == reason
}

#[test]
fn transport() {
    check_group(
        &["tr"],
        vec![
            sight("acp-tr-01-latin1", hello, |t| {
                t.raw.iter().any(|l| std::str::from_utf8(l).is_err())
            }),
            sight("acp-tr-02-pretty-printed", hello, |t| {
                t.raw.iter().any(|l| l == b"{")
            }),
            sight("acp-tr-02-two-per-line", hello, |t| raw_has(t, "}{")),
            sight("acp-tr-03-banner", hello, |t| raw_has(t, "Welcome")),
            sight("acp-tr-03-log-line", hello, |t| raw_has(t, "[info]")),
            sight("acp-tr-03-bare-json", hello, |t| {
                has(&t.messages(), |m| m["level"] == "info")
            }),
            sight("acp-tr-05-no-jsonrpc", hello, |t| {
                has(&t.calls("session/update"), |m| m.get("jsonrpc").is_none())
            }),
            sight("acp-tr-05-old-version", hello, |t| {
                t.answer(1002)["jsonrpc"] == "1.0"
            }),
            sight("acp-tr-06-result-and-error", hello, |t| {
                has(&t.messages(), |m| {
                    m.get("result").is_some() && m.get("error").is_some()
                })
            }),
            sight("acp-tr-06-neither", basics, |t| {
                let answer = t.answer(1004);
                answer.is_object()
                    && answer.get("result").is_none()
                    && answer.get("error").is_none()
            }),
            sight("acp-tr-07-error-text", basics, |t| {
                t.answer(1005)["error"].is_string()
            }),
            sight("acp-tr-07-code-text", basics, |t| {
                t.answer(1005)["error"]["code"].is_string()
            }),
            sight("acp-tr-07-no-message", basics, |t| {
                t.answer(1005)["error"]
                    .as_object()
                    .is_some_and(|e| !e.contains_key("message"))
            }),
            sight("acp-tr-08-number-as-text", hello, |t| {
                has(&t.messages(), |m| m["id"] == "1003")
            }),
            sight("acp-tr-08-text-lost", basics, |t| {
                !has(&t.messages(), |m| m["id"] == "text-1") && t.code(1005) != 0
            }),
            sight("acp-tr-08-zero-lost", basics, |t| {
                !has(&t.messages(), |m| m["id"] == 0)
            }),
            sight("acp-tr-09-two-answers", hello, |t| {
                t.answers(1002).len() == 2
            }),
            sight("acp-tr-09-no-answer", basics, |t| {
                t.answers(1004).is_empty() && !t.answers(1005).is_empty()
            })
            .silent(),
            sight("acp-tr-10-answers-notification", basics, |t| {
                has(&t.messages(), |m| {
                    m["id"].is_null() && m["error"]["code"] == -32601
                })
            }),
            sight("acp-tr-11-internal-error", basics, |t| {
                t.code(1005) == -32603
            }),
            sight("acp-tr-12-internal-error", basics, |t| {
                t.code(1006) == -32603
            }),
            sight("acp-tr-13-silent", basics, |t| {
                !has(&t.messages(), |m| m["error"]["code"] == -32700)
            }),
            sight("acp-tr-15-takes-anything", basics, |t| {
                t.answer(1007)["result"].is_object()
            }),
            sight("acp-tr-17-same-request-id", two_questions, |t| {
                let (all, different) = ids(&t.calls("session/request_permission"), "id");
                all == 2 && different == 1
            }),
            sight("acp-tr-22-snake-case", everything, |t| {
                has(&t.updates("tool_call"), |u| u.get("raw_input").is_some())
            }),
        ],
    );
}

#[test]
fn start_and_login() {
    check_group(
        &["in", "au", "ex"],
        vec![
            sight("acp-in-01-version-text", starts, |t| {
                t.answer(1001)["result"]["protocolVersion"].is_string()
            }),
            sight("acp-in-02-other-version", starts, |t| {
                t.answer(1001)["result"]["protocolVersion"] == 0
            }),
            sight(
                "acp-in-03-echoes-version",
                |c| {
                    c.ask(1001, "initialize", json!({ "protocolVersion": 999 }));
                },
                |t| t.answer(1001)["result"]["protocolVersion"] == 999,
            ),
            sight(
                "acp-in-04-refuses-newer",
                |c| {
                    let info = json!({ "name": "x", "version": "1" });
                    let params = json!({ "protocolVersion": 2, "info": info, "capabilities": {} });
                    c.ask(1001, "initialize", params);
                },
                |t| t.code(1001) != 0,
            ),
            sight(
                "acp-in-05-takes-text",
                |c| {
                    c.ask(1001, "initialize", json!({ "protocolVersion": "1" }));
                },
                |t| t.answer(1001)["result"].is_object(),
            ),
            sight("acp-in-06-no-capabilities", starts, |t| {
                t.answer(1001)["result"].get("agentCapabilities").is_none()
            }),
            sight("acp-in-07-no-info", starts, |t| {
                t.answer(1001)["result"].get("agentInfo").is_none()
            }),
            sight("acp-in-08-capability-text", starts, |t| {
                t.answer(1001)["result"]["agentCapabilities"]["loadSession"] == "yes"
            }),
            sight("acp-in-09-needs-capabilities", starts_bare, |t| {
                t.code(1001) != 0
            }),
            sight(
                "acp-in-10-needs-files",
                |c| {
                    c.initialize(json!({ "terminal": true }));
                },
                |t| t.code(1001) != 0,
            ),
            sight("acp-in-11-uses-everything", without_services, |t| {
                [
                    "fs/read_text_file",
                    "fs/write_text_file",
                    "terminal/create",
                    "elicitation/create",
                ]
                .iter()
                .all(|method| !t.calls(method).is_empty())
            }),
            sight("acp-in-15-no-prompt", hello, |t| t.code(1003) == -32601),
            sight("acp-in-16-load-missing", sessions, |t| {
                t.code(1009) == -32601
            }),
            sight("acp-au-01-same-ids", starts, |t| {
                let methods = t.answer(1001)["result"]["authMethods"].clone();
                let (all, different) = ids(methods.as_array().map_or(&[], Vec::as_slice), "id");
                all > different
            })
            .scenario("auth"),
            sight("acp-au-01-no-name", starts, |t| {
                let methods = t.answer(1001)["result"]["authMethods"].clone();
                has(methods.as_array().map_or(&[], Vec::as_slice), |m| {
                    m.get("name").is_none()
                })
            })
            .scenario("auth"),
            sight("acp-au-02-terminal-unasked", login, |t| {
                raw_has(t, "\"terminal\"")
            })
            .scenario("auth"),
            sight("acp-au-03-odd-type", starts, |t| raw_has(t, "\"browser\"")).scenario("auth"),
            sight("acp-au-04-command", starts, |t| raw_has(t, "\"command\"")).scenario("auth"),
            sight("acp-au-05-internal-error", login, |t| {
                t.code(1002) == -32603
            })
            .scenario("auth"),
            sight("acp-au-07-still-locked", login, |t| t.code(1004) == -32000).scenario("auth"),
            sight("acp-au-09-stays-in", login, |t| {
                t.answer(1006)["result"]["sessionId"].is_string()
            })
            .scenario("auth"),
            sight("acp-ex-01-root-field", hello, |t| raw_has(t, "\"mood\"")),
            sight("acp-ex-02-custom-method", hello, |t| {
                !t.calls("mock/telemetry").is_empty()
            }),
            sight("acp-ex-03-custom-unanswered", basics, |t| {
                t.answers(1008).is_empty()
            })
            .silent(),
            sight("acp-ex-04-custom-taken", basics, |t| {
                t.answer(1008)["result"].is_object()
            }),
            sight("acp-ex-05-dies-on-unknown", basics, |t| {
                t.answers(1010).is_empty()
            }),
            sight("acp-ex-06-refuses-meta", basics, |t| t.code(1009) == -32602),
            sight("acp-ex-07-custom-capability", starts, |t| {
                raw_has(t, "\"telepathy\"")
            }),
            sight("acp-ex-08-odd-trace", hello, |t| raw_has(t, "trace-1")),
        ],
    );
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
            sight("acp-se-02-same-id", sessions, |t| {
                let id = |answer: u64| t.answer(answer)["result"]["sessionId"].clone();
                id(1002) == id(1003)
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
            sight("acp-ld-01-no-replay", sessions, |t| {
                !t.answers(1009).is_empty() && t.updates("user_message_chunk").is_empty()
            }),
            sight("acp-ld-01-half-replay", sessions, |t| {
                t.updates("user_message_chunk").is_empty()
                    && t.updates("agent_message_chunk").len() > 3
            }),
            sight("acp-ld-02-answers-first", sessions, |t| {
                let replayed =
                    |m: &Value| m["params"]["update"]["sessionUpdate"] == "user_message_chunk";
                t.place(|m| m["id"] == 1009) < t.place(replayed)
            }),
            sight("acp-rs-01-replays", sessions, |t| {
                t.updates("user_message_chunk").len() > 1
            }),
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
            sight("acp-ad-01-refuses", sessions, |t| t.code(1015) == -32602),
        ],
    );
}

#[test]
fn turns() {
    check_group(
        &["pt", "cr"],
        vec![
            sight("acp-pt-01-no-reason", hello, |t| {
                t.answer(1003)["result"]
                    .as_object()
                    .is_some_and(|r| r.is_empty())
            }),
            sight("acp-pt-02-odd-reason", hello, |t| end_is(t, "done")),
            sight(
                "acp-pt-03-refuses-text",
                |c| {
                    let text = json!({ "type": "text", "text": "hello" });
                    blocks(c, json!([text, text]));
                },
                |t| t.code(1003) != 0,
            ),
            sight(
                "acp-pt-04-refuses-links",
                |c| {
                    let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a" });
                    blocks(c, json!([link]));
                },
                |t| t.code(1003) != 0,
            ),
            sight(
                "acp-pt-05-refuses-resources",
                |c| {
                    let resource = json!({ "uri": "file:///a", "text": "a" });
                    blocks(c, json!([{ "type": "resource", "resource": resource }]));
                },
                |t| t.code(1003) != 0,
            ),
            sight("acp-pt-09-says-nothing", hello, |t| t.said().is_empty()),
            sight("acp-pt-10-late-update", cancel, |t| {
                let end = t.place(|m| m["result"]["stopReason"] == "cancelled");
                let late =
                    |m: &Value| m["params"]["update"]["content"]["text"] == "and another thing";
                end.is_some() && end < t.place(late)
            }),
            sight("acp-pt-11-end-turn", cancel, |t| end_is(t, "end_turn")),
            sight("acp-pt-11-deaf", cancel, |t| t.answers(1003).is_empty()),
            sight("acp-pt-12-cancel-is-error", cancel, |t| t.code(1003) != 0),
            sight("acp-pt-14-goes-on", cancel_while_asking, |t| {
                end_is(t, "end_turn")
            }),
            sight(
                "acp-pt-16-one-turn",
                |c| {
                    hello(c);
                    c.prompt(1004, "hello");
                },
                |t| t.code(1004) != 0,
            ),
            sight("acp-pt-18-mixed-messages", hello, |t| {
                let ids: Vec<Value> = t
                    .updates("agent_message_chunk")
                    .iter()
                    .map(|u| u["messageId"].clone())
                    .collect();
                matches!(ids.as_slice(), [a, b, c, ..] if a == c && a != b)
            }),
            sight("acp-pt-19-usage-null", one_turn, |t| {
                has(&t.updates("usage_update"), |u| u["used"].is_null())
            })
            .scenario("updates"),
            sight("acp-pt-19-cost-without-currency", one_turn, |t| {
                has(&t.updates("usage_update"), |u| {
                    u["cost"].get("currency").is_none() && u.get("cost").is_some()
                })
            })
            .scenario("updates"),
            sight("acp-cr-01-no-answer", cancel_request, |t| {
                t.answers(1003).is_empty()
            })
            .silent(),
            sight("acp-cr-01-two-answers", cancel_request, |t| {
                t.answers(1003).len() == 2
            }),
            sight("acp-cr-02-answers", basics, |t| {
                has(&t.messages(), |m| {
                    m["id"].is_null() && m["error"]["code"] == -32601
                })
            }),
        ],
    );
}

#[test]
fn updates() {
    check_group(
        &["up", "tc", "pe", "pl", "sl", "no"],
        vec![
            sight("acp-up-01-unknown-variant", hello, |t| {
                !t.updates("agent_message").is_empty()
            }),
            sight("acp-up-01-bare-text", hello, |t| {
                has(&t.updates("agent_message_chunk"), |u| {
                    u["content"].is_string()
                })
            }),
            sight("acp-up-01-bare-content", everything, |t| {
                has(&t.updates("tool_call_update"), |u| {
                    u["content"][0]["type"] == "text"
                })
            }),
            sight("acp-tc-01-no-title", everything, |t| {
                has(&t.updates("tool_call"), |u| u.get("title").is_none())
            }),
            sight("acp-tc-02-same-id", everything, |t| {
                let (all, different) = ids(&t.updates("tool_call"), "toolCallId");
                all > 1 && different == 1
            }),
            sight("acp-tc-03-unknown-call", everything, |t| {
                has(&t.updates("tool_call_update"), |u| {
                    u["toolCallId"] == "nobody-knows"
                })
            }),
            sight("acp-tc-04-odd-kind", everything, |t| {
                has(&t.updates("tool_call"), |u| u["kind"] == "shell")
            }),
            sight("acp-tc-04-odd-status", everything, |t| {
                has(&t.updates("tool_call_update"), |u| u["status"] == "done")
            }),
            sight("acp-tc-05-starts-again", everything, |t| {
                let updates = t.updates("tool_call_update");
                updates.windows(2).any(|pair| {
                    matches!(pair, [a, b]
                if a["toolCallId"] == b["toolCallId"]
                && a["status"] == "completed" && b["status"] == "in_progress")
                })
            }),
            sight("acp-tc-06-no-progress", everything, |t| {
                !has(&t.updates("tool_call_update"), |u| {
                    u["status"] == "in_progress"
                })
            }),
            sight("acp-tc-07-left-open", everything, |t| {
                !has(&t.updates("tool_call_update"), |u| {
                    u["status"] == "completed"
                })
            }),
            sight("acp-tc-08-relative-place", everything, |t| {
                has(&first_location(t), |place| {
                    !starts_with(&place["path"], "/")
                })
            }),
            sight("acp-tc-08-relative-diff", everything, |t| {
                has(&t.updates("tool_call"), |u| {
                    let diff = &u["content"][0];
                    diff["type"] == "diff" && !starts_with(&diff["path"], "/")
                })
            }),
            sight("acp-tc-09-line-zero", one_turn, |t| {
                has(&first_location(t), |place| place["line"] == 0)
            })
            .scenario("tools"),
            sight("acp-tc-10-unknown-terminal", everything, |t| {
                raw_has(t, "nobody-knows")
            }),
            sight("acp-pe-01-no-call", everything, |t| {
                has(&t.calls("session/request_permission"), |m| {
                    m["params"].get("toolCall").is_none()
                })
            }),
            sight("acp-pe-02-same-option-ids", everything, |t| {
                has(&t.calls("session/request_permission"), |m| {
                    let options = m["params"]["options"].as_array();
                    let (all, different) = ids(options.map_or(&[], Vec::as_slice), "optionId");
                    all > different
                })
            }),
            sight("acp-pe-02-no-options", everything, |t| {
                has(&t.calls("session/request_permission"), |m| {
                    m["params"]["options"] == json!([])
                })
            }),
            sight("acp-pe-02-odd-kind", everything, |t| {
                has(&t.calls("session/request_permission"), |m| {
                    m["params"]["options"][0]["kind"] == "yes"
                })
            }),
            sight("acp-pe-03-acts-anyway", rejected, |t| {
                t.said() == "You allowed it."
            }),
            sight("acp-pe-04-gives-up", unable_turn, |t| {
                t.answers(1003).is_empty()
            })
            .scenario("permission")
            .silent(),
            sight("acp-pl-01-odd-priority", everything, |t| {
                has(&t.updates("plan"), |u| {
                    u["entries"][0]["priority"] == "urgent"
                })
            }),
            sight("acp-pl-01-no-status", everything, |t| {
                has(&t.updates("plan"), |u| {
                    u["entries"][0].get("status").is_none()
                })
            }),
            sight("acp-pl-02-only-changes", everything, |t| {
                has(&t.updates("plan"), |u| {
                    u["entries"].as_array().is_some_and(|e| e.len() == 1)
                })
            }),
            sight("acp-sl-01-no-description", hello, |t| {
                has(&t.updates("available_commands_update"), |u| {
                    u["availableCommands"][0].get("description").is_none()
                })
            }),
            sight("acp-sl-02-slash", hello, |t| {
                has(&t.updates("available_commands_update"), |u| {
                    starts_with(&u["availableCommands"][0]["name"], "/")
                })
            }),
            sight("acp-no-01-notice-unasked", modest_turn, |t| {
                !t.updates("notice").is_empty()
            })
            .scenario("updates"),
            sight("acp-no-02-compaction-unasked", modest_turn, |t| {
                !t.updates("compaction_update").is_empty()
            })
            .scenario("updates"),
        ],
    );
}

#[test]
fn modes_and_options() {
    let mut sights = vec![
        sight("acp-mo-01-unknown-current", modes, |t| {
            t.answer(1002)["result"]["modes"]["currentModeId"] == "nobody-knows"
        }),
        sight("acp-mo-01-same-ids", modes, |t| {
            let modes = t.answer(1002)["result"]["modes"]["availableModes"].clone();
            let (all, different) = ids(modes.as_array().map_or(&[], Vec::as_slice), "id");
            all > different
        }),
        sight("acp-mo-02-refuses", modes, |t| t.code(1003) != 0),
        sight("acp-mo-03-any-mode", modes, |t| {
            t.answer(1004)["result"].is_object()
        }),
        sight("acp-mo-04-mode-id", modes, |t| {
            has(&t.updates("current_mode_update"), |u| {
                u.get("modeId").is_some()
            })
        }),
        sight("acp-co-01-no-current", modes, |t| {
            has(&new_options(t), |o| o.get("currentValue").is_none())
        }),
        sight("acp-co-02-unknown-current", modes, |t| {
            has(&new_options(t), |o| o["currentValue"] == "nobody-knows")
        }),
        sight("acp-co-02-same-ids", modes, |t| {
            let (all, different) = ids(&new_options(t), "id");
            all > different
        }),
        sight("acp-co-03-boolean-unasked", modes, |t| {
            has(&new_options(t), |o| o["type"] == "boolean")
        }),
        sight("acp-co-04-partial", modes, |t| {
            options(&t.answer(1005)["result"]).len() < new_options(t).len()
        }),
        sight("acp-co-04-not-applied", modes, |t| {
            has(&options(&t.answer(1005)["result"]), |o| {
                o["id"] == "model" && o["currentValue"] == "small"
            })
        }),
        sight("acp-co-05-any-value", modes, |t| {
            t.answer(1006)["result"].is_object()
        }),
        sight("acp-co-06-partial-update", modes, |t| {
            has(&t.updates("config_option_update"), |u| {
                options(u).len() == 1
            })
        }),
        sight("acp-co-07-out-of-step", modes, |t| {
            let updates = t.updates("config_option_update");
            !updates.is_empty() && has(&updates, |u| u["configOptions"][0]["currentValue"] == "ask")
        }),
        sight("acp-co-08-odd-category", modes, |t| {
            has(&new_options(t), |o| o["category"] == "colour")
        }),
    ];
    for sight in &mut sights {
        sight.scenario = "modes";
    }
    check_group(&["mo", "co"], sights);
}

#[test]
fn services() {
    check_group(
        &["fs", "te", "el"],
        vec![
            sight("acp-fs-01-reads-unasked", without_services, |t| {
                !t.calls("fs/read_text_file").is_empty()
            }),
            sight("acp-fs-02-writes-unasked", without_services, |t| {
                !t.calls("fs/write_text_file").is_empty()
            }),
            sight("acp-fs-03-relative", everything, |t| {
                has(&t.calls("fs/read_text_file"), |m| {
                    !starts_with(&m["params"]["path"], "/")
                })
            }),
            sight("acp-fs-04-line-zero", everything, |t| {
                has(&t.calls("fs/read_text_file"), |m| m["params"]["line"] == 0)
            }),
            sight("acp-fs-05-hangs-on-error", unable_turn, |t| {
                t.answers(1003).is_empty()
            })
            .scenario("fs")
            .silent(),
            sight("acp-te-01-terminal-unasked", without_services, |t| {
                !t.calls("terminal/create").is_empty()
            }),
            sight("acp-te-02-not-released", everything, |t| {
                !t.calls("terminal/create").is_empty() && t.calls("terminal/release").is_empty()
            }),
            sight("acp-te-03-used-after-release", everything, |t| {
                let call =
                    |method: &'static str| t.messages().iter().rposition(|m| m["method"] == method);
                call("terminal/release") < call("terminal/output")
            }),
            sight("acp-te-04-killed-not-released", one_turn, |t| {
                t.calls("terminal/create").len() == 2 && t.calls("terminal/release").len() == 1
            })
            .scenario("terminal"),
            sight("acp-te-05-relative", everything, |t| {
                has(&t.calls("terminal/create"), |m| m["params"]["cwd"] == ".")
            }),
            sight("acp-el-01-form-unasked", without_services, |t| {
                !t.calls("elicitation/create").is_empty()
            }),
            sight("acp-el-02-no-mode", everything, |t| {
                has(&t.calls("elicitation/create"), |m| {
                    m["params"].get("mode").is_none()
                })
            }),
            sight("acp-el-02-no-scope", everything, |t| {
                has(&t.calls("elicitation/create"), |m| {
                    m["params"].get("sessionId").is_none()
                })
            }),
            sight("acp-el-03-nested", everything, |t| {
                has(&t.calls("elicitation/create"), |m| {
                    m["params"]["requestedSchema"]["properties"]["more"]["type"] == "object"
                })
            }),
            sight("acp-el-05-hangs-on-decline", declined, |t| {
                t.answers(1003).is_empty()
            })
            .scenario("elicitation")
            .silent(),
        ],
    );
}

/// Groups are tests of their own, so that they run side by side; MCP servers have theirs.
fn check_group(families: &[&str], sights: Vec<Sight>) {
    check(
        Kind::Acp,
        |id| {
            let family = id.split('-').nth(1).unwrap_or_default();
            families.contains(&family)
                && ![
                    "acp-se-08-no-servers",
                    "acp-se-09-no-env",
                    "acp-se-10-first-server",
                ]
                .contains(&id)
        },
        &sights,
    );
}
