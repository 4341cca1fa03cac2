//! Errors in files of our own formats, with the position of each error.

use std::io;
use std::path::Path;

use crate::cli::Failure;
use crate::exit;
use agentproto_manifest::fields::FieldError;
use agentproto_manifest::yaml;

/// Maximum number of errors shown per file.
const MAX_SHOWN_ERRORS: usize = 10;

/// The errors of a file, one per line.
pub fn error_lines(name: &str, errors: &[FieldError]) -> String {
    let first = errors.iter().take(MAX_SHOWN_ERRORS);
    let mut lines: Vec<String> = first
        .map(|m| format!("{name}:{}:{}: {}", m.line, m.column, m.message))
        .collect();
    if errors.len() > MAX_SHOWN_ERRORS {
        lines.push(format!("and {} more", errors.len() - MAX_SHOWN_ERRORS));
    }
    lines.join("\n  ")
}

/// Whether a file can be parsed. If not, a hint on its format does not help.
pub fn is_yaml(text: &str) -> bool {
    yaml::parse(text, 0).problems.is_empty()
}

/// An error for an input file that does not exist or cannot be read.
pub fn unreadable(path: impl AsRef<Path>, error: &io::Error) -> Failure {
    let path = path.as_ref().display();
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!("`{path}` does not exist"),
        _ => format!("`{path}` cannot be read: {error}"),
    };
    Failure::new(exit::NO_INPUT, message)
}

/// An error for an invalid file. `format` names its schema.
pub fn invalid_file(format: &str, name: &str, errors: &[FieldError]) -> Failure {
    let message = format!("invalid {format}: {}", error_lines(name, errors));
    let hint = format!("`agentproto schema --name {format}` describes the format");
    Failure::new(exit::DATA, message).hint(hint)
}
