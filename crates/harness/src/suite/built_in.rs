//! The suites that are embedded in the binary.

use super::{Suite, parse_all};
use agentproto_manifest::fields::FieldError;
use agentproto_suites::SUITES;

/// Names of the built-in suites.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// A built-in suite. `None` if no suite has this name. Tests parse all of them.
pub fn built_in(name: &str) -> Option<Result<Suite, Vec<FieldError>>> {
    let (_, texts) = SUITES.iter().find(|(known, _)| *known == name)?;
    Some(parse_all(texts))
}

/// Whether any built-in suite contains this text.
pub fn any_contains(words: &str) -> bool {
    let mut texts = SUITES.iter().flat_map(|(_, texts)| texts.iter());
    texts.any(|text| text.contains(words))
}
