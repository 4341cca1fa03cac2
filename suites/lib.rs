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
            include_str!("acp/permissions.yaml"),
            include_str!("acp/tools.yaml"),
            include_str!("acp/continuation.yaml"),
            include_str!("acp/robustness.yaml"),
        ],
    ),
    (
        "acp-v2-draft",
        &[
            include_str!("acp-v2-draft.yaml"),
            include_str!("acp-v2-draft/opening.yaml"),
            include_str!("acp-v2-draft/sessions.yaml"),
            include_str!("acp-v2-draft/prompts.yaml"),
            include_str!("acp-v2-draft/messages.yaml"),
        ],
    ),
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

/// Defects of real ACP agents from public issue trackers, and what finds them (`acp-defects.tsv`).
pub const ACP_DEFECTS: &str = include_str!("acp-defects.tsv");

/// Name and YAML text of every recipe of a known agent, sorted by name.
pub const RECIPES: &[(&str, &str)] = &[
    ("auggie", include_str!("recipes/auggie.yaml")),
    (
        "claude-agent-acp",
        include_str!("recipes/claude-agent-acp.yaml"),
    ),
    (
        "claude-code-acp",
        include_str!("recipes/claude-code-acp.yaml"),
    ),
    ("cline", include_str!("recipes/cline.yaml")),
    ("code-puppy", include_str!("recipes/code-puppy.yaml")),
    ("codex-acp", include_str!("recipes/codex-acp.yaml")),
    ("codex-acp-zed", include_str!("recipes/codex-acp-zed.yaml")),
    ("copilot", include_str!("recipes/copilot.yaml")),
    ("crow-cli", include_str!("recipes/crow-cli.yaml")),
    (
        "deepagents-acp",
        include_str!("recipes/deepagents-acp.yaml"),
    ),
    ("droid", include_str!("recipes/droid.yaml")),
    ("fast-agent", include_str!("recipes/fast-agent.yaml")),
    (
        "fast-agent-model",
        include_str!("recipes/fast-agent-model.yaml"),
    ),
    ("gemini-cli", include_str!("recipes/gemini-cli.yaml")),
    ("goose", include_str!("recipes/goose.yaml")),
    ("gptme", include_str!("recipes/gptme.yaml")),
    ("grok", include_str!("recipes/grok.yaml")),
    ("hermes-agent", include_str!("recipes/hermes-agent.yaml")),
    ("isaac-acp", include_str!("recipes/isaac-acp.yaml")),
    ("kilo", include_str!("recipes/kilo.yaml")),
    ("kimi-code", include_str!("recipes/kimi-code.yaml")),
    ("mistral-vibe", include_str!("recipes/mistral-vibe.yaml")),
    ("nanocoder", include_str!("recipes/nanocoder.yaml")),
    ("opencode", include_str!("recipes/opencode.yaml")),
    ("pi-acp", include_str!("recipes/pi-acp.yaml")),
    ("python-echo", include_str!("recipes/python-echo.yaml")),
    (
        "python-example",
        include_str!("recipes/python-example.yaml"),
    ),
    ("qwen-code", include_str!("recipes/qwen-code.yaml")),
    (
        "typescript-sdk",
        include_str!("recipes/typescript-sdk.yaml"),
    ),
];

/// The requirements of all specs with their stable ids, as tab-separated values.
const REGISTER: &str = include_str!("register.tsv");

/// What proves each requirement, as tab-separated values. `tests/repository/proofs.rs` writes it.
const PROOFS: &str = include_str!("proofs.tsv");

/// The requirements of acp-tck, the official conformance kit of ACP, and our requirements that
/// decide them, as tab-separated values.
const TCK: &str = include_str!("tck.tsv");

/// Row of `tck.tsv`: a requirement of the official kit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TckRequirement {
    /// `v1` or `v2`.
    pub protocol: &'static str,
    /// Its id in the kit, for example `ACP-INIT-001`.
    pub id: &'static str,
    /// `MANDATORY`, `CAPABILITY`, `ADVISORY` or `INFORMATIONAL`.
    pub tier: &'static str,
    /// What it demands, in our words.
    pub what: &'static str,
    /// Ids of our requirements that decide it, separated by spaces.
    pub decided_by: &'static str,
    /// How the kit and our suite compare: `same`, `level`, `stricter`, `partial`, `differs`,
    /// `contrary`, `obsolete` or `missing`.
    pub agreement: &'static str,
    /// The reason, if they do not agree.
    pub note: &'static str,
}

impl TckRequirement {
    /// Name of our suite that decides it.
    pub fn suite(&self) -> &'static str {
        match self.protocol {
            "v2" => "acp-v2-draft",
            _ => "acp",
        }
    }

    /// Ids of our requirements that decide it.
    pub fn ours(&self) -> impl Iterator<Item = &'static str> {
        self.decided_by.split_whitespace()
    }
}

/// Iterates over the requirements of the official kit in file order.
pub fn tck() -> impl Iterator<Item = TckRequirement> {
    TCK.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some(TckRequirement {
            protocol: fields.next()?,
            id: fields.next()?,
            tier: fields.next()?,
            what: fields.next()?,
            decided_by: fields.next()?,
            agreement: fields.next()?,
            note: fields.next()?,
        })
    })
}

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
    /// What should check the requirement: `rule` (a lint rule that lists the id in `decides`),
    /// `rule:NAME` (a rule that only `doctor` runs), `case:SUITE`, `case:SUITE/ID`, `check:AOI-N`
    /// or `test:NAME`. `n/d (REASON)` means that nothing can. This is a plan: [`proofs`] lists what
    /// really proves it.
    pub decided_by: &'static str,
}

impl Requirement {
    /// Comma-separated parts of `decided_by`.
    pub fn deciders(&self) -> impl Iterator<Item = &'static str> {
        self.decided_by.split(", ")
    }

    /// The reason why nothing can prove the requirement: `n/d (REASON)` at the end of
    /// `decided_by`, alone or after a comma.
    pub fn reason(&self) -> Option<&'static str> {
        let start = match self.decided_by.starts_with("n/d") {
            true => 0,
            false => self.decided_by.find(", n/d (")? + 2,
        };
        let reason = self.decided_by[start..].trim_start_matches("n/d").trim();
        let inner = reason.strip_prefix('(').and_then(|r| r.strip_suffix(')'));
        Some(inner.unwrap_or(reason))
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

/// Row of `proofs.tsv`: a requirement, and something that fails if nothing checks it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Proof {
    /// Id of the requirement, in the register or in a suite.
    pub id: &'static str,
    /// `rule`, `check`, `case`, `monitor` or `test`.
    pub kind: &'static str,
    /// Slug of a lint rule, id of an AOI rule, `SUITE/ID`, or `FILE::TEST`.
    pub proof: &'static str,
}

/// Iterates over the proofs in file order.
pub fn proofs() -> impl Iterator<Item = Proof> {
    PROOFS.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Proof {
            id: fields.next()?,
            kind: fields.next()?,
            proof: fields.next()?,
        })
    })
}

/// Whether a proof of this kind can prove a requirement that binds `binds`. A rule reads only
/// manifests, an AOI check runs a tool, and a case observes an agent or a host. None of them
/// observes what our own runner or client does, so only a test can prove those requirements.
pub fn can_prove(kind: &str, proof: &str, binds: &str) -> bool {
    match (kind, binds) {
        ("test", _) => true,
        ("rule", "manifest" | "linter") => true,
        // `aoi-lint` is the consumer of the streams that it checks.
        ("check", "tool" | "linter" | "consumer/client") => true,
        // The suite `sessions` observes hosts, and all the others observe agents.
        ("case" | "monitor", "host/daemon") => proof.starts_with("sessions/"),
        ("case" | "monitor", "agent" | "manifest" | "tool") => !proof.starts_with("sessions/"),
        _ => false,
    }
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
