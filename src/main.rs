//! The command line of agentproto.

// Machine mode serves every command, also those that the linter is built without.
#![cfg_attr(not(agents), allow(dead_code))]

mod cli;
mod exit;

use std::io::Write;

/// Documents are many small strings and lists, made and dropped by the thousand.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    #[cfg(agents)]
    agentproto_sandbox::helper::enter_if_asked();
    let code = cli::main();
    let _ = std::io::stdout().flush();
    leave(code)
}

/// Ends the process without giving memory back page by page: that is a tenth of the time of a
/// run over one file, and the kernel takes it at once.
#[cfg(unix)]
fn leave(code: u8) -> ! {
    // SAFETY: ends the process; output is flushed.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(not(unix))]
fn leave(code: u8) -> ! {
    std::process::exit(code.into())
}
