//! Why a manifest gives no policy. The codes are stable, because scripts read them.

use std::path::PathBuf;

use thiserror::Error;

use crate::programs::ProgramError;
use agentproto_manifest::{Document, Span};

/// A position in a manifest, as editors count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestPosition {
    /// The file.
    pub file: PathBuf,
    /// Line, starting at 1.
    pub line: u32,
    /// Column, starting at 1.
    pub column: u32,
}

impl ManifestPosition {
    /// The start of a span in a document.
    pub fn new(doc: &Document, span: Span) -> Self {
        let at = doc.position(span.start);
        ManifestPosition {
            file: doc.path.clone(),
            line: at.line,
            column: at.column,
        }
    }
}

impl std::fmt::Display for ManifestPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why a manifest gives no policy on this machine.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// A file cannot be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The manifest is invalid. Nothing in it is guessed: it is untrusted until it is read
    /// completely (A29-SEC-01).
    #[error("{at}: {what}")]
    Invalid {
        /// Position in the manifest.
        at: ManifestPosition,
        /// What is wrong.
        what: String,
    },
    /// The sandbox provider is not `local`.
    #[error("{at}: the sandbox provider `{provider}` is not supported; only `local` is (AIP-36)")]
    UnsupportedProvider {
        /// Position in the manifest.
        at: ManifestPosition,
        /// The provider.
        provider: String,
    },
    /// The sandbox is read-only, so no command may run in it.
    #[error("{at}: the sandbox has `read_only: true`, so no command may run in it (AIP-36)")]
    ReadOnly {
        /// Position in the manifest.
        at: ManifestPosition,
    },
    /// A reference to a sandbox cannot be resolved.
    #[error("{at}: the sandbox reference `{reference}` {why} (AIP-36, Reference resolution)")]
    RefUnresolvable {
        /// Position in the manifest.
        at: ManifestPosition,
        /// The reference as written.
        reference: String,
        /// The reason.
        why: String,
    },
    /// A clause of a tool allows more than its bundle.
    #[error(
        "{at}: `{clause}` widens the bundle's sandbox: {why}; a tool may only narrow it (AIP-29, Inheritance)"
    )]
    Widens {
        /// Position in the manifest.
        at: ManifestPosition,
        /// The clause in short form.
        clause: String,
        /// The reason.
        why: String,
    },
    /// A program is not installed.
    #[error("program `{name}` not found: install it, or give its path")]
    ProgramNotFound {
        /// Name or path of the program.
        name: String,
    },
    /// A program cannot be read.
    #[error(transparent)]
    ProgramUnreadable(#[from] ProgramError),
}

impl PolicyError {
    /// A path that is not a valid glob.
    pub fn invalid_glob(at: ManifestPosition, glob: &str) -> Self {
        PolicyError::Invalid {
            at,
            what: format!("invalid glob `{glob}`: a bracket or brace is not closed"),
        }
    }

    /// The position in the manifest, if the error has one.
    pub fn position(&self) -> Option<&ManifestPosition> {
        match self {
            PolicyError::Invalid { at, .. }
            | PolicyError::UnsupportedProvider { at, .. }
            | PolicyError::ReadOnly { at }
            | PolicyError::RefUnresolvable { at, .. }
            | PolicyError::Widens { at, .. } => Some(at),
            PolicyError::Unreadable { .. }
            | PolicyError::ProgramNotFound { .. }
            | PolicyError::ProgramUnreadable(_) => None,
        }
    }

    /// What the user can do, if the message does not say it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PolicyError::UnsupportedProvider { .. } => {
                Some("set `provider: local` to run it on this machine")
            }
            PolicyError::ReadOnly { .. } => Some("remove `read_only: true` to run commands"),
            _ => None,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            PolicyError::Unreadable { .. } => "manifest_unreadable",
            PolicyError::Invalid { .. } => "manifest_invalid",
            PolicyError::UnsupportedProvider { .. } => "sandbox_unsupported_provider",
            PolicyError::ReadOnly { .. } => "sandbox_read_only",
            PolicyError::RefUnresolvable { .. } => "sandbox_ref_unresolvable",
            PolicyError::Widens { .. } => "sandbox_widens",
            PolicyError::ProgramNotFound { .. } => "program_not_found",
            PolicyError::ProgramUnreadable(_) => "program_unreadable",
        }
    }
}
