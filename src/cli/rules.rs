//! `agentproto rules`.

use std::io::Write;

use clap::Args;

use super::args::Global;
use super::{Outcome, io_failure, terminal};
use crate::exit;
use crate::lint::{Rule, registry};
#[cfg(target_os = "linux")]
use crate::report::aoi_lint::docs;
use crate::report::{Meta, rules};

#[derive(Args, Debug)]
pub struct Rules {
    /// Whose rules: of `lint`, or of `aoi-lint`
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "KIND", default_value = "lint", value_parser = ["lint", "aoi"])]
    pub kind: String,
    /// Output format
    #[arg(long, short = 'o', alias = "format", default_value = "human", value_parser = ["human", "json", "jsonl"])]
    pub output: String,
}

pub fn run(args: &Rules, global: &Global, out: &mut dyn Write) -> Outcome {
    let meta = Meta {
        color: terminal::color(global),
        width: terminal::width(),
        ..Meta::default()
    };
    #[cfg(target_os = "linux")]
    if args.kind == "aoi" {
        match args.output.as_str() {
            "json" => docs::list_json(&meta, out),
            "jsonl" => docs::list_jsonl(&meta, out),
            _ => docs::list_human(&meta, out),
        }
        .map_err(io_failure)?;
        return Ok(exit::CLEAN);
    }
    let all: Vec<&Rule> = registry::rules().collect();
    match args.output.as_str() {
        "json" => rules::render_json(&all, &meta, out),
        "jsonl" => rules::render_jsonl(&all, &meta, out),
        _ => rules::render_human(&all, &meta, out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
