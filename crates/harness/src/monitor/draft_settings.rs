//! Config options of the version 2 draft: V2-29, V2-30.

use std::collections::HashMap;

use serde_json::Value;

use super::view::{items, result, text, update};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct DraftSettingsMonitor {
    /// The last complete list of each session: ids and values, and its line.
    options: HashMap<String, (Vec<(String, Value)>, u64)>,
}

/// Maximum number of sessions that are remembered.
const MAX_REMEMBERED: usize = 1_000;

impl Monitor for DraftSettingsMonitor {
    fn on_line(&mut self, view: &LineView<'_>, _: &ConversationState, notes: &mut MonitorNotes) {
        let number = view.line.number;
        if let Some((session, "config_option_update", update)) = update(view) {
            let options = items(update, "configOptions");
            values(options, number, notes);
            self.is_complete(session, options, number, notes);
            self.remember(session, options, number);
        } else if let Some((request, result)) = result(view)
            && result.get("configOptions").is_some()
        {
            let options = items(result, "configOptions");
            values(options, number, notes);
            let session = match request.method.as_str() {
                "session/new" => text(result, "sessionId"),
                _ => text(&request.params, "sessionId"),
            };
            self.remember(session, options, number);
        }
    }
}

impl DraftSettingsMonitor {
    /// Checks that an update lists all options. Options may disappear if another one changes, but
    /// if all remaining ones have changed, the list is partial.
    fn is_complete(&self, session: &str, options: &[Value], number: u64, notes: &mut MonitorNotes) {
        let Some((before, line)) = self.options.get(session).filter(|(all, _)| !all.is_empty())
        else {
            return;
        };
        let is_listed = |id: &str| options.iter().any(|option| text(option, "configId") == id);
        let gone: Vec<&str> = before.iter().map(|(id, _)| id.as_str()).collect();
        let gone: Vec<&str> = gone.into_iter().filter(|id| !is_listed(id)).collect();
        if gone.is_empty() {
            return notes.pass("V2-29");
        }
        let is_same = |option: &Value| {
            let value = option.get("currentValue");
            let id = text(option, "configId");
            before
                .iter()
                .any(|(known, old)| known == id && Some(old) == value)
        };
        let what = format!(
            "the update lists {} of {} options and must list all of them; missing: {}",
            options.len(),
            before.len(),
            gone.join(", ")
        );
        match options.iter().any(is_same) {
            true => notes.suspicion("V2-29", what, &[number, *line]),
            false => {
                let what = format!("{what}; only changed options are listed");
                notes.violation("V2-29", what, &[number, *line]);
            }
        }
    }

    fn remember(&mut self, session: &str, options: &[Value], number: u64) {
        if self.options.len() > MAX_REMEMBERED {
            self.options.clear();
        }
        let all = options.iter().map(|option| {
            let value = option.get("currentValue").cloned().unwrap_or_default();
            (text(option, "configId").to_owned(), value)
        });
        self.options
            .insert(session.to_owned(), (all.collect(), number));
    }
}

/// Checks that the value of each select option is one of its values, which may be in groups.
fn values(options: &[Value], number: u64, notes: &mut MonitorNotes) {
    for option in options
        .iter()
        .filter(|option| text(option, "type") == "select")
    {
        let choices = items(option, "options").iter();
        let values = choices.flat_map(|choice| match items(choice, "options") {
            [] => std::slice::from_ref(choice),
            group => group,
        });
        let current = text(option, "currentValue");
        let mut values = values.map(|choice| text(choice, "value"));
        match values.any(|value| value == current) {
            true => notes.pass("V2-30"),
            false => {
                let id = text(option, "configId");
                let what = format!(
                    "the option \"{id}\" has the value \"{current}\", which is not in its `options`"
                );
                notes.violation("V2-30", what, &[number]);
            }
        }
    }
}
