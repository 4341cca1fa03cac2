//! The durable log behind the rings: one SQLite file with one writer thread. Queued commands are
//! committed together after a short delay. Data that must be safe earlier goes through the journal.
//! If the disk is full, history is lost, but sessions continue.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tokio::sync::oneshot;

use super::journal::Journal;
use crate::model::SessionRecord;
use crate::ring::{ItemKind, LogItem, PAGE_BYTES};
use agentproto_runtime::{Code, Error};

/// Maximum number of queued bytes. Beyond it, items are left out of the log, which leaves a gap.
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

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, started_at TEXT NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS items (
    session TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
    kind TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS applied (one INTEGER PRIMARY KEY, last INTEGER NOT NULL);
";

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

pub(super) enum LogCommand {
    Item(Box<str>, LogItem),
    Record(Box<SessionRecord>),
    Forget(String),
    /// Signals when everything before it was committed or rejected.
    WaitCommitted(oneshot::Sender<()>),
    Stop,
}

/// Commands that wait for the database.
struct Queue {
    commands: Vec<LogCommand>,
    /// Numbers of the last command and of the last committed command.
    last: u64,
    committed: u64,
    journal: Journal,
    /// Whether a caller waits for the database.
    is_urgent: bool,
    /// Forgotten sessions whose tasks may still write. Their late writes are dropped, because they
    /// would bring the session back after a restart.
    forgotten: HashSet<String>,
}

impl Queue {
    fn is_forgotten(&self, command: &LogCommand) -> bool {
        match command {
            LogCommand::Item(session, _) => self.forgotten.contains(&**session),
            LogCommand::Record(record) => self.forgotten.contains(&record.id),
            LogCommand::Forget(_) | LogCommand::WaitCommitted(_) | LogCommand::Stop => false,
        }
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
    waiting: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        put(&self.queue, LogCommand::Stop);
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

impl SessionLog {
    /// Opens the log. A damaged file is moved aside, and its new path is returned.
    pub fn open(path: &Path) -> Result<(SessionLog, Option<PathBuf>), Error> {
        let (connection, moved_to) = match connect(path) {
            Ok(connection) => (connection, None),
            Err(error) if is_damage(&error) => {
                let moved_to = set_aside(path).map_err(|e| unusable(path, &e.to_string()))?;
                let connection = connect(path).map_err(|e| unusable(path, &e.to_string()))?;
                (connection, Some(moved_to))
            }
            Err(error) => return Err(unusable(path, &error.to_string())),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader =
            Connection::open_with_flags(path, flags).map_err(|e| unusable(path, &e.to_string()))?;
        let _ = reader.busy_timeout(Duration::from_secs(2));
        let _ = reader.pragma_update(None, "cache_size", -512);
        let unreadable = |e: std::io::Error| unusable(path, &format!("its journal: {e}"));
        let (journal, left) = Journal::open(&path.with_extension("journal")).map_err(unreadable)?;
        let waiting = Arc::new(AtomicUsize::new(0));
        let broken = Arc::new(AtomicBool::new(false));
        let mut writer = Writer {
            connection,
            waiting: Arc::clone(&waiting),
            broken: Arc::clone(&broken),
            failed_at: None,
        };
        let mut queue = Queue {
            commands: Vec::new(),
            last: 0,
            committed: 0,
            journal,
            is_urgent: false,
            forgotten: HashSet::new(),
        };
        writer.replay_journal(&mut queue, left);
        let queue = Arc::new((Mutex::new(queue), Condvar::new()));
        let commands = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("session log".to_owned())
            .spawn(move || writer.run(&commands))
            .map_err(|e| unusable(path, &e.to_string()))?;
        let shared = Shared {
            queue,
            reader: Arc::new(Mutex::new(Some(reader))),
            waiting,
            broken,
            writer: Mutex::new(Some(thread)),
        };
        let log = SessionLog {
            shared: Arc::new(shared),
        };
        Ok((log, moved_to))
    }

    /// Returns false if the command was dropped.
    fn send(&self, command: LogCommand) -> bool {
        put(&self.shared.queue, command)
    }

    /// Queues one item, without waiting.
    pub fn append(&self, session: &str, item: LogItem) {
        let size = item.frame.len() + 128;
        let waiting = self.shared.waiting.fetch_add(size, Ordering::AcqRel);
        if waiting > MAX_QUEUED_BYTES {
            self.shared.waiting.fetch_sub(size, Ordering::AcqRel);
            return;
        }
        if !self.send(LogCommand::Item(session.into(), item)) {
            self.shared.waiting.fetch_sub(size, Ordering::AcqRel);
        }
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

    /// After this, all earlier commands survive a crash of this process, unless the disk rejected
    /// them.
    pub async fn flush(&self) {
        let saved = self.shared.queue.0.lock().journal.save();
        if saved.is_err() {
            self.wait_committed().await;
        }
    }

    /// Waits until all earlier commands are in the database, or the disk has rejected them.
    pub async fn wait_committed(&self) {
        let (done, waiting) = oneshot::channel();
        self.send(LogCommand::WaitCommitted(done));
        let _ = waiting.await;
    }

    /// Whether the disk rejects writes. The rings still work.
    pub fn is_broken(&self) -> bool {
        self.shared.broken.load(Ordering::Acquire)
    }

    /// Items from `from` on, in order.
    pub async fn page(&self, session: &str, from: u64, limit: usize) -> Vec<LogRow> {
        let session = session.to_owned();
        let rows = move |reader: &Connection| {
            let mut query = reader.prepare_cached(
                "SELECT seq, epoch, kind, data FROM items WHERE session = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3",
            )?;
            let rows = query.query_map(params![session, signed(from), limit as i64], row)?;
            let mut bytes = 0;
            let mut found = Vec::new();
            for row in rows {
                let row = row?;
                bytes += row.data.len();
                found.push(row);
                if bytes >= PAGE_BYTES {
                    break;
                }
            }
            Ok(found)
        };
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
            let mut query = reader.prepare_cached(
                "SELECT seq, epoch, kind, data FROM items WHERE session = ?1 AND seq < ?2 AND kind = 'line' ORDER BY seq DESC LIMIT ?3",
            )?;
            let rows = query.query_map(params![session, signed(before), count as i64], row)?;
            let mut found = Vec::new();
            let mut so_far = 0;
            for row in rows {
                let row = row?;
                so_far += row.data.len();
                found.push(row);
                if so_far > bytes {
                    break;
                }
            }
            Ok(found)
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

    /// Every session in the log, oldest first. Records that cannot be parsed are skipped.
    pub fn stored(&self) -> Vec<LoggedSession> {
        let reader = self.shared.reader.lock();
        let Some(reader) = reader.as_ref() else {
            return Vec::new();
        };
        let all = || -> rusqlite::Result<Vec<LoggedSession>> {
            let mut query =
                reader.prepare("SELECT id, record FROM sessions ORDER BY started_at, id")?;
            let mut last = reader.prepare("SELECT MAX(seq) FROM items WHERE session = ?1")?;
            let mut rows = query.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let (id, record): (String, String) = (row.get(0)?, row.get(1)?);
                let Ok(session) = serde_json::from_str::<SessionRecord>(&record) else {
                    continue;
                };
                let seq: Option<i64> = last
                    .query_row([&id], |row| row.get(0))
                    .optional()?
                    .flatten();
                let next = seq
                    .and_then(|seq| u64::try_from(seq).ok())
                    .map_or(0, |seq| seq + 1);
                found.push(LoggedSession { session, next });
            }
            Ok(found)
        };
        all().unwrap_or_default()
    }
}

fn signed(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn row(row: &rusqlite::Row) -> rusqlite::Result<LogRow> {
    let kind: String = row.get(2)?;
    Ok(LogRow {
        seq: row.get::<_, i64>(0)?.unsigned_abs(),
        epoch: row.get::<_, i64>(1)?.unsigned_abs(),
        kind: ItemKind::from_name(&kind).unwrap_or(ItemKind::Event),
        data: row.get(3)?,
    })
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Created with mode 0600 before SQLite opens it, so that other users cannot read it.
    if let Some(dir) = path.parent() {
        let _ = agentproto_runtime::home::make_dir(dir);
    }
    let _ = std::os::unix::fs::OpenOptionsExt::mode(
        std::fs::OpenOptions::new().create(true).append(true),
        0o600,
    )
    .open(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Commits survive a crash of the process. After a crash of the machine, the last ones may be
    // lost.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -1024)?;
    connection.execute_batch(SCHEMA)?;
    let result: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match result.as_str() {
        "ok" => Ok(connection),
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
            Some(result),
        )),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}

/// Moves a damaged file to a free name in the same directory, and removes its WAL files.
pub fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let stamp = at.map_or(0, |at| at.as_secs());
    let free = |n: &u32| {
        !path
            .with_file_name(format!("{name}.damaged-{stamp}-{n}"))
            .exists()
    };
    let number = (0..1000).find(free).unwrap_or_default();
    let moved_to = path.with_file_name(format!("{name}.damaged-{stamp}-{number}"));
    std::fs::rename(path, &moved_to)?;
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(path.with_file_name(format!("{name}{end}")));
    }
    Ok(moved_to)
}

fn unusable(path: &Path, why: &str) -> Error {
    let what = format!("cannot use the session log `{}`: {why}", path.display());
    Error::new(Code::StateUnwritable, what)
        .hint("check the directory's owner and mode, free some disk space, or set AGENTPROTO_HOME")
}

struct Writer {
    connection: Connection,
    waiting: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    failed_at: Option<Instant>,
}

/// Queues a command. Returns false if it was dropped, because its session is forgotten.
fn put(queue: &(Mutex<Queue>, Condvar), command: LogCommand) -> bool {
    let mut queued = queue.0.lock();
    if queued.is_forgotten(&command) {
        return false;
    }
    if let LogCommand::Forget(id) = &command {
        queued.forgotten.insert(id.clone());
    }
    queued.last += 1;
    let (n, committed) = (queued.last, queued.committed);
    queued.journal.buffer(n, &command, committed);
    queued.is_urgent |= matches!(command, LogCommand::WaitCommitted(_) | LogCommand::Stop);
    queued.commands.push(command);
    // Wakes the writer for the first command. Later only if a command is urgent or the queue is long.
    if queued.commands.len() == 1 || queued.is_urgent || queued.commands.len() == BATCH_SIZE {
        queue.1.notify_one();
    }
    true
}

impl Writer {
    /// Applies commands of an earlier run that are in the journal but not in the database.
    fn replay_journal(&mut self, queue: &mut Queue, left: Vec<(u64, LogCommand)>) {
        let applied: rusqlite::Result<i64> =
            self.connection
                .query_row("SELECT last FROM applied", [], |row| row.get(0));
        let applied = applied.map_or(0, i64::unsigned_abs);
        queue.last = left.iter().map(|(n, _)| *n).max().unwrap_or(0).max(applied);
        let left = left.into_iter().filter(|(n, _)| *n > applied);
        let left: Vec<LogCommand> = left.map(|(_, command)| command).collect();
        if self.commit(&left, queue.last) {
            queue.journal.clear();
        }
        queue.committed = queue.last;
    }

    fn run(&mut self, queue: &(Mutex<Queue>, Condvar)) {
        loop {
            let (batch, through) = next(queue);
            let (is_committed, is_last) = self.commit_batch(batch, through);
            let mut queued = queue.0.lock();
            queued.committed = through;
            if queued.journal.length() > MAX_JOURNAL && !queued.commands.is_empty() {
                // All callers wait this time.
                let (rest, through) = (std::mem::take(&mut queued.commands), queued.last);
                let (_, is_over) = self.commit_batch(rest, through);
                queued.committed = through;
                queued.journal.clear();
                if is_over {
                    return;
                }
            } else if queued.commands.is_empty() && is_committed {
                queued.journal.clear();
            }
            if is_last {
                return;
            }
        }
    }

    /// Commits a batch. Returns whether the database accepted it, and whether it was the last one.
    fn commit_batch(&mut self, batch: Vec<LogCommand>, through: u64) -> (bool, bool) {
        let is_committed = self.commit(&batch, through);
        let mut is_last = false;
        for command in batch {
            match command {
                LogCommand::WaitCommitted(done) => {
                    let _ = done.send(());
                }
                LogCommand::Item(_, item) => {
                    self.waiting
                        .fetch_sub(item.frame.len() + 128, Ordering::AcqRel);
                }
                LogCommand::Stop => is_last = true,
                _ => {}
            }
        }
        (is_committed, is_last)
    }

    /// Commits a batch. After a failure the disk is retried at intervals, and commands in between are
    /// dropped.
    fn commit(&mut self, batch: &[LogCommand], through: u64) -> bool {
        let is_due = self
            .failed_at
            .is_none_or(|at| at.elapsed() >= RETRY_INTERVAL);
        let is_empty = |command: &LogCommand| {
            matches!(command, LogCommand::WaitCommitted(_) | LogCommand::Stop)
        };
        if batch.iter().all(is_empty) {
            return true;
        }
        if !is_due {
            return false;
        }
        match self.write(batch, through) {
            Ok(()) => {
                self.failed_at = None;
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
                        "cannot write the session log: {error}; sessions continue, but their history has a gap"
                    );
                }
                false
            }
        }
    }

    fn write(&mut self, batch: &[LogCommand], through: u64) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for command in batch {
            match command {
                LogCommand::Item(session, item) => {
                    transaction
                        .prepare_cached("INSERT OR REPLACE INTO items VALUES (?1, ?2, ?3, ?4, ?5)")?
                        .execute(params![
                            session,
                            signed(item.seq),
                            signed(item.epoch),
                            item.kind.as_str(),
                            item.data()
                        ])?;
                }
                LogCommand::Record(session) => {
                    let record = serde_json::to_string(session).unwrap_or_default();
                    transaction
                        .prepare_cached("INSERT OR REPLACE INTO sessions VALUES (?1, ?2, ?3)")?
                        .execute(params![session.id, session.started_at, record])?;
                }
                LogCommand::Forget(id) => {
                    transaction.execute("DELETE FROM sessions WHERE id = ?1", [id])?;
                    transaction.execute("DELETE FROM items WHERE session = ?1", [id])?;
                }
                LogCommand::WaitCommitted(_) | LogCommand::Stop => {}
            }
        }
        transaction
            .prepare_cached("INSERT OR REPLACE INTO applied VALUES (1, ?1)")?
            .execute([signed(through)])?;
        transaction.commit()
    }
}

/// Waits for commands, and briefly for more. Returns all of them and the number of the last one.
fn next(queue: &(Mutex<Queue>, Condvar)) -> (Vec<LogCommand>, u64) {
    let mut queued = queue.0.lock();
    while queued.commands.is_empty() {
        queue.1.wait(&mut queued);
    }
    let is_early = |queued: &mut Queue| !queued.is_urgent && queued.commands.len() < BATCH_SIZE;
    queue.1.wait_while_for(&mut queued, is_early, COMMIT_DELAY);
    queued.is_urgent = false;
    (std::mem::take(&mut queued.commands), queued.last)
}

#[cfg(test)]
mod tests;
