//! Finds equal values in a tree, ignoring their spans and styles.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use agentproto_manifest::{Entry, Node, Value};

/// Below this number of items, comparing all pairs is faster than a hash table.
const SMALL_LIST: usize = 32;

fn same(a: &Node, b: &Node) -> bool {
    match (&a.value, &b.value) {
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => *a as f64 == *b,
        (Value::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
        (Value::Seq(a), Value::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => a.len() == b.len() && same_entries(a, b),
        (a, b) => a == b,
    }
}

fn same_entries(a: &[Entry], b: &[Entry]) -> bool {
    if a.len() < SMALL_LIST {
        return a
            .iter()
            .all(|x| b.iter().any(|y| x.key == y.key && same(&x.value, &y.value)));
    }
    let table: HashMap<&str, &Node> = b.iter().map(|e| (e.key.as_str(), &e.value)).collect();
    a.iter()
        .all(|x| table.get(x.key.as_str()).is_some_and(|y| same(&x.value, y)))
}

/// The duplicate items of a list, in order, each with the first equal item.
pub fn duplicates(items: &[Node]) -> Vec<(&Node, &Node)> {
    let mut found = Vec::new();
    if items.len() < SMALL_LIST {
        for (i, item) in items.iter().enumerate() {
            let earlier = items.get(..i).unwrap_or_default();
            if let Some(first) = earlier.iter().find(|other| same(other, item)) {
                found.push((item, first));
            }
        }
        return found;
    }
    let mut table: HashMap<u64, Vec<&Node>> = HashMap::with_capacity(items.len());
    for item in items {
        let alike = table.entry(digest(item)).or_default();
        match alike.iter().find(|other| same(other, item)) {
            Some(first) => found.push((item, *first)),
            None => alike.push(item),
        }
    }
    found
}

/// The nodes whose text occurred before, in order, each with the first node that has that text.
pub fn duplicate_texts<'d>(nodes: impl IntoIterator<Item = &'d Node>) -> Vec<(&'d Node, &'d Node)> {
    let mut firsts: HashMap<&str, &Node> = HashMap::new();
    let mut found = Vec::new();
    for node in nodes {
        let Some(text) = node.as_str() else { continue };
        let first = *firsts.entry(text).or_insert(node);
        if !std::ptr::eq(first, node) {
            found.push((node, first));
        }
    }
    found
}

/// A hash of a value that ignores spans, styles and the order of keys.
fn digest(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    match &node.value {
        Value::Null => 0.hash(&mut hasher),
        Value::Bool(b) => b.hash(&mut hasher),
        Value::Int(i) => number(*i as f64).hash(&mut hasher),
        Value::Float(f) => number(*f).hash(&mut hasher),
        Value::Str(s) => s.hash(&mut hasher),
        Value::Seq(items) => items.iter().for_each(|n| digest(n).hash(&mut hasher)),
        // A sum, because the order of keys does not matter.
        Value::Map(entries) => entries
            .iter()
            .fold(1u64, |sum, entry| {
                let mut hasher = DefaultHasher::new();
                (entry.key.as_str(), digest(&entry.value)).hash(&mut hasher);
                sum.wrapping_add(hasher.finish())
            })
            .hash(&mut hasher),
    }
    hasher.finish()
}

/// The bits of a number for hashing. `0` and `-0.0` are equal, and all NaNs are equal.
fn number(f: f64) -> u64 {
    if f == 0.0 {
        0
    } else if f.is_nan() {
        u64::MAX
    } else {
        f.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentproto_manifest::yaml;

    /// Indices of duplicate items, each with the index of the first one.
    fn positions(items: &[&str]) -> Vec<(usize, usize)> {
        let source = format!("[{}]", items.join(", "));
        let list = yaml::parse(&source, 0).root.expect("YAML");
        let at = |node: &Node| {
            let hit = list.items().iter().position(|n| std::ptr::eq(n, node));
            hit.expect("an item")
        };
        duplicates(list.items())
            .into_iter()
            .map(|(item, first)| (at(item), at(first)))
            .collect()
    }

    #[test]
    fn short_and_long_lists_give_the_same_duplicates() {
        let special = [
            "a",
            "1",
            "'1'",
            "1.0",
            "0",
            "-0.0",
            "{a: 1, b: 2}",
            "{b: 2, a: 1}",
            "{a: 1}",
            "[a, b]",
            "[b, a]",
            "[a, b]",
            ".nan",
            ".NaN",
            "null",
            "~",
            "true",
            "a",
            "a",
        ];
        let expected = [
            (3, 1),
            (5, 4),
            (7, 6),
            (11, 9),
            (13, 12),
            (15, 14),
            (17, 0),
            (18, 0),
        ];
        assert_eq!(positions(&special), expected);
        let fillers: Vec<String> = (0..SMALL_LIST).map(|i| format!("filler{i}")).collect();
        let many: Vec<&str> = special
            .into_iter()
            .chain(fillers.iter().map(String::as_str))
            .collect();
        assert_eq!(positions(&many), expected);
    }

    #[test]
    fn wide_mappings_are_compared_by_key() {
        let map = |range: &mut dyn Iterator<Item = usize>| {
            let pairs: Vec<String> = range.map(|i| format!("k{i}: {i}")).collect();
            format!("{{{}}}", pairs.join(", "))
        };
        let (up, down) = (map(&mut (0..40)), map(&mut (0..40).rev()));
        let other = up.replace("k7: 7", "k7: 8");
        assert_eq!(positions(&[&up, &down, &other]), [(1, 0)]);
    }
}
