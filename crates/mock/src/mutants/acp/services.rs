//! Defects of the requests to the client: files, terminals, forms.

use serde_json::json;

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{AgentMutant, MessageFrame};

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-fs-01-reads-unasked", "FS-01")
            .describe("Files are read through clients that do not offer it.")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/fs/readTextFile", true),
            ),
        mutant("acp-fs-02-writes-unasked", "FS-02")
            .describe("Files are written through clients that do not offer it.")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/fs/writeTextFile", true),
            ),
        mutant("acp-in-11-uses-everything", "IN-11")
            .describe("All client services are used, regardless of the client's capabilities.")
            .incoming(
                method("initialize"),
                sets(
                    "/params/clientCapabilities",
                    json!({
                        "fs": { "readTextFile": true, "writeTextFile": true },
                        "terminal": true,
                        "elicitation": { "form": {} },
                    }),
                ),
            ),
        mutant("acp-fs-03-relative", "FS-03")
            .describe("File paths are relative.")
            .outgoing(methods("fs/"), |m| {
                let path = text(m, "/params/path");
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                set(m, "/params/path", name);
            }),
        mutant("acp-fs-04-line-zero", "FS-04")
            .describe("Files are read from line 0.")
            .outgoing(method("fs/read_text_file"), sets("/params/line", 0)),
        mutant("acp-fs-05-hangs-on-error", "FS-05")
            .describe("The turn hangs if the client cannot read a file.")
            .tamper_out(|context, _, message| {
                note_request(context, &message);
                send(message)
            })
            .tamper_in(|context, message| drop_error(context, message, "fs/")),
        mutant("acp-te-01-terminal-unasked", "TE-01")
            .describe("Terminals are used with clients that do not offer them.")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/terminal", true),
            ),
        // Send another request for the output instead of the release, so that the mock gets a
        // response and continues.
        mutant("acp-te-02-not-released", "TE-02")
            .describe("Terminals are never released.")
            .outgoing(
                method("terminal/release"),
                sets("/method", "terminal/output"),
            ),
        mutant("acp-te-03-used-after-release", "TE-03")
            .describe("The output of a released terminal is requested.")
            .tamper_out(|_, summary, message| {
                if summary.method != "terminal/release" {
                    return send(message);
                }
                let mut late = message.clone();
                set(&mut late, "/method", "terminal/output");
                set(&mut late, "/id", 900_000);
                vec![MessageFrame::Json(message), MessageFrame::Json(late)]
            }),
        mutant("acp-te-04-killed-not-released", "TE-04")
            .describe("A terminal whose command was killed is not released.")
            .scenario("terminal")
            .tamper_out(|context, summary, message| {
                let terminal = message.pointer("/params/terminalId").cloned();
                if summary.method == "terminal/kill" {
                    context
                        .notes
                        .insert("killed", terminal.clone().unwrap_or_default());
                }
                let killed = context.notes.get("killed").cloned();
                let held_message =
                    summary.method == "terminal/release" && killed.is_some() && killed == terminal;
                change(message, held_message, |m| {
                    set(m, "/method", "terminal/output")
                })
            }),
        mutant("acp-te-05-relative", "TE-05")
            .describe("Terminals are created in a relative directory.")
            .outgoing(method("terminal/create"), sets("/params/cwd", ".")),
        mutant("acp-el-01-form-unasked", "EL-01")
            .describe("Forms are sent to clients that do not support them.")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/elicitation/form", json!({})),
            ),
        mutant("acp-el-02-no-mode", "EL-02")
            .describe("A form has no mode.")
            .outgoing(method("elicitation/create"), removes("/params/mode")),
        mutant("acp-el-02-no-scope", "EL-02")
            .describe("A form belongs to neither a session nor a request.")
            .outgoing(method("elicitation/create"), removes("/params/sessionId")),
        mutant("acp-el-03-nested", "EL-03")
            .describe("A form has a field that is an object.")
            .outgoing(
                method("elicitation/create"),
                sets(
                    "/params/requestedSchema/properties/more",
                    json!({ "type": "object", "properties": {} }),
                ),
            ),
        mutant("acp-el-05-hangs-on-decline", "EL-05")
            .describe("The turn hangs if the user declines a form.")
            .replace_incoming(is("/result/action", "decline"), ignores()),
        mutant("acp-fs-04-text-limit", "FS-04")
            .describe("The limit of lines to read is a string.")
            .outgoing(method("fs/read_text_file"), sets("/params/limit", "10")),
        mutant("acp-el-01-form-for-url", "EL-01")
            .describe("Forms are sent to clients that support only URLs.")
            .incoming(
                both(
                    method("initialize"),
                    has("/params/clientCapabilities/elicitation/url"),
                ),
                sets("/params/clientCapabilities/elicitation/form", json!({})),
            ),
        mutant("acp-el-04-same-id", "EL-04")
            .describe("Two open elicitations have the same id.")
            .scenario("elicitation-url")
            .outgoing(methods("elicitation/"), |m| {
                if m.pointer("/params/elicitationId").is_some() {
                    set(m, "/params/elicitationId", "question");
                }
            }),
        mutant("acp-el-04-unknown-complete", "EL-04")
            .describe("An elicitation that was never sent is completed.")
            .scenario("elicitation-url")
            .outgoing(
                method("elicitation/complete"),
                sets("/params/elicitationId", "nobody-knows"),
            ),
        mutant("acp-el-05-hangs-on-cancel", "EL-05")
            .describe("The turn hangs if the user cancels a form.")
            .replace_incoming(is("/result/action", "cancel"), ignores()),
        mutant("acp-el-06-http", "EL-06")
            .describe("The URL of an elicitation does not use https.")
            .scenario("elicitation-url")
            .tamper_out(|_, _, message| {
                let url = text(&message, "/params/url").replace("https://", "http://");
                change(message, !url.is_empty(), |m| set(m, "/params/url", url))
            }),
        mutant("acp-el-06-secret", "EL-06")
            .describe("The URL of an elicitation contains a password.")
            .scenario("elicitation-url")
            .tamper_out(|_, _, message| {
                let url = text(&message, "/params/url").replace("https://", "https://user:pw@");
                change(message, !url.is_empty(), |m| set(m, "/params/url", url))
            }),
    ]
}
