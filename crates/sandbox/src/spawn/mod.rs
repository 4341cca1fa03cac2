//! The only way to start a child: by argv, in its own session. Its output is always drained, and it
//! never outlives its owner. The runner, the harness, the AOI engine and the daemon all use it.

mod child;
pub(crate) mod control;
mod launch;
mod output;
mod spare;
mod terminal;

pub use child::{
    AFTER_EOF, AFTER_TERM, Child, Exit, OutputCallback, Sockets, SpawnError, SpawnOptions, Stdio,
    set_nonblocking, spawn,
};
pub use control::TargetExit;
pub use launch::Streams;
pub use output::{Bounds, LineSplitter, OutputLines, Piece, StderrTail};
pub use terminal::PseudoTerminal;

/// A descriptor that async tasks can wait for.
fn watched(
    fd: std::os::fd::OwnedFd,
) -> std::io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    // SAFETY: an owned descriptor stays open and unchanged as long as it exists.
    unsafe { tokio::io::unix::AsyncFd::register(fd) }.map_err(Into::into)
}
