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

/// Turns huge pages on or off. Only `lint` uses them, for many files. With the many small allocations
/// of a host, they would take a multiple of the memory that is used. Other commands need little
/// memory, and clearing the first two huge pages can take longer than the rest of a start. The helper
/// turns them on again, so that agents run with the machine's own setting.
#[cfg(agents)]
fn set_huge_pages(on: bool) {
    // SAFETY: only sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_long::from(!on), 0, 0, 0) };
}

/// Runs before the allocator takes memory, which happens before `main`.
#[cfg(agents)]
#[used]
#[unsafe(link_section = ".init_array.00100")]
static START_WITHOUT_HUGE_PAGES: extern "C" fn() = {
    extern "C" fn start() {
        set_huge_pages(false);
    }
    start
};

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
