//! The fields of each manifest that the registry rules need. Only these are kept, so that a run
//! over a hundred thousand files needs little memory.

use std::path::PathBuf;

use agentproto_manifest::{Doctype, Document, Node, Span, normalize};

/// Text and place of a field. Lines are computed only if the field appears in a finding.
#[derive(Clone, Debug)]
pub struct IndexField {
    /// The value.
    pub text: String,
    /// Byte range of the value in its file.
    pub span: Span,
}

/// Index entry of one manifest.
#[derive(Clone, Debug)]
pub struct IndexEntry {
    /// Path of the manifest.
    pub path: PathBuf,
    /// Kind of the manifest.
    pub doctype: Doctype,
    /// The field `id` (CLI.md, AGENT-CLI.md and ACP.md only).
    pub id: Option<IndexField>,
    /// The field `version` (CLI.md, AGENT-CLI.md and ACP.md only).
    pub version: Option<String>,
    /// The field `bin` (CLI.md and AGENT-CLI.md only).
    pub bin: Option<IndexField>,
    /// Slug and kind of each declared secret (SECRETS.md only).
    pub secrets: Vec<(IndexField, String)>,
    /// The reference from agent to endpoint, endpoint to operator, or operator to agent. Only these
    /// can form a cycle: secrets and runners refer to nothing, and a tool refers back to its CLI by
    /// design.
    pub forward_ref: Option<ForwardRef>,
}

/// Target of the reference in [`IndexEntry::forward_ref`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardRef {
    /// Normalized path.
    File(PathBuf),
    /// Id of an agent in the registry.
    Slug(String),
}

/// Index of all manifests of a run.
#[derive(Debug, Default)]
pub struct Index {
    /// The entries, in path order.
    pub entries: Vec<IndexEntry>,
}

impl Index {
    /// The manifests of a doctype that have this id.
    pub fn by_id<'a>(
        &'a self,
        doctype: Doctype,
        id: &'a str,
    ) -> impl Iterator<Item = &'a IndexEntry> {
        self.entries
            .iter()
            .filter(move |c| c.doctype == doctype && c.id.as_ref().is_some_and(|f| f.text == id))
    }
}

impl IndexEntry {
    /// The entry of a document. `None` if it cannot be read or no registry rule needs its doctype.
    pub fn of(doc: &Document) -> Option<IndexEntry> {
        let (root, doctype) = (doc.root.as_ref()?, doc.doctype?);
        let field = |key: &str| {
            let node = root.get(key)?;
            Some(IndexField {
                text: node.as_str()?.to_owned(),
                span: node.span,
            })
        };
        let mut entry = IndexEntry {
            path: doc.path.clone(),
            doctype,
            id: None,
            version: None,
            bin: None,
            secrets: Vec::new(),
            forward_ref: None,
        };
        match doctype {
            Doctype::Cli | Doctype::AgentCli | Doctype::Acp => {
                entry.id = field("id");
                entry.version = root.str_at(&["version"]).map(str::to_owned);
                if doctype != Doctype::Acp {
                    entry.bin = field("bin");
                }
            }
            Doctype::Secrets => {
                let secrets = root.get("secrets").map_or(&[][..], Node::items);
                entry.secrets = secrets.iter().filter_map(secret).collect();
            }
            Doctype::Operator => {}
            Doctype::Sandbox | Doctype::Runner | Doctype::Tool => return None,
        }
        entry.forward_ref = forward_reference(root, doctype)
            .and_then(Node::as_str)
            .and_then(|reference| ForwardRef::of(doc, reference));
        Some(entry)
    }
}

/// The reference of a manifest that may be part of a cycle (see [`IndexEntry::forward_ref`]).
pub fn forward_reference(root: &Node, doctype: Doctype) -> Option<&Node> {
    match doctype {
        Doctype::AgentCli => root.get("acp"),
        Doctype::Acp => root.at(&["metadata", "aip44", "operator"]),
        Doctype::Operator if root.str_at(&["runtime", "kind"]) == Some("agent-cli") => {
            root.at(&["runtime", "ref"])
        }
        _ => None,
    }
}

impl ForwardRef {
    fn of(doc: &Document, reference: &str) -> Option<ForwardRef> {
        if reference.contains("://") || reference.starts_with(['@', '/', '~', '\\']) {
            return None;
        }
        if reference.contains(['/', '.']) {
            return Some(ForwardRef::File(normalize(&doc.dir().join(reference))));
        }
        let slug = doc.doctype == Some(Doctype::Operator) && !reference.is_empty();
        slug.then(|| ForwardRef::Slug(reference.to_owned()))
    }
}

fn secret(entry: &Node) -> Option<(IndexField, String)> {
    let slug = entry.get("slug")?;
    let field = IndexField {
        text: slug.as_str()?.to_owned(),
        span: slug.span,
    };
    let kind = entry.str_at(&["kind"]).unwrap_or("opaque");
    Some((field, kind.to_owned()))
}
