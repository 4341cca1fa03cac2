//! Statements beyond the 13 checks, as far as they can be decided from outside. They are told,
//! and bear on no pair of the matrix.

mod documents;
mod events;
mod rules;
mod surface;

use crate::rules::Rule;
use crate::session::Session;

pub const RULES: &[&Rule] = rules::ALL;

/// What takes runs of its own.
pub async fn check(session: &Session) {
    surface::check(session).await;
}

/// What shows in the runs of others, and in what the tool says of itself.
pub fn conclude(session: &Session) {
    events::conclude(session);
    documents::conclude(session);
}
