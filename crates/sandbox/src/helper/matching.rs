//! Matches a regular expression of a manifest in a separate process. If it runs forever or uses too
//! much memory, only that process ends.

use std::io::Write;

use serde_json::{Value, json};

/// Second argument that starts this mode.
pub const MODE: &str = "match";
/// Environment variable with the regular expression, which keeps it out of the process list.
pub const PATTERN: &str = "AGENTPROTO_MATCH_PATTERN";
/// Environment variable with the text.
pub const TEXT: &str = "AGENTPROTO_MATCH_TEXT";

const MAX_CPU_SECONDS: u64 = 2;
const MAX_MEMORY_BYTES: u64 = 1 << 30;

/// Reads the task, prints one line of JSON, and returns.
pub fn run() {
    limit(libc::RLIMIT_CPU, MAX_CPU_SECONDS);
    limit(libc::RLIMIT_AS, MAX_MEMORY_BYTES);
    limit(libc::RLIMIT_CORE, 0);
    let variable = |name| std::env::var(name).unwrap_or_default();
    let result = first_group(&variable(PATTERN), &variable(TEXT));
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{result}").and_then(|()| out.flush());
}

fn limit(resource: libc::__rlimit_resource_t, max: u64) {
    let limit = libc::rlimit {
        rlim_cur: max,
        rlim_max: max,
    };
    // SAFETY: reads one local struct.
    unsafe { libc::setrlimit(resource, &limit) };
}

/// Returns the first group of the match. Hosts may set the `u` flag or not, so a pattern that
/// compiles either way is accepted.
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
    fn the_first_group_is_returned() {
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
