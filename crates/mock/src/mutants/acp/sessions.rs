//! New, load, resume, close, list, delete.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-se-01-number-id",
        requirement: "SE-01",
        wrong: "`sessionId` is a number.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/new"), |m| {
                set(m, "/result/sessionId", 7);
            })
        }),
    },
    Mutant {
        id: "acp-se-01-empty-id",
        requirement: "SE-01",
        wrong: "`sessionId` is empty.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/new"), |m| {
                set(m, "/result/sessionId", "");
            })
        }),
    },
    Mutant {
        id: "acp-se-02-same-id",
        requirement: "SE-02",
        wrong: "Every session has the id of the first.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            if !sent.answers("session/new") {
                return send(message);
            }
            let own = message.pointer("/result/sessionId").cloned();
            let first = context
                .notes
                .entry("first")
                .or_insert(own.unwrap_or_default());
            let first = first.clone();
            change(message, true, |m| set(m, "/result/sessionId", first))
        }),
    },
    Mutant {
        id: "acp-se-03-modes-list",
        requirement: "SE-03",
        wrong: "`modes` of a new session is a bare list.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/new"), |m| {
                set(m, "/result/modes", json!(["ask", "act"]));
            })
        }),
    },
    Mutant {
        id: "acp-se-04-own-directory",
        requirement: "SE-04",
        wrong: "It works in the directory that it was started in, not in the session's.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let absolute = text(&message, "/params/cwd").starts_with('/');
            let fresh = calls(&message, "session/new");
            alter(message, fresh && absolute, |m| {
                let own = std::env::current_dir().unwrap_or_default();
                set(m, "/params/cwd", own.to_string_lossy().into_owned());
            })
        }),
    },
    Mutant {
        id: "acp-se-08-no-servers",
        requirement: "SE-08",
        wrong: "MCP servers of the client are not started.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let listed = message.pointer("/params/mcpServers").is_some();
            alter(message, listed, |m| set(m, "/params/mcpServers", json!([])))
        }),
    },
    Mutant {
        id: "acp-se-09-no-env",
        requirement: "SE-09",
        wrong: "MCP servers do not get their environment.",
        scenario: "default",
        tamper: Tamper::In(|_, mut message| {
            each(&mut message, "/params/mcpServers", |server| {
                set(server, "/env", json!([]));
            });
            pass(message)
        }),
    },
    Mutant {
        id: "acp-se-10-first-server",
        requirement: "SE-10",
        wrong: "Only the first MCP server is started.",
        scenario: "default",
        tamper: Tamper::In(|_, mut message| {
            if let Some(Value::Array(list)) = message.pointer_mut("/params/mcpServers") {
                list.truncate(1);
            }
            pass(message)
        }),
    },
    Mutant {
        id: "acp-se-14-other-session",
        requirement: "SE-14",
        wrong: "Updates name a session that nobody opened.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "session/update", |m| {
                set(m, "/params/sessionId", "someone-else");
            })
        }),
    },
    Mutant {
        id: "acp-ld-01-no-replay",
        requirement: "LD-01",
        wrong: "A loaded session is not replayed.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let load = calls(&message, "session/load");
            alter(message, load, |m| set(m, "/method", "session/resume"))
        }),
    },
    Mutant {
        id: "acp-ld-01-half-replay",
        requirement: "LD-01",
        wrong: "A loaded session is replayed without what the user said.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.update.as_str() {
            "user_message_chunk" => Vec::new(),
            _ => send(message),
        }),
    },
    Mutant {
        id: "acp-ld-02-answers-first",
        requirement: "LD-02",
        wrong: "session/load is answered before the replay.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            if sent.method == "session/update" && context.is_open("session/load") {
                if let Some(Value::Array(held)) = context.notes.get_mut("held") {
                    held.push(message);
                } else {
                    context.notes.insert("held", Value::Array(vec![message]));
                }
                return Vec::new();
            }
            let mut frames = send(message);
            if sent.answers("session/load")
                && let Some(Value::Array(held)) = context.notes.remove("held")
            {
                frames.extend(held.into_iter().map(Frame::Json));
            }
            frames
        }),
    },
    Mutant {
        id: "acp-rs-01-replays",
        requirement: "RS-01",
        wrong: "A resumed session is replayed.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let resume = calls(&message, "session/resume");
            alter(message, resume, |m| {
                set(m, "/method", "session/load");
                set(m, "/params/mcpServers", json!([]));
            })
        }),
    },
    Mutant {
        id: "acp-cl-01-turn-goes-on",
        requirement: "CL-01",
        wrong: "A closed session goes on with its turn.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/close") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-cl-02-null",
        requirement: "CL-02",
        wrong: "session/close is answered with null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/close"), |m| {
                set(m, "/result", Value::Null);
            })
        }),
    },
    Mutant {
        id: "acp-li-01-bare-list",
        requirement: "LI-01",
        wrong: "session/list is answered with a bare list.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/list"), |m| {
                let list = m.pointer("/result/sessions").cloned();
                set(m, "/result", list.unwrap_or_default());
            })
        }),
    },
    Mutant {
        id: "acp-li-02-relative",
        requirement: "LI-02",
        wrong: "The directories of listed sessions are relative.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/list"), |m| {
                each(m, "/result/sessions", |session| set(session, "/cwd", "."));
            })
        }),
    },
    Mutant {
        id: "acp-li-03-null",
        requirement: "LI-03",
        wrong: "An empty list of sessions is null.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let empty = message.pointer("/result/sessions") == Some(&json!([]));
            change(message, sent.answers("session/list") && empty, |m| {
                set(m, "/result/sessions", Value::Null);
            })
        }),
    },
    Mutant {
        id: "acp-li-04-no-filter",
        requirement: "LI-04",
        wrong: "Sessions of other directories are listed too.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let list = calls(&message, "session/list");
            alter(message, list, |m| remove(m, "/params/cwd"))
        }),
    },
    Mutant {
        id: "acp-li-05-any-cursor",
        requirement: "LI-05",
        wrong: "A cursor that it never gave is taken for the first page.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let foreign = !text(&message, "/params/cursor").starts_with("from-");
            let list = calls(&message, "session/list");
            alter(message, list && foreign, |m| remove(m, "/params/cursor"))
        }),
    },
    Mutant {
        id: "acp-li-06-same-page",
        requirement: "LI-06",
        wrong: "Every page of the list is the first, with another one to come.",
        scenario: "rich",
        tamper: Tamper::In(|_, message| {
            let list = calls(&message, "session/list");
            let own = text(&message, "/params/cursor").starts_with("from-");
            alter(message, list && own, |m| remove(m, "/params/cursor"))
        }),
    },
    Mutant {
        id: "acp-li-07-seconds",
        requirement: "LI-07",
        wrong: "`updatedAt` counts seconds.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("session/list"), |m| {
                each(m, "/result/sessions", |session| {
                    set(session, "/updatedAt", "1700000000");
                });
            })
        }),
    },
    Mutant {
        id: "acp-de-01-still-there",
        requirement: "DE-01",
        wrong: "A deleted session is still listed.",
        scenario: "default",
        tamper: Tamper::In(|_, message| match calls(&message, "session/delete") {
            true => answer(&message, json!({})),
            false => pass(message),
        }),
    },
    Mutant {
        id: "acp-de-02-once",
        requirement: "DE-02",
        wrong: "To delete a session twice is an error.",
        scenario: "default",
        tamper: Tamper::In(|context, message| {
            if !calls(&message, "session/delete") {
                return pass(message);
            }
            let id = message.pointer("/params/sessionId").cloned();
            let gone = context.notes.insert("gone", id.clone().unwrap_or_default());
            match gone.is_some() && gone == id {
                true => refuse(&message, -32002),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-ad-01-refuses",
        requirement: "AD-01",
        wrong: "`additionalDirectories` is advertised and refused.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let more = message.pointer("/params/additionalDirectories").is_some();
            match more && is_request(&message) {
                true => refuse(&message, -32602),
                false => pass(message),
            }
        }),
    },
];
