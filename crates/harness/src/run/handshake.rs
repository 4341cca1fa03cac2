//! Params of `initialize` for each protocol.

use serde_json::{Value, json};

use crate::suite::SuiteProtocol;

/// Why a response to `initialize` shows that the agent does not support the draft of version 2.
pub fn unsupported_draft(answer: &Value) -> Option<String> {
    /// Error code: the agent supports no version as old as the requested one.
    const UNSUPPORTED_VERSION: i64 = -32022;
    if answer.pointer("/error/code").and_then(Value::as_i64) == Some(UNSUPPORTED_VERSION) {
        return Some("the agent does not support version 2 (draft)".to_owned());
    }
    let version = answer.pointer("/result/protocolVersion")?;
    (version.as_f64() != Some(2.0))
        .then(|| format!("the agent answered with version {version}, but the draft is version 2"))
}

/// Params of `initialize`. `client` are the client capabilities, if any are sent.
pub fn initialize(protocol: SuiteProtocol, client: Option<Value>) -> Value {
    let me = json!({"name": "agentproto", "title": "agentproto certify", "version": env!("CARGO_PKG_VERSION")});
    let (mut params, capabilities) = match protocol {
        SuiteProtocol::Mcp => (
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me}),
            "capabilities",
        ),
        SuiteProtocol::AcpV2 => (
            json!({"protocolVersion": 2, "capabilities": {}, "info": me}),
            "capabilities",
        ),
        SuiteProtocol::Acp | SuiteProtocol::Lifecycle | SuiteProtocol::Sessions => (
            json!({"protocolVersion": 1, "clientInfo": me}),
            "clientCapabilities",
        ),
    };
    if let (Some(client), Some(members)) = (client, params.as_object_mut()) {
        members.insert(capabilities.to_owned(), client);
    }
    params
}
