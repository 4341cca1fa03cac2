//! `agentproto rules`.

use std::io::Write;

use clap::Args;

use crate::cli::args::Global;
use crate::cli::machine::page::Page;
use crate::cli::{Outcome, io_failure, terminal};
use crate::exit;
#[cfg(agents)]
use agentproto_aoi::render::docs;
use agentproto_lint::render::{Meta, rules};
use agentproto_lint::{Rule, registry};

#[derive(Args, Debug)]
pub struct Rules {
    /// Whose rules: of `lint`, or of `aoi-lint`
    #[cfg(agents)]
    #[arg(long, value_name = "KIND", default_value = "lint", value_parser = ["lint", "aoi"])]
    pub kind: String,
    #[command(flatten)]
    pub page: Page,
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
    #[cfg(agents)]
    if args.kind == "aoi" {
        let mut all = docs::sorted();
        let cut = args.page.keep("rules aoi", &mut all)?;
        match args.output.as_str() {
            "json" => docs::list_json(&all, out),
            "jsonl" => docs::list_jsonl(&all, meta.elapsed, cut.fields(), out),
            _ => docs::list_human(&all, meta.width, out),
        }
        .map_err(io_failure)?;
        return Ok(exit::CLEAN);
    }
    let mut all: Vec<&Rule> = registry::rules().collect();
    let cut = args.page.keep("rules lint", &mut all)?;
    match args.output.as_str() {
        "json" => rules::render_json(&all, &meta, out),
        "jsonl" => rules::render_jsonl(&all, &meta, cut.fields(), out),
        _ => rules::render_human(&all, &meta, out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
