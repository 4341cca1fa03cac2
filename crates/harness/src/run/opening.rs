//! The first message of each protocol.

use serde_json::{Value, json};

use crate::suite::Protocol;

/// Why an answer to initialize opens no conversation in the draft of version 2.
pub fn no_draft(answer: &Value) -> Option<String> {
    /// The agent speaks no version that is as old as the one that was asked for.
    const UNSUPPORTED_VERSION: i64 = -32022;
    if answer.pointer("/error/code").and_then(Value::as_i64) == Some(UNSUPPORTED_VERSION) {
        return Some("the agent does not speak version 2, the draft".to_owned());
    }
    let version = answer.pointer("/result/protocolVersion")?;
    (version.as_f64() != Some(2.0))
        .then(|| format!("the agent answered version {version}; the draft is version 2"))
}

/// Parameters of initialize; `client` are the capabilities, if any are told.
pub fn initialize(protocol: Protocol, client: Option<Value>) -> Value {
    let me = json!({"name": "agentproto", "title": "agentproto certify", "version": env!("CARGO_PKG_VERSION")});
    let (mut params, capabilities) = match protocol {
        Protocol::Mcp => (
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me}),
            "capabilities",
        ),
        Protocol::AcpV2 => (
            json!({"protocolVersion": 2, "capabilities": {}, "info": me}),
            "capabilities",
        ),
        Protocol::Acp | Protocol::Lifecycle | Protocol::Sessions => (
            json!({"protocolVersion": 1, "clientInfo": me}),
            "clientCapabilities",
        ),
    };
    if let (Some(client), Some(members)) = (client, params.as_object_mut()) {
        members.insert(capabilities.to_owned(), client);
    }
    params
}
