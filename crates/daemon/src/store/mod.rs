//! What outlives the daemon: a log of every item, and the sessions' records. The log is the
//! authority; `sessions.json` is what the seed names, for people and other programs.

mod file;
mod journal;
mod log;

pub use file::SessionsFile;
pub use log::{Log, Row, Stored};
