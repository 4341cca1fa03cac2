//! Reports of `lint`, `certify` and `aoi-lint`: verdicts, the row model that all three share
//! (`row`), machine mode (AOI-CLI), and the output formats that several of them write. Renderers
//! only read a report. They never change a verdict or drop a row.

#![deny(missing_docs)]

pub mod aoi;
pub mod badge;
pub mod baseline;
pub mod event;
pub mod files;
pub mod fingerprint;
pub mod format;
pub mod junit;
pub mod markdown;
pub mod page;
pub mod row;
pub mod sarif;
pub mod terminal;
mod verdict;
pub mod words;

pub use format::UnknownFormat;
pub use row::{Row, RowReport};
pub use verdict::Verdict;

/// Name of the tool in every machine format.
pub const TOOL: &str = "agentproto";
