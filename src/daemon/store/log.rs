//! The durable log behind the rings: one SQLite file, one thread that writes. Whatever waits is
//! committed together. A disk that is full costs history, never a session.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use tokio::sync::oneshot;

use crate::daemon::model::Session;
use crate::daemon::ring::{Item, Kind, PAGE_BYTES};
use crate::runtime::{Code, Fault};

/// Beyond so much that waits for the disk, items are left out of the log: a gap, not a stop.
const MOST_WAITING: usize = 64 << 20;
/// One transaction takes so much at most.
const AT_ONCE: usize = 4096;
/// After a failed commit the disk is tried again so often.
const AGAIN: Duration = Duration::from_secs(2);

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, started_at TEXT NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS items (
    session TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL,
    kind TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (session, seq)
) WITHOUT ROWID;
";

/// One item as it stands in the log.
#[derive(Clone, Debug)]
pub struct Row {
    pub seq: u64,
    pub epoch: u64,
    pub kind: Kind,
    pub data: String,
}

/// A session of an earlier life of the daemon.
#[derive(Clone, Debug)]
pub struct Stored {
    pub session: Session,
    /// The number after its last item.
    pub next: u64,
}

enum Order {
    Item(Box<str>, Item),
    Record(Box<Session>),
    Forget(String),
    Flush(oneshot::Sender<()>),
    Stop,
}

/// Clones share one writer and one reader.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    orders: Mutex<Sender<Order>>,
    reader: Arc<Mutex<Option<Connection>>>,
    waiting: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = orders.send(Order::Stop);
        drop(orders);
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

impl Log {
    /// Opens the log; one that cannot be read is kept aside, and where it went is told.
    pub fn open(path: &Path) -> Result<(Log, Option<PathBuf>), Fault> {
        let (connection, aside) = match connect(path) {
            Ok(connection) => (connection, None),
            Err(error) if is_damage(&error) => {
                let aside = set_aside(path).map_err(|e| unusable(path, &e.to_string()))?;
                let connection = connect(path).map_err(|e| unusable(path, &e.to_string()))?;
                (connection, Some(aside))
            }
            Err(error) => return Err(unusable(path, &error.to_string())),
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader =
            Connection::open_with_flags(path, flags).map_err(|e| unusable(path, &e.to_string()))?;
        let _ = reader.busy_timeout(Duration::from_secs(2));
        let _ = reader.pragma_update(None, "cache_size", -512);
        let (orders, receiver) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let broken = Arc::new(AtomicBool::new(false));
        let mut writer = Writer {
            connection,
            waiting: Arc::clone(&waiting),
            broken: Arc::clone(&broken),
            told: None,
        };
        let thread = std::thread::Builder::new()
            .name("session log".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(|e| unusable(path, &e.to_string()))?;
        let shared = Shared {
            orders: Mutex::new(orders),
            reader: Arc::new(Mutex::new(Some(reader))),
            waiting,
            broken,
            writer: Mutex::new(Some(thread)),
        };
        let log = Log {
            shared: Arc::new(shared),
        };
        Ok((log, aside))
    }

    fn order(&self, order: Order) {
        let orders = self
            .shared
            .orders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = orders.send(order);
    }

    /// Puts one item on its way; never waits.
    pub fn append(&self, session: &str, item: Item) {
        let size = item.frame.len() + 128;
        let waiting = self.shared.waiting.fetch_add(size, Ordering::AcqRel);
        if waiting > MOST_WAITING {
            self.shared.waiting.fetch_sub(size, Ordering::AcqRel);
            return;
        }
        self.order(Order::Item(session.into(), item));
    }

    /// The session's record as it is now.
    pub fn record(&self, session: &Session) {
        self.order(Order::Record(Box::new(session.clone())));
    }

    pub fn forget(&self, id: &str) {
        self.order(Order::Forget(id.to_owned()));
    }

    /// Waits until everything before it is committed, or the disk has refused it.
    pub async fn flush(&self) {
        let (done, waiting) = oneshot::channel();
        self.order(Order::Flush(done));
        let _ = waiting.await;
    }

    /// The disk refuses to take more; rings go on.
    pub fn is_broken(&self) -> bool {
        self.shared.broken.load(Ordering::Acquire)
    }

    /// Items from `from` on, in order.
    pub async fn page(&self, session: &str, from: u64, limit: usize) -> Vec<Row> {
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

    /// The last lines of output before an item, newest first; no more after the one that goes
    /// beyond so many bytes.
    pub async fn lines_before(
        &self,
        session: &str,
        before: u64,
        count: usize,
        bytes: usize,
    ) -> Vec<Row> {
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

    /// Off the async threads; a reader that fails finds nothing, which readers tell as a gap.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Option<T> {
        let reader = Arc::clone(&self.shared.reader);
        let done = tokio::task::spawn_blocking(move || {
            let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            work(reader.as_ref()?).ok()
        });
        done.await.ok().flatten()
    }

    /// Every session that the log knows, oldest first. Records that cannot be read are left out.
    pub fn stored(&self) -> Vec<Stored> {
        let reader = self
            .shared
            .reader
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = reader.as_ref() else {
            return Vec::new();
        };
        let all = || -> rusqlite::Result<Vec<Stored>> {
            let mut query =
                reader.prepare("SELECT id, record FROM sessions ORDER BY started_at, id")?;
            let mut last = reader.prepare("SELECT MAX(seq) FROM items WHERE session = ?1")?;
            let mut rows = query.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let (id, record): (String, String) = (row.get(0)?, row.get(1)?);
                let Ok(session) = serde_json::from_str::<Session>(&record) else {
                    continue;
                };
                let seq: Option<i64> = last
                    .query_row([&id], |row| row.get(0))
                    .optional()?
                    .flatten();
                let next = seq
                    .and_then(|seq| u64::try_from(seq).ok())
                    .map_or(0, |seq| seq + 1);
                found.push(Stored { session, next });
            }
            Ok(found)
        };
        all().unwrap_or_default()
    }
}

fn signed(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn row(row: &rusqlite::Row) -> rusqlite::Result<Row> {
    let kind: String = row.get(2)?;
    Ok(Row {
        seq: row.get::<_, i64>(0)?.unsigned_abs(),
        epoch: row.get::<_, i64>(1)?.unsigned_abs(),
        kind: Kind::from_name(&kind).unwrap_or(Kind::Event),
        data: row.get(3)?,
    })
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Made by us before SQLite sees it: nobody else reads what agents say.
    if let Some(dir) = path.parent() {
        let _ = crate::runtime::home::make_dir(dir);
    }
    let _ = std::os::unix::fs::OpenOptionsExt::mode(
        std::fs::OpenOptions::new().create(true).append(true),
        0o600,
    )
    .open(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Commits survive the death of the process; of the machine, all but the last ones do.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -1024)?;
    connection.execute_batch(SCHEMA)?;
    let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match sound.as_str() {
        "ok" => Ok(connection),
        _ => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
            Some(sound),
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

/// Beside its old place, with what belongs to it, under a name that is free.
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
    let aside = path.with_file_name(format!("{name}.damaged-{stamp}-{number}"));
    std::fs::rename(path, &aside)?;
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(path.with_file_name(format!("{name}{end}")));
    }
    Ok(aside)
}

fn unusable(path: &Path, why: &str) -> Fault {
    let what = format!("the session log `{}` cannot be used: {why}", path.display());
    Fault::new(Code::StateUnwritable, what)
        .hint("check the directory's owner and mode, make room, or set AGENTPROTO_HOME")
}

struct Writer {
    connection: Connection,
    waiting: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    told: Option<Instant>,
}

impl Writer {
    fn run(&mut self, orders: &Receiver<Order>) {
        while let Ok(first) = orders.recv() {
            let mut batch = vec![first];
            while batch.len() < AT_ONCE
                && let Ok(order) = orders.try_recv()
            {
                batch.push(order);
            }
            let is_last = batch.iter().any(|order| matches!(order, Order::Stop));
            self.commit(&batch);
            for order in batch {
                match order {
                    Order::Flush(done) => {
                        let _ = done.send(());
                    }
                    Order::Item(_, item) => {
                        self.waiting
                            .fetch_sub(item.frame.len() + 128, Ordering::AcqRel);
                    }
                    _ => {}
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// A full disk is tried again now and then; in between, what comes is left out.
    fn commit(&mut self, batch: &[Order]) {
        let is_due = self.told.is_none_or(|at| at.elapsed() >= AGAIN);
        if !is_due
            || batch
                .iter()
                .all(|order| matches!(order, Order::Flush(_) | Order::Stop))
        {
            return;
        }
        match self.write(batch) {
            Ok(()) => {
                self.told = None;
                if self.broken.swap(false, Ordering::AcqRel) {
                    eprintln!("agentproto: the session log can be written again");
                }
            }
            Err(error) => {
                self.told = Some(Instant::now());
                if !self.broken.swap(true, Ordering::AcqRel) {
                    eprintln!(
                        "agentproto: the session log cannot be written: {error}; sessions go on, and their history has a gap"
                    );
                }
            }
        }
    }

    fn write(&mut self, batch: &[Order]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for order in batch {
            match order {
                Order::Item(session, item) => {
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
                Order::Record(session) => {
                    let record = serde_json::to_string(session).unwrap_or_default();
                    transaction
                        .prepare_cached("INSERT OR REPLACE INTO sessions VALUES (?1, ?2, ?3)")?
                        .execute(params![session.id, session.started_at, record])?;
                }
                Order::Forget(id) => {
                    transaction.execute("DELETE FROM sessions WHERE id = ?1", [id])?;
                    transaction.execute("DELETE FROM items WHERE session = ?1", [id])?;
                }
                Order::Flush(_) | Order::Stop => {}
            }
        }
        transaction.commit()
    }
}
