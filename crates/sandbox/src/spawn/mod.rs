//! One way to start a child: by argv, in a session of its own, always drained, always gone
//! in the end. The runner, the harness, the AOI engine and the daemon all come through here.

mod child;
pub mod control;
mod launch;
mod output;
mod spare;
mod terminal;

pub use child::{
    AFTER_EOF, AFTER_TERM, Child, Exit, Listener, Options, Sockets, SpawnError, Stdio,
    set_nonblocking, spawn,
};
pub use launch::Streams;
pub use output::{Bounds, Lines, Piece, Splitter, Tail};
pub use terminal::Terminal;

/// A descriptor that tasks can wait for.
fn watched(
    fd: std::os::fd::OwnedFd,
) -> std::io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    // SAFETY: an owned descriptor stays open and the same for as long as it lives.
    unsafe { tokio::io::unix::AsyncFd::register(fd) }.map_err(Into::into)
}
