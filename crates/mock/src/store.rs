//! Sessions that outlive a process: one file each, in the directory that `MOCK_STATE_DIR` names.
//! Without it they live in memory only. Each time a session is saved, what is new becomes a line:
//! a turn late in a long conversation costs no more than the first.

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is kept of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    pub id: String,
    pub cwd: String,
    #[serde(default)]
    pub directories: Vec<String>,
    #[serde(default)]
    pub title: Option<String>,
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

/// What a line of its file says: how the session is now, and what was added to it.
#[derive(Serialize)]
struct Added<'s> {
    id: &'s str,
    cwd: &'s str,
    directories: &'s [String],
    title: Option<&'s str>,
    updated_at: &'s str,
    turns: u64,
    prompts: &'s [String],
    history: &'s [Value],
}

#[derive(Debug)]
pub struct Store {
    directory: Option<PathBuf>,
    /// How many prompts and updates this process has put into the file of a session.
    written: Mutex<HashMap<String, (usize, usize)>>,
}

/// No file of ours is nearly as large.
const LARGEST: u64 = 64 << 20;

impl Store {
    pub fn new(directory: Option<PathBuf>) -> Store {
        let variable = || std::env::var_os("MOCK_STATE_DIR").filter(|d| !d.is_empty());
        Store {
            directory: directory.or_else(|| variable().map(PathBuf::from)),
            written: Mutex::default(),
        }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        // An id from the wire must not leave the directory.
        let plain = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let named = plain && !id.is_empty() && id.len() <= 100;
        let directory = self.directory.as_ref().filter(|_| named)?;
        Some(directory.join(format!("{id}.jsonl")))
    }

    /// A state directory that cannot be written is told once per session, on stderr: the
    /// conversation itself is not disturbed.
    pub fn save(&self, saved: &Saved) {
        let Some(file) = self.file(&saved.id) else {
            return;
        };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let known = written.get(&saved.id).and_then(|(prompts, history)| {
            Some((
                saved.prompts.get(*prompts..)?,
                saved.history.get(*history..)?,
            ))
        });
        let done = match known {
            Some((prompts, history)) => append(&file, &added(saved, prompts, history)),
            // Another process may have left half a line.
            None => replace(&file, &added(saved, &saved.prompts, &saved.history)),
        };
        match done {
            Ok(()) => {
                let lengths = (saved.prompts.len(), saved.history.len());
                written.insert(saved.id.clone(), lengths);
            }
            Err(error) => {
                written.remove(&saved.id);
                eprintln!("mock: the session is not saved: {error}");
            }
        }
    }

    pub fn load(&self, id: &str) -> Option<Saved> {
        self.read(&self.file(id)?).filter(|saved| saved.id == id)
    }

    fn read(&self, file: &Path) -> Option<Saved> {
        let size = fs::metadata(file).ok()?.len();
        if size > LARGEST {
            return None;
        }
        let bytes = fs::read(file).ok()?;
        // What was cut off in the middle was not saved.
        let whole = bytes.get(..=memchr::memrchr(b'\n', &bytes)?)?;
        let lines = serde_json::Deserializer::from_slice(whole).into_iter::<Saved>();
        let mut all: Option<Saved> = None;
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
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.remove(id);
            let _ = fs::remove_file(file);
        }
    }

    pub fn all(&self) -> Vec<Saved> {
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

fn added<'s>(saved: &'s Saved, prompts: &'s [String], history: &'s [Value]) -> Added<'s> {
    Added {
        id: &saved.id,
        cwd: &saved.cwd,
        directories: &saved.directories,
        title: saved.title.as_deref(),
        updated_at: &saved.updated_at,
        turns: saved.turns,
        prompts,
        history,
    }
}

fn line(added: &Added) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(added)?;
    line.push(b'\n');
    Ok(line)
}

fn append(file: &Path, added: &Added) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).open(file)?;
    file.write_all(&line(added)?)
}

fn replace(file: &Path, added: &Added) -> std::io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let fresh = file.with_extension("new");
    fs::write(&fresh, line(added)?)?;
    fs::rename(&fresh, file)
}

/// An id that no other process will give.
pub fn fresh_id(prefix: &str) -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{prefix}-{:016x}{:016x}", random(), random())
}

/// The present time as ISO 8601, in UTC.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let (seconds, millis) = since.map_or((0, 0), |s| (s.as_secs(), s.subsec_millis()));
    iso8601(seconds, millis)
}

fn iso8601(seconds: u64, millis: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted in eras of 400 years that start on the first of March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_named_as_the_calendar_does() {
        assert_eq!(iso8601(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(951_782_399, 5), "2000-02-28T23:59:59.005Z");
        assert_eq!(iso8601(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso8601(1_709_251_200, 0), "2024-03-01T00:00:00.000Z");
    }

    #[test]
    fn ids_from_the_wire_stay_in_the_directory() {
        let store = Store::new(Some(PathBuf::from("state")));
        assert!(store.file("mock-1").is_some());
        for id in ["", "../x", "a/b", "a.b", &"a".repeat(101)] {
            assert!(store.file(id).is_none(), "{id}");
        }
    }

    fn told(saved: &Saved) -> String {
        let history: Vec<String> = saved.history.iter().map(Value::to_string).collect();
        format!(
            "{} {} {}",
            saved.turns,
            saved.prompts.join("+"),
            history.join("+")
        )
    }

    #[test]
    fn a_session_grows_by_lines_and_is_read_as_a_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = || Store::new(Some(dir.path().to_owned()));
        let store = open();
        let mut saved = Saved {
            id: "mock-1".to_owned(),
            ..Saved::default()
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
            told(&open().load("mock-1").expect("saved")),
            "4 p1+p2+p3+p4 1+2+3+4"
        );

        // A death in the middle of a line, and another process that goes on.
        let whole = fs::read(&file).expect("read");
        fs::write(&file, &whole[..whole.len() - 9]).expect("cut");
        let next = open();
        let mut saved = next.load("mock-1").expect("saved");
        assert_eq!(told(&saved), "3 p1+p2+p3 1+2+3");
        saved.prompts.push("p5".to_owned());
        next.save(&saved);
        assert_eq!(
            told(&open().load("mock-1").expect("saved")),
            "3 p1+p2+p3+p5 1+2+3"
        );

        // A conversation that became shorter is written anew.
        saved.prompts.clear();
        next.save(&saved);
        assert_eq!(told(&open().load("mock-1").expect("saved")), "3  1+2+3");
        assert_eq!(open().all().len(), 1);
        next.delete("mock-1");
        assert!(open().load("mock-1").is_none());
    }
}
