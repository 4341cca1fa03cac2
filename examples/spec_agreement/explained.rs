//! Where the linter and the published schemas differ on purpose. The names are those of the
//! list of contradictions in the specs; each says which side the linter takes.

use agentproto_manifest::Doctype;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The schema refuses what the linter lets pass, or only warns of.
    SchemaOnly,
    /// The linter refuses what the schema lets pass.
    OursOnly,
}

pub struct Explained {
    pub side: Side,
    pub doctype: Doctype,
    /// A pointer for `SchemaOnly` (`/a/*` for all below `/a`), a rule for `OursOnly`.
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
            "AIP-29 puts `cli` and `argv` into the TOOL.md of a bundle; the schema of AIP-14 is \
             closed. A tool that a CLI.md names may have them.",
        ),
    },
    Explained {
        side: Side::SchemaOnly,
        doctype: Doctype::Cli,
        what: "/intents",
        why: (
            "C2",
            "the prose and examples of AIP-29 say `intents`, its schema `actions`. Both are read; \
             `intents` is a warning.",
        ),
    },
    Explained {
        side: Side::SchemaOnly,
        doctype: Doctype::Runner,
        what: "/limits/*",
        why: (
            "AIP-17",
            "hosts may add limits of their own by the text of `runner.limits`; its schema is \
             closed. Unknown limits are a warning.",
        ),
    },
];
