//! What the judges report, in every output format. Verdicts, machine mode (AOI-CLI), and the parts
//! that several formats share. Renderers only read: they never judge, sort or drop a row.

pub mod aoi;
pub mod badge;
pub mod event;
pub mod files;
pub mod fingerprint;
pub mod junit;
pub mod markdown;
pub mod pen;
pub mod sarif;
mod verdict;
pub mod words;

pub use verdict::Verdict;

/// The name that every machine format gives the tool.
pub const TOOL: &str = "agentproto";
