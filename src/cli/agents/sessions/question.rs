//! Questions of the agent: how they are shown, and what an answer to one looks like.

use serde_json::{Value, json};

use crate::cli::agents::preview;
use crate::cli::agents::run::questions::{Name, choice};
use agentproto_runtime::forms::{self, FormField};
use agentproto_text::escape_output;

pub fn options(question: &Value) -> &[Value] {
    question["options"].as_array().map_or(&[], Vec::as_slice)
}

/// The text of an option.
pub fn label(option: &Value) -> &str {
    let label = option["label"].as_str().or(option["id"].as_str());
    label.unwrap_or_default()
}

/// What the tool call would do: its command, its changes of files, or its places.
pub fn preview(question: &Value) -> Vec<String> {
    question.get("tool").map(preview::lines).unwrap_or_default()
}

/// The fields of a question that asks for content.
pub fn form(question: &Value) -> Option<Vec<FormField>> {
    let fields = forms::fields(question.get("schema")?);
    (!fields.is_empty()).then_some(fields)
}

pub fn form_hint(fields: &[FormField]) -> String {
    match fields {
        [field] => format!(
            "enter a number, or the answer ({}), or 0 to cancel",
            escape_output(&field.label)
        ),
        fields => {
            let names = fields.iter().filter_map(|field| field.name.as_deref());
            let names: Vec<&str> = names.collect();
            format!(
                "enter a number, or a JSON object with {}, or 0 to cancel",
                escape_output(&names.join(", "))
            )
        }
    }
}

/// The content of a form from one line: the value of its only field, or a JSON object.
fn form_content(fields: &[FormField], text: &str) -> Result<Value, String> {
    match fields {
        [field] if !text.starts_with('{') => {
            let value = field.parse(text)?.unwrap_or_default();
            Ok(match &field.name {
                Some(name) => json!({ name.as_str(): value }),
                None => value,
            })
        }
        _ => serde_json::from_str(text).map_err(|_| form_hint(fields)),
    }
}

/// The answer that a typed line means, as the host expects it. Otherwise what to type instead.
pub fn answer(question: &Value, text: &str) -> Result<Value, String> {
    if text == "0" {
        return Ok(json!({ "cancelled": true }));
    }
    let options = options(question);
    let names = options.iter().map(|option| Name {
        label: label(option),
        kind: option["kind"].as_str(),
    });
    let chosen = choice(text, &names.collect::<Vec<_>>());
    if let Some(option) = chosen.and_then(|index| options.get(index)) {
        return Ok(json!({ "optionId": option["id"] }));
    }
    match form(question) {
        Some(fields) => form_content(&fields, text).map(|content| json!({ "content": content })),
        None => Err(
            "the agent waits for an answer first: enter one of the numbers above, or 0".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_answer_or_is_asked_for_again() {
        let question = json!({ "options": [
            { "id": "2", "label": "Allow", "kind": "allow_once" },
            { "id": "1", "label": "Deny", "kind": "reject_once" },
        ]});
        let chosen = |text: &str| answer(&question, text).map(|answer| answer["optionId"].clone());
        for (text, id) in [
            ("1", "2"),
            ("allow", "2"),
            ("y", "2"),
            ("2", "1"),
            ("no", "1"),
        ] {
            assert_eq!(chosen(text).expect(text), id, "{text}");
        }
        assert_eq!(answer(&question, "0"), Ok(json!({ "cancelled": true })));
        for unknown in ["3", "what?", "allow it"] {
            assert!(answer(&question, unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn a_line_fills_in_a_form_with_one_field() {
        let question = json!({ "schema": { "properties": { "n": { "type": "integer" } } } });
        assert_eq!(answer(&question, "7"), Ok(json!({ "content": { "n": 7 } })));
        assert!(answer(&question, "seven").is_err());
        let two = json!({ "schema": { "properties": { "a": {}, "b": {} } } });
        assert!(answer(&two, "x").expect_err("no JSON").contains("a, b"));
        let content = answer(&two, r#"{"a":"x"}"#).expect("JSON");
        assert_eq!(content["content"]["a"], "x");
    }
}
