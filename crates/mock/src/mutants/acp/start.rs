//! Defects of initialization, authentication and extensibility.

use serde_json::json;

use crate::faults;
use crate::mutants::Mutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("acp-in-01-version-text", "IN-01")
            .says("`protocolVersion` in the response is a string.")
            .out(answers("initialize"), sets("/result/protocolVersion", "1")),
        wrong("acp-in-02-other-version", "IN-02")
            .says("Version 1 is requested, but version 0 is answered.")
            .out(
                both(answers("initialize"), |sent, _| {
                    sent.asked.get("protocolVersion") == Some(&json!(1))
                }),
                sets("/result/protocolVersion", 0),
            ),
        wrong("acp-in-03-echoes-version", "IN-03")
            .says("Any requested version is accepted.")
            .tamper_out(|_, sent, message| {
                let asked = sent.asked.get("protocolVersion").cloned();
                change(message, sent.answers("initialize"), |m| {
                    set(m, "/result/protocolVersion", asked.unwrap_or_default());
                })
            }),
        wrong("acp-in-04-refuses-newer", "IN-04")
            .says("A client that requests version 2 is rejected.")
            .heard_as(
                both(method("initialize"), is("/params/protocolVersion", 2)),
                refuses(-32602),
            ),
        wrong("acp-in-05-takes-text", "IN-05")
            .says("The version \"1\" is accepted as 1.")
            .heard(
                is("/params/protocolVersion", "1"),
                sets("/params/protocolVersion", 1),
            ),
        wrong("acp-in-06-no-capabilities", "IN-06")
            .says("The response to initialize has no `agentCapabilities`.")
            .out(answers("initialize"), removes("/result/agentCapabilities")),
        wrong("acp-in-07-no-info", "IN-07")
            .says("The response to initialize has no `agentInfo`.")
            .out(answers("initialize"), removes("/result/agentInfo")),
        wrong("acp-in-08-capability-text", "IN-08")
            .says("`loadSession` is \"yes\".")
            .out(
                answers("initialize"),
                sets("/result/agentCapabilities/loadSession", "yes"),
            ),
        wrong("acp-in-09-needs-capabilities", "IN-09")
            .says("A client that sends no capabilities is rejected.")
            .heard_as(
                both(method("initialize"), lacks("/params/clientCapabilities")),
                refuses(-32602),
            ),
        wrong("acp-in-10-needs-files", "IN-10")
            .says("A client that offers a terminal but no files is rejected.")
            .heard_as(
                both(
                    method("initialize"),
                    both(
                        is("/params/clientCapabilities/terminal", true),
                        not(is("/params/clientCapabilities/fs/readTextFile", true)),
                    ),
                ),
                refuses(-32603),
            ),
        wrong("acp-in-15-no-prompt", "IN-15")
            .says("session/prompt is not implemented.")
            .heard_as(method("session/prompt"), refuses(-32601)),
        wrong("acp-in-16-load-missing", "IN-16")
            .says("`loadSession` is advertised, but session/load is not implemented.")
            .heard_as(method("session/load"), refuses(-32601)),
        wrong("acp-au-01-same-ids", "AU-01")
            .says("Two auth methods have the same id.")
            .scenario("auth")
            .out(
                answers("initialize"),
                sets(
                    "/result/authMethods",
                    json!([{ "id": "key", "name": "A" }, { "id": "key", "name": "B" }]),
                ),
            ),
        wrong("acp-au-01-no-name", "AU-01")
            .says("An auth method has no name.")
            .scenario("auth")
            .out(
                answers("initialize"),
                sets("/result/authMethods", json!([{ "id": "key" }])),
            ),
        wrong("acp-au-02-terminal-unasked", "AU-02")
            .says("A terminal login is offered to clients that do not support it.")
            .scenario("auth")
            .heard(
                method("initialize"),
                sets("/params/clientCapabilities/auth/terminal", true),
            ),
        wrong("acp-au-03-odd-type", "AU-03")
            .says("An auth method has the type `browser`.")
            .scenario("auth")
            .out(
                answers("initialize"),
                sets(
                    "/result/authMethods",
                    json!([{ "id": "web", "name": "Web", "type": "browser" }]),
                ),
            ),
        wrong("acp-au-04-command", "AU-04")
            .says("A terminal login has its own command.")
            .scenario("auth")
            .out(
                answers("initialize"),
                edits_each("/result/authMethods", |method| {
                    if text(method, "/type") == "terminal" {
                        set(method, "/command", "login");
                    }
                }),
            ),
        wrong("acp-au-05-internal-error", "AU-05")
            .says("A missing login is answered with an internal error.")
            .scenario("auth")
            .out(code(-32000), sets("/error/code", -32603)),
        wrong("acp-au-07-still-locked", "AU-07")
            .says("A login succeeds, but sessions still require one.")
            .scenario("auth")
            .heard_as(method("authenticate"), replies(json!({}))),
        wrong("acp-au-09-stays-in", "AU-09")
            .says("A logout has no effect.")
            .scenario("auth")
            .heard_as(method("logout"), replies(json!({}))),
        wrong("acp-ex-01-root-field", "EX-01")
            .says("Text chunks have a custom field next to `content`.")
            .out(
                updates("agent_message_chunk"),
                sets("/params/update/mood", "good"),
            ),
        wrong("acp-ex-02-custom-method", "EX-02")
            .says("A custom notification does not start with an underscore.")
            .out_as(
                answers("session/new"),
                then(json!({ "jsonrpc": "2.0", "method": "mock/telemetry", "params": {} })),
            ),
        wrong("acp-ex-03-custom-unanswered", "EX-03")
            .says("Requests whose method starts with an underscore are never answered.")
            .heard_as(both(begins("/method", "_"), requests()), ignores()),
        wrong("acp-ex-04-custom-taken", "EX-04")
            .says("Unknown custom requests succeed.")
            .heard_as(both(begins("/method", "_"), requests()), replies(json!({}))),
        wrong("acp-ex-05-dies-on-unknown", "EX-05")
            .says("An unknown notification makes the process exit.")
            .tamper_in(|_, message| {
                let known = ["session/cancel", "$/cancel_request"];
                let notification = message.get("method").is_some() && message.get("id").is_none();
                if notification && !known.iter().any(|method| calls(&message, method)) {
                    faults::exit(1);
                }
                pass(message)
            }),
        wrong("acp-ex-06-refuses-meta", "EX-06")
            .says("A request with `_meta` is rejected.")
            .heard_as(both(has("/params/_meta"), requests()), refuses(-32602)),
        wrong("acp-ex-07-custom-capability", "EX-07")
            .says("A custom capability is not in `_meta`.")
            .out(
                answers("initialize"),
                sets("/result/agentCapabilities/telepathy", true),
            ),
        wrong("acp-ex-08-odd-trace", "EX-08")
            .says("`_meta.traceparent` of updates does not have the W3C format.")
            .out(
                method("session/update"),
                sets("/params/_meta", json!({ "traceparent": "trace-1" })),
            ),
    ]
}
