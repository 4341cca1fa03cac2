//! The suites of this directory and the register of requirements, embedded.

/// Name and files of every suite.
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

/// Every statement of the specs with a stable id.
const REGISTER: &str = include_str!("register.tsv");

pub struct Statement {
    pub id: &'static str,
    pub spec: &'static str,
    pub section: &'static str,
    pub level: &'static str,
    pub binds: &'static str,
    pub text: &'static str,
    /// What decides it: `rule` (a rule of the linter, which names the statement in `decides`),
    /// `rule:NAME` (a rule that only `doctor` decides), `case:SUITE`, `case:SUITE/ID`, `test:NAME`;
    /// or `n/d` and why nothing does.
    pub proposed: &'static str,
}

impl Statement {
    /// The parts of the last column.
    pub fn deciders(&self) -> impl Iterator<Item = &'static str> {
        self.proposed.split(", ")
    }

    /// `test:NAME` for each target of tests that the register proposes.
    pub fn tests(&self) -> impl Iterator<Item = String> {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        self.proposed.split("test:").skip(1).map(move |rest| {
            let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
            format!("test:{name}")
        })
    }
}

pub fn register() -> impl Iterator<Item = Statement> {
    REGISTER.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Statement {
            id: fields.next()?,
            spec: fields.next()?,
            section: fields.next()?,
            level: fields.next()?,
            binds: fields.next()?,
            text: fields.next()?,
            proposed: fields.next()?,
        })
    })
}
