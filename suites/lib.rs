//! The conformance suites in this directory and the register of requirements, embedded as text.

#![deny(missing_docs)]

/// Name and YAML files of every built-in suite.
pub const SUITES: &[(&str, &[&str])] = &[
    (
        "acp",
        &[
            include_str!("acp/transport.yaml"),
            include_str!("acp/initialization.yaml"),
            include_str!("acp/authentication.yaml"),
            include_str!("acp/sessions.yaml"),
            include_str!("acp/session-store.yaml"),
            include_str!("acp/turns.yaml"),
            include_str!("acp/updates.yaml"),
            include_str!("acp/settings.yaml"),
            include_str!("acp/services.yaml"),
            include_str!("acp/extensibility.yaml"),
        ],
    ),
    ("acp-v2-draft", &[include_str!("acp-v2-draft.yaml")]),
    ("open-design", &[include_str!("open-design.yaml")]),
    ("lifecycle", &[include_str!("lifecycle.yaml")]),
    ("sessions", &[include_str!("sessions.yaml")]),
    (
        "mcp",
        &[
            include_str!("mcp/base.yaml"),
            include_str!("mcp/utilities.yaml"),
            include_str!("mcp/tools.yaml"),
            include_str!("mcp/client.yaml"),
        ],
    ),
];

/// The requirements of all specs with their stable ids, as tab-separated values.
const REGISTER: &str = include_str!("register.tsv");

/// Row of the register: one requirement of a spec.
pub struct Requirement {
    /// Stable id, for example `A46-HTTP-01`.
    pub id: &'static str,
    /// Name of the spec, for example `AIP-46`.
    pub spec: &'static str,
    /// Section of the spec.
    pub section: &'static str,
    /// `MUST`, `SHOULD` or `MAY`; `DEF` for a definition without such a keyword.
    pub level: &'static str,
    /// Whom the requirement binds, for example `manifest`, `runner` or `tool`.
    pub binds: &'static str,
    /// The requirement as a sentence.
    pub text: &'static str,
    /// What checks the requirement: `rule` (a lint rule that lists the id in `decides`),
    /// `rule:NAME` (a rule that only `doctor` runs), `case:SUITE`, `case:SUITE/ID`, `check:AOI-N`
    /// or `test:NAME`. `n/d` with a reason means that nothing checks it.
    pub decided_by: &'static str,
}

impl Requirement {
    /// Comma-separated parts of `decided_by`.
    pub fn deciders(&self) -> impl Iterator<Item = &'static str> {
        self.decided_by.split(", ")
    }

    /// `test:NAME` for each test target that `decided_by` names.
    pub fn tests(&self) -> impl Iterator<Item = String> {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        self.decided_by.split("test:").skip(1).map(move |rest| {
            let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
            format!("test:{name}")
        })
    }
}

/// Iterates over the rows of the register in file order.
pub fn register() -> impl Iterator<Item = Requirement> {
    REGISTER.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Requirement {
            id: fields.next()?,
            spec: fields.next()?,
            section: fields.next()?,
            level: fields.next()?,
            binds: fields.next()?,
            text: fields.next()?,
            decided_by: fields.next()?,
        })
    })
}

/// Names the requirements that a test proves, as the first statement of the test:
/// `proves!("A29-CMD-02", "A29-CMD-04");`. `tests/repository/proofs.rs` collects these lines into
/// `proofs.tsv`, which `agentproto coverage` counts.
#[macro_export]
macro_rules! proves {
    ($($id:literal),+ $(,)?) => {
        $crate::assert_registered(&[$($id),+])
    };
}

/// Panics if one of the ids is not in the register.
pub fn assert_registered(ids: &[&str]) {
    for id in ids {
        assert!(
            register().any(|requirement| requirement.id == *id),
            "{id} is not in suites/register.tsv"
        );
    }
}
