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
