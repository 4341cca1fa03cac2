//! Defects between installation and the open session, and in the sandbox.

use super::bundle::{EXEC, acp, mcp, repl, script, without_line};
use super::{Mutant, mutant, recommendation};

const SETUP: &str = "setup:\n  - { id: prepare, kind: cmd, cmd: \"false\" }\n\nsandbox: ./S";

pub fn mutants() -> Vec<Mutant> {
    let no_method = |bundle_spec: super::BundleSpec| {
        let (cargo, scoop) = ("{ method: cargo,", "{ method: scoop,");
        bundle_spec.manifest(cargo, scoop)
    };
    vec![
        mutant(
            "lc-bin-missing",
            "A45-LIFE-02",
            "The program is missing, and the only install method is for another system.",
            no_method(acp()).manifest("bin: agentproto\n", "bin: agentproto-missing\n"),
        ),
        recommendation(
            "lc-wrong-system",
            "A45-LIFE-02",
            "The manifest is for another system.",
            acp().manifest("os: [linux, darwin]", "os: [windows]"),
        ),
        mutant(
            "lc-version-unmatched",
            "A45-LIFE-03",
            "The regular expression does not match the version output.",
            acp().manifest(r"'agentproto (\S+)'", r"'release (\d+)'"),
        ),
        mutant(
            "lc-version-no-version",
            "A45-LIFE-03",
            "The regular expression matches a word that is not a version.",
            repl().manifest(r"'agentproto (\S+)'", "'(agentproto)'"),
        ),
        mutant(
            "lc-version-out-of-range",
            "A29-VER-06",
            "The version is outside the range.",
            no_method(acp()).manifest(r#"">=0.1.0 <1""#, r#"">=99""#),
        ),
        recommendation(
            "lc-version-exit",
            "A29-VER-02",
            "The version command prints a version and fails.",
            acp().version_command("echo agentproto 0.1.0; exit 3"),
        ),
        recommendation(
            "lc-version-hangs",
            "A29-VER-02",
            "The version command does not exit.",
            mcp()
                .version_command("echo agentproto 0.1.0; sleep 60")
                .manifest("  parse:", "  timeout_ms: 300\n  parse:"),
        ),
        mutant(
            "lc-setup-fails",
            "A45-SETUP-06",
            "A setup step never succeeds.",
            acp().manifest("sandbox: ./S", SETUP).confirmed(),
        ),
        mutant(
            "lc-secret-dropped",
            "A45-AUTH-03",
            "A script removes the secret from the environment.",
            script().with_login().before("unset MOCK_TOKEN"),
        ),
        mutant(
            "lc-secret-in-argv",
            "A45-AUTH-04",
            "A script puts the secret into the command line.",
            script()
                .with_login()
                .program(&format!("{EXEC} \"--token=$MOCK_TOKEN\"")),
        ),
        mutant(
            "lc-exits-at-start",
            "A45-LIFE-05",
            "The agent exits before it answers anything.",
            acp().args("--scenario, exit-at-once"),
        ),
        mutant(
            "lc-silent",
            "A45-LIFE-05",
            "The agent never answers the handshake.",
            acp().args("--scenario, never-starts"),
        ),
        mutant(
            "lc-mcp-silent",
            "A45-LIFE-05",
            "The MCP server never answers the handshake.",
            mcp().args("--scenario, never-starts"),
        ),
        mutant(
            "lc-no-session",
            "A45-LIFE-06",
            "session/new is never answered.",
            script().program(&without_line("\"session/new\"")),
        ),
        mutant(
            "lc-session-id-empty",
            "A45-LIFE-06",
            "The id of a new session is empty.",
            acp().args("--mutant, acp-se-01-empty-id"),
        ),
        mutant(
            "lc-sandbox-mount",
            "A29-PRIN-02",
            "The sandbox mounts a source that does not exist.",
            acp().edit(
                "SANDBOX.md",
                "network:\n",
                "mounts: [{ source: elsewhere, at: /elsewhere }]\nnetwork:\n",
            ),
        ),
        mutant(
            "lc-sandbox-provider",
            "A29-PRIN-02",
            "The sandbox needs a provider that is not available.",
            mcp().edit("SANDBOX.md", "provider: local", "provider: mastra-e2b"),
        ),
    ]
}
