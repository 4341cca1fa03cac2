//! The 13 checks of §18.2, a file each, and what the text asks for beyond them.

mod c01_discoverable;
mod c02_typed;
mod c03_verifiable;
mod c04_declared;
mod c06_safe;
mod c07_idempotent;
mod c08_auditable;
mod c11_bounded;
mod c12_input;
mod c13_versioned;

use super::rules::Rule;
use super::session::Session;

/// The rules of every check.
pub const RULES: &[&[&Rule]] = &[
    c01_discoverable::RULES,
    c02_typed::RULES,
    c03_verifiable::RULES,
    c04_declared::RULES,
    c06_safe::RULES,
    c07_idempotent::RULES,
    c08_auditable::RULES,
    c11_bounded::RULES,
    c12_input::RULES,
    c13_versioned::RULES,
];

/// Runs all checks. Those that start the tool go side by side; those that look at every run come
/// last.
pub async fn all(session: &Session) {
    c01_discoverable::check(session).await;
    tokio::join!(
        c03_verifiable::check(session),
        c06_safe::check(session),
        c07_idempotent::check(session),
        c08_auditable::check(session),
        c11_bounded::check(session),
        c12_input::check(session),
        c13_versioned::check(session),
    );
    c02_typed::check(session);
    c04_declared::check(session);
    c13_versioned::reported(session);
}
