//! Disables the checks for a protocol version if the agent chose a different version.

use serde_json::Value;

use super::view::result;
use super::{ConversationState, Ending, LineView, Monitor, MonitorNotes};
use agentproto_wire::{Direction, MessageKind};

/// Runs monitors for version 1, unless the agent chose a later version.
pub struct V1Monitors {
    monitors: Vec<Box<dyn Monitor>>,
    is_later: bool,
}

impl V1Monitors {
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> Self {
        V1Monitors {
            monitors,
            is_later: false,
        }
    }
}

impl Monitor for V1Monitors {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if let Some((request, result)) = result(view)
            && request.method == "initialize"
        {
            let version = result.get("protocolVersion").and_then(Value::as_u64);
            self.is_later = version.is_some_and(|version| version > 1);
        }
        if !self.is_later {
            for monitor in &mut self.monitors {
                monitor.on_line(view, state, notes);
            }
        }
    }

    fn on_end(&mut self, ending: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        if !self.is_later {
            for monitor in &mut self.monitors {
                monitor.on_end(ending, state, notes);
            }
        }
    }
}

/// The version in the response to `initialize`. Also reads a response with a wrong id or with an
/// error in addition, because only the monitors can report that.
fn chosen_version<'a>(view: &LineView<'a>) -> Option<&'a Value> {
    let is_response = view.line.direction == Direction::FromAgent
        && matches!(view.envelope?.kind, MessageKind::Response { .. });
    let is_of_another = view
        .answers
        .is_some_and(|request| request.method != "initialize");
    if !is_response || is_of_another {
        return None;
    }
    let result = view.json?.get("result")?;
    match view.answers {
        Some(_) => Some(result.get("protocolVersion").unwrap_or(&Value::Null)),
        None => result.get("protocolVersion"),
    }
}

/// Runs monitors for the version 2 draft, if the agent chose it. Notes from before the choice are
/// held back until then.
pub struct V2Monitors {
    monitors: Vec<Box<dyn Monitor>>,
    /// `None` before the choice.
    is_draft: Option<bool>,
    early: MonitorNotes,
}

impl V2Monitors {
    pub fn new(monitors: Vec<Box<dyn Monitor>>) -> Self {
        V2Monitors {
            monitors,
            is_draft: None,
            early: MonitorNotes::default(),
        }
    }
}

impl Monitor for V2Monitors {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        if self.is_draft.is_none()
            && let Some(version) = chosen_version(view)
        {
            self.is_draft = Some(version.as_f64() == Some(2.0));
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
            monitor.on_line(view, state, notes);
        }
    }

    fn on_end(&mut self, ending: &Ending, state: &ConversationState, notes: &mut MonitorNotes) {
        if self.is_draft != Some(true) {
            return;
        }
        for monitor in &mut self.monitors {
            monitor.on_end(ending, state, notes);
        }
    }
}
