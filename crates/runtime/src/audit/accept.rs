//! Accepts a broken log: moves it aside, so that a new one can be started. The next event says so.

use std::io;
use std::path::PathBuf;

use super::{Locked, Log, default_path, head_path, unwritable, verify};
use crate::error::{Code, Error};
use crate::home::Home;

/// Moves the broken log of a home and its pointer aside, and returns the new path of the log. Returns
/// `None` if the log is not broken.
pub fn accept(home: &Home) -> Result<Option<PathBuf>, Error> {
    let path = default_path(home);
    match verify(home, &path, &[]) {
        Ok(_) => return Ok(None),
        Err(error) if error.code != Code::AuditBroken => return Err(error),
        Err(_) => {}
    }
    let failed = |e: io::Error| unwritable(&path, &e);
    let log = Log::open(&path).map_err(failed)?;
    // No other process writes to it now.
    let _locked = Locked::new(&log.file, libc::LOCK_EX).map_err(failed)?;
    let name = |path: &std::path::Path, number: u32| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(format!("{name}.accepted-{number}"))
    };
    let pointer = head_path(&path);
    let is_free =
        |number: &u32| !name(&path, *number).exists() && !name(&pointer, *number).exists();
    let number = (1..u32::MAX).find(is_free).unwrap_or(u32::MAX);
    let moved_to = name(&path, number);
    std::fs::rename(&path, &moved_to).map_err(failed)?;
    std::fs::rename(&pointer, name(&pointer, number)).map_err(failed)?;
    Ok(Some(moved_to))
}
