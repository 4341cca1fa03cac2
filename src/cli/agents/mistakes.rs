//! Files of our own formats that cannot be used, with the place of every mistake.

use crate::cli::Failure;
use crate::exit;
use agentproto_manifest::fields::Mistake;

/// How many mistakes of a file are shown.
const SHOWN: usize = 10;

/// The mistakes of a file, a line each.
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

/// `format` names the schema of the file.
pub fn misread(format: &str, name: &str, mistakes: &[Mistake]) -> Failure {
    let message = format!("not a {format}: {}", places(name, mistakes));
    let hint = format!("`agentproto schema --name {format}` describes the format");
    Failure::new(exit::DATA, message).hint(hint)
}
