//! Scenarios that are embedded in the binary.

use crate::Kind;
pub use agentproto_mock_agents::{Embedded, embedded};

/// Default scenario of a mock agent, which is the one of its bundle.
pub fn default_of(kind: Kind) -> Embedded {
    Embedded {
        name: "default",
        text: match kind {
            Kind::Acp | Kind::AcpV2 => agentproto_mock_agents::ACP_SCENARIO,
            Kind::Mcp => agentproto_mock_agents::MCP_SCENARIO,
            Kind::Repl => agentproto_mock_agents::REPL_SCENARIO,
        },
    }
}
