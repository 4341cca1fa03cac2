//! State that outlives the daemon: a log of every item, and the session records. The log is
//! authoritative. AIP-46 specifies `sessions.json` for users and other programs.

mod blocks;
mod database;
mod file;
mod journal;
mod log;
mod marker;

pub use file::SessionsFile;
pub use log::{Gap, LogRow, LoggedSession, Opened, SessionLog};

/// Opens a file for reading and writing. Other users cannot read it.
fn private_file(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    std::os::unix::fs::OpenOptionsExt::mode(&mut std::fs::File::options(), 0o600)
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(path)
}
