//! Check 11: a limit holds, the summary says what was left out, and cursors lead through
//! everything once.

mod cursors;
mod streaming;

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::Capture;
use crate::model::Check;
use crate::observe::{self, declares, is_mutating, within};
use crate::probe::{Command, Limit};
use crate::rules::{Level, Rule, Topic};
use crate::run::World;
use crate::session::{How, Session, with_options};
use crate::sheet::Sheet;
use crate::stream::{self, Line, Stream};
use cursors::{BAD_CURSOR, BAD_CURSOR_CATEGORY, CURSORS, WALK};
use streaming::{STREAMS, streams};

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
    let full = pages.all().await;
    let too_few = full
        .as_ref()
        .map_or(true, |full| (full.ids.len() as u64) < limit.total);
    let mut wanted = DATA.to_vec();
    wanted.push(&DEFAULT_BOUND);
    match pages.cursor {
        Some(_) => wanted.extend(CURSORS),
        None => {
            for rule in CURSORS {
                sheet.not_applicable(rule, "no cursor is declared");
            }
            wanted.retain(|rule| !CURSORS.contains(rule));
        }
    }
    if too_few && session.probe.sandbox && !session.probe.setup.is_empty() {
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
}

static AT_MOST: Rule = Rule {
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

static TRUNCATED: Rule = Rule {
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

static TRUNCATED_FALSELY: Rule = Rule {
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

static TRUNCATED_TYPE: Rule = Rule {
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

static NEXT_CURSOR: Rule = Rule {
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

static CURSOR_END: Rule = Rule {
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

impl Pages<'_> {
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
}

static ODD_LIMIT: Rule = Rule {
    id: "AOI-11.odd-limit",
    check: Check::Number(11),
    level: Level::Must,
    section: "§15",
    demands: "A limit of 0, -1 or no number never means everything",
    why: "A mistake in a number must not open the flood gates.",
    hint: "Refuse limits below 1 with category usage.",
    topic: Topic::Bounds,
    register: &["AOI-16.1-06", "AOI-15-02"],
};

impl Pages<'_> {
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
}

static DEFAULT_BOUND: Rule = Rule {
    id: "AOI-adv.default-bound",
    check: Check::Advisory,
    level: Level::Should,
    section: "§15",
    demands: "Without a limit there is a bound, too",
    why: "The first call is often one without a limit.",
    hint: "Bound by default, and say truncated.",
    topic: Topic::Bounds,
    register: &["AOI-15-01", "AOI-16.3-01"],
};

impl Pages<'_> {
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
