//! What the judges report, in every output format. Verdicts, the one model of rows that all three
//! judges have in common (`row`), machine mode (AOI-CLI), and each format that several of them
//! write. Renderers only read: they never judge, sort or drop a row.

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
pub mod pen;
pub mod row;
pub mod sarif;
mod verdict;
pub mod words;

pub use format::UnknownFormat;
pub use row::{Report, Row};
pub use verdict::Verdict;

/// The name that every machine format gives the tool.
pub const TOOL: &str = "agentproto";
