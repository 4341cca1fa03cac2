//! The mutants: what is changed, and what that breaks.

use super::{Made, Mutant};
use crate::harness::model::Verdict;

pub static MUTANTS: &[Mutant] = &[
Mutant { id: "lc-bin-missing", requirement: "A45-LIFE-02", wrong: "The program is not there, and the only install method is for another system.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin: agentproto
"#, r#"bin: agentproto-missing
"#), ("AGENT-CLI.md", "{ method: cargo, package: agentproto }", "{ method: scoop, package: agentproto }")]) },
Mutant { id: "lc-wrong-system", requirement: "A45-LIFE-02", wrong: "The manifest is for another system.", verdict: Verdict::Warn, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", "os: [linux, darwin]", "os: [windows]")]) },
Mutant { id: "lc-version-unmatched", requirement: "A45-LIFE-03", wrong: "The regular expression finds no version.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"parse: 'agentproto (\S+)'"#, r#"parse: 'release (\d+)'"#)]) },
Mutant { id: "lc-version-no-version", requirement: "A45-LIFE-03", wrong: "The regular expression finds a word that is no version.", verdict: Verdict::Fail, bundle: Made::of("mock-repl", &[("AGENT-CLI.md", r#"parse: 'agentproto (\S+)'"#, "parse: '(agentproto)'")]) },
Mutant { id: "lc-version-out-of-range", requirement: "A29-VER-06", wrong: "The version lies outside of the range.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"range: ">=0.1.0 <1""#, r#"range: ">=99""#), ("AGENT-CLI.md", "{ method: cargo, package: agentproto }", "{ method: scoop, package: agentproto }")]) },
Mutant { id: "lc-version-exit", requirement: "A29-VER-02", wrong: "The version command tells a version and fails.", verdict: Verdict::Warn, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", "cmd: agentproto --version", r#"cmd: "sh -c 'echo agentproto 0.1.0; exit 3'""#)]) },
Mutant { id: "lc-version-hangs", requirement: "A29-VER-02", wrong: "The version command does not end.", verdict: Verdict::Warn, bundle: Made::of("mock-mcp", &[("AGENT-CLI.md", "cmd: agentproto --version", r#"cmd: "sh -c 'echo agentproto 0.1.0; sleep 60'"
  timeout_ms: 300"#)]) },
Mutant { id: "lc-setup-fails", requirement: "A45-SETUP-06", wrong: "A setup step never succeeds.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", "sandbox: ./SANDBOX.md", r#"setup:
  - { id: prepare, kind: cmd, cmd: "false" }

sandbox: ./SANDBOX.md"#)]).confirmed() },
Mutant { id: "lc-secret-dropped", requirement: "A45-AUTH-03", wrong: "A script takes the secret out of the environment.", verdict: Verdict::Fail, bundle: Made::script(&[("AGENT-CLI.md", "sandbox: ./SANDBOX.md", r#"auth:
  state: { env: [MOCK_TOKEN] }

sandbox: ./SANDBOX.md"#), ("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"unset MOCK_TOKEN
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]).with(&[("MOCK_TOKEN", "a-token-of-the-caller")]) },
Mutant { id: "lc-secret-in-argv", requirement: "A45-AUTH-04", wrong: "A script puts the secret into the command line.", verdict: Verdict::Fail, bundle: Made::script(&[("AGENT-CLI.md", "sandbox: ./SANDBOX.md", r#"auth:
  state: { env: [MOCK_TOKEN] }

sandbox: ./SANDBOX.md"#), ("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@" "--token=$MOCK_TOKEN""#)]).with(&[("MOCK_TOKEN", "a-token-of-the-caller")]) },
Mutant { id: "lc-exits-at-start", requirement: "A45-LIFE-05", wrong: "The agent exits before it answers anything.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, exit-at-once, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-silent", requirement: "A45-LIFE-05", wrong: "The agent never answers the handshake.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, never-starts, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-mcp-silent", requirement: "A45-LIFE-05", wrong: "The MCP server never answers the handshake.", verdict: Verdict::Fail, bundle: Made::of("mock-mcp", &[("AGENT-CLI.md", r#"args: [mock, mcp, --state, .mock-agent, "--"]
  transport"#, r#"args: [mock, mcp, --scenario, never-starts, --state, .mock-agent, "--"]
  transport"#)]) },
Mutant { id: "lc-no-session", requirement: "A45-LIFE-06", wrong: "session/new is never answered.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"while IFS= read -r line; do
  case $line in
    *'"session/new"'*) ;;
    *) printf '%s\n' "$line" ;;
  esac
done | "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-session-id-empty", requirement: "A45-LIFE-06", wrong: "The id of a new session is empty.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --mutant, acp-se-01-empty-id, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-sandbox-mount", requirement: "A29-PRIN-02", wrong: "The sandbox mounts what no machine has.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("SANDBOX.md", r#"network:
"#, r#"mounts: [{ source: elsewhere, at: /elsewhere }]
network:
"#)]) },
Mutant { id: "lc-sandbox-provider", requirement: "A29-PRIN-02", wrong: "The sandbox is of a provider that is not here.", verdict: Verdict::Fail, bundle: Made::of("mock-mcp", &[("SANDBOX.md", "provider: local", "provider: mastra-e2b")]) },
Mutant { id: "lc-declares-images", requirement: "A44-CONF-05", wrong: "ACP.md declares images, which the agent does not take.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("ACP.md", "image: false", "image: true")]) },
Mutant { id: "lc-declares-http", requirement: "A44-CONF-05", wrong: "ACP.md declares MCP over HTTP, which the agent does not offer.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("ACP.md", "http: false", "http: true")]) },
Mutant { id: "lc-hides-context", requirement: "A44-CONF-05", wrong: "ACP.md hides a capability that the agent has.", verdict: Verdict::Warn, bundle: Made::of("mock-acp", &[("ACP.md", "embeddedContext: true", "embeddedContext: false")]) },
Mutant { id: "lc-websocket-only", requirement: "A44-TRANS-03", wrong: "ACP.md declares no stdio.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("ACP.md", "transport: stdio", "transport: websocket")]) },
Mutant { id: "lc-beyond-acp-md", requirement: "A45-CAP-09", wrong: "The manifest declares what its ACP.md denies.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("ACP.md", "loadSession: true", "loadSession: false")]) },
Mutant { id: "lc-not-resumable", requirement: "A45-CAP-07", wrong: "The agent offers neither load nor resume, and both files declare it.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, bare, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-mcp-no-reply", requirement: "A45-CAP-07", wrong: "The tool that goes on with a conversation does not exist.", verdict: Verdict::Fail, bundle: Made::of("mock-mcp", &[("AGENT-CLI.md", "reply_tool: reply", "reply_tool: go-on")]) },
Mutant { id: "lc-not-multimodal", requirement: "A45-CAP-06", wrong: "The manifest declares images, which the agent does not take.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", "multimodal: false", "multimodal: true"), ("ACP.md", r#"          image: false
"#, "")]) },
Mutant { id: "lc-no-text", requirement: "A45-CAP-02", wrong: "The agent declares streaming and says nothing.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --mutant, acp-pt-09-says-nothing, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-no-tools", requirement: "A45-CAP-03", wrong: "The agent declares tool calls and tells none.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, resume, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-no-questions", requirement: "A45-CAP-08", wrong: "The agent declares questions and asks none.", verdict: Verdict::Fail, bundle: Made::of("mock-mcp", &[("AGENT-CLI.md", r#"args: [mock, mcp, --state, .mock-agent, "--"]
  transport"#, r#"args: [mock, mcp, --scenario, resume, --state, .mock-agent, "--"]
  transport"#)]) },
Mutant { id: "lc-tools-undeclared", requirement: "A45-CAP-03", wrong: "Tool calls are told, and the manifest does not declare them.", verdict: Verdict::Warn, bundle: Made::of("mock-repl", &[("AGENT-CLI.md", "tool_calls: true", "tool_calls: false")]) },
Mutant { id: "lc-mode-dropped", requirement: "A45-MODE-03", wrong: "A script drops what a mode adds to the command line.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$1""#)]) },
Mutant { id: "lc-mode-variable-dropped", requirement: "A45-MODE-03", wrong: "A script drops the variable of a mode.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"unset MOCK_MODE
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-mode-first", requirement: "A45-MODE-04", wrong: "A script puts what a mode adds before `bin_args`.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"case $2 in
  --careful) set -- "$2" "$1" ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-always-careful", requirement: "A45-MODE-05", wrong: "A script adds the words of a mode when none is chosen.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"case $# in
  1) set -- "$@" --careful ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-option-refused", requirement: "A45-OPT-04", wrong: "The manifest lists a value at which the agent exits.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"case $* in
  *large*) echo "no such model" >&2; exit 2 ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-option-dropped", requirement: "A45-OPT-04", wrong: "A script drops an option with its value.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"case $2 in
  --patience) set -- "$1" ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-flag-dropped", requirement: "A45-OPT-07", wrong: "A script drops the flag of a boolean option.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"case $2 in
  --loud) set -- "$1" ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-option-variable", requirement: "A45-OPT-08", wrong: "A script sets the variable of an option to something else.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"MOCK_LOUD=never
export MOCK_LOUD
exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-remembers-all", requirement: "A45-CONT-03", wrong: "Every session knows of every other.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#"memory() { cat ".memory-$session" 2>/dev/null; }"#, "memory() { cat .memory-* 2>/dev/null; }")]) },
Mutant { id: "lc-forgets-turns", requirement: "A45-CONT-04", wrong: "A process that is kept forgets its turns.", verdict: Verdict::Fail, bundle: Made::adapter(&[("AGENT-CLI.md", "[native-resume, pinned-session, transcript, none]", "[pinned-session, none]"), ("AGENT-CLI.md", "default: native-resume", "default: none"), ("adapter.sh", "Before: $(memory)", "I do not know")]) },
Mutant { id: "lc-forgets-sessions", requirement: "A45-CONT-08", wrong: "No session outlives the process.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, "--"]"#)]) },
Mutant { id: "lc-resumes-empty", requirement: "A45-SESS-07", wrong: "A session is taken up again without what was said in it.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#"      session=$(field resume)
"#, r#"      session=$(field resume)
      rm -f ".memory-$session"
"#)]) },
Mutant { id: "lc-banner", requirement: "A45-EVT-01", wrong: "A greeting stands on standard output before the protocol.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, banner, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-unknown-event", requirement: "A45-EVT-01", wrong: "An adapter writes an event of its own.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#"          text "You said: ""#, r#"          say '{"type":"progress","percent":5}'"#)]) },
Mutant { id: "lc-two-ends", requirement: "A45-EVT-07", wrong: "An adapter ends its turns twice.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#"          text "$message"
          end end_turn"#, r#"          text "$message"
          end end_turn
          end end_turn"#)]) },
Mutant { id: "lc-dies-in-turn", requirement: "A45-EVT-07", wrong: "The agent dies in its turns.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, crash, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-no-end", requirement: "A45-EVT-07", wrong: "A turn never ends.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, hang, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-nameless-tool", requirement: "A45-EVT-03", wrong: "A tool call has no name.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#""name":"search""#, r#""name":"""#)]) },
Mutant { id: "lc-stray-result", requirement: "A45-EVT-04", wrong: "A tool result belongs to no tool call.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#"{"type":"tool-result","id":"1""#, r#"{"type":"tool-result","id":"2""#)]) },
Mutant { id: "lc-blank-question", requirement: "A45-EVT-06", wrong: "A question has no words.", verdict: Verdict::Fail, bundle: Made::adapter(&[("adapter.sh", r#""message":"May I?""#, r#""message":"""#)]) },
Mutant { id: "lc-deaf-to-cancel", requirement: "A45-API-03", wrong: "A cancelled turn goes on.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --mutant, acp-pt-11-deaf, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-close-hangs", requirement: "A45-LIFE-08", wrong: "session/close is never answered.", verdict: Verdict::Fail, bundle: Made::script(&[("agent.sh", r#"exec "$here/agentproto" mock acp --state .mock-agent -- "$@""#, r#"while IFS= read -r line; do
  case $line in
    *'"session/close"'*) ;;
    *) printf '%s\n' "$line" ;;
  esac
done | "$here/agentproto" mock acp --state .mock-agent -- "$@""#)]) },
Mutant { id: "lc-ignores-sigterm", requirement: "A45-LIFE-09", wrong: "The agent ends neither at the end of its input nor at SIGTERM.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, ignore-sigterm, --state, .mock-agent, "--"]"#)]) },
Mutant { id: "lc-leaves-daemon", requirement: "A44-LIFEC-03", wrong: "The agent leaves a process behind.", verdict: Verdict::Fail, bundle: Made::of("mock-acp", &[("AGENT-CLI.md", r#"bin_args: [mock, acp, --state, .mock-agent, "--"]"#, r#"bin_args: [mock, acp, --scenario, daemon, --state, .mock-agent, "--"]"#)]) },
];
