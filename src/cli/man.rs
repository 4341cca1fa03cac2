//! `agentproto man`: the manual page, of the binary and of every subcommand.

use std::io::Write;

use clap::CommandFactory;

use super::{Cli, Outcome, io_failure};
use crate::exit;

pub fn run(out: &mut dyn Write) -> Outcome {
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone())
        .render(out)
        .map_err(io_failure)?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let page = clap_mangen::Man::new(sub.clone());
        page.render_synopsis_section(out).map_err(io_failure)?;
        page.render_description_section(out).map_err(io_failure)?;
        page.render_options_section(out).map_err(io_failure)?;
    }
    Ok(exit::CLEAN)
}
