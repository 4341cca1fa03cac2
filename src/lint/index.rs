//! What the registry rules need to know of every manifest of a run: little, so that a run
//! over a hundred thousand files stays small.

use std::path::PathBuf;

use crate::manifest::{Doctype, Document, Node, Span};

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
        let card = match doctype {
            Doctype::Cli | Doctype::AgentCli => Card {
                path: doc.path.clone(),
                doctype,
                id: field("id"),
                version: root.str_at(&["version"]).map(str::to_owned),
                bin: field("bin"),
                secrets: Vec::new(),
            },
            Doctype::Acp => Card {
                path: doc.path.clone(),
                doctype,
                id: field("id"),
                version: root.str_at(&["version"]).map(str::to_owned),
                bin: None,
                secrets: Vec::new(),
            },
            Doctype::Secrets => Card {
                path: doc.path.clone(),
                doctype,
                id: None,
                version: None,
                bin: None,
                secrets: root
                    .get("secrets")
                    .map_or(&[][..], Node::items)
                    .iter()
                    .filter_map(secret)
                    .collect(),
            },
            _ => return None,
        };
        Some(card)
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
