//! Defects of updates, tool calls, permissions and plans.

use serde_json::{Value, json};

use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-up-01-unknown-variant", "UP-01")
            .describe("Text is sent in updates of the type `agent_message`.")
            .outgoing(
                updates("agent_message_chunk"),
                sets("/params/update/sessionUpdate", "agent_message"),
            ),
        mutant("acp-up-01-bare-text", "UP-01")
            .describe("The content of text chunks is a string.")
            .outgoing(updates("agent_message_chunk"), |m| {
                let words = text(m, "/params/update/content/text").to_owned();
                set(m, "/params/update/content", words);
            }),
        mutant("acp-tc-01-no-title", "TC-01")
            .describe("Tool calls have no title.")
            .outgoing(updates("tool_call"), removes("/params/update/title")),
        mutant("acp-tc-02-same-id", "TC-02")
            .describe("Every tool call has the same id.")
            .tamper_out(|_, summary, message| {
                let tool = summary.update.starts_with("tool_call");
                let permission = summary.method == "session/request_permission";
                change(message, tool || permission, |m| {
                    let path = match tool {
                        true => "/params/update/toolCallId",
                        false => "/params/toolCall/toolCallId",
                    };
                    set(m, path, "call");
                })
            }),
        mutant("acp-tc-03-unknown-call", "TC-03")
            .describe("Tool call updates name calls that were never reported.")
            .outgoing(
                updates("tool_call_update"),
                sets("/params/update/toolCallId", "nobody-knows"),
            ),
        mutant("acp-tc-04-odd-kind", "TC-04")
            .describe("Tool calls have the kind `shell`.")
            .outgoing(updates("tool_call"), sets("/params/update/kind", "shell")),
        mutant("acp-tc-04-odd-status", "TC-04")
            .describe("Finished tool calls have the status `done`.")
            .outgoing(
                both(
                    updates("tool_call_update"),
                    is("/params/update/status", "completed"),
                ),
                sets("/params/update/status", "done"),
            ),
        mutant("acp-tc-05-starts-again", "TC-05")
            .describe("A finished tool call changes back to `in_progress`.")
            .tamper_out(|_, summary, message| {
                let finished = text(&message, "/params/update/status") == "completed";
                if summary.update != "tool_call_update" || !finished {
                    return send(message);
                }
                let mut again = message.clone();
                set(&mut again, "/params/update/status", "in_progress");
                let mut frames = send(message.clone());
                frames.extend(send(again));
                frames.extend(send(message));
                frames
            }),
        mutant("acp-tc-06-no-progress", "TC-06")
            .describe("A tool call that was allowed is never `in_progress`.")
            .replace_outgoing(
                both(
                    updates("tool_call_update"),
                    is("/params/update/status", "in_progress"),
                ),
                drops(),
            ),
        mutant("acp-tc-07-left-open", "TC-07")
            .describe("Tool calls never finish.")
            .replace_outgoing(
                both(updates("tool_call_update"), |_, message| {
                    matches!(
                        text(message, "/params/update/status"),
                        "completed" | "failed"
                    )
                }),
                drops(),
            ),
        mutant("acp-tc-08-relative-place", "TC-08")
            .describe("The locations of tool calls are relative paths.")
            .outgoing(
                updates("tool_call"),
                edits_each("/params/update/locations", sets("/path", "notes.txt")),
            ),
        mutant("acp-tc-08-relative-diff", "TC-08")
            .describe("The paths of diffs are relative.")
            .outgoing(
                updates("tool_call"),
                edits_each("/params/update/content", |content| {
                    if text(content, "/type") == "diff" {
                        set(content, "/path", "notes.txt");
                    }
                }),
            ),
        mutant("acp-tc-09-line-zero", "TC-09")
            .describe("Line numbers in tool call locations start at 0.")
            .scenario("tools")
            .outgoing(
                updates("tool_call"),
                edits_each("/params/update/locations", sets("/line", 0)),
            ),
        mutant("acp-tc-10-unknown-terminal", "TC-10")
            .describe("Tool calls contain a terminal that was never created.")
            .outgoing(
                updates("tool_call_update"),
                edits_each("/params/update/content", |content| {
                    if text(content, "/type") == "terminal" {
                        set(content, "/terminalId", "nobody-knows");
                    }
                }),
            ),
        mutant("acp-up-01-bare-content", "UP-01")
            .describe("The content of tool calls is a list of text blocks without a wrapper.")
            .outgoing(
                updates("tool_call_update"),
                edits_each("/params/update/content", |content| {
                    if let Some(inner) = content.get("content").cloned() {
                        *content = inner;
                    }
                }),
            ),
        mutant("acp-pe-01-no-call", "PE-01")
            .describe("A permission request has no tool call.")
            .outgoing(
                method("session/request_permission"),
                removes("/params/toolCall"),
            ),
        mutant("acp-pe-02-same-option-ids", "PE-02")
            .describe("The options of a permission request have the same id.")
            .outgoing(
                any(),
                edits_each("/params/options", sets("/optionId", "allow-once")),
            ),
        mutant("acp-pe-02-no-options", "PE-02")
            .describe("A permission request has no options.")
            .outgoing(
                method("session/request_permission"),
                sets("/params/options", json!([])),
            ),
        mutant("acp-pe-02-odd-kind", "PE-02")
            .describe("The options of a permission request have the kind `yes`.")
            .outgoing(any(), edits_each("/params/options", sets("/kind", "yes"))),
        mutant("acp-pe-03-acts-anyway", "PE-03")
            .describe("A rejected tool call is executed anyway.")
            .incoming(
                starts_with("/result/outcome/optionId", "reject"),
                sets("/result/outcome/optionId", "allow-once"),
            ),
        mutant("acp-pe-04-gives-up", "PE-04")
            .describe("The turn hangs if the client answers a permission request with an error.")
            .tamper_out(|context, _, message| {
                note_request(context, &message);
                send(message)
            })
            .tamper_in(|context, message| {
                drop_error(context, message, "session/request_permission")
            }),
        mutant("acp-pl-01-odd-priority", "PL-01")
            .describe("Plan entries have the priority `urgent`.")
            .outgoing(
                updates("plan"),
                edits_each("/params/update/entries", sets("/priority", "urgent")),
            ),
        mutant("acp-pl-01-no-status", "PL-01")
            .describe("Plan entries have no status.")
            .outgoing(
                updates("plan"),
                edits_each("/params/update/entries", removes("/status")),
            ),
        mutant("acp-pl-02-only-changes", "PL-02")
            .describe("A later plan update has only the first entry.")
            .tamper_out(|context, summary, message| {
                let later = summary.update == "plan" && !context.first("plan");
                change(message, later, |m| {
                    let entries = m.pointer_mut("/params/update/entries");
                    if let Some(Value::Array(entries)) = entries {
                        entries.truncate(1);
                    }
                })
            }),
        mutant("acp-sl-01-no-description", "SL-01")
            .describe("Commands have no description.")
            .scenario("modes")
            .outgoing(
                updates("available_commands_update"),
                edits_each("/params/update/availableCommands", removes("/description")),
            ),
        mutant("acp-sl-02-slash", "SL-02")
            .describe("The names of commands start with a slash.")
            .scenario("modes")
            .outgoing(
                updates("available_commands_update"),
                edits_each("/params/update/availableCommands", |command| {
                    let name = format!("/{}", text(command, "/name"));
                    set(command, "/name", name);
                }),
            ),
        mutant("acp-no-01-notice-unasked", "NO-01")
            .describe("Notices are sent to clients that do not support them.")
            .scenario("updates")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/session/notices", json!({})),
            ),
        mutant("acp-no-02-compaction-unasked", "NO-02")
            .describe("Compaction updates are sent to clients that do not support them.")
            .scenario("updates")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/session/compaction", json!({})),
            ),
    ]
}
