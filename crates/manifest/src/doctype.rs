//! Detects the manifest format of a file from its name, or else from the keys of its frontmatter.

use crate::tree::Node;

/// A manifest format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doctype {
    /// CLI.md (AIP-29).
    Cli,
    /// AGENT-CLI.md (AIP-45).
    AgentCli,
    /// ACP.md (AIP-44).
    Acp,
    /// SANDBOX.md (AIP-36).
    Sandbox,
    /// SECRETS.md (AIP-19).
    Secrets,
    /// RUNNER.md (AIP-17).
    Runner,
    /// TOOL.md (AIP-14), with the fields that AIP-29 adds inside a CLI bundle.
    Tool,
    /// OPERATOR.md (AIP-9). Only the runtime binding is checked in depth.
    Operator,
}

impl Doctype {
    /// Every doctype.
    pub const ALL: [Doctype; 8] = [
        Doctype::Cli,
        Doctype::AgentCli,
        Doctype::Acp,
        Doctype::Sandbox,
        Doctype::Secrets,
        Doctype::Runner,
        Doctype::Tool,
        Doctype::Operator,
    ];

    /// File name that the spec prescribes, such as `CLI.md`.
    pub fn file_name(self) -> &'static str {
        match self {
            Doctype::Cli => "CLI.md",
            Doctype::AgentCli => "AGENT-CLI.md",
            Doctype::Acp => "ACP.md",
            Doctype::Sandbox => "SANDBOX.md",
            Doctype::Secrets => "SECRETS.md",
            Doctype::Runner => "RUNNER.md",
            Doctype::Tool => "TOOL.md",
            Doctype::Operator => "OPERATOR.md",
        }
    }

    /// Name of the spec that defines the format, such as `AIP-29`.
    pub fn spec(self) -> &'static str {
        match self {
            Doctype::Cli => "AIP-29",
            Doctype::AgentCli => "AIP-45",
            Doctype::Acp => "AIP-44",
            Doctype::Sandbox => "AIP-36",
            Doctype::Secrets => "AIP-19",
            Doctype::Runner => "AIP-17",
            Doctype::Tool => "AIP-14",
            Doctype::Operator => "AIP-9",
        }
    }

    /// Doctype of a file name such as `CLI.md` or `hermes-acp.ACP.md`. The comparison is
    /// case-sensitive, as in the specs.
    pub fn from_file_name(name: &str) -> Option<Doctype> {
        Doctype::ALL.into_iter().find(|d| {
            name.strip_suffix(d.file_name())
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    }

    /// Doctype of a frontmatter, guessed from its keys. Adapter files such as `HERMES.md` have
    /// free names, so only the frontmatter identifies them.
    pub fn from_shape(root: &Node) -> Option<Doctype> {
        let has = |key| root.has(key);
        if has("protocol") && (has("bin") || has("version_check")) {
            return Some(Doctype::AgentCli);
        }
        if has("commands") && (has("bin") || has("version_check")) {
            return Some(Doctype::Cli);
        }
        // `kind: mcp` with a transport is an MCP server (AIP-32), not an ACP endpoint.
        let acp_kind = matches!(root.str_at(&["kind"]), Some("client" | "server" | "bridge"));
        if root.at(&["metadata", "aip44"]).is_some() || (has("transport") && acp_kind) {
            return Some(Doctype::Acp);
        }
        if has("bin") && has("install") && (has("version_check") || has("sandbox")) {
            // Neither `protocol` nor `commands` is present. An agent manifest without its protocol
            // is more likely than a CLI manifest without commands, unless CLI-only keys exist.
            let tool = has("output") || has("intents") || has("actions");
            return Some(if tool {
                Doctype::Cli
            } else {
                Doctype::AgentCli
            });
        }
        if has("persona_summary") || (has("profile") && has("runtime")) {
            return Some(Doctype::Operator);
        }
        if has("provider") && has("config") && is_sandbox(root) {
            return Some(Doctype::Sandbox);
        }
        if root.get("secrets").is_some_and(Node::is_seq) {
            return Some(Doctype::Secrets);
        }
        // Workflows (AIP-15) and intents (AIP-28) have inputs and outputs as well.
        let other = has("steps") || has("intent") || has("surfaces");
        if root.get("inputs").is_some_and(Node::is_map) && has("outputs") && !other {
            return Some(Doctype::Tool);
        }
        if has("engine") && (has("needs") || has("limits") || has("image")) {
            return Some(Doctype::Runner);
        }
        None
    }
}

/// Whether the keys describe a sandbox. Storage (AIP-35) also has `provider` and `config`; a
/// sandbox differs by its `schema`, its provider, or a key that storage does not have.
fn is_sandbox(root: &Node) -> bool {
    if let Some(schema) = root.get("schema") {
        return schema.as_str().is_some_and(|s| s.starts_with("sandbox/"));
    }
    let only_storage = ["sync", "auth", "exclude"];
    let only_sandbox = ["limits", "env", "network", "mounts", "lifecycle"];
    let provider = root.str_at(&["provider"]).unwrap_or_default();
    !only_storage.iter().any(|key| root.has(key))
        && (SANDBOX_PROVIDERS.contains(&provider) || only_sandbox.iter().any(|key| root.has(key)))
}

/// Provider ids that AIP-36 lists. Hosts may add more.
pub const SANDBOX_PROVIDERS: [&str; 6] = [
    "local",
    "mastra-e2b",
    "mastra-modal",
    "mastra-daytona",
    "mastra-blaxel",
    "node-permission",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn shape(yaml: &str) -> Option<Doctype> {
        Document::parse("FREE-NAME.md", format!("---\n{yaml}---\n")).doctype
    }

    #[test]
    fn doctypes_are_found_by_file_name() {
        assert_eq!(Doctype::from_file_name("CLI.md"), Some(Doctype::Cli));
        assert_eq!(
            Doctype::from_file_name("AGENT-CLI.md"),
            Some(Doctype::AgentCli)
        );
        assert_eq!(Doctype::from_file_name("x-acp.ACP.md"), Some(Doctype::Acp));
        assert_eq!(Doctype::from_file_name("MYCLI.md"), None);
        assert_eq!(Doctype::from_file_name("cli.md"), None);
    }

    #[test]
    fn an_mcp_server_is_not_an_acp_endpoint() {
        assert_eq!(
            shape("kind: server\ntransport: stdio\n"),
            Some(Doctype::Acp)
        );
        assert_eq!(
            shape("kind: bridge\ntransport: [stdio]\n"),
            Some(Doctype::Acp)
        );
        assert_eq!(
            shape("metadata:\n  aip44:\n    tier: basic\n"),
            Some(Doctype::Acp)
        );
        assert_eq!(shape("kind: mcp\nserver: {}\ntransport: stdio\n"), None);
    }

    #[test]
    fn storage_is_not_a_sandbox() {
        let sandbox = Some(Doctype::Sandbox);
        assert_eq!(shape("provider: local\nconfig: {}\n"), sandbox);
        assert_eq!(
            shape("schema: sandbox/v1\nprovider: own\nconfig: {}\n"),
            sandbox
        );
        assert_eq!(shape("provider: own\nconfig: {}\nnetwork: {}\n"), sandbox);
        assert_eq!(
            shape("schema: storage/v1\nprovider: own\nconfig: {}\n"),
            None
        );
        assert_eq!(shape("provider: github\nconfig: {}\n"), None);
        assert_eq!(shape("provider: local\nconfig: {}\nsync: {}\n"), None);
    }

    #[test]
    fn intents_and_workflows_are_not_tools() {
        assert_eq!(shape("inputs: {}\noutputs: {}\n"), Some(Doctype::Tool));
        assert_eq!(shape("inputs: []\noutputs: {}\n"), None);
        assert_eq!(shape("inputs: {}\noutputs: {}\nsurfaces: [chat]\n"), None);
        assert_eq!(shape("inputs: {}\noutputs: {}\nsteps: []\n"), None);
    }
}
