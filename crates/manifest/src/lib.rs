//! Parses agent manifests: text → spanned tree → document → workspace.
//!
//! This crate knows what a manifest *contains* and where. It does not check whether the contents
//! are right. Invariants:
//! - A document is parsed once, and its text is never changed.
//! - Every span is a byte range of the file on character boundaries.
//! - Nothing here panics, recurses without bound or reads outside the workspace.

#![deny(missing_docs)]

pub mod comments;
mod confined;
mod doctype;
mod document;
pub mod fields;
mod files;
mod frontmatter;
pub mod globs;
mod json;
mod lines;
mod node_paths;
pub mod range;
mod refs;
pub mod templates;
mod tree;
pub mod views;
mod workspace;
pub mod yaml;

pub use confined::{ConfinedDisk, ReplaceError};
pub use doctype::{Doctype, SANDBOX_PROVIDERS};
pub use document::{Document, Frontmatter, Problem, ProblemKind};
pub use files::{Disk, FileSource, KnownFiles, MAX_FILE_BYTES, Overlay, PathKind, ReadError};
pub use json::to_json;
pub use lines::{LineIndex, Position};
pub use refs::{RefRole, RefSite, ref_sites};
pub use tree::{Entry, KeyKind, Node, Span, Style, Value};
pub use workspace::{Resolution, Workspace, normalize, same_path};
pub use yaml::{YamlQuirk, YamlQuirkKind};
