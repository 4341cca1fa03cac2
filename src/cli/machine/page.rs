//! `--limit` and `--cursor` for long lists.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::cli::Failure;
use crate::exit;
use agentproto_report::aoi::{Fields, object};

#[derive(Args, Clone, Debug, Default)]
pub struct Page {
    /// Maximum number of results
    #[arg(long, value_name = "N", value_parser = limit)]
    pub limit: Option<usize>,
    /// Continue after an earlier page (its output names the cursor)
    // A token may start with a dash.
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("must be a number from 1 up".to_owned()),
    }
}

/// A part of a list, and the cursor of the next part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageRange {
    pub from: usize,
    pub to: usize,
    /// Length of the whole list.
    pub total: usize,
    pub next: Option<String>,
}

impl PageRange {
    pub fn fields(&self) -> Fields {
        object(json!({ "truncated": self.next.is_some(), "next_cursor": self.next }))
    }

    /// Lines for people that say which part of the list is shown, and how to get the next one.
    /// Empty if the whole list is shown.
    pub fn describe(&self, items: &str) -> String {
        let (from, to, total) = (self.from, self.to, self.total);
        let mut lines = match to - from {
            shown if shown == total => return String::new(),
            0 => format!("{items}: none of {total} on this page\n"),
            _ => format!("{items}: {} to {to} of {total}\n", from + 1),
        };
        if let Some(next) = &self.next {
            lines.push_str(&format!("more: --cursor {next}\n"));
        }
        lines
    }
}

impl Page {
    pub fn is_paged(&self) -> bool {
        self.limit.is_some() || self.cursor.is_some()
    }

    /// Fields of a document that has only a part of the list.
    pub fn document_fields(&self, range: &PageRange) -> Fields {
        match self.is_paged() {
            true => range.fields(),
            false => Fields::new(),
        }
    }

    /// Selects a part of `total` items. `list` names the list and everything that it depends on: a
    /// cursor of another list is rejected.
    pub fn range(&self, list: &str, total: usize) -> Result<PageRange, Failure> {
        let from = match &self.cursor {
            None => 0,
            Some(cursor) => position(cursor, list)
                .filter(|at| *at <= total)
                .ok_or_else(unknown_cursor)?,
        };
        let to = self
            .limit
            .map_or(total, |limit| total.min(from.saturating_add(limit)));
        let next = (to < total).then(|| token(list, to));
        Ok(PageRange {
            from,
            to,
            total,
            next,
        })
    }

    /// Like `select`, for a list that changes between calls. The cursor refers to the last item,
    /// wherever that is then.
    pub fn select_after<T>(
        &self,
        list: &str,
        items: &mut Vec<T>,
        id: impl Fn(&T) -> String,
    ) -> Result<PageRange, Failure> {
        let item_token = |item: &T| item_token(list, &id(item));
        let from = match &self.cursor {
            None => 0,
            Some(cursor) => {
                let last = items.iter().position(|item| item_token(item) == *cursor);
                last.ok_or_else(unknown_cursor)? + 1
            }
        };
        let total = items.len();
        let to = self
            .limit
            .map_or(total, |limit| total.min(from.saturating_add(limit)));
        let next = match to < total {
            true => items.get(to.saturating_sub(1)).map(item_token),
            false => None,
        };
        items.truncate(to);
        items.drain(..from);
        Ok(PageRange {
            from,
            to,
            total,
            next,
        })
    }

    /// Removes everything outside the selected part from a list.
    pub fn select<T>(&self, list: &str, items: &mut Vec<T>) -> Result<PageRange, Failure> {
        let range = self.range(list, items.len())?;
        items.truncate(range.to);
        items.drain(..range.from);
        Ok(range)
    }
}

fn unknown_cursor() -> Failure {
    Failure::new(exit::DATA, "unknown cursor")
        .typed("cursor_invalid")
        .hint("pass `next_cursor` of a summary unchanged, with the same options")
}

/// Identifies an item of a list.
fn item_token(list: &str, id: &str) -> String {
    let sum = Sha256::digest(format!("{list}\n{id}"));
    URL_SAFE_NO_PAD.encode(sum.get(..12).unwrap_or(&sum))
}

fn checksum(list: &str, at: usize) -> Vec<u8> {
    let sum = Sha256::digest(format!("{list}\n{at}"));
    sum.iter().take(6).copied().collect()
}

fn token(list: &str, at: usize) -> String {
    let mut bytes = checksum(list, at);
    bytes.extend_from_slice(&u64::try_from(at).unwrap_or(u64::MAX).to_be_bytes()[2..]);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn position(token: &str, list: &str) -> Option<usize> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (own, at) = bytes.split_at_checked(6)?;
    let at: [u8; 6] = at.try_into().ok()?;
    let at = at
        .iter()
        .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let at = usize::try_from(at).ok()?;
    (checksum(list, at) == own).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, cursor: Option<String>) -> Page {
        Page {
            limit: Some(limit),
            cursor,
        }
    }

    /// AOI-15-02, AOI-18.2-11.
    #[test]
    fn all_pages_together_are_the_list() {
        let all: Vec<usize> = (0..25).collect();
        let (mut collected, mut cursor) = (Vec::new(), None);
        loop {
            let mut items = all.clone();
            let range = page(7, cursor).select("list", &mut items).expect("a page");
            collected.extend(items);
            assert_eq!(range.fields()["truncated"], range.next.is_some());
            match range.next {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(collected, all);
        assert_eq!(page(25, None).range("list", 25).expect("a page").next, None);
    }

    /// AOI-18.2-11: no item is repeated or left out, even if other items are added or removed.
    #[test]
    fn pages_of_a_changing_list_continue_after_the_last_item() {
        let select = |items: &[&str], cursor| {
            let mut items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
            let range = page(2, cursor).select_after("list", &mut items, String::clone);
            range.map(|range| (items.join(""), range.next))
        };
        let (first, next) = select(&["a", "b", "c", "d", "e"], None).expect("a page");
        assert_eq!(first, "ab");
        let (second, last) = select(&["b", "new", "c", "d"], next.clone()).expect("a page");
        assert_eq!(second, "newc");
        let (third, end) = select(&["b", "c", "d"], last).expect("a page");
        assert_eq!((third.as_str(), end), ("d", None));
        // The item that the cursor refers to is gone, so the next item is unknown.
        let gone = select(&["a", "c", "d"], next.clone()).expect_err("refused");
        assert_eq!(gone.slug, Some("cursor_invalid"));
        let mut other = vec!["b".to_owned()];
        let other = page(2, next).select_after("another", &mut other, String::clone);
        assert_eq!(other.expect_err("refused").code, exit::DATA);
    }

    #[test]
    fn a_cursor_of_another_list_is_rejected() {
        let next = page(3, None).range("one", 9).expect("a page").next;
        assert!(page(3, next.clone()).range("one", 9).is_ok());
        for (cursor, list) in [
            (next, "two"),
            (Some("garbage".to_owned()), "one"),
            (Some(String::new()), "one"),
            (Some(token("one", 10)), "one"),
        ] {
            let failure = page(3, cursor).range(list, 9).expect_err("refused");
            assert_eq!(failure.code, exit::DATA);
        }
    }
}
