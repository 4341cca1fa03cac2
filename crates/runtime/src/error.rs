//! Errors of the lifecycle and of turns. Their codes are stable, because scripts, the daemon and
//! the harness read them.

use serde_json::{Value, json};

use agentproto_sandbox::policy;

/// Error code. Its text is in lower snake case. AOI events use the same text in upper case.
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
    /// The manifest names a protocol that this runtime does not support (A45-PROTO-04).
    ProtocolUnknown,
    /// The program could not be installed.
    InstallFailed,
    /// A downloaded file does not match `verify_sha256` in the manifest.
    Sha256Mismatch,
    /// The installed version is outside the manifest's range, or could not be determined.
    VersionMismatch,
    /// Setup steps are pending, and they cannot run without the user.
    SetupRequired,
    /// A setup step failed.
    SetupFailed,
    /// The agent needs a login.
    AuthRequired,
    /// The manifest has no mode of that name.
    ModeUnknown,
    /// The manifest has no option of that name.
    OptionUnknown,
    /// The value of an option has the wrong type or is out of range.
    OptionInvalid,
    /// The manifest does not allow the model, or the agent does not offer it.
    ModelUnknown,
    /// The descriptor of an MCP server is invalid.
    McpServerInvalid,
    /// The agent does not support the requested continuation strategy.
    ContinuationUnsupported,
    /// The manifest declares a capability that its ACP.md or the running agent does not have.
    CapabilityMismatch,
    /// At least one sandbox clause cannot be enforced on this machine.
    SandboxUnenforceable,
    /// The manifest names a sandbox provider that this runtime does not support.
    SandboxUnsupportedProvider,
    /// The sandbox has `read_only: true`, so no command may run in it.
    SandboxReadOnly,
    /// The sandbox reference of the manifest cannot be resolved.
    SandboxRefUnresolvable,
    /// The agent did not finish its handshake in time.
    HandshakeTimeout,
    /// The agent process exited while the session was open.
    AgentExited,
    /// The turn took longer than the caller allows.
    TurnTimeout,
    /// No manifest, working directory or audit log exists under the given name.
    TargetUnknown,
    /// Several bundles have the given id.
    TargetAmbiguous,
    /// The manifest could not be read.
    ManifestUnreadable,
    /// The manifest is invalid.
    ManifestInvalid,
    /// A program was not found, or the sandbox does not allow running it.
    ProgramNotFound,
    /// A process could not be started.
    SpawnFailed,
    /// The agent violated its protocol, and the session cannot continue.
    ProtocolViolation,
    /// The agent responded to a turn with an error.
    TurnFailed,
    /// A permission request offers no option that the policy `allow` can choose (OD-28).
    NoAcceptableOption,
    /// The agent ran a tool that a rule or the user denied (A45-SEC-03).
    ToolCallDenied,
    /// The answer to a question is not one of its options, or does not match its schema.
    AnswerInvalid,
    /// No question with this id is open.
    QuestionUnknown,
    /// The session has used all turns of `session.max_turns`.
    TurnsSpent,
    /// The agent does not know the session to resume.
    SessionUnknown,
    /// The session is closed.
    SessionClosed,
    /// Another turn of the session is still running.
    SessionBusy,
    /// The adapter of a proprietary protocol, or a program that it needs, is missing.
    AdapterUnavailable,
    /// A secret is missing or cannot be read.
    SecretUnavailable,
    /// A file below `$AGENTPROTO_HOME` cannot be read or written.
    StateUnwritable,
    /// The hash chain of the audit log is broken.
    AuditBroken,
    /// The user declined, or cannot be asked.
    Declined,
    /// The bundle has no command of that name.
    CommandUnknown,
    /// The input of a tool does not match its schema, or cannot be passed as an argument.
    InputInvalid,
    /// The sandbox of a tool allows more than that of its bundle (A29-INHERIT-03).
    SandboxWidens,
    /// The tool exited with a code that does not mean success.
    ToolFailed,
    /// The tool took longer than its time limit.
    ToolTimeout,
    /// The output of the tool is not in the declared format.
    OutputInvalid,
    /// The entry module of the bundle cannot be loaded, or one of its hooks failed.
    EntryFailed,
}

impl Code {
    /// All codes.
    pub const ALL: &[Code] = <Code as strum::VariantArray>::VARIANTS;

    /// The code as text, for example `option_invalid`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the caller asked for something that the manifest or the session does not offer.
    pub fn is_choice(self) -> bool {
        matches!(
            self,
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
        )
    }
}

/// Separates an error message from the lines that the agent wrote to stderr.
pub const STDERR_LABEL: &str = "; stderr of the agent:";

/// The end of the agent's stderr, as a separate block of an error message.
pub(crate) fn stderr_block(tail: &str) -> String {
    let lines = tail.lines().map(|line| format!("\n    {line}"));
    format!("{STDERR_LABEL}{}", lines.collect::<String>())
}

/// An error, with a hint on how to fix it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Stable code for programs.
    pub code: Code,
    /// What happened, in one sentence.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Data for programs, such as pending setup steps, sandbox clauses or an exit status.
    pub details: Box<Value>,
}

impl Error {
    /// Creates an error without hint and details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error {
            code,
            message: message.into(),
            hint: None,
            details: Box::default(),
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks an error that only the confirmation of the user (`--yes`) resolves.
    pub fn needs_confirmation(self) -> Self {
        self.details(json!({ "needs_confirmation": true }))
    }

    /// Whether the caller must first confirm something with `--yes`.
    pub fn is_unconfirmed(&self) -> bool {
        self.details.get("needs_confirmation") == Some(&Value::Bool(true))
    }

    /// Adds data for programs.
    pub fn details(mut self, details: Value) -> Self {
        self.details = Box::new(details);
        self
    }
}

impl From<policy::PolicyError> for Error {
    fn from(refusal: policy::PolicyError) -> Self {
        let code = refusal.code();
        let known = code.parse::<Code>();
        // An unreadable program has no code here.
        let code = known.unwrap_or(Code::SpawnFailed);
        let error = Error::new(code, refusal.to_string());
        match refusal.hint() {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_parse_from_their_text() {
        for code in Code::ALL {
            assert_eq!(code.as_str().parse(), Ok(*code));
        }
        assert_eq!(Code::Sha256Mismatch.as_str(), "sha256_mismatch");
        assert_eq!(Code::ProtocolUnknown.as_str(), "protocol_unknown");
        assert!("PROTOCOL_UNKNOWN".parse::<Code>().is_err());
    }
}
