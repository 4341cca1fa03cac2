//! Newline-delimited JSON-RPC on the wire: raw lines, envelopes that are checked but not repaired,
//! and transcripts that keep every line with its direction, time and offset.
//!
//! This crate does not know what the messages mean, except for the few members whose values
//! change in every run (`renames`, `diff`).

#![deny(missing_docs)]

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

pub use envelope::{Envelope, EnvelopeFlaw, MessageKind};
pub use transcript::{Direction, FIRST_LINE, Line, Transcript};
