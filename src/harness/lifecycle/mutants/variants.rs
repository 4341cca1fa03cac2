//! Bundles that conform.

use super::{Made, Variant};

pub static VARIANTS: &[Variant] = &[
    Variant {
        id: "mock-acp",
        what: "The ACP mock as it is.",
        bundle: Made::of("mock-acp", &[]),
    },
    Variant {
        id: "mock-mcp",
        what: "The MCP mock as it is.",
        bundle: Made::of("mock-mcp", &[]),
    },
    Variant {
        id: "mock-repl",
        what: "The mock that prints stream-json, one process for each turn.",
        bundle: Made::of("mock-repl", &[]),
    },
    Variant {
        id: "script",
        what: "The agent behind a script that becomes it.",
        bundle: Made::script(&[]),
    },
    Variant {
        id: "script-around",
        what: "The agent behind a script that stays around it.",
        bundle: Made::script(&[(
            "agent.sh",
            r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#,
            r#""$here/agentproto" mock acp --state .mock-agent -- "$@""#,
        )]),
    },
    Variant {
        id: "shell-adapter",
        what: "An executable adapter in shell.",
        bundle: Made::adapter(&[]),
    },
    Variant {
        id: "secret",
        what: "A login by a variable.",
        bundle: Made::of(
            "mock-acp",
            &[(
                "AGENT-CLI.md",
                "sandbox: ./SANDBOX.md",
                r#"auth:
  state: { env: [MOCK_TOKEN] }

sandbox: ./SANDBOX.md"#,
            )],
        )
        .with(&[("MOCK_TOKEN", "a-token-of-the-caller")]),
    },
    Variant {
        id: "setup-done-once",
        what: "A setup step that is done once.",
        bundle: Made::of(
            "mock-acp",
            &[(
                "AGENT-CLI.md",
                "sandbox: ./SANDBOX.md",
                r#"setup:
  - { id: prepare, kind: cmd, cmd: "true" }

sandbox: ./SANDBOX.md"#,
            )],
        )
        .confirmed(),
    },
    Variant {
        id: "setup-skipped",
        what: "A setup step that is not needed.",
        bundle: Made::of(
            "mock-mcp",
            &[(
                "AGENT-CLI.md",
                "sandbox: ./SANDBOX.md",
                r#"setup:
  - { id: prepare, kind: cmd, cmd: "false", skip_if: { cmd: "true", exit_code: 0 } }

sandbox: ./SANDBOX.md"#,
            )],
        )
        .confirmed(),
    },
    Variant {
        id: "no-choices",
        what: "No modes, no options, no continuation but none.",
        bundle: Made::of(
            "mock-acp",
            &[(
                "AGENT-CLI.md",
                r#"  default: native-resume
  supported: [native-resume, pinned-session, transcript, none]"#,
                r#"  default: none
  supported: [none]"#,
            )],
        ),
    },
    Variant {
        id: "slow-start",
        what: "An agent that takes three seconds to start.",
        bundle: Made::of(
            "mock-acp",
            &[
                (
                    "AGENT-CLI.md",
                    r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#,
                    r#"bin_args: [mock, acp, --scenario, slow-start, --state, .mock-agent, "--"]"#,
                ),
                ("AGENT-CLI.md", "tool_calls: true", "tool_calls: false"),
                (
                    "AGENT-CLI.md",
                    "bidirectional: true",
                    "bidirectional: false",
                ),
            ],
        ),
    },
    Variant {
        id: "nothing-declared",
        what: "Capabilities that the manifest does not speak of.",
        bundle: Made::of(
            "mock-acp",
            &[
                (
                    "AGENT-CLI.md",
                    r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#,
                    r#"bin_args: [mock, acp, --scenario, bare, --state, .mock-agent, "--"]"#,
                ),
                (
                    "AGENT-CLI.md",
                    r#"  mode: resumable
"#,
                    r#"  mode: persistent
"#,
                ),
                (
                    "AGENT-CLI.md",
                    r#"  tool_calls: true
"#,
                    "",
                ),
                (
                    "AGENT-CLI.md",
                    r#"  resumable: true
"#,
                    "",
                ),
                (
                    "AGENT-CLI.md",
                    r#"  bidirectional: true
"#,
                    "",
                ),
                ("ACP.md", "loadSession: true", "loadSession: false"),
                ("ACP.md", "embeddedContext: true", "embeddedContext: false"),
                (
                    "AGENT-CLI.md",
                    r#"  default: native-resume
  supported: [native-resume, pinned-session, transcript, none]"#,
                    r#"  default: none
  supported: [none]"#,
                ),
            ],
        ),
    },
    Variant {
        id: "version-on-stderr",
        what: "A version that is told on standard error.",
        bundle: Made::of(
            "mock-repl",
            &[(
                "AGENT-CLI.md",
                "cmd: agentproto --version",
                r#"cmd: "sh -c 'echo agentproto 0.1.0 >&2'""#,
            )],
        ),
    },
    Variant {
        id: "ends-at-sigterm",
        what: "An agent that does not end at the end of its input, but at SIGTERM.",
        bundle: Made::of(
            "mock-acp",
            &[
                (
                    "AGENT-CLI.md",
                    r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#,
                    r#"bin_args: [mock, acp, --scenario, ignore-eof, --state, .mock-agent, "--"]"#,
                ),
                ("AGENT-CLI.md", "tool_calls: true", "tool_calls: false"),
                (
                    "AGENT-CLI.md",
                    "bidirectional: true",
                    "bidirectional: false",
                ),
                (
                    "AGENT-CLI.md",
                    r#"  default: native-resume
  supported: [native-resume, pinned-session, transcript, none]"#,
                    r#"  default: none
  supported: [none]"#,
                ),
            ],
        ),
    },
];
