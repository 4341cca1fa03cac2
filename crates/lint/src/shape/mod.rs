//! The JSON Schemas of this project, judged on the spanned tree.
//!
//! Why not the `jsonschema` crate on the hot path: it judges JSON values, so every file
//! would be copied into one and every error searched back into the tree, and a failed
//! `oneOf` comes back as the errors of all its arms. Here the arm is chosen first, by its
//! discriminator or by type, and a violation carries the node itself. The crate is the
//! oracle of the tests: both must agree on every document.

mod compile;
mod equality;
mod evaluate;
mod json;
mod wording;

pub use compile::{SCHEMAS, Shapes, shapes_for};
pub(crate) use equality::{repeated_texts, repeats};
pub use evaluate::{Keyword, Violation, violations};
pub(crate) use wording::{dotted, draft, subject};
