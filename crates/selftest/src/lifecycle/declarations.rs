//! Defects in what the manifest declares: capabilities, modes, options, continuations.

use super::bundle::{acp, adapter, mcp, repl, script};
use super::{Mutant, mutant, recommendation};

pub fn mutants() -> Vec<Mutant> {
    let mut all = capabilities();
    all.extend(choices());
    all.extend(continuations());
    all
}

fn capabilities() -> Vec<Mutant> {
    vec![
        mutant(
            "lc-declares-images",
            "A44-CONF-05",
            "ACP.md declares images, which the agent does not accept.",
            acp().edit("ACP.md", "image: false", "image: true"),
        ),
        mutant(
            "lc-declares-http",
            "A44-CONF-05",
            "ACP.md declares MCP over HTTP, which the agent does not offer.",
            acp().edit("ACP.md", "http: false", "http: true"),
        ),
        recommendation(
            "lc-hides-context",
            "A44-CONF-05",
            "ACP.md hides a capability that the agent has.",
            acp().edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        mutant(
            "lc-websocket-only",
            "A44-TRANS-03",
            "ACP.md does not declare stdio.",
            acp().edit("ACP.md", "transport: stdio", "transport: websocket"),
        ),
        mutant(
            "lc-beyond-acp-md",
            "A45-CAP-09",
            "The manifest declares a capability that its ACP.md excludes.",
            acp().edit("ACP.md", "loadSession: true", "loadSession: false"),
        ),
        mutant(
            "lc-not-resumable",
            "A45-CAP-07",
            "The manifest declares `resumable`, but the agent offers neither load nor resume.",
            acp()
                .args("--scenario, bare")
                .without_optional()
                .manifest("mode: resumable", "mode: persistent")
                .edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        mutant(
            "lc-session-beyond-acp-md",
            "A45-SESS-08",
            "The session mode is `resumable`, but ACP.md does not declare `loadSession`.",
            acp()
                .args("--scenario, bare")
                .without_optional()
                .manifest("resumable: true", "resumable: false")
                .edit("ACP.md", "tier: governance-aware", "tier: basic")
                .edit("ACP.md", "        loadSession: true\n", "")
                .edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        mutant(
            "lc-session-not-resumable",
            "A45-SESS-08",
            "The session mode is `resumable`, but the agent offers neither load nor resume.",
            acp()
                .args("--scenario, bare")
                .without_optional()
                .manifest("resumable: true", "resumable: false")
                .edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        mutant(
            "lc-mcp-no-reply",
            "A45-CAP-07",
            "The tool that continues a conversation does not exist.",
            mcp()
                .without_continuation()
                .manifest("reply_tool: reply", "reply_tool: go-on"),
        ),
        mutant(
            "lc-not-multimodal",
            "A45-CAP-06",
            "The manifest declares images, which the agent does not accept.",
            acp()
                .manifest("multimodal: false", "multimodal: true")
                .edit("ACP.md", "image: false", "image: true"),
        ),
        mutant(
            "lc-no-text",
            "A45-CAP-02",
            "The agent declares streaming but sends no text.",
            acp()
                .args("--mutant, acp-pt-09-says-nothing")
                .without_continuation(),
        ),
        mutant(
            "lc-no-tools",
            "A45-CAP-03",
            "The agent declares tool calls but reports none.",
            acp()
                .args("--scenario, resume")
                .manifest("bidirectional: true", "bidirectional: false"),
        ),
        recommendation(
            "lc-tools-undeclared",
            "A45-CAP-03",
            "The agent reports tool calls that the manifest does not declare.",
            repl().manifest("tool_calls: true", "tool_calls: false"),
        ),
        mutant(
            "lc-no-questions",
            "A45-CAP-08",
            "The agent declares questions but asks none.",
            mcp()
                .args("--scenario, resume")
                .manifest("tool_calls: true", "tool_calls: false"),
        ),
    ]
}

fn choices() -> Vec<Mutant> {
    let dropped = |word: &str| format!("case $2 in\n  {word}) set -- \"$1\" ;;\nesac");
    vec![
        mutant(
            "lc-mode-dropped",
            "A45-MODE-03",
            "A script drops the arguments that a mode adds.",
            script().before(&dropped("--careful")),
        ),
        mutant(
            "lc-mode-variable-dropped",
            "A45-MODE-03",
            "A script drops the environment variable of a mode.",
            script().before("unset MOCK_MODE"),
        ),
        mutant(
            "lc-mode-first",
            "A45-MODE-04",
            "A script puts the arguments of a mode before `bin_args`.",
            script().before("case $2 in\n  --careful) set -- \"$2\" \"$1\" ;;\nesac"),
        ),
        mutant(
            "lc-always-careful",
            "A45-MODE-05",
            "A script adds the arguments of a mode when no mode is chosen.",
            script().before("case $# in\n  1) set -- \"$@\" --careful ;;\nesac"),
        ),
        mutant(
            "lc-option-refused",
            "A45-OPT-04",
            "The manifest lists an option value that the agent rejects by exiting.",
            script().before("case $* in\n  *large*) echo no such model >&2; exit 2 ;;\nesac"),
        ),
        mutant(
            "lc-option-dropped",
            "A45-OPT-04",
            "A script drops an option and its value.",
            script().before(&dropped("--patience")),
        ),
        mutant(
            "lc-flag-dropped",
            "A45-OPT-07",
            "A script drops the flag of a boolean option.",
            script().before(&dropped("--loud")),
        ),
        mutant(
            "lc-option-variable",
            "A45-OPT-08",
            "A script changes the environment variable of an option.",
            script().before("MOCK_LOUD=never\nexport MOCK_LOUD"),
        ),
    ]
}

fn continuations() -> Vec<Mutant> {
    vec![
        mutant(
            "lc-remembers-all",
            "A45-CONT-03",
            "Every session remembers the turns of all sessions.",
            adapter().edit_adapter("cat \".memory-$session\"", "cat .memory-*"),
        ),
        mutant(
            "lc-forgets-turns",
            "A45-CONT-04",
            "A process that stays alive between turns forgets earlier turns.",
            adapter()
                .manifest("default: native-resume", "default: none")
                .manifest("[native-resume, pinned", "[pinned")
                .edit_adapter("Before: $(memory)", "I do not know"),
        ),
        mutant(
            "lc-forgets-sessions",
            "A45-CONT-08",
            "Sessions are lost when the process exits.",
            acp().manifest(
                "bin_args: [mock, acp, --state, .mock-agent, ",
                "bin_args: [mock, acp, ",
            ),
        ),
        mutant(
            "lc-resumes-empty",
            "A45-SESS-07",
            "A resumed session has lost its history.",
            adapter().edit_adapter(
                "session=$(field resume)\n",
                "session=$(field resume)\n      rm -f \".memory-$session\"\n",
            ),
        ),
    ]
}
