//! Cases that need a prompt: which keys are missing, and a prompts file with them to copy.

use std::path::Path;

use crate::model::{CaseResult, Report, Verdict};
use crate::run::prompts::{KEYS, MISSING_CALL, MISSING_PROMPT, PromptKey};
use agentproto_text::count;

/// The alternative to a prompts file, printed after it.
pub const ALTERNATIVE: &str = "Or run the agent with a mock model: --mock-llm.";

/// Maximum number of requirement ids that are listed for a key.
const MAX_IDS: usize = 4;

/// A missing key that rows need.
struct MissingKey<'r> {
    key: &'static PromptKey,
    /// Requirement ids without duplicates.
    ids: Vec<&'r str>,
    is_call: bool,
}

pub struct MissingPrompts {
    /// Number of rows that need a prompt.
    pub rows: usize,
    /// A prompts file with every key that is missing.
    pub yaml: String,
}

impl MissingPrompts {
    /// `7 rows need a prompt that makes the agent do something, such as call a tool.`
    pub fn headline(&self) -> String {
        let rows = count(self.rows, "row needs", "rows need");
        format!("{rows} a prompt that makes the agent do something, such as call a tool.")
    }

    /// Instructions before the file. `given` is the prompts file that was passed, if any.
    pub fn before(&self, given: Option<&Path>) -> String {
        let (place, then) = match given {
            Some(file) => (format!("Add this to {}", file.display()), "run again"),
            None => (
                "Save this as prompts.yaml".to_owned(),
                "run again with --prompts prompts.yaml",
            ),
        };
        format!(
            "Only you know which prompts do this for your agent. {place}, adapt the prompts, \
             remove the keys that do not apply to this agent, and {then}:"
        )
    }
}

/// Whether a row was skipped because a prompt is missing.
pub fn needs_prompt(row: &CaseResult) -> bool {
    row.verdict == Verdict::Skip && !keys(row).is_empty()
}

/// `None` if no prompt is missing.
pub fn of(report: &Report) -> Option<MissingPrompts> {
    let waiting = || report.results.iter().filter(|row| needs_prompt(row));
    let mut all: Vec<MissingKey> = Vec::new();
    for key in &KEYS {
        let rows = waiting().filter(|row| keys(row).contains(&key.name));
        let mut missing = MissingKey {
            key,
            ids: Vec::new(),
            is_call: false,
        };
        for row in rows {
            missing.is_call |= row.message.starts_with(MISSING_CALL);
            if !missing.ids.contains(&row.requirement.as_str()) {
                missing.ids.push(&row.requirement);
            }
        }
        if !missing.ids.is_empty() {
            all.push(missing);
        }
    }
    let yaml: String = all.iter().map(MissingKey::lines).collect();
    (!all.is_empty()).then(|| MissingPrompts {
        rows: waiting().count(),
        yaml,
    })
}

/// The keys that a skipped row names.
fn keys(row: &CaseResult) -> Vec<&'static str> {
    if !row.message.starts_with(MISSING_PROMPT) && !row.message.starts_with(MISSING_CALL) {
        return Vec::new();
    }
    let quoted = row.message.split('`').skip(1).step_by(2);
    // `tool`, or `tool: {name: TOOL, …}` of a call.
    let quoted = quoted.filter_map(|quote| quote.split(':').next());
    let named: Vec<&str> = quoted.collect();
    let known = KEYS.iter().map(|key| key.name);
    known.filter(|key| named.contains(key)).collect()
}

impl MissingKey<'_> {
    fn lines(&self) -> String {
        let named = self.ids.iter().take(MAX_IDS).copied();
        // Ids from a foreign report must not end the YAML comment.
        let fits = |id: &&str| {
            id.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let mut ids = named.filter(fits).collect::<Vec<_>>().join(", ");
        if self.ids.len() > MAX_IDS {
            ids.push_str(&format!(" and {} more", self.ids.len() - MAX_IDS));
        }
        let PromptKey {
            name,
            effect,
            sample,
        } = self.key;
        match self.is_call {
            true => format!(
                "# a tool call of your server that fits `{name}` (for {ids})\n\
                 {name}: {{ name: TOOL, arguments: {{}} }}\n"
            ),
            false => format!("# the agent {effect} (for {ids})\n{name}: {sample}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::prompts;

    #[test]
    fn every_sample_is_a_valid_prompts_file() {
        for key in &KEYS {
            let missing = MissingKey {
                key,
                ids: vec!["X-01", "X\n02"],
                is_call: false,
            };
            let read = prompts::parse(&missing.lines()).expect("a prompts file");
            assert_eq!(read.get(key.name).map(String::as_str), Some(key.sample));
            let call = MissingKey {
                is_call: true,
                ..missing
            };
            let read = prompts::parse(&call.lines()).expect("a prompts file");
            assert!(read[key.name].contains("TOOL"), "{read:?}");
        }
    }
}
