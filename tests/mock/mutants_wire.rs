//! How the ACP mutants of envelopes, initialization and sessions are detected.

use serde_json::{Value, json};

use crate::mutants::sight;
use crate::scripts::*;

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
            sight("acp-tr-03-duplicate-key", hello, |t| {
                raw_has(t, "{\"id\":\"twin\",\"jsonrpc\"")
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
