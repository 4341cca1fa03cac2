//! Shapes: the structure of what the agent sends with each method of ACP v1. The schemas are
//! derived from the types of the official SDK and checked against the raw JSON, because the types
//! accept and repair invalid values.
//!
//! This is a separate evaluator from that of the linter (`shape` in `agentproto-lint`), because the
//! two answer different questions. The linter checks every subschema on its own, in schema order,
//! and reports the failed keyword with the rule that the schema names for it. Here, everything that
//! applies to a value is collected first, through `$ref`, `allOf` and the variant that a tag
//! selects. Derived schemas leave objects open, so a key is unknown only if no part of the schema
//! has it. It may also be a known key in a different case, or a key of a draft. Unions have no
//! marker and are decided by their tags, or by trial. The two could share only the handling of
//! `$ref` and `type`, and a combined evaluator would be longer than both.
//!
//! The walk ignores some keywords, such as the single value of `requestedSchema.type`. If the walk
//! finds no error, the `jsonschema` crate checks the value again.

pub mod draft;
mod error;
mod methods;
mod tighten;
mod walk;

use std::sync::OnceLock;

use serde_json::Value;

pub use error::{ShapeError, ShapeErrorKind};
pub use methods::{FORMER_AUTH_TYPES, Side, is_draft, side};

/// The JSON Schema of what an agent sends with one method.
pub struct Shape {
    schema: Value,
    /// Second check, used if the walk finds no error.
    validator: Option<jsonschema::Validator>,
}

impl Shape {
    fn new(schema: Value) -> Shape {
        let schema = tighten::tighten(schema);
        let validator = jsonschema::validator_for(&schema).ok();
        Shape { schema, validator }
    }

    /// Everything that is wrong with a value, including unknown keys.
    pub fn check(&self, value: &Value) -> Vec<ShapeError> {
        let mut errors = walk::walk(&self.schema, value);
        let sound = errors.iter().all(ShapeError::is_about_a_name);
        if sound
            && let Some(validator) = &self.validator
            && !validator.is_valid(value)
            && let Some(error) = validator.iter_errors(value).next()
        {
            errors.push(ShapeError {
                at: error.instance_path().as_str().to_owned(),
                kind: ShapeErrorKind::Schema(error.to_string()),
            });
        }
        errors
    }
}

/// The shape of what an agent sends with a method: the result of a request to it, or the params of
/// its own call. `None` for methods that are not in the protocol, or only in a draft.
pub fn of(method: &str) -> Option<&'static Shape> {
    static SHAPES: [OnceLock<Shape>; methods::COUNT] = [const { OnceLock::new() }; methods::COUNT];
    let (place, make) = methods::agent_params(method)?;
    let slot = SHAPES.get(place)?;
    Some(slot.get_or_init(|| Shape::new(make().to_value())))
}

#[cfg(test)]
mod tests;
