//! Forms and web pages that an agent asks the user to complete (elicitation), for all protocols.

use serde_json::{Map, Value, json};

use super::permissions::{AgentQuestion, Answer};
use crate::event::Choice;
use crate::forms;

const ACCEPT: &str = "accept";
const DECLINE: &str = "decline";

/// A question, and the content of an acceptance without input.
pub struct Form {
    pub message: String,
    /// The only field, if it is a choice between given words.
    field: Option<(String, Vec<Choice>)>,
    /// Content of a plain acceptance, or `None` if a required field has no default.
    filled: Option<Value>,
    /// The requested schema, if answers can be checked against it.
    pub schema: Option<Value>,
}

/// The result of an elicitation.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationResult {
    /// The user accepts, with content if the form has fields.
    Accept(Option<Value>),
    Decline,
    Cancel,
}

impl Form {
    pub fn new(params: &Value) -> Form {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let (message, url) = (text("message"), text("url"));
        if !url.is_empty() {
            return Form {
                message: format!("{message}\n{url}").trim().to_owned(),
                field: None,
                filled: Some(Value::Null),
                schema: None,
            };
        }
        let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&none);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|r| r.iter().any(|n| n.as_str() == Some(name)));
        let mut filled = Some(Map::new());
        for (name, property) in properties {
            let value = property
                .get("default")
                .cloned()
                .or_else(|| (property.get("type")? == "boolean").then_some(Value::Bool(true)));
            match (value, &mut filled) {
                (Some(value), Some(map)) => {
                    map.insert(name.clone(), value);
                }
                (None, _) if is_required(name) => filled = None,
                _ => {}
            }
        }
        let mut fields = properties.iter();
        let field = match (fields.next(), fields.next()) {
            (Some((name, property)), None) => {
                word_choices(property).map(|words| (name.clone(), words))
            }
            _ => None,
        };
        Form {
            message: message.to_owned(),
            field,
            filled: filled.map(Value::Object),
            schema: forms::usable(schema).cloned(),
        }
    }

    /// The question to show. `number` identifies it within the session.
    pub fn question(&self, number: u64) -> AgentQuestion {
        AgentQuestion {
            id: format!("elicitation-{number}"),
            message: self.message.clone(),
            choices: self.choices(),
            schema: self.schema.clone(),
            is_permission: false,
            tool: "elicitation".to_owned(),
            kind: None,
            details: None,
        }
    }

    fn choices(&self) -> Vec<Choice> {
        let choice = |id: &str, label: &str, kind: &str| Choice {
            id: id.to_owned(),
            label: label.to_owned(),
            kind: Some(kind.to_owned()),
        };
        let words = self
            .field
            .iter()
            .flat_map(|(_, words)| words.iter().cloned());
        let accept = self
            .filled
            .is_some()
            .then(|| choice(ACCEPT, "Accept", "allow_once"));
        words
            .chain(accept)
            .chain([choice(DECLINE, "Decline", "reject_once")])
            .collect()
    }

    pub fn result(self, answer: Answer) -> ElicitationResult {
        let accept = |content: Value| match content {
            Value::Null => ElicitationResult::Accept(None),
            content => ElicitationResult::Accept(Some(content)),
        };
        match answer {
            Answer::Cancelled => ElicitationResult::Cancel,
            Answer::Declined => ElicitationResult::Decline,
            Answer::Content(content) => accept(content),
            Answer::Choice(id) => {
                if let Some((name, words)) = &self.field
                    && words.iter().any(|word| word.id == id)
                {
                    return accept(json!({ name.as_str(): id }));
                }
                match self.filled {
                    Some(content) if id == ACCEPT => accept(content),
                    _ => ElicitationResult::Decline,
                }
            }
        }
    }
}

/// The words that a field may have, with their titles. If some allow and some reject, they get
/// permission kinds.
fn word_choices(property: &Value) -> Option<Vec<Choice>> {
    let mut choices = plain_words(property)?;
    let kinds: Vec<_> = choices.iter().map(|choice| kind_of(&choice.id)).collect();
    let any = |start: &str| kinds.iter().flatten().any(|kind| kind.starts_with(start));
    if any("allow") && any("reject") {
        for (choice, kind) in choices.iter_mut().zip(kinds) {
            choice.kind = kind.map(str::to_owned);
        }
    }
    Some(choices)
}

fn kind_of(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
    let first = parts.next()?;
    let always = parts.any(|part| part == "always");
    match (first, always) {
        ("allow" | "approve" | "approved" | "accept" | "yes", false) => Some("allow_once"),
        ("allow" | "approve" | "approved" | "accept" | "yes", true) => Some("allow_always"),
        ("reject" | "deny" | "denied" | "decline" | "no", false) => Some("reject_once"),
        ("reject" | "deny" | "denied" | "decline" | "no", true) => Some("reject_always"),
        _ => None,
    }
}

fn plain_words(property: &Value) -> Option<Vec<Choice>> {
    let words = forms::words(property)?.into_iter();
    let choice = |(id, label)| Choice {
        id,
        label,
        kind: None,
    };
    Some(words.map(choice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: Value) -> Form {
        Form::new(&json!({"message": "sure?", "requestedSchema": schema}))
    }

    fn accepted(content: Value) -> ElicitationResult {
        ElicitationResult::Accept(Some(content))
    }

    fn ids(form: &Form) -> Vec<String> {
        form.choices().into_iter().map(|c| c.id).collect()
    }

    #[test]
    fn a_plain_approval() {
        let plain = form(json!({"type": "object", "properties": {}}));
        assert_eq!(ids(&plain), ["accept", "decline"]);
        let result = plain.result(Answer::Choice("accept".into()));
        assert_eq!(result, accepted(json!({})));
    }

    #[test]
    fn defaults_and_booleans_are_filled_in() {
        let schema = json!({
            "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "default": 3}, "x": {"type": "string"}},
            "required": ["ok", "n"],
        });
        let result = form(schema).result(Answer::Choice("accept".into()));
        assert_eq!(result, accepted(json!({"ok": true, "n": 3})));
    }

    #[test]
    fn a_required_text_is_not_accepted_without_content() {
        let schema = json!({"properties": {"name": {"type": "string"}}, "required": ["name"]});
        assert_eq!(ids(&form(schema.clone())), ["decline"]);
        let without_content = form(schema.clone()).result(Answer::Choice("accept".into()));
        assert_eq!(without_content, ElicitationResult::Decline);
        let result = form(schema).result(Answer::Content(json!({"name": "n"})));
        assert_eq!(result, accepted(json!({"name": "n"})));
    }

    #[test]
    fn a_single_field_of_words_offers_them() {
        let schema = json!({"properties": {"how": {"enum": ["a", "b"], "enumNames": ["A"]}}, "required": ["how"]});
        let choices = form(schema.clone()).choices();
        assert_eq!(choices[0].label, "A");
        assert_eq!(ids(&form(schema.clone())), ["a", "b", "decline"]);
        let result = form(schema).result(Answer::Choice("b".into()));
        assert_eq!(result, accepted(json!({"how": "b"})));
        let titled = json!({"properties": {"how": {"oneOf": [{"const": "x", "title": "X"}]}}});
        assert_eq!(ids(&form(titled)), ["x", "accept", "decline"]);
    }

    #[test]
    fn words_that_allow_and_reject_are_a_permission() {
        let kinds = |words: Value| {
            let choices =
                form(json!({"properties": {"p": {"enum": words}}, "required": ["p"]})).choices();
            choices.into_iter().map(|c| c.kind).collect::<Vec<_>>()
        };
        let some = |kind: &str| Some(kind.to_owned());
        assert_eq!(
            kinds(json!([
                "allow-once",
                "allow-always",
                "reject-once",
                "later"
            ])),
            [
                some("allow_once"),
                some("allow_always"),
                some("reject_once"),
                None,
                some("reject_once")
            ]
        );
        assert_eq!(
            kinds(json!(["yes", "maybe"])),
            [None, None, some("reject_once")]
        );
        assert_eq!(
            kinds(json!(["north", "south"])),
            [None, None, some("reject_once")]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_json_causes_a_panic(value in crate::arm::json::any_value()) {
            let wrapped = json!({"message": "m", "requestedSchema": value});
            for params in [value, wrapped] {
                let form = Form::new(&params);
                let first = form.choices().into_iter().next();
                let id = first.map_or_else(String::new, |choice| choice.id);
                form.result(Answer::Choice(id));
            }
        }
    }

    #[test]
    fn a_page_to_open() {
        let page = Form::new(&json!({"message": "open", "url": "https://example.org/"}));
        assert_eq!(page.message, "open\nhttps://example.org/");
        let result = page.result(Answer::Choice("accept".into()));
        assert_eq!(result, ElicitationResult::Accept(None));
        let other = Form::new(&json!(null));
        assert_eq!(other.result(Answer::Declined), ElicitationResult::Decline);
    }
}
