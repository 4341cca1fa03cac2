//! Finds limits that only the help text mentions.

use crate::checks::is_read_only;
use crate::model::TOOL;
use crate::probe::ProbeCommand;
use crate::session::{LintSession, RunOptions};

/// Whether the help of a read-only command names `--limit`. A command without its own help prints
/// that of the tool, which says nothing about this command.
pub async fn names_limit(session: &LintSession, command: &ProbeCommand) -> bool {
    let mut words: Vec<String> = command.name.split_whitespace().map(str::to_owned).collect();
    if !is_read_only(session, command) || !command.ok.starts_with(&words) {
        return false;
    }
    let flag = ["--help".to_owned()];
    words.extend(flag.clone());
    let how = RunOptions {
        no_machine_args: true,
        ..RunOptions::default()
    };
    let (own, general) = tokio::join!(
        session.run(&command.name, "--help", &words, how.clone()),
        session.run(TOOL, "--help", &flag, how),
    );
    own.end.is_success() && own.stdout != general.stdout && has_flag(&own.stdout, "--limit")
}

/// Whether the text contains the flag as a whole word.
fn has_flag(text: &[u8], flag: &str) -> bool {
    let text = String::from_utf8_lossy(text);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.split(|c| !is_part(c)).any(|word| word == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_whole_word() {
        for text in [
            "  --limit N  results",
            "[--limit=N]",
            "-n, --limit <N>",
            "`--limit`",
        ] {
            assert!(has_flag(text.as_bytes(), "--limit"), "{text}");
        }
        for text in ["--limits", "--no-limit", "limit", "--limit-rate"] {
            assert!(!has_flag(text.as_bytes(), "--limit"), "{text}");
        }
    }
}
