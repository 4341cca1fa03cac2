//! Finding the way from the root of a tree to one of its nodes, by identity.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::tree::{Node, Value};

/// So many searches cost less than a table of all nodes.
const SEARCHES: usize = 16;

/// The way to each node. A file with few findings is searched for each of them; one with
/// many gets a table of all its nodes, so that their number and its size do not multiply.
#[derive(Debug, Default)]
pub struct Places {
    searches: AtomicUsize,
    table: OnceLock<HashMap<usize, Step>>,
}

#[derive(Debug)]
struct Step {
    parent: usize,
    index: usize,
}

/// Nodes below the root lie on the heap and stay where they are while the document lives.
fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}

impl Places {
    /// Positions of the children on the way from the root to a node.
    pub fn way(&self, root: &Node, target: &Node) -> Option<Vec<usize>> {
        if std::ptr::eq(root, target) {
            return Some(Vec::new());
        }
        if self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES {
            let mut way = Vec::new();
            return search(root, target, &mut way).then_some(way);
        }
        let table = self.table.get_or_init(|| {
            let mut table = HashMap::new();
            // The root itself may move with its document: its children have no parent here.
            note(root, 0, &mut table);
            table
        });
        let mut way = Vec::new();
        let mut at = address(target);
        while at != 0 {
            let step = table.get(&at)?;
            way.push(step.index);
            at = step.parent;
        }
        way.reverse();
        Some(way)
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

/// Depth is bounded by the parser, so recursion is.
fn search(node: &Node, target: &Node, way: &mut Vec<usize>) -> bool {
    for (i, child) in children(node).enumerate() {
        way.push(i);
        if std::ptr::eq(child, target) || search(child, target, way) {
            return true;
        }
        way.pop();
    }
    false
}

fn note(node: &Node, parent: usize, table: &mut HashMap<usize, Step>) {
    for (index, child) in children(node).enumerate() {
        let at = address(child);
        table.insert(at, Step { parent, index });
        note(child, at, table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn the_table_says_what_the_search_says() {
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
        // A document may move; its nodes do not.
        let boxed = Box::new(doc.path_of(root));
        assert_eq!(*boxed, Some(Vec::new()));
        let stranger = root.clone();
        let inside = stranger.get("a").expect("a node");
        assert_eq!(doc.pointer_of(inside), None);
    }
}
