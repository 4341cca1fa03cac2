//! Page after page by cursors.

use super::{CURSOR_END, Full, NEXT_CURSOR, Pages};
use crate::capture::End;
use crate::model::Check;
use crate::observe::refused;
use crate::rules::{Level, Rule, Topic};
use crate::sheet::Sheet;

pub(super) const CURSORS: [&Rule; 5] = [
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &BAD_CURSOR,
    &BAD_CURSOR_CATEGORY,
];

pub(super) static WALK: Rule = Rule {
    id: "AOI-11.cursor-walk",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "From cursor to cursor every result comes once, in the order of the whole",
    why: "What a page skips is never seen; what it repeats is done twice.",
    hint: "Let the cursor say after which result the next page begins, in an order that is fixed.",
    topic: Topic::Bounds,
    register: &["AOI-16.1-07", "AOI-18.2-11"],
};

impl Pages<'_> {
    /// Follows the cursors from the first page to the last.
    pub(super) async fn walk(&self, size: u64, full: &Full, sheet: &mut Sheet<'_>) {
        let Some(flag) = &self.cursor else {
            return;
        };
        let count = size.to_string();
        let most = 2 * (full.ids.len() as u64).div_ceil(size.max(1)) + 2;
        let mut seen: Vec<String> = Vec::new();
        let mut page = self.limited(size).await;
        let mut cursor = None;
        for number in 1..=most {
            if !page.run.end.is_success() {
                let message = format!("page {number} fails: {}", page.run.end.told());
                return sheet.broken(&WALK, message, &page.run);
            }
            seen.extend(page.ids.iter().cloned());
            let next = page.next();
            match &next {
                None => break,
                Some(_) if next == cursor => {
                    let message = format!("page {number} gives the cursor that led to it");
                    return sheet.broken(&WALK, message, &page.run);
                }
                // The end was told: a cursor beside it is another rule's.
                Some(_) if !page.is_truncated() && seen.len() >= full.ids.len() => break,
                Some(_) => {}
            }
            cursor = next;
            let token = cursor.clone().unwrap_or_default();
            let what = format!("page {}", number + 1);
            page = self
                .page(&what, &[&self.limit.flag, &count, flag, &token])
                .await;
        }
        if cursor.is_none() && (seen.len() as u64) < full.ids.len() as u64 {
            return sheet.not_verified(&WALK, "there was no cursor to follow");
        }
        let wrong = compare(&seen, &full.ids);
        sheet.held(
            &WALK,
            "page by page everything comes once, in order",
            wrong,
            &page.run,
        );
    }
}

pub(super) static BAD_CURSOR: Rule = Rule {
    id: "AOI-11.bad-cursor",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "A cursor that the tool never gave is refused with a non-zero exit",
    why: "Starting again from the first page looks like more results.",
    hint: "Check the cursor; where it is none of yours, fail with category validation.",
    topic: Topic::Bounds,
    register: &["AOI-16.1-07"],
};

pub(super) static BAD_CURSOR_CATEGORY: Rule = Rule {
    id: "AOI-11.bad-cursor-category",
    check: Check::Number(11),
    level: Level::Should,
    section: "§9.1",
    demands: "The error for such a cursor is of category validation or usage",
    why: "Portable callers branch on the category.",
    hint: "Use validation for a value that is wrong.",
    topic: Topic::Bounds,
    register: &["AOI-16.1-07"],
};

impl Pages<'_> {
    pub(super) async fn bad_cursor(&self, sheet: &mut Sheet<'_>) {
        let Some(flag) = &self.cursor else {
            return;
        };
        let token = format!("aoi-lint-no-cursor-{}", self.session.uniq());
        let page = self.page("a cursor that is none", &[flag, &token]).await;
        let wrong = match page.run.end {
            End::Code(0) => Some("a cursor that the tool never gave is accepted: it exits 0"),
            End::TimedOut => Some("with a cursor that the tool never gave it does not end"),
            End::Signal(_) => Some("a cursor that the tool never gave ends it with a signal"),
            End::Code(_) if !refused(&page.run) => Some("it fails, but its summary says ok"),
            End::Code(_) => None,
        };
        let wrong = wrong.map(str::to_owned);
        sheet.held(&BAD_CURSOR, "it is refused", wrong, &page.run);
        let mut errors = page.stream.errors();
        let category = errors
            .next()
            .and_then(|line| line.get("category")?.as_str());
        match category {
            None => {
                sheet.not_applicable(&BAD_CURSOR_CATEGORY, "there is no aoi:error to look into")
            }
            Some("validation" | "usage") => {
                sheet.pass(&BAD_CURSOR_CATEGORY, "the category is one for input");
            }
            Some(other) => {
                let message = format!("the category is `{other}`, not `validation` or `usage`");
                sheet.broken(&BAD_CURSOR_CATEGORY, message, &page.run);
            }
        }
    }
}

/// How what came page by page differs from everything at once.
fn compare(seen: &[String], full: &[String]) -> Option<String> {
    if seen == full {
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
    let missing: Vec<&String> = full.iter().filter(|id| !seen.contains(id)).collect();
    Some(match (missing.first(), has_twice(seen)) {
        (Some(id), _) => format!(
            "page by page {} are missing, the first is `{id}`",
            missing.len()
        ),
        (None, Some(id)) => format!("page by page `{id}` comes twice"),
        (None, None) if seen.len() > full.len() => {
            "page by page more comes than at once".to_owned()
        }
        (None, None) => "page by page the order is another one".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn what_pages_lose_repeat_or_turn_around_is_named() {
        let ids = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
        assert_eq!(compare(&ids("abcd"), &ids("abcd")), None);
        for (seen, word) in [
            ("abd", "missing"),
            ("abbcd", "twice"),
            ("abdc", "order"),
            ("abcdx", "more"),
        ] {
            let told = compare(&ids(seen), &ids("abcd")).unwrap_or_default();
            assert!(told.contains(word), "{seen}: {told}");
        }
    }
}
