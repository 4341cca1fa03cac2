//! How the ACP mutants of turns, updates, settings and services are detected.

use serde_json::{Value, json};

use crate::client::{Client, silent};
use crate::mutants::sight;
use crate::scripts::*;

/// Cancels a turn that has sent only a question, and then also the question.
fn cancel_before_updates(c: &mut Client) {
    c.initialize_fully();
    c.new_session(1002);
    c.service = silent;
    let params = c.prompt_params("go");
    c.tell(1003, "session/prompt", params);
    let question = c.until_called("elicitation/create");
    let about = c.about_session();
    c.notify("session/cancel", about);
    c.reply(&question.unwrap_or_default(), json!({ "action": "cancel" }));
    c.wait_for(1003);
}

/// Cancels a turn twice, and starts another one.
fn cancel_twice(c: &mut Client) {
    slow_turn(c);
    let about = c.about_session();
    c.notify("session/cancel", about.clone());
    c.notify("session/cancel", about);
    c.wait_for(1003);
    c.prompt(1004, "hello");
}

/// A turn while another session asks for permission.
fn turn_beside_question(c: &mut Client) {
    c.initialize(json!({}));
    c.service = silent;
    c.new_session(1002);
    let params = c.prompt_params("ask for permission");
    c.tell(1003, "session/prompt", params);
    c.until_called("session/request_permission");
    c.new_session(1004);
    c.prompt(1005, "hello");
}

fn unknown_value(c: &mut Client) {
    c.initialize(json!({}));
    c.new_session(1002);
    let params = json!({ "sessionId": c.session, "configId": "model", "value": "no-such-value" });
    c.ask(1003, "session/set_config_option", params);
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
            sight("acp-pt-11-ignored", cancel, |t| t.answers(1003).is_empty()),
            sight("acp-pt-11-deaf-at-first", cancel_before_updates, |t| {
                end_is(t, "end_turn")
            })
            .scenario("elicitation"),
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
            sight("acp-pt-17-second-cancel", cancel_twice, |t| {
                t.answer(1004)["result"]["stopReason"] == "cancelled"
            }),
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
            sight("acp-tc-11-failed-as-completed", one_turn, |t| {
                let updates = t.updates("tool_call_update");
                !updates.is_empty() && !has(&updates, |u| u["status"] == "failed")
            })
            .scenario("tools"),
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
            sight("acp-pe-07-waits", turn_beside_question, |t| {
                t.answers(1005).is_empty()
            })
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
        sight("acp-co-04-refused", modes, |t| t.code(1005) == -32602),
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
        sight("acp-co-05-keeps-unknown", unknown_value, |t| {
            has(&options(&t.answer(1003)["result"]), |o| {
                o["currentValue"] == "no-such-value"
            })
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
            has(&new_options(t), |o| o["category"] == "color")
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
