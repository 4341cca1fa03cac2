//! A preparation: what the first run does, and what the second run then tries.

pub type Steps = &'static [&'static [&'static str]];

/// How the runs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `agentproto sandbox run`.
    Sandbox,
    /// `agentproto run`.
    Run,
    /// `agentproto serve`.
    Serve,
}

impl Door {
    pub fn as_str(self) -> &'static str {
        match self {
            Door::Sandbox => "sandbox",
            Door::Run => "run",
            Door::Serve => "serve",
        }
    }
}

/// The manifest that declares the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A YAML file with a block of AIP-29.
    Plain,
    /// A CLI.md (AIP-29).
    Cli,
    /// A TOOL.md below a CLI.md.
    Tool,
    /// Only a SANDBOX.md (AIP-36).
    Sandbox,
    /// An AGENT-CLI.md with a SANDBOX.md (AIP-36).
    Agent36,
    /// An AGENT-CLI.md with a block of AIP-29.
    Agent29,
    /// Like `Agent36`, but the manifest has another name.
    Named,
}

impl Kind {
    pub fn manifest(self) -> &'static str {
        match self {
            Kind::Plain => "policy.yaml",
            Kind::Cli => "CLI.md",
            Kind::Tool => "TOOL.md",
            Kind::Sandbox => "SANDBOX.md",
            Kind::Agent36 | Kind::Agent29 => "AGENT-CLI.md",
            Kind::Named => "PROBE.md",
        }
    }
}

/// What happens after the first run.
#[derive(Clone, Copy, Debug)]
pub enum Second {
    /// A second run with these steps.
    Run(Steps),
    /// The host uses what the first run left: git, an editor, a shell. A file that holds the
    /// payload counts as executed.
    Host(Steps),
    /// The host reads this FIFO while the second run carries out the steps.
    Fifo(&'static str, Steps),
}

/// What must reach the victim without the protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The preparation without a sandbox, then the second run in its sandbox: what was planted
    /// decides that run.
    Door,
    /// Both without a sandbox: what was planted leads to the victim.
    Open,
    /// The attack has no victim, for this reason.
    None(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Preparation {
    pub name: &'static str,
    pub doors: &'static [Door],
    pub kind: Kind,
    /// The bundle directory, relative to the root of the world.
    pub bundle: &'static str,
    /// `$AGENTPROTO_HOME`, relative to the root of the world.
    pub state: &'static str,
    /// Additional entries of the block, or of `auth.state.paths`.
    pub read: &'static [&'static str],
    pub write: &'static [&'static str],
    pub deny: &'static [&'static str],
    pub state_paths: &'static [&'static str],
    /// The working directory is mounted at `/workspace` (AIP-36).
    pub mounted: bool,
    /// Steps of the host before the first run.
    pub setup: Steps,
    pub first: Steps,
    pub second: Second,
    pub control: Control,
    /// The target of the second run, if it is another one.
    pub target: Option<&'static str>,
    /// The workspace of the second session of a daemon.
    pub workspace: Option<&'static str>,
    /// The path that a refusal of the second run names.
    pub names: &'static str,
    /// The first run may be refused as well, because the tree itself is already refused.
    pub refused_at_once: bool,
    /// A sentence of docs/sandbox.md, if this is a limit of the protection.
    pub known: Option<&'static str>,
    /// This is not an attack, and both runs must work.
    pub works: bool,
}

/// Tries to read and to write the victim, and uses what the original policy grants.
pub const REACH: Steps = &[
    &["read", "open.txt"],
    &["reveal", "<victim>/key"],
    &["write", "<victim>/written", "x"],
];

/// Reads the variable of the host.
pub const VARIABLE: Steps = &[&["read", "open.txt"], &["env", "TWICE_SECRET"]];

impl Preparation {
    const BASE: Preparation = Preparation {
        name: "",
        doors: &[],
        kind: Kind::Plain,
        bundle: "work",
        state: "home",
        read: &[],
        write: &[],
        deny: &[],
        state_paths: &[],
        mounted: false,
        setup: &[],
        first: &[],
        second: Second::Run(REACH),
        control: Control::Door,
        target: None,
        workspace: None,
        names: "",
        refused_at_once: false,
        known: None,
        works: false,
    };

    /// A change of what decides the second run.
    pub const fn policy(
        name: &'static str,
        doors: &'static [Door],
        kind: Kind,
        bundle: &'static str,
        first: Steps,
    ) -> Self {
        Preparation {
            name,
            doors,
            kind,
            bundle,
            first,
            names: "<bundle>",
            ..Preparation::BASE
        }
    }

    /// A file that the host executes or obeys later. The bundle is out of reach.
    pub const fn host(
        name: &'static str,
        doors: &'static [Door],
        setup: Steps,
        first: Steps,
        then: Steps,
    ) -> Self {
        Preparation {
            name,
            doors,
            kind: Kind::Agent36,
            bundle: "adapters/bundle",
            setup,
            first,
            second: Second::Host(then),
            control: Control::Open,
            ..Preparation::BASE
        }
    }

    /// Two runs that must work.
    pub const fn works(
        name: &'static str,
        doors: &'static [Door],
        kind: Kind,
        first: Steps,
        second: Steps,
    ) -> Self {
        Preparation {
            name,
            doors,
            kind,
            bundle: "adapters/bundle",
            first,
            second: Second::Run(second),
            works: true,
            ..Preparation::BASE
        }
    }

    /// A link on the way to a grant. `names` is the link.
    pub const fn link(
        name: &'static str,
        doors: &'static [Door],
        kind: Kind,
        names: &'static str,
        first: Steps,
    ) -> Self {
        Preparation {
            name,
            doors,
            kind,
            bundle: "adapters/bundle",
            first,
            names,
            control: Control::Open,
            ..Preparation::BASE
        }
    }
}

/// Changes fields of a constant.
macro_rules! with {
    ($base:expr, $($field:ident: $value:expr),+ $(,)?) => {
        $crate::twice::preparation::Preparation { $($field: $value,)+ ..$base }
    };
}
pub(crate) use with;
