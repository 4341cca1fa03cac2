//! Helpers that every other crate needs: wording, closest match, safe printing, excerpts, strict
//! JSON, redaction, times, limits on floods of events, and atomic replacement of files.

#![deny(missing_docs)]

pub mod credentials;
mod escape;
pub mod excerpt;
pub mod files;
pub mod flood;
pub mod redact;
pub mod strict_json;
pub mod time;
mod words;
mod wrap;

pub use escape::{
    clip, count, escape_char, escape_json, escape_line, escape_lines, escape_output, is_hidden,
    pretty,
};
pub use files::replace_file;
pub use words::{base_name, closest_of, hex, lower_first, one_of, shell, truncate, upper_first};
pub use wrap::{wrap, wrap_markdown};
