//! Defects of the requests to the client: files, terminals, forms.

use serde_json::json;

use crate::mutants::combine::*;
use crate::mutants::tools::*;
use crate::mutants::{Frame, Mutant};

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-fs-01-reads-unasked", "FS-01")
            .says("Files are read through clients that do not offer it.")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/fs/readTextFile", true),
            ),
        wrong("acp-fs-02-writes-unasked", "FS-02")
            .says("Files are written through clients that do not offer it.")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/fs/writeTextFile", true),
            ),
        wrong("acp-in-11-uses-everything", "IN-11")
            .says("All client services are used, regardless of the client's capabilities.")
            .heard(
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
        wrong("acp-fs-03-relative", "FS-03")
            .says("File paths are relative.")
            .out(methods("fs/"), |m| {
                let path = text(m, "/params/path");
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                set(m, "/params/path", name);
            }),
        wrong("acp-fs-04-line-zero", "FS-04")
            .says("Files are read from line 0.")
            .out(method("fs/read_text_file"), sets("/params/line", 0)),
        wrong("acp-fs-05-hangs-on-error", "FS-05")
            .says("The turn hangs if the client cannot read a file.")
            .tamper_out(|context, _, message| {
                note_request(context, &message);
                send(message)
            })
            .tamper_in(|context, message| lose_error(context, message, "fs/")),
        wrong("acp-te-01-terminal-unasked", "TE-01")
            .says("Terminals are used with clients that do not offer them.")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/terminal", true),
            ),
        // Send another request for the output instead of the release, so that the mock gets a
        // response and continues.
        wrong("acp-te-02-not-released", "TE-02")
            .says("Terminals are never released.")
            .out(
                method("terminal/release"),
                sets("/method", "terminal/output"),
            ),
        wrong("acp-te-03-used-after-release", "TE-03")
            .says("The output of a released terminal is requested.")
            .tamper_out(|_, sent, message| {
                if sent.method != "terminal/release" {
                    return send(message);
                }
                let mut late = message.clone();
                set(&mut late, "/method", "terminal/output");
                set(&mut late, "/id", 900_000);
                vec![Frame::Json(message), Frame::Json(late)]
            }),
        wrong("acp-te-04-killed-not-released", "TE-04")
            .says("A terminal whose command was killed is not released.")
            .scenario("terminal")
            .tamper_out(|context, sent, message| {
                let terminal = message.pointer("/params/terminalId").cloned();
                if sent.method == "terminal/kill" {
                    context
                        .notes
                        .insert("killed", terminal.clone().unwrap_or_default());
                }
                let killed = context.notes.get("killed").cloned();
                let kept =
                    sent.method == "terminal/release" && killed.is_some() && killed == terminal;
                change(message, kept, |m| set(m, "/method", "terminal/output"))
            }),
        wrong("acp-te-05-relative", "TE-05")
            .says("Terminals are created in a relative directory.")
            .out(method("terminal/create"), sets("/params/cwd", ".")),
        wrong("acp-el-01-form-unasked", "EL-01")
            .says("Forms are sent to clients that do not support them.")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/elicitation/form", json!({})),
            ),
        wrong("acp-el-02-no-mode", "EL-02")
            .says("A form has no mode.")
            .out(method("elicitation/create"), removes("/params/mode")),
        wrong("acp-el-02-no-scope", "EL-02")
            .says("A form belongs to neither a session nor a request.")
            .out(method("elicitation/create"), removes("/params/sessionId")),
        wrong("acp-el-03-nested", "EL-03")
            .says("A form has a field that is an object.")
            .out(
                method("elicitation/create"),
                sets(
                    "/params/requestedSchema/properties/more",
                    json!({ "type": "object", "properties": {} }),
                ),
            ),
        wrong("acp-el-05-hangs-on-decline", "EL-05")
            .says("The turn hangs if the user declines a form.")
            .heard_as(is("/result/action", "decline"), ignores()),
        wrong("acp-fs-04-text-limit", "FS-04")
            .says("The limit of lines to read is a string.")
            .out(method("fs/read_text_file"), sets("/params/limit", "10")),
        wrong("acp-el-01-form-for-url", "EL-01")
            .says("Forms are sent to clients that support only URLs.")
            .heard(
                both(
                    method("initialize"),
                    has("/params/clientCapabilities/elicitation/url"),
                ),
                sets("/params/clientCapabilities/elicitation/form", json!({})),
            ),
        wrong("acp-el-04-same-id", "EL-04")
            .says("Two open elicitations have the same id.")
            .scenario("elicitation-url")
            .out(methods("elicitation/"), |m| {
                if m.pointer("/params/elicitationId").is_some() {
                    set(m, "/params/elicitationId", "question");
                }
            }),
        wrong("acp-el-04-unknown-complete", "EL-04")
            .says("An elicitation that was never sent is completed.")
            .scenario("elicitation-url")
            .out(
                method("elicitation/complete"),
                sets("/params/elicitationId", "nobody-knows"),
            ),
        wrong("acp-el-05-hangs-on-cancel", "EL-05")
            .says("The turn hangs if the user cancels a form.")
            .heard_as(is("/result/action", "cancel"), ignores()),
        wrong("acp-el-06-http", "EL-06")
            .says("The URL of an elicitation does not use https.")
            .scenario("elicitation-url")
            .tamper_out(|_, _, message| {
                let url = text(&message, "/params/url").replace("https://", "http://");
                change(message, !url.is_empty(), |m| set(m, "/params/url", url))
            }),
        wrong("acp-el-06-secret", "EL-06")
            .says("The URL of an elicitation contains a password.")
            .scenario("elicitation-url")
            .tamper_out(|_, _, message| {
                let url = text(&message, "/params/url").replace("https://", "https://user:pw@");
                change(message, !url.is_empty(), |m| set(m, "/params/url", url))
            }),
    ]
}
