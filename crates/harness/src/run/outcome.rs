//! The outcome of a case: what was violated, what was checked, and what was observed.

use std::time::Duration;

use serde_json::Value;

use super::connection::TimeOuts;
use crate::monitor::MonitorNotes;
use agentproto_wire::Transcript;

/// A violation of one requirement in one case.
#[derive(Clone, Debug)]
pub struct CaseViolation {
    pub requirement: String,
    pub message: String,
    pub lines: Vec<u64>,
    /// JSON Pointer to the value that is wrong in one of the lines.
    pub at: Option<String>,
    pub is_guess: bool,
    /// Whether the agent exited during the case.
    pub is_exit: bool,
    /// The request that was not answered, if that is the violation.
    pub unanswered: Option<Unanswered>,
}

impl CaseViolation {
    /// A violation that the lines prove. The caller sets the requirement and the rest.
    pub fn new(message: String, lines: Vec<u64>) -> CaseViolation {
        CaseViolation {
            requirement: String::new(),
            message,
            lines,
            at: None,
            is_guess: false,
            is_exit: false,
            unanswered: None,
        }
    }
}

/// A request that was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    pub method: String,
    /// Whether the agent exited. Otherwise the time limit was reached.
    pub is_exit: bool,
}

/// Why a case has no verdict about the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoVerdict {
    NotApplicable(String),
    Skip(String),
    NotVerified(String),
    Error(String),
}

/// The results of a case.
#[derive(Default)]
pub struct CaseOutcome {
    pub violations: Vec<CaseViolation>,
    pub no_verdict: Option<NoVerdict>,
    /// Requirements without a verdict, each with its own reason.
    pub undecided: Vec<(String, NoVerdict)>,
    /// Requirements with at least one expectation that was checked.
    pub checked: Vec<String>,
    /// Lines that show what happened if nothing is violated.
    pub passed_lines: Vec<u64>,
    /// Everything that was sent and received, over all processes of the case.
    pub transcript: Transcript,
    /// Notes of the monitors, one entry per process.
    pub notes: Vec<MonitorNotes>,
    pub duration: Duration,
    pub startup: Duration,
    pub waits: Duration,
    pub agent: Duration,
    pub initialize: Value,
    /// Time limits that were reached.
    pub time_outs: TimeOuts,
    /// Lines that show that a requirement is met.
    pub proof: Vec<(String, Vec<u64>)>,
}

impl CaseOutcome {
    /// Whether the case ended without a clean result after a time limit was reached. Alone, it
    /// could have another result.
    pub fn is_late(&self) -> bool {
        let is_clean = self.violations.is_empty() && self.undecided.is_empty();
        self.time_outs.any && !(is_clean && self.no_verdict.is_none())
    }
}
