//! The AIP-7 audit log: one line per event, chained by hashes. A separate file points to the newest
//! line, so that a truncated log is detected.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use agentproto_text::time;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Code, Error};
use crate::home::{Home, make_dir};
use agentproto_text::redact::SecretRedactor;

/// Value of `schema` in every line.
pub const SCHEMA: &str = "agentgovernance/v1";
/// The `prev` of the first line.
const GENESIS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
/// Maximum length of a line in bytes. Longer lines are not read into memory.
const MAX_LINE: u64 = 8 << 20;
/// Limits on `data`, whose contents an agent controls. Values beyond them are replaced by size and
/// hash, because a longer or deeper line could not be read back.
const MAX_DATA: usize = 64 << 10;
const MAX_DEPTH: usize = 32;

/// Width in bytes of the pointer to the newest line.
const HEAD_WIDTH: usize = 127;

/// Writes events. Several processes may write to one log, so each append holds the file's lock.
pub struct Audit {
    path: PathBuf,
    actor: String,
    entity: String,
    masks: SecretRedactor,
    log: Arc<Mutex<Option<Log>>>,
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
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let (Ok(ours), Ok(there)) = (log.file.metadata(), std::fs::metadata(path)) else {
        return false;
    };
    identity(ours) == identity(there)
}

struct Log {
    file: File,
    head: File,
    /// End offset and tip of the last line that this process wrote. Stale when another process has
    /// written since.
    known: Option<(u64, Tip)>,
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tip {
    seq: u64,
    hash: String,
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
            masks,
            log: shared(&default_path(home)),
            path: default_path(home),
        })
    }

    /// Appends one event. `data` must be an object.
    pub fn record(&self, event: &str, data: Value) -> Result<(), Error> {
        let mut data = data;
        self.masks.mask_value(&mut data);
        limit_size(&mut data);
        let mut log = self.log.lock();
        let log = match &mut *log {
            Some(log) => log,
            none => none.insert(Log::open(&self.path).map_err(|e| unwritable(&self.path, &e))?),
        };
        let locked = Locked::new(&log.file).map_err(|e| unwritable(&self.path, &e))?;
        let appended = self.append(log, event, data);
        drop(locked);
        appended.map_err(|e| unwritable(&self.path, &e))
    }

    fn append(&self, log: &mut Log, event: &str, data: Value) -> io::Result<()> {
        let end = log.file.seek(SeekFrom::End(0))?;
        let before = match log.known.take() {
            Some((at, tip)) if at == end => Some(tip),
            _ => last_line(&mut log.file, end)?,
        };
        let (seq, prev) = match before {
            Some(tip) => (tip.seq + 1, tip.hash),
            None => (0, GENESIS.to_owned()),
        };
        let mut entry = Map::new();
        entry.insert("schema".into(), SCHEMA.into());
        entry.insert("type".into(), "audit-event".into());
        entry.insert("seq".into(), seq.into());
        entry.insert("ts".into(), time::now().into());
        entry.insert("actor".into(), self.actor.as_str().into());
        entry.insert("entity".into(), self.masks.mask(&self.entity).into());
        entry.insert("event".into(), event.into());
        entry.insert("data".into(), data);
        entry.insert("prev".into(), prev.into());
        let hash = hash_of(&entry);
        entry.insert("hash".into(), hash.as_str().into());
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        if let Err(error) = log.file.write_all_at(&line, end) {
            // A partial line would break the chain permanently.
            let _ = log.file.set_len(end);
            return Err(error);
        }
        // The pointer has a fixed length, so it can be overwritten in place.
        let head = json!({ "seq": seq, "hash": hash }).to_string();
        let head = format!("{head:<HEAD_WIDTH$}\n");
        log.head.write_all_at(head.as_bytes(), 0)?;
        log.known = Some((end + line.len() as u64, Tip { seq, hash }));
        Ok(())
    }
}

/// Holds the lock of a file during one append.
struct Locked(i32);

impl Locked {
    fn new(file: &File) -> io::Result<Self> {
        let fd = file.as_raw_fd();
        loop {
            // SAFETY: the descriptor stays open longer than the lock.
            if unsafe { libc::flock(fd, libc::LOCK_EX) } == 0 {
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
fn limit_size(data: &mut Value) {
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

/// Hash of the entry without its `hash` field, with keys sorted by name.
fn hash_of(entry: &Map<String, Value>) -> String {
    let mut hasher = Sha256::new();
    let mut text = String::with_capacity(512);
    canonical_object(entry, &mut text);
    hasher.update(text);
    format!("sha256:{}", agentproto_text::hex(&hasher.finalize()))
}

fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => canonical_object(map, text),
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

fn canonical_object(map: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    text.push('{');
    for (n, (key, value)) in members.into_iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        canonical(value, text);
    }
    text.push('}');
}

fn last_line(file: &mut File, end: u64) -> io::Result<Option<Tip>> {
    if end == 0 {
        return Ok(None);
    }
    let mut from = end;
    // The last line is nearly always short.
    let mut size = 4 << 10;
    let mut bytes = Vec::new();
    let line = loop {
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
            break body.get(at + 1..).unwrap_or_default();
        }
        if from == 0 || end - from > MAX_LINE {
            break body;
        }
    };
    match tip_of(line) {
        Some(tip) => Ok(Some(tip)),
        None => Err(io::Error::other(
            "its last line is not an audit event; run `agentproto audit verify` for details",
        )),
    }
}

fn tip_of(line: &[u8]) -> Option<Tip> {
    let entry: Value = serde_json::from_slice(line).ok()?;
    Some(Tip {
        seq: entry.get("seq")?.as_u64()?,
        hash: entry.get("hash")?.as_str()?.to_owned(),
    })
}

/// Result of verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of events in the log.
    pub events: u64,
    /// Hash of the newest event, or `None` for an empty log.
    pub head: Option<String>,
}

/// Checks every line of a log against the previous one, and the last line against the pointer.
pub fn verify(path: &Path) -> Result<Verified, Error> {
    let broken = |line: u64, what: String| {
        Error::new(
            Code::AuditBroken,
            format!("{}:{line}: {what}", path.display()),
        )
        .hint("the log was changed after it was written: keep it as evidence and start a new one")
        .details(json!({ "line": line }))
    };
    let unread = |e: io::Error| {
        let code = match e.kind() {
            io::ErrorKind::NotFound => Code::TargetUnknown,
            _ => Code::AuditBroken,
        };
        Error::new(code, format!("{}: {e}", path.display()))
    };
    let mut reader = BufReader::new(File::open(path).map_err(unread)?);
    let mut tip: Option<Tip> = None;
    let mut number = 0;
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line);
        if read.map_err(unread)? == 0 {
            break;
        }
        number += 1;
        let Some(text) = line.strip_suffix(b"\n") else {
            return Err(broken(number, "the line has no line break".into()));
        };
        let Ok(Value::Object(mut entry)) = serde_json::from_slice(text) else {
            return Err(broken(number, "the line is not a JSON object".into()));
        };
        let stored_hash = match entry.remove("hash") {
            Some(Value::String(hash)) => hash,
            _ => return Err(broken(number, "the event has no `hash`".into())),
        };
        let (seq, prev) = match &tip {
            Some(tip) => (tip.seq + 1, tip.hash.as_str()),
            None => (0, GENESIS),
        };
        if entry.get("seq").and_then(Value::as_u64) != Some(seq) {
            return Err(broken(
                number,
                format!("`seq` should be {seq}: events are missing or repeated"),
            ));
        }
        if entry.get("prev").and_then(Value::as_str) != Some(prev) {
            return Err(broken(
                number,
                "`prev` is not the hash of the previous event".into(),
            ));
        }
        if hash_of(&entry) != stored_hash {
            return Err(broken(number, "the event does not match its `hash`".into()));
        }
        tip = Some(Tip {
            seq,
            hash: stored_hash,
        });
    }
    let head = std::fs::read(head_path(path)).ok();
    if let Some(pointed) = head.as_deref().filter(|h| !h.is_empty()).map(tip_of)
        && pointed != tip
    {
        return Err(broken(
            number + 1,
            "events are missing at the end: the pointer file names another last event".into(),
        ));
    }
    Ok(Verified {
        events: number,
        head: tip.map(|t| t.hash),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path());
        let masks = SecretRedactor::default();
        masks.add("hunter22");
        for round in 0..2 {
            let audit = Audit::open(&home, "local:x/AGENT-CLI.md", masks.clone()).expect("opened");
            for step in 0..3 {
                let data = json!({"round": round, "step": step, "b": {"z": 1, "a": "hunter22"}});
                audit.record("test.step", data).expect("written");
            }
        }
        let path = default_path(&home);
        (dir, path)
    }

    #[test]
    fn a_chain_by_several_writers_verifies_and_contains_no_secret() {
        let (_dir, path) = log();
        assert_eq!(verify(&path).expect("whole").events, 6);
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(!text.contains("hunter22") && text.contains("[secret]"));
    }

    #[test]
    fn every_change_is_detected_at_its_line() {
        let (_dir, path) = log();
        let text = std::fs::read_to_string(&path).expect("readable");
        let lines: Vec<&str> = text.lines().collect();
        let changed = |lines: &[String]| {
            std::fs::write(
                &path,
                lines.iter().map(|l| format!("{l}\n")).collect::<String>(),
            )
            .expect("written");
            verify(&path).expect_err("noticed").details["line"].clone()
        };
        let all: Vec<String> = lines.iter().map(|l| l.to_string()).collect();
        let mut altered = all.clone();
        altered[2] = altered[2].replace("\"step\":2", "\"step\":9");
        assert_eq!(changed(&altered), 3);
        let mut missing = all.clone();
        missing.remove(1);
        assert_eq!(changed(&missing), 2);
        let mut swapped = all.clone();
        swapped.swap(3, 4);
        assert_eq!(changed(&swapped), 4);
        assert_eq!(changed(&all[..5]), 6);
        let mut repeated = all.clone();
        repeated.push(all[5].clone());
        assert_eq!(changed(&repeated), 7);
    }

    #[test]
    fn data_of_an_agent_cannot_break_the_log() {
        let (dir, path) = log();
        let home = Home::new(dir.path());
        let audit = Audit::open(&home, "local:x", SecretRedactor::default()).expect("opened");
        let deep = (0..126).fold(json!(1), |inner, _| json!([inner]));
        let long = "x".repeat(9 << 20);
        for args in [deep, json!({ "text": long })] {
            let data = json!({ "id": "t1", "name": "Edit", "args": args });
            audit.record("tool.call", data).expect("written");
        }
        let id = "y".repeat(MAX_DATA);
        audit
            .record("tool.result", json!({ "id": id, "ok": true }))
            .expect("written");
        let small = json!({ "id": "t2", "args": { "list": [[["kept"]]] } });
        audit.record("tool.call", small.clone()).expect("written");
        drop(audit);
        let audit = Audit::open(&home, "local:x", SecretRedactor::default()).expect("opened");
        audit.record("next.run", json!({})).expect("still writable");
        assert_eq!(verify(&path).expect("whole").events, 11);
        let text = std::fs::read_to_string(&path).expect("readable");
        let entries: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert!(text.len() < 2 * MAX_DATA);
        assert_eq!(entries[7]["data"]["name"], "Edit");
        // `{"text":"…"}` adds eleven bytes to the text.
        assert_eq!(entries[7]["data"]["args"]["bytes"], (9 << 20) + 11);
        assert_eq!(entries[8]["data"]["ok"], true);
        assert_eq!(entries[9]["data"], small);
    }

    #[test]
    fn a_new_log_is_started_after_the_old_one_was_moved() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path());
        let open = || Audit::open(&home, "local:x", SecretRedactor::default()).expect("opened");
        let path = default_path(&home);
        let before = open();
        before.record("test.one", json!({})).expect("written");
        // The log is rotated while `before` still has it open.
        let aside = path.with_extension("old");
        std::fs::rename(&path, &aside).expect("moved");
        let after = open();
        after.record("test.two", json!({})).expect("written");
        let text = |path: &Path| std::fs::read_to_string(path).expect("there");
        assert!(text(&path).contains("test.two") && !text(&path).contains("test.one"));
        assert!(text(&aside).contains("test.one") && !text(&aside).contains("test.two"));
        assert_eq!(verify(&path).expect("whole").events, 1);
        drop(before);
    }
}
