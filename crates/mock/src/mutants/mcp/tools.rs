//! Tools: their list, their calls and what comes of them.

use serde_json::json;

use crate::mutants::tools::*;
use crate::mutants::{Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "mcp-tools-undeclared",
        requirement: "MCP-TOOL-01",
        wrong: "There are tools, but no capability says so.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("initialize"), |m| {
                remove(m, "/result/capabilities/tools");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-schema",
        requirement: "MCP-TOOL-03",
        wrong: "Tools have no `inputSchema`.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                remove(tool, "/inputSchema")
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-list-schema",
        requirement: "MCP-TOOL-04",
        wrong: "The `inputSchema` of a tool describes a list.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/inputSchema", json!({ "type": "array" }));
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-same-names",
        requirement: "MCP-TOOL-07",
        wrong: "All tools have the same name.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/name", "start")
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-odd-names",
        requirement: "MCP-TOOL-06",
        wrong: "Names of tools have spaces.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                let name = format!("{} a turn", text(tool, "/name"));
                set(tool, "/name", name);
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-unknown-taken",
        requirement: "MCP-TOOL-12",
        wrong: "A call of a tool that does not exist succeeds.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let name = text(&message, "/params/name");
            let known = matches!(name, "start" | "reply" | "");
            match calls(&message, "tools/call") && !known {
                true => answer(&message, json!({ "content": [] })),
                false => pass(message),
            }
        }),
    },
    Mutant {
        id: "mcp-tools-no-content",
        requirement: "MCP-TOOL-08",
        wrong: "Results have no `content`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/content");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-odd-content",
        requirement: "MCP-TOOL-09",
        wrong: "Results are of the type `markdown`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                each(m, "/result/content", |block| {
                    set(block, "/type", "markdown")
                });
            })
        }),
    },
    Mutant {
        id: "mcp-tools-unlike-schema",
        requirement: "MCP-TOOL-11",
        wrong: "Structured results lack a required field.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/structuredContent/text");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-structure",
        requirement: "MCP-TOOL-10",
        wrong: "Results have no `structuredContent`, though the tools promise it.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                remove(m, "/result/structuredContent");
            })
        }),
    },
    Mutant {
        id: "mcp-tools-mistake-hidden",
        requirement: "MCP-TOOL-14",
        wrong: "A call with bad arguments looks like a success.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.answers("tools/call"), |m| {
                set(m, "/result/isError", false);
            })
        }),
    },
    Mutant {
        id: "mcp-tools-no-name",
        requirement: "MCP-TOOL-02",
        wrong: "A tool has no name.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, message| {
            let second = message.pointer("/result/tools/1/name").is_some();
            change(message, second, |m| remove(m, "/result/tools/1/name"))
        }),
    },
    Mutant {
        id: "mcp-tools-list-output",
        requirement: "MCP-TOOL-05",
        wrong: "The `outputSchema` of a tool describes a list.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/result/tools", |tool| {
                set(tool, "/outputSchema", json!({ "type": "array" }));
            });
            send(message)
        }),
    },
    Mutant {
        id: "mcp-tools-nameless-taken",
        requirement: "MCP-TOOL-13",
        wrong: "A call that names no tool is the error of a tool.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let nameless = message.pointer("/params/name").is_none();
            let mistake = json!({ "content": [], "isError": true });
            match calls(&message, "tools/call") && nameless {
                true => answer(&message, mistake),
                false => pass(message),
            }
        }),
    },
];
