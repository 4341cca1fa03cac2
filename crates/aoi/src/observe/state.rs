//! The observed state at one moment, and the difference between two states.

use serde_json::Value;

use super::files::Files;

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
pub enum Seen {
    /// All resources, by id.
    Items(Vec<(String, Value)>),
    /// Some of the resources, because the tool truncated its output.
    Part(Vec<(String, Value)>),
    /// A directory, and the text of its files.
    Files(Files, Vec<u8>),
    /// The output of a program.
    Text(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct State {
    /// `None` if the probe file has no `observe`.
    pub seen: Option<Seen>,
    /// Snapshot of the run's directories: home, working directory, temporary files.
    pub files: Files,
}

/// The difference between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It cannot be observed.
    Unseen,
    None,
    Some {
        told: String,
        /// Number of resources, if they can be counted.
        count: Option<usize>,
    },
}

impl Effect {
    pub fn is_some(&self) -> bool {
        matches!(self, Effect::Some { .. })
    }
}

impl State {
    pub fn effect(&self, later: &State) -> Effect {
        match (&self.seen, &later.seen) {
            (Some(Seen::Items(before)), Some(Seen::Items(after))) => items(before, after),
            (Some(Seen::Files(before, _)), Some(Seen::Files(after, _))) => {
                match before.changed(after).as_slice() {
                    [] => Effect::None,
                    paths => Effect::Some {
                        told: format!("changed: {}", shown(paths)),
                        count: None,
                    },
                }
            }
            (Some(Seen::Text(before)), Some(Seen::Text(after))) => match before == after {
                true => Effect::None,
                false => Effect::Some {
                    told: "the output of `observe` changed".to_owned(),
                    count: None,
                },
            },
            _ => Effect::Unseen,
        }
    }

    /// Whether the number of resources grew although one with the id already existed. `None` if
    /// they cannot be counted.
    pub fn doubled(&self, later: &State, id: &str) -> Option<bool> {
        match (&self.seen, &later.seen) {
            (Some(Seen::Items(before)), Some(Seen::Items(after))) => {
                let was_there = before.iter().any(|(known, _)| known == id);
                Some(was_there && after.len() > before.len())
            }
            _ => None,
        }
    }

    /// Whether a resource with the id exists. `None` if that cannot be observed.
    pub fn mentions(&self, id: &str) -> Option<bool> {
        match self.seen.as_ref()? {
            Seen::Items(items) => Some(items.iter().any(|(known, _)| known == id)),
            // A missing resource may be on a later page.
            Seen::Part(items) => items.iter().any(|(known, _)| known == id).then_some(true),
            Seen::Files(_, text) | Seen::Text(text) => Some(has_word(text, id.as_bytes())),
        }
    }

    /// Whether only a part of the resources was observed, so that a missing one means nothing.
    pub fn is_partial(&self) -> bool {
        matches!(self.seen, Some(Seen::Part(_)))
    }

    /// A state without `observe`, with files only.
    pub fn blind(files: Files) -> State {
        State { seen: None, files }
    }

    /// Files in the home and working directory that were added, removed or changed.
    pub fn left(&self, later: &Files) -> Vec<String> {
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
    pub fn shown(paths: &[String]) -> String {
        shown(paths)
    }

    /// Files of the run that were written, other than the observed state.
    pub fn strays(&self, later: &State) -> Option<String> {
        match self.files.changed(&later.files).as_slice() {
            [] => None,
            paths => Some(shown(paths)),
        }
    }
}

/// The first three, and the number of further ones.
fn shown(paths: &[String]) -> String {
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
    let told: Vec<String> = parts
        .iter()
        .filter(|(_, ids)| !ids.is_empty())
        .map(|(what, ids)| format!("{what}: {}", shown(ids)))
        .collect();
    Effect::Some {
        told: told.join("; "),
        count: Some(count),
    }
}

/// An event without the fields that may differ between runs.
pub fn plain(event: &Value) -> Value {
    match event {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
            Value::Object(kept.map(|(name, v)| (name.clone(), plain(v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(items: &[(&str, &str)]) -> State {
        let item = |(id, name): &(&str, &str)| ((*id).to_owned(), json!({ "name": name }));
        State {
            seen: Some(Seen::Items(items.iter().map(item).collect())),
            files: Files::default(),
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
                Effect::Some { count: seen, .. } => assert_eq!(seen, Some(count)),
                other => panic!("{other:?}"),
            }
        }
        let blind = State {
            seen: None,
            files: Files::default(),
        };
        assert_eq!(blind.effect(&blind), Effect::Unseen);
    }

    #[test]
    fn a_truncated_observation_proves_no_absence() {
        let part = |items: &[(&str, &str)]| match state(items).seen {
            Some(Seen::Items(items)) => State {
                seen: Some(Seen::Part(items)),
                files: Files::default(),
            },
            _ => panic!("resources"),
        };
        let (few, more) = (part(&[("a", "1")]), part(&[("a", "1"), ("b", "1")]));
        assert_eq!(few.effect(&few), Effect::Unseen);
        assert_eq!(few.effect(&more), Effect::Unseen);
        assert_eq!(state(&[("a", "1")]).effect(&more), Effect::Unseen);
        assert_eq!(few.doubled(&more, "a"), None);
        assert_eq!(few.mentions("a"), Some(true));
        assert_eq!(few.mentions("b"), None);
    }

    #[test]
    fn an_id_matches_whole_words_only() {
        let text = State {
            seen: Some(Seen::Text(b"item-10 \"item-2\"".to_vec())),
            files: Files::default(),
        };
        assert_eq!(text.mentions("item-1"), Some(false));
        assert_eq!(text.mentions("item-2"), Some(true));
        assert_eq!(state(&[("a", "1")]).mentions("b"), Some(false));
    }

    #[test]
    fn volatile_fields_are_ignored() {
        let one = json!({ "id": "a", "timestamp": "x", "in": [{ "trace_id": 1, "n": 2 }] });
        assert_eq!(plain(&one), json!({ "id": "a", "in": [{ "n": 2 }] }));
    }
}
