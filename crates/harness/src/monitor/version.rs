//! Disables the checks for a protocol version if the agent chose a different version.

use serde_json::Value;

use super::view::result;
use super::{Ending, Ledger, Monitor, Notes, Seen};

/// Runs monitors for version 1, unless the agent chose a later version.
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

/// Runs monitors for the version 2 draft, if the agent chose it. Notes from before the choice are
/// held back until then.
pub struct SecondVersion {
    monitors: Vec<Box<dyn Monitor>>,
    /// `None` before the choice.
    is_draft: Option<bool>,
    early: Notes,
}

impl SecondVersion {
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> Self {
        SecondVersion {
            monitors,
            is_draft: None,
            early: Notes::default(),
        }
    }
}

impl Monitor for SecondVersion {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes) {
        if let Some((asked, result)) = result(seen)
            && asked.method == "initialize"
            && self.is_draft.is_none()
        {
            let version = result.get("protocolVersion").and_then(Value::as_f64);
            self.is_draft = Some(version == Some(2.0));
            if self.is_draft == Some(true) {
                notes.take(std::mem::take(&mut self.early));
            }
        }
        let notes = match self.is_draft {
            None => &mut self.early,
            Some(true) => notes,
            Some(false) => return,
        };
        for monitor in &mut self.monitors {
            monitor.see(seen, ledger, notes);
        }
    }

    fn end(&mut self, ending: &Ending, ledger: &Ledger, notes: &mut Notes) {
        if self.is_draft != Some(true) {
            return;
        }
        for monitor in &mut self.monitors {
            monitor.end(ending, ledger, notes);
        }
    }
}
