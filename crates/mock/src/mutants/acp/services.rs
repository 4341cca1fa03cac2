//! What the agent asks of the client: files, terminals, forms.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant, Tamper};

/// The client seems to offer something.
fn offered(message: Value, path: &str, value: Value) -> Heard {
    let start = calls(&message, "initialize");
    alter(message, start, |m| {
        set(m, &format!("/params/clientCapabilities{path}"), value);
    })
}

/// A release becomes another look at the output, so that the mock goes on.
fn not_released(message: Value) -> Frames {
    change(message, true, |m| set(m, "/method", "terminal/output"))
}

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-fs-01-reads-unasked",
        requirement: "FS-01",
        wrong: "Files are read through clients that do not offer it.",
        scenario: "default",
        tamper: Tamper::In(|_, message| offered(message, "/fs/readTextFile", json!(true))),
    },
    Mutant {
        id: "acp-fs-02-writes-unasked",
        requirement: "FS-02",
        wrong: "Files are written through clients that do not offer it.",
        scenario: "default",
        tamper: Tamper::In(|_, message| offered(message, "/fs/writeTextFile", json!(true))),
    },
    Mutant {
        id: "acp-in-11-uses-everything",
        requirement: "IN-11",
        wrong: "Every client service is used, whatever the client said.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let fs = json!({ "readTextFile": true, "writeTextFile": true });
            let all = json!({ "fs": fs, "terminal": true, "elicitation": { "form": {} } });
            offered(message, "", all)
        }),
    },
    Mutant {
        id: "acp-fs-03-relative",
        requirement: "FS-03",
        wrong: "Files are named by relative paths.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method.starts_with("fs/"), |m| {
                let path = text(m, "/params/path");
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                set(m, "/params/path", name);
            })
        }),
    },
    Mutant {
        id: "acp-fs-04-line-zero",
        requirement: "FS-04",
        wrong: "Files are read from line 0 on.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "fs/read_text_file", |m| {
                set(m, "/params/line", 0);
            })
        }),
    },
    Mutant {
        id: "acp-fs-05-hangs-on-error",
        requirement: "FS-05",
        wrong: "A file that the client cannot read leaves the turn open for ever.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, _, message| {
                note_request(context, &message);
                send(message)
            },
            |context, message| lose_error(context, message, "fs/"),
        ),
    },
    Mutant {
        id: "acp-te-01-terminal-unasked",
        requirement: "TE-01",
        wrong: "Terminals are used through clients that have none.",
        scenario: "default",
        tamper: Tamper::In(|_, message| offered(message, "/terminal", json!(true))),
    },
    Mutant {
        id: "acp-te-02-not-released",
        requirement: "TE-02",
        wrong: "Terminals are never released.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| match sent.method == "terminal/release" {
            true => not_released(message),
            false => send(message),
        }),
    },
    Mutant {
        id: "acp-te-03-used-after-release",
        requirement: "TE-03",
        wrong: "A released terminal is asked for its output.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            if sent.method != "terminal/release" {
                return send(message);
            }
            let mut late = message.clone();
            set(&mut late, "/method", "terminal/output");
            set(&mut late, "/id", 900_000);
            vec![Frame::Json(message), Frame::Json(late)]
        }),
    },
    Mutant {
        id: "acp-te-04-killed-not-released",
        requirement: "TE-04",
        wrong: "A terminal whose command was killed is not released.",
        scenario: "terminal",
        tamper: Tamper::Out(|context, sent, message| {
            let terminal = message.pointer("/params/terminalId").cloned();
            if sent.method == "terminal/kill" {
                context
                    .notes
                    .insert("killed", terminal.clone().unwrap_or_default());
            }
            let killed = context.notes.get("killed").cloned();
            match sent.method == "terminal/release" && killed.is_some() && killed == terminal {
                true => not_released(message),
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-te-05-relative",
        requirement: "TE-05",
        wrong: "Terminals are created in a relative directory.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "terminal/create", |m| {
                set(m, "/params/cwd", ".");
            })
        }),
    },
    Mutant {
        id: "acp-el-01-form-unasked",
        requirement: "EL-01",
        wrong: "Forms are sent to clients that do not take them.",
        scenario: "default",
        tamper: Tamper::In(|_, message| offered(message, "/elicitation/form", json!({}))),
    },
    Mutant {
        id: "acp-el-02-no-mode",
        requirement: "EL-02",
        wrong: "A form does not say that it is one.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                remove(m, "/params/mode");
            })
        }),
    },
    Mutant {
        id: "acp-el-02-no-scope",
        requirement: "EL-02",
        wrong: "A form belongs to neither a session nor a request.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                remove(m, "/params/sessionId");
            })
        }),
    },
    Mutant {
        id: "acp-el-03-nested",
        requirement: "EL-03",
        wrong: "A form has a field that is an object.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/create", |m| {
                let field = json!({ "type": "object", "properties": {} });
                set(m, "/params/requestedSchema/properties/more", field);
            })
        }),
    },
    Mutant {
        id: "acp-el-05-hangs-on-decline",
        requirement: "EL-05",
        wrong: "A declined form leaves the turn open for ever.",
        scenario: "default",
        tamper: Tamper::In(
            |_, message| match text(&message, "/result/action") == "decline" {
                true => swallow(),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "acp-fs-04-text-limit",
        requirement: "FS-04",
        wrong: "The limit of lines to read is a string.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "fs/read_text_file", |m| {
                set(m, "/params/limit", "10");
            })
        }),
    },
    Mutant {
        id: "acp-el-01-form-for-url",
        requirement: "EL-01",
        wrong: "Forms are sent to clients that take only pages.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let pages = "/params/clientCapabilities/elicitation/url";
            match message.pointer(pages).is_some() {
                true => offered(message, "/elicitation/form", json!({})),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "acp-el-04-same-id",
        requirement: "EL-04",
        wrong: "Two open questions have the same id.",
        scenario: "elicitation-url",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method.starts_with("elicitation/"), |m| {
                if m.pointer("/params/elicitationId").is_some() {
                    set(m, "/params/elicitationId", "question");
                }
            })
        }),
    },
    Mutant {
        id: "acp-el-04-unknown-complete",
        requirement: "EL-04",
        wrong: "A question is completed that was never asked.",
        scenario: "elicitation-url",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "elicitation/complete", |m| {
                set(m, "/params/elicitationId", "nobody-knows");
            })
        }),
    },
    Mutant {
        id: "acp-el-05-hangs-on-cancel",
        requirement: "EL-05",
        wrong: "A form that the user closes leaves the turn open for ever.",
        scenario: "default",
        tamper: Tamper::In(
            |_, message| match text(&message, "/result/action") == "cancel" {
                true => swallow(),
                false => pass(message),
            },
        ),
    },
    Mutant {
        id: "acp-el-06-http",
        requirement: "EL-06",
        wrong: "The page of a question is not behind https.",
        scenario: "elicitation-url",
        tamper: Tamper::Out(|_, _, message| {
            let url = text(&message, "/params/url").replace("https://", "http://");
            change(message, !url.is_empty(), |m| set(m, "/params/url", url))
        }),
    },
    Mutant {
        id: "acp-el-06-secret",
        requirement: "EL-06",
        wrong: "The page of a question is named with a password.",
        scenario: "elicitation-url",
        tamper: Tamper::Out(|_, _, message| {
            let url = text(&message, "/params/url").replace("https://", "https://user:pw@");
            change(message, !url.is_empty(), |m| set(m, "/params/url", url))
        }),
    },
];
