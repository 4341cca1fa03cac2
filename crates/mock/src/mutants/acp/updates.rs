//! Defects of updates, tool calls, permissions and plans.

use serde_json::{Value, json};

use crate::mutants::Mutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-up-01-unknown-variant", "UP-01")
            .says("Text is sent in updates of the type `agent_message`.")
            .out(
                updates("agent_message_chunk"),
                sets("/params/update/sessionUpdate", "agent_message"),
            ),
        wrong("acp-up-01-bare-text", "UP-01")
            .says("The content of text chunks is a string.")
            .out(updates("agent_message_chunk"), |m| {
                let words = text(m, "/params/update/content/text").to_owned();
                set(m, "/params/update/content", words);
            }),
        wrong("acp-tc-01-no-title", "TC-01")
            .says("Tool calls have no title.")
            .out(updates("tool_call"), removes("/params/update/title")),
        wrong("acp-tc-02-same-id", "TC-02")
            .says("Every tool call has the same id.")
            .tamper_out(|_, sent, message| {
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
        wrong("acp-tc-03-unknown-call", "TC-03")
            .says("Tool call updates name calls that were never reported.")
            .out(
                updates("tool_call_update"),
                sets("/params/update/toolCallId", "nobody-knows"),
            ),
        wrong("acp-tc-04-odd-kind", "TC-04")
            .says("Tool calls have the kind `shell`.")
            .out(updates("tool_call"), sets("/params/update/kind", "shell")),
        wrong("acp-tc-04-odd-status", "TC-04")
            .says("Finished tool calls have the status `done`.")
            .out(
                both(
                    updates("tool_call_update"),
                    is("/params/update/status", "completed"),
                ),
                sets("/params/update/status", "done"),
            ),
        wrong("acp-tc-05-starts-again", "TC-05")
            .says("A finished tool call changes back to `in_progress`.")
            .tamper_out(|_, sent, message| {
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
        wrong("acp-tc-06-no-progress", "TC-06")
            .says("A tool call that was allowed is never `in_progress`.")
            .out_as(
                both(
                    updates("tool_call_update"),
                    is("/params/update/status", "in_progress"),
                ),
                drops(),
            ),
        wrong("acp-tc-07-left-open", "TC-07")
            .says("Tool calls never finish.")
            .out_as(
                both(updates("tool_call_update"), |_, message| {
                    matches!(
                        text(message, "/params/update/status"),
                        "completed" | "failed"
                    )
                }),
                drops(),
            ),
        wrong("acp-tc-08-relative-place", "TC-08")
            .says("The locations of tool calls are relative paths.")
            .out(
                updates("tool_call"),
                edits_each("/params/update/locations", sets("/path", "notes.txt")),
            ),
        wrong("acp-tc-08-relative-diff", "TC-08")
            .says("The paths of diffs are relative.")
            .out(
                updates("tool_call"),
                edits_each("/params/update/content", |content| {
                    if text(content, "/type") == "diff" {
                        set(content, "/path", "notes.txt");
                    }
                }),
            ),
        wrong("acp-tc-09-line-zero", "TC-09")
            .says("Line numbers in tool call locations start at 0.")
            .scenario("tools")
            .out(
                updates("tool_call"),
                edits_each("/params/update/locations", sets("/line", 0)),
            ),
        wrong("acp-tc-10-unknown-terminal", "TC-10")
            .says("Tool calls contain a terminal that was never created.")
            .out(
                updates("tool_call_update"),
                edits_each("/params/update/content", |content| {
                    if text(content, "/type") == "terminal" {
                        set(content, "/terminalId", "nobody-knows");
                    }
                }),
            ),
        wrong("acp-up-01-bare-content", "UP-01")
            .says("The content of tool calls is a list of text blocks without a wrapper.")
            .out(
                updates("tool_call_update"),
                edits_each("/params/update/content", |content| {
                    if let Some(inner) = content.get("content").cloned() {
                        *content = inner;
                    }
                }),
            ),
        wrong("acp-pe-01-no-call", "PE-01")
            .says("A permission request has no tool call.")
            .out(
                method("session/request_permission"),
                removes("/params/toolCall"),
            ),
        wrong("acp-pe-02-same-option-ids", "PE-02")
            .says("The options of a permission request have the same id.")
            .out(
                any(),
                edits_each("/params/options", sets("/optionId", "allow-once")),
            ),
        wrong("acp-pe-02-no-options", "PE-02")
            .says("A permission request has no options.")
            .out(
                method("session/request_permission"),
                sets("/params/options", json!([])),
            ),
        wrong("acp-pe-02-odd-kind", "PE-02")
            .says("The options of a permission request have the kind `yes`.")
            .out(any(), edits_each("/params/options", sets("/kind", "yes"))),
        wrong("acp-pe-03-acts-anyway", "PE-03")
            .says("A rejected tool call is executed anyway.")
            .heard(
                begins("/result/outcome/optionId", "reject"),
                sets("/result/outcome/optionId", "allow-once"),
            ),
        wrong("acp-pe-04-gives-up", "PE-04")
            .says("The turn hangs if the client answers a permission request with an error.")
            .tamper_out(|context, _, message| {
                note_request(context, &message);
                send(message)
            })
            .tamper_in(|context, message| {
                lose_error(context, message, "session/request_permission")
            }),
        wrong("acp-pl-01-odd-priority", "PL-01")
            .says("Plan entries have the priority `urgent`.")
            .out(
                updates("plan"),
                edits_each("/params/update/entries", sets("/priority", "urgent")),
            ),
        wrong("acp-pl-01-no-status", "PL-01")
            .says("Plan entries have no status.")
            .out(
                updates("plan"),
                edits_each("/params/update/entries", removes("/status")),
            ),
        wrong("acp-pl-02-only-changes", "PL-02")
            .says("A later plan update has only the first entry.")
            .tamper_out(|context, sent, message| {
                let later = sent.update == "plan" && !context.first("plan");
                change(message, later, |m| {
                    let entries = m.pointer_mut("/params/update/entries");
                    if let Some(Value::Array(entries)) = entries {
                        entries.truncate(1);
                    }
                })
            }),
        wrong("acp-sl-01-no-description", "SL-01")
            .says("Commands have no description.")
            .scenario("modes")
            .out(
                updates("available_commands_update"),
                edits_each("/params/update/availableCommands", removes("/description")),
            ),
        wrong("acp-sl-02-slash", "SL-02")
            .says("The names of commands start with a slash.")
            .scenario("modes")
            .out(
                updates("available_commands_update"),
                edits_each("/params/update/availableCommands", |command| {
                    let name = format!("/{}", text(command, "/name"));
                    set(command, "/name", name);
                }),
            ),
        wrong("acp-no-01-notice-unasked", "NO-01")
            .says("Notices are sent to clients that do not support them.")
            .scenario("updates")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/session/notices", json!({})),
            ),
        wrong("acp-no-02-compaction-unasked", "NO-02")
            .says("Compaction updates are sent to clients that do not support them.")
            .scenario("updates")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/session/compaction", json!({})),
            ),
    ]
}
