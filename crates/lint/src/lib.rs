//! The linter: takes the manifests of a workspace and returns findings.
//!
//! Each document is checked in one pass: first its parse problems, then its schema (`shape`),
//! then the checks of its doctype. Nothing here writes files or prints, except
//! [`Baseline::write`].

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

pub use baseline::{Baseline, BaselineError, Matched};
pub use context::{Context, Draft, Place, Ref, conclude};
pub use engine::{
    Options, Skip, Target, compare_with_base, lint_document, lint_files, lint_targets,
};
pub use finding::{Edit, Finding, Fix, Related, Report, Safety};
pub use fix::{Changed, FixOutcome, fix_documents, fix_targets};
pub use index::{Card, Field, Index, Next, onward};
pub use rule::{Example, FixKind, Level, Profile, Rule, Scope, Severity, Source};
pub use settings::{RuleSet, UnknownRule, matching};

/// Name of the configuration file.
pub const CONFIG_FILE: &str = "agentproto.toml";
