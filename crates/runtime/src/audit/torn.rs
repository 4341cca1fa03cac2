//! A last line without its line break: its writer was killed, or the machine crashed. The line is
//! moved to a file of its own, so that events can be added again. This is only done if the pointer
//! names the event before it. Otherwise the log was cut, and it stays broken.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Event that reports the line.
pub const TORN: &str = "audit.torn";

/// An incomplete last line.
pub struct Torn {
    /// Where the line starts.
    pub start: u64,
    pub line: Vec<u8>,
}

impl Torn {
    /// Writes the line to a new file beside the log, and removes it from the log. Returns the data
    /// of the event that reports it.
    pub fn set_aside(&self, log: &File, path: &Path) -> io::Result<Value> {
        let (mut file, moved_to) = free_name(path)?;
        file.write_all(&self.line)?;
        log.set_len(self.start)?;
        let name = moved_to.file_name().unwrap_or_default();
        Ok(json!({
            "why": "the last line was incomplete",
            "bytes": self.line.len(),
            "moved_to": name.to_string_lossy(),
        }))
    }
}

/// A new file `LOG.torn-N`.
fn free_name(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut number = 1;
    loop {
        let moved_to = path.with_file_name(format!("{name}.torn-{number}"));
        let mut options = OpenOptions::new();
        match options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&moved_to)
        {
            Ok(file) => return Ok((file, moved_to)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}
