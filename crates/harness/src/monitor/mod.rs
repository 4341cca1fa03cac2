//! Monitors: checks that always run, whatever a case does. A monitor sees every line of one
//! connection once, in order, and notes whether requirements held or were violated.
//!
//! A requirement that was never exercised is `not_verified`, because silence proves nothing.

mod conversation;
mod draft;
mod draft_settings;
mod draft_shapes;
mod elicitation;
mod envelope;
mod extensions;
mod frame;
mod framing;
mod ids;
mod initialize;
mod mcp;
mod owner;
mod permissions;
mod plans;
mod runner;
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

use std::collections::BTreeMap;

use serde_json::Value;

pub use conversation::ConversationState;
use conversation::RequestRecord;
pub(crate) use conversation::{id_key, session_of};
use frame::LineFrame;
pub(crate) use mcp::mcp;
pub use runner::MonitorRunner;

use agentproto_wire::{Envelope, Line};

/// Maximum number of violations of one requirement that are kept per connection. Others are only
/// counted.
const MAX_VIOLATIONS: usize = 4;

/// A line, with what is known about it.
pub struct LineView<'a> {
    /// The line of the transcript.
    pub line: &'a Line,
    /// `None` if the bytes are not JSON.
    pub json: Option<&'a Value>,
    /// JSON-RPC envelope, if the line is JSON.
    pub envelope: Option<&'a Envelope>,
    /// The request that this line answers, in either direction.
    pub answers: Option<&'a RequestRecord>,
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

/// Checks every line of a connection against some requirements.
pub trait Monitor: Send {
    /// Checks one line. `state` does not contain the line yet.
    fn on_line(&mut self, view: &LineView<'_>, state: &ConversationState, notes: &mut MonitorNotes);
    /// Called at the end of the connection.
    fn on_end(&mut self, _ending: &Ending, _ledger: &ConversationState, _notes: &mut MonitorNotes) {
    }
}

/// The monitors of ACP v1, for one connection.
pub fn acp() -> Vec<Box<dyn Monitor>> {
    vec![
        Box::new(framing::FramingMonitor::default()),
        Box::new(envelope::EnvelopeMonitor),
        Box::new(ids::IdMonitor::default()),
        Box::new(version::V1Monitors::new(vec![
            Box::new(shapes::ShapeMonitor),
            Box::new(initialize::InitializeMonitor),
            Box::new(sessions::SessionMonitor::default()),
            Box::new(turns::TurnMonitor::default()),
            Box::new(tools::ToolMonitor::default()),
            Box::new(permissions::PermissionMonitor::default()),
            Box::new(plans::PlanMonitor::default()),
            Box::new(settings::SettingsMonitor::default()),
            Box::new(services::ServiceMonitor::default()),
            Box::new(elicitation::ElicitationMonitor::default()),
            Box::new(extensions::ExtensionMonitor),
        ])),
    ]
}

/// The monitors of the draft of ACP v2, for one connection.
pub fn acp_v2() -> Vec<Box<dyn Monitor>> {
    vec![Box::new(version::V2Monitors::new(vec![
        Box::new(framing::FramingMonitor::default()),
        Box::new(envelope::EnvelopeMonitor),
        Box::new(ids::IdMonitor::default()),
        Box::new(sessions::SessionMonitor::default()),
        Box::new(draft_shapes::DraftShapeMonitor::default()),
        Box::new(draft_settings::DraftSettingsMonitor::default()),
        Box::new(draft::DraftMonitor::default()),
    ]))]
}

/// What the monitors noted, by requirement id.
#[derive(Clone, Debug, Default)]
pub struct MonitorNotes {
    /// What was found, by requirement id.
    pub found: BTreeMap<&'static str, RequirementNotes>,
}

/// What the monitors noted about one requirement.
#[derive(Clone, Debug, Default)]
pub struct RequirementNotes {
    /// Number of times the requirement could have been violated, but was not.
    pub passed: u64,
    /// Number of violations, including those that are not kept.
    pub violated: u64,
    /// The first violations with different messages, at most 4.
    pub violations: Vec<Violation>,
}

/// A violation that a monitor found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong, without a final period.
    pub message: String,
    /// Line numbers that prove it.
    pub lines: Vec<u64>,
    /// JSON Pointer to the value that is wrong, if there is a single one.
    pub at: Option<String>,
    /// Whether this is a heuristic, which is at most a warning.
    pub is_guess: bool,
}

impl MonitorNotes {
    /// Adds the notes of another monitor.
    fn take(&mut self, other: MonitorNotes) {
        for (requirement, found) in other.found {
            let own = self.found.entry(requirement).or_default();
            own.passed += found.passed;
            own.violated += found.violated;
            let room = MAX_VIOLATIONS.saturating_sub(own.violations.len());
            own.violations
                .extend(found.violations.into_iter().take(room));
        }
    }

    /// Notes that the requirement could have been violated, but was not.
    pub fn pass(&mut self, requirement: &'static str) {
        self.found.entry(requirement).or_default().passed += 1;
    }

    /// Notes a violation, with the transcript lines that prove it.
    pub fn violation(
        &mut self,
        requirement: &'static str,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, None, message.into(), lines, false);
    }

    /// Like `violation`, with the JSON Pointer to the error in the first of the lines.
    pub fn violation_at(
        &mut self,
        requirement: &'static str,
        at: impl Into<String>,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, Some(at.into()), message.into(), lines, false);
    }

    /// Like `violation`, but at most a warning.
    pub fn suspicion(
        &mut self,
        requirement: &'static str,
        message: impl Into<String>,
        lines: &[u64],
    ) {
        self.note(requirement, None, message.into(), lines, true);
    }

    /// Like `violation_at`, but at most a warning.
    pub fn suspicion_at(
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
        found.violated += 1;
        let is_new = |v: &&Violation| v.message == message;
        if found.violations.len() < MAX_VIOLATIONS && found.violations.iter().find(is_new).is_none()
        {
            found.violations.push(Violation {
                message,
                lines: lines.to_vec(),
                at,
                is_guess,
            });
        }
    }
}
