//! Key lookup in a mapping that is still being read.

use std::collections::HashMap;

use smol_str::SmolStr;

use crate::tree::Entry;

/// Number of entries from which a table is faster than a linear search.
const LINEAR_LIMIT: usize = 32;

/// Finds the index of a key. Few entries are searched linearly, many are put into a table.
#[derive(Default)]
pub(super) struct Keys {
    table: HashMap<SmolStr, usize>,
    /// Number of entries that are in the table.
    known: usize,
}

impl Keys {
    /// Index of the last entry with this key. Between calls `entries` may only grow.
    pub fn find(&mut self, entries: &[Entry], key: &str) -> Option<usize> {
        if entries.len() < LINEAR_LIMIT {
            return entries.iter().rposition(|e| e.key == key);
        }
        for (i, entry) in entries.iter().enumerate().skip(self.known) {
            self.table.insert(entry.key.clone(), i);
        }
        self.known = entries.len();
        self.table.get(key).copied()
    }
}
