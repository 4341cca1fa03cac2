//! Why an agent was not run, or a turn not finished. Codes are stable: scripts, the daemon
//! and the harness read them.

use serde_json::Value;

use agentproto_sandbox::policy;

/// Its text is in lower snake case; AOI events have it in upper case.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Code {
    /// A45-PROTO-04.
    ProtocolUnknown,
    InstallFailed,
    Sha256Mismatch,
    VersionMismatch,
    SetupRequired,
    SetupFailed,
    AuthRequired,
    ModeUnknown,
    OptionUnknown,
    OptionInvalid,
    ContinuationUnsupported,
    CapabilityMismatch,
    SandboxUnenforceable,
    SandboxUnsupportedProvider,
    SandboxReadOnly,
    SandboxRefUnresolvable,
    HandshakeTimeout,
    AgentExited,
    TurnTimeout,
    /// No manifest behind a name.
    TargetUnknown,
    ManifestUnreadable,
    ManifestInvalid,
    ProgramNotFound,
    SpawnFailed,
    /// The agent broke its protocol in a way that leaves nothing to go on with.
    ProtocolViolation,
    /// The agent answered a turn with an error.
    TurnFailed,
    /// `session.max_turns` is reached.
    TurnsSpent,
    SessionUnknown,
    SessionClosed,
    SessionBusy,
    /// What hosts the adapter of a proprietary protocol is missing.
    AdapterUnavailable,
    SecretUnavailable,
    StateUnwritable,
    AuditBroken,
    /// The caller declined what was asked.
    Declined,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The caller asked for something that the manifest does not offer.
    pub fn is_choice(self) -> bool {
        matches!(
            self,
            Code::ModeUnknown
                | Code::OptionUnknown
                | Code::OptionInvalid
                | Code::ContinuationUnsupported
                | Code::TurnsSpent
                | Code::SessionUnknown
        )
    }
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
        let known = code.parse::<Code>();
        // A tool that widens and a program that cannot be read have no code of their own here.
        let code = known.unwrap_or(match refusal {
            policy::Refusal::Widens { .. } => Code::ManifestInvalid,
            _ => Code::SpawnFailed,
        });
        Fault::new(code, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    #[test]
    fn codes_are_read_as_they_are_written() {
        for code in Code::VARIANTS {
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
        assert_eq!(Code::Sha256Mismatch.as_str(), "sha256_mismatch");
        assert_eq!(Code::ProtocolUnknown.as_str(), "protocol_unknown");
        assert!("PROTOCOL_UNKNOWN".parse::<Code>().is_err());
    }
}
