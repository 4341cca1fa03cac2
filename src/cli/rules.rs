//! `agentproto rules`: lists the rules of a linter.

use std::io::Write;

use clap::Args;
#[cfg(agents)]
use clap::ValueEnum;

use crate::cli::args::{Global, Output};
use crate::cli::machine::page::Page;
use crate::cli::{Outcome, io_failure, terminal};
use crate::exit;
#[cfg(agents)]
use agentproto_aoi::render::docs;
use agentproto_lint::render::{Meta, rules};
use agentproto_lint::{Rule, registry};

#[derive(Args, Debug)]
pub struct Rules {
    /// List the rules of `lint` or of `aoi-lint`
    #[cfg(agents)]
    #[arg(long, value_name = "KIND", value_enum, default_value_t = RuleKind::Lint)]
    pub kind: RuleKind,
    #[command(flatten)]
    pub page: Page,
    /// Output format
    #[arg(long, short = 'o', alias = "format", value_enum, default_value_t = Output::Human)]
    pub output: Output,
}

/// The linter whose rules are listed.
#[cfg(agents)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleKind {
    Lint,
    Aoi,
}

pub fn run(args: &Rules, global: &Global, out: &mut dyn Write) -> Outcome {
    let meta = Meta {
        color: terminal::color(global),
        width: terminal::width(),
        ..Meta::default()
    };
    #[cfg(agents)]
    if args.kind == RuleKind::Aoi {
        let mut all = docs::sorted();
        let range = args.page.select("rules aoi", &mut all)?;
        match args.output {
            Output::Json => docs::list_json(&all, args.page.document_fields(&range), out),
            Output::Jsonl => docs::list_jsonl(&all, meta.elapsed, range.fields(), out),
            Output::Human => docs::list_human(&all, out)
                .and_then(|()| out.write_all(range.describe("rules").as_bytes())),
        }
        .map_err(io_failure)?;
        return Ok(exit::CLEAN);
    }
    let mut all: Vec<&Rule> = registry::rules().collect();
    let range = args.page.select("rules lint", &mut all)?;
    match args.output {
        Output::Json => rules::render_json(&all, &meta, args.page.document_fields(&range), out),
        Output::Jsonl => rules::render_jsonl(&all, &meta, range.fields(), out),
        Output::Human => rules::render_human(&all, &meta, out)
            .and_then(|()| out.write_all(range.describe("rules").as_bytes())),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
