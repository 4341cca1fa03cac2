//! Limits and cursors.

use serde_json::{Value, json};

use super::args::ParsedArgs;
use super::changes::Quirk;
use super::stream::{EarlyExit, EventWriter, ToolError};
use super::text::hash;

/// Maximum limit.
const MAX_LIMIT: u64 = 1000;

/// A page of a list: its start and its length.
pub struct ListPage {
    start: usize,
    length: usize,
    topic: String,
}

impl ListPage {
    pub fn requested(
        stream: &EventWriter,
        words: &ParsedArgs,
        default: u64,
        topic: &str,
    ) -> Result<ListPage, EarlyExit> {
        let has = |quirk: Quirk| stream.has_quirk(quirk);
        let limit = match words.value("--limit") {
            None if has(Quirk::NoDefaultBound) => MAX_LIMIT,
            None => default,
            Some("0") if has(Quirk::LimitZeroIsAll) => MAX_LIMIT,
            Some(text) if text.starts_with('-') && has(Quirk::LimitNegativeIsAll) => MAX_LIMIT,
            Some(text) => match text.parse() {
                Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => limit,
                _ if has(Quirk::InvalidLimitPasses) => default,
                _ => {
                    let message =
                        format!("`--limit` must be a whole number from 1 to {MAX_LIMIT}.");
                    return Err(ToolError::new("usage", "LIMIT_INVALID", message).into());
                }
            },
        };
        let start = match words.value("--cursor") {
            None => 0,
            Some(_) if has(Quirk::CursorStartsAgain) => 0,
            Some(text) => match read_cursor(text, topic) {
                Some(start) => start,
                None if has(Quirk::CursorUnchecked) => 0,
                None => {
                    let message = "`--cursor` was not issued by this tool for this query.";
                    return Err(ToolError::new("validation", "CURSOR_INVALID", message).into());
                }
            },
        };
        let length = limit + u64::from(has(Quirk::LimitPlusOne));
        Ok(ListPage {
            start,
            length: usize::try_from(length).unwrap_or(usize::MAX),
            topic: topic.to_owned(),
        })
    }

    /// The part of the list that this page shows.
    pub fn of<T: Clone>(&self, stream: &EventWriter, all: &[T]) -> Vec<T> {
        let rest = all.iter().skip(self.start).take(self.length);
        let mut page: Vec<T> = rest.cloned().collect();
        if self.start > 0 && stream.has_quirk(Quirk::NewOrderOnLaterPages) {
            page.reverse();
        }
        page
    }

    /// The fields of the summary about the rest of the list.
    pub fn end(&self, stream: &EventWriter, shown: usize, total: usize) -> Value {
        let has = |quirk: Quirk| stream.has_quirk(quirk);
        let end = self.start.saturating_add(shown);
        let is_truncated = end < total || (has(Quirk::TruncatedWhenExact) && shown == self.length);
        let next = match () {
            () if has(Quirk::CursorSkipsOne) => end + 1,
            () if has(Quirk::CursorRepeatsOne) => end.saturating_sub(1),
            () if has(Quirk::CursorStays) => self.start,
            () => end,
        };
        let has_next = is_truncated || has(Quirk::CursorAfterTheEnd);
        let next = has_next.then(|| cursor(next, &self.topic));
        json!({ "truncated": is_truncated, "next_cursor": next })
    }
}

/// An opaque cursor. The checksum detects cursors that the tool did not issue.
fn cursor(start: usize, topic: &str) -> String {
    let sum = checksum(start, topic);
    format!("p{start:x}-{sum:08x}")
}

fn read_cursor(text: &str, topic: &str) -> Option<usize> {
    let (start, sum) = text.strip_prefix('p')?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (sum == checksum(start, topic)).then_some(start)
}

fn checksum(start: usize, topic: &str) -> u32 {
    let hash = hash(&[b"cursor", start.to_string().as_bytes(), topic.as_bytes()]);
    u32::try_from(hash >> 32).unwrap_or_default()
}
