//! Scenarios that are embedded in the binary.

use crate::AgentKind;
pub use agentproto_mock_agents::{Embedded, embedded};

/// Default scenario of a mock agent, which is the one of its bundle.
pub fn default_of(kind: AgentKind) -> Embedded {
    Embedded {
        name: "default",
        text: match kind {
            AgentKind::Acp | AgentKind::AcpV2 => agentproto_mock_agents::ACP_SCENARIO,
            AgentKind::Mcp => agentproto_mock_agents::MCP_SCENARIO,
            AgentKind::Repl => agentproto_mock_agents::REPL_SCENARIO,
        },
    }
}
