//! Validates documents against the JSON Schemas of this project, on the tree with spans.
//!
//! The `jsonschema` crate is not used here for two reasons. It validates JSON values, so every
//! document would have to be converted and every error mapped back to the tree. And it reports a
//! failed `oneOf` as the errors of all its arms. Here the arm is chosen first, by its
//! discriminator or by type, and a violation refers to the node itself. The tests use that crate
//! as the reference: both must agree on every document.

mod compile;
mod equality;
mod evaluate;
mod json;
mod wording;

pub use compile::{SCHEMAS, Shapes, shapes_for};
pub(crate) use equality::{duplicate_texts, duplicates};
pub use evaluate::{Keyword, SchemaViolation, violations};
pub(crate) use wording::{dotted, draft, subject, type_with_article};
