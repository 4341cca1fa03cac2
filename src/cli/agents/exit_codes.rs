//! Exit codes of errors.

use crate::exit::*;
use agentproto_runtime::Code;
use agentproto_sandbox::policy::PolicyError;

/// Exit code of a command that ends with an error of the runtime.
pub fn of(code: Code) -> u8 {
    match code {
        Code::ProtocolUnknown
        | Code::Sha256Mismatch
        | Code::CapabilityMismatch
        | Code::SandboxRefUnresolvable
        | Code::ManifestInvalid
        | Code::SandboxWidens
        | Code::AuditBroken => DATA,
        Code::InstallFailed
        | Code::VersionMismatch
        | Code::SetupFailed
        | Code::SandboxUnenforceable
        | Code::SandboxUnsupportedProvider
        | Code::AgentExited
        | Code::ProgramNotFound
        | Code::SpawnFailed
        | Code::ProtocolViolation
        | Code::SessionClosed
        | Code::AdapterUnavailable
        | Code::EntryFailed => UNAVAILABLE,
        Code::SetupRequired => CONFIG,
        Code::AuthRequired | Code::SandboxReadOnly | Code::SecretUnavailable => NO_PERMISSION,
        Code::ModeUnknown
        | Code::OptionUnknown
        | Code::OptionInvalid
        | Code::ModelUnknown
        | Code::McpServerInvalid
        | Code::AnswerInvalid
        | Code::QuestionUnknown
        | Code::ContinuationUnsupported
        | Code::TurnsSpent
        | Code::SessionUnknown
        | Code::CommandUnknown
        | Code::InputInvalid
        | Code::TargetAmbiguous => USAGE,
        Code::HandshakeTimeout | Code::TurnTimeout | Code::ToolTimeout | Code::SessionBusy => {
            TEMPORARY
        }
        Code::TargetUnknown | Code::ManifestUnreadable => NO_INPUT,
        Code::TurnFailed
        | Code::NoAcceptableOption
        | Code::ToolCallDenied
        | Code::Declined
        | Code::ToolFailed
        | Code::OutputInvalid => FINDINGS,
        Code::StateUnwritable => CANT_CREATE,
    }
}

/// Exit code of a command whose sandbox cannot be read or is refused.
pub fn of_policy_error(error: &PolicyError) -> u8 {
    match error {
        PolicyError::Unreadable { .. } => NO_INPUT,
        PolicyError::Invalid { .. }
        | PolicyError::RefUnresolvable { .. }
        | PolicyError::Widens { .. } => DATA,
        PolicyError::ReadOnly { .. } => NO_PERMISSION,
        PolicyError::UnsupportedProvider { .. }
        | PolicyError::ProgramNotFound { .. }
        | PolicyError::ProgramUnreadable(_) => UNAVAILABLE,
    }
}
