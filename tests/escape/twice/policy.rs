//! Preparations that change what decides the next run: the policy, the manifests, the program.

use super::preparation::{Control, Door, Kind, Preparation, Second, Steps, VARIABLE, with};
use Door::{Run as R, Sandbox as S, Serve as V};

/// Reads the changed file as the host does. It holds the payload if it was changed.
macro_rules! host_reads {
    ($path:expr) => {
        Second::Host(&[&["read", $path]])
    };
}

pub const PREPARATIONS: &[Preparation] = &[
    // The file that holds the policy.
    Preparation::policy(
        "policy file: rewrite in place",
        &[S],
        Kind::Plain,
        "work",
        &[&["write", "<manifest>", "<wide>"]],
    ),
    Preparation::policy(
        "policy file: rename over it",
        &[S],
        Kind::Plain,
        "work",
        &[
            &["write", "new", "<wide>"],
            &["rename", "new", "<manifest>"],
        ],
    ),
    Preparation::policy(
        "policy file: unlink and create",
        &[S],
        Kind::Plain,
        "work",
        &[
            &["unlink", "<manifest>"],
            &["write", "<manifest>", "<wide>"],
        ],
    ),
    Preparation::policy(
        "policy file: exchange with another",
        &[S],
        Kind::Plain,
        "work",
        &[
            &["write", "new", "<wide>"],
            &["exchange", "new", "<manifest>"],
        ],
    ),
    Preparation::policy(
        "policy file: write through a hard link",
        &[S],
        Kind::Plain,
        "work",
        &[
            &["link", "<manifest>", "alias"],
            &["write", "alias", "<wide>"],
        ],
    ),
    // The other name exists before the first run.
    with!(
        Preparation::policy(
            "policy file: write through an earlier hard link",
            &[S],
            Kind::Plain,
            "work",
            &[&["write", "alias", "<wide>"]],
        ),
        setup: &[&["link", "<manifest>", "alias"]],
        names: "<manifest>",
        refused_at_once: true,
    ),
    Preparation::policy(
        "policy file: replace by a link",
        &[S],
        Kind::Plain,
        "work",
        &[
            &["write", "new.yaml", "<wide>"],
            &["unlink", "<manifest>"],
            &["symlink", "new.yaml", "<manifest>"],
        ],
    ),
    Preparation::policy(
        "policy file: rename its directory",
        &[S],
        Kind::Plain,
        "work/conf",
        &[
            &["rename", "conf", "old"],
            &["mkdir", "conf"],
            &["write", "conf/policy.yaml", "<wide>"],
        ],
    ),
    // The policy is outside the working directory, and the policy grants its directory.
    with!(
        Preparation::policy(
            "policy file: rewrite it in another grant",
            &[S],
            Kind::Plain,
            "other/conf",
            &[&["write", "<manifest>", "<wide>"]],
        ),
        write: &["<root>/other/**"],
    ),
    with!(
        Preparation::policy(
            "policy file: replace by a FIFO",
            &[S],
            Kind::Plain,
            "work",
            &[&["unlink", "<manifest>"], &["fifo", "<manifest>"]],
        ),
        control: Control::None("the second run must not wait for it"),
    ),
    // A bundle with an AIP-29 block.
    Preparation::policy(
        "CLI.md: rewrite in place",
        &[S],
        Kind::Cli,
        "work/bundle",
        &[&["write", "<manifest>", "<wide>"]],
    ),
    Preparation::policy(
        "CLI.md: unlink and create",
        &[S],
        Kind::Cli,
        "work",
        &[
            &["unlink", "<manifest>"],
            &["write", "<manifest>", "<wide>"],
        ],
    ),
    Preparation::policy(
        "CLI.md: rename the bundle directory",
        &[S],
        Kind::Cli,
        "work/bundle",
        &[
            &["rename", "bundle", "old"],
            &["mkdir", "bundle"],
            &["write", "bundle/CLI.md", "<wide>"],
        ],
    ),
    Preparation::policy(
        "CLI.md: rename the parent of the bundle",
        &[S],
        Kind::Cli,
        "work/pack/bundle",
        &[
            &["rename", "pack", "old"],
            &["mkdir", "pack/bundle"],
            &["write", "pack/bundle/CLI.md", "<wide>"],
        ],
    ),
    Preparation::policy(
        "CLI.md: replace the bundle by a link",
        &[S],
        Kind::Cli,
        "work/bundle",
        &[
            &["rename", "bundle", "old"],
            &["mkdir", "new"],
            &["write", "new/CLI.md", "<wide>"],
            &["symlink", "new", "bundle"],
        ],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-29: rewrite in place",
        &[S, R, V],
        Kind::Agent29,
        "work",
        &[&["write", "<manifest>", "<wide>"]],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-29: rename over it",
        &[S, R, V],
        Kind::Agent29,
        "work/bundle",
        &[
            &["write", "new", "<wide>"],
            &["rename", "new", "<manifest>"],
        ],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-29: rename the bundle",
        &[S, R, V],
        Kind::Agent29,
        "work/bundle",
        &[
            &["rename", "bundle", "old"],
            &["mkdir", "bundle"],
            &["copy", "old/ACP.md", "bundle/ACP.md"],
            &["write", "bundle/AGENT-CLI.md", "<wide>"],
        ],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-29: file service",
        &[R, V],
        Kind::Agent29,
        "work",
        &[&["acp_write", "<manifest>", "<wide>"]],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-29: service, hard link",
        &[R],
        Kind::Agent29,
        "work/bundle",
        &[
            &["link", "<manifest>", "alias"],
            &["acp_write", "alias", "<wide>"],
        ],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-36: rewrite in place",
        &[S, R, V],
        Kind::Agent36,
        "work",
        &[&["write", "<manifest>", "<wide agent>"]],
    ),
    Preparation::policy(
        "AGENT-CLI.md with AIP-36: rename its parent",
        &[R],
        Kind::Agent36,
        "work/pack/bundle",
        &[
            &["rename", "pack", "old"],
            &["mkdir", "pack/bundle"],
            &["copy", "old/bundle/ACP.md", "pack/bundle/ACP.md"],
            &["write", "pack/bundle/AGENT-CLI.md", "<wide agent>"],
        ],
    ),
    with!(
        Preparation::policy(
            "SANDBOX.md: rewrite in place",
            &[S, R, V],
            Kind::Agent36,
            "work",
            &[&["write", "<bundle>/SANDBOX.md", "<wide sandbox>"]],
        ),
        second: Second::Run(VARIABLE),
    ),
    with!(
        Preparation::policy(
            "SANDBOX.md: file service",
            &[R, V],
            Kind::Agent36,
            "work",
            &[&["acp_write", "<bundle>/SANDBOX.md", "<wide sandbox>"]],
        ),
        second: Second::Run(VARIABLE),
    ),
    with!(
        Preparation::policy(
            "SANDBOX.md: replace by a link",
            &[S, R],
            Kind::Agent36,
            "work",
            &[
                &["write", "new.md", "<wide sandbox>"],
                &["unlink", "<bundle>/SANDBOX.md"],
                &["symlink", "new.md", "<bundle>/SANDBOX.md"],
            ],
        ),
        second: Second::Run(VARIABLE),
    ),
    // The workspace has another path inside.
    with!(
        Preparation::policy(
            "AGENT-CLI.md below a mount: rewrite",
            &[S, R, V],
            Kind::Agent36,
            "work",
            &[&["write", "AGENT-CLI.md", "<wide agent>"]],
        ),
        mounted: true,
    ),
    with!(
        Preparation::policy(
            "AGENT-CLI.md below a mount: file service",
            &[R, V],
            Kind::Agent36,
            "work/bundle",
            &[&["acp_write", "bundle/AGENT-CLI.md", "<wide agent>"]],
        ),
        mounted: true,
    ),
    // Names that are preferred over the manifest.
    Preparation::policy(
        "names: AGENT-CLI.md beside a SANDBOX.md",
        &[S],
        Kind::Sandbox,
        "work",
        &[&["write", "AGENT-CLI.md", "<wide agent>"]],
    ),
    Preparation::policy(
        "names: CLI.md beside a SANDBOX.md",
        &[S],
        Kind::Sandbox,
        "work",
        &[&["write", "CLI.md", "<wide cli>"]],
    ),
    Preparation::policy(
        "names: AGENT-CLI.md beside a CLI.md",
        &[S],
        Kind::Cli,
        "work/bundle",
        &[&["write", "bundle/AGENT-CLI.md", "<wide agent>"]],
    ),
    Preparation::policy(
        "names: rename a file to AGENT-CLI.md",
        &[S],
        Kind::Cli,
        "work",
        &[
            &["write", "new", "<wide agent>"],
            &["rename", "new", "AGENT-CLI.md"],
        ],
    ),
    Preparation::policy(
        "names: a link AGENT-CLI.md beside a CLI.md",
        &[S],
        Kind::Cli,
        "work",
        &[
            &["write", "new.md", "<wide agent>"],
            &["symlink", "new.md", "AGENT-CLI.md"],
        ],
    ),
    Preparation::policy(
        "names: AGENT-CLI.md beside another name",
        &[R, V],
        Kind::Named,
        "work",
        &[&["write", "AGENT-CLI.md", "<wide agent>"]],
    ),
    Preparation::policy(
        "names: file service, beside another name",
        &[R, V],
        Kind::Named,
        "work",
        &[&["acp_write", "AGENT-CLI.md", "<wide agent>"]],
    ),
    // The policy of a tool.
    Preparation::policy(
        "TOOL.md: refer to another CLI.md",
        &[S],
        Kind::Tool,
        "work/bundle/tool",
        &[
            &["mkdir", "evil"],
            &["write", "evil/CLI.md", "<wide cli>"],
            &[
                "write",
                "<manifest>",
                "---\nname: probe\nid: probe\ndescription: A tool.\nversion: 1.0.0\nrunner: {cli: ../../evil/CLI.md}\n---\n",
            ],
        ],
    ),
    Preparation::policy(
        "TOOL.md: rewrite the CLI.md above",
        &[S],
        Kind::Tool,
        "work/bundle/tool",
        &[&["write", "bundle/CLI.md", "<wide cli>"]],
    ),
    Preparation::policy(
        "TOOL.md: plant a nearer CLI.md",
        &[S],
        Kind::Tool,
        "work/bundle/tool",
        &[&["write", "bundle/tool/CLI.md", "<wide cli>"]],
    ),
    // Other files that decide the next run.
    with!(
        Preparation::policy(
            "SECRETS.md: rewrite",
            &[S, R],
            Kind::Agent36,
            "work",
            &[&["write", "SECRETS.md", "<payload>"]],
        ),
        setup: &[&["write", "SECRETS.md", "---\nname: x\n---\n"]],
        second: host_reads!("SECRETS.md"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "RUNNER.md: file service",
            &[R, V],
            Kind::Agent36,
            "work",
            &[&["acp_write", "RUNNER.md", "<payload>"]],
        ),
        setup: &[&["write", "RUNNER.md", "---\nname: x\n---\n"]],
        second: host_reads!("RUNNER.md"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "OPERATOR.md: rename over it",
            &[R, V],
            Kind::Agent29,
            "work",
            &[&["write", "new", "<payload>"], &["rename", "new", "OPERATOR.md"]],
        ),
        setup: &[&["write", "OPERATOR.md", "---\nname: x\n---\n"]],
        second: host_reads!("OPERATOR.md"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "ACP.md: rewrite",
            &[R],
            Kind::Agent29,
            "work",
            &[&["write", "ACP.md", "<payload>"]],
        ),
        second: host_reads!("ACP.md"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "agentproto.toml: rewrite",
            &[S, R],
            Kind::Agent36,
            "adapters/bundle",
            &[&["write", "agentproto.toml", "# <payload>"]],
        ),
        setup: &[&["write", "agentproto.toml", ""]],
        second: host_reads!("agentproto.toml"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "agentproto.toml: plant",
            &[S, R, V],
            Kind::Agent36,
            "adapters/bundle",
            &[&["write", "agentproto.toml", "# <payload>"]],
        ),
        second: host_reads!("agentproto.toml"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "agentproto.toml: file service",
            &[R, V],
            Kind::Agent36,
            "adapters/bundle",
            &[&["acp_write", "agentproto.toml", "# <payload>"]],
        ),
        second: host_reads!("agentproto.toml"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "agentproto.toml: plant above a bundle",
            &[S],
            Kind::Cli,
            "work/pack/bundle",
            &[&["write", "agentproto.toml", "# <payload>"]],
        ),
        second: host_reads!("agentproto.toml"),
        control: Control::Open,
    ),
    // The program of the agent.
    with!(
        Preparation::policy(
            "vendored program: rename over it",
            &[R, V],
            Kind::Agent36,
            "work",
            &[
                &["write", "new", "<hook>"],
                &["chmod", "new", "755"],
                &["rename", "new", "bin/vendored"],
            ],
        ),
        setup: VENDORED,
        second: host_reads!("bin/vendored"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "vendored program: rename its directory",
            &[R],
            Kind::Agent29,
            "work",
            &[
                &["rename", "bin", "old"],
                &["mkdir", "bin"],
                &["write", "bin/vendored", "<hook>"],
            ],
        ),
        setup: VENDORED,
        second: host_reads!("bin/vendored"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "script of the agent: rewrite",
            &[R, V],
            Kind::Agent36,
            "work",
            &[&["write", "bin/vendored", "<hook>"]],
        ),
        setup: &[
            &["mkdir", "bin"],
            &["write", "bin/vendored", "#!<probe> agent\n"],
            &["chmod", "bin/vendored", "755"],
            INSTALL,
            BIN,
        ],
        second: host_reads!("bin/vendored"),
        control: Control::Open,
    ),
    with!(
        Preparation::policy(
            "interpreter of the agent: rename over it",
            &[R],
            Kind::Agent36,
            "work",
            &[&["write", "new", "<hook>"], &["rename", "new", "bin/interpreter"]],
        ),
        setup: &[
            &["mkdir", "bin"],
            &["copy", "<probe>", "bin/interpreter"],
            &["write", "bin/vendored", "#!<work>/bin/interpreter agent\n"],
            &["chmod", "bin/vendored", "755"],
            INSTALL,
            BIN,
        ],
        second: host_reads!("bin/interpreter"),
        control: Control::Open,
    ),
];

/// A program in the bundle that the manifest installs.
const VENDORED: Steps = &[
    &["mkdir", "bin"],
    &["copy", "<probe>", "bin/vendored"],
    INSTALL,
    BIN,
];
const INSTALL: &[&str] = &[
    "replace",
    "AGENT-CLI.md",
    "protocol: acp",
    "install: [{method: vendored, path: bin/vendored}]\nprotocol: acp",
];
const BIN: &[&str] = &[
    "replace",
    "AGENT-CLI.md",
    "bin: escape_probe",
    "bin: vendored",
];
