//! The first message of each protocol.

use serde_json::{Value, json};

use crate::harness::suite::Protocol;

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
        Protocol::Acp | Protocol::Lifecycle => (
            json!({"protocolVersion": 1, "clientInfo": me}),
            "clientCapabilities",
        ),
    };
    if let (Some(client), Some(members)) = (client, params.as_object_mut()) {
        members.insert(capabilities.to_owned(), client);
    }
    params
}
