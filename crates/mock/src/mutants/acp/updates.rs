//! Updates, tool calls, permissions, plans.

use serde_json::{Value, json};

use crate::mutants::tools::*;
use crate::mutants::{Mutant, Tamper};

pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "acp-up-01-unknown-variant",
        requirement: "UP-01",
        wrong: "Text comes in updates of the kind `agent_message`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "agent_message_chunk", |m| {
                set(m, "/params/update/sessionUpdate", "agent_message");
            })
        }),
    },
    Mutant {
        id: "acp-up-01-bare-text",
        requirement: "UP-01",
        wrong: "The content of text chunks is a string.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "agent_message_chunk", |m| {
                let words = text(m, "/params/update/content/text").to_owned();
                set(m, "/params/update/content", words);
            })
        }),
    },
    Mutant {
        id: "acp-tc-01-no-title",
        requirement: "TC-01",
        wrong: "Tool calls have no title.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call", |m| {
                remove(m, "/params/update/title");
            })
        }),
    },
    Mutant {
        id: "acp-tc-02-same-id",
        requirement: "TC-02",
        wrong: "Every tool call has the same id.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let tool = sent.update.starts_with("tool_call");
            let permission = sent.method == "session/request_permission";
            change(message, tool || permission, |m| {
                let path = match tool {
                    true => "/params/update/toolCallId",
                    false => "/params/toolCall/toolCallId",
                };
                set(m, path, "call");
            })
        }),
    },
    Mutant {
        id: "acp-tc-03-unknown-call",
        requirement: "TC-03",
        wrong: "Updates of tool calls name calls that were never announced.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call_update", |m| {
                set(m, "/params/update/toolCallId", "nobody-knows");
            })
        }),
    },
    Mutant {
        id: "acp-tc-04-odd-kind",
        requirement: "TC-04",
        wrong: "Tool calls are of the kind `shell`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call", |m| {
                set(m, "/params/update/kind", "shell");
            })
        }),
    },
    Mutant {
        id: "acp-tc-04-odd-status",
        requirement: "TC-04",
        wrong: "Finished tool calls have the status `done`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let finished = text(&message, "/params/update/status") == "completed";
            let update = sent.update == "tool_call_update";
            change(message, update && finished, |m| {
                set(m, "/params/update/status", "done");
            })
        }),
    },
    Mutant {
        id: "acp-tc-05-starts-again",
        requirement: "TC-05",
        wrong: "A finished tool call goes back to `in_progress`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let finished = text(&message, "/params/update/status") == "completed";
            if sent.update != "tool_call_update" || !finished {
                return send(message);
            }
            let mut again = message.clone();
            set(&mut again, "/params/update/status", "in_progress");
            let mut frames = send(message.clone());
            frames.extend(send(again));
            frames.extend(send(message));
            frames
        }),
    },
    Mutant {
        id: "acp-tc-06-no-progress",
        requirement: "TC-06",
        wrong: "A tool call that was allowed never says `in_progress`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let progress = text(&message, "/params/update/status") == "in_progress";
            match sent.update == "tool_call_update" && progress {
                true => Vec::new(),
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-tc-07-left-open",
        requirement: "TC-07",
        wrong: "Tool calls never finish.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            let status = text(&message, "/params/update/status");
            let finished = matches!(status, "completed" | "failed");
            match sent.update == "tool_call_update" && finished {
                true => Vec::new(),
                false => send(message),
            }
        }),
    },
    Mutant {
        id: "acp-tc-08-relative-place",
        requirement: "TC-08",
        wrong: "The places of tool calls are relative.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call", |m| {
                each(m, "/params/update/locations", |place| {
                    set(place, "/path", "notes.txt");
                });
            })
        }),
    },
    Mutant {
        id: "acp-tc-08-relative-diff",
        requirement: "TC-08",
        wrong: "The paths of diffs are relative.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call", |m| {
                each(m, "/params/update/content", |content| {
                    if text(content, "/type") == "diff" {
                        set(content, "/path", "notes.txt");
                    }
                });
            })
        }),
    },
    Mutant {
        id: "acp-tc-09-line-zero",
        requirement: "TC-09",
        wrong: "Lines in the places of tool calls count from 0.",
        scenario: "tools",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call", |m| {
                each(m, "/params/update/locations", |place| {
                    set(place, "/line", 0);
                });
            })
        }),
    },
    Mutant {
        id: "acp-tc-10-unknown-terminal",
        requirement: "TC-10",
        wrong: "Tool calls show a terminal that was never created.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call_update", |m| {
                each(m, "/params/update/content", |content| {
                    if text(content, "/type") == "terminal" {
                        set(content, "/terminalId", "nobody-knows");
                    }
                });
            })
        }),
    },
    Mutant {
        id: "acp-up-01-bare-content",
        requirement: "UP-01",
        wrong: "The content of tool calls is a list of bare text blocks.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "tool_call_update", |m| {
                each(m, "/params/update/content", |content| {
                    if let Some(inner) = content.get("content").cloned() {
                        *content = inner;
                    }
                });
            })
        }),
    },
    Mutant {
        id: "acp-pe-01-no-call",
        requirement: "PE-01",
        wrong: "A permission request names no tool call.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "session/request_permission", |m| {
                remove(m, "/params/toolCall");
            })
        }),
    },
    Mutant {
        id: "acp-pe-02-same-option-ids",
        requirement: "PE-02",
        wrong: "The options of a permission request share one id.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/params/options", |option| {
                set(option, "/optionId", "allow-once");
            });
            send(message)
        }),
    },
    Mutant {
        id: "acp-pe-02-no-options",
        requirement: "PE-02",
        wrong: "A permission request has no options to choose from.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.method == "session/request_permission", |m| {
                set(m, "/params/options", json!([]));
            })
        }),
    },
    Mutant {
        id: "acp-pe-02-odd-kind",
        requirement: "PE-02",
        wrong: "The options of a permission request are of the kind `yes`.",
        scenario: "default",
        tamper: Tamper::Out(|_, _, mut message| {
            each(&mut message, "/params/options", |option| {
                set(option, "/kind", "yes");
            });
            send(message)
        }),
    },
    Mutant {
        id: "acp-pe-03-acts-anyway",
        requirement: "PE-03",
        wrong: "A tool call that was rejected is done all the same.",
        scenario: "default",
        tamper: Tamper::In(|_, message| {
            let chosen = text(&message, "/result/outcome/optionId");
            let rejected = chosen.starts_with("reject");
            alter(message, rejected, |m| {
                set(m, "/result/outcome/optionId", "allow-once");
            })
        }),
    },
    Mutant {
        id: "acp-pe-04-gives-up",
        requirement: "PE-04",
        wrong: "A permission request that the client cannot answer leaves the turn open for ever.",
        scenario: "default",
        tamper: Tamper::Both(
            |context, _, message| {
                note_request(context, &message);
                send(message)
            },
            |context, message| lose_error(context, message, "session/request_permission"),
        ),
    },
    Mutant {
        id: "acp-pl-01-odd-priority",
        requirement: "PL-01",
        wrong: "Plan entries have the priority `urgent`.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "plan", |m| {
                each(m, "/params/update/entries", |entry| {
                    set(entry, "/priority", "urgent");
                });
            })
        }),
    },
    Mutant {
        id: "acp-pl-01-no-status",
        requirement: "PL-01",
        wrong: "Plan entries have no status.",
        scenario: "default",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "plan", |m| {
                each(m, "/params/update/entries", |entry| {
                    remove(entry, "/status")
                });
            })
        }),
    },
    Mutant {
        id: "acp-pl-02-only-changes",
        requirement: "PL-02",
        wrong: "A later plan update has only the first entry.",
        scenario: "default",
        tamper: Tamper::Out(|context, sent, message| {
            let later = sent.update == "plan" && !context.first("plan");
            change(message, later, |m| {
                let entries = m.pointer_mut("/params/update/entries");
                if let Some(Value::Array(entries)) = entries {
                    entries.truncate(1);
                }
            })
        }),
    },
    Mutant {
        id: "acp-sl-01-no-description",
        requirement: "SL-01",
        wrong: "Commands have no description.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "available_commands_update", |m| {
                each(m, "/params/update/availableCommands", |command| {
                    remove(command, "/description");
                });
            })
        }),
    },
    Mutant {
        id: "acp-sl-02-slash",
        requirement: "SL-02",
        wrong: "The names of commands start with a slash.",
        scenario: "modes",
        tamper: Tamper::Out(|_, sent, message| {
            change(message, sent.update == "available_commands_update", |m| {
                each(m, "/params/update/availableCommands", |command| {
                    let name = format!("/{}", text(command, "/name"));
                    set(command, "/name", name);
                });
            })
        }),
    },
    Mutant {
        id: "acp-no-01-notice-unasked",
        requirement: "NO-01",
        wrong: "Notices are sent to clients that do not take them.",
        scenario: "updates",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                set(m, "/params/clientCapabilities/session/notices", json!({}));
            })
        }),
    },
    Mutant {
        id: "acp-no-02-compaction-unasked",
        requirement: "NO-02",
        wrong: "Compactions are told to clients that do not take them.",
        scenario: "updates",
        tamper: Tamper::In(|_, message| {
            let start = calls(&message, "initialize");
            alter(message, start, |m| {
                set(
                    m,
                    "/params/clientCapabilities/session/compaction",
                    json!({}),
                );
            })
        }),
    },
];
