//! The recent output of a session, and its readers. Each item is serialized once, for all readers.
//! A reader that falls behind gets older items from the log, or a gap event. Writers never wait for
//! a reader.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::store::{LogRow, SessionLog};

/// Limits of one session's ring.
const MAX_ITEMS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of items that a reader takes at once.
const BATCH: usize = 256;
/// Approximate size in bytes of one page from the log.
pub const PAGE_BYTES: usize = 1 << 20;

/// The kind of an item: the `event` field of SSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ItemKind {
    /// A line of output, as specified by AIP-46.
    Line,
    /// A change of status or of `busy`.
    Status,
    /// One event of the AIP-45 taxonomy.
    Event,
    /// A question was asked or closed.
    Permission,
    /// A turn started, with its prompt.
    Prompt,
    /// Items are missing here, or the items before it are not stored yet.
    Gap,
}

impl ItemKind {
    /// The kind as text, for example `status`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The kind with this text.
    pub fn from_name(name: &str) -> Option<ItemKind> {
        name.parse().ok()
    }
}

/// One item, ready to send.
#[derive(Clone, Debug)]
pub struct LogItem {
    /// Number within the session, starting with 0.
    pub seq: u64,
    /// Number of the daemon run that wrote it.
    pub epoch: u64,
    /// The kind of item.
    pub kind: ItemKind,
    /// The `id`, `event` and `data` fields, and the empty line.
    pub frame: Bytes,
    data: (usize, usize),
}

impl LogItem {
    /// Creates an item. `data` must be JSON.
    pub fn new(epoch: u64, seq: u64, kind: ItemKind, data: &str) -> Self {
        // JSON has no raw line breaks, so it fits into one `data` line.
        let head = format!("id: {epoch:x}-{seq}\nevent: {}\ndata: ", kind.as_str());
        let start = head.len();
        let mut frame = head;
        frame.push_str(data);
        frame.push_str("\n\n");
        LogItem {
            seq,
            epoch,
            kind,
            data: (start, start + data.len()),
            frame: Bytes::from(frame),
        }
    }

    /// The id that clients use as a cursor.
    pub fn id(&self) -> String {
        format!("{:x}-{}", self.epoch, self.seq)
    }

    /// Number of the item that follows. A gap takes the numbers of the missing items.
    pub fn next_seq(&self) -> u64 {
        let missed = match self.kind {
            ItemKind::Gap => serde_json::from_str(self.data()).ok(),
            _ => None,
        };
        let missed = missed.and_then(|data: Value| data.get("missed")?.as_u64());
        self.seq.saturating_add(missed.unwrap_or(1).max(1))
    }

    /// The JSON of its `data` field.
    pub fn data(&self) -> &str {
        let (from, to) = self.data;
        let bytes = self.frame.get(from..to).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl From<LogRow> for LogItem {
    fn from(row: LogRow) -> Self {
        LogItem::new(row.epoch, row.seq, row.kind, &row.data)
    }
}

/// The last item that a client has seen. It comes from the client and may be invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Number of the daemon run that wrote the item.
    pub epoch: u64,
    /// Number of the item within the session.
    pub seq: u64,
}

impl Cursor {
    /// Parses the id of an item.
    pub fn parse(text: &str) -> Option<Cursor> {
        let (epoch, seq) = text.trim().split_once('-')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !digits(epoch) || !digits(seq) {
            return None;
        }
        Some(Cursor {
            epoch: u64::from_str_radix(epoch, 16).ok()?,
            seq: seq.parse().ok()?,
        })
    }
}

struct Ring {
    items: VecDeque<LogItem>,
    bytes: usize,
    next: u64,
    /// Items from here on are not shown yet, because they are not in the log yet.
    first_unflushed: Option<u64>,
    /// Whether readers know that the last items are not stored.
    is_unstored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tip {
    next: u64,
    over: bool,
}

/// The output of one session, with one writer and many readers.
pub struct Channel {
    session: String,
    /// The epoch of new items.
    epoch: u64,
    ring: Mutex<Ring>,
    tip: watch::Sender<Tip>,
    /// Number of readers that follow the session.
    watchers: watch::Sender<usize>,
    log: SessionLog,
}

impl Channel {
    /// `next` is the number of the first new item. Earlier items are in the log, if they still
    /// exist.
    pub fn new(session: &str, epoch: u64, next: u64, over: bool, log: SessionLog) -> Arc<Self> {
        Arc::new(Channel {
            session: session.to_owned(),
            epoch,
            ring: Mutex::new(Ring {
                items: VecDeque::new(),
                bytes: 0,
                next,
                first_unflushed: None,
                is_unstored: false,
            }),
            tip: watch::Sender::new(Tip { next, over }),
            watchers: watch::Sender::new(0),
            log,
        })
    }

    /// Number of readers that follow the session, and its changes.
    pub fn watchers(&self) -> watch::Receiver<usize> {
        self.watchers.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }

    /// Writes one item for all readers and to the log.
    pub fn push(&self, kind: ItemKind, data: &Value) {
        let mut ring = self.ring();
        self.add(&mut ring, kind, data);
        let visible = ring.visible_end();
        drop(ring);
        self.publish(visible);
    }

    /// Like `push`, for items that must not be lost once a reader has seen them. Readers see them,
    /// and later items, only when they are in the log. If the disk rejects them, a gap after them
    /// says so. `before_visible` runs just before that. Only the session's own writer may call this,
    /// once at a time.
    pub async fn push_durable(&self, items: &[(ItemKind, Value)], before_visible: impl FnOnce()) {
        {
            let mut ring = self.ring();
            ring.first_unflushed = Some(ring.next);
            for (kind, data) in items {
                self.add(&mut ring, *kind, data);
            }
        }
        let is_stored = self.log.flush().await;
        let mut ring = self.ring();
        ring.first_unflushed = None;
        if !is_stored && !ring.is_unstored {
            let data = json!({ "missed": 0, "reason": "not_stored" });
            self.add(&mut ring, ItemKind::Gap, &data);
        }
        ring.is_unstored = !is_stored;
        before_visible();
        let visible = ring.visible_end();
        drop(ring);
        self.publish(visible);
    }

    fn add(&self, ring: &mut Ring, kind: ItemKind, data: &Value) {
        let item = LogItem::new(self.epoch, ring.next, kind, &data.to_string());
        ring.push(item.clone());
        self.log.append(&self.session, item);
    }

    fn publish(&self, visible: u64) {
        self.tip.send_modify(|tip| tip.next = tip.next.max(visible));
    }

    /// Marks the end of the output. Readers end after the last item.
    pub fn close(&self) {
        self.tip.send_modify(|tip| tip.over = true);
    }

    /// Frees the memory of an ended session whose items are in the log.
    pub fn clear(&self) {
        let mut ring = self.ring();
        ring.items = VecDeque::new();
        ring.bytes = 0;
    }

    /// Returns a watch whose `over` waits for the end.
    pub fn watch_end(&self) -> EndWatch {
        EndWatch(self.tip.subscribe())
    }

    /// Items from `from` on, at most `limit`, and fewer if they are large. Missing items are
    /// skipped.
    pub async fn page(&self, from: u64, limit: usize) -> Vec<LogItem> {
        let mut items: Vec<LogItem> = Vec::new();
        let mut from = from;
        let mut is_logged = true;
        loop {
            {
                let ring = self.ring();
                let next = ring.visible_end();
                let first = ring.items.front().map_or(next, |item| item.seq);
                if from >= next {
                    return items;
                }
                if from >= first || !is_logged {
                    let left = limit - items.len();
                    let rest = ring.items.range(ring.index_of(from)..);
                    let rest = rest.take_while(|item| item.seq < next);
                    items.extend(rest.take(left).cloned());
                    return items;
                }
            }
            // Items that leave the ring in the meantime are in the log by then.
            let rows = self
                .log
                .page(&self.session, from, limit - items.len())
                .await;
            let next = self.span().1;
            let found = items.len();
            items.extend(rows.into_iter().map(LogItem::from).filter(|i| i.seq < next));
            is_logged = items.len() > found;
            from = items.last().map_or(from, LogItem::next_seq);
            let bytes: usize = items.iter().map(|item| item.frame.len()).sum();
            if items.len() >= limit || bytes >= PAGE_BYTES {
                return items;
            }
        }
    }

    /// Whether there are items after this one.
    pub fn has_after(&self, item: &LogItem) -> bool {
        item.next_seq() < self.ring().visible_end()
    }

    /// The last `count` lines of output, limited to `max_bytes` bytes, but at least one line.
    pub async fn last_lines(&self, count: usize, max_bytes: usize) -> Tail {
        let mut tail = Tail::default();
        {
            let ring = self.ring();
            let visible = ring.visible_end();
            let lines = ring.items.iter().rev();
            let mut lines = lines.filter(|i| i.kind == ItemKind::Line && i.seq < visible);
            while tail.has_room(count)
                && let Some(line) = lines.next()
            {
                tail.take(line.clone(), max_bytes);
            }
        }
        if tail.has_room(count) {
            let before = tail.items.last().map_or(u64::MAX, |item| item.seq);
            let missing = count - tail.items.len();
            let bytes = max_bytes.saturating_sub(tail.bytes);
            let log = &self.log;
            for row in log
                .lines_before(&self.session, before, missing, bytes)
                .await
            {
                tail.take(LogItem::from(row), max_bytes);
            }
        }
        tail.items.reverse();
        tail
    }

    /// Number of the first item in the ring, and of the first item that is not shown yet.
    fn span(&self) -> (u64, u64) {
        let ring = self.ring();
        let first = ring.items.front().map_or(ring.next, |item| item.seq);
        (first, ring.visible_end())
    }

    /// Number of the item after `cursor`. `None` if the item at `cursor` is unknown: then the
    /// client has missed items, and their number is unknown.
    pub async fn position_after(&self, cursor: Cursor) -> Option<u64> {
        let (_, next) = self.span();
        if cursor.seq >= next {
            return None;
        }
        let epoch = {
            let ring = self.ring();
            let item = ring.items.get(ring.index_of(cursor.seq));
            let item = item.filter(|item| item.seq == cursor.seq);
            item.map(|item| item.epoch)
        };
        let known = match epoch {
            Some(epoch) => Some(epoch),
            None => {
                let rows = self.log.page(&self.session, cursor.seq, 1).await;
                let row = rows.into_iter().find(|row| row.seq == cursor.seq);
                row.map(|row| row.epoch)
            }
        };
        (known? == cursor.epoch).then_some(cursor.seq + 1)
    }

    /// A new reader. Without a cursor it starts with the oldest item in the ring, or with the last
    /// items in the log if the session has ended.
    pub async fn follow(self: &Arc<Self>, from: FollowFrom) -> Follower {
        let (first, next) = self.span();
        let tip = self.tip.subscribe();
        let (at, gap) = match from {
            FollowFrom::Now => (next, false),
            FollowFrom::Start => (
                if first == next {
                    next.saturating_sub(MAX_ITEMS as u64)
                } else {
                    first
                },
                false,
            ),
            FollowFrom::After(cursor) => match self.position_after(cursor).await {
                Some(at) => (at, false),
                None => (first.min(next), true),
            },
        };
        self.watchers.send_modify(|count| *count += 1);
        Follower {
            channel: Arc::clone(self),
            tip,
            at,
            gap,
            // Items before the start of the ring were not requested, so they are not a gap.
            started: !matches!(from, FollowFrom::Start),
        }
    }
}

/// The last lines of a session's output.
#[derive(Default)]
pub struct Tail {
    /// Newest first while collecting, oldest first in the result.
    pub items: Vec<LogItem>,
    /// Whether older lines were left out because of the size limit.
    pub truncated: bool,
    bytes: usize,
}

impl Tail {
    fn has_room(&self, count: usize) -> bool {
        !self.truncated && self.items.len() < count
    }

    fn take(&mut self, line: LogItem, max_bytes: usize) {
        let bytes = self.bytes + line.data().len();
        self.truncated = self.truncated || (bytes > max_bytes && !self.items.is_empty());
        if !self.truncated {
            self.bytes = bytes;
            self.items.push(line);
        }
    }
}

/// Waits for the end of a session's output.
pub struct EndWatch(watch::Receiver<Tip>);

impl EndWatch {
    /// Waits for the end of the output.
    pub async fn over(&mut self) {
        let _ = self.0.wait_for(|tip| tip.over).await;
    }
}

impl Ring {
    fn visible_end(&self) -> u64 {
        self.first_unflushed.unwrap_or(self.next)
    }

    /// Index of an item, or of the first item after it.
    fn index_of(&self, seq: u64) -> usize {
        self.items.partition_point(|item| item.seq < seq)
    }

    fn push(&mut self, item: LogItem) {
        self.next = item.seq + 1;
        self.bytes += item.frame.len();
        self.items.push_back(item);
        while self.items.len() > MAX_ITEMS || (self.bytes > MAX_BYTES && self.items.len() > 1) {
            if let Some(old) = self.items.pop_front() {
                self.bytes -= old.frame.len();
            }
        }
    }
}

/// Where a reader starts.
#[derive(Clone, Copy, Debug)]
pub enum FollowFrom {
    /// With the oldest item in the ring.
    Start,
    /// With the next new item.
    Now,
    /// With the item after this one.
    After(Cursor),
}

/// One reader with its own position.
pub struct Follower {
    channel: Arc<Channel>,
    tip: watch::Receiver<Tip>,
    at: u64,
    /// Whether an unknown number of items is missing before `at`.
    gap: bool,
    started: bool,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.channel.watchers.send_modify(|count| *count -= 1);
    }
}

impl Follower {
    /// The next frames, as soon as there are any. `None` at the end of the session.
    pub async fn next(&mut self) -> Option<Vec<Bytes>> {
        loop {
            let tip = *self.tip.borrow_and_update();
            if std::mem::take(&mut self.gap) {
                return Some(vec![gap(None, self.at)]);
            }
            if self.at < tip.next {
                return Some(self.take(tip.next).await);
            }
            if tip.over {
                return None;
            }
            if self.tip.changed().await.is_err() {
                return None;
            }
        }
    }

    async fn take(&mut self, next: u64) -> Vec<Bytes> {
        let items = self.channel.page(self.at, BATCH).await;
        let mut frames = Vec::with_capacity(items.len() + 1);
        for item in items {
            if item.seq > self.at && self.started {
                frames.push(gap(Some(self.at), item.seq));
            }
            self.started = true;
            self.at = item.next_seq();
            frames.push(item.frame);
        }
        if frames.is_empty() {
            // None of these items still exists.
            frames.push(gap(Some(self.at), next));
            self.at = next;
        }
        frames
    }
}

/// Reports missing items to a reader. It has no id: the next item has one.
fn gap(from: Option<u64>, to: u64) -> Bytes {
    let missed = from.map(|from| to.saturating_sub(from));
    Bytes::from(format!("event: gap\ndata: {}\n\n", gap_data(missed)))
}

/// Data of a gap, with the number of missing items if it is known.
pub fn gap_data(missed: Option<u64>) -> Value {
    json!({ "missed": missed })
}
