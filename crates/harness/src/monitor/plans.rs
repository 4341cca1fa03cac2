//! Plans and commands: PL-02, SL-02.

use std::collections::HashMap;

use serde_json::Value;

use super::view::{items, repeated, text, turn_end, update};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct PlanMonitor {
    /// The last plan of each session in the current turn: entries and line.
    plans: HashMap<String, (Vec<String>, u64)>,
}

/// Maximum number of sessions that are remembered.
const MAX_REMEMBERED: usize = 1_000;

impl Monitor for PlanMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        let number = view.line.number;
        if let Some((session, kind, update)) = update(view) {
            match kind {
                "plan" => self.plan(session, update, number, notes),
                "available_commands_update" => commands(update, number, notes),
                _ => {}
            }
        } else if let Some((session, _)) = turn_end(view) {
            self.plans.remove(session);
        }
    }
}

impl PlanMonitor {
    /// A plan may be replaced, but a shorter one with only old entries looks like a partial update.
    fn plan(&mut self, session: &str, update: &Value, number: u64, notes: &mut MonitorNotes) {
        let entries = items(update, "entries").iter();
        let entries: Vec<String> = entries.map(|e| text(e, "content").to_owned()).collect();
        if let Some((before, line)) = self.plans.get(session) {
            let is_part = !entries.is_empty()
                && entries.len() < before.len()
                && entries.iter().all(|entry| before.contains(entry));
            match is_part {
                true => {
                    let what = format!(
                        "the plan has {} of the previous {} entries and no new ones; each update \
                         must contain the whole plan",
                        entries.len(),
                        before.len()
                    );
                    notes.suspicion("PL-02", what, &[number, *line]);
                }
                false => notes.pass("PL-02"),
            }
        }
        if self.plans.len() > MAX_REMEMBERED {
            self.plans.clear();
        }
        self.plans.insert(session.to_owned(), (entries, number));
    }
}

fn commands(update: &Value, number: u64, notes: &mut MonitorNotes) {
    let commands = items(update, "availableCommands");
    let names = || {
        let commands = commands.iter();
        commands.filter_map(|command| command.get("name")?.as_str())
    };
    if commands.is_empty() {
        return;
    }
    if let Some(name) = repeated(names()) {
        let what = format!("two commands have the name \"{name}\"");
        notes.violation("SL-02", what, &[number]);
    } else if let Some(name) = names().find(|name| name.starts_with('/')) {
        let what =
            format!("the command name \"{name}\" starts with a slash; clients add the slash");
        notes.violation("SL-02", what, &[number]);
    } else {
        notes.pass("SL-02");
    }
}
