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

    /// Replaces all references in a template. An unknown reference is an error that names it.
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
            return found.ok_or_else(|| format!("{text} is not defined"));
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
                None => return Err(format!("{path} is not defined")),
            }
            rest = after.get(end + 1..).unwrap_or_default();
        }
        filled.push_str(rest);
        Ok(Value::String(filled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        assert_eq!(fill(json!("$none/x")), Err("$none/x is not defined".into()));
    }
}
