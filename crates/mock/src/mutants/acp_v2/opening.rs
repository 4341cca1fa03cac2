//! Defects at the start: versions and logins.

use serde_json::{Value, json};

use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

const METHODS: &str = "/result/authMethods";

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("v2-37-echo", "V2-37")
            .describe("initialize is answered with the version of the request.")
            .tamper_in(|context, message| {
                if calls(&message, "initialize") {
                    let version = message.pointer("/params/protocolVersion").cloned();
                    context.notes.insert("version", version.unwrap_or_default());
                }
                pass(message)
            })
            .tamper_out(|context, summary, message| {
                let version = context.notes.get("version").cloned();
                change(message, summary.answers("initialize"), |m| {
                    set(m, "/result/protocolVersion", version.unwrap_or_default());
                })
            }),
        mutant("v2-37-rejects", "V2-37")
            .describe("initialize with an unknown version is rejected.")
            .replace_incoming(
                both(method("initialize"), is("/params/protocolVersion", 65535)),
                rejects(-32602),
            ),
        mutant("v2-38-one-id", "V2-38")
            .describe("All auth methods have the same id.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                edits_each(METHODS, sets("/methodId", "key")),
            ),
        mutant("v2-39-always", "V2-39")
            .describe("A terminal login is offered to every client.")
            .scenario("auth")
            .incoming(
                method("initialize"),
                sets("/params/capabilities/auth/terminal", json!({})),
            ),
        mutant("v2-40-forgets", "V2-40")
            .describe("auth/login succeeds, but sessions still require a login.")
            .scenario("auth")
            .replace_incoming(method("auth/login"), replies(json!({}))),
        mutant("v2-41-fails", "V2-41")
            .describe("auth/logout always fails.")
            .scenario("auth")
            .replace_incoming(method("auth/logout"), rejects(-32603)),
        mutant("v2-42-no-methods", "V2-42")
            .describe("Sessions require a login, but no auth method is listed.")
            .scenario("auth")
            .outgoing(
                answers("initialize"),
                sets(METHODS, Value::Array(Vec::new())),
            ),
    ]
}
