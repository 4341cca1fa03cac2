//! How the ACP mutants of envelopes and initialization are detected.

use serde_json::{Value, json};

use crate::client::{Client, Tape};
use crate::mutants::sight;
use crate::scripts::*;

fn list(c: &mut Client) {
    c.initialize(json!({}));
    c.ask(1002, "session/list", json!({}));
}

fn invalid_then_valid(c: &mut Client) {
    c.initialize(json!({}));
    c.ask(1002, "session/new", json!({}));
    c.new_session(1003);
}

/// Whether there is a result with the id null.
fn answers_nothing(t: &Tape, result: &Value) -> bool {
    has(&t.messages(), |m| {
        m.get("id").is_some_and(Value::is_null) && m.get("result") == Some(result)
    })
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
            sight("acp-tr-06-no-id", list, |t| {
                has(&t.messages(), |m| {
                    m.get("id").is_none() && m["result"]["sessions"].is_array()
                })
            })
            .silent(),
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
            sight("acp-tr-10-answers-cancel", cancel, |t| {
                answers_nothing(t, &Value::Null)
            }),
            sight("acp-tr-10-answers-all", basics, |t| {
                answers_nothing(t, &json!({}))
            }),
            sight("acp-tr-10-error-without-id", basics, |t| {
                has(&t.messages(), |m| {
                    m.get("id").is_none() && m.get("error").is_some()
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
            sight("acp-tr-23-dies", invalid_then_valid, |t| {
                t.code(1002) == -32602 && t.answers(1003).is_empty()
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
                "acp-in-03-refuses-newer",
                |c| {
                    c.ask(1001, "initialize", json!({ "protocolVersion": 999 }));
                },
                |t| t.code(1001) == -32602,
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
            sight("acp-in-16-resume-missing", sessions, |t| {
                t.code(1010) == -32601
            }),
            sight("acp-in-16-delete-missing", sessions, |t| {
                t.code(1011) == -32601
            }),
            sight("acp-in-16-no-authenticate", login, |t| {
                t.code(1003) == -32601
            })
            .scenario("auth"),
            sight("acp-in-16-authenticate-missing", login, |t| {
                t.code(1003) == -32601
            })
            .scenario("auth"),
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
            sight("acp-au-03-env-var", starts, |t| raw_has(t, "\"env_var\"")).scenario("auth"),
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
