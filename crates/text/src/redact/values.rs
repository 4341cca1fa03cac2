//! Finds and replaces known values in text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use memchr::memmem;

/// Maximum number of values that are searched one by one. More values use an automaton.
const LINEAR_LIMIT: usize = 2;

/// Values that must not be shown.
#[derive(Clone, Default)]
pub struct SecretValues {
    all: BTreeSet<String>,
    /// Values added last.
    recent: Vec<String>,
    /// All other values. Each group has at most half as many values as the one before it, so
    /// adding values one at a time rebuilds few automata, and few of them search each text.
    groups: Vec<Group>,
}

/// Values that share one automaton.
#[derive(Clone, Default)]
struct Group {
    values: Vec<String>,
    /// Built on first use. `None` if the automaton cannot hold that many values.
    finder: OnceLock<Option<AhoCorasick>>,
}

impl SecretValues {
    /// Adds a value. Empty and known values are ignored.
    pub fn add(&mut self, value: String) {
        if value.is_empty() || !self.all.insert(value.clone()) {
            return;
        }
        self.recent.push(value);
        if self.recent.len() <= LINEAR_LIMIT {
            return;
        }
        let mut values = std::mem::take(&mut self.recent);
        while let Some(last) = self
            .groups
            .pop_if(|last| last.values.len() < 2 * values.len())
        {
            values.extend(last.values);
        }
        self.groups.push(Group {
            values,
            finder: OnceLock::new(),
        });
    }

    /// Whether no value was added.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Replaces each value in a text by `mark`. Values that overlap are replaced by one mark.
    pub fn replace<'t>(&self, text: &'t str, mark: &str) -> Cow<'t, str> {
        replace_places(text, &self.places(text), mark)
    }

    /// Ranges of the values in a text, in order. Ranges that overlap are merged.
    fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        self.each_place(text, &mut |start, end| found.push((start, end)));
        merge(&mut found);
        found
    }

    /// Calls `found` with the start and the end of each value in a text. If several values start at
    /// one place, it may be called only with the longest.
    pub(super) fn each_place(&self, text: &str, found: &mut impl FnMut(usize, usize)) {
        for group in &self.groups {
            group.each_place(text, found);
        }
        for value in &self.recent {
            each_place(value, text, found);
        }
    }
}

impl Group {
    fn each_place(&self, text: &str, found: &mut impl FnMut(usize, usize)) {
        let build = || {
            // Use the smallest kind of automaton, because every session has its own values.
            AhoCorasick::builder()
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .match_kind(MatchKind::LeftmostLongest)
                .build(&self.values)
                .ok()
        };
        let Some(finder) = self.finder.get_or_init(build) else {
            for value in &self.values {
                each_place(value, text, found);
            }
            return;
        };
        // The next value can start inside this one. A search for all values that overlap would find
        // it too, but it cannot skip text that contains none of them.
        let mut input = Input::new(text);
        while let Some(place) = finder.find(input.clone()) {
            found(place.start(), place.end());
            input.set_start(place.start() + 1);
        }
    }
}

/// Finds every occurrence of a value in a text, including those that overlap.
fn each_place(value: &str, text: &str, found: &mut impl FnMut(usize, usize)) {
    let finder = memmem::Finder::new(value);
    let mut from = 0;
    while let Some(at) = text
        .as_bytes()
        .get(from..)
        .and_then(|rest| finder.find(rest))
    {
        found(from + at, from + at + value.len());
        from += at + 1;
    }
}

/// Replaces ranges that are in order by `mark`.
pub(super) fn replace_places<'t>(
    text: &'t str,
    places: &[(usize, usize)],
    mark: &str,
) -> Cow<'t, str> {
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut shown = 0;
    for (start, end) in places {
        out.push_str(text.get(shown..*start).unwrap_or_default());
        out.push_str(mark);
        shown = *end;
    }
    out.push_str(text.get(shown..).unwrap_or_default());
    Cow::Owned(out)
}

/// Sorts ranges, and merges those that overlap.
pub(super) fn merge(found: &mut Vec<(usize, usize)>) {
    found.sort_unstable();
    found.dedup_by(|next, before| {
        let overlaps = next.0 < before.1;
        if overlaps {
            before.1 = before.1.max(next.1);
        }
        overlaps
    });
}

/// Shows the number of values, never the values themselves.
impl std::fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretValues({})", self.all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[&str]) -> SecretValues {
        let mut values = SecretValues::default();
        all.iter().for_each(|value| values.add((*value).to_owned()));
        values
    }

    #[test]
    fn each_value_is_replaced() {
        let known = values(&["one", "", "two", "one-and-more"]);
        assert_eq!(known.replace("one, two; onetwo", "#"), "#, #; ##");
        assert_eq!(known.replace("a one-and-more b", "#"), "a # b");
        assert!(matches!(known.replace("on", "#"), Cow::Borrowed("on")));
        assert!(matches!(values(&[]).replace("x", "#"), Cow::Borrowed("x")));
        assert_eq!(format!("{known:?}"), "SecretValues(3)");
    }

    #[test]
    fn overlapping_values_are_replaced_completely() {
        let known = values(&["abcd", "cdefg", "bc"]);
        assert_eq!(known.replace("xabcdefgx", "#"), "x#x");
        assert_eq!(known.replace("bcabcdcdefg", "#"), "###");
        assert_eq!(values(&["aaaa"]).replace("aaaaaab", "#"), "#b");
        assert_eq!(values(&["mark"]).replace("mark", "[mark]"), "[mark]");
    }

    #[test]
    fn a_value_added_later_is_found() {
        let mut known = values(&["one"]);
        assert_eq!(known.replace("one two", "#"), "# two");
        known.add("two".to_owned());
        assert_eq!(known.replace("one two", "#"), "# #");
    }

    proptest::proptest! {
        /// No value remains in the text, with few values (searched one by one) and with many
        /// values (searched by the automaton).
        #[test]
        fn no_value_is_left(all in proptest::collection::vec("[abé]{1,4}", 1..60), text in "[abé]{0,20}") {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let masked = values(&all).replace(&text, "#").into_owned();
            for value in &all {
                proptest::prop_assert!(!masked.contains(value), "{} {}", masked, value);
            }
        }

        /// The automaton and the search one by one produce the same text.
        #[test]
        fn the_automaton_finds_what_a_search_finds(all in proptest::collection::vec("[ab]{2,5}", 1..12), text in "[abc]{0,30}") {
            let few: Vec<&str> = all.iter().map(String::as_str).collect();
            let others: Vec<String> = (0..9 * LINEAR_LIMIT).map(|n| format!("other{n}")).collect();
            let many: Vec<&str> = others.iter().map(String::as_str).chain(few.iter().copied()).collect();
            let many_first: Vec<&str> = many.iter().rev().copied().collect();
            let masked = values(&few).replace(&text, "#").into_owned();
            proptest::prop_assert_eq!(&masked, &values(&many).replace(&text, "#"));
            proptest::prop_assert_eq!(&masked, &values(&many_first).replace(&text, "#"));
        }
    }
}
