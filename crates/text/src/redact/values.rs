//! Known values, found wherever they are in a text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem;

/// This many values are searched for one by one; more get an automaton.
const FEW: usize = 8;

/// Texts that must not be shown.
#[derive(Clone, Default)]
pub struct Values {
    all: BTreeSet<String>,
    /// Values added last.
    recent: Vec<String>,
    /// All others, in groups that at least halve from one to the next: adding values one at a
    /// time builds few automata again, and a text is searched by few of them.
    groups: Vec<Group>,
}

/// Values with one automaton.
#[derive(Clone, Default)]
struct Group {
    values: Vec<String>,
    /// Made when it is first needed; `None` where there are more values than it takes.
    finder: OnceLock<Option<AhoCorasick>>,
}

impl Values {
    pub fn add(&mut self, value: String) {
        if value.is_empty() || !self.all.insert(value.clone()) {
            return;
        }
        self.recent.push(value);
        if self.recent.len() <= FEW {
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

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The text with a mark in the place of each value; values that overlap share one.
    pub fn replace<'t>(&self, text: &'t str, mark: &str) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut shown = 0;
        for (start, end) in self.places(text) {
            out.push_str(text.get(shown..start).unwrap_or_default());
            out.push_str(mark);
            shown = end;
        }
        if shown == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(text.get(shown..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Where the values are, in order; those that overlap are one place.
    fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for group in &self.groups {
            group.places(text, &mut found);
        }
        for value in &self.recent {
            each_place(value, text, &mut found);
        }
        found.sort_unstable();
        found.dedup_by(|next, before| {
            let overlaps = next.0 < before.1;
            if overlaps {
                before.1 = before.1.max(next.1);
            }
            overlaps
        });
        found
    }

    /// How many bytes at the end of a text may be the beginning of a value.
    pub fn unsettled(&self, text: &str) -> usize {
        let longest = self.all.iter().map(String::len).max().unwrap_or(0);
        let from = text.len().saturating_sub(longest.saturating_sub(1));
        let begins = |at: &usize| {
            let rest = text.get(*at..);
            rest.is_some_and(|rest| self.all.iter().any(|value| value.starts_with(rest)))
        };
        let first = (from..text.len()).find(begins);
        first.map_or(0, |at| text.len() - at)
    }
}

impl Group {
    fn places(&self, text: &str, found: &mut Vec<(usize, usize)>) {
        let build = || {
            // The smallest kind: every session has values of its own.
            let kind = Some(AhoCorasickKind::ContiguousNFA);
            AhoCorasick::builder().kind(kind).build(&self.values).ok()
        };
        match self.finder.get_or_init(build) {
            Some(finder) => {
                let places = finder.find_overlapping_iter(text);
                found.extend(places.map(|place| (place.start(), place.end())));
            }
            None => {
                for value in &self.values {
                    each_place(value, text, found);
                }
            }
        }
    }
}

/// Every place of a value in a text, also where it overlaps itself.
fn each_place(value: &str, text: &str, found: &mut Vec<(usize, usize)>) {
    let finder = memmem::Finder::new(value);
    let mut from = 0;
    while let Some(at) = text
        .as_bytes()
        .get(from..)
        .and_then(|rest| finder.find(rest))
    {
        found.push((from + at, from + at + value.len()));
        from += at + 1;
    }
}

/// Never the values themselves.
impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Values({})", self.all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[&str]) -> Values {
        let mut values = Values::default();
        all.iter().for_each(|value| values.add((*value).to_owned()));
        values
    }

    #[test]
    fn each_value_gets_a_mark() {
        let known = values(&["one", "", "two", "one-and-more"]);
        assert_eq!(known.replace("one, two; onetwo", "#"), "#, #; ##");
        assert_eq!(known.replace("a one-and-more b", "#"), "a # b");
        assert!(matches!(known.replace("on", "#"), Cow::Borrowed("on")));
        assert!(matches!(values(&[]).replace("x", "#"), Cow::Borrowed("x")));
        assert_eq!(format!("{known:?}"), "Values(3)");
    }

    #[test]
    fn nothing_is_left_of_values_that_overlap() {
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
        /// Few values and many, found one by one and by the automaton: nothing of any is left.
        #[test]
        fn no_value_is_left(all in proptest::collection::vec("[abé]{1,4}", 1..60), text in "[abé]{0,20}") {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let masked = values(&all).replace(&text, "#").into_owned();
            for value in &all {
                proptest::prop_assert!(!masked.contains(value), "{} {}", masked, value);
            }
        }

        /// Many values added one by one mask as few do.
        #[test]
        fn the_automaton_finds_what_a_search_finds(all in proptest::collection::vec("[ab]{2,5}", 1..12), text in "[abc]{0,30}") {
            let few: Vec<&str> = all.iter().map(String::as_str).collect();
            let others: Vec<String> = (0..9 * FEW).map(|n| format!("other{n}")).collect();
            let many: Vec<&str> = others.iter().map(String::as_str).chain(few.iter().copied()).collect();
            let many_first: Vec<&str> = many.iter().rev().copied().collect();
            let masked = values(&few).replace(&text, "#").into_owned();
            proptest::prop_assert_eq!(&masked, &values(&many).replace(&text, "#"));
            proptest::prop_assert_eq!(&masked, &values(&many_first).replace(&text, "#"));
        }
    }
}
