//! The suites that the binary carries.

use super::{Suite, parse_all};
use crate::fields::Mistake;

const SUITES: &[(&str, &[&str])] = &[
    ("acp", &[include_str!("../../../suites/acp/transport.yaml")]),
    (
        "lifecycle",
        &[include_str!("../../../suites/lifecycle.yaml")],
    ),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// A suite of ours; `None` where there is none of that name. Tests read them all.
pub fn built_in(name: &str) -> Option<Result<Suite, Vec<Mistake>>> {
    let (_, texts) = SUITES.iter().find(|(known, _)| *known == name)?;
    Some(parse_all(texts))
}
