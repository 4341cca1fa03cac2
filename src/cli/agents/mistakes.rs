//! Errors in files of our own formats, with the position of each error.

use crate::cli::Failure;
use crate::exit;
use agentproto_manifest::fields::Mistake;

/// Maximum number of errors shown per file.
const SHOWN: usize = 10;

/// The errors of a file, one per line.
pub fn places(name: &str, mistakes: &[Mistake]) -> String {
    let shown = mistakes.iter().take(SHOWN);
    let mut lines: Vec<String> = shown
        .map(|m| format!("{name}:{}:{}: {}", m.line, m.column, m.message))
        .collect();
    if mistakes.len() > SHOWN {
        lines.push(format!("and {} more", mistakes.len() - SHOWN));
    }
    lines.join("\n  ")
}

/// An error for an invalid file. `format` names its schema.
pub fn misread(format: &str, name: &str, mistakes: &[Mistake]) -> Failure {
    let message = format!("invalid {format}: {}", places(name, mistakes));
    let hint = format!("`agentproto schema --name {format}` describes the format");
    Failure::new(exit::DATA, message).hint(hint)
}
