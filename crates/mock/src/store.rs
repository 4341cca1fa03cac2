//! Sessions that outlive a process: one file each, in the directory of `--state` or
//! `MOCK_STATE_DIR`.
//!
//! Without a directory, sessions exist only in memory. Each save appends one line with the new
//! data, so that saving a long conversation takes no longer than saving a short one.

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sessions that are saved only at the end, if there are any: with their store's file.
static AT_EXIT: Mutex<Option<HashMap<PathBuf, StoredSession>>> = Mutex::new(None);

/// From now on, saves sessions only when `save_all` is called.
pub fn save_at_exit() {
    AT_EXIT.lock().get_or_insert_default();
}

/// Whether a conversation was not saved so far.
pub fn has_unsaved() -> bool {
    let sessions = AT_EXIT.lock();
    let mut sessions = sessions.iter().flat_map(HashMap::values);
    sessions.any(|session| !session.prompts.is_empty())
}

/// Saves all sessions that were not saved so far.
pub fn save_all() {
    let sessions = AT_EXIT.lock().take().unwrap_or_default();
    for (file, saved) in sessions {
        let _ = replace(&file, &session_line(&saved, &saved.prompts, &saved.history));
    }
}

/// Stored data of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoredSession {
    pub id: String,
    pub cwd: String,
    #[serde(default)]
    pub directories: Vec<String>,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub mode: Option<String>,
    #[serde(default)]
    pub updated_at: String,
    #[serde(default)]
    pub turns: u64,
    #[serde(default)]
    pub prompts: Vec<String>,
    /// Updates to replay, in order.
    #[serde(default)]
    pub history: Vec<Value>,
}

/// One line of a session file: the current state, and the prompts and updates that were added.
#[derive(Serialize)]
struct SessionLine<'s> {
    id: &'s str,
    cwd: &'s str,
    directories: &'s [String],
    title: Option<&'s str>,
    mode: Option<&'s str>,
    updated_at: &'s str,
    turns: u64,
    prompts: &'s [String],
    history: &'s [Value],
}

#[derive(Debug)]
pub struct SessionStore {
    directory: Option<PathBuf>,
    /// Number of prompts and updates per session that this process has written to the file.
    written: Mutex<HashMap<String, (usize, usize)>>,
}

/// Maximum size of a session file in bytes. Real ones are much smaller.
const MAX_FILE_BYTES: u64 = 64 << 20;

impl SessionStore {
    pub fn new(directory: Option<PathBuf>) -> SessionStore {
        let variable = || std::env::var_os("MOCK_STATE_DIR").filter(|d| !d.is_empty());
        SessionStore {
            directory: directory.or_else(|| variable().map(PathBuf::from)),
            written: Mutex::default(),
        }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        // An id from the peer must not lead out of the directory.
        let plain = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let named = plain && !id.is_empty() && id.len() <= 100;
        let directory = self.directory.as_ref().filter(|_| named)?;
        Some(directory.join(format!("{id}.jsonl")))
    }

    /// Saves a session. Errors are printed to stderr and do not disturb the conversation.
    pub fn save(&self, saved: &StoredSession) {
        let Some(file) = self.file(&saved.id) else {
            return;
        };
        if let Some(waiting) = AT_EXIT.lock().as_mut() {
            waiting.insert(file, saved.clone());
            return;
        }
        let mut written = self.written.lock();
        let known = written.get(&saved.id).and_then(|(prompts, history)| {
            Some((
                saved.prompts.get(*prompts..)?,
                saved.history.get(*history..)?,
            ))
        });
        let done = match known {
            Some((prompts, history)) => append(&file, &session_line(saved, prompts, history)),
            // Another process may have left an incomplete line.
            None => replace(&file, &session_line(saved, &saved.prompts, &saved.history)),
        };
        match done {
            Ok(()) => {
                let lengths = (saved.prompts.len(), saved.history.len());
                written.insert(saved.id.clone(), lengths);
            }
            Err(error) => {
                written.remove(&saved.id);
                eprintln!("mock: cannot save the session: {error}");
            }
        }
    }

    pub fn load(&self, id: &str) -> Option<StoredSession> {
        self.read(&self.file(id)?).filter(|saved| saved.id == id)
    }

    fn read(&self, file: &Path) -> Option<StoredSession> {
        let size = fs::metadata(file).ok()?.len();
        if size > MAX_FILE_BYTES {
            return None;
        }
        let bytes = fs::read(file).ok()?;
        // Ignore an incomplete last line.
        let whole = bytes.get(..=memchr::memrchr(b'\n', &bytes)?)?;
        let lines = serde_json::Deserializer::from_slice(whole).into_iter::<StoredSession>();
        let mut all: Option<StoredSession> = None;
        for line in lines {
            let mut line = line.ok()?;
            if let Some(before) = all.take() {
                line.prompts.splice(0..0, before.prompts);
                line.history.splice(0..0, before.history);
            }
            all = Some(line);
        }
        all
    }

    pub fn delete(&self, id: &str) {
        if let Some(file) = self.file(id) {
            let mut written = self.written.lock();
            written.remove(id);
            if let Some(waiting) = AT_EXIT.lock().as_mut() {
                waiting.remove(&file);
            }
            let _ = fs::remove_file(file);
        }
    }

    pub fn all(&self) -> Vec<StoredSession> {
        let Some(directory) = &self.directory else {
            return Vec::new();
        };
        let Ok(files) = fs::read_dir(directory) else {
            return Vec::new();
        };
        files
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
            .filter_map(|path| self.read(&path))
            .collect()
    }
}

fn session_line<'s>(
    saved: &'s StoredSession,
    prompts: &'s [String],
    history: &'s [Value],
) -> SessionLine<'s> {
    SessionLine {
        id: &saved.id,
        cwd: &saved.cwd,
        directories: &saved.directories,
        title: saved.title.as_deref(),
        mode: saved.mode.as_deref(),
        updated_at: &saved.updated_at,
        turns: saved.turns,
        prompts,
        history,
    }
}

fn line(session_line: &SessionLine) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(session_line)?;
    line.push(b'\n');
    Ok(line)
}

fn append(file: &Path, session_line: &SessionLine) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).open(file)?;
    file.write_all(&line(session_line)?)
}

fn replace(file: &Path, session_line: &SessionLine) -> std::io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let fresh = file.with_extension("new");
    fs::write(&fresh, line(session_line)?)?;
    fs::rename(&fresh, file)
}

/// Creates a random id that no other process creates.
pub fn fresh_id(prefix: &str) -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{prefix}-{:016x}{:016x}", random(), random())
}

/// Current time as ISO 8601, in UTC.
pub fn now() -> String {
    crate::iso8601(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_the_wire_stay_in_the_directory() {
        let store = SessionStore::new(Some(PathBuf::from("state")));
        assert!(store.file("mock-1").is_some());
        for id in ["", "../x", "a/b", "a.b", &"a".repeat(101)] {
            assert!(store.file(id).is_none(), "{id}");
        }
    }

    fn summarize(saved: &StoredSession) -> String {
        let history: Vec<String> = saved.history.iter().map(Value::to_string).collect();
        format!(
            "{} {} {}",
            saved.turns,
            saved.prompts.join("+"),
            history.join("+")
        )
    }

    #[test]
    fn saving_appends_lines_and_loading_merges_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || SessionStore::new(Some(dir.path().to_owned()));
        let store = open();
        let mut saved = StoredSession {
            id: "mock-1".to_owned(),
            ..StoredSession::default()
        };
        let file = dir.path().join("mock-1.jsonl");
        let mut sizes = Vec::new();
        for turn in 1..=4 {
            saved.turns = turn;
            saved.prompts.push(format!("p{turn}"));
            saved.history.push(Value::from(turn));
            store.save(&saved);
            sizes.push(fs::metadata(&file).expect("there").len());
        }
        assert_eq!(
            sizes.iter().map(|s| s / sizes[0]).collect::<Vec<_>>(),
            [1, 2, 3, 4]
        );
        assert_eq!(
            summarize(&open().load("mock-1").expect("saved")),
            "4 p1+p2+p3+p4 1+2+3+4"
        );

        // A process is killed in the middle of a line, and another one continues.
        let whole = fs::read(&file).expect("read");
        fs::write(&file, &whole[..whole.len() - 9]).expect("cut");
        let next = open();
        let mut saved = next.load("mock-1").expect("saved");
        assert_eq!(summarize(&saved), "3 p1+p2+p3 1+2+3");
        saved.prompts.push("p5".to_owned());
        next.save(&saved);
        assert_eq!(
            summarize(&open().load("mock-1").expect("saved")),
            "3 p1+p2+p3+p5 1+2+3"
        );

        // A conversation that became shorter is rewritten.
        saved.prompts.clear();
        next.save(&saved);
        assert_eq!(
            summarize(&open().load("mock-1").expect("saved")),
            "3  1+2+3"
        );
        assert_eq!(open().all().len(), 1);
        next.delete("mock-1");
        assert!(open().load("mock-1").is_none());
    }
}
