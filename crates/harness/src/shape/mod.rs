//! Shapes: what the agent may say with each method of ACP v1, from the types of the official
//! SDK, judged on the raw JSON. The types mend what they read; this does not.
//!
//! Why not the evaluator of the linter (`shape` in `agentproto-lint`): the two ask different
//! questions. The linter judges every subschema by itself, in the order of the schema, and
//! reports the keyword that failed with the rule that the schema names for it. Here everything
//! that applies to a value is collected first, through `$ref`, `allOf` and the variant that a
//! tag means: derived schemas leave objects open, so a key is unknown only if no part of the
//! schema has it, and it may be a known one in another case or one of a draft. Unions have no
//! mark and are decided by their tags, or by trial. The common part would be the reading of
//! `$ref` and `type`; an evaluator with both orders is longer than the two.
//!
//! The walk passes over some keywords (the one value of `requestedSchema.type`, for example);
//! for those the `jsonschema` crate is asked where the walk finds nothing wrong.

mod defect;
mod methods;
mod tighten;
mod walk;

use std::sync::OnceLock;

use serde_json::Value;

pub use defect::{Defect, Fault};
pub use methods::{Side, is_draft, side};

/// What one method says, as a JSON Schema.
pub struct Shape {
    schema: Value,
    /// The second opinion: where the walk finds nothing wrong and this does.
    validator: Option<jsonschema::Validator>,
}

impl Shape {
    fn new(schema: Value) -> Shape {
        let schema = tighten::tighten(schema);
        let validator = jsonschema::validator_for(&schema).ok();
        Shape { schema, validator }
    }

    /// Everything that is wrong with a value; unknown keys are among it.
    pub fn judge(&self, value: &Value) -> Vec<Defect> {
        let mut defects = walk::walk(&self.schema, value);
        let sound = defects.iter().all(Defect::is_about_a_name);
        if sound
            && let Some(validator) = &self.validator
            && !validator.is_valid(value)
            && let Some(error) = validator.iter_errors(value).next()
        {
            defects.push(Defect {
                at: error.instance_path().as_str().to_owned(),
                fault: Fault::Schema(error.to_string()),
            });
        }
        defects
    }
}

/// What an agent says with a method: the result of a request to it, the parameters of a call
/// of its own. `None` for methods that the protocol does not have, or not yet for good.
pub fn of(method: &str) -> Option<&'static Shape> {
    static SHAPES: [OnceLock<Shape>; methods::COUNT] = [const { OnceLock::new() }; methods::COUNT];
    let (place, make) = methods::said(method)?;
    let slot = SHAPES.get(place)?;
    Some(slot.get_or_init(|| Shape::new(make().to_value())))
}

#[cfg(test)]
mod tests;
