//! Modes and config options: MO-01, MO-04, CO-01, CO-02, CO-03, CO-06, CO-08.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::turns::with_start;
use super::view::{items, ours, repeated, result, text, update};
use super::{ConversationState, LineView, Monitor, MonitorNotes};

#[derive(Default)]
pub struct SettingsMonitor {
    sessions: HashMap<String, KnownSettings>,
}

/// The settings that a session reported.
#[derive(Default)]
struct KnownSettings {
    modes: HashSet<String>,
    /// Values of the config option with the category `mode`.
    mode_values: HashSet<String>,
    /// Whether the list of modes is invalid, and cannot be used for other checks.
    is_uncertain: bool,
    /// The line that listed the modes.
    modes_at: u64,
    /// The last list of options: id and value.
    options: Vec<(String, Value)>,
    /// The line that listed the options.
    options_at: u64,
    /// Values of the select options: option id and value.
    values: HashSet<(String, String)>,
    /// Values that the client set although they were not listed. Storing one is wrong, but not the
    /// agent's own value (CO-05).
    unlisted: HashSet<(String, String)>,
}

/// Maximum number of sessions that are remembered.
const MAX_REMEMBERED: usize = 1_000;

const CATEGORIES: [&str; 4] = ["mode", "model", "model_config", "thought_level"];

impl Monitor for SettingsMonitor {
    fn on_line(
        &mut self,
        view: &LineView<'_>,
        state: &ConversationState,
        notes: &mut MonitorNotes,
    ) {
        let number = view.line.number;
        if let Some((request, result)) = result(view) {
            let session = match request.method.as_str() {
                "session/new" => text(result, "sessionId"),
                method if !state.agent_offers(method) => return,
                "session/load" | "session/resume" | "session/set_config_option" => {
                    text(&request.params, "sessionId")
                }
                _ => return,
            };
            let lines = [number, request.line];
            let known = self.known(session);
            if let Some(modes) = result.get("modes").filter(|modes| modes.is_object()) {
                known.take_modes(modes, &lines, notes);
            }
            if let Some(Value::Array(options)) = result.get("configOptions") {
                check(options, "/result", &lines, (state, &known.unlisted), notes);
                known.take(options, number);
            }
        } else if let Some(("session/set_config_option", params)) = ours(view) {
            self.known(text(params, "sessionId")).set_by_client(params);
        } else if let Some((session, kind, update)) = update(view) {
            match kind {
                "current_mode_update" => self.known(session).mode(update, number, notes),
                "config_option_update" => {
                    if let Some(Value::Array(options)) = update.get("configOptions") {
                        let known = self.known(session);
                        let unlisted = &known.unlisted;
                        check(
                            options,
                            "/params/update",
                            &[number],
                            (state, unlisted),
                            notes,
                        );
                        known.is_full(options, number, notes);
                        known.take(options, number);
                    }
                }
                _ => {}
            }
        }
    }
}

impl SettingsMonitor {
    fn known(&mut self, session: &str) -> &mut KnownSettings {
        if self.sessions.len() > MAX_REMEMBERED {
            self.sessions.clear();
        }
        self.sessions.entry(session.to_owned()).or_default()
    }
}

impl KnownSettings {
    fn take_modes(&mut self, modes: &Value, lines: &[u64], notes: &mut MonitorNotes) {
        let ids = || {
            let modes = items(modes, "availableModes").iter();
            modes.filter_map(|mode| mode.get("id")?.as_str())
        };
        self.modes = ids().map(str::to_owned).collect();
        self.modes_at = lines.first().copied().unwrap_or_default();
        let current = modes.get("currentModeId").and_then(Value::as_str);
        self.is_uncertain = repeated(ids()).is_some();
        if let Some(id) = repeated(ids()) {
            let what = format!("two `availableModes` have the id \"{id}\"; ids must be unique");
            notes.violation("MO-01", what, lines);
        } else if let Some(current) = current {
            match self.modes.contains(current) {
                true => notes.pass("MO-01"),
                false => {
                    let what = format!(
                        "`currentModeId` is \"{current}\", which is not in `availableModes`: {}",
                        listed(ids())
                    );
                    notes.violation("MO-01", what, lines);
                }
            }
        }
    }

    fn mode(&self, update: &Value, number: u64, notes: &mut MonitorNotes) {
        let Some(Value::String(id)) = update.get("currentModeId") else {
            return;
        };
        if self.modes.contains(id) || self.mode_values.contains(id) {
            return notes.pass("MO-04");
        }
        if self.is_uncertain {
            return;
        }
        if self.modes.is_empty() {
            let what =
                format!("the mode changes to \"{id}\", but the session never listed its modes");
            return notes.suspicion("MO-04", what, &[number]);
        }
        let what = format!("the mode changes to \"{id}\", which is not in `availableModes`");
        notes.violation("MO-04", what, &[number, self.modes_at]);
    }

    fn set_by_client(&mut self, params: &Value) {
        if let Some(Value::String(value)) = params.get("value") {
            let pair = (text(params, "configId").to_owned(), value.clone());
            if !self.values.contains(&pair) {
                self.unlisted.insert(pair);
            }
        }
    }

    fn take(&mut self, options: &[Value], number: u64) {
        let pairs = options.iter().filter_map(|option| {
            let id = option.get("id")?.as_str()?.to_owned();
            Some((
                id,
                option.get("currentValue").cloned().unwrap_or(Value::Null),
            ))
        });
        self.options = pairs.collect();
        let modes = options.iter().filter(|o| text(o, "category") == "mode");
        let lists = modes.map(|option| items(option, "options"));
        self.mode_values = lists.flat_map(values).map(str::to_owned).collect();
        let pairs = options.iter().flat_map(|option| {
            let id = text(option, "id");
            values(items(option, "options")).map(move |value| (id.to_owned(), value.to_owned()))
        });
        self.values = pairs.collect();
        self.options_at = number;
    }

    /// Checks that an update lists all options. Options may disappear legitimately, but if all
    /// remaining ones have changed, the list is partial.
    fn is_full(&self, options: &[Value], number: u64, notes: &mut MonitorNotes) {
        if self.options.is_empty() {
            return;
        }
        let now = |id: &str| options.iter().find(|option| text(option, "id") == id);
        let gone: Vec<&str> = self.options.iter().map(|(id, _)| id.as_str()).collect();
        let gone: Vec<&str> = gone.into_iter().filter(|id| now(id).is_none()).collect();
        if gone.is_empty() {
            return notes.pass("CO-06");
        }
        let what = format!(
            "the update lists {} of {} options and must list all of them; missing: {}",
            options.len(),
            self.options.len(),
            listed(gone.into_iter())
        );
        let lines = [number, self.options_at];
        let is_same = |option: &&Value| {
            let mut before = self.options.iter();
            before.any(|(id, value)| {
                id == text(option, "id") && Some(value) == option.get("currentValue")
            })
        };
        // A different model may have different options.
        let models = options.iter().filter(|o| text(o, "category") == "model");
        let is_other_model = models.clone().any(|option| !is_same(&option));
        match options.iter().any(|option| is_same(&option)) {
            true if is_other_model => notes.pass("CO-06"),
            true => notes.suspicion("CO-06", what, &lines),
            false => notes.violation("CO-06", what, &lines),
        }
    }
}

fn listed<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let ids: Vec<String> = ids.take(12).map(|id| format!("\"{id}\"")).collect();
    ids.join(", ")
}

fn check(
    options: &[Value],
    root: &str,
    lines: &[u64],
    (state, unlisted): (&ConversationState, &HashSet<(String, String)>),
    notes: &mut MonitorNotes,
) {
    let ids = options.iter().map(|option| text(option, "id"));
    match repeated(ids.filter(|id| !id.is_empty())) {
        Some(id) => {
            let what = format!("two config options have the id \"{id}\"; ids must be unique");
            notes.violation("CO-02", what, lines);
        }
        None if options.len() > 1 => notes.pass("CO-02"),
        None => {}
    }
    for (index, option) in options.iter().enumerate() {
        let at = format!("{root}/configOptions/{index}");
        if option.get("currentValue").is_some() {
            notes.pass("CO-01");
        }
        kind(option, &at, lines, (state, unlisted), notes);
        if let Some(Value::String(category)) = option.get("category") {
            match CATEGORIES.contains(&category.as_str()) || category.starts_with('_') {
                true => notes.pass("CO-08"),
                false => {
                    let at = format!("{at}/category");
                    let what = format!(
                        "`{at}` is \"{category}\"; expected one of {}, or a custom name that \
                         starts with `_`",
                        listed(CATEGORIES.into_iter())
                    );
                    notes.violation_at("CO-08", at, what, lines);
                }
            }
        }
    }
}

fn kind(
    option: &Value,
    at: &str,
    lines: &[u64],
    (state, unlisted): (&ConversationState, &HashSet<(String, String)>),
    notes: &mut MonitorNotes,
) {
    let takes_boolean = state.client_can("/session/configOptions/boolean");
    match text(option, "type") {
        "boolean" if !takes_boolean => {
            let what = format!(
                "`{at}` is boolean, but the client did not announce `session.configOptions.boolean`"
            );
            let first = lines.first().copied().unwrap_or_default();
            notes.violation_at("CO-03", at, what, &with_start(first, state));
        }
        "select" => {
            if !takes_boolean {
                notes.pass("CO-03");
            }
            let (Some(Value::String(current)), Some(Value::Array(options))) =
                (option.get("currentValue"), option.get("options"))
            else {
                return;
            };
            let values: Vec<&str> = values(options).collect();
            if unlisted.contains(&(text(option, "id").to_owned(), current.clone())) {
                return;
            }
            match values.contains(&current.as_str()) {
                true => notes.pass("CO-02"),
                false => {
                    let at = format!("{at}/currentValue");
                    let what = format!(
                        "`{at}` is \"{current}\", which is not one of its options: {}",
                        listed(values.into_iter())
                    );
                    notes.violation_at("CO-02", at, what, lines);
                }
            }
        }
        _ => {}
    }
}

/// The values of a select, with or without groups.
fn values(options: &[Value]) -> impl Iterator<Item = &str> {
    options.iter().flat_map(|option| {
        let own = option.get("value").and_then(Value::as_str);
        let inner = items(option, "options").iter();
        own.into_iter()
            .chain(inner.filter_map(|option| option.get("value")?.as_str()))
    })
}
