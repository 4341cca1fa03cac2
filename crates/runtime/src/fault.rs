//! Why an agent was not run, or a turn not finished. Codes are stable: scripts, the daemon
//! and the harness read them.

use serde_json::Value;

use agentproto_sandbox::policy;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Lower snake case; AOI events have it in upper case.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// A45-PROTO-04.
    ProtocolUnknown = "protocol_unknown";
    InstallFailed = "install_failed";
    Sha256Mismatch = "sha256_mismatch";
    VersionMismatch = "version_mismatch";
    SetupRequired = "setup_required";
    SetupFailed = "setup_failed";
    AuthRequired = "auth_required";
    ModeUnknown = "mode_unknown";
    OptionUnknown = "option_unknown";
    OptionInvalid = "option_invalid";
    ContinuationUnsupported = "continuation_unsupported";
    CapabilityMismatch = "capability_mismatch";
    SandboxUnenforceable = "sandbox_unenforceable";
    SandboxUnsupportedProvider = "sandbox_unsupported_provider";
    SandboxReadOnly = "sandbox_read_only";
    SandboxRefUnresolvable = "sandbox_ref_unresolvable";
    HandshakeTimeout = "handshake_timeout";
    AgentExited = "agent_exited";
    TurnTimeout = "turn_timeout";
    /// No manifest behind a name.
    TargetUnknown = "target_unknown";
    ManifestUnreadable = "manifest_unreadable";
    ManifestInvalid = "manifest_invalid";
    ProgramNotFound = "program_not_found";
    SpawnFailed = "spawn_failed";
    /// The agent broke its protocol in a way that leaves nothing to go on with.
    ProtocolViolation = "protocol_violation";
    /// The agent answered a turn with an error.
    TurnFailed = "turn_failed";
    /// `session.max_turns` is reached.
    TurnsSpent = "turns_spent";
    SessionUnknown = "session_unknown";
    SessionClosed = "session_closed";
    SessionBusy = "session_busy";
    /// What hosts the adapter of a proprietary protocol is missing.
    AdapterUnavailable = "adapter_unavailable";
    SecretUnavailable = "secret_unavailable";
    StateUnwritable = "state_unwritable";
    AuditBroken = "audit_broken";
    /// The caller declined what was asked.
    Declined = "declined";
}

impl Code {
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
        let known = Code::ALL.iter().find(|c| c.as_str() == code);
        // A tool that widens and a program that cannot be read have no code of their own here.
        let code = known.copied().unwrap_or(match refusal {
            policy::Refusal::Widens { .. } => Code::ManifestInvalid,
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
