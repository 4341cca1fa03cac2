//! Why a manifest gives no policy. The codes are stable, because scripts read them.

use std::path::PathBuf;

use thiserror::Error;

use crate::programs::Unreadable;
use agentproto_manifest::{Document, Span};

/// A position in a manifest, as editors count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: PathBuf,
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub fn new(doc: &Document, span: Span) -> Self {
        let at = doc.position(span.start);
        Place {
            file: doc.path.clone(),
            line: at.line,
            column: at.column,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Why a manifest gives no policy on this machine.
#[derive(Debug, Error)]
pub enum Refusal {
    #[error("{}: {why}", path.display())]
    Unread { path: PathBuf, why: String },
    /// Nothing in a manifest is guessed: it is untrusted until it is read completely (A29-SEC-01).
    #[error("{at}: {what}")]
    Invalid { at: Place, what: String },
    #[error("{at}: the sandbox provider `{provider}` is not supported; only `local` is (AIP-36)")]
    UnsupportedProvider { at: Place, provider: String },
    #[error("{at}: the sandbox has `read_only: true`, so no command may run in it (AIP-36)")]
    ReadOnly { at: Place },
    #[error("{at}: the sandbox reference `{reference}` {why} (AIP-36, Reference resolution)")]
    RefUnresolvable {
        at: Place,
        reference: String,
        why: String,
    },
    #[error(
        "{at}: `{clause}` widens the bundle's sandbox: {why}; a tool may only narrow it (AIP-29, Inheritance)"
    )]
    Widens {
        at: Place,
        clause: String,
        why: String,
    },
    #[error("program `{name}` not found: install it, or give its path")]
    ProgramNotFound { name: String },
    #[error(transparent)]
    ProgramUnreadable(#[from] Unreadable),
}

impl Refusal {
    /// A path that is not a valid glob.
    pub fn no_glob(at: Place, glob: &str) -> Self {
        Refusal::Invalid {
            at,
            what: format!("invalid glob `{glob}`: a bracket or brace is not closed"),
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Unread { .. } => "manifest_unreadable",
            Refusal::Invalid { .. } => "manifest_invalid",
            Refusal::UnsupportedProvider { .. } => "sandbox_unsupported_provider",
            Refusal::ReadOnly { .. } => "sandbox_read_only",
            Refusal::RefUnresolvable { .. } => "sandbox_ref_unresolvable",
            Refusal::Widens { .. } => "sandbox_widens",
            Refusal::ProgramNotFound { .. } => "program_not_found",
            Refusal::ProgramUnreadable(_) => "program_unreadable",
        }
    }
}
