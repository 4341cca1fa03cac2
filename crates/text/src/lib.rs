//! Helpers that every other crate needs: wording, closest match, safe printing, excerpts, strict
//! JSON, redaction, times, and atomic replacement of files.

pub mod credentials;
pub mod excerpt;
mod files;
mod plain;
pub mod redact;
pub mod strict_json;
pub mod time;
mod words;

pub use files::replace_file;
pub use plain::{clip, count, is_hidden, json_plain, plain, plain_lines, pretty, shown, speech};
pub use words::{base_name, closest_of, hex, one_of, short};
