//! Conforming bundles.

use super::bundle::{EXEC, acp, adapter, mcp, repl, script};
use super::{BundleSpec, Variant};

const SANDBOX: &str = "sandbox: ./SANDBOX.md";

/// All conforming variants.
pub fn variants() -> Vec<Variant> {
    let variant = |name, description, bundle_spec| Variant {
        name,
        description,
        data: bundle_spec,
    };
    vec![
        variant("mock-acp", "The ACP mock without changes.", acp()),
        variant("mock-mcp", "The MCP mock without changes.", mcp()),
        variant("mock-repl", "An agent with one process per turn.", repl()),
        variant(
            "script",
            "A script that replaces itself with the agent.",
            script(),
        ),
        variant(
            "script-around",
            "A script that runs the agent as a child process.",
            script().program(EXEC.trim_start_matches("exec ")),
        ),
        variant(
            "shell-adapter",
            "An executable adapter in shell.",
            adapter(),
        ),
        variant(
            "numbers-from-one",
            "An agent whose processes all number their sessions from 1.",
            adapter().edit_adapter(
                "session=s-$(date +%s%N)",
                "{ session=s1; rm -f .memory-s1; }",
            ),
        ),
        variant(
            "login",
            "A login by an environment variable.",
            acp().with_login(),
        ),
        variant(
            "setup-once",
            "A setup step that runs once.",
            setup(acp(), "cmd: \"true\""),
        ),
        variant(
            "setup-skipped",
            "A setup step that is not needed.",
            setup(
                mcp(),
                "cmd: \"false\", skip_if: { cmd: \"true\", exit_code: 0 }",
            ),
        ),
        variant(
            "one-continuation",
            "No continuation except `none`.",
            acp().without_continuation(),
        ),
        variant(
            "slow-start",
            "An agent that takes three seconds to start.",
            acp().args("--scenario, slow-start").without_optional(),
        ),
        variant(
            "nothing-optional",
            "An agent without optional capabilities, which declares none.",
            acp()
                .args("--scenario, bare")
                .without_optional()
                .manifest("mode: resumable", "mode: persistent")
                .manifest("resumable: true", "resumable: false")
                .edit("ACP.md", "loadSession: true", "loadSession: false")
                .edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        variant(
            "version-on-stderr",
            "A version command that prints to stderr.",
            repl().version_command("echo agentproto 0.1.0 >&2"),
        ),
        variant(
            "ends-at-sigterm",
            "An agent that exits on SIGTERM, not when stdin is closed.",
            acp().args("--scenario, ignore-eof").without_optional(),
        ),
    ]
}

fn setup(bundle_spec: BundleSpec, step: &str) -> BundleSpec {
    let setup = format!("setup:\n  - {{ id: prepare, kind: cmd, {step} }}\n\n{SANDBOX}");
    bundle_spec.manifest(SANDBOX, &setup).confirmed()
}
