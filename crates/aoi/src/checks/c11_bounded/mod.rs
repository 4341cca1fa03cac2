//! Check 11: a limit holds, the summary reports truncation, and cursors lead through all results
//! exactly once.

mod cursors;
mod help;
mod streaming;

use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;

use crate::capture::Capture;
use crate::model::CheckId;
use crate::observe::{self, declares, is_mutating, run_mutation};
use crate::probe::{ProbeCommand, ResultLimit};
use crate::rules::{Level, Rule, Topic};
use crate::run::RunDirs;
use crate::session::{LintSession, RunOptions, with_options};
use crate::stream::{self, EventLine, EventStream};
use crate::verdicts::Verdicts;
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
    &INVALID_LIMIT,
    &STREAMS,
    &DEFAULT_BOUND,
];

/// Rules that depend on the available results.
const DATA: [&Rule; 8] = [
    &AT_MOST,
    &TRUNCATED,
    &TRUNCATED_FALSELY,
    &TRUNCATED_TYPE,
    &NEXT_CURSOR,
    &CURSOR_END,
    &WALK,
    &INVALID_LIMIT,
];

pub async fn check(session: &LintSession) {
    join_all(
        session
            .commands()
            .iter()
            .map(|command| one(session, command)),
    )
    .await;
}

async fn one(session: &LintSession, command: &ProbeCommand) {
    let mut verdicts = Verdicts::new(session.reporter(&command.name));
    if !is_mutating(session, command) && !command.unbounded && !command.needs_auth {
        streams(session, command, &mut verdicts).await;
    }
    let Some(limit) = &command.limit else {
        let declared = ["supports_limit", "supports_cursor"];
        let uses_limit = |word: &String| word == "--limit" || word.starts_with("--limit=");
        if declared.iter().any(|key| declares(session, command, key))
            || command.ok.iter().any(uses_limit)
        {
            let why = "the command has a limit or cursor, but the probe file has no `limit` for it";
            verdicts.skip(&AT_MOST, why);
        } else if help::names_limit(session, command).await {
            let why = "the help of the command names --limit, but neither `capabilities` nor the \
                       probe file does: add `limit` to the command in the probe file";
            verdicts.skip(&AT_MOST, why);
        }
        return verdicts.report(&[], "");
    };
    if is_mutating(session, command) {
        let why = "pages are not tested on commands that change something";
        DATA.iter()
            .for_each(|rule| verdicts.not_applicable(rule, why));
        return verdicts.report(&[], "");
    }
    let mut pages = Pages::new(session, command, limit, session.shared_dirs());
    let full = pages.all().await;
    let too_few = full
        .as_ref()
        .map_or(true, |full| (full.ids.len() as u64) < limit.total);
    let mut rules = DATA.to_vec();
    rules.push(&DEFAULT_BOUND);
    match pages.cursor {
        Some(_) => rules.extend(CURSORS),
        None => {
            for rule in CURSORS {
                verdicts.not_applicable(rule, "the command does not declare a cursor");
            }
            rules.retain(|rule| !CURSORS.contains(rule));
        }
    }
    if too_few && session.probe.sandbox && !session.probe.setup.is_empty() {
        // The results may be created by `setup`.
        let done = run_mutation(session, command, &AT_MOST, async |mutation| {
            let mut pages = Pages::new(session, command, limit, &mutation.dirs);
            let full = pages.all().await;
            pages.check(full, &mut verdicts).await;
        });
        if let Err(blocked) = done.await {
            blocked.report(&mut verdicts, &rules);
        }
    } else {
        pages.check(full, &mut verdicts).await;
    }
    verdicts.report(&rules, "the probe did not get that far");
}

/// One command with a limit, and the directories of its runs.
struct Pages<'p> {
    session: &'p LintSession,
    command: &'p ProbeCommand,
    limit: &'p ResultLimit,
    cursor: Option<String>,
    dirs: &'p RunDirs,
    words: Vec<String>,
}

/// The complete list of results.
struct Full {
    ids: Vec<String>,
}

/// One page of results.
struct Page {
    run: Arc<Capture>,
    stream: EventStream,
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
        session: &'p LintSession,
        command: &'p ProbeCommand,
        limit: &'p ResultLimit,
        dirs: &'p RunDirs,
    ) -> Pages<'p> {
        let declared = declares(session, command, "supports_cursor");
        let cursor = match &limit.cursor_flag {
            Some(flag) => Some(flag.clone()),
            None => declared.then(|| "--cursor".to_owned()),
        };
        Pages {
            words: observe::unconfirmed(session, command, dirs, session.shared_target(command))
                .words,
            session,
            command,
            limit,
            cursor,
            dirs,
        }
    }

    async fn page(&self, what: &str, more: &[&str]) -> Page {
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let words = with_options(&self.words, &more);
        let how = RunOptions {
            dirs: Some(self.dirs.clone()),
            ..RunOptions::default()
        };
        let name = &self.command.name;
        let run = self.session.run(name, what, &words, how).await;
        let stream = EventStream::parse(&run.stdout);
        let ids = self.ids(&stream);
        Page { run, stream, ids }
    }

    async fn limited(&self, count: u64) -> Page {
        let count = count.to_string();
        self.page(&format!("limit {count}"), &[&self.limit.flag, &count])
            .await
    }

    /// The ids of the results. If no event has an id, the whole event serves as one.
    fn ids(&self, stream: &EventStream) -> Vec<String> {
        let of = |line: &EventLine| stream::id(line.json.as_ref()?, &self.limit.id);
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

    /// Requests all results with a limit that is more than enough. A tool may have a maximum limit.
    async fn all(&mut self) -> Result<Full, String> {
        let mut last = String::new();
        for count in [self.limit.total.saturating_mul(10), self.limit.total] {
            let page = self.limited(count).await;
            // The probe file states the number of results, whatever the summary says.
            let is_whole = !page.is_truncated() || page.ids.len() as u64 == self.limit.total;
            if page.run.end.is_success() && is_whole {
                return Ok(Full { ids: page.ids });
            }
            last = format!(
                "a limit of {count} does not return everything: {}",
                page.run.end.describe()
            );
        }
        Err(last)
    }

    async fn check(&mut self, full: Result<Full, String>, verdicts: &mut Verdicts<'_>) {
        self.bad_cursor(verdicts).await;
        let full = match full {
            Ok(full) => full,
            Err(why) => {
                self.short(verdicts).await;
                return verdicts.unverify(&self.data(), &why);
            }
        };
        let total = full.ids.len() as u64;
        if total < 2 {
            let why = format!("there are only {total} results, so nothing can be truncated");
            return verdicts.unverify(&self.data(), &why);
        }
        let page = self.limit.page.min(total - 1).max(1);
        let mut counts = vec![1, page, total, total + 1];
        counts.dedup();
        if self.limit.unit != "events" {
            // `total` is not a number of results.
            counts = vec![1, self.limit.page, self.limit.total, self.limit.total + 1];
        }
        let some = join_all(counts.iter().map(|count| self.limited(*count))).await;
        for (count, page) in counts.iter().zip(&some) {
            self.one_page(*count, page, &full, verdicts);
        }
        self.invalid_limits(&full, verdicts).await;
        self.unlimited(&full, verdicts).await;
        if self.cursor.is_some() {
            self.walk(page, &full, verdicts).await;
        }
        let later = self.all().await;
        let is_same = later.as_ref().is_ok_and(|later| later.ids == full.ids);
        if !is_same {
            let why = "the results changed during the test";
            verdicts.discard(&self.data(), why);
        }
    }

    /// The rules that depend on the results of this command.
    fn data(&self) -> Vec<&'static Rule> {
        let has_cursor = self.cursor.is_some();
        let of_cursor = |rule: &&Rule| has_cursor || !CURSORS.contains(rule);
        DATA.into_iter().filter(of_cursor).collect()
    }

    /// Even if the number of results is unknown, a page can exceed its limit.
    async fn short(&self, verdicts: &mut Verdicts<'_>) {
        let flag = &self.limit.flag;
        for count in [1, self.limit.page] {
            let page = self.limited(count).await;
            let hits = page.ids.len();
            let is_counted = self.limit.unit == "events" && page.run.end.is_success();
            if is_counted && hits as u64 > count {
                let message = format!("`{flag} {count}` returns {hits} results");
                return verdicts.violation(&AT_MOST, message, &page.run);
            }
        }
    }
}

static AT_MOST: Rule = Rule {
    id: "AOI-11.limit",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "The number of results never exceeds the limit",
    why: "A caller with room for ten results cannot take eleven.",
    hint: "Count the emitted results, and stop at the limit.",
    topic: Topic::Bounds,
    requirement_ids: &[
        "AOI-15-01",
        "AOI-15-02",
        "AOI-16.1-06",
        "AOI-16.3-01",
        "AOI-18.2-11",
    ],
};

static TRUNCATED: Rule = Rule {
    id: "AOI-11.truncated",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "If results are left out, summary.truncated is true",
    why: "Otherwise a caller takes a part for the whole.",
    hint: "Fetch one result more than the limit. If it exists, set truncated to true.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-15-03", "AOI-18.2-11"],
};

static TRUNCATED_FALSELY: Rule = Rule {
    id: "AOI-11.truncated-falsely",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "If no results are left out, summary.truncated is not true",
    why: "Otherwise a caller requests more, again and again.",
    hint: "Set truncated based on the remaining results, not on whether the page is full.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-15-03", "AOI-18.2-11"],
};

static TRUNCATED_TYPE: Rule = Rule {
    id: "AOI-11.truncated-type",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "If summary.truncated is present, it is a boolean",
    why: "The string \"false\" is true in many languages.",
    hint: "Write true or false without quotes.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-15-03"],
};

static NEXT_CURSOR: Rule = Rule {
    id: "AOI-11.next-cursor",
    check: CheckId::Number(11),
    level: Level::Should,
    section: "§15",
    requirement: "If results are left out and cursors are supported, summary.next_cursor is set",
    why: "Otherwise the remaining results cannot be fetched.",
    hint: "Set next_cursor whenever truncated is true.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-15-04"],
};

static CURSOR_END: Rule = Rule {
    id: "AOI-11.cursor-end",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "The page with the last result has no next_cursor",
    why: "Otherwise a caller that follows cursors never finishes.",
    hint: "After the last result, set next_cursor to null or omit it.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-15-04", "AOI-18.2-11"],
};

impl Pages<'_> {
    fn one_page(&self, count: u64, page: &Page, full: &Full, verdicts: &mut Verdicts<'_>) {
        let run = &page.run;
        let flag = &self.limit.flag;
        if !run.end.is_success() {
            let why = format!("`{flag} {count}` failed: {}", run.end.describe());
            return verdicts.unverify(&[&AT_MOST, &TRUNCATED, &TRUNCATED_FALSELY], &why);
        }
        let hits = page.ids.len();
        let total = full.ids.len();
        match self.limit.unit.as_str() {
            "events" => {
                let violation = (hits as u64 > count)
                    .then(|| format!("`{flag} {count}` returns {hits} results"));
                verdicts.decide(&AT_MOST, "no page exceeds its limit", violation, run);
            }
            unit => verdicts.not_applicable(&AT_MOST, format!("the limit counts {unit}")),
        }
        let reported = page.summary("truncated");
        if let Some(reported) = reported {
            let violation = (!reported.is_boolean())
                .then(|| format!("`truncated` must be a boolean, found {reported}"));
            verdicts.decide(&TRUNCATED_TYPE, "truncated is a boolean", violation, run);
        }
        if hits < total {
            let violation = (reported != Some(&Value::Bool(true))).then(|| {
                let reported = reported.map_or_else(|| "missing".to_owned(), Value::to_string);
                format!(
                    "`{flag} {count}` returns {hits} of {total} results, but `truncated` is {reported}"
                )
            });
            verdicts.decide(&TRUNCATED, "truncation is reported", violation, run);
            if self.cursor.is_some() {
                let violation = page
                    .next()
                    .is_none()
                    .then(|| format!("{hits} of {total} results, but no next_cursor"));
                verdicts.decide(&NEXT_CURSOR, "next_cursor is set", violation, run);
            }
        } else {
            let violation = page.is_truncated().then(|| {
                format!("`{flag} {count}` returns all {total} results, but `truncated` is true")
            });
            verdicts.decide(
                &TRUNCATED_FALSELY,
                "complete results are not reported as truncated",
                violation,
                run,
            );
            if self.cursor.is_some() {
                let violation = page.next().filter(|_| !page.is_truncated()).map(|_| {
                    format!("`{flag} {count}` returns all {total} results, but also a next_cursor")
                });
                verdicts.decide(
                    &CURSOR_END,
                    "the last page has no next_cursor",
                    violation,
                    run,
                );
            }
        }
    }
}

static INVALID_LIMIT: Rule = Rule {
    id: "AOI-11.odd-limit",
    check: CheckId::Number(11),
    level: Level::Must,
    section: "§15",
    requirement: "A limit of 0, a negative limit or a limit that is not a number never returns \
              everything",
    why: "A mistake in a number must not remove the limit.",
    hint: "Reject limits below 1 with category usage.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-16.1-06", "AOI-15-02"],
};

impl Pages<'_> {
    async fn invalid_limits(&self, full: &Full, verdicts: &mut Verdicts<'_>) {
        let flag = &self.limit.flag;
        let invalid_limits = ["0", "-1", "abc"];
        let pages = invalid_limits.map(|word| async move {
            let what = format!("limit {word}");
            (word, self.page(&what, &[flag, word]).await)
        });
        for (word, page) in join_all(pages).await {
            let all = page.run.end.is_success() && page.ids.len() >= full.ids.len();
            let violation =
                all.then(|| format!("`{flag} {word}` returns all {} results", page.ids.len()));
            verdicts.decide(
                &INVALID_LIMIT,
                "no invalid limit returns everything",
                violation,
                &page.run,
            );
        }
    }
}

static DEFAULT_BOUND: Rule = Rule {
    id: "AOI-adv.default-bound",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§15",
    requirement: "The number of results is limited even without a limit flag",
    why: "The first call often has no limit.",
    hint: "Apply a default limit, and report truncated.",
    topic: Topic::Bounds,
    requirement_ids: &["AOI-15-01", "AOI-16.3-01"],
};

impl Pages<'_> {
    /// If the default limit is not documented, only missing results show that it exists.
    async fn unlimited(&self, full: &Full, verdicts: &mut Verdicts<'_>) {
        let page = self.page("no limit", &[]).await;
        let (hits, total) = (page.ids.len() as u64, full.ids.len() as u64);
        if !page.run.end.is_success() {
            let why = format!(
                "the command fails without a limit: {}",
                page.run.end.describe()
            );
            return verdicts.not_verified(&DEFAULT_BOUND, why);
        }
        let documented = self.limit.default.filter(|_| self.limit.unit == "events");
        match documented {
            Some(bound) if hits > bound => {
                let message = format!(
                    "without a limit, the command returns {hits} results; the documented default \
                     limit is {bound}"
                );
                verdicts.violation(&DEFAULT_BOUND, message, &page.run);
            }
            _ if hits < total => verdicts.pass(
                &DEFAULT_BOUND,
                "the results are limited without a limit flag",
            ),
            Some(bound) => {
                let why = format!(
                    "there are {total} results, which is within the default limit of {bound}"
                );
                verdicts.not_verified(&DEFAULT_BOUND, why);
            }
            None => {
                let why = "without a limit, the command returns everything, but its default limit \
                           may be larger; add it to the probe file (`limit.default`)";
                verdicts.not_verified(&DEFAULT_BOUND, why);
            }
        }
    }
}
