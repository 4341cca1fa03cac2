//! Finds the path from the root of a tree to one of its nodes. Nodes are compared by address.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::tree::{Node, Value};

/// Number of tree searches before a table of all nodes is built.
const SEARCHES: usize = 16;

/// Finds paths to nodes. The first lookups search the tree. After that a table of all nodes is
/// built, so that many findings in a large file do not take quadratic time.
#[derive(Debug, Default)]
pub struct NodePaths {
    searches: AtomicUsize,
    table: OnceLock<HashMap<usize, Step>>,
}

#[derive(Debug)]
struct Step {
    parent: usize,
    index: usize,
}

/// Address of a node. Nodes below the root are on the heap and do not move while the document
/// exists.
fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

impl NodePaths {
    /// Path from the root to a node, as the index of each child.
    pub fn path_to(&self, root: &Node, target: &Node) -> Option<Vec<usize>> {
        if std::ptr::eq(root, target) {
            return Some(Vec::new());
        }
        if self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES {
            let mut path = Vec::new();
            return search(root, target, &mut path).then_some(path);
        }
        let table = self.table.get_or_init(|| {
            let mut table = HashMap::new();
            // The root itself moves with its document, so its address is not stored: 0 marks
            // its children.
            index_children(root, 0, &mut table);
            table
        });
        let mut path = Vec::new();
        let mut at = address(target);
        while at != 0 {
            let step = table.get(&at)?;
            path.push(step.index);
            at = step.parent;
        }
        path.reverse();
        Some(path)
    }
}

fn children(node: &Node) -> impl Iterator<Item = &Node> {
    let (items, entries) = match &node.value {
        Value::Seq(items) => (items.as_slice(), [].as_slice()),
        Value::Map(entries) => ([].as_slice(), entries.as_slice()),
        _ => ([].as_slice(), [].as_slice()),
    };
    items.iter().chain(entries.iter().map(|e| &e.value))
}

/// Depth-first search. The parser limits the depth, so the recursion is bounded.
fn search(node: &Node, target: &Node, path: &mut Vec<usize>) -> bool {
    for (i, child) in children(node).enumerate() {
        path.push(i);
        if std::ptr::eq(child, target) || search(child, target, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn index_children(node: &Node, parent: usize, table: &mut HashMap<usize, Step>) {
    for (index, child) in children(node).enumerate() {
        let at = address(child);
        table.insert(at, Step { parent, index });
        index_children(child, at, table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn the_table_and_the_search_agree() {
        let text = "---\na: [1, {b: 2}]\n~/x: {c: [[3]]}\n---\n";
        let doc = Document::parse("x.md", text.to_owned());
        let root = doc.root.as_ref().expect("a mapping");
        let pointers = ["", "/a", "/a/0", "/a/1", "/a/1/b", "/~0~1x/c/0/0"];
        for _ in 0..2 * SEARCHES {
            for pointer in pointers {
                let node = doc.at_pointer(pointer).expect("a node");
                assert_eq!(doc.pointer_of(node).as_deref(), Some(pointer));
            }
        }
        // A document may move, but its nodes do not.
        let boxed = Box::new(doc.path_of(root));
        assert_eq!(*boxed, Some(Vec::new()));
        let copy = root.clone();
        let inside = copy.get("a").expect("a node");
        assert_eq!(doc.pointer_of(inside), None);
    }
}
