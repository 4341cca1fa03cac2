//! Persistent items: one file each, written atomically.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    pub id: String,
    pub name: String,
}

pub struct ItemStore {
    dir: PathBuf,
}

/// Locks the store for one change. Other processes wait.
pub struct StoreLock(#[allow(dead_code)] File);

impl ItemStore {
    pub fn new(dir: &Path) -> ItemStore {
        // `~` is expanded here, because no shell does it.
        let dir = match (dir.strip_prefix("~"), std::env::var_os("HOME")) {
            (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
            _ => dir.to_owned(),
        };
        ItemStore { dir }
    }

    /// All items, in the order of their creation.
    pub fn items(&self) -> Vec<StoredItem> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let ids = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
        let mut items: Vec<StoredItem> = ids.filter_map(|id| self.item(&id)).collect();
        items.sort_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
        items
    }

    pub fn item(&self, id: &str) -> Option<StoredItem> {
        let text = read(&self.path(id)?)?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let name = value.get("name")?.as_str()?.to_owned();
        let id = id.to_owned();
        Some(StoredItem { id, name })
    }

    /// The path of an item. `None` if the id does not have the form of our ids.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let digits = id.strip_prefix("item-")?;
        let fits = !digits.is_empty() && digits.len() < 32;
        let fits = fits && digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
        fits.then(|| self.dir.join(format!("{id}.json")))
    }

    /// Locks the store.
    pub fn lock(&self) -> io::Result<StoreLock> {
        fs::create_dir_all(self.dir.join("keys"))?;
        let file = File::create(self.dir.join(".lock"))?;
        // SAFETY: takes the descriptor of an open file.
        while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(StoreLock(file))
    }

    /// A new id, which was never used before.
    pub fn next_id(&self, _: &StoreLock) -> io::Result<String> {
        let counter = self.dir.join(".next");
        let next: u64 = read(&counter)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(1);
        replace(&counter, format!("{}\n", next + 1).as_bytes())?;
        Ok(format!("item-{next:04}"))
    }

    pub fn put(&self, _: &StoreLock, item: &StoredItem) -> io::Result<()> {
        let path = self.path(&item.id).ok_or(ErrorKind::InvalidInput)?;
        let text = json!({ "id": item.id, "name": item.name }).to_string();
        replace(&path, text.as_bytes())
    }

    pub fn remove(&self, _: &StoreLock, id: &str) -> io::Result<()> {
        fs::remove_file(self.path(id).ok_or(ErrorKind::InvalidInput)?)
    }

    /// The stored result of a key: the fingerprint of the input, and the events.
    pub fn recall(&self, key: u64) -> Option<(u64, Vec<Value>)> {
        let text = read(&self.key_path(key))?;
        let saved: Value = serde_json::from_str(&text).ok()?;
        let fingerprint = saved.get("question")?.as_u64()?;
        let events = saved.get("events")?.as_array()?.clone();
        Some((fingerprint, events))
    }

    /// Stores the result of a key.
    pub fn remember(
        &self,
        _: &StoreLock,
        key: u64,
        fingerprint: u64,
        events: &[Value],
    ) -> io::Result<()> {
        let text = json!({ "question": fingerprint, "events": events }).to_string();
        replace(&self.key_path(key), text.as_bytes())
    }

    fn key_path(&self, key: u64) -> PathBuf {
        self.dir.join("keys").join(format!("{key:016x}"))
    }
}

fn read(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    (size <= MAX_FILE_BYTES).then(|| fs::read_to_string(path).ok())?
}

/// Replaces a file atomically.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    fs::rename(&fresh, path)
}
