//! Bindings of a case: `$name/pointer` refers to a value of an earlier step.

use std::collections::HashMap;

use serde_json::Value;

/// A value, with the transcript lines that it came from.
#[derive(Clone, Debug, Default)]
pub struct BoundValue {
    pub value: Value,
    pub lines: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Bindings {
    names: HashMap<String, BoundValue>,
}

impl Bindings {
    pub fn bind(&mut self, name: &str, value: Value, lines: Vec<u64>) {
        self.names
            .insert(name.to_owned(), BoundValue { value, lines });
    }

    pub fn get(&self, name: &str) -> Option<&BoundValue> {
        self.names.get(name)
    }

    /// The value that `$name/pointer` refers to. `None` if there is no such value.
    pub fn resolve(&self, path: &str) -> Option<(&Value, &[u64])> {
        let path = path.strip_prefix('$')?;
        let (name, pointer) = match path.find('/') {
            Some(at) => path.split_at(at),
            None => (path, ""),
        };
        let bound = self.names.get(name)?;
        bound
            .value
            .pointer(pointer)
            .map(|value| (value, bound.lines.as_slice()))
    }

    /// Replaces the references in a message. An unknown reference becomes `nothing`.
    pub fn fill_message(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            filled.push_str(before);
            let Some((path, after)) = after.split_once('}') else {
                break;
            };
            match self.resolve(&format!("${path}")) {
                Some((Value::String(text), _)) => filled.push_str(text),
                Some((value, _)) => filled.push_str(&value.to_string()),
                None => filled.push_str("nothing"),
            }
            rest = after;
        }
        filled + rest
    }

    /// The transcript lines of everything that a template refers to.
    pub fn lines_of(&self, template: &Value) -> Vec<u64> {
        let mut lines = Vec::new();
        match template {
            Value::String(text) if text.starts_with('$') && !text.starts_with("${") => {
                lines.extend(self.resolve(text).map_or(&[][..], |(_, lines)| lines));
            }
            Value::String(text) => {
                for part in text.split("${").skip(1) {
                    let path = part.split('}').next().unwrap_or_default();
                    let found = self.resolve(&format!("${path}"));
                    lines.extend(found.map_or(&[][..], |(_, lines)| lines));
                }
            }
            Value::Array(items) => lines.extend(items.iter().flat_map(|v| self.lines_of(v))),
            Value::Object(members) => {
                lines.extend(members.values().flat_map(|v| self.lines_of(v)));
            }
            _ => {}
        }
        lines
    }

    /// Replaces all references in a template. An unknown reference is an error, which says what is
    /// missing: the names of bindings mean nothing to a reader of the report.
    pub fn fill(&self, template: &Value) -> Result<Value, String> {
        Ok(match template {
            Value::String(text) => self.fill_text(text)?,
            Value::Array(items) => {
                let items: Result<_, _> = items.iter().map(|item| self.fill(item)).collect();
                Value::Array(items?)
            }
            Value::Object(members) => {
                let mut filled = serde_json::Map::new();
                for (name, value) in members {
                    filled.insert(name.clone(), self.fill(value)?);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }

    fn fill_text(&self, text: &str) -> Result<Value, String> {
        if let Some(rest) = text.strip_prefix("$$") {
            return Ok(Value::String(format!("${rest}")));
        }
        if text.starts_with('$') && !text.starts_with("${") {
            let found = self.resolve(text).map(|(value, _)| value.clone());
            return found.ok_or_else(|| missing(text));
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, after) = rest.split_at(start);
            filled.push_str(before);
            let Some(end) = after.find('}') else {
                filled.push_str(after);
                return Ok(Value::String(filled));
            };
            let path = format!("${}", after.get(2..end).unwrap_or_default());
            match self.resolve(&path) {
                Some((Value::String(text), _)) => filled.push_str(text),
                Some((value, _)) => filled.push_str(&value.to_string()),
                None => return Err(missing(&path)),
            }
            rest = after.get(end + 1..).unwrap_or_default();
        }
        filled.push_str(rest);
        Ok(Value::String(filled))
    }
}

fn missing(path: &str) -> String {
    match path.split_once('/') {
        Some((_, pointer)) => format!("an earlier message of the agent has no `/{pointer}`"),
        None => "an earlier message of the agent is missing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_has_the_lines_of_everything_that_it_refers_to() {
        let mut bindings = Bindings::default();
        bindings.bind("one", json!({"text": "a"}), vec![3]);
        bindings.bind("two", json!("b"), vec![5, 6]);
        let lines = |template: Value| bindings.lines_of(&template);
        assert_eq!(lines(json!("${one/text} and ${two}")), [3, 5, 6]);
        assert_eq!(lines(json!({"x": ["$one", "$none"]})), [3]);
        assert!(lines(json!("$$one")).is_empty());
        assert_eq!(
            bindings.fill_message("${one/text}, ${none/x}"),
            "a, nothing"
        );
    }

    #[test]
    fn references_are_replaced_by_bound_values() {
        let mut bindings = Bindings::default();
        bindings.bind(
            "new",
            json!({"result": {"sessionId": "s", "n": 3}}),
            vec![4],
        );
        let fill = |template: Value| bindings.fill(&template);
        assert_eq!(
            fill(json!({"a": ["$new/result/sessionId", "$new/result"]})),
            Ok(json!({"a": ["s", {"sessionId": "s", "n": 3}]}))
        );
        assert_eq!(
            fill(json!("<${new/result/sessionId}-${new/result/n}>")),
            Ok(json!("<s-3>"))
        );
        assert_eq!(fill(json!("$$5")), Ok(json!("$5")));
        let why = "an earlier message of the agent has no `/x`";
        assert_eq!(fill(json!("$none/x")), Err(why.into()));
    }
}
