//! Sessions that outlive a process: one JSON file each, in the directory that `MOCK_STATE_DIR`
//! names. Without it they live in memory only.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
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

#[derive(Debug)]
pub struct Store {
    directory: Option<PathBuf>,
}

/// No file of ours is nearly as large.
const LARGEST: u64 = 64 << 20;

impl Store {
    pub fn new(directory: Option<PathBuf>) -> Store {
        let variable = || std::env::var_os("MOCK_STATE_DIR").filter(|d| !d.is_empty());
        Store {
            directory: directory.or_else(|| variable().map(PathBuf::from)),
        }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        // An id from the wire must not leave the directory.
        let plain = id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let named = plain && !id.is_empty() && id.len() <= 100;
        let directory = self.directory.as_ref().filter(|_| named)?;
        Some(directory.join(format!("{id}.json")))
    }

    /// A state directory that cannot be written is told once per session, on stderr: the
    /// conversation itself is not disturbed.
    pub fn save(&self, saved: &Saved) {
        let Some(file) = self.file(&saved.id) else {
            return;
        };
        let write = || {
            if let Some(directory) = file.parent() {
                fs::create_dir_all(directory)?;
            }
            let fresh = file.with_extension("new");
            fs::write(&fresh, serde_json::to_vec(saved)?)?;
            fs::rename(&fresh, &file)
        };
        let written: std::io::Result<()> = write();
        if let Err(error) = written {
            eprintln!("mock: the session is not saved: {error}");
        }
    }

    pub fn load(&self, id: &str) -> Option<Saved> {
        self.read(&self.file(id)?).filter(|saved| saved.id == id)
    }

    fn read(&self, file: &std::path::Path) -> Option<Saved> {
        let size = fs::metadata(file).ok()?.len();
        if size > LARGEST {
            return None;
        }
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    pub fn delete(&self, id: &str) {
        if let Some(file) = self.file(id) {
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
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .filter_map(|path| self.read(&path))
            .collect()
    }
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
        let store = Store {
            directory: Some(PathBuf::from("state")),
        };
        assert!(store.file("mock-1").is_some());
        for id in ["", "../x", "a/b", "a.b", &"a".repeat(101)] {
            assert!(store.file(id).is_none(), "{id}");
        }
    }
}
