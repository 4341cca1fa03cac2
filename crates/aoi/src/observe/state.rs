//! The observed state at one moment, and the difference between two states.

use serde_json::Value;

use super::files::FileSnapshot;

/// Fields that may differ between runs without meaning.
const VOLATILE: [&str; 6] = [
    "timestamp",
    "elapsed_ms",
    "trace_id",
    "replayed",
    "rank",
    "request_id",
];

/// What `observe` showed.
#[derive(Clone, Debug)]
pub enum Observation {
    /// All resources, by id.
    Items(Vec<(String, Value)>),
    /// Some of the resources, because the tool truncated its output.
    Partial(Vec<(String, Value)>),
    /// A directory, and the text of its files.
    Directory(FileSnapshot, Vec<u8>),
    /// The output of a program.
    Text(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct ObservedState {
    /// `None` if the probe file has no `observe`.
    pub observation: Option<Observation>,
    /// Snapshot of the run's directories: home, working directory, temporary files.
    pub files: FileSnapshot,
}

/// The difference between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It cannot be observed.
    Unknown,
    None,
    Some {
        summary: String,
        /// Number of resources, if they can be counted.
        count: Option<usize>,
    },
}

impl Effect {
    pub fn is_some(&self) -> bool {
        matches!(self, Effect::Some { .. })
    }
}

impl ObservedState {
    pub fn effect(&self, later: &ObservedState) -> Effect {
        match (&self.observation, &later.observation) {
            (Some(Observation::Items(before)), Some(Observation::Items(after))) => {
                items(before, after)
            }
            (Some(Observation::Directory(before, _)), Some(Observation::Directory(after, _))) => {
                match before.changed(after).as_slice() {
                    [] => Effect::None,
                    paths => Effect::Some {
                        summary: format!("changed: {}", first_three(paths)),
                        count: None,
                    },
                }
            }
            (Some(Observation::Text(before)), Some(Observation::Text(after))) => {
                match before == after {
                    true => Effect::None,
                    false => Effect::Some {
                        summary: "the output of `observe` changed".to_owned(),
                        count: None,
                    },
                }
            }
            _ => Effect::Unknown,
        }
    }

    /// Whether the number of resources grew although one with the id already existed. `None` if
    /// they cannot be counted.
    pub fn is_duplicated(&self, later: &ObservedState, id: &str) -> Option<bool> {
        match (&self.observation, &later.observation) {
            (Some(Observation::Items(before)), Some(Observation::Items(after))) => {
                let was_there = before.iter().any(|(known, _)| known == id);
                Some(was_there && after.len() > before.len())
            }
            _ => None,
        }
    }

    /// Whether a resource with the id exists. `None` if that cannot be observed.
    pub fn contains_id(&self, id: &str) -> Option<bool> {
        match self.observation.as_ref()? {
            Observation::Items(items) => Some(items.iter().any(|(known, _)| known == id)),
            // A missing resource may be on a later page.
            Observation::Partial(items) => {
                items.iter().any(|(known, _)| known == id).then_some(true)
            }
            Observation::Directory(_, text) | Observation::Text(text) => {
                Some(has_word(text, id.as_bytes()))
            }
        }
    }

    /// Whether only a part of the resources was observed, so that a missing one means nothing.
    pub fn is_partial(&self) -> bool {
        matches!(self.observation, Some(Observation::Partial(_)))
    }

    /// A state without `observe`, with files only.
    pub fn files_only(files: FileSnapshot) -> ObservedState {
        ObservedState {
            observation: None,
            files,
        }
    }

    /// Files in the home and working directory that were added, removed or changed.
    pub fn leftover_files(&self, later: &FileSnapshot) -> Vec<String> {
        let is_kept = |path: &String| path.starts_with("home/") || path.starts_with("cwd/");
        let is_directory = |path: &str| {
            let states = [&self.files, later];
            states.iter().any(|files| files.is_directory(path))
        };
        let mut changed = self.files.changed(later);
        changed.retain(|path| is_kept(path) && !is_directory(path));
        changed
    }

    /// Formats paths for a message.
    pub fn first_three(paths: &[String]) -> String {
        first_three(paths)
    }

    /// Files of the run that were written, other than the observed state.
    pub fn written_files(&self, later: &ObservedState) -> Option<String> {
        match self.files.changed(&later.files).as_slice() {
            [] => None,
            paths => Some(first_three(paths)),
        }
    }
}

/// The first three, and the number of further ones.
fn first_three(paths: &[String]) -> String {
    let first: Vec<&str> = paths.iter().take(3).map(String::as_str).collect();
    match paths.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Whether the text contains the word, and not only as a part of a longer word.
fn has_word(text: &[u8], word: &[u8]) -> bool {
    if word.is_empty() {
        return false;
    }
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    memchr::memmem::find_iter(text, word).any(|at| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        !is_part(before) && !is_part(text.get(at + word.len()))
    })
}

fn items(before: &[(String, Value)], after: &[(String, Value)]) -> Effect {
    let missing = |from: &[(String, Value)], all: &[(String, Value)]| {
        let mut rest: Vec<&(String, Value)> = all.iter().collect();
        let mut missing: Vec<String> = Vec::new();
        for item in from {
            match rest.iter().position(|other| *other == item) {
                Some(at) => {
                    rest.swap_remove(at);
                }
                None => missing.push(item.0.clone()),
            }
        }
        missing
    };
    let gone = missing(before, after);
    let new = missing(after, before);
    let other: Vec<String> = gone.iter().filter(|id| new.contains(id)).cloned().collect();
    let gone: Vec<String> = gone.into_iter().filter(|id| !other.contains(id)).collect();
    let new: Vec<String> = new.into_iter().filter(|id| !other.contains(id)).collect();
    let count = gone.len() + new.len() + other.len();
    if count == 0 {
        return Effect::None;
    }
    let parts = [("new", new), ("gone", gone), ("changed", other)];
    let summary: Vec<String> = parts
        .iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(what, ids)| format!("{what}: {}", first_three(ids)))
        .collect();
    Effect::Some {
        summary: summary.join("; "),
        count: Some(count),
    }
}

/// An event without the fields that may differ between runs.
pub fn without_volatile_fields(event: &Value) -> Value {
    match event {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
            Value::Object(
                kept.map(|(name, v)| (name.clone(), without_volatile_fields(v)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_volatile_fields).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(items: &[(&str, &str)]) -> ObservedState {
        let item = |(id, name): &(&str, &str)| ((*id).to_owned(), json!({ "name": name }));
        ObservedState {
            observation: Some(Observation::Items(items.iter().map(item).collect())),
            files: FileSnapshot::default(),
        }
    }

    #[test]
    fn effects_are_counted_by_resource() {
        let before = state(&[("a", "1"), ("b", "2")]);
        assert_eq!(
            before.effect(&state(&[("b", "2"), ("a", "1")])),
            Effect::None
        );
        for (after, count) in [
            (state(&[("a", "1")]), 1),
            (state(&[("a", "1"), ("b", "3")]), 1),
            (state(&[("a", "1"), ("b", "2"), ("c", "1"), ("d", "1")]), 2),
            // The same resource listed twice counts as two.
            (state(&[("a", "1"), ("b", "2"), ("b", "2")]), 1),
        ] {
            match before.effect(&after) {
                Effect::Some {
                    count: observation, ..
                } => assert_eq!(observation, Some(count)),
                other => panic!("{other:?}"),
            }
        }
        let files_only = ObservedState {
            observation: None,
            files: FileSnapshot::default(),
        };
        assert_eq!(files_only.effect(&files_only), Effect::Unknown);
    }

    #[test]
    fn a_truncated_observation_proves_no_absence() {
        let part = |items: &[(&str, &str)]| match state(items).observation {
            Some(Observation::Items(items)) => ObservedState {
                observation: Some(Observation::Partial(items)),
                files: FileSnapshot::default(),
            },
            _ => panic!("resources"),
        };
        let (few, more) = (part(&[("a", "1")]), part(&[("a", "1"), ("b", "1")]));
        assert_eq!(few.effect(&few), Effect::Unknown);
        assert_eq!(few.effect(&more), Effect::Unknown);
        assert_eq!(state(&[("a", "1")]).effect(&more), Effect::Unknown);
        assert_eq!(few.is_duplicated(&more, "a"), None);
        assert_eq!(few.contains_id("a"), Some(true));
        assert_eq!(few.contains_id("b"), None);
    }

    #[test]
    fn an_id_matches_whole_words_only() {
        let text = ObservedState {
            observation: Some(Observation::Text(b"item-10 \"item-2\"".to_vec())),
            files: FileSnapshot::default(),
        };
        assert_eq!(text.contains_id("item-1"), Some(false));
        assert_eq!(text.contains_id("item-2"), Some(true));
        assert_eq!(state(&[("a", "1")]).contains_id("b"), Some(false));
    }

    #[test]
    fn volatile_fields_are_ignored() {
        let one = json!({ "id": "a", "timestamp": "x", "in": [{ "trace_id": 1, "n": 2 }] });
        assert_eq!(
            without_volatile_fields(&one),
            json!({ "id": "a", "in": [{ "n": 2 }] })
        );
    }
}
