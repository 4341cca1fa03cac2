//! Shapes and rules of version 1 are no measure for an agent that chose a later one.

use serde_json::Value;

use super::view::result;
use super::{Ending, Ledger, Monitor, Notes, Seen};

pub struct FirstVersion {
    monitors: Vec<Box<dyn Monitor>>,
    is_later: bool,
}

impl FirstVersion {
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> Self {
        FirstVersion {
            monitors,
            is_later: false,
        }
    }
}

impl Monitor for FirstVersion {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        if let Some((asked, result)) = result(seen)
            && asked.method == "initialize"
        {
            let version = result.get("protocolVersion").and_then(Value::as_u64);
            self.is_later = version.is_some_and(|version| version > 1);
        }
        if !self.is_later {
            for monitor in &mut self.monitors {
                monitor.see(seen, ledger, notes);
            }
        }
    }

    fn end(&mut self, ending: &Ending, ledger: &Ledger, notes: &mut Notes) {
        if !self.is_later {
            for monitor in &mut self.monitors {
                monitor.end(ending, ledger, notes);
            }
        }
    }
}
