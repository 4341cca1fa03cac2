//! A regular expression of a manifest, tried in a process of its own: one that never comes
//! to an end, or that takes all memory, ends alone.

use std::io::Write;

use serde_json::{Value, json};

/// The helper's second word.
pub const WORD: &str = "match";
/// Variables that carry the task: they stay out of the process list.
pub const PATTERN: &str = "AGENTPROTO_MATCH_PATTERN";
pub const TEXT: &str = "AGENTPROTO_MATCH_TEXT";

const MOST_SECONDS: u64 = 2;
const MOST_MEMORY: u64 = 1 << 30;

/// Reads the task, answers with one line of JSON, and ends.
pub fn run() {
    limit(libc::RLIMIT_CPU, MOST_SECONDS);
    limit(libc::RLIMIT_AS, MOST_MEMORY);
    limit(libc::RLIMIT_CORE, 0);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let answer = first_group(&variable(PATTERN), &variable(TEXT));
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
}

fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: reads one structure of ours.
    unsafe { libc::setrlimit(resource, &limit) };
}

/// Hosts may set the `u` flag or not; a pattern that works either way is fine.
fn first_group(pattern: &str, text: &str) -> Value {
    let compiled = regress::Regex::with_flags(pattern, "")
        .or_else(|error| regress::Regex::with_flags(pattern, "u").map_err(|_| error));
    let regex = match compiled {
        Ok(regex) => regex,
        Err(error) => return json!({ "error": error.text }),
    };
    let Some(found) = regex.find(text) else {
        return json!({});
    };
    match found.group(1).and_then(|range| text.get(range)) {
        Some(group) => json!({ "group": group }),
        None => json!({ "no_group": true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A29-VER-03, A29-VER-04.
    #[test]
    fn the_first_group_is_what_counts() {
        let group = |pattern| first_group(pattern, "tool 1.2.3 (4.5.6)");
        assert_eq!(group(r"tool (\S+)"), json!({ "group": "1.2.3" }));
        assert_eq!(
            group(r"(?<=tool )([\d.]+) \(([\d.]+)\)"),
            json!({ "group": "1.2.3" })
        );
        assert_eq!(group(r"nothing (\S+)"), json!({}));
        assert_eq!(group(r"tool"), json!({ "no_group": true }));
        assert!(group("(").get("error").is_some());
    }
}
