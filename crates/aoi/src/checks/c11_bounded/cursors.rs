//! Follows cursors from page to page.

use super::{CURSOR_END, Full, NEXT_CURSOR, Pages};
use crate::capture::ExitKind;
use crate::model::CheckId;
use crate::observe::was_rejected;
use crate::rules::{Level, Rule, Topic};
use crate::verdicts::Verdicts;

pub(super) const CURSORS: [&Rule; 5] = [
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &BAD_CURSOR,
    &BAD_CURSOR_CATEGORY,
];

pub(super) static WALK: Rule = Rule {
    id: "AOI-11.cursor-walk",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "Following the cursors returns every result exactly once, in the order of the \
              complete list",
    why: "A skipped result is never seen, and a repeated one is processed twice.",
    hint: "Let the cursor encode the last result of the page, and use a fixed order.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-16.1-07", "AOI-18.2-11"],
};

impl Pages<'_> {
    /// Follows the cursors from the first page to the last.
    pub(super) async fn walk(&self, size: u64, full: &Full, verdicts: &mut Verdicts<'_>) {
        let Some(flag) = &self.cursor else {
            return;
        };
        let count = size.to_string();
        let most = 2 * (full.ids.len() as u64).div_ceil(size.max(1)) + 2;
        let mut received: Vec<String> = Vec::new();
        let mut page = self.limited(size).await;
        let mut cursor = None;
        for number in 1..=most {
            if !page.run.end.is_success() {
                let message = format!("page {number} failed: {}", page.run.end.describe());
                return verdicts.violation(&WALK, message, &page.run);
            }
            received.extend(page.ids.iter().cloned());
            let next = page.next();
            match &next {
                None => break,
                Some(_) if next == cursor => {
                    let message = format!("page {number} returns its own cursor as next_cursor");
                    return verdicts.violation(&WALK, message, &page.run);
                }
                // The end was reported. A remaining cursor is covered by another rule.
                Some(_) if !page.is_truncated() && received.len() >= full.ids.len() => break,
                Some(_) => {}
            }
            cursor = next;
            let token = cursor.clone().unwrap_or_default();
            let what = format!("page {}", number + 1);
            page = self
                .page(&what, &[&self.limit.flag, &count, flag, &token])
                .await;
        }
        if cursor.is_none() && (received.len() as u64) < full.ids.len() as u64 {
            return verdicts.not_verified(&WALK, "the page has no cursor to follow");
        }
        let violation = compare(&received, &full.ids);
        verdicts.decide(
            &WALK,
            "the pages contain every result once, in order",
            violation,
            &page.run,
        );
    }
}

pub(super) static BAD_CURSOR: Rule = Rule {
    id: "AOI-11.bad-cursor",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "A cursor that the tool did not issue is rejected with a non-zero exit code",
    why: "If the tool starts again from the first page, that looks like more results.",
    hint: "Validate the cursor. If you did not issue it, fail with category validation.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-16.1-07"],
};

pub(super) static BAD_CURSOR_CATEGORY: Rule = Rule {
    id: "AOI-11.bad-cursor-category",
    check: CheckId::Number(11),
    level: Level::Should,
    section: "§9.1",
    requirement: "The error for an invalid cursor has category validation or usage",
    why: "Portable callers branch on the category.",
    hint: "Use validation for an invalid value.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-16.1-07"],
};

impl Pages<'_> {
    pub(super) async fn bad_cursor(&self, verdicts: &mut Verdicts<'_>) {
        let Some(flag) = &self.cursor else {
            return;
        };
        let token = format!("aoi-lint-no-cursor-{}", self.session.uniq());
        let page = self.page("an invalid cursor", &[flag, &token]).await;
        let violation = match page.run.end {
            ExitKind::Code(0) => Some("an invalid cursor is accepted: exit 0"),
            ExitKind::TimedOut => Some("the tool does not exit with an invalid cursor"),
            ExitKind::Signal(_) => Some("an invalid cursor kills the tool with a signal"),
            ExitKind::Code(_) if !was_rejected(&page.run) => {
                Some("an invalid cursor fails, but the summary has ok: true")
            }
            ExitKind::Code(_) => None,
        };
        let violation = violation.map(str::to_owned);
        verdicts.decide(
            &BAD_CURSOR,
            "an invalid cursor is rejected",
            violation,
            &page.run,
        );
        let mut errors = page.stream.errors();
        let category = errors
            .next()
            .and_then(|line| line.get("category")?.as_str());
        match category {
            None => verdicts.not_applicable(&BAD_CURSOR_CATEGORY, "no aoi:error was emitted"),
            Some("validation" | "usage") => {
                verdicts.pass(&BAD_CURSOR_CATEGORY, "the category is validation or usage");
            }
            Some(other) => {
                let message =
                    format!("the category is `{other}`; expected `validation` or `usage`");
                verdicts.violation(&BAD_CURSOR_CATEGORY, message, &page.run);
            }
        }
    }
}

/// How the results of all pages differ from the complete list.
fn compare(received: &[String], full: &[String]) -> Option<String> {
    if received == full {
        return None;
    }
    let has_twice = |list: &[String]| {
        let mut sorted: Vec<&String> = list.iter().collect();
        sorted.sort();
        sorted
            .windows(2)
            .find(|two| two[0] == two[1])
            .map(|two| two[0].clone())
    };
    let missing: Vec<&String> = full.iter().filter(|id| !received.contains(id)).collect();
    Some(match (missing.first(), has_twice(received)) {
        (Some(id), _) => format!(
            "{} results are missing from the pages, the first is `{id}`",
            missing.len()
        ),
        (None, Some(id)) => format!("the pages contain `{id}` twice"),
        (None, None) if received.len() > full.len() => {
            "the pages contain more results than the complete list".to_owned()
        }
        (None, None) => "the order of the pages differs from the complete list".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn missing_repeated_and_reordered_results_are_reported() {
        let ids = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
        assert_eq!(compare(&ids("abcd"), &ids("abcd")), None);
        for (received, word) in [
            ("abd", "missing"),
            ("abbcd", "twice"),
            ("abdc", "order"),
            ("abcdx", "more"),
        ] {
            let difference = compare(&ids(received), &ids("abcd")).unwrap_or_default();
            assert!(difference.contains(word), "{received}: {difference}");
        }
    }
}
