//! `agentproto rules`.

use std::io::Write;

use super::args::{Global, Listing};
use super::{Outcome, io_failure, terminal};
use crate::exit;
use crate::lint::{Rule, registry};
use crate::report::{Meta, rules};

pub fn run(args: &Listing, global: &Global, out: &mut dyn Write) -> Outcome {
    let all: Vec<&Rule> = registry::rules().collect();
    let meta = Meta {
        color: terminal::color(global),
        width: terminal::width(),
        ..Meta::default()
    };
    match args.output.as_str() {
        "json" => rules::render_json(&all, &meta, out),
        "jsonl" => rules::render_jsonl(&all, &meta, out),
        _ => rules::render_human(&all, &meta, out),
    }
    .map_err(io_failure)?;
    Ok(exit::CLEAN)
}
