//! Prepared answers to setup steps: `id: value`. Secrets must be given as `{env: NAME}`.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::context::Context;
use crate::error::{Code, Error};
use agentproto_manifest::{Document, Node, Value, to_json};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Literal(String),
    /// The value of a variable in the caller's environment.
    Variable(String),
}

/// Answers by step id.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<String, Answer>);

impl Answers {
    /// Reads a YAML mapping.
    pub fn parse(name: &str, bytes: Vec<u8>) -> Result<Answers, Error> {
        let wrong = |what: String| {
            Error::new(Code::OptionInvalid, format!("{name}: {what}"))
                .hint("write `step-id: value`, or `step-id: {env: NAME}` for a secret")
        };
        let doc = Document::parse_yaml(name, bytes);
        if let Some(problem) = doc.problems.first() {
            return Err(wrong(problem.explained()));
        }
        let Some(root) = doc.root.as_ref().filter(|root| root.is_map()) else {
            return Err(wrong(
                "the answers must be a mapping of step ids to values".to_owned(),
            ));
        };
        let mut out = BTreeMap::new();
        for entry in root.entries() {
            let answer = answer(&entry.value).ok_or_else(|| {
                wrong(format!(
                    "the answer to `{}` must be a scalar or `{{env: NAME}}`",
                    entry.key
                ))
            })?;
            out.insert(entry.key.to_string(), answer);
        }
        Ok(Answers(out))
    }

    /// Whether there is an answer to a step.
    pub fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// An id that does not belong to a step, if there is one.
    pub fn unknown<'s>(&'s self, known: &[&str]) -> Option<&'s str> {
        let mut ids = self.0.keys().map(String::as_str);
        ids.find(|id| !known.contains(id))
    }

    /// The answer to a step. Returns an error if a secret is a literal.
    pub fn get(
        &self,
        ctx: &Context,
        id: &str,
        secret: bool,
    ) -> Result<Option<Zeroizing<String>>, Error> {
        let invalid = |what: String| Error::new(Code::OptionInvalid, what);
        match self.0.get(id) {
            None => Ok(None),
            Some(Answer::Literal(_)) if secret => Err(invalid(format!(
                "the answer to `{id}` is a secret, but the file contains it as plain text"
            ))
            .hint("write `{env: NAME}` and set that environment variable")),
            Some(Answer::Literal(text)) => Ok(Some(Zeroizing::new(text.clone()))),
            Some(Answer::Variable(name)) => {
                let value = ctx.variable(name).map(|v| v.to_str().map(str::to_owned));
                match value {
                    Some(Some(text)) => Ok(Some(Zeroizing::new(text))),
                    Some(None) => Err(invalid(format!(
                        "the environment variable `{name}` is not valid UTF-8"
                    ))),
                    None => Err(invalid(format!(
                        "the environment variable `{name}` for the answer to `{id}` is not set"
                    ))),
                }
            }
        }
    }
}

fn answer(node: &Node) -> Option<Answer> {
    match &node.value {
        Value::Str(text) => Some(Answer::Literal(text.to_string())),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            Some(Answer::Literal(to_json(node).to_string()))
        }
        Value::Map(entries) if entries.len() == 1 => {
            let name = node.str_at(&["env"])?;
            Some(Answer::Variable(name.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_and_invalid_answers() {
        let good = Answers::parse("a.yaml", b"a: x\nb: true\nc: {env: C}\n".to_vec());
        let good = good.expect("answers");
        assert!(good.has("a") && good.has("b") && good.has("c"));
        assert_eq!(good.unknown(&["a", "b"]), Some("c"));
        for bad in ["- a", "a: [1]", "a: {file: x}", "a: {env: 1}", "a: 'x"] {
            let error = Answers::parse("a.yaml", bad.as_bytes().to_vec()).expect_err(bad);
            assert_eq!(error.code, Code::OptionInvalid);
        }
    }
}
