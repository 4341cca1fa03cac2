//! The order of rows: suites in the order of the run, sections in the order of their first row,
//! then requirements and cases by name. The same order makes a merged report equal to that of a
//! whole run.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use crate::model::{CaseResult, Report};

/// Sorts the rows of a report. The code that creates a report calls this once.
pub fn arrange(report: &mut Report) {
    let suites: Vec<String> = report.suites.iter().map(|s| s.name.clone()).collect();
    let sections = sections_of(&report.results);
    arrange_by(&mut report.results, &suites, &sections);
}

/// A section and the suite that it belongs to.
pub(super) type SectionKey = (String, String);

/// Sections in the order of their first row.
pub(super) fn sections_of(rows: &[CaseResult]) -> Vec<SectionKey> {
    let mut seen = HashSet::new();
    let mut sections = Vec::new();
    for row in rows {
        if seen.insert((row.suite.as_str(), row.section.as_str())) {
            sections.push((row.suite.clone(), row.section.clone()));
        }
    }
    sections
}

pub(super) fn arrange_by(rows: &mut [CaseResult], suites: &[String], sections: &[SectionKey]) {
    let suite_rank: HashMap<&str, usize> = ranks(suites.iter().map(String::as_str));
    let section_rank: HashMap<(&str, &str), usize> =
        ranks(sections.iter().map(|(a, b)| (a.as_str(), b.as_str())));
    let rank = |r: &CaseResult| {
        let suite = suite_rank.get(r.suite.as_str());
        let section = section_rank.get(&(r.suite.as_str(), r.section.as_str()));
        (
            suite.copied().unwrap_or(usize::MAX),
            section.copied().unwrap_or(usize::MAX),
        )
    };
    rows.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then_with(|| natural(&a.requirement, &b.requirement))
            .then_with(|| natural(&a.case, &b.case))
    });
}

fn ranks<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut ranks = HashMap::new();
    for (i, key) in keys.enumerate() {
        ranks.entry(key).or_insert(i);
    }
    ranks
}

/// Merges lists into one that keeps the order of each list. An item that is missing in the earlier
/// lists is inserted after its predecessor.
pub(super) fn interleave<T: Clone + PartialEq>(lists: &[Vec<T>]) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for list in lists {
        let mut at = 0;
        for item in list {
            match all.iter().position(|known| known == item) {
                Some(place) => at = at.max(place + 1),
                None => {
                    all.insert(at.min(all.len()), item.clone());
                    at += 1;
                }
            }
        }
    }
    all
}

/// Compares texts, with runs of digits compared by value: `TR-9` is before `TR-10`.
pub(super) fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (number_l, number_r) = (digits(left), digits(right));
        if !number_l.is_empty() && !number_r.is_empty() {
            let value = |n: &str| n.trim_start_matches('0').len();
            let by_value = value(number_l).cmp(&value(number_r)).then_with(|| {
                let bare = |n: &'_ str| n.trim_start_matches('0').to_owned();
                bare(number_l).cmp(&bare(number_r))
            });
            if by_value != Ordering::Equal {
                return by_value;
            }
            left = left.get(number_l.len()..).unwrap_or("");
            right = right.get(number_r.len()..).unwrap_or("");
            continue;
        }
        match (left.chars().next(), right.chars().next()) {
            // `01` and `1` have the same value: compare the texts.
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(l), Some(r)) if l != r => return l.cmp(&r),
            (Some(l), Some(r)) => {
                left = left.get(l.len_utf8()..).unwrap_or("");
                right = right.get(r.len_utf8()..).unwrap_or("");
            }
        }
    }
}

fn digits(text: &str) -> &str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_compared_by_value() {
        let mut ids = [
            "TR-10", "TR-9", "TR-09", "SE-2", "TR-x", "", "日-2", "日-10",
        ];
        ids.sort_by(|a, b| natural(a, b));
        assert_eq!(
            ids,
            [
                "", "SE-2", "TR-09", "TR-9", "TR-10", "TR-x", "日-2", "日-10"
            ]
        );
        let long = "9".repeat(400);
        assert_eq!(natural(&long, &long), Ordering::Equal);
    }

    #[test]
    fn interleave_keeps_the_order_of_each_list() {
        let lists = [vec!["a", "c"], vec!["a", "b", "c"], vec!["c", "d"]];
        assert_eq!(interleave(&lists), ["a", "b", "c", "d"]);
    }
}
