//! What is always watched, whatever a case does. A monitor sees every line of one connection
//! once, in order, and notes where a statement held and where it was broken.
//!
//! A statement that nothing touched is `not_verified`: silence proves nothing.

mod draft;
mod elicitation;
mod envelope;
mod extensions;
mod frame;
mod framing;
mod ids;
mod initialize;
mod ledger;
mod mcp;
mod owner;
mod permissions;
mod plans;
mod services;
mod sessions;
mod settings;
mod shapes;
#[cfg(test)]
mod tests;
mod time;
mod tools;
mod turns;
mod version;
mod view;
mod watch;

use std::collections::BTreeMap;

use serde_json::Value;

use frame::Frame;
use ledger::Asked;
pub use ledger::Ledger;
pub(crate) use ledger::{id_key, session_of};
pub(crate) use mcp::mcp;
pub use watch::Watch;

use agentproto_wire::{Envelope, Line};

/// Violations of one statement that one connection keeps; the rest is counted.
const KEPT: usize = 4;

/// A line with what is known of it.
pub struct Seen<'a> {
    pub line: &'a Line,
    /// `None` where the bytes are no JSON.
    pub json: Option<&'a Value>,
    pub envelope: Option<&'a Envelope>,
    /// The request that this answers; for both directions.
    pub answers: Option<&'a Asked>,
}

/// How the connection came to its end.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// The harness let it run to its end: input closed after everything was answered. What an
    /// agent still owes is only then its own fault.
    pub is_orderly: bool,
    /// The number of the last line.
    pub last_line: u64,
}

pub trait Monitor: Send {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes);
    /// The connection is over.
    fn end(&mut self, _ending: &Ending, _ledger: &Ledger, _notes: &mut Notes) {}
}

/// The monitors of ACP v1, for one connection.
pub fn acp() -> Vec<Box<dyn Monitor>> {
    vec![
        Box::new(framing::Framing::default()),
        Box::new(envelope::Envelopes),
        Box::new(ids::Ids::default()),
        Box::new(version::FirstVersion::new(vec![
            Box::new(shapes::Shapes),
            Box::new(initialize::Initialize),
            Box::new(sessions::Sessions::default()),
            Box::new(turns::Turns::default()),
            Box::new(tools::Tools::default()),
            Box::new(permissions::Permissions::default()),
            Box::new(plans::Plans::default()),
            Box::new(settings::Settings::default()),
            Box::new(services::Services::default()),
            Box::new(elicitation::Elicitations::default()),
            Box::new(extensions::Extensions),
        ])),
    ]
}

/// The monitors of the draft of ACP v2, for one connection.
pub fn acp_v2() -> Vec<Box<dyn Monitor>> {
    vec![Box::new(version::SecondVersion::new(vec![
        Box::new(framing::Framing::default()),
        Box::new(envelope::Envelopes),
        Box::new(ids::Ids::default()),
        Box::new(draft::Draft::default()),
    ]))]
}

/// What was noted, by requirement.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub found: BTreeMap<&'static str, Found>,
}

#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Occasions at which the statement could have been broken, and was not.
    pub held: u64,
    pub broken: u64,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub message: String,
    /// Line numbers that prove it.
    pub lines: Vec<u64>,
    /// JSON Pointer of what is wrong, where one place in the message is.
    pub at: Option<String>,
    /// Told as a warning, whatever the level of the statement: a heuristic.
    pub is_guess: bool,
}

impl Notes {
    /// Takes in what was noted elsewhere.
    fn take(&mut self, other: Notes) {
        for (requirement, found) in other.found {
            let own = self.found.entry(requirement).or_default();
            own.held += found.held;
            own.broken += found.broken;
            let room = KEPT.saturating_sub(own.violations.len());
            own.violations
                .extend(found.violations.into_iter().take(room));
        }
    }

    pub fn held(&mut self, requirement: &'static str) {
        self.found.entry(requirement).or_default().held += 1;
    }

    pub fn broken(&mut self, requirement: &'static str, message: impl Into<String>, lines: &[u64]) {
        self.note(requirement, None, message.into(), lines, false);
    }

    /// As `broken`, with the JSON Pointer of what is wrong in the first of the lines.
    pub fn broken_at(
        &mut self,
        requirement: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, Some(at.into()), message.into(), lines, false);
    }

    /// As `broken`, but never worse than a warning.
    pub fn doubtful(
        &mut self,
        requirement: &'static str,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, None, message.into(), lines, true);
    }

    /// As `broken_at`, but never worse than a warning.
    pub fn doubtful_at(
        &mut self,
        requirement: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, Some(at.into()), message.into(), lines, true);
    }

    fn note(
        &mut self,
        requirement: &'static str,
        at: Option<String>,
        message: String,
        lines: &[u64],
        is_guess: bool,
    ) {
        let found = self.found.entry(requirement).or_default();
        found.broken += 1;
        let is_new = |v: &&Violation| v.message == message;
        if found.violations.len() < KEPT && found.violations.iter().find(is_new).is_none() {
            found.violations.push(Violation {
                message,
                lines: lines.to_vec(),
                at,
                is_guess,
            });
        }
    }
}
