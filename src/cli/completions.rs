//! `agentproto completions SHELL`: prints a completion script.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::{Cli, Outcome, io_failure};
use crate::exit;

pub fn run(shell: Shell, out: &mut dyn Write) -> Outcome {
    // The generator panics on a closed pipe, so it writes to a buffer.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "agentproto", &mut script);
    out.write_all(&script).map_err(io_failure)?;
    Ok(exit::CLEAN)
}
