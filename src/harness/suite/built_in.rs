//! The suites that the binary carries.

use super::{Suite, parse_all};
use crate::fields::Mistake;

const SUITES: &[(&str, &[&str])] = &[
    (
        "acp",
        &[
            include_str!("../../../suites/acp/transport.yaml"),
            include_str!("../../../suites/acp/initialization.yaml"),
            include_str!("../../../suites/acp/authentication.yaml"),
            include_str!("../../../suites/acp/sessions.yaml"),
            include_str!("../../../suites/acp/session-store.yaml"),
            include_str!("../../../suites/acp/turns.yaml"),
            include_str!("../../../suites/acp/updates.yaml"),
            include_str!("../../../suites/acp/settings.yaml"),
            include_str!("../../../suites/acp/services.yaml"),
            include_str!("../../../suites/acp/extensibility.yaml"),
        ],
    ),
    (
        "acp-v2-draft",
        &[include_str!("../../../suites/acp-v2-draft.yaml")],
    ),
    (
        "open-design",
        &[include_str!("../../../suites/open-design.yaml")],
    ),
    (
        "lifecycle",
        &[include_str!("../../../suites/lifecycle.yaml")],
    ),
    ("sessions", &[include_str!("../../../suites/sessions.yaml")]),
    (
        "mcp",
        &[
            include_str!("../../../suites/mcp/base.yaml"),
            include_str!("../../../suites/mcp/utilities.yaml"),
            include_str!("../../../suites/mcp/tools.yaml"),
            include_str!("../../../suites/mcp/client.yaml"),
        ],
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

/// Whether these words stand in any suite of ours.
pub fn says(words: &str) -> bool {
    let mut texts = SUITES.iter().flat_map(|(_, texts)| texts.iter());
    texts.any(|text| text.contains(words))
}
