//! What the words of `--only` mean: ids, their beginnings, and sections.

use std::collections::BTreeSet;

use super::{Requirement, Suite};
use agentproto_text::closest_of;

/// What is to be judged; empty means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Ids of statements.
    pub statements: BTreeSet<String>,
    /// Ids of cases that were asked for.
    pub cases: BTreeSet<String>,
    /// A case was named itself: all that is seen to hold in it is told.
    pub names_cases: bool,
    /// Some statement is decided by monitors alone: the other cases are run too, for what can be
    /// seen in them.
    pub needs_witnesses: bool,
}

/// A word that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub word: String,
    pub meant: Option<String>,
}

impl Selection {
    pub fn is_everything(&self) -> bool {
        self.statements.is_empty() && self.cases.is_empty()
    }

    /// What the words mean in these suites.
    pub fn of(words: &[String], suites: &[Suite]) -> Result<Selection, Unknown> {
        let mut all = Selection::default();
        for word in words {
            let (mut statements, mut cases) = (BTreeSet::new(), BTreeSet::new());
            for suite in suites {
                let named = suite.requirements.iter().filter(|r| is_named(word, r));
                let named: BTreeSet<String> = named.map(|r| r.id.clone()).collect();
                let asked = suite.cases.iter().filter(|case| {
                    begins(word, &case.id) || case.decides.iter().any(|id| named.contains(id))
                });
                cases.extend(asked.map(|case| case.id.clone()));
                statements.extend(named);
            }
            if statements.is_empty() && cases.is_empty() {
                return Err(Unknown {
                    word: word.clone(),
                    meant: closest(word, suites),
                });
            }
            all.needs_witnesses |= cases.is_empty();
            all.names_cases |= statements.is_empty();
            all.statements.extend(statements);
            all.cases.extend(cases);
        }
        Ok(all)
    }
}

/// `PT`, `PT-02`, or the beginning of its section's title.
fn is_named(word: &str, requirement: &Requirement) -> bool {
    let title = requirement.section.to_lowercase();
    begins(word, &requirement.id)
        || (word.chars().count() > 3 && title.starts_with(&word.to_lowercase()))
}

/// The id itself, or whole parts of its beginning: `PT` of `PT-02`, and not `PT-0`.
pub fn begins(word: &str, id: &str) -> bool {
    let start = id.get(..word.len());
    let rest = id.get(word.len()..).unwrap_or_default();
    start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        && (rest.is_empty() || rest.starts_with('-'))
}

fn closest(word: &str, suites: &[Suite]) -> Option<String> {
    let ids = suites.iter().flat_map(|suite| {
        let statements = suite.requirements.iter().map(|r| r.id.as_str());
        statements.chain(suite.cases.iter().map(|case| case.id.as_str()))
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

    fn of(words: &[&str]) -> Result<Selection, Unknown> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        Selection::of(&words, &acp())
    }

    #[test]
    fn words_are_ids_beginnings_and_sections() {
        let one = of(&["PT-01"]).expect("known");
        assert_eq!(one.statements.iter().collect::<Vec<_>>(), ["PT-01"]);
        assert!(!one.cases.is_empty() && !one.needs_witnesses);
        assert_eq!(of(&["pt-01"]), of(&["PT-01"]));
        let chapter = of(&["PT"]).expect("known");
        assert!(chapter.statements.len() > 15, "{chapter:?}");
        assert!(chapter.statements.iter().all(|id| id.starts_with("PT-")));
        let section = of(&["prompt turn"]).expect("known");
        assert!(chapter.statements.is_subset(&section.statements));
        let several = of(&["PT", "TC-01"]).expect("known");
        assert!(several.statements.contains("TC-01") && several.statements.contains("PT-01"));
        let case = one.cases.first().expect("a case").clone();
        let named = of(&[&case]).expect("known");
        assert!(named.cases.contains(&case) && named.names_cases);
        assert!(!one.names_cases);
    }

    #[test]
    fn what_only_monitors_decide_needs_witnesses() {
        let watched = of(&["TR-03"]).expect("known");
        assert!(watched.needs_witnesses && watched.cases.is_empty());
        assert_eq!(watched.statements.iter().collect::<Vec<_>>(), ["TR-03"]);
    }

    #[test]
    fn what_means_nothing_is_told_with_what_may_be_meant() {
        let unknown = of(&["PT-0l"]).expect_err("unknown");
        assert_eq!(unknown.meant.as_deref(), Some("PT-01"));
        assert_eq!(of(&["quite-else-where"]).expect_err("unknown").meant, None);
        assert!(of(&["PT-0"]).is_err() && of(&[""]).is_err());
    }
}
