//! Initialization, authentication, extensibility.

use serde_json::{Value, json};

use crate::faults;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-in-01-version-text",
        requirement: "IN-01",
        wrong: "`protocolVersion` is answered as a string.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/protocolVersion", "1");
            })
        }),
    },
    Mutant {
        id: "acp-in-02-other-version",
        requirement: "IN-02",
        wrong: "Version 1 is asked for, and version 0 is answered.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let one = sent.asked.get("protocolVersion") == Some(&json!(1));
            change(message, sent.answers("initialize") && one, |m| {
                set(m, "/result/protocolVersion", 0);
            })
        }),
    },
    Mutant {
        id: "acp-in-03-echoes-version",
        requirement: "IN-03",
        wrong: "Whatever version is asked for is answered.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let asked = sent.asked.get("protocolVersion").cloned();
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/protocolVersion", asked.unwrap_or_default());
            })
        }),
    },
    Mutant {
        id: "acp-in-04-refuses-newer",
        requirement: "IN-04",
        wrong: "A client that asks for version 2 is refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let two = message.pointer("/params/protocolVersion") == Some(&json!(2));
            match calls(&message, "initialize") && two {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-in-05-takes-text",
        requirement: "IN-05",
        wrong: "The version \"1\" is taken for 1.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let text = message.pointer("/params/protocolVersion") == Some(&json!("1"));
            alter(message, text, |m| set(m, "/params/protocolVersion", 1))
        }),
    },
    Mutant {
        id: "acp-in-06-no-capabilities",
        requirement: "IN-06",
        wrong: "The answer to initialize has no `agentCapabilities`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/agentCapabilities");
            })
        }),
    },
    Mutant {
        id: "acp-in-07-no-info",
        requirement: "IN-07",
        wrong: "The answer to initialize has no `agentInfo`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/agentInfo");
            })
        }),
    },
    Mutant {
        id: "acp-in-08-capability-text",
        requirement: "IN-08",
        wrong: "`loadSession` is \"yes\".",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/agentCapabilities/loadSession", "yes");
            })
        }),
    },
    Mutant {
        id: "acp-in-09-needs-capabilities",
        requirement: "IN-09",
        wrong: "A client that says nothing of its capabilities is refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let silent = message.pointer("/params/clientCapabilities").is_none();
            match calls(&message, "initialize") && silent {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-in-10-needs-files",
        requirement: "IN-10",
        wrong: "A client that offers a terminal but no files is refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let offers = |path: &str| {
                let path = format!("/params/clientCapabilities{path}");
                message.pointer(&path) == Some(&Value::Bool(true))
            };
            let refused = offers("/terminal") && !offers("/fs/readTextFile");
            match calls(&message, "initialize") && refused {
                true => refuse(&message, -32603),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-in-15-no-prompt",
        requirement: "IN-15",
        wrong: "There is no session/prompt.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/prompt") {
            true => refuse(&message, -32601),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-in-16-load-missing",
        requirement: "IN-16",
        wrong: "`loadSession` is advertised, but there is no session/load.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/load") {
            true => refuse(&message, -32601),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-au-01-same-ids",
        requirement: "AU-01",
        wrong: "Two auth methods have the same id.",
        scenario: "auth",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                let methods = json!([{ "id": "key", "name": "A" }, { "id": "key", "name": "B" }]);
                set(m, "/result/authMethods", methods);
            })
        }),
    },
    Mutant {
        id: "acp-au-01-no-name",
        requirement: "AU-01",
        wrong: "An auth method has no name.",
        scenario: "auth",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/authMethods", json!([{ "id": "key" }]));
            })
        }),
    },
    Mutant {
        id: "acp-au-02-terminal-unasked",
        requirement: "AU-02",
        wrong: "A terminal login is offered to clients without a terminal for it.",
        scenario: "auth",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                set(m, "/params/clientCapabilities/auth/terminal", true);
            })
        }),
    },
    Mutant {
        id: "acp-au-03-odd-type",
        requirement: "AU-03",
        wrong: "An auth method has the type `browser`.",
        scenario: "auth",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                let method = json!({ "id": "web", "name": "Web", "type": "browser" });
                set(m, "/result/authMethods", json!([method]));
            })
        }),
    },
    Mutant {
        id: "acp-au-04-command",
        requirement: "AU-04",
        wrong: "A terminal login names a command of its own.",
        scenario: "auth",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                each(m, "/result/authMethods", |method| {
                    if text(method, "/type") == "terminal" {
                        set(method, "/command", "login");
                    }
                });
            })
        }),
    },
    Mutant {
        id: "acp-au-05-internal-error",
        requirement: "AU-05",
        wrong: "A missing login is an internal error.",
        scenario: "auth",
        tamper: Tamper::Out(|_, _, message| {
            let locked = message.pointer("/error/code") == Some(&json!(-32000));
            change(message, locked, |m| set(m, "/error/code", -32603))
        }),
    },
    Mutant {
        id: "acp-au-07-still-locked",
        requirement: "AU-07",
        wrong: "A login succeeds, and sessions still need one.",
        scenario: "auth",
        tamper: Tamper::In(|_, message| match calls(&message, "authenticate") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-au-09-stays-in",
        requirement: "AU-09",
        wrong: "A logout changes nothing.",
        scenario: "auth",
        tamper: Tamper::In(|_, message| match calls(&message, "logout") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-ex-01-root-field",
        requirement: "EX-01",
        wrong: "Text chunks carry a field of the agent's own beside `content`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "agent_message_chunk", |m| {
                set(m, "/params/update/mood", "good");
            })
        }),
    },
    Mutant {
        id: "acp-ex-02-custom-method",
        requirement: "EX-02",
        wrong: "A notification of its own has no underscore in front.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let extra = json!({ "jsonrpc": "2.0", "method": "mock/telemetry", "params": {} });
            match sent.answers("session/new") {
                true => vec![Frame::Json(message), Frame::Json(extra)],
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-ex-03-custom-unanswered",
        requirement: "EX-03",
        wrong: "Requests with an underscore in front are never answered.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let custom = text(&message, "/method").starts_with('_');
            match custom && is_request(&message) {
                true => swallow(),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-ex-04-custom-taken",
        requirement: "EX-04",
        wrong: "Custom requests that it does not know succeed.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let custom = text(&message, "/method").starts_with('_');
            match custom && is_request(&message) {
                true => answer(&message, json!({})),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-ex-05-dies-on-unknown",
        requirement: "EX-05",
        wrong: "A notification that it does not know ends the process.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let known = ["session/cancel", "$/cancel_request"];
            let notification = message.get("method").is_some() && message.get("id").is_none();
            if notification && !known.iter().any(|method| calls(&message, method)) {
                faults::exit(1);
            }
            pass(message)
        }),
    },
    Mutant {
        id: "acp-ex-06-refuses-meta",
        requirement: "EX-06",
        wrong: "A request with `_meta` is refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let meta = message.pointer("/params/_meta").is_some();
            match meta && is_request(&message) {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-ex-07-custom-capability",
        requirement: "EX-07",
        wrong: "A capability of its own stands beside the known ones, not under `_meta`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                set(m, "/result/agentCapabilities/telepathy", true);
            })
        }),
    },
    Mutant {
        id: "acp-ex-08-odd-trace",
        requirement: "EX-08",
        wrong: "`_meta.traceparent` of updates does not look like W3C's.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "session/update", |m| {
                set(m, "/params/_meta", json!({ "traceparent": "trace-1" }));
            })
        }),
    },
];
