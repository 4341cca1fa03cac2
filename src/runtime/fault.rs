//! Why an agent was not run, or a turn not finished. Codes are stable: scripts, the daemon
//! and the harness read them.

use serde_json::Value;

use super::sandbox::policy;
use crate::exit;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $exit:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Lower snake case; AOI events have it in upper case.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// The exit code of a command that ends with it.
            pub fn exit(self) -> u8 {
                match self { $(Code::$name => $exit,)* }
            }
        }
    };
}

codes! {
    /// A45-PROTO-04.
    ProtocolUnknown = "protocol_unknown", exit::DATA;
    InstallFailed = "install_failed", exit::UNAVAILABLE;
    Sha256Mismatch = "sha256_mismatch", exit::DATA;
    VersionMismatch = "version_mismatch", exit::UNAVAILABLE;
    SetupRequired = "setup_required", exit::CONFIG;
    SetupFailed = "setup_failed", exit::UNAVAILABLE;
    AuthRequired = "auth_required", exit::NO_PERMISSION;
    ModeUnknown = "mode_unknown", exit::USAGE;
    OptionUnknown = "option_unknown", exit::USAGE;
    OptionInvalid = "option_invalid", exit::USAGE;
    ContinuationUnsupported = "continuation_unsupported", exit::USAGE;
    CapabilityMismatch = "capability_mismatch", exit::DATA;
    SandboxUnenforceable = "sandbox_unenforceable", exit::UNAVAILABLE;
    SandboxUnsupportedProvider = "sandbox_unsupported_provider", exit::UNAVAILABLE;
    SandboxReadOnly = "sandbox_read_only", exit::NO_PERMISSION;
    SandboxRefUnresolvable = "sandbox_ref_unresolvable", exit::DATA;
    HandshakeTimeout = "handshake_timeout", exit::TEMPORARY;
    AgentExited = "agent_exited", exit::UNAVAILABLE;
    TurnTimeout = "turn_timeout", exit::TEMPORARY;
    /// No manifest behind a name.
    TargetUnknown = "target_unknown", exit::NO_INPUT;
    ManifestUnreadable = "manifest_unreadable", exit::NO_INPUT;
    ManifestInvalid = "manifest_invalid", exit::DATA;
    ProgramNotFound = "program_not_found", exit::UNAVAILABLE;
    SpawnFailed = "spawn_failed", exit::UNAVAILABLE;
    /// The agent broke its protocol in a way that leaves nothing to go on with.
    ProtocolViolation = "protocol_violation", exit::UNAVAILABLE;
    /// The agent answered a turn with an error.
    TurnFailed = "turn_failed", exit::FINDINGS;
    /// `session.max_turns` is reached.
    TurnsSpent = "turns_spent", exit::USAGE;
    SessionUnknown = "session_unknown", exit::USAGE;
    SessionClosed = "session_closed", exit::UNAVAILABLE;
    SessionBusy = "session_busy", exit::TEMPORARY;
    /// What hosts the adapter of a proprietary protocol is missing.
    AdapterUnavailable = "adapter_unavailable", exit::UNAVAILABLE;
    SecretUnavailable = "secret_unavailable", exit::NO_PERMISSION;
    StateUnwritable = "state_unwritable", exit::CANT_CREATE;
    AuditBroken = "audit_broken", exit::DATA;
    /// The caller declined what was asked.
    Declined = "declined", exit::FINDINGS;
}

/// What went wrong, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    /// For programs: pending setup steps, clauses, exit status.
    pub details: Box<Value>,
}

impl Fault {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Fault {
            code,
            message: message.into(),
            hint: None,
            details: Box::default(),
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn details(mut self, details: Value) -> Self {
        self.details = Box::new(details);
        self
    }
}

impl From<policy::Refusal> for Fault {
    fn from(refusal: policy::Refusal) -> Self {
        let code = refusal.code();
        let known = Code::ALL.iter().find(|c| c.as_str() == code);
        // A tool that widens and a program that cannot be read have no code of their own here.
        let code = known.copied().unwrap_or(match refusal.exit() {
            exit::DATA => Code::ManifestInvalid,
            _ => Code::SpawnFailed,
        });
        Fault::new(code, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_lower_snake_case() {
        let mut seen = Vec::new();
        for code in Code::ALL {
            let text = code.as_str();
            assert!(
                text.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
            assert!(!seen.contains(&text), "{text} twice");
            seen.push(text);
        }
    }
}
