//! The suites that the binary carries.

use super::{Suite, parse_all};
use agentproto_manifest::fields::Mistake;
use agentproto_suites::SUITES;

pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// A suite of ours; `None` where there is none of that name. Tests read them all.
pub fn built_in(name: &str) -> Option<Result<Suite, Vec<Mistake>>> {
    let (_, texts) = SUITES.iter().find(|(known, _)| *known == name)?;
    Some(parse_all(texts))
}

/// Whether these words stand in any suite of ours.
pub fn says(words: &str) -> bool {
    let mut texts = SUITES.iter().flat_map(|(_, texts)| texts.iter());
    texts.any(|text| text.contains(words))
}
