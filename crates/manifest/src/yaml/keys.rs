//! Looking up keys of a mapping that is still being read.

use std::collections::HashMap;

use smol_str::SmolStr;

use crate::tree::Entry;

/// Below this a walk over the entries is quicker than a table.
const FEW: usize = 32;

/// Tells where a key stands: few entries are compared one by one, many go into a table.
#[derive(Default)]
pub(super) struct Keys {
    table: HashMap<SmolStr, usize>,
    /// How many of the entries the table has.
    known: usize,
}

impl Keys {
    /// The last entry with this key. `entries` only ever grows between calls.
    pub fn find(&mut self, entries: &[Entry], key: &str) -> Option<usize> {
        if entries.len() < FEW {
            return entries.iter().rposition(|e| e.key == key);
        }
        for (i, entry) in entries.iter().enumerate().skip(self.known) {
            self.table.insert(entry.key.clone(), i);
        }
        self.known = entries.len();
        self.table.get(key).copied()
    }
}
