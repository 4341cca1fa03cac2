//! Wording helpers, closest match, safe printing, excerpts, strict JSON, secret names, times, and
//! files replaced in one step: what every other crate needs, once.

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
