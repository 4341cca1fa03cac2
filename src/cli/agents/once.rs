//! `--idempotency-key`: stores the result of a call under its key, and returns it when the call is
//! repeated. `$AGENTPROTO_HOME/idempotency` has one file per key, which is written atomically. The
//! oldest files are deleted.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use agentproto_text::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cli::machine::stream::StoredOutput;
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_runtime::home::{self, Home};

const DIR: &str = "idempotency";
/// Maximum number of stored results.
const MAX_RESULTS: usize = 1000;
/// Maximum age of a stored result.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The result of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    /// Digest of the arguments and of the input.
    request: String,
    code: u8,
    stdout: String,
    /// Whether the output was too long to be stored. Then only its first and last line are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

pub enum Claim {
    /// The call was done before.
    Done(StoredResult),
    /// The caller must do it. Others with this key wait.
    New(ClaimedKey),
}

pub struct StoredResult(Record);

pub struct ClaimedKey {
    path: PathBuf,
    request: String,
    _lock: Lock,
}

/// Claims the key. `payload` is what the call reads besides its arguments.
pub fn claim(key: &str, words: &[OsString], payload: &[u8]) -> Result<Claim, Failure> {
    let home = Home::from_env()?;
    let dir = home.dir(DIR)?;
    let name = hex(&Sha256::digest(key));
    let lock = Lock::take(&dir.join(format!("{name}.lock"))).map_err(store_failure)?;
    let path = dir.join(format!("{name}.json"));
    let request = digest(words, payload);
    match read(&path) {
        Some(record) if record.request == request => Ok(Claim::Done(StoredResult(record))),
        Some(_) => {
            let message = "this idempotency key was used for a different call: nothing was done";
            Err(Failure::new(exit::DATA, message)
                .typed("idempotency_conflict")
                .hint("use a new key for a new call; a repeated call needs the same arguments and input"))
        }
        None => {
            prune(&dir);
            Ok(Claim::New(ClaimedKey {
                path,
                request,
                _lock: lock,
            }))
        }
    }
}

impl StoredResult {
    pub fn print(self, is_machine: bool, out: &mut dyn Write) -> Outcome {
        let record = self.0;
        for line in record.stdout.split_inclusive('\n') {
            let replayed = is_machine.then(|| replayed(line, record.is_cut)).flatten();
            let line = replayed.as_deref().unwrap_or(line);
            out.write_all(line.as_bytes()).map_err(io_failure)?;
        }
        out.flush().map_err(io_failure)?;
        Ok(record.code)
    }
}

/// Marks the summary as a replay.
fn replayed(line: &str, is_cut: bool) -> Option<String> {
    let mut event: Value = serde_json::from_str(line).ok()?;
    let event = event.as_object_mut()?;
    if event.get("type")? != "aoi:summary" {
        return None;
    }
    event.insert("replayed".to_owned(), true.into());
    if is_cut {
        event.insert("count".to_owned(), 0.into());
        event.insert("truncated".to_owned(), true.into());
    }
    let text = serde_json::to_string(event).ok()?;
    Some(format!("{text}\n"))
}

impl ClaimedKey {
    /// Stores the result, so that the call is not done again.
    pub fn store(self, code: u8, stored: &StoredOutput) -> Result<(), Failure> {
        let mut stdout = String::from_utf8_lossy(&stored.bytes).into_owned();
        if !stored.is_complete {
            let first = stdout.find('\n').map_or(0, |at| at + 1);
            stdout.truncate(first);
            stdout.push_str(&String::from_utf8_lossy(&stored.last));
        }
        let record = Record {
            request: self.request,
            code,
            stdout,
            is_cut: !stored.is_complete,
        };
        let bytes = serde_json::to_vec(&record)
            .map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
        home::write_private(&self.path, &bytes).map_err(store_failure)
    }
}

fn store_failure(error: std::io::Error) -> Failure {
    let message = format!("cannot store results by idempotency key: {error}");
    Failure::new(exit::CANT_CREATE, message).hint("check $AGENTPROTO_HOME")
}

/// Digest of the arguments without the key, the working directory, and the input.
fn digest(words: &[OsString], payload: &[u8]) -> String {
    let mut sum = Sha256::new();
    let mut part = |bytes: &[u8]| {
        sum.update(bytes.len().to_be_bytes());
        sum.update(bytes);
    };
    if let Ok(here) = std::env::current_dir() {
        part(here.as_os_str().as_bytes());
    }
    let mut skip = false;
    for word in words {
        if std::mem::take(&mut skip) {
            continue;
        }
        match word.as_bytes() {
            b"--idempotency-key" => skip = true,
            word if word.starts_with(b"--idempotency-key=") => {}
            word => part(word),
        }
    }
    part(payload);
    hex(&sum.finalize())
}

/// A record that cannot be read counts as missing.
fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Deletes old results, and the oldest ones above the limit.
fn prune(dir: &Path) {
    let now = SystemTime::now();
    let mut results: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let written = entry.metadata().and_then(|about| about.modified());
        let Ok(written) = written else { continue };
        let is_old = now.duration_since(written).is_ok_and(|age| age > MAX_AGE);
        match path.extension().is_some_and(|ending| ending == "json") {
            // A lock that a killed process left behind.
            false if is_old => drop(fs::remove_file(&path)),
            false => {}
            true if is_old => drop(fs::remove_file(&path)),
            true => results.push((written, path)),
        }
    }
    if results.len() >= MAX_RESULTS {
        results.sort();
        for (_, path) in results.iter().take(results.len() + 1 - MAX_RESULTS) {
            let _ = fs::remove_file(path);
        }
    }
}

/// A lock whose file is deleted when it is dropped.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(path: &Path) -> std::io::Result<Lock> {
        loop {
            let file = fs::OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(path)?;
            // SAFETY: `file` is an open descriptor.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
                let error = std::io::Error::last_os_error();
                match error.kind() {
                    std::io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            }
            // The previous holder may have deleted the file.
            let is_there = fs::metadata(path)
                .is_ok_and(|there| file.metadata().is_ok_and(|ours| ours.ino() == there.ino()));
            if is_there {
                return Ok(Lock {
                    path: path.to_owned(),
                    _file: file,
                });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_request_is_identified_by_its_arguments_and_input() {
        let base = digest(&words("install x --idempotency-key a"), b"");
        assert_eq!(base, digest(&words("install x --idempotency-key=b"), b""));
        assert_eq!(base, digest(&words("install x"), b""));
        assert_ne!(base, digest(&words("install y"), b""));
        assert_ne!(base, digest(&words("install x"), b"in"));
        assert_ne!(digest(&words("a bc"), b""), digest(&words("ab c"), b""));
    }

    #[test]
    fn the_number_of_results_is_limited() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..MAX_RESULTS + 5 {
            fs::write(dir.path().join(format!("{number}.json")), "{}").expect("written");
        }
        prune(dir.path());
        let left = fs::read_dir(dir.path()).expect("there").count();
        assert_eq!(left, MAX_RESULTS - 1);
    }

    #[test]
    fn a_summary_says_that_it_is_a_replay() {
        let line = "{\"type\":\"aoi:summary\",\"ok\":true,\"count\":3}\n";
        let replayed_line = replayed(line, false).expect("a summary");
        assert_eq!(
            replayed_line,
            "{\"type\":\"aoi:summary\",\"ok\":true,\"count\":3,\"replayed\":true}\n"
        );
        assert!(
            replayed(line, true)
                .expect("a summary")
                .contains("\"truncated\":true")
        );
        assert_eq!(replayed("{\"type\":\"rule\"}\n", false), None);
        assert_eq!(replayed("plain\n", false), None);
    }
}
