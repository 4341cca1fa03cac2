//! The SQLite file of the log. Items are stored in compressed blocks, in the order in which they were
//! committed. Large deletions are made in small steps between commits.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};

use super::blocks::{self, MAX_BLOCK_BYTES};
use super::log::{LogCommand, LogRow, LoggedSession};
use crate::model::SessionRecord;
use crate::ring::{ItemKind, LogItem, PAGE_BYTES, gap_data};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS records (
    key INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, started_at TEXT, record TEXT
);
-- `missed` is 0 for items, the number of missing items for a gap, and -1 if that is unknown.
CREATE TABLE IF NOT EXISTS blocks (
    number INTEGER PRIMARY KEY, session INTEGER NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, epoch INTEGER NOT NULL, missed INTEGER NOT NULL, data BLOB
);
CREATE UNIQUE INDEX IF NOT EXISTS blocks_of_session ON blocks (session, first);
-- Sessions whose blocks are still to be deleted.
CREATE TABLE IF NOT EXISTS deleted (session INTEGER PRIMARY KEY);
-- Ids of the sessions that were forgotten last, because `sessions.json` is written later.
CREATE TABLE IF NOT EXISTS forgotten (number INTEGER PRIMARY KEY, id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS applied (one INTEGER PRIMARY KEY, last INTEGER NOT NULL);
";
/// Number of forgotten sessions to remember. `sessions.json` is written long before as many more are
/// forgotten.
const MAX_FORGOTTEN: i64 = 10_000;
/// Number of blocks that one step deletes.
const BLOCKS_PER_STEP: i64 = 64;
/// Number of pages that one step returns to the file system.
const PAGES_PER_STEP: i64 = 1024;

/// The writing connection.
pub struct Database {
    connection: Connection,
    /// Maximum size of the stored history in bytes.
    max_bytes: u64,
    /// Whether the history is being reduced to 90 % of the maximum.
    is_shrinking: bool,
    /// Whether pages are free since the last cleaning.
    has_free_pages: bool,
    /// Whether the write-ahead log may still have what was deleted.
    has_deleted: bool,
}

impl Database {
    /// Opens the file. A damaged file is moved aside, and its new path is returned.
    pub fn open(path: &Path, max_bytes: u64) -> Result<(Database, Option<PathBuf>), String> {
        let (connection, moved_to) = match connect(path) {
            Ok(connection) => (connection, None),
            Err(error) if is_damage(&error) => {
                let moved_to = set_aside(path).map_err(|e| e.to_string())?;
                (connect(path).map_err(|e| e.to_string())?, Some(moved_to))
            }
            Err(error) => return Err(error.to_string()),
        };
        let database = Database {
            connection,
            max_bytes,
            is_shrinking: false,
            has_free_pages: true,
            has_deleted: false,
        };
        Ok((database, moved_to))
    }

    /// Number of the last command in the database.
    pub fn applied(&self) -> u64 {
        let query = "SELECT last FROM applied";
        let applied: rusqlite::Result<i64> = self.connection.query_row(query, [], |row| row.get(0));
        applied.map_or(0, i64::unsigned_abs)
    }

    /// Ids of the sessions that were forgotten last.
    pub fn forgotten(&self) -> rusqlite::Result<HashSet<String>> {
        let mut query = self.connection.prepare("SELECT id FROM forgotten")?;
        let ids = query.query_map([], |row| row.get(0))?;
        ids.collect()
    }

    /// Writes commands in one transaction.
    pub fn write(&mut self, batch: &[LogCommand], through: u64) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut items: HashMap<&str, Vec<&LogItem>> = HashMap::new();
        for command in batch {
            if let LogCommand::Item(session, item) = command {
                items.entry(session).or_default().push(item);
            }
        }
        for (session, items) in items {
            let key = key(&transaction, session)?;
            write_items(&transaction, key, &items)?;
        }
        for command in batch {
            match command {
                LogCommand::Item(..) => {}
                LogCommand::Record(session) => {
                    let key = key(&transaction, &session.id)?;
                    let record = serde_json::to_string(session).unwrap_or_default();
                    transaction
                        .prepare_cached(
                            "UPDATE records SET started_at = ?2, record = ?3 WHERE key = ?1",
                        )?
                        .execute(params![key, session.started_at, record])?;
                }
                LogCommand::Gap(session, gap) => {
                    let key = key(&transaction, session)?;
                    let missed = gap.missed.map_or(-1, signed);
                    let last = gap.first + gap.missed.unwrap_or(1).max(1) - 1;
                    insert(
                        &transaction,
                        key,
                        (gap.first, last),
                        gap.epoch,
                        missed,
                        None,
                    )?;
                }
                // Its blocks are deleted later.
                LogCommand::Forget(id) => {
                    let marked =
                        "INSERT OR IGNORE INTO deleted SELECT key FROM records WHERE id = ?1";
                    transaction.execute(marked, [id])?;
                    transaction.execute("DELETE FROM records WHERE id = ?1", [id])?;
                    transaction.execute("INSERT INTO forgotten (id) VALUES (?1)", [id])?;
                    transaction.execute(
                        "DELETE FROM forgotten WHERE number <= last_insert_rowid() - ?1",
                        [MAX_FORGOTTEN],
                    )?;
                }
            }
        }
        transaction
            .prepare_cached("INSERT OR REPLACE INTO applied VALUES (1, ?1)")?
            .execute([signed(through)])?;
        transaction.commit()
    }

    /// Makes one small step of work that can wait: deletes the blocks of forgotten sessions and the
    /// oldest blocks beyond the limit, and returns free space to the file system. Returns whether
    /// there is more to do.
    pub fn clean(&mut self) -> rusqlite::Result<bool> {
        if self.delete_forgotten()? || self.shrink()? {
            self.has_free_pages = true;
            self.has_deleted = true;
            return Ok(true);
        }
        if !self.has_free_pages {
            return Ok(false);
        }
        let free: i64 = self.pragma("freelist_count")?;
        if free > 0 {
            let query = format!("PRAGMA incremental_vacuum({PAGES_PER_STEP})");
            let mut vacuum = self.connection.prepare(&query)?;
            let mut rows = vacuum.query([])?;
            while rows.next()?.is_some() {}
            return Ok(true);
        }
        self.has_deleted &= !self.checkpoint();
        // Tried again after the next commit.
        self.has_free_pages = self.has_deleted;
        Ok(false)
    }

    /// Moves everything from the write-ahead log to the database. Returns false if a reader prevents
    /// this.
    fn checkpoint(&self) -> bool {
        let query = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy = self.connection.query_row(query, [], |row| row.get(0));
        is_busy.is_ok_and(|is_busy: bool| !is_busy)
    }

    fn pragma(&self, name: &str) -> rusqlite::Result<i64> {
        self.connection
            .pragma_query_value(None, name, |row| row.get(0))
    }

    fn delete_forgotten(&mut self) -> rusqlite::Result<bool> {
        let query = "SELECT session FROM deleted LIMIT 1";
        let found = self.connection.query_row(query, [], |row| row.get(0));
        let Some(session): Option<i64> = found.optional()? else {
            return Ok(false);
        };
        let blocks = "DELETE FROM blocks WHERE number IN
            (SELECT number FROM blocks WHERE session = ?1 LIMIT ?2)";
        if self
            .connection
            .execute(blocks, [session, BLOCKS_PER_STEP])?
            == 0
        {
            let query = "DELETE FROM deleted WHERE session = ?1";
            self.connection.execute(query, [session])?;
        }
        Ok(true)
    }

    /// Deletes the oldest blocks if the history is too large, and records gaps in their places.
    fn shrink(&mut self) -> rusqlite::Result<bool> {
        let pages = self.pragma("page_count")? - self.pragma("freelist_count")?;
        let used = (pages * self.pragma("page_size")?).unsigned_abs();
        let limit = match self.is_shrinking {
            true => self.max_bytes / 10 * 9,
            false => self.max_bytes,
        };
        self.is_shrinking = used > limit;
        if !self.is_shrinking {
            return Ok(false);
        }
        let transaction = self.connection.transaction()?;
        let mut oldest: Vec<(i64, i64, u64, u64, u64)> = Vec::new();
        {
            let mut query = transaction.prepare_cached(
                "SELECT number, session, first, last, epoch FROM blocks WHERE missed = 0
                 ORDER BY number LIMIT ?1",
            )?;
            let mut rows = query.query([BLOCKS_PER_STEP])?;
            while let Some(row) = rows.next()? {
                let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
                oldest.push((row.get(0)?, row.get(1)?, number(2)?, number(3)?, number(4)?));
            }
        }
        if oldest.is_empty() {
            self.is_shrinking = false;
            return Ok(false);
        }
        for (number, session, first, last, epoch) in oldest {
            transaction.execute("DELETE FROM blocks WHERE number = ?1", [number])?;
            // Continues the gap before it.
            let before: Option<i64> = transaction
                .query_row(
                    "DELETE FROM blocks WHERE session = ?1 AND missed > 0 AND last = ?2 RETURNING first",
                    params![session, signed(first) - 1],
                    |row| row.get(0),
                )
                .optional()?;
            let first = before.map_or(first, i64::unsigned_abs);
            let missed = signed(last - first + 1);
            insert(&transaction, session, (first, last), epoch, missed, None)?;
        }
        transaction.commit()?;
        Ok(true)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The key of a session. It is created with the first command of the session.
fn key(transaction: &Transaction, id: &str) -> rusqlite::Result<i64> {
    let mut query = transaction.prepare_cached("SELECT key FROM records WHERE id = ?1")?;
    if let Some(key) = query.query_row([id], |row| row.get(0)).optional()? {
        return Ok(key);
    }
    // Keys of deleted sessions are not reused while their blocks exist.
    transaction
        .prepare_cached(
            "INSERT INTO records (key, id) VALUES (1 + max(
                (SELECT coalesce(max(key), 0) FROM records),
                (SELECT coalesce(max(session), 0) FROM deleted)), ?1) RETURNING key",
        )?
        .query_row([id], |row| row.get(0))
}

/// Writes items as blocks of consecutive numbers.
fn write_items(transaction: &Transaction, key: i64, items: &[&LogItem]) -> rusqlite::Result<()> {
    let mut rest = items;
    while let Some(first) = rest.first() {
        let mut bytes = 0;
        let fits = |(at, item): &(usize, &&LogItem)| {
            bytes += item.data().len();
            let is_next = item.seq == first.seq + *at as u64 && item.epoch == first.epoch;
            is_next && (*at == 0 || bytes <= MAX_BLOCK_BYTES)
        };
        let count = rest.iter().enumerate().take_while(fits).count().max(1);
        let (block, others) = rest.split_at(count);
        let last = first.seq + count as u64 - 1;
        let data = blocks::encode(block);
        insert(
            transaction,
            key,
            (first.seq, last),
            first.epoch,
            0,
            Some(&data),
        )?;
        rest = others;
    }
    Ok(())
}

fn insert(
    transaction: &Transaction,
    key: i64,
    (first, last): (u64, u64),
    epoch: u64,
    missed: i64,
    data: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let query = "INSERT OR REPLACE INTO blocks (session, first, last, epoch, missed, data)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (first, last, epoch) = (signed(first), signed(last), signed(epoch));
    transaction
        .prepare_cached(query)?
        .execute(params![key, first, last, epoch, missed, data])?;
    Ok(())
}

/// A second connection, for readers.
pub fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    reader.busy_timeout(Duration::from_secs(2))?;
    reader.pragma_update(None, "cache_size", -512)?;
    Ok(reader)
}

/// Items from `from` on, in order. A gap is an item of its own.
pub fn page(
    reader: &Connection,
    session: &str,
    from: u64,
    limit: usize,
) -> rusqlite::Result<Vec<LogRow>> {
    let mut query = reader.prepare_cached(
        "SELECT first, last, epoch, missed, data FROM blocks JOIN records ON key = session
         WHERE id = ?1 AND first >= coalesce(
            (SELECT max(first) FROM blocks WHERE session = key AND first <= ?2), 0)
         ORDER BY first",
    )?;
    let mut rows = query.query(params![session, signed(from)])?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while bytes < PAGE_BYTES
        && found.len() < limit
        && let Some(row) = rows.next()?
    {
        for item in items(row)?.into_iter().filter(|item| item.seq >= from) {
            if found.len() == limit || bytes >= PAGE_BYTES {
                break;
            }
            bytes += item.data.len();
            found.push(item);
        }
    }
    Ok(found)
}

/// The last lines of output before an item, newest first. Stops after the line that exceeds `bytes`.
pub fn lines_before(
    reader: &Connection,
    session: &str,
    before: u64,
    count: usize,
    bytes: usize,
) -> rusqlite::Result<Vec<LogRow>> {
    let mut query = reader.prepare_cached(
        "SELECT first, last, epoch, missed, data FROM blocks JOIN records ON key = session
         WHERE id = ?1 AND first < ?2 AND missed = 0 ORDER BY first DESC",
    )?;
    let mut rows = query.query(params![session, signed(before)])?;
    let mut found = Vec::new();
    let mut so_far = 0;
    while let Some(row) = rows.next()? {
        let lines = items(row)?.into_iter().rev();
        for line in lines.filter(|item| item.kind == ItemKind::Line && item.seq < before) {
            if found.len() == count || so_far > bytes {
                return Ok(found);
            }
            so_far += line.data.len();
            found.push(line);
        }
    }
    Ok(found)
}

/// Every session in the log, oldest first. Records that cannot be parsed are skipped.
pub fn sessions(reader: &Connection) -> rusqlite::Result<Vec<LoggedSession>> {
    let mut query = reader.prepare(
        "SELECT record, (SELECT max(last) FROM blocks WHERE session = key) FROM records
         WHERE record IS NOT NULL ORDER BY started_at, id",
    )?;
    let mut rows = query.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let record: String = row.get(0)?;
        let Ok(session) = serde_json::from_str::<SessionRecord>(&record) else {
            continue;
        };
        let last: Option<i64> = row.get(1)?;
        let next = last.map_or(0, |last| last.unsigned_abs() + 1);
        found.push(LoggedSession { session, next });
    }
    Ok(found)
}

/// The items of a block. A damaged block is a gap.
fn items(row: &rusqlite::Row) -> rusqlite::Result<Vec<LogRow>> {
    let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let (first, last, epoch) = (number(0)?, number(1)?, number(2)?);
    let missed: i64 = row.get(3)?;
    let data: Option<Vec<u8>> = row.get(4)?;
    let decoded = data.and_then(|data| blocks::decode(first, epoch, &data));
    Ok(decoded.unwrap_or_else(|| {
        let missed = (missed >= 0).then_some(last - first + 1);
        vec![LogRow {
            seq: first,
            epoch,
            kind: ItemKind::Gap,
            data: gap_data(missed).to_string(),
        }]
    }))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Created with mode 0600 before SQLite opens it, so that other users cannot read it.
    if let Some(dir) = path.parent() {
        let _ = agentproto_runtime::home::make_dir(dir);
    }
    let _ = super::private_file(path);
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // Before the first table is created, so that free pages can be returned.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Commits survive a crash of the process. After a crash of the machine, the last ones may be
    // lost.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -1024)?;
    // Deleted output is overwritten.
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.execute_batch(SCHEMA)?;
    let result: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if result != "ok" {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
            Some(result),
        ));
    }
    convert(&mut connection)?;
    Ok(connection)
}

/// Converts a file of an earlier version, which has one row per item.
fn convert(connection: &mut Connection) -> rusqlite::Result<()> {
    let query = "SELECT count(*) FROM sqlite_schema WHERE name IN ('items', 'sessions')";
    let tables: i64 = connection.query_row(query, [], |row| row.get(0))?;
    if tables < 2 {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "INSERT OR IGNORE INTO records (id, started_at, record)
         SELECT id, started_at, record FROM sessions",
    )?;
    {
        let mut query = transaction
            .prepare("SELECT session, seq, epoch, kind, data FROM items ORDER BY session, seq")?;
        let mut rows = query.query([])?;
        let mut current = String::new();
        let mut items: Vec<LogItem> = Vec::new();
        let write = |session: &str, items: &mut Vec<LogItem>| -> rusqlite::Result<()> {
            if !items.is_empty() {
                let all: Vec<&LogItem> = items.iter().collect();
                write_items(&transaction, key(&transaction, session)?, &all)?;
            }
            items.clear();
            Ok(())
        };
        while let Some(row) = rows.next()? {
            let session: String = row.get(0)?;
            if session != current || items.len() == 1024 {
                write(&current, &mut items)?;
                current = session;
            }
            let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
            let (kind, data): (String, String) = (row.get(3)?, row.get(4)?);
            let kind = ItemKind::from_name(&kind).unwrap_or(ItemKind::Event);
            items.push(LogItem::new(number(2)?, number(1)?, kind, &data));
        }
        write(&current, &mut items)?;
    }
    transaction.execute_batch("DROP TABLE items; DROP TABLE sessions;")?;
    transaction.commit()?;
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")
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
