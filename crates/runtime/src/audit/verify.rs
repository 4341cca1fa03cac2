//! Checks a whole log.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::str::FromStr;

use serde_json::json;

use super::key::{self, HomeKey};
use super::line::{self, Event, GENESIS, Head, KEEP_AS_EVIDENCE, MAX_HEAD, Problem};
use super::{Locked, MAX_LINE, RESTART, default_path, head_path, is_same_file};
use crate::error::{Code, Error};
use crate::home::Home;

/// Result of verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of events in the log.
    pub events: u64,
    /// Hash of the newest event, or `None` for an empty log.
    pub head: Option<String>,
    /// Number of events at the start that were written before logs were keyed. They are only
    /// chained by hashes, which anybody can compute.
    pub unkeyed: u64,
    /// Whether the log was started after an earlier one had been moved or deleted.
    pub restarted: bool,
}

impl Verified {
    /// The value that pins the current state of the log.
    pub fn anchor(&self) -> Anchor {
        Anchor {
            events: self.events,
            hash: self.head.clone().unwrap_or_else(|| GENESIS.to_owned()),
        }
    }
}

/// A state of a log, kept elsewhere. A log that contains it was not changed up to there, even by
/// somebody who has the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Number of events.
    events: u64,
    /// Hash of the last of them.
    hash: String,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.events, self.hash)
    }
}

impl FromStr for Anchor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hash = |hash: &str| {
            let digits = hash.strip_prefix("sha256:").unwrap_or_default();
            let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
            digits.len() == 64 && digits.bytes().all(is_digit)
        };
        match text.trim().split_once(':') {
            Some((events, hash)) if is_hash(hash) => match events.parse() {
                Ok(events) => Ok(Anchor {
                    events,
                    hash: hash.to_owned(),
                }),
                Err(_) => Err("the number of events is invalid".to_owned()),
            },
            _ => Err("an anchor has the form `EVENTS:sha256:DIGITS`, as printed by `agentproto audit anchor`".to_owned()),
        }
    }
}

/// Checks every event of a log against the previous one, the end against the pointer file, and the
/// log against anchors. Keyed events are checked with the key of `home`.
pub fn verify(home: &Home, path: &Path, anchors: &[Anchor]) -> Result<Verified, Error> {
    let broken = |line: u64, problem: Problem| {
        let what = format!("{}:{line}: {}", path.display(), problem.what);
        Error::new(Code::AuditBroken, what)
            .hint(problem.hint)
            .details(json!({ "line": line }))
    };
    let unread = |error: io::Error| unreadable(home, path, &error);
    let key = key::load(home)?;
    let file = File::open(path).map_err(unread)?;
    let is_own = is_same_file(&file, &default_path(home));
    // Events that are appended during the check do not belong to it.
    let lock = Locked::new(&file, libc::LOCK_SH).map_err(unread)?;
    let size = file.metadata().map_err(unread)?.len();
    let pointer = read_pointer(path).map_err(unread)?;
    drop(lock);
    let mut reader = BufReader::with_capacity(64 << 10, file.take(size));

    let must_be_keyed = is_own && matches!(key, HomeKey::InUse(_));
    let head = match line::read_head(&pointer, &key, must_be_keyed) {
        Ok(Some(head)) => head,
        problem => {
            let problem = problem.err().unwrap_or_else(|| {
                "it is missing or empty, so events may be missing at the end".into()
            });
            let name = head_path(path);
            let what = format!("the pointer file `{}`: {}", name.display(), problem.what);
            let line = count_lines(&mut reader).map_err(unread)?;
            return Err(broken(line, Problem { what, ..problem }));
        }
    };
    let keyed = key.get().zip(head.keyed_from);

    let mut anchored = Anchored::new(anchors);
    anchored
        .check(0, GENESIS)
        .map_err(|problem| broken(0, problem))?;
    let mut last: Option<Event> = None;
    let mut restarted = false;
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line);
        if read.map_err(unread)? == 0 {
            break;
        }
        number += 1;
        let event = read_next(&line, keyed, last.as_ref()).map_err(|e| broken(number, e))?;
        anchored
            .check(number, &event.tip.hash)
            .map_err(|e| broken(number, e))?;
        restarted |= number == 1 && event.name == RESTART;
        last = Some(event);
    }
    line::check_end(head.tip.as_ref(), last.as_ref())
        .map_err(|what| broken(number + 1, what.into()))?;
    check_start(&head, number).map_err(|what| broken(number + 1, what))?;
    anchored.finish(number).map_err(|e| broken(number + 1, e))?;
    Ok(Verified {
        events: number,
        head: last.map(|last| last.tip.hash),
        unkeyed: head.keyed_from.unwrap_or(number).min(number),
        restarted,
    })
}

/// Reads the event after `last`.
fn read_next(
    line: &[u8],
    keyed: Option<(&key::Key, u64)>,
    last: Option<&Event>,
) -> Result<Event, Problem> {
    let text = line.strip_suffix(b"\n");
    let text = text.ok_or("the line is incomplete: it has no line break")?;
    let event = line::read_event(text, keyed)?;
    let tip = last.map(|last| &last.tip);
    let seq = line::count(tip);
    if event.tip.seq != seq {
        return Err(format!("`seq` should be {seq}: events are missing or repeated").into());
    }
    if event.prev != line::next_prev(tip) {
        return Err("`prev` is not the hash of the previous event".into());
    }
    Ok(event)
}

/// The keyed part cannot start after the end of the log.
fn check_start(head: &Head, events: u64) -> Result<(), Problem> {
    match head.keyed_from {
        Some(from) if from > events => {
            Err("the pointer file names a first keyed event that does not exist".into())
        }
        _ => Ok(()),
    }
}

/// The anchors to compare with, by number of events.
struct Anchored<'a>(HashMap<u64, Vec<&'a str>>);

impl<'a> Anchored<'a> {
    fn new(anchors: &'a [Anchor]) -> Self {
        let mut hashes: HashMap<u64, Vec<&str>> = HashMap::new();
        for anchor in anchors {
            hashes.entry(anchor.events).or_default().push(&anchor.hash);
        }
        Anchored(hashes)
    }

    /// Compares the state after a number of events.
    fn check(&mut self, events: u64, hash: &str) -> Result<(), Problem> {
        let hashes = self.0.remove(&events).unwrap_or_default();
        match hashes.iter().all(|anchor| *anchor == hash) {
            true => Ok(()),
            false => Err(Problem {
                what: format!(
                    "the log differs from the anchor `{events}:…`: an event up to here was \
                     changed, or the anchor belongs to another log"
                ),
                hint: KEEP_AS_EVIDENCE,
            }),
        }
    }

    fn finish(self, events: u64) -> Result<(), Problem> {
        match self.0.keys().min() {
            Some(anchored) => Err(format!(
                "events are missing at the end: the log has {events}, and an anchor was made after \
                 {anchored}"
            )
            .into()),
            None => Ok(()),
        }
    }
}

/// The contents of the pointer file. Empty if there is none.
fn read_pointer(log: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(head_path(log)) {
        Ok(file) => file.take(MAX_HEAD).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(bytes)
}

fn count_lines(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut lines = 0;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let used = bytes.len();
        reader.consume(used);
    }
}

fn unreadable(home: &Home, path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::TargetUnknown,
        _ => Code::AuditBroken,
    };
    let failure = Error::new(code, format!("{}: {error}", path.display()));
    let is_expected = path == default_path(home) && home.path(key::FILE).exists();
    match code == Code::TargetUnknown && is_expected {
        true => failure.hint(
            "this home has an audit key, so it had an audit log: the log was moved or deleted",
        ),
        false => failure,
    }
}
