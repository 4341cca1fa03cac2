//! Finds the fields of a manifest that refer to other files.

use crate::doctype::Doctype;
use crate::document::Document;
use crate::tree::{Node, Value};

/// The kind of file that a reference must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefRole {
    /// ACP.md.
    Acp,
    /// SANDBOX.md.
    Sandbox,
    /// SECRETS.md.
    Secrets,
    /// RUNNER.md.
    Runner,
    /// TOOL.md.
    Tool,
    /// CLI.md.
    Cli,
    /// AGENT-CLI.md.
    AgentCli,
    /// OPERATOR.md.
    Operator,
    /// GOVERNANCE.md, which is not checked.
    Governance,
    /// An MCP server file, which is not checked.
    Mcp,
    /// INTENT.md, which is not checked.
    Intent,
}

impl RefRole {
    /// The doctype that the target must have, or `None` if the target is not checked.
    pub fn doctype(self) -> Option<Doctype> {
        Some(match self {
            RefRole::Acp => Doctype::Acp,
            RefRole::Sandbox => Doctype::Sandbox,
            RefRole::Secrets => Doctype::Secrets,
            RefRole::Runner => Doctype::Runner,
            RefRole::Tool => Doctype::Tool,
            RefRole::Cli => Doctype::Cli,
            RefRole::AgentCli => Doctype::AgentCli,
            RefRole::Operator => Doctype::Operator,
            RefRole::Governance | RefRole::Mcp | RefRole::Intent => return None,
        })
    }

    /// Name of the file for messages, such as `ACP.md`.
    pub fn file_name(self) -> &'static str {
        match self {
            RefRole::Governance => "GOVERNANCE.md",
            RefRole::Mcp => "an MCP server file",
            RefRole::Intent => "INTENT.md",
            _ => self.doctype().map_or("", Doctype::file_name),
        }
    }
}

/// A reference in a document.
#[derive(Clone, Copy, Debug)]
pub struct RefSite<'d> {
    /// Kind of file that it must name.
    pub role: RefRole,
    /// The node that contains it.
    pub node: &'d Node,
    /// The reference as written.
    pub text: &'d str,
}

/// All references in a document, in a fixed order of their fields.
pub fn ref_sites(doc: &Document) -> Vec<RefSite<'_>> {
    let (Some(root), Some(doctype)) = (&doc.root, doc.doctype) else {
        return Vec::new();
    };
    collect(root, doctype)
}

fn collect(root: &Node, doctype: Doctype) -> Vec<RefSite<'_>> {
    let mut sites = Sites(Vec::new());
    match doctype {
        Doctype::Cli => {
            sites.add(RefRole::Secrets, root.at(&["auth", "ref"]));
            sites.add(RefRole::Runner, root.get("runner"));
            if let Some(commands) = root.get("commands") {
                sites.leaves(RefRole::Tool, commands);
            }
            for list in ["intents", "actions"] {
                for item in root.get(list).map_or(&[][..], Node::items) {
                    sites.add(RefRole::Intent, item.get("ref"));
                }
            }
        }
        Doctype::AgentCli => {
            sites.add(RefRole::Acp, root.get("acp"));
            sites.add(RefRole::Sandbox, root.get("sandbox"));
            sites.add(RefRole::Secrets, root.at(&["auth", "ref"]));
            sites.add(
                RefRole::Secrets,
                root.at(&["sandbox", "env", "auth", "ref"]),
            );
            sites.add(RefRole::Runner, root.get("runner"));
        }
        Doctype::Acp => {
            if let Some(aip44) = root.at(&["metadata", "aip44"]) {
                sites.add(RefRole::Operator, aip44.get("operator"));
                sites.add(RefRole::Governance, aip44.get("governance"));
                sites.add(RefRole::Sandbox, aip44.get("sandbox"));
                for server in aip44.get("mcp_servers").map_or(&[][..], Node::items) {
                    sites.add(RefRole::Mcp, server.get("ref"));
                }
            }
        }
        Doctype::Sandbox => sites.add(RefRole::Secrets, root.at(&["env", "auth", "ref"])),
        Doctype::Tool => sites.add(RefRole::Cli, root.at(&["runner", "cli"])),
        Doctype::Operator => sites.add(RefRole::AgentCli, root.at(&["runtime", "ref"])),
        Doctype::Secrets | Doctype::Runner => {}
    }
    sites.0
}

struct Sites<'d>(Vec<RefSite<'d>>);

impl<'d> Sites<'d> {
    fn add(&mut self, role: RefRole, node: Option<&'d Node>) {
        if let Some(node) = node
            && let Some(text) = node.as_str()
        {
            self.0.push(RefSite { role, node, text });
        }
    }

    fn leaves(&mut self, role: RefRole, tree: &'d Node) {
        match &tree.value {
            Value::Str(_) => self.add(role, Some(tree)),
            Value::Map(entries) => entries.iter().for_each(|e| self.leaves(role, &e.value)),
            _ => {}
        }
    }
}
