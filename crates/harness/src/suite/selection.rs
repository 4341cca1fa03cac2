//! Resolves the arguments of `--only`: ids, prefixes of ids, and sections.

use std::collections::BTreeSet;

use super::{Requirement, Suite};
use agentproto_text::closest_of;

/// What to check. An empty selection means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Requirement ids.
    pub requirements: BTreeSet<String>,
    /// Ids of the selected cases.
    pub cases: BTreeSet<String>,
    /// Whether a case was named directly. Then everything that passes in it is reported.
    pub names_cases: bool,
    /// Whether some requirement is decided by monitors only. Then the other cases also run, because
    /// the monitors need their traffic.
    pub needs_all_cases: bool,
}

/// An argument of `--only` that matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSelector {
    /// The argument.
    pub word: String,
    /// The closest known id, if any.
    pub closest: Option<String>,
}

impl Selection {
    /// Whether nothing was selected, which means that everything is checked.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && self.cases.is_empty()
    }

    /// Resolves the arguments against these suites.
    pub fn new(words: &[String], suites: &[Suite]) -> Result<Selection, UnknownSelector> {
        let mut all = Selection::default();
        for word in words {
            let (mut requirements, mut cases) = (BTreeSet::new(), BTreeSet::new());
            for suite in suites {
                let named = suite.requirements.iter().filter(|r| matches_id(word, r));
                let named: BTreeSet<String> = named.map(|r| r.id.clone()).collect();
                let asked = suite.cases.iter().filter(|case| {
                    is_prefix(word, &case.id) || case.decides.iter().any(|id| named.contains(id))
                });
                cases.extend(asked.map(|case| case.id.clone()));
                requirements.extend(named);
            }
            if requirements.is_empty() && cases.is_empty() {
                return Err(UnknownSelector {
                    word: word.clone(),
                    closest: closest(word, suites),
                });
            }
            all.needs_all_cases |= cases.is_empty();
            all.names_cases |= requirements.is_empty();
            all.requirements.extend(requirements);
            all.cases.extend(cases);
        }
        Ok(all)
    }
}

/// Whether an argument names a requirement: `PT`, `PT-02`, or the start of its section title.
fn matches_id(word: &str, requirement: &Requirement) -> bool {
    let title = requirement.section.to_lowercase();
    is_prefix(word, &requirement.id)
        || (word.chars().count() > 3 && title.starts_with(&word.to_lowercase()))
}

/// Whether `word` is the id itself, or a prefix of whole parts: `PT` of `PT-02`, but not `PT-0`.
pub fn is_prefix(word: &str, id: &str) -> bool {
    let start = id.get(..word.len());
    let rest = id.get(word.len()..).unwrap_or_default();
    start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        && (rest.is_empty() || rest.starts_with('-'))
}

fn closest(word: &str, suites: &[Suite]) -> Option<String> {
    let ids = suites.iter().flat_map(|suite| {
        let requirements = suite.requirements.iter().map(|r| r.id.as_str());
        requirements.chain(suite.cases.iter().map(|case| case.id.as_str()))
    });
    let upper = word.to_uppercase();
    let ids: Vec<&str> = ids.collect();
    let found = closest_of(word, ids.iter().copied());
    let found = found.or_else(|| closest_of(&upper, ids.iter().copied()));
    found.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acp() -> Vec<Suite> {
        let suite = super::super::built_in("acp").expect("a suite");
        vec![suite.expect("no mistakes")]
    }

    fn of(words: &[&str]) -> Result<Selection, UnknownSelector> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        Selection::new(&words, &acp())
    }

    #[test]
    fn arguments_are_ids_prefixes_or_sections() {
        let one = of(&["PT-01"]).expect("known");
        assert_eq!(one.requirements.iter().collect::<Vec<_>>(), ["PT-01"]);
        assert!(!one.cases.is_empty() && !one.needs_all_cases);
        assert_eq!(of(&["pt-01"]), of(&["PT-01"]));
        let chapter = of(&["PT"]).expect("known");
        assert!(chapter.requirements.len() > 15, "{chapter:?}");
        assert!(chapter.requirements.iter().all(|id| id.starts_with("PT-")));
        let section = of(&["prompt turn"]).expect("known");
        for id in ["PT-01", "PT-20"] {
            assert!(chapter.requirements.contains(id) && section.requirements.contains(id));
        }
        let several = of(&["PT", "TC-01"]).expect("known");
        assert!(several.requirements.contains("TC-01") && several.requirements.contains("PT-01"));
        let case = one.cases.first().expect("a case").clone();
        let named = of(&[&case]).expect("known");
        assert!(named.cases.contains(&case) && named.names_cases);
        assert!(!one.names_cases);
    }

    #[test]
    fn a_requirement_of_monitors_only_needs_the_other_cases() {
        let monitors = of(&["TR-03"]).expect("known");
        assert!(monitors.needs_all_cases && monitors.cases.is_empty());
        assert_eq!(monitors.requirements.iter().collect::<Vec<_>>(), ["TR-03"]);
    }

    #[test]
    fn an_unknown_argument_gets_a_suggestion() {
        let unknown = of(&["PT-0l"]).expect_err("unknown");
        assert_eq!(unknown.closest.as_deref(), Some("PT-01"));
        assert_eq!(
            of(&["quite-else-where"]).expect_err("unknown").closest,
            None
        );
        assert!(of(&["PT-0"]).is_err() && of(&[""]).is_err());
    }
}
