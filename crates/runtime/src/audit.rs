//! The AIP-7 audit log: one line per event, chained by hashes and authenticated with a key that a
//! confined program cannot read. A pointer file, authenticated in the same way, names the newest
//! event, so that a truncated log is detected.

mod accept;
mod key;
mod line;
mod scope;
#[cfg(test)]
mod tests;
mod torn;
mod verify;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use agentproto_text::flood::FloodLimit;
use agentproto_text::time;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Code, Error};
use crate::home::{Home, make_dir};
use agentproto_text::redact::SecretRedactor;

pub use self::accept::accept;
use self::key::{HomeKey, Key};
use self::line::{Event, Problem, Tip};
pub use self::scope::Scope;
use self::torn::{TORN, Torn};
pub use self::verify::{Anchor, Verified, verify};

/// Value of `schema` in every line.
pub const SCHEMA: &str = "agentgovernance/v1";
/// First event of a log that was started after an earlier one had been moved or deleted.
const RESTART: &str = "audit.restart";
/// Maximum length of a line in bytes. Longer lines are not read into memory.
const MAX_LINE: u64 = 8 << 20;
/// Limits on `data`, whose contents an agent controls. Values beyond them are replaced by size and
/// hash, because a longer or deeper line could not be read back.
const MAX_DATA: usize = 64 << 10;
const MAX_DEPTH: usize = 32;
/// Number of requests of one kind that were carried out and are recorded one by one.
const MAX_REQUESTS: u64 = 10_000;

/// Writes events. Several processes may write to one log, so each append holds the file's lock.
pub struct Audit {
    home: Home,
    path: PathBuf,
    actor: String,
    entity: String,
    scope: Mutex<Scope>,
    masks: SecretRedactor,
    log: Arc<Mutex<Option<Log>>>,
    refusals: Mutex<FloodLimit<Held>>,
    requests: Mutex<FloodLimit<Held>>,
}

/// An event that is perhaps recorded later, with others.
struct Held {
    event: String,
    data: Value,
    /// When it happened.
    time: String,
}

/// A log that is open in this process, with its path.
type OpenLog = (PathBuf, Weak<Mutex<Option<Log>>>);

/// Logs open in this process. Sessions of one host share one open file and the cached last line.
static OPEN: Mutex<Vec<OpenLog>> = Mutex::new(Vec::new());

fn shared(path: &Path) -> Arc<Mutex<Option<Log>>> {
    let mut open = OPEN.lock();
    open.retain(|(_, log)| log.strong_count() > 0);
    let mut known = open.iter().filter(|(known, _)| known == path);
    if let Some(log) = known.find_map(|(_, log)| log.upgrade())
        && is_at(&log, path)
    {
        return log;
    }
    let log = Arc::new(Mutex::new(None));
    open.retain(|(known, _)| known != path);
    open.push((path.to_owned(), Arc::downgrade(&log)));
    log
}

/// Whether the open file is still the one at that path: the log may have been moved away.
fn is_at(log: &Mutex<Option<Log>>, path: &Path) -> bool {
    let log = log.lock();
    let Some(log) = &*log else {
        return true;
    };
    is_same_file(&log.file, path)
}

/// Whether an open file is the one at a path.
fn is_same_file(file: &File, path: &Path) -> bool {
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let same = || Some(identity(file.metadata().ok()?) == identity(path.metadata().ok()?));
    same().unwrap_or(false)
}

struct Log {
    file: File,
    head: File,
    /// State after the last event that this process wrote. Stale when another process has written
    /// since.
    known: Option<Position>,
}

/// The end of a log that was checked.
struct Position {
    /// Size of the log in bytes.
    end: u64,
    tip: Option<Tip>,
    /// Number of the first keyed event.
    keyed_from: u64,
    key: Key,
}

impl Log {
    fn open(path: &Path) -> io::Result<Log> {
        let open = |path: &Path| {
            make_dir(path.parent().unwrap_or(Path::new(".")))?;
            OpenOptions::new()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .mode(0o600)
                .open(path)
        };
        Ok(Log {
            file: open(path)?,
            head: open(&head_path(path))?,
            known: None,
        })
    }
}

/// Path of a home's audit log.
pub fn default_path(home: &Home) -> PathBuf {
    home.path("audit/audit-log.jsonl")
}

fn head_path(log: &Path) -> PathBuf {
    log.with_extension("head.json")
}

impl Audit {
    /// The audit log of a home. The file is opened at the first event. `entity` is the subject of
    /// the events.
    pub fn open(home: &Home, entity: &str, masks: SecretRedactor) -> Result<Self, Error> {
        let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
        // SAFETY: no arguments, cannot fail.
        let number = unsafe { libc::geteuid() };
        Ok(Audit {
            actor: format!("user:{}", user.unwrap_or_else(|_| number.to_string())),
            entity: entity.to_owned(),
            scope: Mutex::default(),
            masks,
            log: shared(&default_path(home)),
            path: default_path(home),
            home: home.clone(),
            refusals: Mutex::default(),
            requests: Mutex::new(FloodLimit::new(MAX_REQUESTS)),
        })
    }

    /// Changes what all later events of this writer have in common.
    pub fn set_scope(&self, change: impl FnOnce(&mut Scope)) {
        change(&mut self.scope.lock());
    }

    /// Another writer to the same log, whose scope can be changed separately.
    pub fn fork(&self) -> Audit {
        Audit {
            home: self.home.clone(),
            path: self.path.clone(),
            actor: self.actor.clone(),
            entity: self.entity.clone(),
            scope: Mutex::new(self.scope.lock().clone()),
            masks: self.masks.clone(),
            log: Arc::clone(&self.log),
            refusals: Mutex::default(),
            requests: Mutex::new(FloodLimit::new(MAX_REQUESTS)),
        }
    }

    /// The user that this process runs as, as `user:NAME`.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Appends one event. `data` must be an object.
    pub fn record(&self, event: &str, data: Value) -> Result<(), Error> {
        self.write(None, event, data)
    }

    /// Like `record`, for an event whose kind a spec defines.
    pub(crate) fn record_kind(&self, kind: &str, event: &str, data: Value) -> Result<(), Error> {
        self.write(Some(kind), event, data)
    }

    fn write(&self, kind: Option<&str>, event: &str, mut data: Value) -> Result<(), Error> {
        self.masks.mask_value(&mut data);
        limit_size(&mut data);
        let mut log = self.log.lock();
        let log = match &mut *log {
            Some(log) => log,
            none => none.insert(Log::open(&self.path).map_err(|e| unwritable(&self.path, &e))?),
        };
        let unwritable = |e| unwritable(&self.path, &e);
        let _locked = Locked::new(&log.file, libc::LOCK_EX).map_err(unwritable)?;
        let end = log.file.seek(SeekFrom::End(0)).map_err(unwritable)?;
        let position = match log.known.take() {
            Some(position) if position.end == end => position,
            _ => self.resume(log, end)?,
        };
        let position = self.append(log, position, (kind, event), data);
        log.known = Some(position.map_err(unwritable)?);
        Ok(())
    }

    /// Records a request of the agent that was refused or failed. `kind` names similar requests. The
    /// first ones are recorded one by one. After them, an entry with `count` stands for several, so
    /// that an agent cannot fill the disk.
    pub fn record_refusal(
        &self,
        kind: &'static str,
        event: &str,
        data: Value,
    ) -> Result<(), Error> {
        self.record_limited(&self.refusals, kind, event, data)
    }

    /// Records a request of the agent that is carried out. The first ones of a kind are recorded one
    /// by one, and after them, an entry with `count` stands for several. There are many more of them
    /// than of refusals, because an agent reads and writes many files.
    pub fn record_request(&self, event: &'static str, data: Value) -> Result<(), Error> {
        self.record_limited(&self.requests, event, event, data)
    }

    fn record_limited(
        &self,
        limit: &Mutex<FloodLimit<Held>>,
        kind: &'static str,
        event: &str,
        data: Value,
    ) -> Result<(), Error> {
        let held = Held {
            event: event.to_owned(),
            data,
            time: time::now(),
        };
        let admitted = limit.lock().admit(kind, held, Instant::now());
        match admitted {
            Some((held, 1)) => self.record(&held.event, held.data),
            Some((held, count)) => self.record_summary(held, count),
            None => Ok(()),
        }
    }

    /// Records the requests that are counted, but not recorded yet. Call it at the end of each turn
    /// and of the session.
    pub fn flush(&self) -> Result<(), Error> {
        let mut held = self.refusals.lock().flush();
        held.append(&mut self.requests.lock().flush());
        let mut recorded = Ok(());
        for (held, count) in held {
            recorded = recorded.and(self.record_summary(held, count));
        }
        recorded
    }

    /// Records the newest of several events, with their number and its time.
    fn record_summary(&self, held: Held, count: u64) -> Result<(), Error> {
        let mut data = held.data;
        if let Value::Object(data) = &mut data {
            data.insert("count".to_owned(), count.into());
            data.insert("last_ts".to_owned(), held.time.into());
        }
        self.record(&held.event, data)
    }

    /// Checks the end of the log before this process appends to it, because an event that is added
    /// to a cut log would hide the cut. Creates the key and the pointer file if necessary.
    fn resume(&self, log: &mut Log, end: u64) -> Result<Position, Error> {
        let unwritable = |e| unwritable(&self.path, &e);
        let home_key = key::load(&self.home)?;
        let mut bytes = Vec::new();
        log.head.rewind().map_err(unwritable)?;
        let mut head = (&log.head).take(line::MAX_HEAD);
        head.read_to_end(&mut bytes).map_err(unwritable)?;
        let must_be_keyed = matches!(home_key, HomeKey::InUse(_));
        let head = line::read_head(&bytes, &home_key, must_be_keyed).map_err(|problem| {
            let what = format!("the pointer file is invalid: {}", problem.what);
            self.broken(Problem { what, ..problem })
        })?;
        let keyed_from = head.as_ref().and_then(|head| head.keyed_from);
        let torn = torn_line(&mut log.file, end).map_err(unwritable)?;
        let end = torn.as_ref().map_or(end, |torn| torn.start);
        let last = self.last_event(log, end, home_key.get().zip(keyed_from))?;
        match &head {
            Some(head) => line::check_end(head.tip.as_ref(), last.as_ref())
                .map_err(|what| self.broken(what.into()))?,
            None if end == 0 && torn.is_none() => {}
            None => return Err(self.broken("the pointer file is missing or empty".into())),
        }
        let is_restart = head.is_none() && must_be_keyed;
        let is_new = !must_be_keyed;
        let key = match home_key {
            HomeKey::New(key) | HomeKey::InUse(key) => key,
            HomeKey::Missing => key::create(&self.home)?,
        };
        let tip = last.map(|last| last.tip);
        let mut position = Position {
            end,
            keyed_from: keyed_from.unwrap_or_else(|| line::count(tip.as_ref())),
            tip,
            key,
        };
        if keyed_from.is_none() {
            position.write_head(log).map_err(unwritable)?;
        }
        if is_new {
            key::put_in_use(&self.home).map_err(unwritable)?;
        }
        if let Some(torn) = torn {
            let data = torn.set_aside(&log.file, &self.path).map_err(unwritable)?;
            position = self
                .append(log, position, (None, TORN), data)
                .map_err(unwritable)?;
        }
        if is_restart {
            let data = json!({ "why": "the earlier audit log was moved or deleted" });
            position = self
                .append(log, position, (None, RESTART), data)
                .map_err(unwritable)?;
        }
        Ok(position)
    }

    /// Reads and checks the last event.
    fn last_event(
        &self,
        log: &mut Log,
        end: u64,
        keyed: Option<(&Key, u64)>,
    ) -> Result<Option<Event>, Error> {
        let line = last_line(&mut log.file, end).map_err(|e| unwritable(&self.path, &e))?;
        let Some(line) = line else {
            return Ok(None);
        };
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        line::read_event(text, keyed).map(Some).map_err(|problem| {
            let what = format!("the last line is invalid: {}", problem.what);
            self.broken(Problem { what, ..problem })
        })
    }

    fn broken(&self, problem: Problem) -> Error {
        let what = format!(
            "nothing can be added to the audit log `{}`: {}",
            self.path.display(),
            problem.what
        );
        Error::new(Code::AuditBroken, what).hint(problem.hint)
    }

    fn append(
        &self,
        log: &Log,
        position: Position,
        (kind, event): (Option<&str>, &str),
        data: Value,
    ) -> io::Result<Position> {
        let seq = line::count(position.tip.as_ref());
        let mut entry = Map::new();
        entry.insert("schema".into(), SCHEMA.into());
        entry.insert("type".into(), "audit-event".into());
        entry.insert("seq".into(), seq.into());
        entry.insert("ts".into(), time::now().into());
        entry.insert("actor".into(), self.actor.as_str().into());
        entry.insert("entity".into(), self.masks.mask(&self.entity).into());
        self.scope
            .lock()
            .add_to(&mut entry, &self.actor, &self.masks);
        if let Some(kind) = kind {
            entry.insert("kind".into(), kind.into());
        }
        entry.insert("event".into(), event.into());
        entry.insert("data".into(), data);
        entry.insert("prev".into(), line::next_prev(position.tip.as_ref()).into());
        let (line, hash) = line::write_event(&entry, &position.key)?;
        let end = position.end;
        let position = Position {
            end: end + line.len() as u64,
            tip: Some(Tip { seq, hash }),
            ..position
        };
        let written = log.file.write_all_at(&line, end);
        if let Err(error) = written.and_then(|()| position.write_head(log)) {
            // A partial line, or a pointer that is two events behind, would break the log.
            let _ = log.file.set_len(end);
            return Err(error);
        }
        Ok(position)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

impl Position {
    fn write_head(&self, log: &Log) -> io::Result<()> {
        let head = line::write_head(self.tip.as_ref(), self.keyed_from, &self.key);
        log.head.write_all_at(head.as_bytes(), 0)
    }
}

/// Holds the lock of a file.
struct Locked(i32);

impl Locked {
    fn new(file: &File, how: libc::c_int) -> io::Result<Self> {
        let fd = file.as_raw_fd();
        loop {
            // SAFETY: the descriptor stays open longer than the lock.
            if unsafe { libc::flock(fd, how) } == 0 {
                return Ok(Locked(fd));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: see `new`.
        unsafe { libc::flock(self.0, libc::LOCK_UN) };
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let what = format!("cannot write the audit log `{}`: {error}", path.display());
    Error::new(Code::StateUnwritable, what).hint(
        "nothing runs without an audit log (AIP-7): free some disk space, or set AGENTPROTO_HOME",
    )
}

/// Replaces values that are too deep or too long by size and hash, the longest first.
pub(crate) fn limit_size(data: &mut Value) {
    flatten(data, MAX_DEPTH);
    let mut total = data.to_string().len();
    if let Value::Object(members) = data
        && total > MAX_DATA
    {
        let mut sizes: Vec<(usize, String)> = members
            .iter()
            .map(|(key, value)| (value.to_string().len(), key.clone()))
            .collect();
        sizes.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        for (size, key) in sizes {
            if total <= MAX_DATA {
                break;
            }
            if let Some(value) = members.get_mut(&key) {
                *value = digest(value);
                total = total.saturating_sub(size) + value.to_string().len();
            }
        }
    }
    if total > MAX_DATA {
        *data = digest(data);
    }
}

fn flatten(value: &mut Value, levels: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => *value = digest(value),
        Value::Array(items) => items.iter_mut().for_each(|item| flatten(item, levels - 1)),
        Value::Object(map) => map.values_mut().for_each(|item| flatten(item, levels - 1)),
        _ => {}
    }
}

/// Size and hash of a value that is not kept.
fn digest(value: &Value) -> Value {
    let text = value.to_string();
    let hash = agentproto_text::hex(&Sha256::digest(text.as_bytes()));
    json!({ "bytes": text.len(), "sha256": hash })
}

/// The last line, if it has no line break.
fn torn_line(file: &mut File, end: u64) -> io::Result<Option<Torn>> {
    let line = last_line(file, end)?.filter(|line| line.last() != Some(&b'\n'));
    Ok(line.map(|line| Torn {
        start: end - line.len() as u64,
        line,
    }))
}

/// The last line with its line break, or `None` if the file is empty.
fn last_line(file: &mut File, end: u64) -> io::Result<Option<Vec<u8>>> {
    if end == 0 {
        return Ok(None);
    }
    let mut from = end;
    // The last line is nearly always short.
    let mut size = 4 << 10;
    let mut bytes = Vec::new();
    loop {
        let step = from.min(size);
        size = (size * 4).min(64 << 10);
        from -= step;
        file.seek(SeekFrom::Start(from))?;
        let mut chunk = vec![0; step as usize];
        file.read_exact(&mut chunk)?;
        chunk.extend_from_slice(&bytes);
        bytes = chunk;
        let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        if let Some(at) = memchr::memrchr(b'\n', body) {
            return Ok(Some(bytes.split_off(at + 1)));
        }
        if from == 0 || end - from > MAX_LINE {
            return Ok(Some(bytes));
        }
    }
}
