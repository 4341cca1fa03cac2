//! Every exit code of the binary, in one place (sysexits where one fits).

use agentproto_runtime::Code;
use agentproto_sandbox::policy::Refusal;

/// Nothing to report.
pub const CLEAN: u8 = 0;
/// Findings at or above the threshold, or failed requirements.
pub const FINDINGS: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// Input data or a configuration file is malformed.
pub const DATA: u8 = 65;
/// A named input does not exist.
pub const NO_INPUT: u8 = 66;
/// A target or a service cannot be reached or started.
pub const UNAVAILABLE: u8 = 69;
/// A defect of agentproto itself.
pub const INTERNAL: u8 = 70;
/// An output file cannot be created.
pub const CANT_CREATE: u8 = 73;
/// Reading or writing failed.
pub const IO: u8 = 74;
/// Temporary failure; a retry may help.
pub const TEMPORARY: u8 = 75;
/// A login is missing, or a policy forbids it.
pub const NO_PERMISSION: u8 = 77;
/// The configuration names something that does not exist.
pub const CONFIG: u8 = 78;
/// Ended by SIGINT.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM.
pub const TERMINATED: u8 = 143;

/// The exit code of a command that ends with a refusal of the runtime.
pub fn of(code: Code) -> u8 {
    match code {
        Code::ProtocolUnknown
        | Code::Sha256Mismatch
        | Code::CapabilityMismatch
        | Code::SandboxRefUnresolvable
        | Code::ManifestInvalid
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
        | Code::AdapterUnavailable => UNAVAILABLE,
        Code::SetupRequired => CONFIG,
        Code::AuthRequired | Code::SandboxReadOnly | Code::SecretUnavailable => NO_PERMISSION,
        Code::ModeUnknown
        | Code::OptionUnknown
        | Code::OptionInvalid
        | Code::ContinuationUnsupported
        | Code::TurnsSpent
        | Code::SessionUnknown => USAGE,
        Code::HandshakeTimeout | Code::TurnTimeout | Code::SessionBusy => TEMPORARY,
        Code::TargetUnknown | Code::ManifestUnreadable => NO_INPUT,
        Code::TurnFailed | Code::Declined => FINDINGS,
        Code::StateUnwritable => CANT_CREATE,
    }
}

/// The exit code of a command whose sandbox cannot be read or is refused.
pub fn of_refusal(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Unread { .. } => NO_INPUT,
        Refusal::Invalid { .. } | Refusal::RefUnresolvable { .. } | Refusal::Widens { .. } => DATA,
        Refusal::ReadOnly { .. } => NO_PERMISSION,
        Refusal::UnsupportedProvider { .. }
        | Refusal::ProgramNotFound { .. }
        | Refusal::ProgramUnreadable(_) => UNAVAILABLE,
    }
}
