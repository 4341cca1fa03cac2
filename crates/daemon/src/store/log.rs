//! The durable log behind the rings: one SQLite file with one writer thread. Queued commands are
//! committed together after a short delay. Data that must be safe earlier goes through the journal.
//! If the disk is full, commands wait in memory until it can be written again. What does not fit
//! there leaves a gap, and the marker remembers that something is missing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::{self, Database};
use super::journal::Journal;
use super::marker::{Marked, Marker};
use crate::model::SessionRecord;
use crate::ring::{ItemKind, LogItem};
use agentproto_runtime::{Code, Error};

/// Maximum number of bytes of items in memory. Beyond it, items are left out of the log, which
/// leaves a gap.
const MAX_QUEUED_BYTES: usize = 64 << 20;
/// Number of queued commands that triggers a commit without further delay. The rings hold only a few
/// times as many.
const BATCH_SIZE: usize = 1024;
/// Delay before a commit, so that several commands are committed together.
const COMMIT_DELAY: Duration = Duration::from_millis(50);
/// Journal size in bytes above which all queued commands are committed at once.
const MAX_JOURNAL: u64 = 32 << 20;
/// Interval between retries after a failed commit.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// One item in the log.
#[derive(Clone, Debug)]
pub struct LogRow {
    pub seq: u64,
    pub epoch: u64,
    pub kind: ItemKind,
    pub data: String,
}

/// A session of an earlier run of the daemon.
#[derive(Clone, Debug)]
pub struct LoggedSession {
    pub session: SessionRecord,
    /// The number after its last item.
    pub next: u64,
}

/// Items that are missing in the log, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub first: u64,
    pub epoch: u64,
    /// How many are missing, if known.
    pub missed: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) enum LogCommand {
    Item(Box<str>, LogItem),
    Record(Box<SessionRecord>),
    Gap(Box<str>, Gap),
    Forget(String),
}

impl LogCommand {
    fn session(&self) -> &str {
        match self {
            LogCommand::Item(session, _) | LogCommand::Gap(session, _) => session,
            LogCommand::Record(record) => &record.id,
            LogCommand::Forget(id) => id,
        }
    }

    /// Bytes that it takes in memory, if they are limited.
    fn size(&self) -> usize {
        match self {
            LogCommand::Item(_, item) => size(item),
            _ => 0,
        }
    }
}

fn size(item: &LogItem) -> usize {
    item.frame.len() + 128
}

/// What is wrong with the log at start-up.
#[derive(Debug, Default)]
pub struct Opened {
    /// Warnings for the user who starts the daemon.
    pub warnings: Vec<String>,
    /// Whether commits of an earlier run are missing.
    pub is_incomplete: bool,
    /// Sessions with items that an earlier run could not store.
    pub unstored: Vec<String>,
    /// Sessions that were forgotten. `sessions.json` may still have them.
    pub forgotten: HashSet<String>,
}

/// Commands that wait for the database. Their numbers are consecutive, and the first one follows
/// `committed`.
struct Queue {
    /// Commands that are being committed, or wait for the disk.
    taken: Arc<Vec<LogCommand>>,
    commands: Vec<LogCommand>,
    /// Numbers of the last command and of the last committed command.
    last: u64,
    committed: u64,
    journal: Journal,
    /// Callers that wait for the next attempt to commit.
    waiting: Vec<oneshot::Sender<bool>>,
    is_stopping: bool,
    /// Items that were left out, because too many are in memory.
    left_out: HashMap<Box<str>, Gap>,
    /// Forgotten sessions whose tasks may still write. Their late writes are dropped, because they
    /// would bring the session back after a restart.
    forgotten: HashSet<String>,
}

impl Queue {
    fn push(&mut self, command: LogCommand) {
        self.last += 1;
        self.commands.push(command);
    }

    /// Adds the gap of a session before its next command.
    fn close_gap(&mut self, session: &str) {
        if let Some((session, gap)) = self.left_out.remove_entry(session) {
            self.push(LogCommand::Gap(session, gap));
        }
    }

    fn is_urgent(&self) -> bool {
        self.is_stopping || !self.waiting.is_empty() || self.commands.len() >= BATCH_SIZE
    }

    /// Writes all commands that are not in the database to the journal.
    fn save(&mut self) -> std::io::Result<()> {
        let all = self.taken.iter().chain(&self.commands);
        self.journal.save((self.committed + 1..).zip(all))
    }
}

/// Clones share one writer and one reader.
#[derive(Clone)]
pub struct SessionLog {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    reader: Arc<Mutex<Option<Connection>>>,
    /// Bytes of the items in memory.
    bytes: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last connection that is closed empties the write-ahead log, and it must be able to
        // write.
        *self.reader.lock() = None;
        self.queue.0.lock().is_stopping = true;
        self.queue.1.notify_one();
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

impl SessionLog {
    /// Opens the log. A damaged file is moved aside and reported. Beyond `max_bytes`, the oldest
    /// items are deleted.
    pub fn open(path: &Path, max_bytes: u64) -> Result<(SessionLog, Opened), Error> {
        let unreadable = |name: &str, e: std::io::Error| unusable(path, &format!("{name}: {e}"));
        let (database, moved_to) =
            Database::open(path, max_bytes).map_err(|e| unusable(path, &e))?;
        let reader = database::reader(path).map_err(|e| unusable(path, &e.to_string()))?;
        let (journal, left) = Journal::open(&path.with_extension("journal"))
            .map_err(|e| unreadable("its journal", e))?;
        let (marker, marked) = Marker::open(&path.with_extension("marker"))
            .map_err(|e| unreadable("its marker", e))?;
        let mut opened = Opened::default();
        let applied = database.applied();
        if let Some(moved_to) = moved_to {
            opened.is_incomplete = true;
            opened.warnings.push(format!(
                "the session log was damaged: it was moved to `{}`, and a new one was started",
                moved_to.display()
            ));
        } else if marked.committed > applied {
            opened.is_incomplete = true;
            opened.warnings.push(format!(
                "the session log `{}` does not have the last {} commits: its write-ahead log (`-wal`) is damaged or missing, so the sessions have gaps",
                path.display(),
                marked.committed - applied
            ));
        }
        let Marked {
            committed,
            unstored,
        } = marked;
        opened.unstored = unstored;
        let last = left.iter().map(|(n, _)| *n).max().unwrap_or(0);
        let last = last.max(applied).max(committed);
        let left: Vec<LogCommand> = left
            .into_iter()
            .filter(|(n, _)| *n > applied)
            .map(|(_, command)| command)
            .collect();
        let bytes = Arc::new(AtomicUsize::new(0));
        let broken = Arc::new(AtomicBool::new(false));
        let mut writer = Writer {
            database,
            marker,
            bytes: Arc::clone(&bytes),
            broken: Arc::clone(&broken),
            failed_at: None,
        };
        let mut queue = Queue {
            taken: Arc::new(Vec::new()),
            commands: Vec::new(),
            last,
            committed: last,
            journal,
            waiting: Vec::new(),
            is_stopping: false,
            left_out: HashMap::new(),
            forgotten: HashSet::new(),
        };
        writer
            .database
            .write(&left, last)
            .map_err(|e| unusable(path, &e.to_string()))?;
        opened.forgotten = writer
            .database
            .forgotten()
            .map_err(|e| unusable(path, &e.to_string()))?;
        writer.marker.set_committed(last);
        writer.marker.set_unstored([].into_iter());
        queue.journal.clear();
        let queue = Arc::new((Mutex::new(queue), Condvar::new()));
        let commands = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("session log".to_owned())
            .spawn(move || writer.run(&commands))
            .map_err(|e| unusable(path, &e.to_string()))?;
        let shared = Shared {
            queue,
            reader: Arc::new(Mutex::new(Some(reader))),
            bytes,
            broken,
            writer: Mutex::new(Some(thread)),
        };
        let log = SessionLog {
            shared: Arc::new(shared),
        };
        Ok((log, opened))
    }

    /// Queues a command. Returns false if it was dropped, because its session is forgotten.
    fn send(&self, command: LogCommand) -> bool {
        let mut queue = self.shared.queue.0.lock();
        if queue.forgotten.contains(command.session()) {
            return false;
        }
        if let LogCommand::Forget(id) = &command {
            queue.forgotten.insert(id.clone());
            queue.left_out.remove(id.as_str());
        }
        if !queue.left_out.is_empty() {
            queue.close_gap(command.session());
        }
        queue.push(command);
        // The writer is woken for the first command. Later only if the queue is long.
        if queue.commands.len() == 1 || queue.commands.len() == BATCH_SIZE {
            self.shared.queue.1.notify_one();
        }
        true
    }

    /// Queues one item, without waiting.
    pub fn append(&self, session: &str, item: LogItem) {
        let size = size(&item);
        let bytes = self.shared.bytes.fetch_add(size, Ordering::AcqRel);
        let has_room = bytes <= MAX_QUEUED_BYTES;
        if !has_room {
            self.leave_out(session, &item);
        }
        if !has_room || !self.send(LogCommand::Item(session.into(), item)) {
            self.shared.bytes.fetch_sub(size, Ordering::AcqRel);
        }
    }

    fn leave_out(&self, session: &str, item: &LogItem) {
        let mut queue = self.shared.queue.0.lock();
        if queue.forgotten.contains(session) {
            return;
        }
        let gap = queue.left_out.entry(session.into()).or_insert(Gap {
            first: item.seq,
            epoch: item.epoch,
            missed: Some(0),
        });
        gap.missed = Some(item.seq + 1 - gap.first);
    }

    /// Records that items are missing in the log.
    pub fn gap(&self, session: &str, gap: Gap) {
        self.send(LogCommand::Gap(session.into(), gap));
    }

    /// Queues the session's current record.
    pub fn record(&self, session: SessionRecord) {
        self.send(LogCommand::Record(Box::new(session)));
    }

    /// Deletes a session. Later writes of its tasks are dropped (A46-HTTP-07).
    pub fn forget(&self, id: &str) {
        self.send(LogCommand::Forget(id.to_owned()));
    }

    /// Called when no task can write for this session any more.
    pub fn release(&self, id: &str) {
        self.shared.queue.0.lock().forgotten.remove(id);
    }

    /// Returns whether all earlier commands survive a crash of this process. If not, the disk has
    /// rejected them.
    pub async fn flush(&self) -> bool {
        let saved = self.shared.queue.0.lock().save();
        saved.is_ok() || self.wait_committed().await
    }

    /// Waits until all earlier commands are in the database, or the disk has rejected them. Returns
    /// whether they are in the database.
    pub async fn wait_committed(&self) -> bool {
        let (done, waiting) = oneshot::channel();
        self.shared.queue.0.lock().waiting.push(done);
        self.shared.queue.1.notify_one();
        waiting.await.unwrap_or(false)
    }

    /// Whether the disk rejects writes. The rings still work.
    pub fn is_broken(&self) -> bool {
        self.shared.broken.load(Ordering::Acquire)
    }

    /// Items from `from` on, in order.
    pub async fn page(&self, session: &str, from: u64, limit: usize) -> Vec<LogRow> {
        let session = session.to_owned();
        let rows = move |reader: &Connection| database::page(reader, &session, from, limit);
        self.read(rows).await.unwrap_or_default()
    }

    /// The last lines of output before an item, newest first. Stops after the line that exceeds
    /// `bytes`.
    pub async fn lines_before(
        &self,
        session: &str,
        before: u64,
        count: usize,
        bytes: usize,
    ) -> Vec<LogRow> {
        let session = session.to_owned();
        let rows = move |reader: &Connection| {
            database::lines_before(reader, &session, before, count, bytes)
        };
        self.read(rows).await.unwrap_or_default()
    }

    /// Reads outside the async threads. A failed read returns nothing, which readers report as a
    /// gap.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Option<T> {
        self.wait_committed().await;
        let reader = Arc::clone(&self.shared.reader);
        let done = tokio::task::spawn_blocking(move || {
            let reader = reader.lock();
            work(reader.as_ref()?).ok()
        });
        done.await.ok().flatten()
    }

    /// Every session in the log, oldest first.
    pub fn stored(&self) -> Vec<LoggedSession> {
        let reader = self.shared.reader.lock();
        let sessions = reader.as_ref().map(database::sessions);
        sessions.and_then(Result::ok).unwrap_or_default()
    }
}

fn unusable(path: &Path, why: &str) -> Error {
    let what = format!("cannot use the session log `{}`: {why}", path.display());
    Error::new(Code::StateUnwritable, what)
        .hint("check the directory's owner and mode, free some disk space, or set AGENTPROTO_HOME")
}

struct Writer {
    database: Database,
    marker: Marker,
    bytes: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    failed_at: Option<Instant>,
}

impl Writer {
    fn run(&mut self, queue: &(Mutex<Queue>, Condvar)) {
        let mut has_more = true;
        loop {
            let (batch, through, waiting, is_last) = self.next(queue, has_more);
            if is_last {
                self.failed_at = None;
            }
            let is_committed = batch.is_empty() || self.commit(&batch, through);
            let mut queued = queue.0.lock();
            if is_committed {
                self.free(&batch);
                drop(batch);
                queued.taken = Arc::new(Vec::new());
                queued.committed = through;
                if queued.journal.length() > MAX_JOURNAL {
                    // All callers wait this time.
                    let (rest, through) = (std::mem::take(&mut queued.commands), queued.last);
                    if self.commit(&rest, through) {
                        self.free(&rest);
                        queued.committed = through;
                    } else {
                        queued.taken = Arc::new(rest);
                    }
                }
                if queued.committed >= queued.journal.last() {
                    queued.journal.clear();
                }
            } else {
                let is_saved = queued.save().is_ok();
                self.mark(&queued, is_saved);
            }
            drop(queued);
            for done in waiting {
                let _ = done.send(is_committed);
            }
            if is_last {
                return;
            }
            // A failed step is tried again after the next commit.
            has_more = is_committed && self.database.clean().unwrap_or(false);
        }
    }

    /// Waits for commands, and briefly for more. Returns all of them, the number of the last one, the
    /// callers that wait for them, and whether they are the last ones.
    fn next(
        &self,
        queue: &(Mutex<Queue>, Condvar),
        has_more: bool,
    ) -> (Arc<Vec<LogCommand>>, u64, Vec<oneshot::Sender<bool>>, bool) {
        let mut queued = queue.0.lock();
        let is_idle = |queued: &mut Queue| queued.commands.is_empty() && !queued.is_urgent();
        if !queued.taken.is_empty() {
            let pause = self.failed_at.map_or(Duration::ZERO, |at| {
                RETRY_INTERVAL.saturating_sub(at.elapsed())
            });
            queue.1.wait_while_for(&mut queued, is_idle, pause);
        } else if !has_more {
            queue.1.wait_while(&mut queued, is_idle);
        }
        if !queued.commands.is_empty() {
            let is_early = |queued: &mut Queue| !queued.is_urgent();
            queue.1.wait_while_for(&mut queued, is_early, COMMIT_DELAY);
        }
        let left_out: Vec<Box<str>> = queued.left_out.keys().cloned().collect();
        for session in left_out {
            queued.close_gap(&session);
        }
        let commands = std::mem::take(&mut queued.commands);
        match queued.taken.is_empty() {
            true => queued.taken = Arc::new(commands),
            false => Arc::make_mut(&mut queued.taken).extend(commands),
        }
        let waiting = std::mem::take(&mut queued.waiting);
        (
            Arc::clone(&queued.taken),
            queued.last,
            waiting,
            queued.is_stopping,
        )
    }

    /// Marks the sessions whose commands are neither in the database nor in the journal.
    fn mark(&mut self, queue: &Queue, is_saved: bool) {
        let all = queue.taken.iter().chain(&queue.commands);
        let sessions: BTreeSet<&str> = match is_saved {
            true => BTreeSet::new(),
            false => all.map(LogCommand::session).collect(),
        };
        self.marker.set_unstored(sessions.into_iter());
    }

    fn free(&self, batch: &[LogCommand]) {
        let bytes = batch.iter().map(LogCommand::size).sum();
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Commits a batch. After a failure the disk is retried at intervals.
    fn commit(&mut self, batch: &[LogCommand], through: u64) -> bool {
        if self
            .failed_at
            .is_some_and(|at| at.elapsed() < RETRY_INTERVAL)
        {
            return false;
        }
        match self.database.write(batch, through) {
            Ok(()) => {
                self.failed_at = None;
                self.marker.set_committed(through);
                self.marker.set_unstored([].into_iter());
                if self.broken.swap(false, Ordering::AcqRel) {
                    // Logged at the same level as the failure.
                    tracing::error!("the session log can be written again");
                }
                true
            }
            Err(error) => {
                self.failed_at = Some(Instant::now());
                if !self.broken.swap(true, Ordering::AcqRel) {
                    tracing::error!(
                        "cannot write the session log: {error}; sessions continue, and their history waits in memory"
                    );
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
