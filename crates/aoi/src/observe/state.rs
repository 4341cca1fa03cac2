//! What was observed at one moment, and what lies between two of them.

use serde_json::Value;

use super::files::Files;

/// Fields that differ from run to run and mean nothing.
const VOLATILE: [&str; 6] = [
    "timestamp",
    "elapsed_ms",
    "trace_id",
    "replayed",
    "rank",
    "request_id",
];

/// What the probe file's `observe` showed.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Resources, by id.
    Items(Vec<(String, Value)>),
    /// Some of the resources: the tool stopped at a bound.
    Part(Vec<(String, Value)>),
    /// A directory, and the text in it.
    Files(Files, Vec<u8>),
    /// What a program printed.
    Text(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct State {
    /// `None` where the probe file does not say how.
    pub seen: Option<Seen>,
    /// The world of the run: home, working directory, temporary files.
    pub files: Files,
}

/// What happened between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// There is no way to see it.
    Unseen,
    None,
    Some {
        told: String,
        /// How many resources, where they can be counted.
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
                    told: "what `observe` prints is different".to_owned(),
                    count: None,
                },
            },
            _ => Effect::Unseen,
        }
    }

    /// Whether there is one resource more although that of the id was there; `None` where they
    /// cannot be counted.
    pub fn doubled(&self, later: &State, id: &str) -> Option<bool> {
        match (&self.seen, &later.seen) {
            (Some(Seen::Items(before)), Some(Seen::Items(after))) => {
                let was_there = before.iter().any(|(known, _)| known == id);
                Some(was_there && after.len() > before.len())
            }
            _ => None,
        }
    }

    /// Whether a resource of this id is there; `None` where that cannot be seen.
    pub fn mentions(&self, id: &str) -> Option<bool> {
        match self.seen.as_ref()? {
            Seen::Items(items) => Some(items.iter().any(|(known, _)| known == id)),
            // What is missing there may be behind the bound.
            Seen::Part(items) => items.iter().any(|(known, _)| known == id).then_some(true),
            Seen::Files(_, text) | Seen::Text(text) => Some(has_word(text, id.as_bytes())),
        }
    }

    /// Whether only a part of what is there was seen: nothing follows from what is missing.
    pub fn is_partial(&self) -> bool {
        matches!(self.seen, Some(Seen::Part(_)))
    }

    /// What is known where nobody looked at anything but files.
    pub fn blind(files: Files) -> State {
        State { seen: None, files }
    }

    /// Files of the home and the working directory that are new, gone or other than before.
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

    /// Paths for a message.
    pub fn shown(paths: &[String]) -> String {
        shown(paths)
    }

    /// Files of the world that were written, other than what was observed on purpose.
    pub fn strays(&self, later: &State) -> Option<String> {
        match self.files.changed(&later.files).as_slice() {
            [] => None,
            paths => Some(shown(paths)),
        }
    }
}

/// The first few, and how many there are beside them.
fn shown(paths: &[String]) -> String {
    let first: Vec<&str> = paths.iter().take(3).map(String::as_str).collect();
    match paths.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Found, and not only as a part of a longer word.
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

/// An event without what differs from run to run.
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
            // The same resource twice is two.
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
    fn what_is_missing_in_a_part_may_be_behind_the_bound() {
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
    fn an_id_is_a_word_of_its_own() {
        let text = State {
            seen: Some(Seen::Text(b"item-10 \"item-2\"".to_vec())),
            files: Files::default(),
        };
        assert_eq!(text.mentions("item-1"), Some(false));
        assert_eq!(text.mentions("item-2"), Some(true));
        assert_eq!(state(&[("a", "1")]).mentions("b"), Some(false));
    }

    #[test]
    fn what_differs_from_run_to_run_is_no_difference() {
        let one = json!({ "id": "a", "timestamp": "x", "in": [{ "trace_id": 1, "n": 2 }] });
        assert_eq!(plain(&one), json!({ "id": "a", "in": [{ "n": 2 }] }));
    }
}
