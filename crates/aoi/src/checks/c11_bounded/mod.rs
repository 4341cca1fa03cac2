//! Check 11: a limit holds, the summary says what was left out, and cursors lead through
//! everything once.

mod rules;
mod streaming;

use std::sync::Arc;

use futures::future::join_all;
use rules::{
    AT_MOST, BAD_CURSOR, BAD_CURSOR_CATEGORY, CURSOR_END, DEFAULT_BOUND, NEXT_CURSOR, ODD_LIMIT,
    STREAMS, TRUNCATED, TRUNCATED_FALSELY, TRUNCATED_TYPE, WALK,
};
use serde_json::Value;
use streaming::streams;

use crate::capture::{Capture, End};
use crate::observe::{self, declares, is_mutating, refused, within};
use crate::probe::{Command, Limit};
use crate::rules::Rule;
use crate::run::World;
use crate::session::{How, Session, with_options};
use crate::sheet::Sheet;
use crate::stream::{self, Line, Stream};

pub const RULES: &[&Rule] = &[
    &AT_MOST,
    &TRUNCATED,
    &TRUNCATED_FALSELY,
    &TRUNCATED_TYPE,
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &BAD_CURSOR,
    &BAD_CURSOR_CATEGORY,
    &ODD_LIMIT,
    &STREAMS,
    &DEFAULT_BOUND,
];
/// What depends on what there is to be had.
const DATA: [&Rule; 8] = [
    &AT_MOST,
    &TRUNCATED,
    &TRUNCATED_FALSELY,
    &TRUNCATED_TYPE,
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &ODD_LIMIT,
];
const CURSORS: [&Rule; 5] = [
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &BAD_CURSOR,
    &BAD_CURSOR_CATEGORY,
];

pub async fn check(session: &Session) {
    join_all(
        session
            .commands()
            .iter()
            .map(|command| one(session, command)),
    )
    .await;
}

async fn one(session: &Session, command: &Command) {
    let mut sheet = Sheet::new(session.judge(&command.name));
    if !is_mutating(session, command) && !command.unbounded && !command.needs_auth {
        streams(session, command, &mut sheet).await;
    }
    let Some(limit) = &command.limit else {
        let declared = ["supports_limit", "supports_cursor"];
        if declared.iter().any(|key| declares(session, command, key)) {
            let why = "a limit or cursor is declared, but the probe file has no `limit` for it";
            sheet.skip(&AT_MOST, why);
        }
        return sheet.settle(&[], "");
    };
    if is_mutating(session, command) {
        let why = "pages of a command that changes something are not asked for";
        DATA.iter().for_each(|rule| sheet.not_applicable(rule, why));
        return sheet.settle(&[], "");
    }
    let mut pages = Pages::new(session, command, limit, session.common());
    let mut full = pages.all().await;
    let too_few = |full: &Result<Full, String>| {
        full.as_ref()
            .map_or(true, |full| (full.ids.len() as u64) < limit.total)
    };
    let mut wanted: Vec<&'static Rule> = DATA.to_vec();
    wanted.extend([&DEFAULT_BOUND] as [&'static Rule; 1]);
    match pages.cursor {
        Some(_) => wanted.extend(CURSORS),
        None => CURSORS
            .iter()
            .for_each(|rule| sheet.not_applicable(rule, "no cursor is declared")),
    }
    wanted.retain(|rule| pages.cursor.is_some() || !CURSORS.contains(rule));
    if too_few(&full) && session.probe.sandbox && !session.probe.setup.is_empty() {
        // What there is to list may be what `setup` makes.
        let done = within(session, command, &AT_MOST, async |sequence| {
            let mut pages = Pages::new(session, command, limit, &sequence.world);
            let full = pages.all().await;
            pages.judge(full, &mut sheet).await;
        });
        if let Err(blocked) = done.await {
            blocked.tell(&mut sheet, &wanted);
        }
    } else {
        let full = std::mem::replace(&mut full, Err(String::new()));
        pages.judge(full, &mut sheet).await;
    }
    sheet.settle(&wanted, "the probe did not come that far");
}

/// One command with a limit, and where it is run.
struct Pages<'p> {
    session: &'p Session,
    command: &'p Command,
    limit: &'p Limit,
    cursor: Option<String>,
    world: &'p World,
    words: Vec<String>,
}

/// Everything that there is.
struct Full {
    ids: Vec<String>,
}

/// A page as it came.
struct Page {
    run: Arc<Capture>,
    stream: Stream,
    ids: Vec<String>,
}

impl Page {
    fn summary(&self, key: &str) -> Option<&Value> {
        self.stream.summary()?.get(key)
    }

    fn is_truncated(&self) -> bool {
        self.summary("truncated") == Some(&Value::Bool(true))
    }

    fn next(&self) -> Option<String> {
        match self.summary("next_cursor")? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

impl<'p> Pages<'p> {
    fn new(
        session: &'p Session,
        command: &'p Command,
        limit: &'p Limit,
        world: &'p World,
    ) -> Pages<'p> {
        let declared = declares(session, command, "supports_cursor");
        let cursor = match &limit.cursor_flag {
            Some(flag) => Some(flag.clone()),
            None => declared.then(|| "--cursor".to_owned()),
        };
        Pages {
            words: observe::bare(session, command, world, None).words,
            session,
            command,
            limit,
            cursor,
            world,
        }
    }

    async fn page(&self, what: &str, more: &[&str]) -> Page {
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let words = with_options(&self.words, &more);
        let how = How {
            world: Some(self.world.clone()),
            ..How::default()
        };
        let name = &self.command.name;
        let run = self.session.run(name, what, &words, how).await;
        let stream = Stream::read(&run.stdout);
        let ids = self.ids(&stream);
        Page { run, stream, ids }
    }

    async fn limited(&self, count: u64) -> Page {
        let count = count.to_string();
        self.page(&format!("limit {count}"), &[&self.limit.flag, &count])
            .await
    }

    /// The ids of the results; where no event has one, each event is one.
    fn ids(&self, stream: &Stream) -> Vec<String> {
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
    async fn all(&mut self) -> Result<Full, String> {
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

    async fn judge(&mut self, full: Result<Full, String>, sheet: &mut Sheet<'_>) {
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

    async fn odd(&self, full: &Full, sheet: &mut Sheet<'_>) {
        let flag = &self.limit.flag;
        let odd = ["0", "-1", "abc"];
        let pages = odd.map(|word| async move {
            let what = format!("limit {word}");
            (word, self.page(&what, &[flag, word]).await)
        });
        for (word, page) in join_all(pages).await {
            let all = page.run.end.is_success() && page.ids.len() >= full.ids.len();
            let wrong =
                all.then(|| format!("`{flag} {word}` gives all {} results", page.ids.len()));
            sheet.held(&ODD_LIMIT, "no odd limit stands for all", wrong, &page.run);
        }
    }

    /// Where nobody says how large the bound is, only what it leaves out shows it.
    async fn unlimited(&self, full: &Full, sheet: &mut Sheet<'_>) {
        let page = self.page("no limit", &[]).await;
        let (hits, total) = (page.ids.len() as u64, full.ids.len() as u64);
        if !page.run.end.is_success() {
            let why = format!("without a limit it fails: {}", page.run.end.told());
            return sheet.not_verified(&DEFAULT_BOUND, why);
        }
        let told = self.limit.default.filter(|_| self.limit.unit == "events");
        match told {
            Some(bound) if hits > bound => {
                let message = format!(
                    "without a limit {hits} results come, where {bound} are said to be the bound"
                );
                sheet.broken(&DEFAULT_BOUND, message, &page.run);
            }
            _ if hits < total => sheet.pass(&DEFAULT_BOUND, "without a limit it is bounded, too"),
            Some(bound) => {
                let why = format!("there are {total} results, no more than the bound of {bound}");
                sheet.not_verified(&DEFAULT_BOUND, why);
            }
            None => {
                let why = "without a limit everything comes: the bound may be larger; say in the \
                           probe file what it is (`limit.default`)";
                sheet.not_verified(&DEFAULT_BOUND, why);
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
