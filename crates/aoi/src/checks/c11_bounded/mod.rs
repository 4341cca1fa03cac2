//! Check 11: a limit holds, the summary says what was left out, and cursors lead through
//! everything once.

mod cursors;
mod streaming;

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::Capture;
use crate::model::Check;
use crate::observe;
use crate::observe::{declares, is_mutating, within};
use crate::probe::{Command, Limit};
use crate::rules::{Level, Rule, Topic};
use crate::run::World;
use crate::session::{How, Session, with_options};
use crate::sheet::Sheet;
use crate::stream::Stream;
use cursors::{
    AT_MOST, BAD_CURSOR, BAD_CURSOR_CATEGORY, CURSOR_END, CURSORS, NEXT_CURSOR, TRUNCATED,
    TRUNCATED_FALSELY, TRUNCATED_TYPE, WALK,
};
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
