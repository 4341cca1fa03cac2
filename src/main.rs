//! The command line of agentproto.

// Machine mode is shared by all commands, and the linter is built without some of them.
#![cfg_attr(not(agents), allow(dead_code))]

mod cli;
mod exit;

use std::io::Write;

/// Documents consist of many small strings and lists, which are allocated and freed by the
/// thousand.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    #[cfg(agents)]
    agentproto_sandbox::helper::run_if_helper();
    let code = cli::main();
    let _ = std::io::stdout().flush();
    exit_now(code)
}

/// Ends the process without freeing memory page by page. Freeing takes a tenth of the time of a run
/// over one file, and the kernel reclaims the memory at once.
#[cfg(unix)]
fn exit_now(code: u8) -> ! {
    // SAFETY: ends the process; output is flushed.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(not(unix))]
fn exit_now(code: u8) -> ! {
    std::process::exit(code.into())
}
