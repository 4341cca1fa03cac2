//! Read-only commands: search, list, get, fetch, watch.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::args::ParsedArgs;
use super::credentials;
use super::pages::ListPage;
use super::store::ItemStore;
use super::stream::{EarlyExit, EventWriter, ToolError};

/// Number of documents.
const DOCUMENTS: usize = 25;
/// Default limit of `search`.
const SEARCH_BOUND: u64 = 20;
/// Default limit of `list`.
const LIST_BOUND: u64 = 100;
/// Number of ticks between two heartbeats.
const BEAT: u64 = 5;
/// Default time between two ticks, in milliseconds.
const TICK_MS: u64 = 100;
/// Time between two heartbeats, in milliseconds.
pub const BEAT_MS: u64 = BEAT * TICK_MS;

struct Document {
    id: String,
    title: String,
    snippet: String,
}

/// The documents. They are the same for every query, so that tests can predict the results.
fn documents() -> Vec<Document> {
    let topics = ["streams", "cursors", "retries", "signals", "schemas"];
    let places = [
        "the shell",
        "a pipeline",
        "a batch job",
        "an editor",
        "a test",
    ];
    let all = topics
        .iter()
        .flat_map(|topic| places.iter().map(move |place| (topic, place)));
    let data = all.enumerate().map(|(at, (topic, place))| Document {
        id: format!("doc-{:03}", at + 1),
        title: format!("On {topic} in {place}"),
        snippet: format!(
            "How {topic} are used in {place}, which mistakes are common there, and what a \
             reader can rely on when another program wrote the lines."
        ),
    });
    data.take(DOCUMENTS).collect()
}

pub fn search(stream: &mut EventWriter, words: &ParsedArgs) -> Result<(), EarlyExit> {
    let query = words.operand(0);
    let is_slow = words.number("--delay-ms")?.is_some_and(|delay| delay > 0);
    if query == "busy" {
        let failure = ToolError::new("rate_limited", "TOO_MANY", "Too many requests.");
        return Err(failure.with("retry_after_ms", 1000).into());
    }
    let page = ListPage::requested(stream, words, SEARCH_BOUND, query)?;
    let found = match query {
        "nothing" => Vec::new(),
        _ => documents(),
    };
    let found: Vec<(usize, Document)> = found.into_iter().enumerate().collect();
    let places: Vec<usize> = (0..found.len()).collect();
    let shown = page.of(stream, &places);
    let meta = match words.value("--url").and_then(host) {
        Some(host) => json!({ "endpoint": host }),
        None => json!({}),
    };
    stream.meta(meta)?;
    for (done, place) in shown.iter().enumerate() {
        let Some((at, document)) = found.get(*place) else {
            continue;
        };
        stream.domain(json!({
            "type": "hit",
            "rank": at + 1,
            "id": document.id,
            "title": document.title,
            "snippet": document.snippet,
            "score": 100 - at,
        }))?;
        if is_slow && !words.has("--quiet") && done % 10 == 9 {
            let progress =
                json!({ "type": "aoi:progress", "done": done + 1, "total": shown.len() });
            stream.framework(progress)?;
        }
    }
    let end = page.end(stream, shown.len(), found.len());
    stream.summary(true, end)
}

/// Scheme and host of a URL. The rest may contain secrets.
fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    let fits = matches!(scheme, "http" | "https") && !host.is_empty() && host.chars().all(is_plain);
    fits.then(|| format!("{scheme}://{host}"))
}

pub fn list(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: Option<&ItemStore>,
) -> Result<(), EarlyExit> {
    let page = ListPage::requested(stream, words, LIST_BOUND, "list")?;
    let items: Vec<(String, String)> = match words.has("--documents") {
        true => documents().into_iter().map(|d| (d.id, d.title)).collect(),
        false => {
            let items = store.map_or_else(Vec::new, ItemStore::items);
            items.into_iter().map(|i| (i.id, i.name)).collect()
        }
    };
    stream.meta(json!({}))?;
    let shown = page.of(stream, &items);
    for (id, name) in &shown {
        stream.domain(json!({ "type": "entry", "id": id, "name": name }))?;
    }
    let end = page.end(stream, shown.len(), items.len());
    stream.summary(true, end)
}

pub fn get(
    stream: &mut EventWriter,
    words: &ParsedArgs,
    store: Option<&ItemStore>,
) -> Result<(), EarlyExit> {
    let id = words.operand(0);
    let item = store.and_then(|store| store.item(id)).map(|item| item.name);
    let document = || {
        let mut all = documents().into_iter();
        all.find(|document| document.id == id).map(|d| d.title)
    };
    let Some(name) = item.or_else(document) else {
        return Err(not_found().into());
    };
    stream.meta(json!({}))?;
    stream.domain(json!({ "type": "entry", "id": id, "name": name }))?;
    stream.summary(true, json!({}))
}

pub fn not_found() -> ToolError {
    ToolError::new("not_found", "NO_SUCH_ITEM", "No item has that id.")
}

pub fn fetch(stream: &mut EventWriter, words: &ParsedArgs) -> Result<(), EarlyExit> {
    if credentials::found(words).is_none() {
        let message = "Interactive login required.";
        let failure = ToolError::new("authn", "INTERACTIVE_REQUIRED", message);
        return Err(failure.with("hint", "mock-aoi auth login").into());
    }
    stream.meta(json!({}))?;
    for document in documents().into_iter().take(3) {
        stream.domain(json!({ "type": "entry", "id": document.id, "name": document.title }))?;
    }
    stream.summary(true, json!({}))
}

pub fn watch(stream: &mut EventWriter, words: &ParsedArgs) -> Result<(), EarlyExit> {
    let interval = Duration::from_millis(words.number("--interval-ms")?.unwrap_or(TICK_MS));
    let count = words.number("--count")?;
    stream.meta(json!({}))?;
    let mut sequence: u64 = 0;
    while count.is_none_or(|count| sequence < count) {
        if sequence > 0 {
            stream.sleep(interval)?;
        }
        sequence += 1;
        stream.domain(json!({ "type": "tick", "sequence": sequence }))?;
        if sequence.is_multiple_of(BEAT) {
            let now: Value = crate::iso8601(SystemTime::now()).into();
            stream.framework(json!({ "type": "aoi:heartbeat", "timestamp": now }))?;
        }
    }
    stream.summary(true, json!({}))
}
