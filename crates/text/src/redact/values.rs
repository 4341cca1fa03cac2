//! Known values, found wherever they are in a text.

use std::borrow::Cow;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Texts that must not be shown. What finds them is made when it is first needed.
#[derive(Clone, Default)]
pub struct Values {
    all: Vec<String>,
    finder: OnceLock<Option<AhoCorasick>>,
}

impl Values {
    pub fn add(&mut self, value: String) {
        if !value.is_empty() && !self.all.contains(&value) {
            self.all.push(value);
            self.finder = OnceLock::new();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The text with a mark in the place of each value; values that overlap share one.
    pub fn replace<'t>(&self, text: &'t str, mark: &str) -> Cow<'t, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        let Some(finder) = self.finder() else {
            return self.replace_each(text, mark);
        };
        // In the order of their ends.
        let mut places: Vec<(usize, usize)> = Vec::new();
        for found in finder.find_overlapping_iter(text) {
            let (mut start, end) = (found.start(), found.end());
            while let Some(&(before, _)) = places.last().filter(|last| start < last.1) {
                start = start.min(before);
                places.pop();
            }
            places.push((start, end));
        }
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for (start, end) in places {
            out.push_str(text.get(shown..start).unwrap_or_default());
            out.push_str(mark);
            shown = end;
        }
        out.push_str(text.get(shown..).unwrap_or_default());
        Cow::Owned(out)
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

    /// `None` where there are more or longer values than it takes.
    fn finder(&self) -> Option<&AhoCorasick> {
        let build = || {
            // The smallest kind: every session has values of its own.
            let kind = Some(AhoCorasickKind::ContiguousNFA);
            AhoCorasick::builder().kind(kind).build(&self.all).ok()
        };
        self.finder.get_or_init(build).as_ref()
    }

    fn replace_each<'t>(&self, text: &'t str, mark: &str) -> Cow<'t, str> {
        let mut longest_first: Vec<&str> = self.all.iter().map(String::as_str).collect();
        longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let mut out = Cow::Borrowed(text);
        for value in longest_first {
            if out.contains(value) {
                out = Cow::Owned(out.replace(value, mark));
            }
        }
        out
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
        /// Both ways to replace leave nothing of any value.
        #[test]
        fn no_value_is_left(all in proptest::collection::vec("[abé]{1,4}", 1..5), text in "[abé]{0,20}") {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let known = values(&all);
            for masked in [known.replace(&text, "#"), known.replace_each(&text, "#")] {
                for value in &all {
                    proptest::prop_assert!(!masked.contains(value), "{} {}", masked, value);
                }
            }
        }
    }
}
