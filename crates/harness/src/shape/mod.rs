//! Shapes: what the agent may say with each method of ACP v1, from the types of the official
//! SDK, judged on the raw JSON. The types mend what they read; this does not.
//!
//! Why not the evaluator of the linter (`shape` in `agentproto-lint`): the two ask different
//! questions. The linter judges every subschema by itself, in the order of the schema, and
//! reports the keyword that failed with the rule that the schema names for it. Here everything
//! that applies to a value is collected first, through `$ref`, `allOf` and the variant that a
//! tag means: derived schemas leave objects open, so a key is unknown only if no part of the
//! schema has it, and it may be a known one in another case or one of a draft. Unions have no
//! mark and are decided by trial. The common part would be the reading of `$ref` and `type`;
//! an evaluator with both orders is longer than the two.
//!
//! The `jsonschema` crate is the oracle of the tests: whatever is sound here is sound there.

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
}

impl Shape {
    fn new(schema: Value) -> Shape {
        Shape {
            schema: tighten::tighten(schema),
        }
    }

    /// Everything that is wrong with a value; unknown keys are among it.
    pub fn judge(&self, value: &Value) -> Vec<Defect> {
        walk::walk(&self.schema, value)
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
