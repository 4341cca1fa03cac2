//! Names that one side chose in a recording, and what they are called now.

use std::collections::HashMap;

use serde_json::Value;

/// Members whose values are made up anew in every run, and said back by the other side.
const CHOSEN: [&str; 4] = ["sessionId", "optionId", "nextCursor", "elicitationId"];

#[derive(Clone, Debug, Default)]
pub struct Renames {
    names: HashMap<String, String>,
    /// Directories; what lies below them moves along.
    places: Vec<(String, String)>,
}

impl Renames {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.places.is_empty()
    }

    pub fn name(&mut self, old: &str, new: &str) {
        if old != new {
            self.names.insert(old.to_owned(), new.to_owned());
        }
    }

    pub fn place(&mut self, old: &str, new: &str) {
        let is_known = self.places.iter().any(|(known, _)| known == old);
        if old != new && old.len() > 1 && !is_known {
            self.places.push((old.to_owned(), new.to_owned()));
        }
    }

    /// Looks at the same message of both runs for names that differ.
    pub fn learn(&mut self, old: &Value, new: &Value) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                for (key, old) in old {
                    let Some(new) = new.get(key) else { continue };
                    match (old.as_str(), new.as_str()) {
                        (Some(old), Some(new)) if CHOSEN.contains(&key.as_str()) => {
                            self.name(old, new);
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

    /// Puts the new names in; whether anything changed.
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
        self.places.iter().find_map(|(old, new)| {
            let rest = text.strip_prefix(old.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{new}{rest}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_places_move_and_nothing_else() {
        let mut renames = Renames::default();
        renames.learn(
            &json!({"sessionId": "a", "modeId": "code"}),
            &json!({"sessionId": "b", "modeId": "ask"}),
        );
        renames.place("/old", "/new");
        let mut value =
            json!({"sessionId": "a", "m": "code", "p": ["/old/x", "/older", "/old"], "t": "a b"});
        assert!(renames.apply(&mut value));
        assert_eq!(
            value,
            json!({"sessionId": "b", "m": "code", "p": ["/new/x", "/older", "/new"], "t": "a b"})
        );
        assert!(!renames.apply(&mut json!({"x": 1, "y": "z"})));
    }
}
