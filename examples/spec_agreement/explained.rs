//! Intended differences between the linter and the published schemas. The names are those of the
//! contradictions in docs/rules.md, and each text says which side the linter takes.

use agentproto_manifest::Doctype;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The schema rejects what the linter accepts or only warns about.
    SchemaOnly,
    /// The linter rejects what the schema accepts.
    OursOnly,
}

pub struct Explained {
    pub side: Side,
    pub doctype: Doctype,
    /// A pointer for `SchemaOnly` (`/a/*` means everything below `/a`), or a rule for `OursOnly`.
    pub what: &'static str,
    pub why: (&'static str, &'static str),
}

pub const EXPLAINED: &[Explained] = &[
    Explained {
        side: Side::SchemaOnly,
        doctype: Doctype::Tool,
        what: "/runner",
        why: (
            "C1",
            "AIP-29 puts `cli` and `argv` into the TOOL.md of a bundle, but the schema of AIP-14 \
             allows no other keys. A tool that a CLI.md names may have them.",
        ),
    },
    Explained {
        side: Side::SchemaOnly,
        doctype: Doctype::Cli,
        what: "/intents",
        why: (
            "C2",
            "the prose and examples of AIP-29 say `intents`, its schema says `actions`. Both are \
             accepted, and `intents` is a warning.",
        ),
    },
    Explained {
        side: Side::SchemaOnly,
        doctype: Doctype::Runner,
        what: "/limits/*",
        why: (
            "AIP-17",
            "the text of `runner.limits` lets hosts add limits, but its schema allows no other \
             keys. Unknown limits are a warning.",
        ),
    },
];
