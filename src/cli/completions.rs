//! `agentproto completions SHELL`: prints a completion script.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::machine::catalogue::tree;
use crate::cli::{Outcome, io_failure};
use crate::exit;

#[derive(Args, Debug)]
pub struct Completions {
    /// Shell to generate the script for
    shell: Shell,
}

pub fn run(args: &Completions, out: &mut dyn Write) -> Outcome {
    // The generator panics on a closed pipe, so it writes to a buffer.
    let mut script = Vec::new();
    let mut command = show_global_options(tree());
    clap_complete::generate(args.shell, &mut command, "agentproto", &mut script);
    out.write_all(&script).map_err(io_failure)?;
    Ok(exit::CLEAN)
}

/// Shows the options again that the help of subcommands hides.
fn show_global_options(command: Command) -> Command {
    command
        .mut_args(|arg| match arg.is_global_set() {
            true => arg.hide(false),
            false => arg,
        })
        .mut_subcommands(show_global_options)
}
