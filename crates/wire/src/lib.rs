//! Newline-delimited JSON-RPC as it really is on the wire: raw lines, envelopes judged without
//! repairing them, and transcripts that keep every line with its direction, time and offset.
//!
//! This room depends on nothing; it does not know what the messages mean, but for the few
//! members that name things anew in every run (`renames`, `diff`).

pub mod diff;
pub mod envelope;
pub mod file;
pub mod record;
mod renames;
pub mod replay;
pub mod rerun;
pub mod script;
pub mod span;
mod transcript;

pub use envelope::{Envelope, Flaw, Kind};
pub use transcript::{Direction, FIRST, Line, Transcript};
