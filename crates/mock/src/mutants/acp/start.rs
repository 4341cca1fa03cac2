//! Defects of initialization, authentication and extensibility.

use serde_json::json;

use crate::faults;
use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("acp-in-01-version-text", "IN-01")
            .describe("`protocolVersion` in the response is a string.")
            .outgoing(answers("initialize"), sets("/result/protocolVersion", "1")),
        mutant("acp-in-02-other-version", "IN-02")
            .describe("Version 1 is requested, but version 0 is answered.")
            .outgoing(
                both(answers("initialize"), |summary, _| {
                    summary.request_params.get("protocolVersion") == Some(&json!(1))
                }),
                sets("/result/protocolVersion", 0),
            ),
        mutant("acp-in-03-echoes-version", "IN-03")
            .describe("Any requested version is accepted.")
            .tamper_out(|_, summary, message| {
                let request_params = summary.request_params.get("protocolVersion").cloned();
                change(message, summary.answers("initialize"), |m| {
                    set(
                        m,
                        "/result/protocolVersion",
                        request_params.unwrap_or_default(),
                    );
                })
            }),
        mutant("acp-in-03-refuses-newer", "IN-03")
            .describe("A client that requests version 999 is rejected.")
            .replace_incoming(
                both(method("initialize"), is("/params/protocolVersion", 999)),
                rejects(-32602),
            ),
        mutant("acp-in-04-refuses-newer", "IN-04")
            .describe("A client that requests version 2 is rejected.")
            .replace_incoming(
                both(method("initialize"), is("/params/protocolVersion", 2)),
                rejects(-32602),
            ),
        mutant("acp-in-05-takes-text", "IN-05")
            .describe("The version \"1\" is accepted as 1.")
            .incoming(
                is("/params/protocolVersion", "1"),
                sets("/params/protocolVersion", 1),
            ),
        mutant("acp-in-06-no-capabilities", "IN-06")
            .describe("The response to initialize has no `agentCapabilities`.")
            .outgoing(answers("initialize"), removes("/result/agentCapabilities")),
        mutant("acp-in-07-no-info", "IN-07")
            .describe("The response to initialize has no `agentInfo`.")
            .outgoing(answers("initialize"), removes("/result/agentInfo")),
        mutant("acp-in-08-capability-text", "IN-08")
            .describe("`loadSession` is \"yes\".")
            .outgoing(
                answers("initialize"),
                sets("/result/agentCapabilities/loadSession", "yes"),
            ),
        mutant("acp-in-09-needs-capabilities", "IN-09")
            .describe("A client that sends no capabilities is rejected.")
            .replace_incoming(
                both(method("initialize"), lacks("/params/clientCapabilities")),
                rejects(-32602),
            ),
        mutant("acp-in-10-needs-files", "IN-10")
            .describe("A client that offers a terminal but no files is rejected.")
            .replace_incoming(
                both(
                    method("initialize"),
                    both(
                        is("/params/clientCapabilities/terminal", true),
                        not(is("/params/clientCapabilities/fs/readTextFile", true)),
                    ),
                ),
                rejects(-32603),
            ),
        mutant("acp-in-15-no-prompt", "IN-15")
            .describe("session/prompt is not implemented.")
            .replace_incoming(method("session/prompt"), rejects(-32601)),
        mutant("acp-in-16-load-missing", "IN-16")
            .describe("`loadSession` is advertised, but session/load is not implemented.")
            .replace_incoming(method("session/load"), rejects(-32601)),
        mutant("acp-in-16-no-authenticate", "IN-16")
            .describe("A login of the type `agent` is offered, but `authenticate` is not implemented.")
            .scenario("auth")
            .replace_incoming(method("authenticate"), rejects(-32601)),
        mutant("acp-au-01-same-ids", "AU-01")
            .describe("Two auth methods have the same id.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                sets(
                    "/result/authMethods",
                    json!([{ "id": "key", "name": "A" }, { "id": "key", "name": "B" }]),
                ),
            ),
        mutant("acp-au-01-no-name", "AU-01")
            .describe("An auth method has no name.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                sets("/result/authMethods", json!([{ "id": "key" }])),
            ),
        mutant("acp-au-02-terminal-unasked", "AU-02")
            .describe("A terminal login is offered to clients that do not support it.")
            .scenario("auth")
            .incoming(
                method("initialize"),
                sets("/params/clientCapabilities/auth/terminal", true),
            ),
        mutant("acp-au-03-odd-type", "AU-03")
            .describe("An auth method has the type `browser`.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                sets(
                    "/result/authMethods",
                    json!([{ "id": "web", "name": "Web", "type": "browser" }]),
                ),
            ),
        mutant("acp-au-03-env-var", "AU-03")
            .describe("An auth method has the type `env_var` of an earlier draft.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                sets(
                    "/result/authMethods",
                    json!([{ "id": "key", "name": "Key", "type": "env_var", "vars": [{ "name": "KEY" }] }]),
                ),
            ),
        mutant("acp-au-04-command", "AU-04")
            .describe("A terminal login has its own command.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                edits_each("/result/authMethods", |method| {
                    if text(method, "/type") == "terminal" {
                        set(method, "/command", "login");
                    }
                }),
            ),
        mutant("acp-au-05-internal-error", "AU-05")
            .describe("A missing login is answered with an internal error.")
            .scenario("auth")
            .outgoing(code(-32000), sets("/error/code", -32603)),
        mutant("acp-au-07-still-locked", "AU-07")
            .describe("A login succeeds, but sessions still require one.")
            .scenario("auth")
            .replace_incoming(method("authenticate"), replies(json!({}))),
        mutant("acp-au-09-stays-in", "AU-09")
            .describe("A logout has no effect.")
            .scenario("auth")
            .replace_incoming(method("logout"), replies(json!({}))),
        mutant("acp-ex-01-root-field", "EX-01")
            .describe("Text chunks have a custom field next to `content`.")
            .outgoing(
                updates("agent_message_chunk"),
                sets("/params/update/mood", "good"),
            ),
        mutant("acp-ex-02-custom-method", "EX-02")
            .describe("A custom notification does not start with an underscore.")
            .replace_outgoing(
                answers("session/new"),
                then(json!({ "jsonrpc": "2.0", "method": "mock/telemetry", "params": {} })),
            ),
        mutant("acp-ex-03-custom-unanswered", "EX-03")
            .describe("Requests whose method starts with an underscore are never answered.")
            .replace_incoming(both(starts_with("/method", "_"), requests()), ignores()),
        mutant("acp-ex-04-custom-taken", "EX-04")
            .describe("Unknown custom requests succeed.")
            .replace_incoming(
                both(starts_with("/method", "_"), requests()),
                replies(json!({})),
            ),
        mutant("acp-ex-05-dies-on-unknown", "EX-05")
            .describe("An unknown notification makes the process exit.")
            .tamper_in(|_, message| {
                let known = ["session/cancel", "$/cancel_request"];
                let notification = message.get("method").is_some() && message.get("id").is_none();
                if notification && !known.iter().any(|method| calls(&message, method)) {
                    faults::exit(1);
                }
                pass(message)
            }),
        mutant("acp-ex-06-refuses-meta", "EX-06")
            .describe("A request with `_meta` is rejected.")
            .replace_incoming(both(has("/params/_meta"), requests()), rejects(-32602)),
        mutant("acp-ex-07-custom-capability", "EX-07")
            .describe("A custom capability is not in `_meta`.")
            .outgoing(
                answers("initialize"),
                sets("/result/agentCapabilities/telepathy", true),
            ),
        mutant("acp-ex-08-odd-trace", "EX-08")
            .describe("`_meta.traceparent` of updates does not have the W3C format.")
            .outgoing(
                method("session/update"),
                sets("/params/_meta", json!({ "traceparent": "trace-1" })),
            ),
    ]
}
