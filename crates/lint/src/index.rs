//! What the registry rules need to know of every manifest of a run: little, so that a run
//! over a hundred thousand files stays small.

use std::path::PathBuf;

use agentproto_manifest::{Doctype, Document, Node, Span, normalize};

/// A field's text and place; lines are computed only if it ends up in a finding.
#[derive(Clone, Debug)]
pub struct Field {
    pub text: String,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Card {
    pub path: PathBuf,
    pub doctype: Doctype,
    pub id: Option<Field>,
    pub version: Option<String>,
    pub bin: Option<Field>,
    /// Slug and kind of each declared secret (SECRETS.md only).
    pub secrets: Vec<(Field, String)>,
    /// Agent → endpoint → operator → agent: the only references that can run in a circle.
    /// Secrets and runners refer to nothing, and a tool refers back to its CLI by design.
    pub next: Option<Next>,
}

/// Where a manifest's one onward reference leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Normalised path.
    File(PathBuf),
    /// Id of an agent in the registry.
    Slug(String),
}

/// All manifests of a run, in path order.
#[derive(Debug, Default)]
pub struct Index {
    pub cards: Vec<Card>,
}

impl Index {
    /// Manifests of a doctype with this id.
    pub fn by_id<'a>(&'a self, doctype: Doctype, id: &'a str) -> impl Iterator<Item = &'a Card> {
        self.cards
            .iter()
            .filter(move |c| c.doctype == doctype && c.id.as_ref().is_some_and(|f| f.text == id))
    }
}

impl Card {
    pub fn of(doc: &Document) -> Option<Card> {
        let (root, doctype) = (doc.root.as_ref()?, doc.doctype?);
        let field = |key: &str| {
            let node = root.get(key)?;
            Some(Field {
                text: node.as_str()?.to_owned(),
                span: node.span,
            })
        };
        let mut card = Card {
            path: doc.path.clone(),
            doctype,
            id: None,
            version: None,
            bin: None,
            secrets: Vec::new(),
            next: None,
        };
        match doctype {
            Doctype::Cli | Doctype::AgentCli | Doctype::Acp => {
                card.id = field("id");
                card.version = root.str_at(&["version"]).map(str::to_owned);
                if doctype != Doctype::Acp {
                    card.bin = field("bin");
                }
            }
            Doctype::Secrets => {
                let secrets = root.get("secrets").map_or(&[][..], Node::items);
                card.secrets = secrets.iter().filter_map(secret).collect();
            }
            Doctype::Operator => {}
            Doctype::Sandbox | Doctype::Runner | Doctype::Tool => return None,
        }
        card.next = onward(root, doctype)
            .and_then(Node::as_str)
            .and_then(|reference| Next::of(doc, reference));
        Some(card)
    }
}

/// The reference of a manifest that may lead back to it.
pub fn onward(root: &Node, doctype: Doctype) -> Option<&Node> {
    match doctype {
        Doctype::AgentCli => root.get("acp"),
        Doctype::Acp => root.at(&["metadata", "aip44", "operator"]),
        Doctype::Operator if root.str_at(&["runtime", "kind"]) == Some("agent-cli") => {
            root.at(&["runtime", "ref"])
        }
        _ => None,
    }
}

impl Next {
    fn of(doc: &Document, reference: &str) -> Option<Next> {
        if reference.contains("://") || reference.starts_with(['@', '/', '~', '\\']) {
            return None;
        }
        if reference.contains(['/', '.']) {
            return Some(Next::File(normalize(&doc.dir().join(reference))));
        }
        let slug = doc.doctype == Some(Doctype::Operator) && !reference.is_empty();
        slug.then(|| Next::Slug(reference.to_owned()))
    }
}

fn secret(entry: &Node) -> Option<(Field, String)> {
    let slug = entry.get("slug")?;
    let field = Field {
        text: slug.as_str()?.to_owned(),
        span: slug.span,
    };
    let kind = entry.str_at(&["kind"]).unwrap_or("opaque");
    Some((field, kind.to_owned()))
}
