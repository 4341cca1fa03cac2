//! Environment variables that a tool could take for a confirmation.

use std::collections::BTreeSet;

use crate::guess::base_name;
use crate::model::TOOL;
use crate::observe::Mutation;
use crate::session::RunOptions;

/// Names that tools commonly use.
const COMMON: [&str; 10] = [
    "ALWAYS_YES",
    "ASSUME_YES",
    "AUTO_APPROVE",
    "AUTO_CONFIRM",
    "CI",
    "CONFIRM",
    "FORCE",
    "NONINTERACTIVE",
    "NON_INTERACTIVE",
    "YES",
];

/// Parts of a name that suggest a confirmation.
const PARTS: [&str; 6] = [
    "APPROVE",
    "CONFIRM",
    "FORCE",
    "INTERACTIVE",
    "UNATTENDED",
    "YES",
];

/// Maximum number of names taken from the documents of the tool.
const MAX_DOCUMENTED: usize = 50;

/// The common names, with and without the name of the tool, and those that `--help` and
/// `capabilities` mention.
pub(super) async fn confirming(mutation: &Mutation<'_>) -> Vec<String> {
    let session = mutation.session;
    let capabilities = session.declared.get().and_then(|d| d.capabilities.as_ref());
    let declared = capabilities.and_then(|all| all.get("tool")?.as_str());
    let started = session.probe.tool.first().map(|word| base_name(word));
    let tools = declared.map(str::to_owned).into_iter().chain(started);
    let mut names: BTreeSet<String> = COMMON.map(str::to_owned).into();
    for tool in tools {
        let tool = prefix(&tool);
        names.extend(COMMON.map(|name| format!("{tool}_{name}")));
    }
    let how = RunOptions {
        no_machine_args: true,
        ..RunOptions::default()
    };
    let flag = ["--help".to_owned()];
    let help = session.run(TOOL, "--help", &flag, how).await;
    let documents = [
        String::from_utf8_lossy(&help.stdout).into_owned(),
        capabilities.map(ToString::to_string).unwrap_or_default(),
    ];
    let documented = documents.iter().flat_map(|text| documented(text));
    names.extend(documented.take(MAX_DOCUMENTED));
    names.into_iter().collect()
}

/// The name of a tool as the start of a variable: `MY_TOOL`.
fn prefix(tool: &str) -> String {
    let upper = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    };
    tool.chars().map(upper).collect()
}

/// Names in a text that look like variables and suggest a confirmation.
fn documented(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(move |c| !is_part(c));
    let suggests = |word: &&str| {
        word.contains('_') && word.len() < 64 && PARTS.iter().any(|part| word.contains(part))
    };
    words.filter(suggests).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_the_help() {
        let text = "Set MYTOOL_ASSUME_YES=1 to skip questions (CONFIRMATION_REQUIRED, LOG_LEVEL).";
        let found: Vec<String> = documented(text).collect();
        assert_eq!(found, ["MYTOOL_ASSUME_YES", "CONFIRMATION_REQUIRED"]);
        assert_eq!(prefix("my-tool.py"), "MY_TOOL_PY");
    }
}
