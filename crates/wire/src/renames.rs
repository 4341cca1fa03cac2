//! Maps generated names and directories of a recording to those of the current run.

use std::collections::HashMap;

use serde_json::Value;

/// Members whose values change in every run and are repeated by the other side.
const GENERATED_MEMBERS: [&str; 4] = ["sessionId", "optionId", "nextCursor", "elicitationId"];

#[derive(Clone, Debug, Default)]
pub struct Renames {
    names: HashMap<String, String>,
    /// Directories. Paths below them are mapped as well.
    directories: Vec<(String, String)>,
}

impl Renames {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.directories.is_empty()
    }

    pub fn add_name(&mut self, old: &str, new: &str) {
        if old != new {
            self.names.insert(old.to_owned(), new.to_owned());
        }
    }

    pub fn add_directory(&mut self, old: &str, new: &str) {
        let is_known = self.directories.iter().any(|(known, _)| known == old);
        if old != new && old.len() > 1 && !is_known {
            self.directories.push((old.to_owned(), new.to_owned()));
            // Longest first, because one directory may contain another.
            self.directories
                .sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        }
    }

    /// Adds the names that differ between the same message of both runs.
    pub fn learn(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                for (key, old) in old {
                    let Some(new) = new.get(key) else { continue };
                    match (old.as_str(), new.as_str()) {
                        (Some(old), Some(new)) if GENERATED_MEMBERS.contains(&key.as_str()) => {
                            self.add_name(old, new);
                        }
                        _ => self.learn(old, new),
                    }
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                for (old, new) in old.iter().zip(new) {
                    self.learn(old, new);
                }
            }
            _ => {}
        }
    }

    /// Replaces all old names. Returns whether anything changed.
    pub fn apply(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.renamed(text) {
                Some(new) => {
                    *text = new;
                    true
                }
                None => false,
            },
            Value::Array(items) => {
                let changed = items.iter_mut().map(|item| self.apply(item));
                changed.fold(false, |a, b| a | b)
            }
            Value::Object(members) => {
                let changed = members.values_mut().map(|value| self.apply(value));
                changed.fold(false, |a, b| a | b)
            }
            _ => false,
        }
    }

    fn renamed(&self, text: &str) -> Option<String> {
        if let Some(new) = self.names.get(text) {
            return Some(new.clone());
        }
        let mut renamed = None;
        for (old, new) in &self.directories {
            let text = renamed.as_deref().unwrap_or(text);
            if let Some(replaced) = replace_directory(text, old, new) {
                renamed = Some(replaced);
            }
        }
        renamed
    }
}

/// Replaces a directory in a text: in a path, in an address, or between words.
fn replace_directory(text: &str, old: &str, new: &str) -> Option<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut out = String::new();
    let mut rest = text;
    let mut is_changed = false;
    while let Some(at) = rest.find(old) {
        let (before, found) = rest.split_at(at);
        let after = found.get(old.len()..).unwrap_or_default();
        let is_whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        out.push_str(before);
        out.push_str(if is_whole { new } else { old });
        is_changed |= is_whole;
        rest = after;
    }
    out.push_str(rest);
    is_changed.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_names_and_directories_are_replaced() {
        let mut renames = Renames::default();
        renames.learn(
            &json!({"sessionId": "a", "modeId": "code"}),
            &json!({"sessionId": "b", "modeId": "ask"}),
        );
        renames.add_directory("/old", "/new");
        let mut value = json!({"sessionId": "a", "m": "code", "t": "a b", "p": [
            "/old/x", "/older", "/old", "/very/old", "file:///old/x", "in /old, I say"
        ]});
        assert!(renames.apply(&mut value));
        assert_eq!(
            value,
            json!({"sessionId": "b", "m": "code", "t": "a b", "p": [
                "/new/x", "/older", "/new", "/very/old", "file:///new/x", "in /new, I say"
            ]})
        );
        assert!(!renames.apply(&mut json!({"x": 1, "y": "z"})));
    }
}
