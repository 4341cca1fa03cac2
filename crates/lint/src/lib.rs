//! The linter: takes the manifests of a workspace and returns findings.
//!
//! Each document is checked in one pass: first its parse problems, then its schema (`shape`),
//! then the checks of its doctype. Nothing here writes files or prints, except
//! [`Baseline::write`].

#![deny(missing_docs)]

mod baseline;
mod context;
pub mod discover;
pub mod edits;
mod engine;
mod finding;
mod fix;
mod index;
mod page;
pub mod registry;
pub mod render;
pub mod root;
mod rule;
pub mod rules;
mod settings;
pub mod shape;
mod suppress;

pub use baseline::{Baseline, BaselineError, BaselineResult};
pub use context::{FindingDraft, Location, ResolvedRef, RuleContext, finish_draft};
pub use engine::{
    LintOptions, LintTarget, Skip, compare_with_base, lint_document, lint_files, lint_targets,
};
pub use finding::{Edit, Finding, Fix, Related, Report, Safety};
pub use fix::{ChangedFile, FixOutcome, fix_documents, fix_targets};
pub use index::{ForwardRef, Index, IndexEntry, IndexField, forward_reference};
pub use rule::{Example, FixKind, Level, Profile, Rule, Scope, Severity, Source};
pub use settings::{RuleSet, UnknownRule, matching};

/// Name of the configuration file.
pub const CONFIG_FILE: &str = "agentproto.toml";
