//! Verifies edits: the changed file is parsed again. It must have the intended tree, the same
//! body and all of its comments.

use crate::finding::Edit;
use agentproto_manifest::comments::comments;
use agentproto_manifest::{Document, Node, Span, Value};

/// Maximum number of bytes that are parsed again per document. A manifest with a mistake on every
/// line needs far less. Without a limit, a huge file with thousands of findings would take minutes.
const BUDGET: usize = 8 * 1024 * 1024;

/// Counts one verification of the document. `None` if the budget is exhausted.
pub(super) fn within_budget(doc: &Document) -> Option<()> {
    (doc.add_reparse() <= BUDGET).then_some(())
}

/// Returns the edits if they have the same effect on the tree as `change` and no other effect.
pub(super) fn verify(
    doc: &Document,
    edits: Vec<Edit>,
    change: impl FnOnce(&mut Node) -> Option<()>,
) -> Option<Vec<Edit>> {
    let front = doc.frontmatter?;
    if edits.iter().any(|e| !front.yaml.contains(e.span)) {
        return None;
    }
    let mut expected = doc.root.clone()?;
    change(&mut expected)?;
    let text = apply_edits(&doc.text, &edits)?;
    let after = Document::parse(doc.path.clone(), text);
    let same_problems = after.problems.len() == doc.problems.len()
        && after
            .problems
            .iter()
            .zip(&doc.problems)
            .all(|(a, b)| a.kind == b.kind);
    let fits = same_problems
        && after
            .root
            .as_ref()
            .is_some_and(|root| same(root, &expected))
        && after.body() == doc.body()
        && comment_texts(&after) == comment_texts(doc);
    fits.then_some(edits)
}

/// Applies edits to a text. `None` if they overlap or do not start and end at character boundaries.
pub fn apply_edits(text: &str, edits: &[Edit]) -> Option<String> {
    let mut order: Vec<&Edit> = edits.iter().collect();
    order.sort_by_key(|e| e.span);
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in order {
        let Span { start, end } = edit.span;
        out.push_str(text.get(at..start as usize)?);
        text.get(start as usize..end as usize)?;
        out.push_str(&edit.text);
        at = end as usize;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

fn comment_texts(doc: &Document) -> Vec<&str> {
    let mut texts: Vec<&str> = comments(doc).into_iter().map(|s| doc.slice(s)).collect();
    texts.sort_unstable();
    texts
}

/// Whether two trees have the same values in the same order, ignoring spans and styles.
fn same(a: &Node, b: &Node) -> bool {
    match (&a.value, &b.value) {
        (Value::Seq(a), Value::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| {
                    a.key == b.key && a.key_kind == b.key_kind && same(&a.value, &b.value)
                })
        }
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

pub(super) fn node_at<'n>(root: &'n mut Node, path: &[usize]) -> Option<&'n mut Node> {
    path.iter().try_fold(root, |node, i| match &mut node.value {
        Value::Seq(items) => items.get_mut(*i),
        Value::Map(entries) => entries.get_mut(*i).map(|e| &mut e.value),
        _ => None,
    })
}
