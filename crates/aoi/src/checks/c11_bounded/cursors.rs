//! Page after page by cursors.

use futures::future::join_all;
use serde_json::Value;

use super::{DATA, Full, Page, Pages};
use crate::capture::End;
use crate::model::Check;
use crate::observe::refused;
use crate::rules::{Level, Rule, Topic};
use crate::sheet::Sheet;
use crate::stream;
use crate::stream::{Line, Stream};

pub(super) const CURSORS: [&Rule; 5] = [
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &BAD_CURSOR,
    &BAD_CURSOR_CATEGORY,
];

pub(super) static AT_MOST: Rule = Rule {
    id: "AOI-11.limit",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "There are never more results than the limit says",
    why: "A caller with room for ten cannot take eleven.",
    hint: "Count what is emitted, and stop at the limit.",
    topic: Topic::Bounds,
    register: &[
        "AOI-15-01",
        "AOI-15-02",
        "AOI-16.1-06",
        "AOI-16.3-01",
        "AOI-18.2-11",
    ],
};

pub(super) static TRUNCATED: Rule = Rule {
    id: "AOI-11.truncated",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "Where results are left out, summary.truncated is true",
    why: "A caller that is not told takes a part for the whole.",
    hint: "Ask for one more than the limit: if it is there, set truncated to true.",
    topic: Topic::Bounds,
    register: &["AOI-15-03", "AOI-18.2-11"],
};

pub(super) static TRUNCATED_FALSELY: Rule = Rule {
    id: "AOI-11.truncated-falsely",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "Where nothing is left out, summary.truncated is not true",
    why: "A caller would ask for more, again and again.",
    hint: "Set truncated by what is left, not by whether the page is full.",
    topic: Topic::Bounds,
    register: &["AOI-15-03", "AOI-18.2-11"],
};

pub(super) static TRUNCATED_TYPE: Rule = Rule {
    id: "AOI-11.truncated-type",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "summary.truncated is a boolean where it is there",
    why: "The text \"false\" is true in many languages.",
    hint: "Write true or false without quotes.",
    topic: Topic::Bounds,
    register: &["AOI-15-03"],
};

pub(super) static NEXT_CURSOR: Rule = Rule {
    id: "AOI-11.next-cursor",
    check: Check::Number(11),
    level: Level::Should,
    section: "§15",
    demands: "Where results are left out and cursors are supported, summary.next_cursor is set",
    why: "Without it the rest is out of reach.",
    hint: "Set next_cursor whenever truncated is true.",
    topic: Topic::Bounds,
    register: &["AOI-15-04"],
};

pub(super) static CURSOR_END: Rule = Rule {
    id: "AOI-11.cursor-end",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "After the last result there is no next_cursor",
    why: "A caller that follows cursors would never end.",
    hint: "Set next_cursor to null, or leave it out, where nothing is left.",
    topic: Topic::Bounds,
    register: &["AOI-15-04", "AOI-18.2-11"],
};

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

impl<'p> Pages<'p> {
    /// The ids of the results; where no event has one, each event is one.
    pub(super) fn ids(&self, stream: &Stream) -> Vec<String> {
        let of = |line: &Line| stream::id(line.json.as_ref()?, &self.limit.id);
        let named: Vec<String> = stream.domain().filter_map(of).collect();
        match named.is_empty() {
            false => named,
            true => {
                let texts = stream.domain().map(|line| &line.bytes);
                texts
                    .map(|text| String::from_utf8_lossy(text).into_owned())
                    .collect()
            }
        }
    }

    /// Everything, by a limit that is more than enough; a tool may have a largest one.
    pub(super) async fn all(&mut self) -> Result<Full, String> {
        let mut last = String::new();
        for count in [self.limit.total.saturating_mul(10), self.limit.total] {
            let page = self.limited(count).await;
            // The author knows how many there are, whatever the summary says.
            let is_whole = !page.is_truncated() || page.ids.len() as u64 == self.limit.total;
            if page.run.end.is_success() && is_whole {
                return Ok(Full { ids: page.ids });
            }
            last = format!(
                "a limit of {count} does not give everything: {}",
                page.run.end.told()
            );
        }
        Err(last)
    }

    pub(super) async fn judge(&mut self, full: Result<Full, String>, sheet: &mut Sheet<'_>) {
        self.bad_cursor(sheet).await;
        let full = match full {
            Ok(full) => full,
            Err(why) => {
                self.short(sheet).await;
                return sheet.doubt(&self.data(), &why);
            }
        };
        let total = full.ids.len() as u64;
        if total < 2 {
            let why = format!("there are {total} results: nothing can be left out");
            return sheet.doubt(&self.data(), &why);
        }
        let page = self.limit.page.min(total - 1).max(1);
        let mut counts = vec![1, page, total, total + 1];
        counts.dedup();
        if self.limit.unit != "events" {
            // Total is in another unit than results are counted in.
            counts = vec![1, self.limit.page, self.limit.total, self.limit.total + 1];
        }
        let some = join_all(counts.iter().map(|count| self.limited(*count))).await;
        for (count, page) in counts.iter().zip(&some) {
            self.one_page(*count, page, &full, sheet);
        }
        self.odd(&full, sheet).await;
        self.unlimited(&full, sheet).await;
        if self.cursor.is_some() {
            self.walk(page, &full, sheet).await;
        }
        let later = self.all().await;
        let is_same = later.as_ref().is_ok_and(|later| later.ids == full.ids);
        if !is_same {
            let why = "the results changed while they were looked at";
            sheet.withdraw(&self.data(), why);
        }
    }

    /// The rules that all of this is about.
    fn data(&self) -> Vec<&'static Rule> {
        let has_cursor = self.cursor.is_some();
        let of_cursor = |rule: &&Rule| has_cursor || !CURSORS.contains(rule);
        DATA.into_iter().filter(of_cursor).collect()
    }

    /// Where nobody knows how much there is, a page can still be too long.
    async fn short(&self, sheet: &mut Sheet<'_>) {
        let flag = &self.limit.flag;
        for count in [1, self.limit.page] {
            let page = self.limited(count).await;
            let hits = page.ids.len();
            let is_counted = self.limit.unit == "events" && page.run.end.is_success();
            if is_counted && hits as u64 > count {
                let message = format!("`{flag} {count}` gives {hits} results");
                return sheet.broken(&AT_MOST, message, &page.run);
            }
        }
    }

    fn one_page(&self, count: u64, page: &Page, full: &Full, sheet: &mut Sheet<'_>) {
        let run = &page.run;
        let flag = &self.limit.flag;
        if !run.end.is_success() {
            let why = format!("`{flag} {count}` fails: {}", run.end.told());
            return sheet.doubt(&[&AT_MOST, &TRUNCATED, &TRUNCATED_FALSELY], &why);
        }
        let hits = page.ids.len();
        let total = full.ids.len();
        match self.limit.unit.as_str() {
            "events" => {
                let wrong =
                    (hits as u64 > count).then(|| format!("`{flag} {count}` gives {hits} results"));
                sheet.held(&AT_MOST, "no page is longer than its limit", wrong, run);
            }
            unit => sheet.not_applicable(&AT_MOST, format!("the limit counts {unit}")),
        }
        let said = page.summary("truncated");
        if let Some(said) = said {
            let wrong = (!said.is_boolean()).then(|| format!("truncated is {said}, no boolean"));
            sheet.held(&TRUNCATED_TYPE, "truncated is a boolean", wrong, run);
        }
        if hits < total {
            let wrong = (said != Some(&Value::Bool(true))).then(|| {
                let said = said.map_or_else(|| "missing".to_owned(), Value::to_string);
                format!("`{flag} {count}` gives {hits} of {total} results, but truncated is {said}")
            });
            sheet.held(&TRUNCATED, "what is left out is told", wrong, run);
            if self.cursor.is_some() {
                let wrong = page
                    .next()
                    .is_none()
                    .then(|| format!("{hits} of {total} results, but there is no next_cursor"));
                sheet.held(&NEXT_CURSOR, "where it goes on is told", wrong, run);
            }
        } else {
            let wrong = page.is_truncated().then(|| {
                format!("`{flag} {count}` gives all {total} results, but truncated is true")
            });
            sheet.held(
                &TRUNCATED_FALSELY,
                "where all came, nothing else is said",
                wrong,
                run,
            );
            if self.cursor.is_some() {
                let wrong = page.next().filter(|_| !page.is_truncated()).map(|_| {
                    format!("`{flag} {count}` gives all {total} results, and a next_cursor")
                });
                sheet.held(&CURSOR_END, "at the end there is no cursor", wrong, run);
            }
        }
    }

    /// Follows the cursors from the first page to the last.
    async fn walk(&self, size: u64, full: &Full, sheet: &mut Sheet<'_>) {
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

    async fn bad_cursor(&self, sheet: &mut Sheet<'_>) {
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
