//! What a tool call would do, as lines for the user who is asked.

use serde_json::Value;
use similar::TextDiff;

/// Maximum number of lines. A diff of a large file would hide the question.
const MAX_LINES: usize = 40;

/// The command, the changes of files, or the places of a tool call.
pub fn lines(tool: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    match &tool["input"]["command"] {
        Value::String(command) => lines.push(format!("$ {command}")),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            lines.push(format!("$ {}", words.join(" ")));
        }
        _ => {}
    }
    let contents = tool["content"].as_array().into_iter().flatten();
    for content in contents {
        match content["type"].as_str() {
            Some("diff") => lines.extend(diff(content)),
            _ => {
                let text = content["content"]["text"].as_str().unwrap_or_default();
                lines.extend(text.lines().map(str::to_owned));
            }
        }
    }
    if lines.is_empty() {
        let places = tool["locations"].as_array().into_iter().flatten();
        lines.extend(places.filter_map(|place| Some(place["path"].as_str()?.to_owned())));
    }
    let rest = lines.len().saturating_sub(MAX_LINES);
    if rest > 0 {
        lines.truncate(MAX_LINES);
        lines.push(format!("… and {rest} more lines"));
    }
    lines
}

/// The change of one file as a unified diff.
pub fn diff(content: &Value) -> Vec<String> {
    let path = content["path"].as_str().unwrap_or("file");
    let old = content["oldText"].as_str().unwrap_or_default();
    let new = content["newText"].as_str().unwrap_or_default();
    let diff = TextDiff::from_lines(old, new);
    let text = diff.unified_diff().header(path, path).to_string();
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_and_commands_are_shown() {
        let tool = json!({
            "input": { "command": "make" },
            "content": [{ "type": "diff", "path": "/a", "oldText": "one\ntwo\n", "newText": "one\n2\n" }],
        });
        let expected = [
            "$ make",
            "--- /a",
            "+++ /a",
            "@@ -1,2 +1,2 @@",
            " one",
            "-two",
            "+2",
        ];
        assert_eq!(lines(&tool), expected);
        assert_eq!(
            lines(&json!({ "locations": [{ "path": "/b", "line": 3 }] })),
            ["/b"]
        );
        assert!(lines(&json!({ "id": "x" })).is_empty());
    }

    #[test]
    fn a_long_preview_is_cut() {
        let text = "x\n".repeat(100);
        let tool = json!({ "content": [{ "type": "content", "content": { "type": "text", "text": text } }] });
        let lines = lines(&tool);
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[MAX_LINES], "… and 60 more lines");
    }
}
