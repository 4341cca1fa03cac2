//! `agentproto man`: one manual page for the binary and all its subcommands.

use std::io::{self, Write};

use clap::{Args, Command};

use crate::cli::machine::catalogue::tree;
use crate::cli::{Outcome, io_failure};
use crate::exit;

/// `man` takes no arguments of its own.
#[derive(Args, Debug)]
pub struct Man {}

pub fn run(out: &mut dyn Write) -> Outcome {
    let page = page().map_err(io_failure)?;
    // mandoc warns about breaks around an empty line.
    let page = String::from_utf8_lossy(&page).replace(".br\n\n.br\n", ".sp\n");
    out.write_all(page.as_bytes()).map_err(io_failure)?;
    Ok(exit::CLEAN)
}

fn page() -> io::Result<Vec<u8>> {
    let command = tree();
    let mut page = Vec::new();
    let mut main = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut main)?;
    for line in lines(&main) {
        // The subcommands are on this page; `agentproto-lint(1)` would be a separate page.
        let line = match line.strip_suffix("(1)") {
            Some(name) if name.starts_with("agentproto\\-") => name.replacen("\\-", " ", 1),
            // The date may be empty, but not missing.
            _ if line.starts_with(".TH ") => line.replacen(" 1  ", " 1 \"\" ", 1),
            _ if line == ".SH EXTRA" => ".SH \"EXIT STATUS\"".to_owned(),
            _ => line.to_owned(),
        };
        writeln!(page, "{}", line.trim_end())?;
    }
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        subcommand(sub, &mut page)?;
    }
    Ok(page)
}

/// Writes a section for a subcommand. Sections that clap would create become subsections.
fn subcommand(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    if command.get_name() == "help" {
        return Ok(());
    }
    writeln!(page, ".SH \"{}\"", command.get_name().to_uppercase())?;
    let man = clap_mangen::Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_description_section(&mut parts)?;
    man.render_synopsis_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    let mut is_global_section = false;
    for line in lines(&parts) {
        match line.strip_prefix(".SH ") {
            // Global options are listed once, at the top.
            Some(title) => {
                is_global_section = title.contains("GLOBAL");
                match title {
                    "SYNOPSIS" => writeln!(page, ".SS Usage")?,
                    "OPTIONS" => writeln!(page, ".SS Options")?,
                    _ => {}
                }
            }
            None if is_global_section || line.starts_with(".ie") || line.starts_with(".el") => {}
            None => writeln!(page, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

fn lines(roff: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(roff);
    text.lines().map(str::to_owned).collect()
}
