//! The methods of ACP v1.

use agent_client_protocol::v1::schema as acp;
use schemars::{Schema, schema_for};

/// Which side answers a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client calls, the agent answers.
    Agent,
    /// The agent calls, the client answers.
    Client,
    /// Either may call.
    Both,
}

/// Name, side, and the schema of what the agent sends.
type Method = (&'static str, Side, fn() -> Schema);

pub const COUNT: usize = 25;

static METHODS: [Method; COUNT] = [
    ("initialize", Side::Agent, || {
        schema_for!(acp::InitializeResponse)
    }),
    ("authenticate", Side::Agent, || {
        schema_for!(acp::AuthenticateResponse)
    }),
    ("logout", Side::Agent, || schema_for!(acp::LogoutResponse)),
    ("session/new", Side::Agent, || {
        schema_for!(acp::NewSessionResponse)
    }),
    ("session/load", Side::Agent, || {
        schema_for!(acp::LoadSessionResponse)
    }),
    ("session/list", Side::Agent, || {
        schema_for!(acp::ListSessionsResponse)
    }),
    ("session/delete", Side::Agent, || {
        schema_for!(acp::DeleteSessionResponse)
    }),
    ("session/resume", Side::Agent, || {
        schema_for!(acp::ResumeSessionResponse)
    }),
    ("session/close", Side::Agent, || {
        schema_for!(acp::CloseSessionResponse)
    }),
    ("session/set_mode", Side::Agent, || {
        schema_for!(acp::SetSessionModeResponse)
    }),
    ("session/set_config_option", Side::Agent, || {
        schema_for!(acp::SetSessionConfigOptionResponse)
    }),
    ("session/prompt", Side::Agent, || {
        schema_for!(acp::PromptResponse)
    }),
    // A notification of the client, to which the agent sends nothing.
    ("session/cancel", Side::Agent, || {
        schema_for!(acp::CancelNotification)
    }),
    ("session/update", Side::Client, || {
        schema_for!(acp::SessionNotification)
    }),
    ("session/request_permission", Side::Client, || {
        schema_for!(acp::RequestPermissionRequest)
    }),
    ("fs/read_text_file", Side::Client, || {
        schema_for!(acp::ReadTextFileRequest)
    }),
    ("fs/write_text_file", Side::Client, || {
        schema_for!(acp::WriteTextFileRequest)
    }),
    ("terminal/create", Side::Client, || {
        schema_for!(acp::CreateTerminalRequest)
    }),
    ("terminal/output", Side::Client, || {
        schema_for!(acp::TerminalOutputRequest)
    }),
    ("terminal/release", Side::Client, || {
        schema_for!(acp::ReleaseTerminalRequest)
    }),
    ("terminal/wait_for_exit", Side::Client, || {
        schema_for!(acp::WaitForTerminalExitRequest)
    }),
    ("terminal/kill", Side::Client, || {
        schema_for!(acp::KillTerminalRequest)
    }),
    ("elicitation/create", Side::Client, || {
        schema_for!(acp::CreateElicitationRequest)
    }),
    ("elicitation/complete", Side::Client, || {
        schema_for!(acp::CompleteElicitationNotification)
    }),
    ("$/cancel_request", Side::Both, || {
        schema_for!(acp::CancelRequestNotification)
    }),
];

/// Methods of the drafts, which are not custom methods either.
const DRAFTS: [&str; 13] = [
    "auth/status",
    "auth/status_update",
    "providers/list",
    "providers/set",
    "providers/disable",
    "session/fork",
    "session/archive",
    "session/unarchive",
    "session/status",
    "session/set_title",
    "session/set_model",
    "mcp/message",
    "proxy/successor",
];

/// Index and schema of what the agent sends with a method.
pub fn agent_params(method: &str) -> Option<(usize, fn() -> Schema)> {
    let place = METHODS.iter().position(|(name, ..)| *name == method)?;
    METHODS.get(place).map(|(_, _, make)| (place, *make))
}

/// Which side answers a method, if it is in the protocol.
pub fn side(method: &str) -> Option<Side> {
    let found = METHODS.iter().find(|(name, ..)| *name == method);
    found.map(|(_, side, _)| *side)
}

pub fn is_draft(method: &str) -> bool {
    DRAFTS.contains(&method)
}

/// Fields and variants of the drafts, by their position. `*` matches any list index.
pub const DRAFT_PLACES: [&str; 10] = [
    "/agentCapabilities/providers",
    "/agentCapabilities/sessionCapabilities/fork",
    "/agentCapabilities/sessionCapabilities/archive",
    "/agentCapabilities/sessionCapabilities/status",
    "/agentCapabilities/sessionCapabilities/title",
    "/agentCapabilities/sessionCapabilities/systemPrompt",
    "/agentCapabilities/auth/status",
    "/agentCapabilities/mcpCapabilities/acp",
    "/sessions/*/archived",
    "/usage",
];

/// Fields that were only in earlier drafts, by their position: `models` from September 2025 to June
/// 2026, the others from March 2026 to between June and September.
pub const FORMER_PLACES: [&str; 5] = [
    "/agentCapabilities/nes",
    "/agentCapabilities/positionEncoding",
    "/agentCapabilities/sessionCapabilities/stop",
    "/models",
    "/userMessageId",
];

/// Types of auth methods that were only in earlier drafts.
pub const FORMER_AUTH_TYPES: [&str; 1] = ["env_var"];

pub const DRAFT_VARIANTS: [&str; 5] = [
    "plan_update",
    "plan_removed",
    "subagent_update",
    "session_message",
    "session_message_chunk",
];

#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|(name, ..)| *name)
}
