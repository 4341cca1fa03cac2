//! Monitors: checks that always run, whatever a case does. A monitor sees every line of one
//! connection once, in order, and notes whether requirements held or were violated.
//!
//! A requirement that was never exercised is `not_verified`, because silence proves nothing.

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

/// Maximum number of violations of one requirement that are kept per connection. Others are only
/// counted.
const KEPT: usize = 4;

/// A line, with what is known about it.
pub struct Seen<'a> {
    pub line: &'a Line,
    /// `None` if the bytes are not JSON.
    pub json: Option<&'a Value>,
    pub envelope: Option<&'a Envelope>,
    /// The request that this line answers, in either direction.
    pub answers: Option<&'a Asked>,
}

/// How the connection ended.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Whether the harness closed stdin after everything was answered. Only then is a missing
    /// response the agent's fault.
    pub is_orderly: bool,
    /// The number of the last line.
    pub last_line: u64,
}

pub trait Monitor: Send {
    fn see(&mut self, seen: &Seen<'_>, ledger: &Ledger, notes: &mut Notes);
    /// Called at the end of the connection.
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

/// What the monitors noted, by requirement id.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub found: BTreeMap<&'static str, Found>,
}

#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Number of times the requirement could have been violated, but was not.
    pub held: u64,
    pub broken: u64,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub message: String,
    /// Line numbers that prove it.
    pub lines: Vec<u64>,
    /// JSON Pointer to the value that is wrong, if there is a single one.
    pub at: Option<String>,
    /// Whether this is a heuristic, which is at most a warning.
    pub is_guess: bool,
}

impl Notes {
    /// Adds the notes of another monitor.
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

    /// Like `broken`, with the JSON Pointer to the error in the first of the lines.
    pub fn broken_at(
        &mut self,
        requirement: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, Some(at.into()), message.into(), lines, false);
    }

    /// Like `broken`, but at most a warning.
    pub fn doubtful(
        &mut self,
        requirement: &'static str,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, None, message.into(), lines, true);
    }

    /// Like `broken_at`, but at most a warning.
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
