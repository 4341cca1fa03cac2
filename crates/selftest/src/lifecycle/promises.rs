//! Defects in what the manifest declares: capabilities, modes, options, continuations.

use super::made::{acp, adapter, mcp, repl, script};
use super::{Mutant, advice, wrong};

pub fn mutants() -> Vec<Mutant> {
    let mut all = capabilities();
    all.extend(choices());
    all.extend(continuations());
    all
}

fn capabilities() -> Vec<Mutant> {
    vec![
        wrong(
            "lc-declares-images",
            "A44-CONF-05",
            "ACP.md declares images, which the agent does not accept.",
            acp().edit("ACP.md", "image: false", "image: true"),
        ),
        wrong(
            "lc-declares-http",
            "A44-CONF-05",
            "ACP.md declares MCP over HTTP, which the agent does not offer.",
            acp().edit("ACP.md", "http: false", "http: true"),
        ),
        advice(
            "lc-hides-context",
            "A44-CONF-05",
            "ACP.md hides a capability that the agent has.",
            acp().edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        wrong(
            "lc-websocket-only",
            "A44-TRANS-03",
            "ACP.md does not declare stdio.",
            acp().edit("ACP.md", "transport: stdio", "transport: websocket"),
        ),
        wrong(
            "lc-beyond-acp-md",
            "A45-CAP-09",
            "The manifest declares a capability that its ACP.md excludes.",
            acp().edit("ACP.md", "loadSession: true", "loadSession: false"),
        ),
        wrong(
            "lc-not-resumable",
            "A45-CAP-07",
            "The manifest declares `resumable`, but the agent offers neither load nor resume.",
            acp()
                .args("--scenario, bare")
                .only_talks()
                .edit("ACP.md", "tier: governance-aware", "tier: basic")
                .edit("ACP.md", "        loadSession: true\n", "")
                .edit("ACP.md", "embeddedContext: true", "embeddedContext: false"),
        ),
        wrong(
            "lc-mcp-no-reply",
            "A45-CAP-07",
            "The tool that continues a conversation does not exist.",
            mcp()
                .starts_anew()
                .manifest("reply_tool: reply", "reply_tool: go-on"),
        ),
        wrong(
            "lc-not-multimodal",
            "A45-CAP-06",
            "The manifest declares images, which the agent does not accept.",
            acp()
                .manifest("multimodal: false", "multimodal: true")
                .edit("ACP.md", "          image: false\n", ""),
        ),
        wrong(
            "lc-no-text",
            "A45-CAP-02",
            "The agent declares streaming but sends no text.",
            acp().args("--mutant, acp-pt-09-says-nothing").starts_anew(),
        ),
        wrong(
            "lc-no-tools",
            "A45-CAP-03",
            "The agent declares tool calls but reports none.",
            acp()
                .args("--scenario, resume")
                .manifest("bidirectional: true", "bidirectional: false"),
        ),
        advice(
            "lc-tools-undeclared",
            "A45-CAP-03",
            "The agent reports tool calls that the manifest does not declare.",
            repl().manifest("tool_calls: true", "tool_calls: false"),
        ),
        wrong(
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
        wrong(
            "lc-mode-dropped",
            "A45-MODE-03",
            "A script drops the arguments that a mode adds.",
            script().before(&dropped("--careful")),
        ),
        wrong(
            "lc-mode-variable-dropped",
            "A45-MODE-03",
            "A script drops the environment variable of a mode.",
            script().before("unset MOCK_MODE"),
        ),
        wrong(
            "lc-mode-first",
            "A45-MODE-04",
            "A script puts the arguments of a mode before `bin_args`.",
            script().before("case $2 in\n  --careful) set -- \"$2\" \"$1\" ;;\nesac"),
        ),
        wrong(
            "lc-always-careful",
            "A45-MODE-05",
            "A script adds the arguments of a mode when no mode is chosen.",
            script().before("case $# in\n  1) set -- \"$@\" --careful ;;\nesac"),
        ),
        wrong(
            "lc-option-refused",
            "A45-OPT-04",
            "The manifest lists an option value that the agent rejects by exiting.",
            script().before("case $* in\n  *large*) echo no such model >&2; exit 2 ;;\nesac"),
        ),
        wrong(
            "lc-option-dropped",
            "A45-OPT-04",
            "A script drops an option and its value.",
            script().before(&dropped("--patience")),
        ),
        wrong(
            "lc-flag-dropped",
            "A45-OPT-07",
            "A script drops the flag of a boolean option.",
            script().before(&dropped("--loud")),
        ),
        wrong(
            "lc-option-variable",
            "A45-OPT-08",
            "A script changes the environment variable of an option.",
            script().before("MOCK_LOUD=never\nexport MOCK_LOUD"),
        ),
    ]
}

fn continuations() -> Vec<Mutant> {
    vec![
        wrong(
            "lc-remembers-all",
            "A45-CONT-03",
            "Every session remembers the turns of all sessions.",
            adapter().says("cat \".memory-$session\"", "cat .memory-*"),
        ),
        wrong(
            "lc-forgets-turns",
            "A45-CONT-04",
            "A process that stays alive between turns forgets earlier turns.",
            adapter()
                .manifest("default: native-resume", "default: none")
                .manifest("[native-resume, pinned", "[pinned")
                .says("Before: $(memory)", "I do not know"),
        ),
        wrong(
            "lc-forgets-sessions",
            "A45-CONT-08",
            "Sessions are lost when the process exits.",
            acp().manifest(
                "bin_args: [mock, acp, --state, .mock-agent, ",
                "bin_args: [mock, acp, ",
            ),
        ),
        wrong(
            "lc-resumes-empty",
            "A45-SESS-07",
            "A resumed session has lost its history.",
            adapter().says(
                "session=$(field resume)\n",
                "session=$(field resume)\n      rm -f \".memory-$session\"\n",
            ),
        ),
    ]
}
